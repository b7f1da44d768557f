// Builds indexes without blocking writers (`create index concurrently`). When the index is built and its unique values are checked,
// Postgres waits for every older statement of the database, even of other tenants, before queries use the index. Nobody else needs to wait
// for that: the build is left to its server process, which ends the session when it is done. Until then it locks its table against further
// definition changes, so such a change cancels the build; the index stays as it is, and is completed later.
// Times are milliseconds. Contract: decisions#field-changes, neighbours#fair-shares.
import type { Database } from './postgres.ts';
import { EMPTY, type Queries, type Sql, sql } from './sql.ts';

/** How long the caller waits for older statements before it leaves the build to the server. */
const LEAVE_AFTER_MS = 500;
/** Builds that may be left running in the whole database; each one is a server process. */
const LEFT_MAX = 16;

const WAITING = sql`
  p.datid = (select oid from pg_database where datname = current_database()) and p.phase = 'waiting for old snapshots'`;

/** Runs `create index concurrently` or `reindex index concurrently` until it ends, or until only older statements delay its end. */
export async function buildIndexBeside(db: Database, statement: Sql): Promise<void> {
  let waitingSince: number | undefined;
  await db.runUntil(statement, async (pid) => {
    const state = await db.first<{ is_waiting: boolean; left: number }>(sql`
      select coalesce(bool_or(p.pid = ${pid}::int), false) as is_waiting, count(*)::int as left
      from pg_stat_progress_create_index as p
      where ${WAITING}`);
    if (state?.is_waiting !== true) return false;
    waitingSince ??= performance.now();
    return performance.now() - waitingSince >= LEAVE_AFTER_MS && state.left <= LEFT_MAX;
  });
}

/** Cancels the builds of a schema, or of one of its tables, that wait for older statements and lock their table. */
export async function cancelWaitingBuilds(queries: Queries, schema: string, table?: string): Promise<void> {
  await queries.rows(sql`
    select pg_cancel_backend(p.pid)
    from pg_stat_progress_create_index as p
    join pg_class as t on t.oid = p.relid
    join pg_namespace as n on n.oid = t.relnamespace
    where ${WAITING} and n.nspname = ${schema} ${table === undefined ? EMPTY : sql`and t.relname = ${table}`}`);
}

/** A condition: no server process is building the index with this oid. */
export function isNotBeingBuilt(index: Sql): Sql {
  return sql`not exists (select from pg_stat_progress_create_index as p where p.index_relid = ${index})`;
}
