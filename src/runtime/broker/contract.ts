// What processes tell each other, and the counters they share: announcements, trimmed live streams, schedules,
// rate windows, leases. Nothing here is the truth of anything; all of it may vanish at the price of latency.
// Two implementations keep one contract: Redis for several processes, memory for one. Times are milliseconds by
// the broker's own clock. Every call settles; with Redis away it rejects with 503.

export type MessageHandler = (message: string) => void;

/** One entry of a stream; ids of one stream grow. */
export interface StreamEntry {
  stream: string;
  id: string;
  fields: Record<string, string>;
}

/** A counted window and how many hits fit into it. */
export interface RateWindow {
  key: string;
  windowMs: number;
  quota: number;
}

/** A stream that gets nothing for so long is forgotten: live events are for those who read along. */
export const STREAM_TTL_MS = 3_600_000;

export interface Broker {
  /** Tells all subscribers at the moment. Best effort: no replay for those who are not connected. */
  publish(channel: string, message: string): Promise<void>;
  /** Resolves when messages will arrive, to the function that ends it. */
  subscribe(channel: string, handler: MessageHandler): Promise<() => Promise<void>>;
  /** Calls `handler` whenever messages may have been missed; returns the function that ends it. */
  onReset(handler: () => void): () => void;
  /** Whether announcements are heard at present. */
  connected(): boolean;

  /** Adds an entry, keeps about the newest `maxLength`, resolves to its id. */
  append(stream: string, fields: Record<string, string>, maxLength: number): Promise<string>;
  /**
   * Entries after the id given for each stream, at most `count` of each, as soon as there are any; none after
   * `blockMs`. One reader at a time. Rejects when its connection breaks or the broker closes.
   */
  read(streams: ReadonlyMap<string, string>, blockMs: number, count: number): Promise<StreamEntry[]>;
  /** The newest id of a stream, `0-0` for an empty one. Read it before the first `read`, to miss nothing after. */
  lastId(stream: string): Promise<string>;

  /** Puts a member into a schedule; a member already there moves. */
  schedule(set: string, member: string, dueAtMs: number): Promise<void>;
  /** Removes and resolves to at most `limit` members that are due, the earliest first. */
  takeDue(set: string, limit: number): Promise<string[]>;
  unschedule(set: string, member: string): Promise<void>;

  /** Counts a hit in a fixed window that starts with the first hit in it; `resetMs` is what is left of it. */
  count(key: string, windowMs: number): Promise<{ count: number; resetMs: number }>;

  /** Counts one hit in each window in turn, in one step, up to and with the first whose quota it exceeds; the others stay as they are. */
  countAll(windows: readonly RateWindow[]): Promise<{ count: number; resetMs: number }[]>;

  /** Takes one of `limit` places until `ttlMs` from now; false when all are taken. A member's own place is renewed. */
  lease(set: string, member: string, limit: number, ttlMs: number): Promise<boolean>;
  /** Keeps places for another `ttlMs`, also those that have just run out. */
  renew(set: string, members: readonly string[], ttlMs: number): Promise<void>;
  release(set: string, member: string): Promise<void>;
  leaseCount(set: string): Promise<number>;

  /** Resolves when the broker answers. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
