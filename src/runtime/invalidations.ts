// Cache invalidation across processes. A change to a tenant, credential, role or definition is published by topic and keys. Every process
// then drops, or reloads, its cached copy of these keys only, so a tenant that changes itself without end costs others nothing. After an
// outage of the broker, or when a process could not publish, listeners get null: any key of the topic may have changed. Without a
// broker, a cache is stale for at most LIMITS.cacheStaleMs.
import type { Broker } from './broker/broker.ts';
import { Cache, type CachedBytes } from './cache.ts';
import { giveWay } from './event-loop.ts';
import type { Log } from './log.ts';
import { MissedAnnouncements } from './missed-announcements.ts';
import type { Queries } from './sql.ts';
import { within } from './within.ts';

/**
 * The key of each topic: the tenant id for `tenant`, `catalog`, `role` and `webhook`; the name by which a tenant is found for `name`
 * (tenants.ts); the tenant id and the origins that it lists for `origin`; the hash for `credential`; `tenant:user` for `user`;
 * `tenant:session` for `session`; the id for `bot`. No key has a space or a comma.
 */
export type Topic =
  | 'tenant'
  | 'name'
  | 'catalog'
  | 'role'
  | 'credential'
  | 'user'
  | 'session'
  | 'bot'
  | 'origin'
  | 'webhook';
/** `tenantId` names the tenant for the topics `credential` and `bot`. */
type Listener = (keys: readonly string[] | null, tenantId: string | null) => void | Promise<void>;

const CHANNEL = 'changes';
/** Most keys in one message: a change may end tens of thousands of credentials. */
const KEYS_PER_MESSAGE = 500;
/** A message that the broker has not accepted after this time, in milliseconds, is announced through the database. */
const PUBLISH_MS = 400;

export class Invalidations {
  readonly #listeners = new Map<Topic, Set<Listener>>();
  #missed: MissedAnnouncements | null = null;

  private constructor(
    private readonly broker: Broker,
    private readonly log: Log,
  ) {}

  /** `shared`: the database that other processes use too; null when there are none. */
  static async open(broker: Broker, log: Log, shared: Queries | null): Promise<Invalidations> {
    const invalidations = new Invalidations(broker, log);
    const onMissed = (): void => {
      for (const topic of invalidations.#listeners.keys()) void invalidations.#notify(topic, null, null);
    };
    broker.onReset(onMissed);
    await broker.subscribe(CHANNEL, (message) => invalidations.#receive(message));
    if (shared !== null) {
      invalidations.#missed = new MissedAnnouncements(shared, log, onMissed);
      // A process may have been killed before it announced what it had committed.
      await invalidations.#missed.count();
    }
    return invalidations;
  }

  async close(): Promise<void> {
    await this.#missed?.close();
  }

  on(topic: Topic, listener: Listener): void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    listeners.add(listener);
    this.#listeners.set(topic, listeners);
  }

  /** Calls the listener once per message for each tenant in which rights may have changed; null means all tenants. */
  onRights(listener: (tenantId: string | null) => void): void {
    const all = (tenantIds: readonly string[] | null): void =>
      (tenantIds ?? [null]).forEach((tenantId) => void listener(tenantId));
    for (const topic of ['tenant', 'role'] as const) this.on(topic, all);
    for (const topic of ['credential', 'bot'] as const) this.on(topic, (_, tenantId) => listener(tenantId));
    for (const topic of ['user', 'session'] as const) this.on(topic, (keys) => all(keys && tenantsIn(keys)));
  }

  /**
   * A cache of at most `max` entries, and of at most the bytes in `sizes`. An entry is dropped when its key is published on the topic.
   * With `load`, it is loaded again instead, and callers get the previous value meanwhile.
   */
  cache<V>(topic: Topic, max: number, sizes?: CachedBytes<V>, load?: (key: string) => Promise<V>): Cache<V> {
    const cache = new Cache<V>(max, () => this.broker.connected(), sizes);
    this.on(topic, async (keys) => {
      if (keys === null) cache.clear();
      else if (load !== undefined) await Promise.all(keys.map((key) => cache.renew(key, () => load(key))));
      else for (const key of keys) cache.drop(key);
    });
    return cache;
  }

  /**
   * Notifies this process now, and the others through the broker. Resolves when this process no longer returns an old value. Never
   * rejects: the change itself is committed.
   */
  async publish(topic: Topic, keys: string | readonly string[], tenantId: string | null = null): Promise<void> {
    const all = typeof keys === 'string' ? [keys] : keys;
    for (let at = 0; at < all.length; at += KEYS_PER_MESSAGE) {
      if (at > 0) await giveWay();
      await this.#publish(topic, all.slice(at, at + KEYS_PER_MESSAGE), tenantId);
    }
  }

  async #publish(topic: Topic, keys: readonly string[], tenantId: string | null): Promise<void> {
    const notified = this.#notify(topic, keys, tenantId);
    const message = `${topic} ${keys.join()}${tenantId === null ? '' : ` ${tenantId}`}`;
    try {
      await within(PUBLISH_MS, this.broker.publish(CHANNEL, message));
    } catch (cause) {
      this.log.warn('an invalidation could not be published; other processes drop all cached entries', { cause });
      await this.#missed?.count();
    }
    await notified;
  }

  #receive(message: string): void {
    const [topic, keys, tenantId = null] = message.split(' ');
    if (topic !== undefined && keys !== undefined) void this.#notify(topic as Topic, keys.split(','), tenantId);
  }

  async #notify(topic: Topic, keys: readonly string[] | null, tenantId: string | null): Promise<void> {
    const listeners = [...(this.#listeners.get(topic) ?? [])];
    await Promise.all(listeners.map((listener) => listener(keys, tenantId)));
  }
}

/** The tenants of keys that begin with a tenant id. */
function tenantsIn(keys: readonly string[]): string[] {
  return [...new Set(keys.map((key) => key.slice(0, key.indexOf(':'))))];
}
