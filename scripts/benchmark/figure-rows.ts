// A row of one figure: that of the service beside the same figure of a baseline, and the limits of their ratio. Figures
// are medians of paired rounds. A row that cannot be measured has the reason instead.
// Units are in the row's definition.

import { CpuMeter, type MeteredServer, pinBackends } from './cpu.ts';
import { measurePairs, type Pair, type PairedFigures, pairedFigures } from './paired.ts';
import type { Scratch } from './scratch.ts';

export interface RowDefinition {
  id: string;
  label: string;
  /** Names the baseline. */
  against: string;
  unit: string;
  /** Limits of the ratio: upper ones, or lower ones when `atLeast` is set. */
  must: number;
  goal: number;
  atLeast?: boolean;
}

export interface FigureRow extends RowDefinition, Partial<PairedFigures> {
  failure?: string;
}

type Measure = (round: number) => Promise<number>;

/** Measures both in turns, `rounds` times. Never rejects. */
export async function interleaved(
  definition: RowDefinition,
  rounds: number,
  baseline: Measure,
  subject: Measure,
): Promise<FigureRow> {
  return row(definition, () => measurePairs(rounds, baseline, subject));
}

/** The row for pairs of figures, or for the reason why there are none. */
export async function row(definition: RowDefinition, measure: () => Promise<readonly Pair[]>): Promise<FigureRow> {
  try {
    return { ...definition, ...pairedFigures(await measure()) };
  } catch (error) {
    return { ...definition, failure: (error as Error).message };
  }
}

/** CPU in microseconds that the server, its database and Redis use during `work`. */
export async function cpuOf(
  { server }: { server: MeteredServer },
  scratch: Scratch,
  work: () => Promise<unknown>,
): Promise<number> {
  pinBackends(scratch.postmaster, server.database);
  const meter = new CpuMeter(server, scratch.postmaster, scratch.redisCpu);
  await meter.begin();
  await work();
  const { app, database, redis } = await meter.end();
  return app + database + redis;
}

/** The quantile of the values at `share`, from 0 to 1. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
