// The open connections of this process: each tenant's audience, the places they take, and what makes
// their rights doubtful. Opened once, after the hub; closed before the server, so that streams end in order.
// Failures: 503 while the service stops or the broker is away. Contract: section 9 of the decisions.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { unavailable } from '../errors.ts';
import { hubOf } from '../events/hub.ts';
import { type Snapshot, takeSnapshot } from '../events/snapshot.ts';
import { Audience, type Listener, type Ticket } from './audience.ts';
import { Places } from './places.ts';

/** How often rights are looked up with nothing announced: keys expire, and announcements get lost. */
const CHECK_MS = 500;

interface Hall {
  audience: Audience;
  /** Resolves to the function that stops watching. */
  watching: Promise<() => void>;
  /** Listeners on their way in. */
  entering: number;
}

export class Realtime {
  readonly places: Places;
  readonly #app: App;
  readonly #halls = new Map<string, Hall>();
  readonly #timer: ReturnType<typeof setInterval>;
  #isClosing = false;

  constructor(app: App) {
    this.#app = app;
    this.places = new Places(app);
    app.metrics.gauge('svc_sse_connections', 'Open event streams.', () => this.places.held('sse:'));
    app.metrics.gauge('svc_ws_connections', 'Authenticated WebSockets.', () => this.places.held('ws:'));
    this.#timer = setInterval(() => this.#doubt(null), CHECK_MS);
    for (const topic of ['credential', 'bot'] as const) app.changes.on(topic, () => this.#doubt(null));
    for (const topic of ['tenant', 'role'] as const) app.changes.on(topic, (tenantId) => this.#doubt(tenantId));
    app.changes.on('user', (key) => this.#doubt(key === null ? null : (key.split(':')[0] ?? null)));
  }

  /** Throws 503 once the service stops. */
  requireOpen(): void {
    if (this.#isClosing) throw unavailable('the service is stopping');
  }

  /**
   * Registers a listener of the caller's tenant. `since` is asked for when everything later will come; what it holds
   * is not to be told. Resolves to the function that takes the listener away.
   */
  async join(
    ticket: Ticket,
    caller: TenantCaller,
    listener: Listener,
  ): Promise<{ leave: () => void; since: Snapshot }> {
    this.requireOpen();
    const hall = this.#hallOf(caller.tenant.id);
    hall.entering++;
    try {
      await hall.watching;
      const since = await takeSnapshot(this.#app.db);
      this.requireOpen();
      if (this.#halls.get(caller.tenant.id) !== hall) throw unavailable('events were lost; connect again');
      // What changed on the way in was not heard of.
      const current = await ticket.load();
      const remove = hall.audience.add(ticket, current, listener);
      const leave = (): void => {
        remove();
        this.#leaveWhenEmpty(hall);
      };
      return { leave, since };
    } finally {
      hall.entering--;
      this.#leaveWhenEmpty(hall);
    }
  }

  /** Ends every connection and lets no new one in. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    for (const { audience } of [...this.#halls.values()]) audience.endAll('stopping');
    this.places.close();
  }

  #hallOf(tenantId: string): Hall {
    const known = this.#halls.get(tenantId);
    if (known !== undefined) return known;
    const audience = new Audience(this.#app, tenantId);
    const hall: Hall = {
      audience,
      watching: hubOf(this.#app).watch(tenantId, {
        event: (event) => audience.event(event),
        gap: () => {
          if (this.#halls.get(tenantId) === hall) this.#halls.delete(tenantId);
          audience.gap();
        },
      }),
      entering: 0,
    };
    hall.watching.catch(() => {
      if (this.#halls.get(tenantId) === hall) this.#halls.delete(tenantId);
    });
    this.#halls.set(tenantId, hall);
    return hall;
  }

  #leaveWhenEmpty(hall: Hall): void {
    const { audience, entering, watching } = hall;
    if (!audience.isEmpty || entering > 0) return;
    if (this.#halls.get(audience.tenantId) === hall) this.#halls.delete(audience.tenantId);
    watching.then(
      (unwatch) => unwatch(),
      // Said where it was asked for.
      () => undefined,
    );
  }

  #doubt(tenantId: string | null): void {
    for (const [id, { audience }] of [...this.#halls]) if (tenantId === null || tenantId === id) audience.doubt();
  }
}

const opened = new WeakMap<App, Realtime>();

/** Opens the process's part; once, after the hub. */
export function openRealtime(app: App): Realtime {
  const realtime = new Realtime(app);
  opened.set(app, realtime);
  return realtime;
}

export function realtimeOf(app: App): Realtime {
  const realtime = opened.get(app);
  if (realtime === undefined) throw unavailable('streams are not open yet');
  return realtime;
}
