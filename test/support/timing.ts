// Assertions about time that do not fail on a busy machine: only the fastest of several rounds must be under the limit.
// Code that is too slow is over it in every round. Times are milliseconds.

/** The smallest of up to `rounds` measurements; stops at the first one under `limit`. */
export async function fastest(limit: number, measure: () => Promise<number> | number, rounds = 10): Promise<number> {
  let smallest = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds && smallest >= limit; round++) smallest = Math.min(smallest, await measure());
  return smallest;
}

/**
 * Runs a scenario that depends on finishing within a window of time. If it fails after that window, the machine was too
 * slow for a verdict, and the scenario is repeated from the start with a window that is `grow` times as long.
 */
export async function retryWhenDelayed<T>(ms: number, scenario: (ms: number) => Promise<T>, grow = 1): Promise<T> {
  const startedAt = performance.now();
  try {
    return await scenario(ms);
  } catch (error) {
    if (performance.now() - startedAt < ms) throw error;
    return retryWhenDelayed(ms * grow, scenario, grow);
  }
}

/** How long the work takes. */
export async function durationOf(work: () => unknown): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

export function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] as number;
}

/** The result of the work, or `late` after `ms`. On a busy machine the timer is late as well. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | 'late'> {
  const { promise, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(resolve, ms, 'late');
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
