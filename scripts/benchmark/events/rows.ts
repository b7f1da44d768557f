// A row of the events table: one figure of the service beside the same figure of a baseline, and the limits of their
// ratio. Figures are medians of interleaved rounds. A row that cannot be measured has the reason instead.
// Units are in the row's definition.

import { CpuMeter, pinBackends } from '../cpu.ts';
import { median } from '../measure.ts';
import type { Scratch } from '../scratch.ts';
import type { Side } from './fixture.ts';

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

export interface EventRow extends RowDefinition {
  baseline?: number;
  subject?: number;
  ratio?: number;
  failure?: string;
}

type Measure = (round: number) => Promise<number>;

/** Measures both alternately, `rounds` times. Never rejects. */
export async function interleaved(
  definition: RowDefinition,
  rounds: number,
  baseline: Measure,
  subject: Measure,
): Promise<EventRow> {
  return row(definition, async () => {
    const figures: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      figures[0].push(await baseline(round));
      figures[1].push(await subject(round));
    }
    return { baseline: median(figures[0]), subject: median(figures[1]) };
  });
}

/** The row for two figures, or for the reason why there are none. */
export async function row(
  definition: RowDefinition,
  measure: () => Promise<{ baseline: number; subject: number }>,
): Promise<EventRow> {
  try {
    const { baseline, subject } = await measure();
    return { ...definition, baseline, subject, ratio: subject / baseline };
  } catch (error) {
    return { ...definition, failure: (error as Error).message };
  }
}

/** CPU in microseconds that the server, its database and Redis use during `work`. */
export async function cpuOf({ server }: Side, scratch: Scratch, work: () => Promise<unknown>): Promise<number> {
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
