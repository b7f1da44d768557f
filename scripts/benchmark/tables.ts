// The tables of the report, in Markdown; one without rows is empty. CPU in microseconds per request, in parts: the server, its
// Postgres and, where used, Redis. Latencies in milliseconds at the connections of the run.
// A ratio is shown with the lowest and highest of its rounds.

import type { FigureRow } from './figure-rows.ts';
import type { Figure } from './measure.ts';
import type { NeighbourRow } from './neighbours/neighbours.ts';
import { PEERS } from './peers.ts';
import type { Alone } from './pgbench.ts';
import type { Row } from './rows.ts';
import type { SoakMinute } from './soak.ts';
import { figureVerdict, type Gauge, gaugeVerdict, rowVerdict } from './verdict.ts';

const REASON_CHARACTERS = 160;

export function comparisonTable(rows: readonly Row[]): string {
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
  return [...cells(row.baseline), ...cells(row.subject), ratioCell(row.ratio, row.spread)];
}

function cells(figure: Figure): string[] {
  return [count(figure.requestsPerSecond), cpu(figure), `${figure.p50.toFixed(1)} / ${figure.p99.toFixed(1)}`];
}

function cpu({ app, database, redis }: Figure): string {
  const parts = [app, database, ...(Math.round(redis) > 0 ? [redis] : [])];
  return parts.map(count).join(' + ');
}

export function figureTable(rows: readonly FigureRow[]): string {
  if (rows.length === 0) return '';
  const lines = rows.map((row) => {
    const { label, against, unit, baseline, subject, ratio, spread, must, goal, atLeast } = row;
    const figures =
      baseline === undefined || subject === undefined || ratio === undefined
        ? [cell(row.failure), '', '']
        : [`${amount(baseline)} ${unit}`, amount(subject), ratioCell(ratio, spread)];
    const limits = [must, goal].map((limit) => (atLeast ? `at least ${limit}` : limit));
    return `| ${[label, against, ...figures, ...limits, figureVerdict(row)].join(' | ')} |`;
  });
  return [
    '| events | against | baseline | service | ratio | must | goal | |',
    '|---|---|--:|--:|--:|--:|--:|---|',
    ...lines,
  ].join('\n');
}

export function gaugeTable(gauges: readonly Gauge[]): string {
  if (gauges.length === 0) return '';
  const lines = gauges.map((gauge) => {
    const value = gauge.value === undefined ? cell(gauge.failure) : `${amount(gauge.value)} ${gauge.unit}`;
    return `| ${gauge.label} | ${value} | ${amount(gauge.must)} | ${amount(gauge.goal)} | ${gaugeVerdict(gauge)} |`;
  });
  return ['| figure | measured | must | goal | |', '|---|--:|--:|--:|---|', ...lines].join('\n');
}

export function bareTable(bare: readonly Alone[]): string {
  if (bare.length === 0) return '';
  const lines = bare.map(
    ({ label, figure, failure }) => `| ${label} | ${figure ? cells(figure).join(' | ') : `${cell(failure)} | | `} |`,
  );
  return ['| for orientation | req/s | CPU | p50 / p99 |', '|---|--:|--:|--:|', ...lines].join('\n');
}

export function neighbourTable(rows: readonly NeighbourRow[]): string {
  if (rows.length === 0) return '';
  const lines = rows.map((row) => {
    const { label, suffered, peakMiB = 0, afterMiB = 0, statuses = '', failure, isWithin } = row;
    if (suffered === undefined) return `| ${label} | ${cell(failure)} | | | | | | | | FAILED |`;
    const { p50, p99, p99Lowest, p99Highest, max, lateP99, health, exportMs, definitionMs, failures } = suffered;
    const failed = Object.entries(failures).map(([what, times]) => `${times} x ${what}`);
    const times = `${amount(p50)} / ${amount(p99)} (${amount(p99Lowest)} to ${amount(p99Highest)}) / ${amount(max)}`;
    const slow = [exportMs, definitionMs].map(amount).join(', ');
    const memory = [peakMiB, afterMiB].map(count).join(', ');
    const trouble = [...failed, ...(failure === undefined ? [] : [cell(failure)])].join(', ') || 'none';
    const cells = [label, times, amount(lateP99), amount(health), slow, trouble, memory, statuses];
    return `| ${[...cells, isWithin ? 'within' : 'MISSED'].join(' | ')} |`;
  });
  return [
    '| attack | p50 / p99 (lowest to highest) / max, ms | sent late, p99 ms | /health, max ms | export, definition ms | failed | MiB peak, after | attacker got | |',
    '|---|--:|--:|--:|--:|---|--:|---|---|',
    ...lines,
  ].join('\n');
}

/** Each minute of the long run. */
export function soakTable(minutes: readonly SoakMinute[]): string {
  if (minutes.length === 0) return '';
  const lines = minutes.map((minute, at) => {
    const { requestsPerSecond, p50, p99, processMiB, backends, backendsMiB, deadTuples, autovacuums } = minute;
    const times = [p50, p99].map((time) => time.toFixed(1)).join(' / ');
    const memory = [processMiB, backendsMiB].map(count);
    const tuples = [deadTuples, autovacuums].map(count);
    return `| ${[at + 1, count(requestsPerSecond), times, ...memory, backends, ...tuples].join(' | ')} |`;
  });
  return [
    '| minute | req/s | p50 / p99 | process, MiB | backends, MiB | backends | dead tuples | autovacuums |',
    '|--:|--:|--:|--:|--:|--:|--:|--:|',
    ...lines,
  ].join('\n');
}

/** Other platforms, as they were measured on an earlier day. */
export function peerTable(): string {
  const lines = PEERS.map(({ id, bare, parse, directus }) => {
    const cells = [parse, directus].map((rate) => `${amount(rate)} (${(bare / rate).toFixed(1)}x)`);
    return `| ${[id, count(bare), ...cells].join(' | ')} |`;
  });
  return [
    'Other platforms, measured side by side with a bare handler on an earlier day: requests a second, and those of the bare',
    'handler of that day divided by them.',
    '',
    '| op | bare | Parse Server 9 | Directus 12 |',
    '|---|--:|--:|--:|',
    ...lines,
  ].join('\n');
}

function ratioCell(ratio: number, spread: readonly [number, number] | undefined): string {
  const [lowest, highest] = (spread ?? [ratio, ratio]).map((bound) => bound.toFixed(2));
  return `${ratio.toFixed(2)}x (${lowest} to ${highest})`;
}

/** A reason in one cell of a table. */
function cell(reason = ''): string {
  return reason.replaceAll('|', '/').replaceAll(/\s+/g, ' ').slice(0, REASON_CHARACTERS);
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

function amount(value: number): string {
  return value >= 100 ? count(value) : String(Math.round(value * 100) / 100);
}
