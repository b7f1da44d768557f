// All result rows about events: latency, cost per client, cost and isolation of webhooks, memory of idle connections.
// Groups run one after the other; one that fails becomes a row with its reason, and the others run. Units are in the
// rows. `--only` takes the names of the groups.

import type { FigureRow } from '../figure-rows.ts';
import { EVENT_GROUPS } from '../options.ts';
import type { Measured } from '../report.ts';
import type { Run } from '../run.ts';
import type { Gauge } from '../verdict.ts';
import { idleGauges, quietRows } from './connections.ts';
import { backlogRow, blackHoleRow, costRow, matchingRows } from './deliveries.ts';
import { fanOutRows } from './fan-out.ts';
import { feedRows } from './feed.ts';
import { EventFixture } from './fixture.ts';
import { latencyRows } from './latency.ts';

type EventGroup = (typeof EVENT_GROUPS)[number];
type Group = { rows: FigureRow[]; gauges: Gauge[] };

const rowsOnly = (rows: FigureRow[]): Group => ({ rows, gauges: [] });

const GROUPS: Record<EventGroup, (fixture: EventFixture, backlog: number) => Promise<Group>> = {
  latency: async (fixture) => rowsOnly(await latencyRows(fixture)),
  'fan-out': async (fixture) => rowsOnly(await fanOutRows(fixture)),
  feed: async (fixture) => rowsOnly(await feedRows(fixture)),
  quiet: async (fixture) => rowsOnly(await quietRows(fixture)),
  delivery: async (fixture) => rowsOnly([await costRow(fixture)]),
  matching: async (fixture) => rowsOnly(await matchingRows(fixture)),
  'black-holes': async (fixture) => rowsOnly([await blackHoleRow(fixture)]),
  backlog: (fixture, backlog) => backlogRow(fixture, backlog),
  idle: async (fixture) => ({ rows: [], gauges: await idleGauges(fixture) }),
};

/** Measures the chosen groups; `backlog` is the number of deliveries to drain. */
export async function measureEvents(run: Run, backlog: number): Promise<Pick<Measured, 'figures' | 'gauges'>> {
  const { only } = run.options;
  const fixture = await EventFixture.open(run);
  const measured: Group = { rows: [], gauges: [] };
  for (const name of EVENT_GROUPS) {
    if (only !== null && !only.has('events') && !only.has(name)) continue;
    run.log(`measuring events: ${name}`);
    const { rows, gauges } = await GROUPS[name](fixture, backlog).catch((error: Error) => failed(name, error));
    for (const row of rows) run.log(`${row.id}: ${row.failure ?? row.ratio?.toFixed(2)}`);
    measured.rows.push(...rows);
    measured.gauges.push(...gauges);
  }
  return { figures: measured.rows, gauges: measured.gauges };
}

function failed(name: string, { message }: Error): Group {
  const row = { id: name, label: name, against: '', unit: '', must: Number.NaN, goal: Number.NaN, failure: message };
  return rowsOnly([row]);
}
