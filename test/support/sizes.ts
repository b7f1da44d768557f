// How many records, calls or combinations a test takes. On real stores always all of them. The embedded database is the same
// Postgres on one thread, many times slower: there a part shows what the bounds of the service's process are for (without them
// it would be missed as well), and the full size would only prove that the engine is slow.
import process from 'node:process';

export const IS_EMBEDDED = !process.env.DATABASE_URL;

/** `count` on real stores; on the embedded database one of `parts` of it. */
export function sized(count: number, parts = 4): number {
  return IS_EMBEDDED ? Math.ceil(count / parts) : count;
}

/**
 * All combinations on real stores; on the embedded database one of `parts`: each day another, so that a repetition tries
 * the same ones. OFFSET replaces the day.
 */
export function chosenOf(parts: number): { offset: number; isChosen(index: number): boolean } {
  const offset = Number(process.env.OFFSET ?? Math.floor(Date.now() / 86_400_000)) % parts;
  return { offset, isChosen: (index) => !IS_EMBEDDED || index % parts === offset };
}
