// Finding records by id as a caller sees them, and evaluating a condition on a row. A row outside the caller's rows is
// not found, like one that does not exist.
// Contract: decisions#writes-within-a-role.
import type { AccessScope } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { type Expression, relationKeys, type StoredRow } from '../../expression/ast.ts';
import { type EvaluationContext, evaluate } from '../../expression/evaluate.ts';
import { toSql } from '../../expression/to-sql.ts';
import { EMPTY, type Queries, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { RECORD_COLUMNS, type RecordRow, storedRow } from '../row.ts';

const R = sql`r`;

/** The row, or undefined when it does not exist for the caller. `id` must be a UUID. */
export async function findRow(queries: Queries, scope: AccessScope, id: string): Promise<RecordRow | undefined> {
  return queries.first<RecordRow>(sql`${byId(scope, id)}`);
}

/** The same row, locked until the transaction ends. */
export async function lockRow(tx: Tx, scope: AccessScope, id: string): Promise<RecordRow | undefined> {
  return tx.first<RecordRow>(sql`${byId(scope, id)} for update of r`);
}

/** The rows among `ids` that exist for the caller, locked in id order. */
export async function lockRows(tx: Tx, scope: AccessScope, ids: readonly string[]): Promise<RecordRow[]> {
  const rows = scope.rowFilter === null ? EMPTY : sql` and ${toSql(scope.rowFilter, R)}`;
  return tx.rows<RecordRow>(sql`
    select ${RECORD_COLUMNS} from ${scope.entity.table} as r
    where r.id = any(${[...ids]}::uuid[])${rows} order by r.id for update of r`);
}

function byId(scope: AccessScope, id: string): Sql {
  const rows = scope.rowFilter === null ? EMPTY : sql` and ${toSql(scope.rowFilter, R)}`;
  return sql`select ${RECORD_COLUMNS} from ${scope.entity.table} as r where r.id = ${id}::uuid${rows}`;
}

/** Whether a row, stored or not, matches a condition. Looks up the relations it follows. Rules also pass the change. */
export async function meets(
  queries: Queries,
  catalog: Catalog,
  entity: Entity,
  condition: Expression,
  row: RecordRow,
  change: Pick<EvaluationContext, 'old' | 'changed'> = {},
): Promise<boolean> {
  const related = new Map<string, StoredRow | undefined>();
  for (const key of relationKeys(condition)) related.set(key, await relatedRow(queries, catalog, entity, key, row));
  return evaluate(condition, storedRow(row, entity.id), { ...change, related: (key) => related.get(key) });
}

async function relatedRow(
  queries: Queries,
  catalog: Catalog,
  entity: Entity,
  key: string,
  row: RecordRow,
): Promise<StoredRow | undefined> {
  const field = entity.byKey.get(key);
  const id = field === undefined ? undefined : row.data[field.slot];
  const target = catalog.byId.get(field?.targetId ?? '');
  if (typeof id !== 'string' || target === undefined) return undefined;
  const found = await queries.first<RecordRow>(sql`
    select ${RECORD_COLUMNS} from ${target.table} as r where r.id = ${id}::uuid`);
  return found && storedRow(found, target.id);
}
