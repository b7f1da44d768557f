// Changes many rows in small statements, one after another, with a rest as long as each: one statement for 300,000 rows takes a
// processor of the database from all others for as long as it runs. In the order of an index, so that no part reads what those
// before it have changed.
// Contract: neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import type { Queries, Sql } from './sql.ts';

/** What a statement changes at most, or looks at. */
export const PART_ROWS = 1_000;

/** What a part has changed, at least PART_ROWS unless it is the last; `last` is the key of its last row. */
interface Part {
  count: number;
  last: string | null;
}

/** Runs `change`, which resolves to a `Part` and begins after a key, until there is no more to change; `onPart` runs after each part. */
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
