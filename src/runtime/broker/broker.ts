// The broker, which processes share besides Postgres: pub/sub, trimmed live streams, schedules, counters of
// fixed windows, leases. Nothing in it is authoritative: losing all of it costs latency only. Two
// implementations: Redis for several processes, memory for one. Times are in milliseconds, by the
// broker's own clock. Every call settles; it rejects with 503 while Redis is unavailable.

export type MessageHandler = (message: string) => void;

/** One entry of a stream; ids increase within a stream. */
export interface StreamEntry {
  stream: string;
  id: string;
  fields: Record<string, string>;
}

/** A fixed window that admits `quota` hits. */
export interface QuotaWindow {
  key: string;
  windowMs: number;
  quota: number;
}

/** The number of hits in a window, and the time until it ends. */
export interface WindowCount {
  count: number;
  resetMs: number;
}

export interface TakenHits extends WindowCount {
  isTaken: boolean;
  /** When the window ends, by the broker's clock. */
  endsAt: number;
}

/** A stream expires this long after its last entry. */
export const STREAM_TTL_MS = 3_600_000;

export interface Broker {
  /** Sends to all current subscribers, at most once; there is no replay. */
  publish(channel: string, message: string): Promise<void>;
  /** Resolves when the subscription is active, to a function that ends it. */
  subscribe(channel: string, handler: MessageHandler): Promise<() => Promise<void>>;
  /** Calls `handler` whenever messages may have been missed; returns a function that ends it. */
  onReset(handler: () => void): () => void;
  /** Whether this process currently receives published messages. */
  connected(): boolean;

  /** Adds an entry and keeps about `maxLength` of the newest; resolves to its id. */
  append(stream: string, fields: Record<string, string>, maxLength: number): Promise<string>;
  /**
   * Adds entries to a stream, all or none, in one round trip. Each entry has one of `texts` as `field`, and the id of the previous entry
   * as `after`; the first entry has the given `after`. Keeps about `maxLength`. Resolves to the id of the last entry.
   */
  appendChain(
    stream: string,
    field: string,
    texts: readonly string[],
    after: string,
    maxLength: number,
  ): Promise<string>;
  /** Keeps only the newest entries of a stream. */
  trim(stream: string, length: number): Promise<void>;
  /** Removes entries of a stream. A reader that has not read one of them yet sees that it is missing. */
  remove(stream: string, isUnwanted: (fields: Record<string, string>) => boolean): Promise<void>;
  /**
   * Resolves to the entries after the id given for each stream, at most `count` of each, as soon as there are any; to
   * none after `blockMs`. One reader at a time. Rejects when its connection breaks or the broker closes.
   */
  read(streams: ReadonlyMap<string, string>, blockMs: number, count: number): Promise<StreamEntry[]>;
  /** The newest id of a stream, `0-0` when it is empty. A `read` after this id misses nothing. */
  lastId(stream: string): Promise<string>;

  /** Adds a member to a schedule, or moves it. */
  schedule(set: string, member: string, dueAtMs: number): Promise<void>;
  /** Removes and resolves to at most `limit` due members, the earliest first. */
  takeDue(set: string, limit: number): Promise<string[]>;
  unschedule(set: string, member: string): Promise<void>;

  /** Counts a hit in a fixed window that starts with its first hit. */
  count(key: string, windowMs: number): Promise<WindowCount>;
  /** Counts a hit in each window in order, atomically, up to and including the first whose quota it exceeds. */
  countAll(windows: readonly QuotaWindow[]): Promise<WindowCount[]>;

  /**
   * Counts `hits` in a window, all or none: none when they exceed its quota. `count` is the number of hits before, so
   * that `quota - count` would have fitted. With 0 hits it only asks.
   */
  take(window: QuotaWindow, hits: number): Promise<TakenHits>;
  /** Uncounts hits that were taken, unless their window has ended. */
  giveBack(key: string, hits: number, taken: TakenHits): Promise<void>;
  /** Takes one of `limit` leases for `ttlMs`, or renews the member's own; false when all are taken. */
  lease(set: string, member: string, limit: number, ttlMs: number): Promise<boolean>;
  /**
   * Frees a lease for a share, if the set of `limit` leases is full. Members are `share:age`. The freed lease is the oldest one of the
   * share with the most leases. That share must have more than `kept`, and afterwards at least as many as the share that gets the
   * lease. Resolves to the member that has lost its lease, or null.
   */
  makeRoom(set: string, share: string, limit: number, kept: number): Promise<string | null>;
  /** Renews leases for `ttlMs`, including expired ones. */
  renew(set: string, members: readonly string[], ttlMs: number): Promise<void>;
  release(set: string, member: string): Promise<void>;
  leaseCount(set: string): Promise<number>;

  /** Resolves when the broker answers. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
