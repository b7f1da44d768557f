// The limits of writes in a window of time: of a tenant per minute, of a bot per hour. The writes of a transaction are counted
// before its commit, and uncounted when it has certainly failed. While a process has just seen that a window is exhausted, it refuses
// writes before doing their work. A window begins with the first write in it. Times are milliseconds.
// Failures: 429 QUOTA_EXCEEDED; 503 while the broker is unavailable.
// Contract: neighbours#usage-and-quotas, decisions#limits-of-a-bot.
import { type App, perApp } from '../app.ts';
import { botLimitExceeded, quotaExceeded, ServiceError } from '../errors.ts';
import type { TakenHits } from '../runtime/broker/broker.ts';
import { currentWork } from '../runtime/work.ts';
import type { Tenant } from '../tenants/tenants.ts';

const REMEMBERED_MAX = 10_000;
/** For no longer: another process may have counted writes that fail and are given back. */
const REMEMBERED_MS = 1_000;
const UNCERTAIN = new Set(['SERVICE_UNAVAILABLE', 'CLIENT_GONE']);

export interface WriteWindow {
  quota: 'writesPerMin' | 'writesPerHour';
  key: string;
  limit: number;
  windowMs: number;
}

/** The part of a writer that has windows. `limits` are the limits of a bot. */
export interface Writer {
  readonly tenant: Pick<Tenant, 'id' | 'quotas'>;
  readonly id: string | null;
  readonly limits?: { writesPerHour?: number };
}

/** The windows in which the writes count. Operators have none. */
export function writeWindowsOf({ tenant, id, limits }: Writer): WriteWindow[] {
  const { writesPerMin } = tenant.quotas;
  const windows: WriteWindow[] = [];
  if (writesPerMin !== undefined && !currentWork().isOperator) {
    const key = `quota:writes:${tenant.id}`;
    windows.push({ quota: 'writesPerMin', key, limit: writesPerMin, windowMs: 60_000 });
  }
  if (limits?.writesPerHour !== undefined) {
    const key = `limit:writes:${tenant.id}:${id}`;
    windows.push({ quota: 'writesPerHour', key, limit: limits.writesPerHour, windowMs: 3_600_000 });
  }
  return windows;
}

/** A window without room for another write: its hits, its end, and when that was seen. */
interface ExhaustedWindow {
  used: number;
  endsAt: number;
  seenAt: number;
}

/** Writes that have been counted. */
export interface CountedWrites {
  /** The writes of the tenant in this minute, including these; undefined when it has no such limit. */
  used: number | undefined;
  /** Uncounts the writes after their transaction has failed, unless it may have been committed. */
  undo(error: unknown): Promise<void>;
}

const exhaustedOf = perApp(() => new Map<string, ExhaustedWindow>());

/** Refuses writes in a window that is known to be exhausted. */
export function requireRoomForWrites(app: App, windows: readonly WriteWindow[]): void {
  for (const window of windows) {
    const known = exhaustedOf(app).get(window.key);
    if (known === undefined) continue;
    const leftMs = known.endsAt - performance.now();
    if (leftMs <= 0 || performance.now() > known.seenAt + REMEMBERED_MS) exhaustedOf(app).delete(window.key);
    else if (known.used >= window.limit) throw exceeded(window, known.used, leftMs);
  }
}

/** Counts the writes of a transaction in each window, all or none. */
export async function countWrites(app: App, windows: readonly WriteWindow[], writes: number): Promise<CountedWrites> {
  const taken: { window: WriteWindow; hits: TakenHits }[] = [];
  const undo = async (error: unknown): Promise<void> => {
    if (error instanceof ServiceError && UNCERTAIN.has(error.ecode)) return;
    for (const { window, hits } of taken) await giveBack(app, window, writes, hits);
  };
  for (const window of windows) {
    try {
      taken.push({ window, hits: await take(app, window, writes) });
    } catch (error) {
      // These writes will not happen, whatever the error.
      await undo(null);
      throw error;
    }
  }
  const minute = taken.find(({ window }) => window.quota === 'writesPerMin');
  return { used: minute && minute.hits.count + writes, undo };
}

async function take(app: App, window: WriteWindow, writes: number): Promise<TakenHits> {
  const { key, windowMs, limit } = window;
  const askedAt = performance.now();
  const taken = await app.broker.take({ key, windowMs, quota: limit }, writes);
  const { isTaken, count, resetMs } = taken;
  if (isTaken) return taken;
  if (count >= limit) remember(app, key, { used: count, endsAt: askedAt + resetMs, seenAt: askedAt });
  throw exceeded(window, count, resetMs);
}

async function giveBack(app: App, { key }: WriteWindow, writes: number, taken: TakenHits): Promise<void> {
  try {
    await app.broker.giveBack(key, writes, taken);
    exhaustedOf(app).delete(key);
  } catch (cause) {
    app.log.warn('writes that failed stay counted in their window', { cause });
  }
}

function exceeded({ quota, limit }: WriteWindow, used: number, resetMs: number): ServiceError {
  const refuse = quota === 'writesPerHour' ? botLimitExceeded : quotaExceeded;
  return refuse({ quota, limit, used }, resetMs / 1_000);
}

function remember(app: App, key: string, window: ExhaustedWindow): void {
  const known = exhaustedOf(app);
  if (known.size >= REMEMBERED_MAX) known.clear();
  known.set(key, window);
}
