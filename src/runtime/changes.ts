// Announcements that something cached has changed: a tenant, a credential, a schema. They reach
// every process through the broker at once; when the broker was away, every listener is told
// that it may have missed some (key null). Losing one costs staleness, bounded by cache.ts.
import type { Broker } from './broker/broker.ts';
import type { Log } from './log.ts';

/** What may change: `tenant`, `catalog`, `role` and `webhook` by tenant id, `credential` by its hash, `user` by `tenant:user`, `bot` by id. */
export type Topic = 'tenant' | 'catalog' | 'role' | 'credential' | 'user' | 'bot' | 'webhook';
type Listener = (key: string | null) => void;

const CHANNEL = 'changes';

export class Changes {
  readonly #listeners = new Map<Topic, Set<Listener>>();

  private constructor(
    private readonly broker: Broker,
    private readonly log: Log,
  ) {}

  static async open(broker: Broker, log: Log): Promise<Changes> {
    const changes = new Changes(broker, log);
    broker.onReset(() => changes.#tellAll());
    await broker.subscribe(CHANNEL, (message) => changes.#receive(message));
    return changes;
  }

  /** Whether announcements of other processes are heard at present. */
  get heard(): boolean {
    return this.broker.connected();
  }

  on(topic: Topic, listener: Listener): void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    listeners.add(listener);
    this.#listeners.set(topic, listeners);
  }

  /** Tells this process at once and the others as fast as the broker is. Never fails the change itself. */
  async announce(topic: Topic, key: string): Promise<void> {
    this.#tell(topic, key);
    try {
      await this.broker.publish(CHANNEL, `${topic} ${key}`);
    } catch (cause) {
      this.log.warn('a change could not be announced; other processes notice it when their caches age', { cause });
    }
  }

  #receive(message: string): void {
    const [topic, key] = message.split(' ');
    if (topic !== undefined && key !== undefined) this.#tell(topic as Topic, key);
  }

  #tell(topic: Topic, key: string | null): void {
    for (const listener of this.#listeners.get(topic) ?? []) listener(key);
  }

  #tellAll(): void {
    for (const topic of this.#listeners.keys()) this.#tell(topic, null);
  }
}
