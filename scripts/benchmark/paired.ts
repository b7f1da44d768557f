// Pairs of figures: each round measures both sides, one right after the other, and the next round begins with the other
// side, so that neither profits from what the first leaves behind or from a machine that gets slower.
// A ratio is the median of the rounds' ratios, not the ratio of medians: what disturbs a round disturbs both of its sides.

export interface Pair<T = number> {
  baseline: T;
  subject: T;
}

/** Medians of both sides; the ratio of each pair, their median, and the lowest and highest of them. */
export interface PairedFigures extends Pair {
  ratios: readonly number[];
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
    ...ratioFigures(ratios),
  };
}

export function ratioFigures(ratios: readonly number[]): Pick<PairedFigures, 'ratios' | 'ratio' | 'spread'> {
  return { ratios, ratio: median(ratios), spread: [Math.min(...ratios), Math.max(...ratios)] };
}

/** Chance in a hundred of calling a ratio above a limit that it does not exceed. */
const ERROR_PERCENT = 1;

/**
 * Whether the rounds show that the ratio is above the limit: so few of them are within it that noise, which puts each round
 * on either side alike, explains that in less than one of a hundred runs (the sign test). Fewer than 7 rounds never do.
 */
export function isSurelyAbove(ratios: readonly number[], limit: number): boolean {
  const rounds = ratios.length;
  const within = ratios.filter((ratio) => ratio <= limit).length;
  let ways = 1;
  let sum = 1;
  for (let i = 1; i <= within; i++) {
    ways *= (rounds - i + 1) / i;
    sum += ways;
  }
  return 100 * sum < ERROR_PERCENT * 2 ** rounds;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
