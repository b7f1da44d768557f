// A stream skips what was committed before it started. A snapshot of the database decides that exactly, for events
// that are still in the relay too.
// Failures: the database's own. Contract: decisions#events.
import { type Queries, sql } from '../runtime/sql.ts';

/** The transactions that have ended: all below `xmin`, none from `xmax` on, and between them all except `running`. */
export interface Snapshot {
  xmin: bigint;
  xmax: bigint;
  running: ReadonlySet<bigint>;
}

/** Requests made while a snapshot is being taken need a later one, and share it. */
const queues = new WeakMap<Queries, { last: Promise<unknown>; next: Promise<Snapshot> | undefined }>();
const NONE: ReadonlySet<bigint> = new Set();

/** A snapshot taken after this call; calls made while one is being taken share the next. */
export function takeSnapshot(queries: Queries): Promise<Snapshot> {
  const queue = queues.get(queries) ?? { last: Promise.resolve(), next: undefined };
  queues.set(queries, queue);
  queue.next ??= queue.last.then(() => {
    queue.next = undefined;
    const taken = readSnapshot(queries);
    // The callers of `taken` get the failure.
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

/** Whether the snapshot sees the transaction's changes. */
export function isSeenIn({ xmin, xmax, running }: Snapshot, xid: bigint): boolean {
  return xid < xmin || (xid < xmax && !running.has(xid));
}
