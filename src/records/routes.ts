// The records' routes: list, read, create, change, delete; and the shapes of records in the API
// document, which depend on the entity but for the system fields.
// Contract: interface#records, decisions#records.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import { requireRight, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { Deleted, describe, nullable, pageSchema, Timestamp, Uuid } from '../http/openapi.ts';
import { created, jsonText, ok } from '../http/reply.ts';
import type { JsonObject } from '../runtime/text.ts';
import { listRecords } from './read/list.ts';
import { ListQuery, listInput, ReadQuery, readInput } from './read/parameters.ts';
import { readRecord } from './read/read.ts';
import { etagOf, isNamedIn, shape, versionsFrom } from './shape.ts';
import { idempotently } from './write/idempotency.ts';
import { autocommit, createRecord, deleteRecord, updateRecord, type Written } from './write/write.ts';

const EXAMPLE_VALUES = { title: 'Replace the pump', status: 'open', amount: 120.5 };

/** A flat record in the API document; its own fields depend on the entity. */
export const RecordSchema = Type.Object(
  {
    id: Uuid,
    entityId: Uuid,
    createdAt: Timestamp,
    updatedAt: Timestamp,
    createdBy: Type.Union([Type.String(), Type.Null()]),
    updatedBy: Type.Union([Type.String(), Type.Null()]),
  },
  {
    $id: 'Record',
    additionalProperties: true,
    description: 'System fields, and one member per field of the entity',
    examples: [
      {
        id: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
        entityId: '01993b1b-0a10-7d3e-8c44-1f2a3b4c5d6e',
        createdAt: '2026-03-01T09:30:00.000Z',
        updatedAt: '2026-03-01T09:30:00.000Z',
        createdBy: '01993b1a-55c0-7a6b-b1d2-9e8f7a6b5c4d',
        updatedBy: '01993b1a-55c0-7a6b-b1d2-9e8f7a6b5c4d',
        ...EXAMPLE_VALUES,
      },
    ],
  },
);

/** A record's own values in a request; the entity's fields say what fits. */
export const ValuesSchema = Type.Object(
  {},
  { $id: 'Values', additionalProperties: true, description: 'Values by field key', examples: [EXAMPLE_VALUES] },
);

/** A page of records in the API document. */
export const RecordPageSchema = Type.Composite([
  Type.Omit(pageSchema(RecordSchema), ['total', 'totalPages']),
  Type.Object({
    total: nullable(Type.Integer({ minimum: 0, examples: [1], description: 'null with `count=none`' })),
    totalPages: nullable(Type.Integer({ minimum: 0, examples: [1] })),
    nextCursor: Type.Optional(
      Type.Union([Type.String(), Type.Null()], {
        description: 'in answers to `cursor`; null on the last page',
        examples: [null],
      }),
    ),
  }),
]);

const EntityParams = t.Object({ entityName: t.String() });
const RecordParams = t.Object({ entityName: t.String(), id: t.String() });
const Body = t.Object({}, { additionalProperties: true });

const TAG = 'Records';
const ETAG = { ETag: 'the version of the record, for If-Match and If-None-Match; not sent with expanded relations' };

const LIST = {
  access: 'tenant',
  params: EntityParams,
  query: ListQuery,
  detail: describe({
    id: 'listRecords',
    tag: TAG,
    summary: 'List records',
    description: `Lists the records that the caller may see, newest first unless \`sort\` says otherwise. A parameter
\`filter.{fieldKey}\` keeps those with that very value; \`filters\` says more and is to be preferred.`,
    ok: [200, RecordPageSchema],
  }),
} as const;

const READ = {
  access: 'tenant',
  params: RecordParams,
  query: ReadQuery,
  detail: describe({
    id: 'getRecord',
    tag: TAG,
    summary: 'Get a record',
    ok: [200, RecordSchema],
    bare: { 304: 'The record still is what If-None-Match names.' },
    headers: ETAG,
    takes: ['If-None-Match'],
  }),
} as const;

const CREATE = {
  access: 'tenant',
  json: true,
  params: EntityParams,
  body: Body,
  detail: describe({
    id: 'createRecord',
    tag: TAG,
    summary: 'Create a record',
    description: `Creates a record from values by field key; \`{ "data": { ... } }\` is unwrapped. \`Idempotency-Key\` makes a
repetition answer as the first did, for 24 hours.`,
    body: ValuesSchema,
    ok: [201, RecordSchema],
    headers: { ...ETAG, 'Idempotent-Replayed': '`true` on an answer that was given before' },
    errors: ['CONFLICT', 'BUSINESS_RULE_ERROR', 'IDEMPOTENCY_MISMATCH'],
    takes: ['Idempotency-Key'],
  }),
} as const;

/** PUT and PATCH do the same. */
function updateRoute(id: string, description: string) {
  return {
    access: 'tenant',
    json: true,
    params: RecordParams,
    body: Body,
    detail: describe({
      id,
      tag: TAG,
      summary: 'Change a record',
      description,
      body: ValuesSchema,
      ok: [200, RecordSchema],
      headers: ETAG,
      errors: ['CONFLICT', 'PRECONDITION_FAILED', 'BUSINESS_RULE_ERROR'],
      takes: ['If-Match'],
    }),
  } as const;
}

const DELETE = {
  access: 'tenant',
  params: RecordParams,
  detail: describe({
    id: 'deleteRecord',
    tag: TAG,
    summary: 'Delete a record',
    ok: [200, Deleted],
    errors: ['CONFLICT', 'PRECONDITION_FAILED', 'BUSINESS_RULE_ERROR'],
    takes: ['If-Match'],
  }),
} as const;

const RECORDS = '/api/entities/:entityName/records';
const RECORD = '/api/entities/:entityName/records/:id';

export function recordRoutes(app: App) {
  const change = async ({ caller, params, body, request }: Change): Promise<Response> => {
    const versions = versionsFrom(request.headers.get('if-match'));
    return written(200, await updateRecord(autocommit(app, caller), params.entityName, params.id, body, versions));
  };
  return new Elysia({ name: 'records' })
    .use(guard(app))
    .get(
      RECORDS,
      async ({ caller, params, query }) => ok(await listRecords(app, caller, params.entityName, listInput(query))),
      LIST,
    )
    .get(
      RECORD,
      async ({ caller, params, query, request }) => {
        const { record, etag } = await readRecord(app, caller, params.entityName, params.id, readInput(query));
        if (etag !== null && isNamedIn(request.headers.get('if-none-match'), etag)) return notModified(etag);
        return ok(record, etag === null ? {} : { etag });
      },
      READ,
    )
    .post(
      RECORDS,
      async ({ caller, params, body, request }) => {
        const { entityName } = params;
        requireRight(caller, 'create', entityName);
        return idempotently(app, caller, request, body, { kind: 'records', entityName }, async (context) =>
          written(201, await createRecord(context, entityName, body as JsonObject)),
        );
      },
      CREATE,
    )
    .put(
      RECORD,
      async (context) => change(context as Change),
      updateRoute('replaceRecord', 'Changes the fields that are given, as PATCH does.'),
    )
    .patch(
      RECORD,
      async (context) => change(context as Change),
      updateRoute('updateRecord', 'Changes the fields that are given; `null` clears an optional one.'),
    )
    .delete(
      RECORD,
      async ({ caller, params, request }) => {
        const versions = versionsFrom(request.headers.get('if-match'));
        await deleteRecord(autocommit(app, caller), params.entityName, params.id, versions);
        return ok({ id: params.id.toLowerCase(), deleted: true });
      },
      DELETE,
    );
}

interface Change {
  caller: TenantCaller;
  params: { entityName: string; id: string };
  body: JsonObject;
  request: Request;
}

function written(status: 200 | 201, { row, scope }: Written): Response {
  const record = shape(row, scope.entity, scope.fields);
  const headers = { etag: etagOf(row) };
  return status === 201 ? created(record, headers) : ok(record, headers);
}

/** 304: the caller holds what the ETag names. */
export function notModified(etag: string): Response {
  const answer = jsonText(null, 304, { etag });
  answer.headers.delete('content-type');
  return answer;
}
