// What a stream need not be told: everything that was committed when it began. A snapshot of the
// database says so exactly, whatever is still on its way through the relay at that moment.
// Failures: the database's own. Contract: decisions#events.
import { type Queries, sql } from '../runtime/sql.ts';

/** The transactions that had ended at a moment: all below `xmin`, none from `xmax` on, and between them all but `running`. */
export interface Snapshot {
  xmin: bigint;
  xmax: bigint;
  running: ReadonlySet<bigint>;
}

/** Those that were asked for while one was being taken: they need a later one, and share it. */
const asked = new WeakMap<Queries, { last: Promise<unknown>; next: Promise<Snapshot> | undefined }>();
const NONE: ReadonlySet<bigint> = new Set();

/** A snapshot that is taken after it was asked for; one for all who ask meanwhile. */
export function takeSnapshot(queries: Queries): Promise<Snapshot> {
  const queue = asked.get(queries) ?? { last: Promise.resolve(), next: undefined };
  asked.set(queries, queue);
  queue.next ??= queue.last.then(() => {
    queue.next = undefined;
    const taken = readSnapshot(queries);
    // Whoever asked for it hears of a failure.
    queue.last = taken.catch(() => undefined);
    return taken;
  });
  return queue.next;
}

async function readSnapshot(queries: Queries): Promise<Snapshot> {
  const row = await queries.first<{ snapshot: string }>(sql`select pg_current_snapshot()::text as snapshot`);
  const [xmin = '0', xmax = '0', running = ''] = (row?.snapshot ?? '').split(':');
  const ids = running === '' ? NONE : new Set(running.split(',').map(BigInt));
  return { xmin: BigInt(xmin), xmax: BigInt(xmax), running: ids };
}

/** Whether what a transaction did could be seen in the snapshot. */
export function isSeenIn({ xmin, xmax, running }: Snapshot, xid: bigint): boolean {
  return xid < xmin || (xid < xmax && !running.has(xid));
}
