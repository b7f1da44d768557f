// Locks of the database by names that contain what clients choose: an id, an `Idempotency-Key`. Their number is taken from a
// cryptographic hash, so that no client can choose a name whose number is that of another lock.
// Contract: neighbours#fair-shares.
import { type Sql, sql } from './sql.ts';
import { sha256 } from './tokens.ts';

/** The number of a lock for `pg_advisory_xact_lock` and its like. A name of one tenant begins with the tenant's id. */
export function lockNumber(...name: readonly string[]): Sql {
  return sql`${sha256(JSON.stringify(name)).readBigInt64BE().toString()}::bigint`;
}
