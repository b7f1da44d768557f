// Relays events from the outbox to the live streams: appends committed events that have a subscriber to their tenant's
// stream, in the order of their numbers (outbox-cursor.ts), a part of each tenant's in turn (backlog.ts). One process
// relays at a time, the leader in platform.relay; a leader without database connections is replaced at once. The leader
// relays an event of its own process without reading the outbox. After a change of leader a few events are relayed
// twice; the hub drops the second by its id. A backlog that would fill the memory is dropped: its tenant's streams close.
// Contract: decisions#events, decisions#guarantees, neighbours#fair-shares.
import type { App } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { SerialQueue } from '../runtime/concurrency.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { parseStored } from '../runtime/trace.ts';
import { Backlog, isRelayed } from './backlog.ts';
import type { CommittedEvent } from './event.ts';
import type { NumberRanges } from './number-ranges.ts';
import {
  advance,
  type Cursor,
  cursorAt,
  cursorAtEnd,
  type LeaderState,
  lockLeaderState,
  missingOf,
  type OutboxRead,
  readLeaderState,
  readOutbox,
} from './outbox-cursor.ts';
import { HAS_ANY_SUBSCRIBER } from './stream-subscriptions.ts';
import { StreamTails } from './stream-tails.ts';
import { chained, ENTRY_EVENTS, entriesOf, readStreamed, type StreamedEvent } from './streamed-event.ts';

/** Events relayed in one round. While the cursor is behind, a tenant has only one turn, so that the next read follows soon. */
const ROUND_EVENTS = 500;
/** The id that an entry names as the entry before it so that no reader accepts it: this closes the tenant's streams. */
const LOST = 'lost';
/** The interval of the leader's heartbeats; after LEASE it may be replaced, after STALE its watermark is too old. */
const HEARTBEAT_S = 1;
const LEASE_S = 3;
const STALE_S = 30;
/** How long after a read the leader is certain to hold its lease. Milliseconds. */
const SURE_AFTER_READ_MS = (LEASE_S * 1_000) / 2;
/** How often the other processes check the leader's connections. Milliseconds. */
const CHECK_LEADER_MS = 250;

export function streamOf(tenantId: string): string {
  return `events:${tenantId}`;
}

/** The number of events read from the outbox in one round, and of those relayed. */
export interface Round {
  seen: number;
  relayed: number;
}

export class Relay {
  readonly #processId: string;
  /** Null unless this process leads. */
  #cursor: Cursor | null = null;
  readonly #backlog = new Backlog();
  /** One round at a time, so that a read is applied to the cursor that it was made for. */
  readonly #queue = new SerialQueue();
  /** The last leader that was found to have no connections, and the time of the last check. */
  #deadLeader: string | null = null;
  #checkedAt = Number.NEGATIVE_INFINITY;
  /** When this process last confirmed that it leads. */
  #ledAt = Number.NEGATIVE_INFINITY;
  readonly #tails = new StreamTails();

  /** `onLost` is called when events may not have been relayed, because the last leader stopped too long ago. */
  constructor(
    private readonly app: App,
    private readonly onLost: () => void,
  ) {
    this.#processId = app.db.id;
    app.metrics.queue('relay', () => this.#backlog.size);
  }

  /** The unrelayed events: those after `readTo`, and `others` once they are committed. Null unless this process leads. */
  get unrelayed(): { readTo: number; others: NumberRanges } | null {
    if (this.#cursor === null) return null;
    const [missing, waiting] = [missingOf(this.#cursor), this.#backlog.oldest()];
    const others: NumberRanges = waiting === null ? missing : [...missing, [waiting, waiting]];
    return { readTo: this.#cursor.readTo, others };
  }

  get isLeader(): boolean {
    return this.#cursor !== null;
  }

  /** The number of events that have been read and wait for a later round. */
  get waiting(): number {
    return this.#backlog.size;
  }

  /** Whether `relayNow` may accept the next event of this process. */
  get canRelayNow(): boolean {
    const isSure = performance.now() - this.#ledAt < SURE_AFTER_READ_MS;
    return this.#cursor !== null && this.#cursor.missing.length === 0 && isSure && this.#queue.isIdle;
  }

  /** The id of the stream's last entry; undefined when this process does not know it. */
  lastEntryOf(stream: string): string | undefined {
    return this.#tails.lastOf(stream);
  }

  /**
   * Relays an event that this process has just committed, if a read of the outbox would find only this event: it is the next
   * number, none is missing, and no round is in progress. Otherwise null: a round will find the event. The next round stores
   * the cursor, so a leader that takes over before that relays a few events twice.
   */
  relayNow(event: CommittedEvent): Promise<boolean> | null {
    const cursor = this.#cursor;
    if (cursor === null || !this.canRelayNow || event.seq !== cursor.readTo + 1) return null;
    if (this.#backlog.has(event.tenantId)) return null;
    return this.#queue.run(async () => {
      try {
        await this.#append(streamOf(event.tenantId), [event]);
      } catch (cause) {
        this.app.log.warn('an event could not be relayed at once', { cause });
        return false;
      }
      cursor.readTo = event.seq;
      return true;
    });
  }

  /** Relays one batch; null while another process leads. */
  async once(): Promise<Round | null> {
    if (this.#cursor === null) {
      const state = await readLeaderState(this.app.db);
      if (this.#isLedElsewhere(state) && (await this.#isAlive(state?.leader ?? ''))) return null;
    }
    return this.lead();
  }

  /** Like `once`, but always locks the leader's row: once it resolves, some process relays all later commits. */
  lead(): Promise<Round | null> {
    return this.#queue.run(() => this.#lead());
  }

  async #lead(): Promise<Round | null> {
    const { db } = this.app;
    if (this.#cursor === null && !(await db.begin((tx) => this.#takeOver(tx)))) return null;
    return (await db.begin((tx) => this.#relayNext(tx))) ?? this.#lead();
  }

  /** Becomes the leader; false while another process is. */
  async #takeOver(tx: Tx): Promise<boolean> {
    const state = await lockLeaderState(tx);
    if (this.#isLedElsewhere(state)) return false;
    const cursor = await this.#startingCursor(tx, state);
    await this.#heartbeat(tx, state, cursor, true);
    this.#cursor = cursor;
    this.#deadLeader = null;
    return true;
  }

  /** Null when another process has taken over. */
  async #relayNext(tx: Tx): Promise<Round | null> {
    const cursor = this.#cursor;
    if (cursor === null) return null;
    const startedAt = performance.now();
    const read = await readOutbox(tx, cursor);
    if (read.state.leader !== this.#processId) {
      this.#cursor = null;
      return null;
    }
    this.#ledAt = startedAt;
    this.#remember(cursor, read);
    advance(cursor, read);
    // Until the cursor has passed the last leader's position, no newer position can be stored.
    const relayed = cursor.resumed === null ? await this.#relayTurns(tx, read.isFull ? 1 : ROUND_EVENTS) : 0;
    await this.#dropExcess();
    await this.#heartbeat(tx, read.state, cursor, read.count > 0 || relayed > 0);
    return { seen: read.count, relayed };
  }

  /** Adds the events that were read to the backlog, except those that the last leader has relayed. */
  #remember({ readTo, resumed }: Cursor, { numbers }: OutboxRead): void {
    for (const { tenantId, numbers: read } of numbers) {
      const added = resumed === null ? read : read.filter((seq) => !isRelayed(resumed, tenantId, seq));
      this.#backlog.add(tenantId, added, readTo);
    }
  }

  /** Relays up to `turns` entries per tenant; what cannot be appended stays in the backlog. Resolves to the number of events. */
  async #relayTurns(tx: Tx, turns: number): Promise<number> {
    const taken = this.#backlog.next(ROUND_EVENTS, ENTRY_EVENTS, turns);
    if (taken.size === 0) return 0;
    const all = [...taken.values()].flat();
    const events = await readStreamed(tx, all);
    await Promise.all(
      [...taken].map(async ([tenantId, numbers]) => {
        const found = numbers.flatMap((seq) => events.get(seq) ?? []);
        await this.#append(streamOf(tenantId), found);
        this.#backlog.relayed(tenantId, numbers.length);
      }),
    );
    return all.length;
  }

  /** Closes the streams of the tenants with the largest backlogs, until all backlogs together are small enough. */
  async #dropExcess(): Promise<void> {
    while (this.#backlog.size > LIMITS.events.backlogMax) {
      const tenantId = this.#backlog.dropLargest();
      if (tenantId === undefined) return;
      this.app.log.warn('a tenant has changed more than its streams can be sent; they are closed', { tenantId });
      await this.app.broker.append(streamOf(tenantId), { events: '[]', after: LOST }, 1);
      this.#tails.forget(streamOf(tenantId));
    }
  }

  /**
   * Stops leading if no process has a subscription in the database. Resolves to true when this process no longer leads.
   */
  async resign(): Promise<boolean> {
    if (this.#cursor === null) return true;
    const leave = async (tx: Tx): Promise<void> => {
      await lockLeaderState(tx);
      const left = await tx.rows(sql`
        update platform.relay set leader = null, heartbeat_at = clock_timestamp()
        where leader = ${this.#processId}::uuid and not ${HAS_ANY_SUBSCRIBER}
        returning id`);
      if (left.length > 0) this.#cursor = null;
    };
    await this.#queue.run(() => this.app.db.begin(leave));
    return this.#cursor === null;
  }

  /** Ends the lease, so that another process can take over at once. */
  async handOver(): Promise<void> {
    if (this.#cursor === null) return;
    this.#cursor = null;
    await this.app.db.rows(sql`
      update platform.relay set heartbeat_at = now() - make_interval(secs => ${LEASE_S}::int)
      where leader = ${this.#processId}::uuid`);
  }

  /** Without Redis there is only one process, so any other leader is dead. */
  #isLedElsewhere(state: LeaderState | undefined): boolean {
    if (state?.leader == null || state.leader === this.#processId || state.leader === this.#deadLeader) return false;
    return this.app.config.redisUrl !== null && state.age_s < LEASE_S;
  }

  /** Whether the leader has connections to the database; asked every CHECK_LEADER_MS. */
  async #isAlive(leader: string): Promise<boolean> {
    if (performance.now() - this.#checkedAt < CHECK_LEADER_MS) return true;
    this.#checkedAt = performance.now();
    if ((await this.app.db.connectedIds()).includes(leader)) return true;
    this.#deadLeader = leader;
    return false;
  }

  /** Continues from a recent watermark, else starts at the end of the outbox. */
  async #startingCursor(tx: Tx, state: LeaderState): Promise<Cursor> {
    const { leader, age_s } = state;
    this.#tails.clear();
    this.#backlog.clear();
    if (leader !== this.#processId && age_s < STALE_S) return cursorAt(state);
    if (leader !== null) this.onLost();
    return cursorAtEnd(tx);
  }

  async #heartbeat(tx: Tx, state: LeaderState, cursor: Cursor, hasMoved: boolean): Promise<void> {
    const { leader, age_s } = state;
    const position = cursor.resumed ?? this.#backlog.position(cursor.readTo, missingOf(cursor));
    const { watermark } = position;
    if (leader === this.#processId && !hasMoved && watermark === state.watermark && age_s < HEARTBEAT_S) return;
    await tx.rows(sql`
      update platform.relay
      set watermark = ${watermark}::bigint, position = ${JSON.stringify(position)}::text::jsonb,
        leader = ${this.#processId}::uuid, heartbeat_at = clock_timestamp()
      where id = 1`);
  }

  async #append(stream: string, events: readonly StreamedEvent[]): Promise<void> {
    const { broker } = this.app;
    const startedAt = performance.now();
    for (const entries of chained(entriesOf(events))) {
      const after = this.lastEntryOf(stream) ?? (await broker.lastId(stream));
      let kept = 0;
      for (const entry of entries) kept = this.#tails.add(stream, Buffer.byteLength(entry), after === '0-0');
      this.#tails.appended(stream, await broker.appendChain(stream, 'events', entries, after, kept));
    }
    for (const { stream: largest, kept } of this.#tails.dropExcess()) await broker.trim(largest, kept);
    this.#traceRelayed(events, performance.now() - startedAt);
  }

  #traceRelayed(events: readonly StreamedEvent[], durationMs: number): void {
    const { tracing } = this.app;
    if (tracing === null) return;
    for (const { trace, id } of events) {
      const parent = parseStored(trace);
      if (parent !== null) tracing.record('producer', 'relay', parent, durationMs, { 'svc.event.id': id });
    }
  }
}
