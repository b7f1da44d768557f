// Finds records by id within an access scope, and evaluates conditions on rows. A row that the caller may not see is
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

/** The row, or undefined when the caller cannot see one. `id` must be a UUID. */
export async function findRow(queries: Queries, scope: AccessScope, id: string): Promise<RecordRow | undefined> {
  return queries.first<RecordRow>(rowsWhere(scope, sql`r.id = ${id}::uuid`));
}

/** The same row, locked until the transaction ends. */
export async function lockRow(tx: Tx, scope: AccessScope, id: string): Promise<RecordRow | undefined> {
  return tx.first<RecordRow>(sql`${rowsWhere(scope, sql`r.id = ${id}::uuid`)} for update of r`);
}

/** The rows among `ids` that the caller can see, locked in id order. */
export async function lockRows(tx: Tx, scope: AccessScope, ids: readonly string[]): Promise<RecordRow[]> {
  return tx.rows<RecordRow>(
    sql`${rowsWhere(scope, sql`r.id = any(${[...ids]}::uuid[])`)} order by r.id for update of r`,
  );
}

function rowsWhere({ entity, rowFilter }: AccessScope, condition: Sql): Sql {
  const visible = rowFilter === null ? EMPTY : sql` and ${toSql(rowFilter, sql`r`)}`;
  return sql`select ${RECORD_COLUMNS} from ${entity.table} as r where ${condition}${visible}`;
}

/** Whether a row, stored or not, matches a condition; reads the related rows that this needs. Rules also pass the change. */
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
