// Everything measured about events: how soon listeners have them, what they cost for each, what webhooks cost and
// hold up, what idle listeners take. Groups run one after the other; one that fails leaves its reason and the
// others run.

import type { Gauge, Report } from '../report.ts';
import type { Run } from '../run.ts';
import { idleGauges, quietRows } from './connections.ts';
import { backlogRow, blackHoleRow, costRow, matchingRows } from './deliveries.ts';
import { fanOutRows } from './fan-out.ts';
import { latencyRows } from './latency.ts';
import type { EventRow } from './rows.ts';
import { EventWorld } from './world.ts';

type Measured = { rows: EventRow[]; gauges: Gauge[] };

const rowsOnly = (rows: EventRow[]): Measured => ({ rows, gauges: [] });

/** In the order of measuring; the last takes the process's place. */
const GROUPS: Record<string, (world: EventWorld, backlog: number) => Promise<Measured>> = {
  latency: async (world) => rowsOnly(await latencyRows(world)),
  'fan-out': async (world) => rowsOnly(await fanOutRows(world)),
  quiet: async (world) => rowsOnly(await quietRows(world)),
  delivery: async (world) => rowsOnly([await costRow(world)]),
  matching: async (world) => rowsOnly(await matchingRows(world)),
  'black-holes': async (world) => rowsOnly([await blackHoleRow(world)]),
  backlog: (world, backlog) => backlogRow(world, backlog),
  idle: async (world) => ({ rows: [], gauges: await idleGauges(world) }),
};

/** What of the events can be chosen. */
export const EVENT_GROUPS: readonly string[] = Object.keys(GROUPS);

/** All that the options ask for; `backlog` is the number of deliveries to drain. */
export async function measureEvents(run: Run, backlog: number): Promise<Pick<Report, 'events' | 'gauges'>> {
  const { only } = run.options;
  const world = await EventWorld.open(run);
  const measured: Measured = { rows: [], gauges: [] };
  for (const [name, measure] of Object.entries(GROUPS)) {
    if (only !== null && !only.has('events') && !only.has(name)) continue;
    run.say(`measuring events: ${name}`);
    const { rows, gauges } = await measure(world, backlog).catch((error: Error) => failed(name, error));
    for (const row of rows) run.say(`${row.id}: ${row.failure ?? row.ratio?.toFixed(2)}`);
    measured.rows.push(...rows);
    measured.gauges.push(...gauges);
  }
  return { events: measured.rows, gauges: measured.gauges };
}

function failed(name: string, { message }: Error): Measured {
  const row = { id: name, label: name, against: '', unit: '', must: Number.NaN, goal: Number.NaN, failure: message };
  return rowsOnly([row]);
}
