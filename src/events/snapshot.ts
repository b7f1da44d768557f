// Snapshots of the database. A stream skips the events that were committed before it started, including those not yet relayed.
// The snapshot taken at its start identifies them, together with the highest number among them: after a crash of the database,
// later events may have transaction ids that were used before.
// Failures: the database's own.
// Contract: decisions#events.
import { type Queries, sql } from '../runtime/sql.ts';
import { detached } from '../runtime/work.ts';

/** The transactions that had ended: all below `xmin`, none from `xmax` on, and between them all except `running`. */
export interface Snapshot {
  xmin: bigint;
  xmax: bigint;
  running: ReadonlySet<bigint>;
}

/** A snapshot, and the highest number of an event that it sees. */
export interface StreamStart extends Snapshot {
  last: number;
}

/** The snapshot in progress, and the next one, which all calls meanwhile share. */
const queues = new WeakMap<Queries, { last: Promise<unknown>; next: Promise<StreamStart> | undefined }>();
const NONE: ReadonlySet<bigint> = new Set();

/** A snapshot taken after this call. */
export function takeSnapshot(queries: Queries): Promise<StreamStart> {
  const queue = queues.get(queries) ?? { last: Promise.resolve(), next: undefined };
  queues.set(queries, queue);
  queue.next ??= detached(() =>
    queue.last.then(() => {
      queue.next = undefined;
      const taken = readSnapshot(queries);
      // The callers get the failure; the queue only waits.
      queue.last = taken.catch(() => undefined);
      return taken;
    }),
  );
  return queue.next;
}

async function readSnapshot(queries: Queries): Promise<StreamStart> {
  const row = await queries.first<{ snapshot: string; last: number }>(
    sql`select pg_current_snapshot()::text as snapshot, platform.last_event() as last`,
  );
  return { ...parseSnapshot(row?.snapshot ?? ''), last: row?.last ?? 0 };
}

/** Whether the event was committed before the stream started. */
export function precedes(start: StreamStart, { seq, xid }: { seq: number; xid: bigint }): boolean {
  return seq <= start.last && isSeenIn(start, xid);
}

/** Reads Postgres's text of a snapshot. */
export function parseSnapshot(text: string): Snapshot {
  const [xmin = '0', xmax = '0', running = ''] = text.split(':');
  const ids = running === '' ? NONE : new Set(running.split(',').map(BigInt));
  return { xmin: BigInt(xmin), xmax: BigInt(xmax), running: ids };
}

/** Whether the snapshot sees the transaction's changes. */
export function isSeenIn({ xmin, xmax, running }: Snapshot, xid: bigint): boolean {
  return xid < xmin || (xid < xmax && !running.has(xid));
}

/** Whether the snapshot sees everything that the other one does. */
export function includes(one: Snapshot, other: Snapshot): boolean {
  if (one.xmax < other.xmax) return false;
  for (const xid of one.running) if (isSeenIn(other, xid)) return false;
  return true;
}
