// Whether anybody listens. A process with open streams holds a lease in the broker and renews it;
// while nobody holds one, events need not be relayed at all, and writing costs nothing more.
// Failures: with the broker away, beginning to listen fails with 503, and others count as listening.
// Contract: section 9 of the decisions.
import type { App } from '../app.ts';

const LEASES = 'live';
const CHANNEL = 'live';
const TTL_MS = 30_000;
const RENEW_MS = 10_000;
const CHECK_MS = 2_000;
/** More processes than there can be: the lease is a register, not a limit. */
const UNLIMITED = 1_000_000;

/** This process's part in the register, and what it knows of the others. */
export class Live {
  #isListening = false;
  #someoneListens = false;
  #timer: ReturnType<typeof setInterval>;
  #checkedAt = Number.NEGATIVE_INFINITY;

  private constructor(
    private readonly app: App,
    private readonly processId: string,
  ) {
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS);
  }

  /** `onStart` is called when another process begins to listen. */
  static async open(app: App, processId: string, onStart: () => void): Promise<Live> {
    const live = new Live(app, processId);
    await app.broker.subscribe(CHANNEL, () => {
      live.#someoneListens = true;
      live.#checkedAt = performance.now();
      onStart();
    });
    return live;
  }

  /** Whether any process has open streams; asked of the broker now and then. When it cannot tell, yes. */
  async someoneListens(): Promise<boolean> {
    if (this.#isListening) return true;
    if (performance.now() - this.#checkedAt < CHECK_MS) return this.#someoneListens;
    this.#checkedAt = performance.now();
    this.#someoneListens = await this.isSomeoneRegistered();
    return this.#someoneListens;
  }

  /** Whether any process has open streams, as far as this one has heard: late by CHECK_MS at most. */
  get isHeard(): boolean {
    return this.#isListening || this.#someoneListens;
  }

  /** The same, asked now. */
  async isSomeoneRegistered(): Promise<boolean> {
    if (this.#isListening) return true;
    try {
      return (await this.app.broker.leaseCount(LEASES)) > 0;
    } catch (cause) {
      this.app.log.debug('the register of listening processes cannot be read', { cause });
      return true;
    }
  }

  /** Says that this process has open streams, before the first of them is told that it is connected. */
  async start(): Promise<void> {
    this.#isListening = true;
    await this.app.broker.lease(LEASES, this.processId, UNLIMITED, TTL_MS);
    await this.app.broker.publish(CHANNEL, this.processId);
  }

  /** Says that it has none any more. */
  async stop(): Promise<void> {
    this.#isListening = false;
    await this.app.broker.release(LEASES, this.processId);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #renew(): Promise<void> {
    if (!this.#isListening) return;
    try {
      await this.app.broker.renew(LEASES, [this.processId], TTL_MS);
    } catch (cause) {
      this.app.log.warn('the register of listening processes could not be renewed', { cause });
    }
  }
}
