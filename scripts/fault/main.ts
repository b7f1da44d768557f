// The fault run: two service processes on a private Postgres and Redis, writers, a webhook receiver, an event stream and
// a WebSocket, and readers of the feed that are cut at random; then the faults, one kind after the other. After each fault it measures the time until a new change is
// acknowledged and has reached every channel; at the end all pending deliveries must arrive. Prints the ledger; times
// are milliseconds. The exit code is 1 when anything was lost, left out or out of order.
// Contract: decisions#guarantees.
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { startReceiver } from '../../test/support/receiver.ts';
import { type Fault, faults } from './faults.ts';
import { readFeed } from './feed-readers.ts';
import { Ledger, type Recovery } from './ledger.ts';
import { followSocket, followStream, write } from './load.ts';
import { readOptions, USAGE } from './options.ts';
import { report } from './report.ts';
import { openTestBed } from './test-bed.ts';

const WRITERS = 4;
const PAUSE_MS = 400;
/** A fault without recovery within this time counts as not recovered. */
const RECOVER_MS = 90_000;
const SETTLE_MS = 180_000;

if (process.argv.includes('--help')) {
  console.log(USAGE);
  process.exit(0);
}
const options = readOptions(process.argv.slice(2));
const ledger = new Ledger();
const receiver = await startReceiver();
receiver.answer = ({ body }, response) => {
  ledger.delivered(body.data.mark, body.record_id, body.data.n);
  receiver.received.length = 0;
  response.writeHead(204).end();
};
const bed = await openTestBed(receiver.url);
const feed = await readFeed(bed.endpoint, bed.postgres.url);
const stopLoad = new AbortController();
const load = [
  ...Array.from({ length: WRITERS }, (_, i) => write(bed.endpoint, ledger, `w${i}`, stopLoad.signal)),
  followStream(bed.endpoint, ledger, stopLoad.signal),
  followSocket(bed.endpoint, ledger, stopLoad.signal),
];
const startedAt = Date.now();
const recoveries: Promise<void>[] = [];
for (const fault of faults(bed, options)) await injectAll(fault);
ledger.kind = 'nothing';
await Promise.all(recoveries);
await delay(PAUSE_MS);
stopLoad.abort();
await Promise.all(load);
const settlingFrom = Date.now();
while (ledger.outstanding > 0 && Date.now() - settlingFrom < SETTLE_MS) await delay(50);
const settledMs = Date.now() - settlingFrom;
// Writes that were not acknowledged may still be pending.
while ((await bed.countDeliveries()).pending > 0 && Date.now() - settlingFrom < SETTLE_MS) await delay(200);
const counts = await bed.countDeliveries();
const readings = await feed.stop(SETTLE_MS);
const isGood = report(ledger, counts, readings, { settledMs, minutes: (Date.now() - startedAt) / 60_000 });
await bed.close();
await receiver.stop();
process.exit(isGood ? 0 : 1);

async function injectAll({ kind, times, inject }: Fault): Promise<void> {
  // Recoveries from the previous kind must not count against this one.
  await Promise.all(recoveries);
  for (let i = 0; i < times; i++) {
    ledger.kind = kind;
    await delay(PAUSE_MS * (0.5 + Math.random()));
    // Recovery is timed from the moment the stopped server is back; a killed process need not be replaced first.
    const restored = Promise.withResolvers<void>();
    recoveries.push(restored.promise.then(() => recovered(kind)));
    await inject(restored.resolve);
    if ((i + 1) % 20 === 0 || i + 1 === times) console.log(`${kind}: ${i + 1} of ${times}`);
  }
}

/** Measures the recovery, also while the next fault is injected. */
async function recovered(kind: string): Promise<void> {
  const from = Date.now();
  const took: Partial<Recovery> = {};
  for (const until = Date.now() + RECOVER_MS; Date.now() < until && Object.keys(took).length < 4; await delay(5)) {
    for (const where of Object.keys(ledger.since(from)) as (keyof Recovery)[]) took[where] ??= Date.now() - from;
  }
  const never = Number.POSITIVE_INFINITY;
  ledger.recovered(kind, { write: never, webhook: never, sse: never, ws: never, ...took });
}
