// The live events of the tenants that this process serves: one reader for all of them, each event
// handed to the tenant's watchers once and in order. Each entry names the one before it; where that
// is not the last one read, something was lost, and the watchers are told to close their streams:
// contiguous or disconnected, never a silent gap. Contract: section 9 of the decisions.
import type { App } from '../app.ts';
import type { Entry } from '../runtime/broker/contract.ts';
import { newId } from '../runtime/ids.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { Live } from './live.ts';
import { Relay, type RelayedEvent, streamOf } from './relay.ts';

/** What a room that streams events registers for one tenant. */
export interface Watcher {
  /** Called for every event of the tenant, in order, each once. Must not throw. */
  event(event: RelayedEvent): void;
  /** Events may have been lost: every stream of the tenant must be closed. The watcher is unregistered already. */
  gap(): void;
}

interface Watched {
  lastId: string;
  watchers: Set<Watcher>;
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
 * meanwhile is relayed together. A lone event waits for nothing worth mentioning, a busy outbox is worked off in batches.
 */
const SPACING_MS = 3;
const SPACING_MAX_MS = 15;
const CHECK_MS = 5_000;
const NUDGE = 'outbox';
const LOST = 'outbox-lost';

export class Hub {
  readonly #id = newId();
  readonly #watched = new Map<string, Watched>();
  readonly #wake = `wake:${this.#id}`;
  #wakeId = '0-0';
  #checkedAt = 0;
  #nextRelayAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #isListening = false;
  /** Watchers that are being registered. */
  #opening = 0;
  #starting: Promise<void> = Promise.resolve();
  #reading: Promise<void> = Promise.resolve();
  #live!: Live;
  #relaying!: Worker;
  readonly #relay: Relay;

  private constructor(private readonly app: App) {
    // With the broker of one process nobody else reads; with Redis another process may.
    const isWanted = (stream: string): boolean => app.config.redisUrl !== null || this.#watched.has(stream);
    this.#relay = new Relay(app, () => this.#tellEveryoneOfLoss(), isWanted);
  }

  static async open(app: App): Promise<Hub> {
    const hub = new Hub(app);
    hub.#live = await Live.open(app, hub.#id, () => hub.#relaying?.nudge());
    hub.#relaying = startWorker({ name: 'relay', once: () => hub.#relayOnce(), pollMs: POLL_MS, log: app.log });
    await app.broker.subscribe(NUDGE, () => {
      if (hub.#relay.isHolder) hub.#relaying.nudge();
    });
    await app.broker.subscribe(LOST, (id) => {
      if (id !== hub.#id) hub.#tellAllOfGap();
    });
    app.broker.onReset(() => hub.#tellAllOfGap());
    // While nobody listens a commit costs nothing here; whoever begins to listen makes it known.
    app.onCommitted(() => {
      if (hub.#live.isHeard) hub.#relaying.nudge();
    });
    hub.#reading = hub.#read();
    return hub;
  }

  /**
   * Registers a watcher from now on; resolves, once nothing committed later can be missed, to the function that ends
   * it. Events committed shortly before may still come. Rejects with 503 while database or broker are away.
   */
  async watch(tenantId: string, watcher: Watcher): Promise<() => void> {
    const stream = streamOf(tenantId);
    this.#opening++;
    try {
      await this.#listen();
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
    } finally {
      this.#opening--;
    }
    return () => this.#unwatch(stream, watcher);
  }

  /** Ends reading and relaying. Streams are closed by those who opened them, before this. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#live.close();
    await this.#relaying.stop();
    const told = await Promise.allSettled([
      this.#wakeReader(),
      this.#relay.handOver(),
      this.#isListening ? this.#live.stop() : undefined,
    ]);
    for (const outcome of told) {
      if (outcome.status === 'fulfilled') continue;
      this.app.log.warn('not all could be told that this process listens no more', { cause: outcome.reason });
    }
    await this.#reading;
  }

  async #relayOnce(): Promise<number> {
    if (!(await this.#live.someoneListens())) {
      await this.#relay.rest(() => this.#live.isSomeoneRegistered());
      return 0;
    }
    const pauseMs = this.#nextRelayAt - performance.now();
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    const relayed = await this.#relay.once();
    this.#nextRelayAt = performance.now() + Math.min(SPACING_MS * (relayed ?? 0), SPACING_MAX_MS);
    if (relayed === null) await this.app.broker.publish(NUDGE, this.#id);
    return relayed ?? 0;
  }

  /** Makes sure that whatever is committed from now on is relayed, by this process or another. */
  #listen(): Promise<void> {
    this.#starting = this.#starting
      .catch(() => undefined)
      .then(async () => {
        if (this.#isListening) return;
        await this.#live.start();
        await this.#relay.claim();
        this.#isListening = true;
        this.#relaying.nudge();
      });
    return this.#starting;
  }

  #unwatch(stream: string, watcher: Watcher): void {
    const watched = this.#watched.get(stream);
    watched?.watchers.delete(watcher);
    if (watched?.watchers.size === 0) this.#watched.delete(stream);
    if (this.#watched.size > 0 || this.#isClosed) return;
    this.#starting = this.#starting
      .catch(() => undefined)
      .then(async () => {
        if (this.#watched.size > 0 || this.#opening > 0 || !this.#isListening) return;
        this.#isListening = false;
        await this.#live.stop();
      })
      .catch((cause: unknown) => {
        this.app.log.warn('the register of listening processes could not be told', { cause });
      });
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

  #take({ stream, id, fields }: Entry): void {
    if (stream === this.#wake) {
      this.#wakeId = id;
      return;
    }
    const watched = this.#watched.get(stream);
    if (watched === undefined) return;
    const isNext = fields.after === watched.lastId;
    watched.lastId = id;
    if (!isNext) {
      this.#tellOfGap(stream, watched);
      return;
    }
    for (const event of JSON.parse(fields.events ?? '[]') as RelayedEvent[]) {
      if (watched.recent.has(event.id)) continue;
      remember(watched.recent, event.id);
      for (const watcher of [...watched.watchers]) watcher.event(event);
    }
  }

  #tellOfGap(stream: string, { watchers }: Watched): void {
    this.#watched.delete(stream);
    for (const watcher of watchers) watcher.gap();
  }

  #tellAllOfGap(): void {
    for (const [stream, watched] of [...this.#watched]) this.#tellOfGap(stream, watched);
  }

  #tellEveryoneOfLoss(): void {
    this.#tellAllOfGap();
    this.app.broker.publish(LOST, this.#id).catch((cause: unknown) => {
      this.app.log.warn('the others could not be told that events were left out', { cause });
    });
  }
}

function remember(recent: Set<string>, id: string): void {
  recent.add(id);
  if (recent.size <= RECENT_MAX) return;
  for (const oldest of recent) {
    recent.delete(oldest);
    return;
  }
}

const hubs = new WeakMap<App, Hub>();

/** Opens the process's hub; once, at start. */
export async function openHub(app: App): Promise<Hub> {
  const hub = await Hub.open(app);
  hubs.set(app, hub);
  return hub;
}

/** The process's hub. */
export function hubOf(app: App): Hub {
  const hub = hubs.get(app);
  if (hub === undefined) throw new Error('the hub is not open');
  return hub;
}
