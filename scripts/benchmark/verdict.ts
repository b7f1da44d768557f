// Whether a figure is within its limits: `goal`, `must`, `unsure`, `MISSED`, `FAILED` when there is none, or `skipped`.
// Rows have limits of their ratio, gauges have absolute ones.
// A file of its own, because the report and its tables both ask.

import type { FigureRow } from './figure-rows.ts';
import type { Row } from './rows.ts';

/** A figure with absolute limits: a start-up time, a rate, a size. */
export interface Gauge {
  id: string;
  label: string;
  unit: string;
  value?: number | undefined;
  /** Upper limits of the value, or lower ones when `atLeast` is set. */
  must: number;
  goal: number;
  atLeast?: boolean;
  failure?: string | undefined;
}

export type Verdict = 'goal' | 'must' | 'unsure' | 'MISSED' | 'FAILED' | 'skipped';

export function rowVerdict(row: Row): Verdict {
  if (row.skipped !== undefined) return 'skipped';
  if (row.ratio === undefined || row.must === null || row.goal === null) return 'FAILED';
  return row.isUnsure ? 'unsure' : verdict(row.ratio, row.must, row.goal);
}

export function figureVerdict({ ratio, must, goal, atLeast }: FigureRow): Verdict {
  if (ratio === undefined) return 'FAILED';
  return atLeast ? verdict(-ratio, -must, -goal) : verdict(ratio, must, goal);
}

export function gaugeVerdict(gauge: Gauge): Verdict {
  if (gauge.value === undefined) return 'FAILED';
  const sign = gauge.atLeast ? -1 : 1;
  return verdict(sign * gauge.value, sign * gauge.must, sign * gauge.goal);
}

/** One line about a finished row, to show progress. */
export function progressLine(row: Row): string {
  if (row.ratio === undefined) return `${row.id}: FAILED: ${row.failure}`;
  return `${row.id}: ${row.ratio.toFixed(2)}x of ${row.against} (must ${row.must}, goal ${row.goal}): ${rowVerdict(row)}`;
}

function verdict(value: number, must: number, goal: number): Verdict {
  if (value <= goal) return 'goal';
  return value <= must ? 'must' : 'MISSED';
}
