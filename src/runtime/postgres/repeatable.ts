// Reads outside a transaction that begin again: a large one that has to wait for a place does so without a connection, and a
// long one gives up its turn, once, when its tenant runs more than is admitted beside others.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import type { ByteBudget } from '../byte-budget.ts';
import { PlaceNeeded, waitForPlace } from '../large-calls.ts';
import type { Queries, Sql } from '../sql.ts';
import { TurnYielded } from './lease.ts';

/** `yielding` runs what may give up its turn, `steady` what may not. */
export function repeatable(yielding: Queries, steady: Queries): Queries {
  const rows = async <T>(query: Sql, budget?: ByteBudget): Promise<T[]> => {
    const taken = budget?.taken ?? 0;
    let queries = yielding;
    let hasPlace = false;
    for (;;) {
      try {
        return await queries.rows<T>(query, budget);
      } catch (error) {
        if (error instanceof TurnYielded) queries = steady;
        else if (error instanceof PlaceNeeded && !hasPlace) {
          await waitForPlace();
          hasPlace = true;
        } else throw error;
        budget?.returnTo(taken);
      }
    }
  };
  return { rows, first: async <T>(query: Sql): Promise<T | undefined> => (await rows<T>(query))[0] };
}
