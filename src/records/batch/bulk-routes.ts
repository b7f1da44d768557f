// The bulk route. An `Idempotency-Key` applies to requests that are all or nothing, since only those are
// one transaction; with `atomic: false` it is a 400.
// Contract: decisions#bulk, decisions#idempotency.
import { Elysia } from 'elysia';
import type { App } from '../../app.ts';
import { invalidField } from '../../errors.ts';
import { DRY_RUN, runOrTry } from '../../http/dry-run.ts';
import { guard } from '../../http/guard.ts';
import { parameters } from '../../http/parameters.ts';
import { route } from '../../http/route.ts';
import { LIMITS } from '../../limits.ts';
import { keepGarbageSmall } from '../../runtime/garbage.ts';
import { EXAMPLE_VALUES } from '../record.ts';
import { idempotently } from '../write/idempotency.ts';
import { admitBulk, bulkAtomic, bulkEach } from './bulk.ts';
import { BulkRequest, BulkSchema, readBulk } from './bulk-request.ts';

const BULK = route({
  id: 'bulkRecords',
  tag: 'Records',
  summary: 'Create, change, upsert and delete many records',
  description: `Up to ${LIMITS.bulk.operationsMax} operations, in order. All or nothing, unless \`atomic\` is false: then each
has its own result. An upsert changes the record that has its value of the unique field \`by\`, or creates one. The problems of a failed request name each operation at fault as \`operations.<index>\`. An operation with
an \`etag\` fails with \`PRECONDITION_FAILED\` when the record has changed; the request is a 412 when nothing else failed.`,
  access: 'tenant',
  query: parameters(DRY_RUN),
  body: BulkRequest,
  example: {
    operations: [
      { op: 'create', data: EXAMPLE_VALUES },
      { op: 'create', data: { ...EXAMPLE_VALUES, title: 'Étoile', country: 'FR' } },
    ],
  },
  ok: [200, BulkSchema],
  responseHeaders: { 'Idempotent-Replayed': '`true` on a replayed answer' },
  errors: ['CONFLICT', 'PRECONDITION_FAILED', 'BUSINESS_RULE_ERROR', 'IDEMPOTENCY_MISMATCH'],
  requestHeaders: ['Idempotency-Key'],
});

export function bulkRoutes(app: App) {
  return new Elysia({ name: 'bulk' }).use(guard(app)).post(
    '/api/entities/:entityName/records/bulk',
    async ({ caller, params, query, body, request }) => {
      const { entityName } = params;
      const { operations, isAtomic } = readBulk(body);
      await admitBulk(app, caller, entityName, operations, isAtomic);
      if (!isAtomic && request.headers.has('idempotency-key')) {
        throw invalidField('Idempotency-Key', 'applies only to operations that are all or nothing');
      }
      const each = (used: App) => bulkEach(used, caller, entityName, operations);
      const atomic = (used: App) =>
        bulkAtomic(used, caller, entityName, operations, (work) =>
          idempotently(used, caller, request, body, { kind: 'bulk', entityName }, work),
        );
      const collected = keepGarbageSmall();
      return runOrTry(app, { caller, query }, isAtomic ? atomic : each).finally(collected);
    },
    BULK,
  );
}
