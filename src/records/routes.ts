// The routes of records: list, read, create, change, delete. `readAsOf`, which is passed in, reads a record as it was at a
// moment. Bodies contain values by field key; the operations check them against the entity.
// Contract: interface#records, decisions#records.
import { type Static, Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { noteLocksOf } from '../entities/locks.ts';
import { addCursorFor } from '../entities/response-cursor.ts';
import { okBounded } from '../http/bounded-response.ts';
import { CHANGES_CURSOR } from '../http/changes-cursor.ts';
import { DRY_RUN, runOrTry } from '../http/dry-run.ts';
import { guard } from '../http/guard.ts';
import { flagParameter, parameters } from '../http/parameters.ts';
import { created, notModified, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted } from '../http/schemas.ts';
import { rightToCreate, upsertRecord } from './batch/upsert.ts';
import { eraseRecord } from './erase/erase.ts';
import { listRecords } from './read/list.ts';
import { ListQuery, listInput, RecordQuery } from './read/parameters.ts';
import { readRecord } from './read/read.ts';
import { type FlatRecord, RecordPageSchema, RecordSchema, type Values, ValuesSchema } from './record.ts';
import { etagOf, isNamedIn, shapeWritten, versionsFrom } from './row.ts';
import { autocommit, type WriteContext } from './write/context.ts';
import { idempotently } from './write/idempotency.ts';
import { createRecord, deleteRecord, updateRecord, type Written } from './write/write.ts';

const TAG = 'Records';
const ETAG = { ETag: 'the version of the record, for If-Match and If-None-Match; not sent with expanded relations' };

const LIST = route({
  id: 'listRecords',
  tag: TAG,
  summary: 'List records',
  description: `Lists the records that the caller may see, newest first without \`sort\`. A parameter
\`filter.{fieldKey}\` selects those with exactly that value; \`filters\` is more expressive and preferred.`,
  access: 'tenant',
  query: ListQuery,
  ok: [200, RecordPageSchema],
  responseHeaders: CHANGES_CURSOR,
});

const READ = route({
  id: 'getRecord',
  tag: TAG,
  summary: 'Get a record',
  description: `Reads one record, or with \`asOf\` how it was then: 404 when it was not there, 410 when that is no longer kept.`,
  access: 'tenant',
  query: RecordQuery,
  ok: [200, RecordSchema],
  emptyResponses: { 304: 'The record still has the version that If-None-Match names.' },
  responseHeaders: { ...ETAG, ...CHANGES_CURSOR },
  errors: ['GONE'],
  requestHeaders: ['If-None-Match'],
});

const CREATE = route({
  id: 'createRecord',
  tag: TAG,
  summary: 'Create a record',
  description: `Creates a record from values by field key; \`{ "data": { ... } }\` is unwrapped. For 24 hours a repetition with
the same \`Idempotency-Key\` gets the first answer. With \`upsert\`, the record that has the body's value of that field is changed instead,
if there is one: a 200.`,
  access: 'tenant',
  right: rightToCreate,
  query: parameters({
    upsert: Type.Optional(
      Type.String({ description: 'a unique field; needs the right to create or update, as it turns out' }),
    ),
    ...DRY_RUN,
  }),
  body: ValuesSchema,
  ok: [201, RecordSchema],
  alsoOk: { 200: 'Changed, by `upsert`.' },
  responseHeaders: { ...ETAG, 'Idempotent-Replayed': '`true` on a replayed answer' },
  errors: ['CONFLICT', 'PRECONDITION_FAILED', 'BUSINESS_RULE_ERROR', 'IDEMPOTENCY_MISMATCH'],
  requestHeaders: ['Idempotency-Key', 'If-Match'],
});

/** PUT and PATCH do the same. */
function updateRoute(id: string, description: string) {
  return route({
    id,
    tag: TAG,
    summary: 'Change a record',
    description,
    access: 'tenant',
    right: 'update',
    query: parameters(DRY_RUN),
    body: ValuesSchema,
    ok: [200, RecordSchema],
    responseHeaders: ETAG,
    errors: ['CONFLICT', 'PRECONDITION_FAILED', 'BUSINESS_RULE_ERROR'],
    requestHeaders: ['If-Match'],
  });
}

const DeletedRecord = Type.Object({
  ...Deleted.properties,
  erased: Type.Optional(
    Type.Boolean({ description: 'with `erase`: whether all values have gone; if not yet, they do in the background' }),
  ),
});

const DELETE = route({
  id: 'deleteRecord',
  tag: TAG,
  summary: 'Delete a record, or erase it',
  description: `With \`erase=true\`, for tenant admins, also of a record deleted before: the record's values go for good from its
events, deliveries, history and kept responses too. What is left says that it was erased, when and by whom.`,
  access: 'tenant',
  right: 'delete',
  query: parameters({
    erase: Type.Optional(flagParameter({ description: 'also erase its values for good' })),
    ...DRY_RUN,
  }),
  ok: [200, DeletedRecord],
  errors: ['CONFLICT', 'PRECONDITION_FAILED', 'BUSINESS_RULE_ERROR'],
  requestHeaders: ['If-Match'],
});

const RECORDS = '/api/entities/:entityName/records';
const RECORD = '/api/entities/:entityName/records/:id';

/** Reads a record as it was at a moment: `asOf`. */
type ReadAsOf = (
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
  input: RecordQuery,
) => Promise<FlatRecord>;

export function recordRoutes(app: App, readAsOf: ReadAsOf) {
  return new Elysia({ name: 'records' })
    .use(guard(app))
    .get(
      RECORDS,
      async ({ caller, params, query, request }) => {
        await addCursorFor(app, caller, request);
        return okBounded(await listRecords(app, caller, params.entityName, listInput(query)));
      },
      LIST,
    )
    .get(
      RECORD,
      async ({ caller, params, query, request }) => {
        if (query.asOf !== undefined) {
          return okBounded(await readAsOf(app, caller, params.entityName, params.id, query));
        }
        await addCursorFor(app, caller, request);
        const { record, etag } = await readRecord(app, caller, params.entityName, params.id, query);
        if (etag !== null && isNamedIn(request.headers.get('if-none-match'), etag)) return notModified(etag);
        return okBounded(record, etag === null ? {} : { etag });
      },
      READ,
    )
    .post(
      RECORDS,
      async ({ caller, params, query, body, request }) => {
        const { entityName } = params;
        const target = { kind: 'records', entityName, upsertBy: query.upsert } as const;
        await noteLocksOf(app, caller, entityName);
        return runOrTry(app, { caller, query }, (used) =>
          idempotently(used, caller, request, body, target, async (context) =>
            create(context, entityName, query.upsert, { body, request }),
          ),
        );
      },
      CREATE,
    )
    .put(
      RECORD,
      async ({ caller, params, query, body, request }) => change(app, { caller, params, query, body, request }),
      updateRoute('replaceRecord', 'Changes the fields that are given, as PATCH does.'),
    )
    .patch(
      RECORD,
      async ({ caller, params, query, body, request }) => change(app, { caller, params, query, body, request }),
      updateRoute('updateRecord', 'Changes the fields that are given; `null` clears an optional one.'),
    )
    .delete(
      RECORD,
      async ({ caller, params, query, request }) => {
        const { entityName } = params;
        const versions = versionsFrom(request.headers.get('if-match'));
        const answer = { id: params.id.toLowerCase(), deleted: true } as const;
        await noteLocksOf(app, caller, entityName, true);
        return runOrTry<Static<typeof DeletedRecord>>(app, { caller, query }, async (used) => {
          if (query.erase === true) {
            return ok({ ...answer, erased: await eraseRecord(used, caller, entityName, params.id, versions) });
          }
          await deleteRecord(autocommit(used, caller), entityName, params.id, versions);
          return ok(answer);
        });
      },
      DELETE,
    );
}

interface Change {
  caller: TenantCaller;
  params: { entityName: string; id: string };
  query: { dryRun?: boolean };
  body: Values;
  request: Request;
}

async function change(app: App, { caller, params, query, body, request }: Change) {
  const versions = versionsFrom(request.headers.get('if-match'));
  await noteLocksOf(app, caller, params.entityName);
  return runOrTry(app, { caller, query }, async (used) =>
    ok(...shown(await updateRecord(autocommit(used, caller), params.entityName, params.id, body, versions), body)),
  );
}

/** 201, or 200 when the record was there already and has been changed. */
async function create(
  context: WriteContext,
  entityName: string,
  upsertBy: string | undefined,
  { body, request }: Pick<Change, 'body' | 'request'>,
) {
  if (upsertBy === undefined) return created(...shown(await createRecord(context, entityName, body), body));
  const versions = versionsFrom(request.headers.get('if-match'));
  const { outcome, ...written } = await upsertRecord(context, entityName, upsertBy, body, versions);
  const record = shown(written, body);
  return outcome === 'created' ? created(...record) : ok(...record);
}

/** The record as the caller sees it, and the headers of the response. */
function shown({ row, scope }: Written, body: Values): [FlatRecord, Record<string, string>] {
  return [shapeWritten(row, scope, body), { etag: etagOf(row, scope) }];
}
