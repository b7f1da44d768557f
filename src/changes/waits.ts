// Requests that wait for a tenant's next change. While they wait they hold neither a connection nor a timer of the database: the
// process listens to the tenant's live events once for all of them, and a while longer. An event only wakes the requests; their
// responses are read from the feed. A change of rights wakes them too. Without the broker they poll once a second.
// Failures: 429 when too many requests of a tenant wait.
// Contract: feed#long-polls, decisions#changes-of-rights.
import { type App, perApp } from '../app.ts';
import { rateLimited, ServiceError } from '../errors.ts';
import { hubOf } from '../events/hub.ts';
import { ALL_ENTITIES } from '../events/stream-subscriptions.ts';
import type { Subscriber } from '../events/tenant-stream.ts';
import { LIMITS } from '../limits.ts';
import { detached } from '../runtime/work.ts';

const { waitingPerTenant, lingerMs } = LIMITS.changes;
const POLL_MS = 1_000;
const RETRY_AFTER_S = 5;

/** Listens to the live events of one tenant. */
class Listener implements Subscriber {
  readonly waits = new Set<Wait>();
  /** Resolves to the function that ends the listening; null without the broker. */
  listening: Promise<(() => void) | null> = Promise.resolve(null);
  isLost = false;
  linger: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly onGap: () => void) {}

  event(): void {
    this.wake();
  }

  gap(): void {
    this.isLost = true;
    this.onGap();
    this.wake();
  }

  async drained(): Promise<void> {}

  wake(): void {
    for (const wait of this.waits) wait.wake();
  }
}

/** One waiting request, which may wait repeatedly until it leaves. */
export class Wait {
  /** Whether nothing will wake it. */
  isPolling = false;
  #isWoken = false;
  #resolve: (() => void) | undefined;

  constructor(
    private readonly listener: Listener,
    readonly leave: () => void,
  ) {}

  /** False when changes may have been missed: enter again. */
  get isListening(): boolean {
    return !this.listener.isLost;
  }

  wake(): void {
    this.#isWoken = true;
    this.#resolve?.();
  }

  /** Resolves at the next change since the last call, after `ms`, or when the signal aborts. */
  async next(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (!this.#isWoken && signal?.aborted !== true) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resolve = resolve;
      const timer = setTimeout(resolve, this.isPolling ? Math.min(ms, POLL_MS) : ms);
      const onAbort = (): void => resolve();
      signal?.addEventListener('abort', onAbort);
      await promise;
      signal?.removeEventListener('abort', onAbort);
      clearTimeout(timer);
      this.#resolve = undefined;
    }
    this.#isWoken = false;
  }
}

export class ChangeWaits {
  readonly #listeners = new Map<string, Listener>();
  #isClosing = false;

  constructor(private readonly app: App) {
    app.metrics.gauge('svc_changes_waiting', 'Requests that wait for a change.', () => this.#count());
    app.invalidations.onRights((tenantId) => this.#wakeAll(tenantId));
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Starts a wait. Every change that is committed after `enter` resolves wakes it. The caller must leave. */
  async enter(tenantId: string): Promise<Wait> {
    const listener = this.#listenerOf(tenantId);
    if (listener.waits.size >= waitingPerTenant) {
      throw rateLimited('too many requests of this tenant wait for changes', RETRY_AFTER_S);
    }
    clearTimeout(listener.linger);
    const wait = new Wait(listener, () => this.#leave(tenantId, listener, wait));
    listener.waits.add(wait);
    try {
      wait.isPolling = (await listener.listening) === null;
      return wait;
    } catch (cause) {
      wait.leave();
      throw cause;
    }
  }

  /** Ends all waits now. */
  close(): void {
    this.#isClosing = true;
    for (const [tenantId, listener] of [...this.#listeners]) {
      listener.wake();
      this.#forget(tenantId, listener);
    }
  }

  #listenerOf(tenantId: string): Listener {
    const known = this.#listeners.get(tenantId);
    if (known !== undefined) return known;
    const listener = new Listener(() => this.#forget(tenantId, listener));
    listener.listening = detached(() => this.#listen(tenantId, listener));
    this.#listeners.set(tenantId, listener);
    return listener;
  }

  async #listen(tenantId: string, listener: Listener): Promise<(() => void) | null> {
    const hub = hubOf(this.app);
    try {
      const detach = await hub.attach(tenantId, listener);
      try {
        await hub.subscribe(tenantId, [ALL_ENTITIES]);
      } catch (cause) {
        detach();
        throw cause;
      }
      return () => {
        detach();
        hub.unsubscribe(tenantId, [ALL_ENTITIES]);
      };
    } catch (cause) {
      // Listening failed: the next request tries again.
      this.#forget(tenantId, listener);
      if (cause instanceof ServiceError && cause.status === 503) return null;
      throw cause;
    }
  }

  #leave(tenantId: string, listener: Listener, wait: Wait): void {
    listener.waits.delete(wait);
    if (listener.waits.size > 0 || this.#listeners.get(tenantId) !== listener) return;
    clearTimeout(listener.linger);
    listener.linger = setTimeout(() => this.#forget(tenantId, listener), lingerMs);
  }

  /** Ends the listening once. Requests that still wait with this listener poll until they end. */
  #forget(tenantId: string, listener: Listener): void {
    if (this.#listeners.get(tenantId) !== listener) return;
    this.#listeners.delete(tenantId);
    clearTimeout(listener.linger);
    listener.listening.then(
      (detach) => detach?.(),
      (cause: unknown) => this.app.log.warn('changes of a tenant cannot be listened to', { tenantId, cause }),
    );
  }

  #wakeAll(tenantId: string | null): void {
    const listeners = tenantId === null ? [...this.#listeners.values()] : [this.#listeners.get(tenantId)];
    for (const listener of listeners) listener?.wake();
  }

  #count(): number {
    return [...this.#listeners.values()].reduce((sum, { waits }) => sum + waits.size, 0);
  }
}

export const changeWaitsOf = perApp((app) => new ChangeWaits(app));
