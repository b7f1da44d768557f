// Locks of the database whose names contain text that clients choose, such as an id or an `Idempotency-Key`; and how long a transaction
// waits for a lock. The number of a lock comes from a cryptographic hash of its name, so no client can choose a name whose number belongs
// to another lock.
// Contract: neighbours#fair-shares.
import { type Sql, sql, type Tx } from './sql.ts';
import { sha256 } from './tokens.ts';

/** The number of a lock for `pg_advisory_xact_lock` and similar functions. A name of one tenant begins with the tenant's id. */
export function lockNumber(...name: readonly string[]): Sql {
  return sql`${sha256(JSON.stringify(name)).readBigInt64BE().toString()}::bigint`;
}

/** How long the transaction waits for each lock from here on, in milliseconds; 0 for ever. Beyond it, see `isLockTimeout`. */
export async function limitLockWaits(tx: Tx, ms: number): Promise<void> {
  await tx.rows(sql`select set_config('lock_timeout', ${`${ms}ms`}, true)`);
}
