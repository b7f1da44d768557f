// Lists the deleted records of an entity that have not come back, with their last values. It takes the parameters of a list,
// shows the fields that the caller sees today, and applies the row filter to the last image. A filter that names `$now` is
// evaluated record by record, since `$now` is the time of each deletion. Without `sort` the newest deletion comes first.
// Failures: 400 also for parameters that only lists of records have, 403, 404. Contract: history#deleted-records.

import { type Static, Type } from '@sinclair/typebox';
import { rowsOfPage } from '../access/bot-limits.ts';
import type { TenantCaller } from '../access/caller.ts';
import { restrictionOn } from '../access/rights.ts';
import type { App } from '../app.ts';
import { type AccessScope, accessScopeOf } from '../entities/access-scope.ts';
import { catalogOf } from '../entities/catalog.ts';
import { surelyWhenDeleted } from '../entities/past-images.ts';
import { invalidField } from '../errors.ts';
import { DELETION_FIELDS, type DeletionKey, type Names } from '../expression/ast.ts';
import { receivedBudget, sized } from '../http/bounded-response.ts';
import { parameters } from '../http/parameters.ts';
import { nullable, Timestamp } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { cursorColumns, readCursor, writeCursor } from '../records/read/cursor.ts';
import { Evaluator } from '../records/read/evaluator.ts';
import { depthOf, readProjection, selectInTurn } from '../records/read/list.ts';
import { afterCursor, NEWEST_FIRST, orderBy, orderOfKeys, readSort, sortKey } from '../records/read/order.ts';
import { isRequested, LEGACY_FILTER, type ListInput, ListQuery } from '../records/read/parameters.ts';
import { resolveRelations } from '../records/read/resolve.ts';
import { RecordPageSchema, RecordSchema } from '../records/record.ts';
import { columnsOf, RECORD_COLUMNS, type RecordRow, shape } from '../records/row.ts';
import { EMPTY, join, type Sql, sql } from '../runtime/sql.ts';
import { oldestOf, openPast } from './past.ts';

const DeletedSchema = Type.Intersect([
  RecordSchema,
  Type.Object(
    {
      deletedAt: Timestamp,
      deletedBy: nullable(Type.String(), { description: 'the id of who deleted it, as `createdBy`' }),
    },
    { additionalProperties: true },
  ),
]);
export const DeletedPageSchema = Type.Composite([
  Type.Omit(RecordPageSchema, ['items', 'etags']),
  Type.Object({ items: Type.Array(DeletedSchema) }),
]);
export type DeletedPage = Static<typeof DeletedPageSchema>;

/** The parameters of a list, without those that deleted records lack. */
export const DeletedQuery = parameters(
  {
    ...ListQuery.properties,
    search: Type.Optional(
      Type.String({
        maxLength: 0,
        description: 'does not apply',
        error: 'does not apply: deleted records are not indexed for it; use filters, such as title contains "..."',
      }),
    ),
    with: Type.Optional(
      Type.Union([Type.Literal(''), Type.Literal('nextCursor')], {
        description: 'a further member of the response',
        error: 'must be nextCursor; a deleted record has no ETag',
        examples: ['nextCursor'],
      }),
    ),
  },
  LEGACY_FILTER,
);

type DeletedRow = RecordRow & { deleted_at: string; deleted_by: string | null; sort_values: (string | null)[] };

const NEWEST = orderOfKeys([sortKey(DELETION_FIELDS.deletedAt, true)]);

export async function listDeleted(
  app: App,
  caller: TenantCaller,
  entityName: string,
  input: ListInput,
): Promise<DeletedPage> {
  const opened = await openPast(app, caller, entityName);
  const scope = { ...opened, names: withDeletion(opened.names) };
  const { entity } = scope;
  const { page = LIMITS.list.pageDefault, cursor } = input;
  const limit = rowsOfPage(caller, input.limit, LIMITS.list.limitDefault);
  if (cursor !== undefined && page !== 1) throw invalidField('page', 'cannot be combined with a cursor');
  const sorted = readSort(input.sort, input.order, scope.names);
  const order = sorted === NEWEST_FIRST ? NEWEST : orderOfKeys(sorted);
  const fields = readProjection(opened, input.fields);
  const where = await conditionOf(app, caller, scope, input);
  const deleted = deletedRows(app, caller, scope);
  const presentOf = async (id: string) => {
    const row = await app.db.first<Pick<DeletedRow, 'sort_values'>>(sql`
      select ${cursorColumns(order)} as sort_values from ${deleted} where r.id = ${id}::uuid and ${where}`);
    return row?.sort_values;
  };
  const after = cursor === undefined ? null : await readCursor(order, cursor, presentOf);
  const columns = fields.length < entity.fields.length ? columnsOf(fields) : RECORD_COLUMNS;
  const received = receivedBudget();
  const found = await app.db.rows<DeletedRow>(
    sql`
    select ${columns}, r.deleted_at, r.deleted_by, ${cursorColumns(order)} as sort_values
    from ${deleted}
    where ${where}${after === null ? EMPTY : sql` and ${afterCursor(order, after)}`}
    order by ${orderBy(order)}
    limit ${limit + 1}::bigint offset ${cursor === undefined ? (page - 1) * limit : 0}::bigint`,
    received,
  );
  const total = input.count === 'none' ? null : await totalOf(app, caller, scope, where);
  const rows = found.slice(0, limit);
  const records = rows.map((row) => shape(row, entity, fields));
  await resolveRelations(app, caller, entity, fields, records, depthOf(input), received);
  // These replace the values of fields that have the same names.
  const items = records.map((record, i) =>
    Object.assign(record, { deletedAt: rows[i]?.deleted_at ?? '', deletedBy: rows[i]?.deleted_by ?? null }),
  );
  const last = rows.at(-1);
  const nextCursor = found.length > limit && last !== undefined ? writeCursor(order, last.sort_values, last.id) : null;
  const isCursorWanted = cursor !== undefined || isRequested(input, 'nextCursor');
  const totalPages = total === null ? null : Math.ceil(total / limit);
  const result = { items, total, page, limit, totalPages, ...(isCursorWanted ? { nextCursor } : {}) };
  return sized(result, received.taken);
}

/** Names of the deletion, unless the entity has a field of that name. */
function withDeletion(names: Names): Names {
  const field: Names['field'] = (key) =>
    names.field(key) ?? (Object.hasOwn(DELETION_FIELDS, key) ? DELETION_FIELDS[key as DeletionKey] : undefined);
  return { ...names, field };
}

/** The deletions of records that have not come back and whose values have not been erased, as rows `r` of records. */
function deletedRows(app: App, caller: TenantCaller, { entity }: AccessScope): Sql {
  return sql`(
    select v.record_id as id, v.entity_id, v.version, v.data, v.created_at, v.updated_at, v.created_by, v.updated_by,
      v.at as deleted_at, v.actor as deleted_by
    from platform.events as v
    where v.entity_id = ${entity.id}::uuid and v.type = 'record.deleted' and v.tenant_id is not distinct from ${entity.tenantId}::uuid
      and v.erased_at is null and v.at >= ${oldestOf(app, caller)}::timestamptz
      and not exists (
        select from platform.events as b
        where b.record_id = v.record_id and b.tenant_id is not distinct from v.tenant_id
          and b.type = 'record.created' and b.version > 1 and b.version > v.version
      )
  ) as r`;
}

async function totalOf(app: App, caller: TenantCaller, scope: AccessScope, where: Sql): Promise<number> {
  const counted = await app.db.first<{ total: number }>(sql`
    select count(*) as total from ${deletedRows(app, caller, scope)} where ${where}`);
  return counted?.total ?? 0;
}

/** The condition: the row filter on the last image, and the filters. */
async function conditionOf(app: App, caller: TenantCaller, scope: AccessScope, input: ListInput): Promise<Sql> {
  const rowFilter = restrictionOn(caller.rights, scope.entity.name)?.rowFilter;
  if (rowFilter?.includes('$now') !== true) {
    const surely = scope.rowFilter && surelyWhenDeleted(scope.entity, scope.rowFilter);
    return (await selectInTurn({ ...scope, rowFilter: surely }, input)).where;
  }
  const { where } = await selectInTurn({ ...scope, rowFilter: null }, input);
  const ids = await idsWithin(app, caller, scope, where);
  return join([where, sql`r.id = any(${ids}::uuid[])`], ' and ');
}

/** The records that met the caller's row filter when they were deleted. 400 when there are too many to look at. */
async function idsWithin(app: App, caller: TenantCaller, scope: AccessScope, where: Sql): Promise<string[]> {
  const { scannedMax, stepEvents } = LIMITS.changes;
  const catalog = await catalogOf(app, caller.tenant);
  const evaluator = new Evaluator(app.db, catalog);
  const ids: string[] = [];
  let after: Sql = EMPTY;
  for (let scanned = 0; ; ) {
    const rows = await app.db.rows<DeletedRow>(
      sql`
      select ${RECORD_COLUMNS}, r.deleted_at
      from (
        select m.*, sum(octet_length(m.data::text)) over (order by m.deleted_at desc nulls last, m.id desc) as bytes,
          row_number() over (order by m.deleted_at desc nulls last, m.id desc) as n
        from (
          select r.* from ${deletedRows(app, caller, scope)} where ${where}${after}
          order by ${orderBy(NEWEST)} limit ${stepEvents}::int
        ) as m
      ) as r
      where r.bytes <= ${LIMITS.changes.stepBytes}::bigint or r.n = 1
      order by r.n`,
      receivedBudget(),
    );
    for (const row of rows) {
      const { rowFilter } = accessScopeOf(catalog, caller, scope.entity, new Date(row.deleted_at));
      if (rowFilter === null || (await evaluator.met(scope.entity, rowFilter, row, row.deleted_at))) ids.push(row.id);
    }
    const last = rows.at(-1);
    if (last === undefined) return ids;
    scanned += rows.length;
    if (scanned > scannedMax) {
      throw invalidField(
        'filters',
        `leave more than ${scannedMax} deleted records to look at; narrow them, as by deletedAt`,
      );
    }
    after = sql` and (r.deleted_at < ${last.deleted_at}::timestamptz
      or (r.deleted_at = ${last.deleted_at}::timestamptz and r.id < ${last.id}::uuid))`;
  }
}
