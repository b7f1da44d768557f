// The routes of the past of records: what the caller may see of it is decided by the operations.
// Failures: those of the operations: 400, 403, 404.
// Contract: history#history.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { okBounded } from '../http/bounded-response.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { guard } from '../http/guard.ts';
import { route } from '../http/route.ts';
import { HistoryQuery, HistorySchema, readHistory } from './history.ts';

const TAG = 'Records';

const HISTORY = route({
  id: 'getRecordHistory',
  tag: TAG,
  summary: 'Get the history of a record',
  description: `Its versions, newest first: who made each, when, and what it changed in the fields that the caller sees. Also of a
deleted record. As long as events are kept.`,
  access: 'tenant',
  mayCall: mayFollow,
  query: HistoryQuery,
  ok: [200, HistorySchema],
});

const RECORD = '/api/entities/:entityName/records/:id';

export function historyRoutes(app: App) {
  return new Elysia({ name: 'history' })
    .use(guard(app))
    .get(
      `${RECORD}/history`,
      async ({ caller, params, query }) =>
        okBounded(await readHistory(app, caller, params.entityName, params.id, query)),
      HISTORY,
    );
}
