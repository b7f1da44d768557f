// The ledger as a table, and the verdict: nothing acknowledged is lost, no stream has left anything out, every
// change has exactly one delivery and no delivery is without one, and no process ended by itself.
// Times are milliseconds, median and worst. Contract: decisions#guarantees.
import type { Ledger, Recovery, Row } from './ledger.ts';
import { fallen } from './service.ts';
import type { Books } from './world.ts';

const HEAD = ['fault', 'times', 'acknowledged', 'delivered', 'lost', 'doubled', 'longest delay'];
const RECOVERIES: readonly [keyof Recovery, string][] = [
  ['write', 'write again after'],
  ['webhook', 'webhook'],
  ['sse', 'SSE'],
  ['ws', 'WebSocket'],
];

/** Prints all of it; true when nothing was lost, left out, out of order or unaccounted for. */
export function report(ledger: Ledger, books: Books, run: { settledMs: number; minutes: number }): boolean {
  const rows = ledger.rows();
  const heads = [...HEAD, ...RECOVERIES.map(([, title]) => title)];
  console.log(`| ${heads.join(' | ')} |\n|---|${'--:|'.repeat(heads.length - 1)}`);
  for (const row of rows) console.log(`| ${cells(row).join(' | ')} |`);
  const streams = { sse: ledger.stream('sse'), ws: ledger.stream('ws') };
  const lost = rows.reduce((sum, row) => sum + row.lost, 0);
  const { disordered } = ledger;
  const minutes = Math.round(run.minutes * 10) / 10;
  console.log(JSON.stringify({ lost, disordered, ...books, streams, fallen, settledMs: run.settledMs, minutes }));
  const faults = [lost, disordered, books.undelivered, books.unfounded, books.pending, books.failed, fallen.length];
  const gaps = Object.values(streams).map((stream) => stream.gaps + stream.doubled);
  return [...faults, ...gaps].every((count) => count === 0);
}

function cells(row: Row): (string | number)[] {
  const { kind, faults, acknowledged, delivered, lost, doubled, longestMs } = row;
  const times = RECOVERIES.map(([where]) => spread(row.recoveries.map((recovery) => recovery[where])));
  return [kind, faults, acknowledged, delivered, lost, doubled, longestMs, ...times];
}

function spread(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted.length === 0 ? '' : `${sorted[sorted.length >> 1]} / ${sorted.at(-1)}`;
}
