// Reads records by id within an access scope: as a response with its entity tag, or as rows, locked if needed. A record that the
// caller may not see does not exist for it.
// Failures: 403 without the right to read, 404 for a record that does not exist.
// Contract: interface#records, decisions#records, decisions#writes-within-a-role.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeFor } from '../../entities/access-scope.ts';
import { notFound } from '../../errors.ts';
import { toSql } from '../../expression/to-sql.ts';
import { receivedBudget, sized } from '../../http/bounded-response.ts';
import { LIMITS } from '../../limits.ts';
import type { ByteBudget } from '../../runtime/byte-budget.ts';
import { isUuid } from '../../runtime/ids.ts';
import { holdBytesWaiting } from '../../runtime/large-calls.ts';
import { SharedStatements } from '../../runtime/shared-statements.ts';
import { EMPTY, plannedOnce, type Queries, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { isJsonLarger, jsonBytes } from '../../runtime/text.ts';
import { currentWork } from '../../runtime/work.ts';
import { countRead } from '../../usage/tally.ts';
import type { FlatRecord } from '../record.ts';
import { etagOf, RECORD_COLUMNS, type RecordRow, shape } from '../row.ts';
import { depthOf, readProjection } from './list.ts';
import type { ReadInput } from './parameters.ts';
import { resolveRelations } from './resolve.ts';

interface ReadResult {
  record: FlatRecord;
  /** Null for a part of the record, and with expanded relations, because those change independently. */
  etag: string | null;
}

export async function readRecord(
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
  input: ReadInput,
): Promise<ReadResult> {
  requireRight(caller, 'read', entityName);
  return readIn(app, caller, await accessScopeFor(app, caller, entityName), id, input);
}

/** Reads one record within an access scope. */
export async function readIn(
  app: App,
  caller: TenantCaller,
  scope: AccessScope,
  id: string,
  input: ReadInput,
): Promise<ReadResult> {
  countRead(app, caller);
  const fields = readProjection(scope, input.fields);
  const row = isUuid(id) ? await findTogether(app.db, scope, id) : undefined;
  if (row === undefined) throw notFound('record');
  const record = shape(row, scope.entity, fields);
  const depth = depthOf(input);
  const received = receivedBudget();
  if (depth > 0) await keepRow(row);
  await resolveRelations(app, caller, scope.entity, fields, [record], depth, received);
  return {
    record: sized(record, received.taken),
    etag: depth === 0 && fields === scope.fields ? etagOf(row, scope, caller) : null,
  };
}

/** The row, or undefined when the caller cannot see one. `id` must be a UUID. */
export async function findRow(queries: Queries, scope: AccessScope, id: string): Promise<RecordRow | undefined> {
  return queries.first<RecordRow>(plannedOnce(rowsWhere(scope, sql`r.id = ${id}::uuid`)));
}

/** Whether the caller can see the record now, without reading its values. `id` must be a UUID. */
export async function isSeenNow(queries: Queries, scope: AccessScope, id: string): Promise<boolean> {
  return (await queries.first(plannedOnce(rowsWhere(scope, sql`r.id = ${id}::uuid`, sql`r.id`)))) !== undefined;
}

/**
 * Counts a row against the byte budget, because the call keeps it while its next statements wait for their turn: a thousand
 * calls may each keep a megabyte. The row is counted after it has arrived: cutting its statement off would cost a connection.
 */
export async function keepRow(row: RecordRow | undefined): Promise<void> {
  if (row !== undefined && isJsonLarger(row.data, LIMITS.largeCalls.countedFrom))
    await holdBytesWaiting(jsonBytes(row.data));
}

/** Records that one statement reads, and the stored bytes that each may have: larger records would be in memory together. */
const SHARED = { records: 32, storedBytes: 2_000 };
const shared = new SharedStatements<string, RecordRow>({ itemsMax: SHARED.records });

/**
 * As `findRow`, but concurrent reads share a statement. A caller with a row filter, a dry run or a trace has a statement of its
 * own.
 */
async function findTogether(queries: Queries, scope: AccessScope, id: string): Promise<RecordRow | undefined> {
  const { entity, rowFilter } = scope;
  const isOwn = rowFilter !== null || queries.dryRun !== undefined || currentWork().trace !== null;
  if (isOwn) return findRow(queries, scope, id);
  return shared.run(entity, '', id.toLowerCase(), async (ids) => {
    const [only] = ids;
    if (ids.length === 1 && only !== undefined) return [await findRow(queries, scope, only)];
    const small = sql`r.id = any(${[...ids]}::uuid[]) and pg_column_size(r.data) <= ${SHARED.storedBytes}::int`;
    const rows = await queries.rows<RecordRow>(plannedOnce(rowsWhere(scope, small)));
    const byId = new Map(rows.map((row) => [row.id, row]));
    return ids.map((one) => byId.get(one));
  });
}

/** Like `findRow`, and locks the row until the transaction ends. */
export async function lockRow(tx: Tx, scope: AccessScope, id: string): Promise<RecordRow | undefined> {
  return tx.first<RecordRow>(sql`${rowsWhere(scope, sql`r.id = ${id}::uuid`)} for update of r`);
}

/** The rows that meet a condition on `r` and that the caller can see, locked in id order; `columns` make a RecordRow. */
export async function lockRows(
  tx: Tx,
  scope: AccessScope,
  condition: Sql,
  columns: Sql,
  received: ByteBudget,
): Promise<RecordRow[]> {
  const wanted = rowsWhere(scope, condition, columns);
  return tx.rows<RecordRow>(sql`${wanted} order by r.id for update of r`, received);
}

function rowsWhere({ entity, rowFilter }: AccessScope, condition: Sql, columns = RECORD_COLUMNS): Sql {
  const visible = rowFilter === null ? EMPTY : sql` and ${toSql(rowFilter, sql`r`)}`;
  return sql`select ${columns} from ${entity.table} as r where ${condition}${visible}`;
}
