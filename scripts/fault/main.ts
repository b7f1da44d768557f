// The run: two service processes on a Postgres and a Redis of their own, writers that never stop, a webhook
// receiver, an event stream and a WebSocket, and faults of one kind after the other. After each it is watched when
// a new change is acknowledged and arrives everywhere; at the end everything pending has to arrive. Prints the
// ledger; times are milliseconds. Ends by itself, with code 1 when anything was lost, left out or out of order.
// Contract: decisions#guarantees.
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { startReceiver } from '../../test/support/receiver.ts';
import { type Fault, faults } from './faults.ts';
import { Ledger, type Recovery } from './ledger.ts';
import { listen, subscribe, write } from './load.ts';
import { readOptions } from './options.ts';
import { report } from './report.ts';
import { openWorld } from './world.ts';

const WRITERS = 4;
const PAUSE_MS = 400;
/** After so long a fault counts as not recovered from. */
const RECOVER_MS = 90_000;
const SETTLE_MS = 180_000;

const options = readOptions(process.argv.slice(2));
const ledger = new Ledger();
const receiver = await startReceiver();
receiver.answer = ({ body }, response) => {
  ledger.arrive(body.data.mark, body.record_id, body.data.n);
  receiver.received.length = 0;
  response.writeHead(204).end();
};
const world = await openWorld(receiver.url);
const over = new AbortController();
const load = [
  ...Array.from({ length: WRITERS }, (_, i) => write(world.door, ledger, `w${i}`, over.signal)),
  listen(world.door, ledger, over.signal),
  subscribe(world.door, ledger, over.signal),
];
const startedAt = Date.now();
const recoveries: Promise<void>[] = [];
for (const fault of faults(world, options)) await strikeAll(fault);
ledger.kind = 'nothing';
await Promise.all(recoveries);
await delay(PAUSE_MS);
over.abort();
await Promise.all(load);
const settlingFrom = Date.now();
while (ledger.owed > 0 && Date.now() - settlingFrom < SETTLE_MS) await delay(50);
const settledMs = Date.now() - settlingFrom;
// What was written but never acknowledged may still be on its way.
while ((await world.books()).pending > 0 && Date.now() - settlingFrom < SETTLE_MS) await delay(200);
const books = await world.books();
const isGood = report(ledger, books, { settledMs, minutes: (Date.now() - startedAt) / 60_000 });
await world.close();
await receiver.stop();
process.exit(isGood ? 0 : 1);

async function strikeAll({ kind, times, strike }: Fault): Promise<void> {
  // What the last kind has left undone is not laid at this one's door.
  await Promise.all(recoveries);
  for (let i = 0; i < times; i++) {
    ledger.kind = kind;
    await delay(PAUSE_MS * (0.5 + Math.random()));
    // Recovery counts from the moment that whatever was taken away is back; a killed process is not waited for.
    const struck = Promise.withResolvers<void>();
    recoveries.push(struck.promise.then(() => recovered(kind)));
    await strike(struck.resolve);
    if ((i + 1) % 20 === 0 || i + 1 === times) console.log(`${kind}: ${i + 1} of ${times}`);
  }
}

/** Watches on while the next fault strikes. */
async function recovered(kind: string): Promise<void> {
  const from = Date.now();
  const took: Partial<Recovery> = {};
  for (const until = Date.now() + RECOVER_MS; Date.now() < until && Object.keys(took).length < 4; await delay(5)) {
    for (const where of Object.keys(ledger.since(from)) as (keyof Recovery)[]) took[where] ??= Date.now() - from;
  }
  const never = Number.POSITIVE_INFINITY;
  ledger.recovered(kind, { write: never, webhook: never, sse: never, ws: never, ...took });
}
