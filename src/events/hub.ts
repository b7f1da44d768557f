// The live events of the tenants that this process serves: one reader for all of them, each event
// handed to the tenant's watchers once and in order. Each entry names the one before it; where that
// is not the last one read, something was lost, and the watchers are told to close their streams:
// contiguous or disconnected, never a silent gap. Contract: decisions#sse.
import { type App, perApp } from '../app.ts';
import type { StreamEntry } from '../runtime/broker/contract.ts';
import { newId } from '../runtime/ids.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { Relay, type RelayedEvent, type Round, streamOf } from './relay.ts';
import { StreamSubscriptions } from './stream-subscriptions.ts';

/** What a room that streams events registers for one tenant. */
export interface Subscriber {
  /** Called for every event of the tenant, in order, each once. Must not throw. */
  event(event: RelayedEvent): void;
  /** Events may have been lost: every stream of the tenant must be closed. The watcher is unregistered already. */
  gap(): void;
}

/** What is asked of whoever changes a record; `isRelayed` says, once `tell` has been called, that no round is needed for it. */
export interface Follow {
  isRelayed: boolean;
  tell(event: RelayedEvent): void;
}

interface Channel {
  lastId: string;
  watchers: Set<Subscriber>;
  /** Ids of events handed out lately: after a change of the relay some come twice. */
  recent: Set<string>;
}

const RECENT_MAX = 2_000;
/** Entries of a stream taken at a time: a burst is handed on in pieces, so that connections can write in between. */
const READ_COUNT = 3;
const BLOCK_MS = 5_000;
const RETRY_MS = 200;
/** How often the relay looks without being nudged, and the hub makes sure that its streams are still there. */
const POLL_MS = 1_000;
/**
 * From a round of relaying that found something to the next one, for each event in it and in all: what is committed
 * meanwhile is gone through together. A lone event waits for nothing worth mentioning, a busy outbox is worked off in
 * batches, and in larger ones where nobody listens to what keeps it busy.
 */
const SPACING_MS = 3;
const SPACING_MAX_MS = 15;
const PASSING_MAX_MS = 50;
/** A round that passed over so many may have more of them before it. */
const PASSED_MANY = 100;
const CHECK_MS = 5_000;
const NUDGE = 'outbox';
const LOST = 'outbox-lost';

export class Hub {
  readonly #id = newId();
  readonly #watched = new Map<string, Channel>();
  readonly #wake = `wake:${this.#id}`;
  #wakeId = '0-0';
  #checkedAt = 0;
  #nextRelayAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #reading: Promise<void> = Promise.resolve();
  #listening!: StreamSubscriptions;
  #relaying!: Worker;
  readonly #relay: Relay;

  private constructor(private readonly app: App) {
    this.#relay = new Relay(app, () => this.#tellEveryoneOfLoss());
  }

  static async open(app: App): Promise<Hub> {
    const hub = new Hub(app);
    const onFirst = async (): Promise<void> => {
      await hub.#relay.claim();
      hub.#relaying.nudge();
    };
    const options = { app, processId: hub.#id, onFirst, onLeaseLost: () => hub.#tellAllOfGap() };
    hub.#listening = await StreamSubscriptions.open(options);
    hub.#relaying = startWorker({ name: 'relay', once: () => hub.#relayOnce(), pollMs: POLL_MS, log: app.log });
    await app.broker.subscribe(NUDGE, () => {
      if (hub.#relay.isHolder) hub.#relaying.nudge();
    });
    await app.broker.subscribe(LOST, (id) => {
      if (id !== hub.#id) hub.#tellOfLoss();
    });
    app.broker.onReset(() => hub.#tellAllOfGap());
    // While nobody listens a commit costs nothing here; whoever begins to listen makes it known.
    app.onCommitted((tenantId, change) => {
      if (change?.isRelayed !== true && hub.#listening.hasSubscribers(tenantId)) hub.#relaying.nudge();
    });
    hub.#reading = hub.#read();
    return hub;
  }

  /**
   * Registers a watcher from now on; resolves, once nothing relayed later can be missed, to the function that ends it.
   * Events committed shortly before may still come. Rejects with 503 while the broker is away.
   */
  async attach(tenantId: string, watcher: Subscriber): Promise<() => void> {
    const stream = streamOf(tenantId);
    try {
      if (!this.#watched.has(stream)) {
        const lastId = await this.app.broker.lastId(stream);
        const isNew = !this.#watched.has(stream);
        if (isNew) this.#watched.set(stream, { lastId, watchers: new Set(), recent: new Set() });
        this.#watched.get(stream)?.watchers.add(watcher);
        if (isNew) await this.#wakeReader();
      }
      this.#watched.get(stream)?.watchers.add(watcher);
    } catch (cause) {
      this.#unwatch(stream, watcher);
      throw cause;
    }
    return () => this.#unwatch(stream, watcher);
  }

  /**
   * Watchers are told only of what somebody listens to: from now on of these entities too (see EVERYTHING), each until
   * `unlisten` has been called as often. Resolves once all that is committed later is relayed. Rejects with 503 while
   * database or broker are away.
   */
  subscribe(tenantId: string, entities: Iterable<string>): Promise<void> {
    return this.#listening.add(tenantId, entities);
  }

  unsubscribe(tenantId: string, entities: Iterable<string>): void {
    this.#listening.remove(tenantId, entities);
  }

  /**
   * For whoever is about to change one record of the entity: undefined unless its event can be passed on as soon as it is
   * committed, with nothing in between. `tell` is to be given the event then.
   */
  follow(tenantId: string, entity: string): Follow | undefined {
    if (!this.#relay.isOpen || !this.#listening.hasLocalSubscribers(tenantId, entity)) return undefined;
    const follow: Follow = {
      isRelayed: false,
      tell: (event) => {
        follow.isRelayed = this.#pass(event);
      },
    };
    return follow;
  }

  /** Hands an event to those who watch here before it has been to the broker and back, if all before it was handed to them. */
  #pass(event: RelayedEvent): boolean {
    const stream = streamOf(event.tenantId);
    const watched = this.#watched.get(stream);
    const isRead = watched !== undefined && watched.lastId === this.#relay.lastEntryOf(stream);
    const relayed = this.#relay.offer(event);
    if (relayed === null) return false;
    if (isRead && this.#listening.isLeaseValid) this.#hand(watched, event);
    void relayed.then((isRelayed) => isRelayed || this.#relaying.nudge());
    return true;
  }

  /** Ends reading and relaying. Streams are closed by those who opened them, before this. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#relaying.stop();
    const told = await Promise.allSettled([this.#wakeReader(), this.#relay.handOver(), this.#listening.close()]);
    for (const outcome of told) {
      if (outcome.status === 'fulfilled') continue;
      this.app.log.warn('not all could be told that this process listens no more', { cause: outcome.reason });
    }
    await this.#reading;
  }

  async #relayOnce(): Promise<number> {
    if (!this.#listening.hasSubscribers() && (await this.#relay.rest())) return 0;
    const pauseMs = this.#nextRelayAt - performance.now();
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    const round = await this.#relay.once();
    this.#nextRelayAt = performance.now() + spacingMs(round);
    if (round === null) await this.app.broker.publish(NUDGE, this.#id);
    return round?.seen ?? 0;
  }

  #unwatch(stream: string, watcher: Subscriber): void {
    const watched = this.#watched.get(stream);
    watched?.watchers.delete(watcher);
    if (watched?.watchers.size === 0) this.#watched.delete(stream);
  }

  async #wakeReader(): Promise<void> {
    await this.app.broker.append(this.#wake, { wake: '1' }, 1);
  }

  /** The process's one blocking reader, over all watched streams and its own wake-up stream. */
  async #read(): Promise<void> {
    while (!this.#isClosed) {
      try {
        const places = new Map([...this.#watched].map(([stream, { lastId }]) => [stream, lastId]));
        const entries = await this.app.broker.read(places.set(this.#wake, this.#wakeId), BLOCK_MS, READ_COUNT);
        for (const entry of entries) this.#take(entry);
        if (entries.length > 1) await new Promise((resolve) => setTimeout(resolve, 0));
        await this.#checkStreams();
      } catch (cause) {
        if (this.#isClosed) return;
        this.app.log.warn('live events cannot be read', { cause });
        this.#tellAllOfGap();
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** A broker that was emptied says nothing; but then this process's own stream is gone too. */
  async #checkStreams(): Promise<void> {
    if (performance.now() - this.#checkedAt < CHECK_MS || this.#watched.size === 0) return;
    this.#checkedAt = performance.now();
    const isGone = this.#wakeId !== '0-0' && (await this.app.broker.lastId(this.#wake)) === '0-0';
    if (isGone) {
      this.app.log.warn('the broker has lost its streams');
      this.#tellAllOfGap();
    }
    await this.#wakeReader();
  }

  #take({ stream, id, fields }: StreamEntry): void {
    if (stream === this.#wake) {
      this.#wakeId = id;
      return;
    }
    const watched = this.#watched.get(stream);
    if (watched === undefined) return;
    const isNext = fields.after === watched.lastId;
    watched.lastId = id;
    if (!isNext || !this.#listening.isLeaseValid) {
      this.#tellOfGap(stream, watched);
      return;
    }
    for (const event of JSON.parse(fields.events ?? '[]') as RelayedEvent[]) this.#hand(watched, event);
  }

  #hand({ recent, watchers }: Channel, event: RelayedEvent): void {
    if (recent.has(event.id)) return;
    remember(recent, event.id);
    for (const watcher of [...watchers]) watcher.event(event);
  }

  #tellOfGap(stream: string, { watchers }: Channel): void {
    this.#watched.delete(stream);
    for (const watcher of watchers) watcher.gap();
  }

  #tellAllOfGap(): void {
    for (const [stream, watched] of [...this.#watched]) this.#tellOfGap(stream, watched);
  }

  /** Events may have been left out by the relay: nothing for those who have not begun to listen. */
  #tellOfLoss(): void {
    if (this.#listening.isEnrolled) this.#tellAllOfGap();
  }

  #tellEveryoneOfLoss(): void {
    this.#tellOfLoss();
    this.app.broker.publish(LOST, this.#id).catch((cause: unknown) => {
      this.app.log.warn('the others could not be told that events were left out', { cause });
    });
  }
}

function spacingMs(round: Round | null): number {
  if (round === null) return 0;
  const ms = SPACING_MS * round.seen;
  if (round.relayed > 0) return Math.min(ms, SPACING_MAX_MS);
  return round.seen > PASSED_MANY ? 0 : Math.min(ms, PASSING_MAX_MS);
}

function remember(recent: Set<string>, id: string): void {
  recent.add(id);
  if (recent.size <= RECENT_MAX) return;
  for (const oldest of recent) {
    recent.delete(oldest);
    return;
  }
}

const hubs = perApp((): { hub?: Hub } => ({}));

/** Opens the process's hub; once, at start. */
export async function openHub(app: App): Promise<Hub> {
  const hub = await Hub.open(app);
  hubs.set(app, { hub });
  return hub;
}

/** See `Hub.follow`; undefined also in a process without a hub, which has no streams. */
export function followOf(app: App, tenantId: string, entity: string): Follow | undefined {
  return hubs(app).hub?.follow(tenantId, entity);
}

/** The process's hub. */
export function hubOf(app: App): Hub {
  const { hub } = hubs(app);
  if (hub === undefined) throw new Error('the hub is not open');
  return hub;
}
