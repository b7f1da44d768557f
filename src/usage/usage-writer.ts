// Adds the counts of this process to the usage of the day, for all tenants in one statement. A killed process loses its counts
// since the last flush, at most FLUSH_MS. A flush at midnight separates the days. Times are milliseconds.
// Contract: neighbours#usage-and-quotas.
import { type App, perApp } from '../app.ts';
import { unavailable } from '../errors.ts';
import { SerialQueue } from '../runtime/concurrency.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import type { TenantCounts } from '../runtime/tenant-counters.ts';
import { detached } from '../runtime/work.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { openTimeOf } from './open-time.ts';

const FLUSH_MS = 2_000;
const DAY_MS = 86_400_000;
const COUNTED = ['requests', 'reads', 'writes', 'events', 'deliveries', 'streamMs', 'socketMs', 'sentBytes'] as const;
type Counted = Pick<TenantCounts, (typeof COUNTED)[number]>;

/** The use of a tenant since the last flush, in whole units. */
interface AddedUsage extends Counted {
  tenantId: string;
}

interface StoredTenant {
  tenantId: string;
  /** The transaction's id. */
  xid: string;
}

interface Flush {
  xid: string;
  added: readonly AddedUsage[];
}

class UsageWriter {
  /** The counts of each tenant that have been stored. */
  readonly #stored = new Map<string, Counted>();
  readonly #queue = new SerialQueue();
  /** The flush that has not begun yet. It will store everything that is counted by then, so all who call until then share it. */
  #next: Promise<number> | undefined;
  /** A flush whose commit was not confirmed: it may have been stored. */
  #unconfirmed: Flush | undefined;
  /** The time since which counts have not been stored. */
  #since = Date.now();

  constructor(private readonly app: App) {}

  /**
   * Resolves to the number of tenants with new usage. Fails with 503 while the database is unavailable. It is the service's own
   * work: a flush stores the counts of all tenants, so it waits in no queue of the tenant that calls.
   */
  flush(now?: number): Promise<number> {
    if (now !== undefined) return this.#queue.run(() => this.#flush(now));
    this.#next ??= detached(() =>
      this.#queue.run(() => {
        this.#next = undefined;
        return this.#flush(Date.now());
      }),
    );
    return this.#next;
  }

  async #flush(now: number): Promise<number> {
    openTimeOf(this.app).settle();
    await this.#confirm();
    const added = this.#added();
    if (added.length > 0) await this.#store(utcDay(this.#since), added);
    this.#since = now;
    return added.length;
  }

  async #store(day: string, added: readonly AddedUsage[]): Promise<void> {
    const stored: StoredTenant[] = [];
    try {
      await this.app.db.begin(async (tx) => void stored.push(...(await store(tx, day, added))));
    } catch (error) {
      const [first] = stored;
      if (first !== undefined) this.#unconfirmed = { xid: first.xid, added };
      throw error;
    }
    const known = new Set(stored.map(({ tenantId }) => tenantId));
    for (const one of added) this.#markStored(one, known.has(one.tenantId));
  }

  /** Finds out whether an unconfirmed flush was committed, so that nothing is counted twice. 503 while it is running. */
  async #confirm(): Promise<void> {
    if (this.#unconfirmed === undefined) return;
    const { xid, added } = this.#unconfirmed;
    const row = await this.app.db.first<{ status: string | null }>(sql`
      select case when ${xid}::xid8 < pg_current_xact_id() then pg_xact_status(${xid}::xid8) else 'aborted' end as status`);
    const status = row?.status;
    if (status === 'in progress') throw unavailable('a flush of the usage has not ended yet');
    this.#unconfirmed = undefined;
    if (status !== 'aborted') for (const one of added) this.#markStored(one, true);
  }

  #added(): AddedUsage[] {
    const added: AddedUsage[] = [];
    for (const [tenantId, counts] of this.app.counters.entries()) {
      const stored = this.#stored.get(tenantId);
      const row = { tenantId } as AddedUsage;
      let sum = 0;
      for (const name of COUNTED) {
        row[name] = Math.floor(counts[name] - (stored?.[name] ?? 0));
        sum += row[name];
      }
      if (sum > 0) added.push(row);
    }
    return added;
  }

  #markStored({ tenantId, ...added }: AddedUsage, isKnown: boolean): void {
    if (!isKnown) {
      this.app.counters.delete(tenantId);
      this.#stored.delete(tenantId);
      return;
    }
    const stored = this.#stored.get(tenantId);
    const sums = { ...added };
    for (const name of COUNTED) sums[name] += stored?.[name] ?? 0;
    this.#stored.set(tenantId, sums);
  }
}

const writerOf = perApp((app) => new UsageWriter(app));

/** Stores what this process has counted so far. */
export function flushUsage(app: App, now?: number): Promise<number> {
  return writerOf(app).flush(now);
}

/** Flushes every FLUSH_MS and at midnight; stopping it flushes for the last time. */
export function startUsage(app: App): Worker {
  const writer = writerOf(app);
  const once = async (): Promise<number> => {
    await writer.flush();
    return 0;
  };
  const worker = startWorker({ name: 'usage', once, pollMs: FLUSH_MS, log: app.log });
  let midnight: ReturnType<typeof setTimeout>;
  const awaitMidnight = (): void => {
    midnight = setTimeout(
      () => {
        worker.nudge();
        awaitMidnight();
      },
      DAY_MS - (Date.now() % DAY_MS),
    );
  };
  awaitMidnight();
  return {
    nudge: () => worker.nudge(),
    stop: async () => {
      clearTimeout(midnight);
      await worker.stop();
      await writer.flush();
    },
  };
}

/**
 * Stores counts. Resolves to the tenants that still exist. Waits for the deletion of a tenant to end, since its row must still
 * exist.
 */
function store(tx: Tx, day: string, added: readonly AddedUsage[]): Promise<StoredTenant[]> {
  const of = (name: keyof Counted): number[] => added.map((row) => row[name]);
  return tx.rows<StoredTenant>(sql`
    insert into platform.usage_days as u
      (tenant_id, day, requests, reads, writes, events, deliveries, stream_ms, socket_ms, sent_bytes)
    select i.tenant_id, ${day}::date, i.requests, i.reads, i.writes, i.events, i.deliveries, i.stream_ms, i.socket_ms,
      i.sent_bytes
    from unnest(
      ${added.map(({ tenantId }) => tenantId)}::uuid[], ${of('requests')}::bigint[], ${of('reads')}::bigint[],
      ${of('writes')}::bigint[], ${of('events')}::bigint[], ${of('deliveries')}::bigint[], ${of('streamMs')}::bigint[],
      ${of('socketMs')}::bigint[], ${of('sentBytes')}::bigint[]
    ) as i (tenant_id, requests, reads, writes, events, deliveries, stream_ms, socket_ms, sent_bytes)
    join platform.tenants as t on t.id = i.tenant_id
    order by i.tenant_id
    for key share of t
    on conflict (tenant_id, day) do update set
      requests = u.requests + excluded.requests, reads = u.reads + excluded.reads, writes = u.writes + excluded.writes,
      events = u.events + excluded.events, deliveries = u.deliveries + excluded.deliveries,
      stream_ms = u.stream_ms + excluded.stream_ms, socket_ms = u.socket_ms + excluded.socket_ms,
      sent_bytes = u.sent_bytes + excluded.sent_bytes
    returning tenant_id as "tenantId", pg_current_xact_id()::text as xid`);
}

/** The UTC day of a time, as YYYY-MM-DD. */
export function utcDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}
