// The quota of writes in a minute. The writes of a transaction are counted before its commit, and uncounted when it has
// certainly failed. While a process knows that a tenant's window is exhausted, it refuses the tenant's writes before
// doing their work. Times are milliseconds.
// Failures: 429 QUOTA_EXCEEDED; 503 while the broker is unavailable. Contract: neighbours#usage-and-quotas.
import { type App, perApp } from '../app.ts';
import { quotaExceeded, ServiceError } from '../errors.ts';
import { currentWork } from '../runtime/work.ts';
import type { Tenant } from '../tenants/tenants.ts';

const WINDOW_MS = 60_000;
const REMEMBERED_MAX = 10_000;
const UNCERTAIN = new Set(['SERVICE_UNAVAILABLE', 'CLIENT_GONE']);

/** A window with no room for one more write: its hits, and when it ends. */
interface Exhausted {
  used: number;
  endsAt: number;
}

/** Writes that have been counted. */
export interface CountedWrites {
  /** The writes of the window, with these. */
  used: number;
  /** Uncounts them after the failure of their transaction, unless it may have been committed. */
  undo(error: unknown): Promise<void>;
}

const exhaustedOf = perApp(() => new Map<string, Exhausted>());

/** Refuses writes of a tenant whose window is known to be exhausted. */
export function requireRoomForWrites(app: App, { id, quotas }: Pick<Tenant, 'id' | 'quotas'>): void {
  const limit = quotas.writesPerMin;
  if (limit === undefined || currentWork().isOperator) return;
  const known = exhaustedOf(app).get(id);
  if (known === undefined) return;
  const leftMs = known.endsAt - performance.now();
  if (leftMs <= 0) exhaustedOf(app).delete(id);
  else if (known.used >= limit) throw exceeded(limit, known.used, leftMs);
}

/** Counts the writes of a transaction, all or none. */
export async function countWrites(app: App, tenantId: string, limit: number, writes: number): Promise<CountedWrites> {
  const key = `quota:writes:${tenantId}`;
  const askedAt = performance.now();
  const taken = await app.broker.take({ key, windowMs: WINDOW_MS, quota: limit }, writes);
  const { isTaken, count, resetMs } = taken;
  if (!isTaken) {
    if (count >= limit) remember(app, tenantId, { used: count, endsAt: askedAt + resetMs });
    throw exceeded(limit, count, resetMs);
  }
  const undo = async (error: unknown): Promise<void> => {
    if (error instanceof ServiceError && UNCERTAIN.has(error.ecode)) return;
    try {
      await app.broker.giveBack(key, writes, taken);
      exhaustedOf(app).delete(tenantId);
    } catch (cause) {
      app.log.warn('writes that failed stay counted in the minute', { cause });
    }
  };
  return { used: count + writes, undo };
}

function exceeded(limit: number, used: number, resetMs: number): ServiceError {
  return quotaExceeded({ quota: 'writesPerMin', limit, used }, resetMs / 1_000);
}

function remember(app: App, tenantId: string, window: Exhausted): void {
  const known = exhaustedOf(app);
  if (known.size >= REMEMBERED_MAX) known.clear();
  known.set(tenantId, window);
}
