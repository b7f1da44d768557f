// Prints the ledger as a table and decides the verdict: no acknowledged change is lost, no stream has a gap, every reader of
// the feed has each change once and in order, every change has exactly one delivery, every delivery has a change, and no process exited by itself.
// Times are milliseconds, median and worst. Contract: decisions#guarantees.
import type { FeedVerdict } from './feed-readers.ts';
import type { Ledger, Recovery, Row } from './ledger.ts';
import { unexpectedExits } from './service-process.ts';
import type { DeliveryCounts } from './test-bed.ts';

const HEAD = ['fault', 'times', 'acknowledged', 'delivered', 'lost', 'duplicated', 'longest delay'];
const RECOVERIES: readonly [keyof Recovery, string][] = [
  ['write', 'write'],
  ['webhook', 'webhook'],
  ['sse', 'SSE'],
  ['ws', 'WebSocket'],
];

/** True when nothing was lost, left out, out of order or unaccounted for. */
export function report(
  ledger: Ledger,
  counts: DeliveryCounts,
  feed: Record<string, FeedVerdict>,
  run: { settledMs: number; minutes: number },
): boolean {
  const rows = ledger.rows();
  const heads = [...HEAD, ...RECOVERIES.map(([, title]) => title)];
  console.log(`| ${heads.join(' | ')} |\n|---|${'--:|'.repeat(heads.length - 1)}`);
  for (const row of rows) console.log(`| ${cells(row).join(' | ')} |`);
  const streams = { sse: ledger.stream('sse'), ws: ledger.stream('ws') };
  const lost = rows.reduce((sum, row) => sum + row.lost, 0);
  const { outOfOrder } = ledger;
  const minutes = Math.round(run.minutes * 10) / 10;
  console.log(
    JSON.stringify({ lost, outOfOrder, ...counts, streams, feed, unexpectedExits, settledMs: run.settledMs, minutes }),
  );
  const faults = [
    lost,
    outOfOrder,
    counts.missing,
    counts.orphaned,
    counts.pending,
    counts.failed,
    unexpectedExits.length,
  ];
  const read = Object.values(feed).map(
    ({ lost, doubled, disordered, unexpected }) => lost + doubled + disordered + unexpected.length,
  );
  const gaps = Object.values(streams).map((stream) => stream.gaps + stream.duplicated);
  return [...faults, ...gaps, ...read].every((count) => count === 0);
}

function cells(row: Row): (string | number)[] {
  const { kind, faults, acknowledged, delivered, lost, duplicated, longestMs } = row;
  const times = RECOVERIES.map(([where]) => spread(row.recoveries.map((recovery) => recovery[where])));
  return [kind, faults, acknowledged, delivered, lost, duplicated, longestMs, ...times];
}

function spread(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted.length === 0 ? '' : `${sorted[sorted.length >> 1]} / ${sorted.at(-1)}`;
}
