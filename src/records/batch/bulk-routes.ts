// The bulk route, and its shapes in the API document. An `Idempotency-Key` is heeded for requests
// that are all or nothing, since only those are one transaction.
// Contract: decisions#bulk.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../../app.ts';
import { invalidField } from '../../errors.ts';
import { guard } from '../../http/guard.ts';
import { describe, open } from '../../http/openapi.ts';
import { ok } from '../../http/reply.ts';
import { LIMITS } from '../../limits.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { RecordSchema, ValuesSchema } from '../routes.ts';
import { idempotently } from '../write/idempotency.ts';
import { admitBulk, bulkAtomic, bulkEach } from './bulk.ts';
import { readBulk } from './bulk-request.ts';

const Kind = Type.Union([Type.Literal('create'), Type.Literal('update'), Type.Literal('delete')]);

const BulkBody = Type.Object({
  operations: Type.Array(
    Type.Object({
      op: Kind,
      id: Type.Optional(Type.String({ description: 'of the record to update or delete' })),
      data: Type.Optional(ValuesSchema),
    }),
    { minItems: 1, maxItems: LIMITS.bulk.operationsMax },
  ),
  atomic: Type.Optional(Type.Boolean({ default: true, description: 'all or nothing; else a result per operation' })),
});

const BulkSchema = Type.Object({
  results: Type.Array(
    Type.Object({
      index: Type.Integer({ minimum: 0, description: "the operation's place in the request" }),
      op: Kind,
      id: Type.Union([Type.String(), Type.Null()]),
      success: Type.Boolean(),
      data: Type.Optional(RecordSchema),
      error: Type.Optional(
        Type.Object({
          code: Type.String(),
          message: Type.String(),
          details: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
        }),
      ),
    }),
  ),
  succeeded: Type.Integer({ minimum: 0 }),
  failed: Type.Integer({ minimum: 0 }),
});

const BULK = {
  access: 'tenant',
  json: true,
  params: t.Object({ entityName: t.String() }),
  body: open({}),
  detail: describe({
    id: 'bulkRecords',
    tag: 'Records',
    summary: 'Create, change and delete many records',
    description: `Up to ${LIMITS.bulk.operationsMax} operations in their order. All or nothing, unless \`atomic\` is false: then
each has its own result. A failure of the whole names each operation at fault as \`operations.<index>\`.`,
    body: BulkBody,
    ok: [200, BulkSchema],
    headers: { 'Idempotent-Replayed': '`true` on an answer that was given before' },
    errors: ['CONFLICT', 'BUSINESS_RULE_ERROR', 'IDEMPOTENCY_MISMATCH'],
    takes: ['Idempotency-Key'],
  }),
} as const;

export function bulkRoutes(app: App) {
  return new Elysia({ name: 'bulk' }).use(guard(app)).post(
    '/api/entities/:entityName/records/bulk',
    async ({ caller, params, body, request }) => {
      const { entityName } = params;
      const { operations, isAtomic } = readBulk(body as JsonObject);
      await admitBulk(app, caller, entityName, operations);
      if (!isAtomic) {
        if (request.headers.has('idempotency-key')) {
          throw invalidField('Idempotency-Key', 'is heeded only for operations that are all or nothing');
        }
        return ok(await bulkEach(app, caller, entityName, operations));
      }
      return bulkAtomic(app, caller, entityName, operations, (work) =>
        idempotently(app, caller, request, body, { kind: 'bulk', entityName }, async (context) =>
          ok(await work(context)),
        ),
      );
    },
    BULK,
  );
}
