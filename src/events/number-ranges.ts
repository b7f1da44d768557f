// Sets of event numbers as ranges: a single transaction of a tenant may leave a hundred thousand numbers undecided. Every round
// of the relay compares them, stores them and sends them to the database.
// Contract: decisions#events.

/** Both ends are included. */
export type NumberRange = [from: number, to: number];

/** Ascending, without overlaps. */
export type NumberRanges = readonly NumberRange[];

/** The union of disjoint sets. */
export function union(sets: readonly NumberRanges[]): NumberRange[] {
  const all: NumberRange[] = [];
  for (const [from, to] of sets.flat().sort(([a], [b]) => a - b)) {
    const last = all.at(-1);
    if (last !== undefined && last[1] === from - 1) last[1] = to;
    else all.push([from, to]);
  }
  return all;
}

/** The numbers of `ranges` that are not in `removed`. */
export function without(ranges: NumberRanges, removed: NumberRanges): NumberRange[] {
  const kept: NumberRange[] = [];
  let at = 0;
  for (const [from, to] of ranges) {
    let next = from;
    while (at < removed.length && (removed[at] as NumberRange)[1] < from) at++;
    for (let i = at; i < removed.length && (removed[i] as NumberRange)[0] <= to; i++) {
      const [start, end] = removed[i] as NumberRange;
      if (start > next) kept.push([next, start - 1]);
      next = Math.max(next, end + 1);
    }
    if (next <= to) kept.push([next, to]);
  }
  return kept;
}

export function includes(ranges: NumberRanges, seq: number): boolean {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle] as NumberRange)[1] < seq) low = middle + 1;
    else high = middle;
  }
  const range = ranges[low];
  return range !== undefined && range[0] <= seq;
}

/** Writes ranges as a literal of Postgres's int8multirange. */
export function toMultirange(ranges: NumberRanges): string {
  return `{${ranges.map(([from, to]) => `[${from},${to}]`).join()}}`;
}

/** Reads Postgres's text of an int8multirange, whose upper ends are excluded. */
export function fromMultirange(text: string): NumberRange[] {
  return Array.from(text.matchAll(/\[(\d+),(\d+)\)/g), ([, from, end]) => [Number(from), Number(end) - 1]);
}
