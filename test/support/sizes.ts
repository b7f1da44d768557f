// How many records or calls a test takes. On real stores always all of them. The embedded database is the same
// Postgres on one thread, many times slower: there a part shows what the bounds of the service's process are for (without them
// it would be missed as well), and the full size would only prove that the engine is slow.
import process from 'node:process';

export const IS_EMBEDDED = !process.env.DATABASE_URL;

/** `count` on real stores; on the embedded database one of `parts` of it. */
export function sized(count: number, parts = 4): number {
  return IS_EMBEDDED ? Math.ceil(count / parts) : count;
}
