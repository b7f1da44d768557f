// The broker of a single process, in memory. Nothing survives a restart, and no message
// is ever missed, so `onReset` handlers are never called. Memory is bounded by the callers' own limits
// (stream lengths, schedules) and by sweeping expired windows and leases. Times are milliseconds.
import { unavailable } from '../../errors.ts';
import { giveWay } from '../event-loop.ts';
import type { Log } from '../log.ts';
import {
  type Broker,
  type MessageHandler,
  type QuotaWindow,
  STREAM_TTL_MS,
  type StreamEntry,
  type TakenHits,
  type WindowCount,
} from './broker.ts';

const SWEEP_EVERY = 1_000;

export class MemoryBroker implements Broker {
  readonly #log: Log;
  readonly #handlers = new Map<string, Set<MessageHandler>>();
  readonly #streams = new Map<string, StreamEntry[]>();
  readonly #readers = new Set<{ poll: () => void; reject: (error: unknown) => void }>();
  readonly #schedules = new Map<string, Map<string, number>>();
  readonly #windows = new Map<string, { count: number; endsAt: number }>();
  readonly #leases = new Map<string, Map<string, number>>();
  #sequence = 0;
  #hits = 0;
  #closed = false;

  constructor(log: Log) {
    this.#log = log;
  }

  async publish(channel: string, message: string): Promise<void> {
    this.#check();
    for (const handler of this.#handlers.get(channel) ?? []) queueMicrotask(() => this.#call(handler, message));
  }

  async subscribe(channel: string, handler: MessageHandler): Promise<() => Promise<void>> {
    this.#check();
    const handlers = this.#handlers.get(channel) ?? new Set();
    this.#handlers.set(channel, handlers.add(handler));
    return async () => {
      handlers.delete(handler);
      if (handlers.size === 0) this.#handlers.delete(channel);
    };
  }

  onReset(): () => void {
    return () => {};
  }

  connected(): boolean {
    return !this.#closed;
  }

  async append(stream: string, fields: Record<string, string>, maxLength: number): Promise<string> {
    this.#check();
    const entries = this.#streams.get(stream) ?? [];
    const id = `${Date.now()}-${++this.#sequence}`;
    entries.push({ stream, id, fields: { ...fields } });
    // Trimmed in chunks: trimming at every append would move all entries each time.
    if (entries.length > maxLength + Math.max(1, maxLength >> 3)) entries.splice(0, entries.length - maxLength);
    this.#streams.set(stream, entries);
    if (this.#sequence % SWEEP_EVERY === 0) this.#expireStreams();
    for (const reader of [...this.#readers]) reader.poll();
    return id;
  }

  async appendChain(
    stream: string,
    field: string,
    texts: readonly string[],
    after: string,
    maxLength: number,
  ): Promise<string> {
    let id = after;
    for (const text of texts) id = await this.append(stream, { [field]: text, after: id }, maxLength);
    return id;
  }

  async trim(stream: string, length: number): Promise<void> {
    this.#check();
    const entries = this.#streams.get(stream);
    if (entries !== undefined) entries.splice(0, Math.max(0, entries.length - length));
  }

  async remove(stream: string, isUnwanted: (fields: Record<string, string>) => boolean): Promise<void> {
    this.#check();
    const unwanted = new Set<StreamEntry>();
    for (const entry of [...(this.#streams.get(stream) ?? [])]) {
      await giveWay();
      if (isUnwanted(entry.fields)) unwanted.add(entry);
    }
    const entries = this.#streams.get(stream);
    if (entries !== undefined) entries.splice(0, entries.length, ...entries.filter((entry) => !unwanted.has(entry)));
  }

  read(streams: ReadonlyMap<string, string>, blockMs: number, count: number): Promise<StreamEntry[]> {
    const available = (): StreamEntry[] => [...streams].flatMap(([stream, after]) => this.#after(stream, after, count));
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(unavailable('the broker is closed'));
      const found = available();
      if (found.length > 0 || streams.size === 0) return resolve(found);
      const done = (entries: StreamEntry[]): void => {
        clearTimeout(timer);
        this.#readers.delete(reader);
        resolve(entries);
      };
      const timer = setTimeout(() => done([]), blockMs);
      const reader = {
        poll: () => {
          const entries = available();
          if (entries.length > 0) done(entries);
        },
        reject: (error: unknown) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      this.#readers.add(reader);
    });
  }

  async lastId(stream: string): Promise<string> {
    this.#check();
    return this.#streams.get(stream)?.at(-1)?.id ?? '0-0';
  }

  async schedule(set: string, member: string, dueAtMs: number): Promise<void> {
    this.#check();
    const members = this.#schedules.get(set) ?? new Map<string, number>();
    this.#schedules.set(set, members.set(member, dueAtMs));
  }

  async takeDue(set: string, limit: number): Promise<string[]> {
    this.#check();
    const now = Date.now();
    const members = this.#schedules.get(set) ?? new Map<string, number>();
    const due = [...members].filter(([, at]) => at <= now).sort((a, b) => a[1] - b[1]);
    const taken = due.slice(0, limit).map(([member]) => member);
    for (const member of taken) members.delete(member);
    return taken;
  }

  async unschedule(set: string, member: string): Promise<void> {
    this.#check();
    this.#schedules.get(set)?.delete(member);
  }

  async count(key: string, windowMs: number): Promise<WindowCount> {
    return this.#countHit(key, windowMs);
  }

  #countHit(key: string, windowMs: number): WindowCount {
    this.#check();
    const now = Date.now();
    const window = this.#windowOf(key, windowMs, now);
    window.count++;
    return { count: window.count, resetMs: window.endsAt - now };
  }

  /** The current window of a key. */
  #windowOf(key: string, windowMs: number, now: number): { count: number; endsAt: number } {
    if (++this.#hits % SWEEP_EVERY === 0) this.#expireWindows(now);
    const known = this.#windows.get(key);
    const window = known && known.endsAt > now ? known : { count: 0, endsAt: now + windowMs };
    this.#windows.set(key, window);
    return window;
  }

  async countAll(windows: readonly QuotaWindow[]): Promise<WindowCount[]> {
    const counts: WindowCount[] = [];
    for (const { key, windowMs, quota } of windows) {
      const hit = this.#countHit(key, windowMs);
      counts.push(hit);
      if (hit.count > quota) break;
    }
    return counts;
  }

  async take({ key, quota, windowMs }: QuotaWindow, hits: number): Promise<TakenHits> {
    this.#check();
    const now = Date.now();
    const window = this.#windowOf(key, windowMs, now);
    const { count, endsAt } = window;
    const isTaken = count + hits <= quota;
    if (isTaken) window.count += hits;
    return { isTaken, count, resetMs: endsAt - now, endsAt };
  }

  async giveBack(key: string, hits: number, { endsAt }: TakenHits): Promise<void> {
    this.#check();
    const window = this.#windows.get(key);
    if (window?.endsAt === endsAt) window.count -= hits;
  }

  async lease(set: string, member: string, limit: number, ttlMs: number): Promise<boolean> {
    const leases = this.#leasesOf(set);
    if (!leases.has(member) && leases.size >= limit) return false;
    this.#leases.set(set, leases.set(member, Date.now() + ttlMs));
    return true;
  }

  async makeRoom(set: string, share: string, limit: number, kept: number): Promise<string | null> {
    const leases = this.#leasesOf(set);
    if (leases.size < limit) return null;
    const shares = Map.groupBy(leases.keys(), (member) => member.slice(0, Math.max(0, member.indexOf(':'))));
    const [[, most]] = [...shares].sort(([, a], [, b]) => b.length - a.length) as [[string, string[]]];
    // With many shares, each keeps fewer, so that a share without a lease finds a place. A low limit set by the operator is exact.
    const keeps = limit < 10 * kept ? kept : Math.min(kept, Math.floor(limit / (shares.size + 1)));
    if (most.length <= Math.max(keeps, (shares.get(share)?.length ?? 0) + 1)) return null;
    const [oldest] = most.sort() as [string];
    leases.delete(oldest);
    return oldest;
  }

  async renew(set: string, members: readonly string[], ttlMs: number): Promise<void> {
    const leases = this.#leasesOf(set);
    for (const member of members) leases.set(member, Date.now() + ttlMs);
    if (leases.size > 0) this.#leases.set(set, leases);
  }

  async release(set: string, member: string): Promise<void> {
    this.#leasesOf(set).delete(member);
  }

  async leaseCount(set: string): Promise<number> {
    return this.#leasesOf(set).size;
  }

  async ping(): Promise<void> {
    this.#check();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const reader of this.#readers) reader.reject(unavailable('the broker is closed'));
    this.#readers.clear();
    this.#handlers.clear();
  }

  #check(): void {
    if (this.#closed) throw unavailable('the broker is closed');
  }

  #call(handler: MessageHandler, message: string): void {
    try {
      handler(message);
    } catch (error) {
      this.#log.error('a message could not be handled', { error });
    }
  }

  #after(stream: string, id: string, count: number): StreamEntry[] {
    const entries = this.#streams.get(stream) ?? [];
    const after = sequenceOf(id);
    let at = entries.length;
    while (at > 0 && sequenceOf(entries[at - 1]?.id ?? '') > after) at--;
    return entries.slice(at, at + count);
  }

  /** The leases of a set that have not expired; an empty set is removed. */
  #leasesOf(set: string): Map<string, number> {
    this.#check();
    const leases = this.#leases.get(set) ?? new Map<string, number>();
    const now = Date.now();
    for (const [member, until] of leases) if (until <= now) leases.delete(member);
    if (leases.size === 0) this.#leases.delete(set);
    return leases;
  }

  #expireStreams(): void {
    const since = Date.now() - STREAM_TTL_MS;
    for (const [stream, entries] of this.#streams) {
      if (Number.parseInt(entries.at(-1)?.id ?? '0', 10) < since) this.#streams.delete(stream);
    }
  }

  #expireWindows(now: number): void {
    for (const [key, window] of this.#windows) if (window.endsAt <= now) this.#windows.delete(key);
  }
}

function sequenceOf(id: string): number {
  return Number(id.slice(id.indexOf('-') + 1));
}
