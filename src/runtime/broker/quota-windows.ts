// Counts hits in quota windows with few Redis commands. Hits that arrive while a command for the same windows
// is in flight share the next one. Under a steady rate a process prefetches hits: it counts some in
// advance while the quota is far from reached, and returns unused ones within 50 ms. No hit is rejected
// while prefetched ones are outstanding, so all processes together admit exactly the quota (less what a
// killed process had prefetched). An exhausted first window is answered from memory. Times are milliseconds.
import { setImmediate } from 'node:timers';
import { setTimeout as delay } from 'node:timers/promises';
import type { QuotaWindow, WindowCount } from './broker.ts';
import { COUNT_ALL, RETURN_HITS } from './scripts.ts';

/** Runs a script in Redis; the broker adds its prefix to the keys. */
type RunScript = (script: string, keys: readonly string[], values: readonly number[]) => Promise<unknown>;

/** The result of counting some hits. */
interface CountResult {
  /** The state of each window before these hits, up to the first window whose quota they exceed. */
  windows: { before: number; resetMs: number }[];
  /**
   * Above 0: hits beyond the quota were not counted; count them again after this time, when no prefetch is outstanding.
   */
  waitMs: number;
  /** Further hits counted in advance, and the ends of the windows they were counted in. */
  prefetched: number;
  endsAt: number[];
}

interface Waiting {
  resolve(counts: WindowCount[]): void;
  reject(error: unknown): void;
}

/** Hits counted in advance; here `resetMs` of a window is the time at which it ends, not a duration. */
interface Prefetch extends CountResult {
  left: number;
  expiresAt: number;
}

/** The state of one list of windows. */
interface Group {
  windows: readonly QuotaWindow[];
  waiting: Waiting[];
  isBusy: boolean;
  lastSentAt: number;
  prefetch: Prefetch | undefined;
  /** When the first window ends, if it is exhausted. */
  exhaustedUntil: number;
}

/** Prefetched hits are used or returned within PREFETCH_MS; Redis keeps its marker of them for PREFETCH_KNOWN_MS. */
const PREFETCH_MS = 50;
const PREFETCH_KNOWN_MS = 150;
const PREFETCH_HITS = 64;
const GROUPS_MAX = 10_000;

export class QuotaCounter {
  readonly #groups = new Map<string, Group>();

  /** `onLost` is called when prefetched hits could not be returned. */
  constructor(
    private readonly runScript: RunScript,
    private readonly onLost: (error: unknown) => void,
  ) {}

  /** `Broker.countAll`. */
  count(windows: readonly QuotaWindow[]): Promise<WindowCount[]> {
    const group = this.#groupOf(windows);
    const now = performance.now();
    if (group.exhaustedUntil > now)
      return Promise.resolve([{ count: quotaOf(windows, 0) + 1, resetMs: group.exhaustedUntil - now }]);
    const prefetched = group.isBusy ? undefined : this.#usePrefetched(group, now);
    if (prefetched !== undefined) return Promise.resolve(prefetched);
    return new Promise((resolve, reject) => {
      group.waiting.push({ resolve, reject });
      if (group.isBusy) return;
      group.isBusy = true;
      // Requests that have already arrived are read in this turn of the event loop and join the command.
      setImmediate(() => void this.#flush(group));
    });
  }

  #groupOf(windows: readonly QuotaWindow[]): Group {
    const name = windows.map(({ key, windowMs, quota }) => `${key} ${windowMs} ${quota}`).join('\n');
    const known = this.#groups.get(name);
    if (known !== undefined) return known;
    if (this.#groups.size >= GROUPS_MAX) this.#removeIdleGroups();
    const group: Group = {
      windows,
      waiting: [],
      isBusy: false,
      lastSentAt: Number.NEGATIVE_INFINITY,
      prefetch: undefined,
      exhaustedUntil: 0,
    };
    this.#groups.set(name, group);
    return group;
  }

  #removeIdleGroups(): void {
    for (const [name, { isBusy, prefetch }] of this.#groups)
      if (!isBusy && prefetch === undefined) this.#groups.delete(name);
  }

  async #flush(group: Group): Promise<void> {
    while (group.waiting.length > 0) {
      const hits = group.waiting.filter(({ resolve }) => {
        const prefetched = this.#usePrefetched(group, performance.now());
        if (prefetched !== undefined) resolve(prefetched);
        return prefetched === undefined;
      });
      group.waiting = [];
      if (hits.length === 0) break;
      try {
        await this.#send(group, hits);
      } catch (error) {
        for (const { reject } of hits) reject(error);
      }
    }
    group.isBusy = false;
  }

  async #send(group: Group, hits: Waiting[]): Promise<void> {
    const { windows } = group;
    const sentAt = performance.now();
    const wanted = sentAt - group.lastSentAt < PREFETCH_MS ? PREFETCH_HITS : 0;
    group.lastSentAt = sentAt;
    const result = await this.#countHits(windows, hits.length, wanted);
    const counts = countsOfHits(windows, result, hits.length);
    for (const [i, ofHit] of counts.entries()) hits[i]?.resolve(ofHit);
    if (result.prefetched > 0) this.#keepPrefetched(group, result, hits.length, sentAt);
    const [first] = result.windows;
    if (result.waitMs > 0) {
      group.waiting.unshift(...hits.slice(counts.length));
      await delay(result.waitMs);
    } else if (first !== undefined && first.before + hits.length > quotaOf(windows, 0)) {
      // Measured from when the command was sent, so that no hit is rejected longer than by Redis itself.
      group.exhaustedUntil = sentAt + first.resetMs;
    }
  }

  /** Counts hits, and up to `wanted` more in advance when the quota is far from reached. */
  async #countHits(windows: readonly QuotaWindow[], hits: number, wanted: number): Promise<CountResult> {
    const keys = windows.map(({ key }) => key);
    const values = windows.flatMap(({ windowMs, quota }) => [Math.ceil(windowMs), quota]);
    const args = [hits, wanted, PREFETCH_KNOWN_MS, ...values];
    const reply = await this.runScript(COUNT_ALL, [`${keys[0]}:prefetched`, ...keys], args);
    const [waitMs = 0, prefetched = 0, ...facts] = reply as number[];
    const result: CountResult = { waitMs, prefetched, windows: [], endsAt: [] };
    for (let i = 0; i < facts.length; i += 3) {
      const [before = 0, resetMs = 0, endsAt = 0] = facts.slice(i, i + 3);
      result.windows.push({ before, resetMs });
      result.endsAt.push(endsAt);
    }
    return result;
  }

  /** Prefetched hits expire with their windows at the latest. */
  #keepPrefetched(group: Group, result: CountResult, used: number, sentAt: number): void {
    const windows = result.windows.map(({ before, resetMs }) => ({ before: before + used, resetMs: sentAt + resetMs }));
    const expiresAt = Math.min(sentAt + PREFETCH_MS, ...windows.map(({ resetMs }) => resetMs));
    const prefetch: Prefetch = { ...result, windows, left: result.prefetched, expiresAt };
    group.prefetch = prefetch;
    setTimeout(() => group.prefetch === prefetch && this.#returnUnused(group), PREFETCH_MS);
  }

  #usePrefetched(group: Group, now: number): WindowCount[] | undefined {
    const { prefetch } = group;
    if (prefetch === undefined) return undefined;
    if (prefetch.expiresAt <= now) {
      this.#returnUnused(group);
      return undefined;
    }
    const nth = prefetch.prefetched - prefetch.left + 1;
    prefetch.left -= 1;
    if (prefetch.left === 0) group.prefetch = undefined;
    return prefetch.windows.map(({ before, resetMs }) => ({ count: before + nth, resetMs: resetMs - now }));
  }

  #returnUnused(group: Group): void {
    const { prefetch, windows } = group;
    group.prefetch = undefined;
    if (prefetch === undefined) return;
    const keys = windows.map(({ key }) => key);
    this.runScript(RETURN_HITS, keys, [prefetch.left, ...prefetch.endsAt]).catch(this.onLost);
  }
}

function quotaOf(windows: readonly QuotaWindow[], i: number): number {
  return windows[i]?.quota ?? 0;
}

/**
 * The counts for each hit in order, without hits that must wait. A hit beyond a quota is not counted in later windows.
 */
function countsOfHits(windows: readonly QuotaWindow[], result: CountResult, hits: number): WindowCount[][] {
  const { windows: found, waitMs } = result;
  const fitting = found.reduce((fit, { before }, i) => Math.min(fit, Math.max(0, quotaOf(windows, i) - before)), hits);
  const counts: WindowCount[][] = Array.from({ length: waitMs > 0 ? fitting : hits }, () => []);
  let counted = counts.length;
  for (const [i, { before, resetMs }] of found.entries()) {
    const quota = quotaOf(windows, i);
    for (let nth = 1; nth <= counted; nth++)
      counts[nth - 1]?.push({ count: Math.min(before + nth, quota + 1), resetMs });
    counted = Math.min(counted, Math.max(0, quota - before));
  }
  return counts;
}
