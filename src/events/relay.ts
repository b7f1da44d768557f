// From the outbox to the live streams: adds committed events that somebody listens to (stream-subscriptions.ts), in the
// order of their numbers (outbox-cursor.ts), to their tenant's stream. One process relays at a time, by the lock
// on its row; one that is gone, with all its connections, is relieved at once. A lone event of that process is added
// without a look at the outbox. After a change of hands a few events may be relayed twice, and the hub drops those
// by their id.
// Contract: decisions#events.
import type { App } from '../app.ts';
import { STREAM_TTL_MS } from '../runtime/broker/contract.ts';
import { SerialQueue } from '../runtime/concurrency.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { type CommittedEvent, toEvent } from './event.ts';
import {
  advance,
  type Cursor,
  cursorAt,
  cursorAtEnd,
  type LeaderState,
  lockLeaderState,
  type RelayRecord,
  readLeaderState,
  readOutbox,
  watermarkOf,
} from './outbox-cursor.ts';
import { HAS_ANY_SUBSCRIBER } from './stream-subscriptions.ts';

/** Events in one entry of a stream, and entries kept; a reader further behind is disconnected. */
const ENTRY_EVENTS = 20;
const STREAM_MAX = 1_000;
/** How long the last entry of a stream is remembered: the broker forgets idle streams, but no sooner. */
const REMEMBER_MS = STREAM_TTL_MS / 2;
/** Who relays says so at least this often; after FREE it may be relieved, after LOST its place is too old to go on from. */
const TOUCH_AFTER_S = 1;
const FREE_AFTER_S = 3;
const LOST_AFTER_S = 30;
/** How long after a look nobody else can have taken over, so that events may be offered. Milliseconds. */
const OFFERS_AFTER_LOOK_MS = (FREE_AFTER_S * 1_000) / 2;
/** How often is asked whether the process that relays is still there. Milliseconds. */
const LOOK_MS = 250;

/** An event with the transaction that made it. */
export interface RelayedEvent extends CommittedEvent {
  xid: string;
}

export function streamOf(tenantId: string): string {
  return `events:${tenantId}`;
}

/** What a round has come by: committed events, and those of them that were relayed. */
export interface Round {
  seen: number;
  relayed: number;
}

export class Relay {
  readonly #processId: string;
  #place: Cursor | null = null;
  /** One after the other in this process too: what a look shows is for the place that it was made for. */
  readonly #turns = new SerialQueue();
  /** A process that was found to be gone, and when one was looked for last. */
  #gone: string | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** When this process last saw that it is the one that relays. */
  #seenAt = Number.NEGATIVE_INFINITY;
  /** The last entry of each tenant's stream, so that each entry can name the one before it. */
  readonly #lastEntry = new Map<string, { id: string; at: number }>();

  /** `onLost` is called when events may have been left out: what was relayed last is too long ago. */
  constructor(
    private readonly app: App,
    private readonly onLost: () => void,
  ) {
    this.#processId = app.db.id;
  }

  /** Whether this process is the one that relays. */
  get isHolder(): boolean {
    return this.#place !== null;
  }

  /** Whether an event of this process may be one to `offer`, as far as can be said before there is one. */
  get isOpen(): boolean {
    const isSure = performance.now() - this.#seenAt < OFFERS_AFTER_LOOK_MS;
    return this.#place !== null && this.#place.missing.size === 0 && isSure && this.#turns.isIdle;
  }

  /** The entry that the stream ends with; undefined when this process does not know. */
  lastEntryOf(stream: string): string | undefined {
    const last = this.#lastEntry.get(stream);
    return last !== undefined && Date.now() - last.at < REMEMBER_MS ? last.id : undefined;
  }

  /**
   * Relays an event that this process has just committed, without a look at the outbox, where that would show this event
   * alone: it is the very next one, nothing before it is missing, no round is under way. Null otherwise; a round will come
   * by it. Where it resolves to false, the event could not be added to its stream, and a round is to try again. The place
   * is written down by the next round: who takes over before that relays a few events twice.
   */
  offer(event: RelayedEvent): Promise<boolean> | null {
    const place = this.#place;
    if (place === null || !this.isOpen || event.seq !== place.readTo + 1) return null;
    return this.#turns.run(async () => {
      try {
        await this.#append(streamOf(event.tenantId), [event]);
      } catch (cause) {
        this.app.log.warn('an event could not be relayed at once', { cause });
        return false;
      }
      place.readTo = event.seq;
      return true;
    });
  }

  /** Relays one batch; null when another process relays. */
  async once(): Promise<Round | null> {
    if (this.#place === null) {
      const standing = await readLeaderState(this.app.db);
      if (this.#isRelayedElsewhere(standing) && (await this.#isThere(standing?.leader ?? ''))) return null;
    }
    return this.claim();
  }

  /** The same, under the row's lock from the start: what is committed after it resolves is relayed by somebody. */
  claim(): Promise<Round | null> {
    return this.#turns.run(() => this.#claim());
  }

  async #claim(): Promise<Round | null> {
    const { db } = this.app;
    if (this.#place === null && !(await db.begin((tx) => this.#take(tx)))) return null;
    return (await db.begin((tx) => this.#relayNext(tx))) ?? this.#claim();
  }

  /** Becomes the one that relays; false while another process is. */
  async #take(tx: Tx): Promise<boolean> {
    const standing = await lockLeaderState(tx);
    if (this.#isRelayedElsewhere(standing)) return false;
    const place = await this.#begin(tx, standing);
    await this.#touch(tx, standing, place);
    this.#place = place;
    this.#gone = null;
    return true;
  }

  /** Null when another process has taken over meanwhile. */
  async #relayNext(tx: Tx): Promise<Round | null> {
    const place = this.#place;
    if (place === null) return null;
    const askedAt = performance.now();
    const seen = await readOutbox(tx, place);
    if (seen.standing.leader !== this.#processId) {
      this.#place = null;
      return null;
    }
    this.#seenAt = askedAt;
    await this.#publish(seen.rows);
    advance(place, seen);
    await this.#touch(tx, seen.standing, place);
    return { seen: seen.count, relayed: seen.rows.length };
  }

  /**
   * Gives its place up unless somebody listens to something, whatever this process has heard of that. Resolves to
   * whether it has none.
   */
  async rest(): Promise<boolean> {
    if (this.#place === null) return true;
    const leave = async (tx: Tx): Promise<void> => {
      await lockLeaderState(tx);
      const left = await tx.rows(sql`
        update platform.relay set leader = null, heartbeat_at = clock_timestamp()
        where leader = ${this.#processId}::uuid and not ${HAS_ANY_SUBSCRIBER}
        returning id`);
      if (left.length > 0) this.#place = null;
    };
    await this.#turns.run(() => this.app.db.begin(leave));
    return this.#place === null;
  }

  /** Leaves its place to whoever wants it, at once. */
  async handOver(): Promise<void> {
    if (this.#place === null) return;
    this.#place = null;
    await this.app.db.rows(sql`
      update platform.relay set heartbeat_at = now() - make_interval(secs => ${FREE_AFTER_S}::int)
      where leader = ${this.#processId}::uuid`);
  }

  /** Without Redis there is one process, and another's name is that of one that has died. */
  #isRelayedElsewhere(standing: LeaderState | undefined): boolean {
    if (standing?.leader == null || standing.leader === this.#processId || standing.leader === this.#gone) return false;
    return this.app.config.redisUrl !== null && standing.age_s < FREE_AFTER_S;
  }

  /** Whether the process that relays still has connections; asked of the server now and then. */
  async #isThere(leader: string): Promise<boolean> {
    if (performance.now() - this.#lookedAt < LOOK_MS) return true;
    this.#lookedAt = performance.now();
    if (await this.app.db.isConnected(leader)) return true;
    this.#gone = leader;
    return false;
  }

  /** Goes on where it was stopped a moment ago, or begins anew at the end of the outbox. */
  async #begin(tx: Tx, { leader, age_s, watermark }: LeaderState): Promise<Cursor> {
    this.#lastEntry.clear();
    if (leader !== this.#processId && age_s < LOST_AFTER_S) return cursorAt(watermark);
    if (leader !== null) this.onLost();
    return cursorAtEnd(tx);
  }

  async #touch(tx: Tx, { leader, age_s, watermark: before }: LeaderState, place: Cursor): Promise<void> {
    const watermark = watermarkOf(place);
    if (leader === this.#processId && watermark === before && age_s < TOUCH_AFTER_S) return;
    await tx.rows(sql`
      update platform.relay
      set watermark = ${watermark}::bigint, leader = ${this.#processId}::uuid, heartbeat_at = clock_timestamp()
      where id = 1`);
  }

  /** Adds events to their tenants' streams, in order within each. */
  async #publish(rows: readonly RelayRecord[]): Promise<void> {
    const byStream = new Map<string, RelayedEvent[]>();
    for (const row of rows) {
      const stream = streamOf(row.tenant_id);
      const event = { ...toEvent(row), xid: row.xid };
      const events = byStream.get(stream);
      if (events === undefined) byStream.set(stream, [event]);
      else events.push(event);
    }
    await Promise.all([...byStream].map(([stream, events]) => this.#append(stream, events)));
  }

  async #append(stream: string, events: readonly RelayedEvent[]): Promise<void> {
    const { broker } = this.app;
    for (let at = 0; at < events.length; at += ENTRY_EVENTS) {
      const after = this.lastEntryOf(stream) ?? (await broker.lastId(stream));
      const fields = { events: JSON.stringify(events.slice(at, at + ENTRY_EVENTS)), after };
      this.#lastEntry.set(stream, { id: await broker.append(stream, fields, STREAM_MAX), at: Date.now() });
    }
  }
}
