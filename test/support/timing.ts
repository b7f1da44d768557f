// What a test may say about time, in milliseconds, so that a busy machine fails none: the best of several rounds is
// under a limit, which holds as soon as one round was left in peace, and never holds for what is always too slow.

/** The smallest of up to `rounds` measurements; the first one under `limit` is the last. */
export async function fastest(limit: number, measure: () => Promise<number> | number, rounds = 10): Promise<number> {
  let smallest = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds && smallest >= limit; round++) smallest = Math.min(smallest, await measure());
  return smallest;
}

/**
 * What a story gives that has to be over within a window of time. Where the machine was held up for longer, what failed
 * says nothing, and it is told again from the beginning, with a longer window if that may `grow`.
 */
export async function retryWhenDelayed<T>(ms: number, story: (ms: number) => Promise<T>, grow = 1): Promise<T> {
  const startedAt = performance.now();
  try {
    return await story(ms);
  } catch (error) {
    if (performance.now() - startedAt < ms) throw error;
    return retryWhenDelayed(ms * grow, story, grow);
  }
}

/** How long the work took. */
export async function durationOf(work: () => unknown): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

export function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] as number;
}

/** What the work resolves to, or `late` after `ms`: told by a timer, which is as late itself where everything is. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | 'late'> {
  const { promise, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(resolve, ms, 'late');
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
