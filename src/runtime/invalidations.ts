// Cache invalidation across processes: a change to a tenant, credential, role or definition is
// published by topic and key, and every process drops its cached copy. After an outage of the broker,
// listeners get null as key: any key of the topic may have changed. A lost message leaves a cache
// stale for LIMITS.cacheStaleMs at most.
import type { Broker } from './broker/broker.ts';
import { Cache } from './cache.ts';
import type { Log } from './log.ts';

/** Keys: the tenant id for `tenant`, `catalog`, `role` and `webhook`, the hash for `credential`, `tenant:user` for `user`, the id for `bot`. */
export type Topic = 'tenant' | 'catalog' | 'role' | 'credential' | 'user' | 'bot' | 'webhook';
type Listener = (key: string | null) => void;

const CHANNEL = 'changes';

export class Invalidations {
  readonly #listeners = new Map<Topic, Set<Listener>>();

  private constructor(
    private readonly broker: Broker,
    private readonly log: Log,
  ) {}

  static async open(broker: Broker, log: Log): Promise<Invalidations> {
    const invalidations = new Invalidations(broker, log);
    broker.onReset(() => {
      for (const topic of invalidations.#listeners.keys()) invalidations.#notify(topic, null);
    });
    await broker.subscribe(CHANNEL, (message) => invalidations.#receive(message));
    return invalidations;
  }

  on(topic: Topic, listener: Listener): void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    listeners.add(listener);
    this.#listeners.set(topic, listeners);
  }

  /** A cache of at most `max` entries, each dropped when its key is published on the topic. */
  cache<V>(topic: Topic, max: number): Cache<V> {
    const cache = new Cache<V>(max, () => this.broker.connected());
    this.on(topic, (key) => (key === null ? cache.clear() : cache.drop(key)));
    return cache;
  }

  /** Notifies this process now and the others through the broker. Never rejects: the change itself is committed. */
  async publish(topic: Topic, key: string): Promise<void> {
    this.#notify(topic, key);
    try {
      await this.broker.publish(CHANNEL, `${topic} ${key}`);
    } catch (cause) {
      this.log.warn('an invalidation could not be published; other processes read stale entries until they expire', {
        cause,
      });
    }
  }

  #receive(message: string): void {
    const [topic, key] = message.split(' ');
    if (topic !== undefined && key !== undefined) this.#notify(topic as Topic, key);
  }

  #notify(topic: Topic, key: string | null): void {
    for (const listener of this.#listeners.get(topic) ?? []) listener(key);
  }
}
