// Runs reads outside a transaction again from the start. A large read that has to wait for a place waits without a connection. A long read
// gives up its turn, once, when its tenant runs more of them than is admitted while others are active.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import type { ByteBudget } from '../byte-budget.ts';
import { PlaceNeeded, waitForPlace } from '../large-calls.ts';
import type { Queries, Sql } from '../sql.ts';
import { TurnYielded } from './lease.ts';

/** `yielding` runs reads that may give up their turn, `steady` reads that may not. */
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
