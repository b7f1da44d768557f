// Pairs of figures: each round measures both sides, one right after the other, and the next round begins with the other
// side, so that neither profits from what the first leaves behind or from a machine that gets slower.
// A ratio is the median of the rounds' ratios, not the ratio of medians: what disturbs a round disturbs both of its sides.

export interface Pair<T = number> {
  baseline: T;
  subject: T;
}

/** Medians of both sides, the median of the ratios of all pairs, and their lowest and highest. */
export interface PairedFigures extends Pair {
  ratio: number;
  spread: readonly [lowest: number, highest: number];
}

/** Measures both sides `rounds` times, in turns. */
export async function measurePairs<T>(
  rounds: number,
  baseline: (round: number) => Promise<T>,
  subject: (round: number) => Promise<T>,
): Promise<Pair<T>[]> {
  const pairs: Pair<T>[] = [];
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 0) pairs.push({ baseline: await baseline(round), subject: await subject(round) });
    else {
      const first = await subject(round);
      pairs.push({ baseline: await baseline(round), subject: first });
    }
  }
  return pairs;
}

export function pairedFigures(pairs: readonly Pair[]): PairedFigures {
  const ratios = pairs.map(({ baseline, subject }) => subject / baseline);
  return {
    baseline: median(pairs.map(({ baseline }) => baseline)),
    subject: median(pairs.map(({ subject }) => subject)),
    ratio: median(ratios),
    spread: [Math.min(...ratios), Math.max(...ratios)],
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
