// pgvector, which Postgres may have or lack: tenants are made without it too, and the schema health
// check says what is missing then. Fails as Postgres does when the role may not create extensions.
// Contract: decisions#operations.
import type { Log } from './log.ts';
import type { PooledQueries } from './postgres.ts';
import { sql } from './sql.ts';

/** Adds the extension where Postgres has it; false where it has not. Processes that start together take turns. */
export async function addVectorExtension(db: PooledQueries, log: Log): Promise<boolean> {
  const available = await db.first(sql`select from pg_available_extensions where name = 'vector'`);
  if (available === undefined) {
    log.warn('this Postgres has no pgvector; documents are kept without embeddings');
    return false;
  }
  await db.begin(async (tx) => {
    await tx.first(sql`select pg_advisory_xact_lock(hashtext('extension vector'))`);
    await tx.rows(sql`create extension if not exists vector`);
  });
  return true;
}
