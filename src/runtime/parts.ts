// Changes many rows in small statements, one after another, with a pause after each that is as long as the statement took. A single
// statement for 300,000 rows would keep a processor of the database busy for as long as it runs. The statements follow the order of an
// index, so that none reads the rows that earlier ones have changed.
// Contract: neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import type { Queries, Sql } from './sql.ts';

/** The most rows that a statement changes, or examines. */
export const PART_ROWS = 1_000;

/** The rows that a part has changed: at least PART_ROWS unless it is the last part. `last` is the key of its last row. */
interface Part {
  count: number;
  last: string | null;
}

/** Runs `change`, which starts after a key and resolves to a `Part`, until nothing is left to change; `onPart` runs after each part. */
export async function inParts(
  queries: Queries,
  change: (after: string | null) => Sql,
  { rests = true, onPart }: { rests?: boolean; onPart?: () => Promise<void> } = {},
): Promise<void> {
  let after: string | null = null;
  for (let isLast = false; !isLast; ) {
    const startedAt = performance.now();
    const part: Part | undefined = await queries.first<Part>(change(after));
    isLast = (part?.count ?? 0) < PART_ROWS;
    after = part?.last ?? null;
    await onPart?.();
    if (rests && !isLast) await delay(performance.now() - startedAt);
  }
}
