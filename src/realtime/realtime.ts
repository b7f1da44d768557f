// The open connections of this process: each tenant's audience, the places they take, and what makes
// their rights doubtful. Opened once, after the hub; closed before the server, so that streams end in order.
// Failures: 503 while the service stops or the broker is away. Contract: decisions#sse, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import { type App, perApp } from '../app.ts';
import { unavailable } from '../errors.ts';
import { hubOf } from '../events/hub.ts';
import { type Snapshot, takeSnapshot } from '../events/snapshot.ts';
import { LIMITS } from '../limits.ts';
import { Audience, type Listener, type Seat } from './audience.ts';
import type { Ticket } from './group.ts';
import { Lobby } from './lobby.ts';
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
  readonly lobby = new Lobby(LIMITS.socket);
  readonly #app: App;
  readonly #halls = new Map<string, Hall>();
  readonly #timer: ReturnType<typeof setInterval>;
  #isClosing = false;

  constructor(app: App) {
    this.#app = app;
    this.places = new Places(app);
    app.metrics.gauge('svc_sse_connections', 'Open event streams.', () => this.places.held('sse:'));
    app.metrics.gauge('svc_ws_connections', 'Authenticated WebSockets.', () => this.places.held('ws:'));
    app.metrics.gauge('svc_ws_waiting', 'WebSockets not authenticated yet.', () => this.lobby.size);
    this.#timer = setInterval(() => this.#check(), CHECK_MS);
    for (const topic of ['credential', 'bot'] as const) app.invalidations.on(topic, () => this.#doubt(null));
    for (const topic of ['tenant', 'role'] as const) app.invalidations.on(topic, (tenantId) => this.#doubt(tenantId));
    app.invalidations.on('user', (key) => this.#doubt(key === null ? null : (key.split(':')[0] ?? null)));
  }

  /** Throws 503 once the service stops. */
  requireOpen(): void {
    if (this.#isClosing) throw unavailable('the service is stopping');
  }

  /**
   * Seats a listener of the caller's tenant, to listen to these entities (see EVERYTHING). `since` is asked for when
   * everything later will come; what it holds is not to be told.
   */
  async join(
    ticket: Ticket,
    caller: TenantCaller,
    listener: Listener,
    entities: readonly string[],
  ): Promise<{ seat: Seat; since: Snapshot }> {
    this.requireOpen();
    const { id } = caller.tenant;
    const hub = hubOf(this.#app);
    const hall = this.#hallOf(id);
    hall.entering++;
    try {
      await hall.watching;
      await hub.subscribe(id, entities);
      try {
        const since = await takeSnapshot(this.#app.db);
        this.requireOpen();
        // What changed on the way in was not heard of, unless others are seated with the same rights.
        const current = (await hall.audience.callerOf(ticket.key)) ?? (await ticket.load());
        if (this.#halls.get(id) !== hall) throw unavailable('events were lost; connect again');
        return { seat: hall.audience.add(ticket, current, listener, entities), since };
      } catch (cause) {
        hub.unsubscribe(id, entities);
        throw cause;
      }
    } finally {
      hall.entering--;
      this.#leaveWhenEmpty(hall);
    }
  }

  /** A seat listens to one entity more; what the snapshot holds is not to be told. Null when it was left meanwhile. */
  async listen(seat: Seat, entity: string): Promise<Snapshot | null> {
    const { audience, entities } = seat;
    await hubOf(this.#app).subscribe(audience.tenantId, [entity]);
    if (audience.listen(seat, [...entities, entity])) return takeSnapshot(this.#app.db);
    hubOf(this.#app).unsubscribe(audience.tenantId, [entity]);
    return null;
  }

  unlisten(seat: Seat, entity: string): void {
    const { audience, entities } = seat;
    if (!entities.includes(entity)) return;
    const others = entities.filter((other) => other !== entity);
    if (audience.listen(seat, others)) hubOf(this.#app).unsubscribe(audience.tenantId, [entity]);
  }

  leave(seat: Seat): void {
    const { audience, entities } = seat;
    if (!audience.remove(seat)) return;
    hubOf(this.#app).unsubscribe(audience.tenantId, entities);
    const hall = this.#halls.get(audience.tenantId);
    if (hall?.audience === audience) this.#leaveWhenEmpty(hall);
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
      watching: hubOf(this.#app).attach(tenantId, {
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

  #check(): void {
    for (const { audience } of [...this.#halls.values()]) audience.check();
  }

  #doubt(tenantId: string | null): void {
    for (const [id, { audience }] of [...this.#halls]) if (tenantId === null || tenantId === id) audience.doubt();
  }
}

const opened = perApp((): Realtime => {
  throw unavailable('streams are not open yet');
});

/** Opens the process's part; once, after the hub. */
export function openRealtime(app: App): Realtime {
  const realtime = new Realtime(app);
  opened.set(app, realtime);
  return realtime;
}

export function realtimeOf(app: App): Realtime {
  return opened(app);
}
