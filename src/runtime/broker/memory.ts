// The broker of a single process: the broker contract in maps. Nothing is kept across restarts, and
// nothing can be missed, so `onReset` handlers are never called. Memory is bounded by what the callers bound: stream
// lengths, schedules, and windows and leases that are swept once they have run out. Times are milliseconds.
import { unavailable } from '../../errors.ts';
import type { Log } from '../log.ts';
import { type Broker, type MessageHandler, type RateWindow, STREAM_TTL_MS, type StreamEntry } from './contract.ts';

interface Window {
  count: number;
  endsAt: number;
}

const SWEEP_EVERY = 1_000;

export class MemoryBroker implements Broker {
  readonly #log: Log;
  readonly #handlers = new Map<string, Set<MessageHandler>>();
  readonly #streams = new Map<string, StreamEntry[]>();
  readonly #readers = new Set<{ look: () => void; give: (error: unknown) => void }>();
  readonly #schedules = new Map<string, Map<string, number>>();
  readonly #windows = new Map<string, Window>();
  readonly #leases = new Map<string, Map<string, number>>();
  #sequence = 0;
  #hits = 0;
  #closed = false;

  constructor(log: Log) {
    this.#log = log;
  }

  async publish(channel: string, message: string): Promise<void> {
    this.#check();
    for (const handler of this.#handlers.get(channel) ?? []) queueMicrotask(() => this.#tell(handler, message));
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
    // Cut off in pieces, so that a full stream does not move all its entries at every append.
    if (entries.length > maxLength + Math.max(1, maxLength >> 3)) entries.splice(0, entries.length - maxLength);
    this.#streams.set(stream, entries);
    if (this.#sequence % SWEEP_EVERY === 0) this.#forgetStreams();
    for (const reader of [...this.#readers]) reader.look();
    return id;
  }

  read(streams: ReadonlyMap<string, string>, blockMs: number, count: number): Promise<StreamEntry[]> {
    const look = (): StreamEntry[] => [...streams].flatMap(([stream, after]) => this.#after(stream, after, count));
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(unavailable('the broker is closed'));
      const found = look();
      if (found.length > 0 || streams.size === 0) return resolve(found);
      const done = (entries: StreamEntry[]): void => {
        clearTimeout(timer);
        this.#readers.delete(reader);
        resolve(entries);
      };
      const timer = setTimeout(() => done([]), blockMs);
      const reader = {
        look: () => {
          const entries = look();
          if (entries.length > 0) done(entries);
        },
        give: (error: unknown) => {
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

  async count(key: string, windowMs: number): Promise<{ count: number; resetMs: number }> {
    return this.#hit(key, windowMs);
  }

  #hit(key: string, windowMs: number): { count: number; resetMs: number } {
    this.#check();
    const now = Date.now();
    if (++this.#hits % SWEEP_EVERY === 0) this.#sweep(now);
    const known = this.#windows.get(key);
    const window = known && known.endsAt > now ? known : { count: 0, endsAt: now + windowMs };
    window.count++;
    this.#windows.set(key, window);
    return { count: window.count, resetMs: window.endsAt - now };
  }

  async countAll(windows: readonly RateWindow[]): Promise<{ count: number; resetMs: number }[]> {
    const hits: { count: number; resetMs: number }[] = [];
    for (const { key, windowMs, quota } of windows) {
      const hit = this.#hit(key, windowMs);
      hits.push(hit);
      if (hit.count > quota) break;
    }
    return hits;
  }

  async lease(set: string, member: string, limit: number, ttlMs: number): Promise<boolean> {
    const places = this.#places(set);
    if (!places.has(member) && places.size >= limit) return false;
    this.#leases.set(set, places.set(member, Date.now() + ttlMs));
    return true;
  }

  async renew(set: string, members: readonly string[], ttlMs: number): Promise<void> {
    const places = this.#places(set);
    for (const member of members) places.set(member, Date.now() + ttlMs);
    if (places.size > 0) this.#leases.set(set, places);
  }

  async release(set: string, member: string): Promise<void> {
    this.#places(set).delete(member);
  }

  async leaseCount(set: string): Promise<number> {
    return this.#places(set).size;
  }

  async ping(): Promise<void> {
    this.#check();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const reader of this.#readers) reader.give(unavailable('the broker is closed'));
    this.#readers.clear();
    this.#handlers.clear();
  }

  #check(): void {
    if (this.#closed) throw unavailable('the broker is closed');
  }

  #tell(handler: MessageHandler, message: string): void {
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

  /** The places of a set that have not run out; an empty set is forgotten. */
  #places(set: string): Map<string, number> {
    this.#check();
    const places = this.#leases.get(set) ?? new Map<string, number>();
    const now = Date.now();
    for (const [member, until] of places) if (until <= now) places.delete(member);
    if (places.size === 0) this.#leases.delete(set);
    return places;
  }

  #forgetStreams(): void {
    const since = Date.now() - STREAM_TTL_MS;
    for (const [stream, entries] of this.#streams) {
      if (Number.parseInt(entries.at(-1)?.id ?? '0', 10) < since) this.#streams.delete(stream);
    }
  }

  #sweep(now: number): void {
    for (const [key, window] of this.#windows) if (window.endsAt <= now) this.#windows.delete(key);
  }
}

function sequenceOf(id: string): number {
  return Number(id.slice(id.indexOf('-') + 1));
}
