// The routes of the past of records; the operations decide what the caller may see of it.
// Failures: those of the operations: 400, 403, 404, 409, 412, 422.
// Contract: history#history, history#deleted-records, history#restore, history#revert.
import { Elysia } from 'elysia';
import { callerNow } from '../access/authenticate.ts';
import type { App } from '../app.ts';
import { noteLocksOf } from '../entities/locks.ts';
import { okBounded } from '../http/bounded-response.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { DRY_RUN, runOrTry } from '../http/dry-run.ts';
import { guard } from '../http/guard.ts';
import { mayTakeLong } from '../http/own-idle.ts';
import { parameters } from '../http/parameters.ts';
import { ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { listInput } from '../records/read/parameters.ts';
import { RecordSchema } from '../records/record.ts';
import { etagOf, shape, versionsFrom } from '../records/row.ts';
import { idempotently } from '../records/write/idempotency.ts';
import { DeletedPageSchema, DeletedQuery, listDeleted } from './deleted.ts';
import { HistoryQuery, HistorySchema, readHistory } from './history.ts';
import { RestoreInput, requireRightToRestore, restoreRecord } from './restore.ts';
import { Reverted, RevertInput, revertChanges } from './revert.ts';

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

const RESTORE = route({
  id: 'restoreRecord',
  tag: TAG,
  summary: 'Restore a version of a record',
  description: `Gives a record the values of one of its versions, as a new change; a deleted record comes back under its id. Needs
the right to update the entity, for a deleted record to create in it. 409 with everything that is in the way in \`details\`.`,
  access: 'tenant',
  query: parameters(DRY_RUN),
  body: RestoreInput,
  ok: [200, RecordSchema],
  responseHeaders: {
    ETag: 'the version of the record, for If-Match and If-None-Match',
    'Idempotent-Replayed': '`true` on a replayed answer',
  },
  errors: ['CONFLICT', 'PRECONDITION_FAILED', 'BUSINESS_RULE_ERROR', 'IDEMPOTENCY_MISMATCH'],
  requestHeaders: ['If-Match', 'Idempotency-Key'],
});

const DELETED = route({
  id: 'listDeletedRecords',
  tag: TAG,
  summary: 'List deleted records',
  description: `The records that have been deleted and have not come back, as they were last, with \`deletedAt\` and \`deletedBy\`, the
newest deletion first without \`sort\`. They can be filtered and sorted by these too. As long as events are kept. \`search\` and
\`with=etags\` do not apply.`,
  access: 'tenant',
  mayCall: mayFollow,
  query: DeletedQuery,
  ok: [200, DeletedPageSchema],
});

const REVERT = route({
  id: 'revertChanges',
  tag: 'Events',
  summary: 'Undo what was done in a span, or by an import',
  description: `Newest first, each undo as a change of its own (\`triggered_by: "system"\`): what was created is deleted, what was
changed gets its former values, what was deleted comes back. Records that somebody changed afterwards are listed in \`conflicts\` and
left alone. After 40 seconds the call ends with \`hasMore: true\`: run it again to go on.`,
  access: 'admin',
  body: RevertInput,
  example: { entity: 'companies', from: '2026-03-01T09:00:00.000Z', to: '2026-03-01T10:00:00.000Z', dryRun: true },
  ok: [200, Reverted],
});

const RECORDS = '/api/entities/:entityName/records';
const RECORD = '/api/entities/:entityName/records/:id';

export function historyRoutes(app: App) {
  return new Elysia({ name: 'history' })
    .use(guard(app))
    .get(
      `${RECORDS}/deleted`,
      async ({ caller, params, query }) =>
        okBounded(await listDeleted(app, caller, params.entityName, listInput(query))),
      DELETED,
    )
    .get(
      `${RECORD}/history`,
      async ({ caller, params, query }) =>
        okBounded(await readHistory(app, caller, params.entityName, params.id, query)),
      HISTORY,
    )
    .post(
      `${RECORD}/restore`,
      async ({ caller, params, query, body, request }) => {
        const { entityName, id } = params;
        requireRightToRestore(caller, entityName);
        const versions = versionsFrom(request.headers.get('if-match'));
        const target = { kind: 'restore', entityName, id: id.toLowerCase() } as const;
        await noteLocksOf(app, caller, entityName);
        return runOrTry(app, { caller, query }, (used) =>
          idempotently(used, caller, request, body, target, async (context) => {
            const { row, scope } = await restoreRecord(context, entityName, id, body, versions);
            return ok(shape(row, scope.entity, scope.fields), { etag: etagOf(row, scope) });
          }),
        );
      },
      RESTORE,
    )
    .post(
      '/api/changes/revert',
      async ({ caller, body, request }) =>
        mayTakeLong(app, request, async () =>
          ok(await revertChanges(app, caller, body, callerNow(app, request, caller))),
        ),
      REVERT,
    );
}
