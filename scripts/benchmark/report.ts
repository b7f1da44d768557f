// The result as Markdown and as JSON. CPU in microseconds per request, in parts: the server, its Postgres and, where
// used, Redis. Latencies in milliseconds at the connections of the run.
// A verdict compares a figure with its limits: `goal`, `must`, `MISSED`, `FAILED` or `skipped`.

import { cpus } from 'node:os';
import type { EventRow } from './events/rows.ts';
import type { Figure } from './measure.ts';
import type { NeighbourRow } from './neighbours/neighbours.ts';
import type { Options } from './options.ts';
import type { Row } from './rows.ts';
import type { Scratch } from './scratch.ts';

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

export interface Report {
  options: Options;
  scratch: Scratch;
  rows: readonly Row[];
  events: readonly EventRow[];
  gauges: readonly Gauge[];
  neighbours: readonly NeighbourRow[];
  /** Alternative ways for the bare handler to list records, for comparison only. */
  bare: ReadonlyArray<{ label: string; figure?: Figure; failure?: string }>;
}

type Verdict = 'goal' | 'must' | 'MISSED' | 'FAILED' | 'skipped';

const REASON_CHARACTERS = 160;

export function rowVerdict(row: Row): Verdict {
  if (row.skipped !== undefined) return 'skipped';
  if (row.ratio === undefined || row.must === null || row.goal === null) return 'FAILED';
  return verdict(row.ratio, row.must, row.goal);
}

export function eventVerdict({ ratio, must, goal, atLeast }: EventRow): Verdict {
  if (ratio === undefined) return 'FAILED';
  return atLeast ? verdict(-ratio, -must, -goal) : verdict(ratio, must, goal);
}

export function gaugeVerdict(gauge: Gauge): Verdict {
  if (gauge.value === undefined) return 'FAILED';
  const sign = gauge.atLeast ? -1 : 1;
  return verdict(sign * gauge.value, sign * gauge.must, sign * gauge.goal);
}

/** The whole document. */
export function markdown(report: Report): string {
  const { rows, events, gauges, bare, neighbours } = report;
  const tables = [comparisonTable(rows), eventTable(events), gaugeTable(gauges), bareTable(bare)];
  return [machine(report), ...tables, neighbourTable(neighbours)].filter((part) => part !== '').join('\n\n');
}

/** For programs: every row with its verdict. */
export function json(report: Report): string {
  const { records, rounds, seconds, connections } = report.options;
  return JSON.stringify(
    {
      machine: machineFacts(report),
      conditions: { records, rounds, seconds, connections },
      rows: report.rows.map((row) => ({ ...row, verdict: rowVerdict(row) })),
      events: report.events.map((row) => ({ ...row, verdict: eventVerdict(row) })),
      gauges: report.gauges.map((gauge) => ({ ...gauge, verdict: gaugeVerdict(gauge) })),
      bare: report.bare,
      neighbours: report.neighbours,
    },
    null,
    2,
  );
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

function machineFacts({ scratch }: Report) {
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
    `${connections} connections, medians of ${rounds} interleaved rounds of ${seconds} s, the server on one core and the generator on`,
    'another. CPU in microseconds a request: server + Postgres (+ Redis). Latency p50 / p99 in ms. Quote ratios, not absolute figures.',
  ].join('\n');
}

function comparisonTable(rows: readonly Row[]): string {
  if (rows.length === 0) return '';
  const head = '| op | against | req/s | CPU | p50 / p99 | service req/s | CPU | p50 / p99 | ratio | must | goal | |';
  const lines = rows.map(
    (row) =>
      `| ${[row.label, row.against, ...middle(row), row.must ?? '', row.goal ?? '', rowVerdict(row)].join(' | ')} |`,
  );
  return [head, '|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|', ...lines].join('\n');
}

function middle(row: Row): string[] {
  if (!row.baseline || !row.subject || row.ratio === undefined) {
    return [cell(row.skipped ?? row.failure), '', '', '', '', '', ''];
  }
  return [...cells(row.baseline), ...cells(row.subject), `${row.ratio.toFixed(2)}x`];
}

function cells(figure: Figure): string[] {
  return [count(figure.requestsPerSecond), cpu(figure), `${figure.p50.toFixed(1)} / ${figure.p99.toFixed(1)}`];
}

function cpu({ app, database, redis }: Figure): string {
  const parts = [app, database, ...(Math.round(redis) > 0 ? [redis] : [])];
  return parts.map(count).join(' + ');
}

function eventTable(rows: readonly EventRow[]): string {
  if (rows.length === 0) return '';
  const lines = rows.map((row) => {
    const { label, against, unit, baseline, subject, ratio, must, goal, atLeast } = row;
    const figures =
      baseline === undefined || subject === undefined || ratio === undefined
        ? [cell(row.failure), '', '']
        : [`${amount(baseline)} ${unit}`, amount(subject), `${ratio.toFixed(2)}x`];
    const limits = [must, goal].map((limit) => (atLeast ? `at least ${limit}` : limit));
    return `| ${[label, against, ...figures, ...limits, eventVerdict(row)].join(' | ')} |`;
  });
  return [
    '| events | against | baseline | service | ratio | must | goal | |',
    '|---|---|--:|--:|--:|--:|--:|---|',
    ...lines,
  ].join('\n');
}

function gaugeTable(gauges: readonly Gauge[]): string {
  if (gauges.length === 0) return '';
  const lines = gauges.map((gauge) => {
    const value = gauge.value === undefined ? cell(gauge.failure) : `${amount(gauge.value)} ${gauge.unit}`;
    return `| ${gauge.label} | ${value} | ${amount(gauge.must)} | ${amount(gauge.goal)} | ${gaugeVerdict(gauge)} |`;
  });
  return ['| figure | measured | must | goal | |', '|---|--:|--:|--:|---|', ...lines].join('\n');
}

function bareTable(bare: Report['bare']): string {
  if (bare.length === 0) return '';
  const lines = bare.map(
    ({ label, figure, failure }) => `| ${label} | ${figure ? cells(figure).join(' | ') : `${cell(failure)} | | `} |`,
  );
  return ['| bare, for orientation | req/s | CPU | p50 / p99 |', '|---|--:|--:|--:|', ...lines].join('\n');
}

function neighbourTable(rows: readonly NeighbourRow[]): string {
  if (rows.length === 0) return '';
  const lines = rows.map((row) => {
    const { label, suffered, peakMiB = 0, afterMiB = 0, statuses = '', failure, isWithin } = row;
    if (suffered === undefined) return `| ${label} | ${cell(failure)} | | | | | | | | FAILED |`;
    const { p50, p99, max, lateP99, health, exportMs, definitionMs, failures } = suffered;
    const failed = Object.entries(failures).map(([what, times]) => `${times} x ${what}`);
    const times = [p50, p99, max].map(amount).join(' / ');
    const slow = [exportMs, definitionMs].map(amount).join(', ');
    const memory = [peakMiB, afterMiB].map(count).join(', ');
    const trouble = [...failed, ...(failure === undefined ? [] : [cell(failure)])].join(', ') || 'none';
    const cells = [label, times, amount(lateP99), amount(health), slow, trouble, memory, statuses];
    return `| ${[...cells, isWithin ? 'within' : 'MISSED'].join(' | ')} |`;
  });
  return [
    '| attack | p50 / p99 / max, ms | sent late, p99 ms | /health, max ms | export, definition ms | failed | MiB peak, after | attacker got | |',
    '|---|--:|--:|--:|--:|---|--:|---|---|',
    ...lines,
  ].join('\n');
}

/** A reason in one cell of a table. */
function cell(reason = ''): string {
  return reason.replaceAll('|', '/').replaceAll(/\s+/g, ' ').slice(0, REASON_CHARACTERS);
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

function amount(value: number): string {
  return value >= 100 ? count(value) : String(Math.round(value * 100) / 100);
}
