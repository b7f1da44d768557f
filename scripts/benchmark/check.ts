// The check that no row got slower: this checkout's service against that of an earlier commit, in pairs of short rounds. Only
// ratios of one run are compared, never times of different runs or machines.
// A row over its limit is measured twice more, with twice as many rounds. It fails when all of its rounds together show that it
// is over; one that noise may explain does not: on a busy machine rounds of the same code differ by up to 1.7 times.

import { startBoth } from './against-rows.ts';
import { baseCommit, checkOut, differsFrom } from './base-checkout.ts';
import { limits, readRatios } from './committed-ratios.ts';
import { isSurelyAbove, ratioFigures } from './paired.ts';
import { type Comparison, measureRows, type Row } from './rows.ts';
import type { Run } from './run.ts';
import { progressLine } from './verdict.ts';

const REPEATS = 2;

/** Null when there is nothing to compare: `log` says why. */
export function checkedCommit(named: string, log: (line: string) => void): string | null {
  const base = baseCommit(named);
  if (base === null) log('there is no earlier commit to compare with');
  else if (!differsFrom(base)) log(`the service is the same as at ${base}`);
  else return base;
  return null;
}

/** Compares with the service of the commit; resolves to the rows, each with all of its rounds. */
export async function check(run: Run, base: string): Promise<Row[]> {
  const { options, scratch, log } = run;
  log(`comparing with ${base}`);
  const checkout = await checkOut(base, run.directory);
  const allowed = limits(readRatios('.'), readRatios(checkout));
  const { baseline, subject } = await startBoth(run, checkout);
  const comparisons = [...allowed].flatMap(([name, must]): Comparison[] => {
    const id = name as keyof typeof subject;
    const named = { id, label: id, against: base.slice(0, 12), must, goal: 1 };
    return (options.only?.has(id) ?? true) ? [{ ...named, baseline: baseline[id], subject: subject[id] }] : [];
  });
  const measure = (some: readonly Comparison[], rounds: number) =>
    measureRows(some, { ...options, rounds }, scratch, (row) => log(progressLine(row)));
  const rows = new Map((await measure(comparisons, options.rounds)).map((row) => [row.id, row]));
  for (let again = 0; again < REPEATS; again++) {
    const doubtful = comparisons.filter(({ id }) => !isWithin(rows.get(id)));
    for (const row of await measure(doubtful, 2 * options.rounds)) rows.set(row.id, together(rows.get(row.id), row));
  }
  return [...rows.values()];
}

/** A row with the rounds of an earlier measurement too. */
function together(earlier: Row | undefined, row: Row): Row {
  if (earlier?.ratios === undefined || row.ratios === undefined || row.must === null) return row;
  const figures = ratioFigures([...earlier.ratios, ...row.ratios]);
  return { ...row, ...figures, isUnsure: figures.ratio > row.must && !isSurelyAbove(figures.ratios, row.must) };
}

function isWithin(row: Row | undefined): boolean {
  return row?.ratio !== undefined && row.must !== null && row.ratio <= row.must;
}
