// The result as Markdown and as JSON: the machine, the conditions, the tables.
// Ratios compare figures of one run; absolute figures are shown for orientation.
// The plot of the ratios is drawn by plot.ts.

import { cpus } from 'node:os';
import type { FigureRow } from './figure-rows.ts';
import type { NeighbourRow } from './neighbours/neighbours.ts';
import type { Options } from './options.ts';
import type { Alone } from './pgbench.ts';
import type { Row } from './rows.ts';
import type { Scratch } from './scratch.ts';
import type { SoakMinute } from './soak.ts';
import {
  bareTable,
  comparisonTable,
  count,
  figureTable,
  gaugeTable,
  neighbourTable,
  peerTable,
  soakTable,
} from './tables.ts';
import { figureVerdict, type Gauge, gaugeVerdict, rowVerdict } from './verdict.ts';

export interface Report {
  options: Options;
  scratch: Scratch;
  rows: readonly Row[];
  figures: readonly FigureRow[];
  gauges: readonly Gauge[];
  neighbours: readonly NeighbourRow[];
  /** For comparison only: other ways for the bare handler to list records, and pgbench. */
  bare: readonly Alone[];
  soak: readonly SoakMinute[];
}

/** What one part of the run measured. */
export type Measured = Pick<Report, 'rows' | 'figures' | 'gauges' | 'bare' | 'soak'>;

/** The whole document. */
export function markdown(report: Report): string {
  const { rows, figures, gauges, bare, neighbours, soak } = report;
  const compared = [comparisonTable(rows), figureTable(figures), gaugeTable(gauges), soakTable(soak)];
  const orientation = bare.length === 0 ? [] : [bareTable(bare), peerTable()];
  return [machine(report), ...compared, ...orientation, neighbourTable(neighbours)]
    .filter((part) => part !== '')
    .join('\n\n');
}

/** For programs: every row with its verdict. */
export function json(report: Report): string {
  const { records, rounds, seconds, connections } = report.options;
  return JSON.stringify(
    {
      machine: machineFacts(report),
      conditions: { records, rounds, seconds, connections },
      rows: report.rows.map((row) => ({ ...row, verdict: rowVerdict(row) })),
      figures: report.figures.map((row) => ({ ...row, verdict: figureVerdict(row) })),
      gauges: report.gauges.map((gauge) => ({ ...gauge, verdict: gaugeVerdict(gauge) })),
      bare: report.bare,
      neighbours: report.neighbours,
      soak: report.soak,
    },
    null,
    2,
  );
}

export function machineFacts({ scratch }: Pick<Report, 'scratch'>) {
  const processors = cpus();
  return {
    cpu: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    ...scratch.versions,
    bun: Bun.version,
  };
}

function machine(report: Report): string {
  const { cpu, cores, postgres, redis, bun } = machineFacts(report);
  const { records, rounds, seconds, connections } = report.options;
  return [
    `${cores} cores (${cpu}), Postgres ${postgres}, Redis ${redis}, Bun ${bun}; ${count(records)} records of 8 fields,`,
    `${connections} connections; medians of ${rounds} paired rounds of ${seconds} s, and the median of their ratios (lowest to`,
    'highest); the server on one core and the generator on another. CPU in microseconds a request: server + Postgres (+ Redis). Latency p50 / p99 in ms. Quote ratios, not absolute figures.',
  ].join('\n');
}
