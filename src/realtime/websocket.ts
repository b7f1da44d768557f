// The WebSocket endpoint: the protocol of session.ts on real connections, with the lookups, deadlines and
// places that it needs. Tokens come by message, never by cookie, so a foreign page can do nothing with
// a visitor's rights; a public key's own origins are checked. Times are milliseconds.
// Failures: close codes 4401 (no or lost rights), 1013 (limit, lost events, slow reader), 1001. Contract:
// interface#websocket, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import { attachRequestContext } from '../access/request-context.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { catalogOf } from '../entities/catalog.ts';
import { ServiceError } from '../errors.ts';
import type { CommittedEvent } from '../events/event.ts';
import { isSeenIn, type Snapshot } from '../events/snapshot.ts';
import type { SocketHandler, TextSocket } from '../runtime/socket.ts';
import { sha256 } from '../runtime/tokens.ts';
import type { AccessSource } from './access-group.ts';
import type { ConnectionLease } from './connection-leases.ts';
import type { EventSerializer, Projection } from './projection.ts';
import { realtimeOf } from './realtime.ts';
import type { CloseReason, LiveConnection, Membership } from './tenant-connections.ts';
import {
  authenticated,
  entityLookedUp,
  expired,
  NEW_SOCKET,
  type Reply,
  receive,
  type SocketState,
  type Transition,
} from './websocket-protocol.ts';
import { webSocketCaller } from './websocket-token.ts';

const FRAME_BYTES_MAX = 65_536;
const BUFFERED_BYTES_MAX = 1_048_576;
const IDLE_S = 60;
const AUTH_WITHIN_MS = 10_000;
/** After a token has expired its holder may need a person to get a new one. */
const RENEW_WITHIN_MS = 60_000;
const TIMER_MAX_MS = 2_147_483_647;
const CLOSE = { unauthenticated: 4401, overloaded: 1013, goingAway: 1001 };

/** The endpoint for the server. */
export function socketHandler(app: App): SocketHandler<WebSocketConnection> {
  return {
    path: '/ws',
    maxFrameBytes: FRAME_BYTES_MAX,
    maxBufferedBytes: BUFFERED_BYTES_MAX,
    idleSeconds: IDLE_S,
    upgrade: (request, peer) => {
      const { address } = attachRequestContext(request, peer, app.config.trustProxy);
      return new WebSocketConnection(app, request.headers.get('origin'), address);
    },
    open: (socket) => socket.data.open(socket),
    message: (socket, text) => socket.data.message(text),
    close: (socket) => socket.data.close(),
  };
}

interface EntitySubscription {
  entity: string;
  since: Snapshot;
}

/** One connection and who is behind it. There may be many that wait for events seldom, so it holds little. */
class WebSocketConnection implements LiveConnection {
  readonly #app: App;
  readonly #origin: string | null;
  readonly #address: string;
  /** In the lobby, where it is counted by its address. */
  #isUnauthenticated = false;
  #socket: TextSocket<WebSocketConnection> | undefined;
  #state: SocketState = NEW_SOCKET;
  /** Taken with the present token; one of an earlier token is heard no more. */
  #membership: Membership | undefined;
  /** The tenant it has a place in, and when the present token runs out: milliseconds since 1970, Infinity for never. */
  #tenantId = '';
  #lease: ConnectionLease | undefined;
  #expiresAt = Number.POSITIVE_INFINITY;
  /** What was known when each entity was subscribed to is not told. */
  #subscriptions: readonly EntitySubscription[] = [];
  #deadline: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(app: App, origin: string | null, address: string) {
    this.#app = app;
    this.#origin = origin;
    this.#address = address;
  }

  open(socket: TextSocket<WebSocketConnection>): void {
    this.#socket = socket;
    this.#isUnauthenticated = realtimeOf(this.#app).unauthenticated.acquire(this.#address);
    if (this.#isUnauthenticated) this.#startAuthDeadline(AUTH_WITHIN_MS);
    else this.#reject('too many connections wait to authenticate', 'limit_exceeded', CLOSE.overloaded);
  }

  async message(text: string): Promise<void> {
    const step = receive(this.#state, text, this.#app.config.ws.maxSubscriptions);
    this.#apply(step);
    const { lookup } = step;
    if (lookup === undefined) return;
    try {
      if (lookup.kind === 'auth') await this.#authenticate(lookup.token);
      else await this.#subscribe(lookup.entity);
    } catch (cause) {
      if (!(cause instanceof ServiceError)) throw cause;
      this.#socket?.close(CLOSE.overloaded, cause.message);
    }
  }

  /** The connection is over: everything it held is given back. */
  close(): void {
    this.#isClosed = true;
    this.#leaveUnauthenticated();
    this.#clearDeadline();
    this.#leave();
    void this.#release();
  }

  deliver(seat: Membership, event: CommittedEvent, rendering: EventSerializer, view: Projection | null): void {
    if (seat !== this.#membership || view === null || event.row === null || this.#state.phase !== 'ready') return;
    const since = this.#sinceOf(view.entity.name);
    if (since === undefined || isSeenIn(since, rendering.xid)) return;
    this.#socket?.send(rendering.text(view));
  }

  disconnect(seat: Membership, reason: CloseReason): void {
    if (seat === this.#membership || reason !== 'refused') this.#end(reason);
  }

  #sinceOf(name: string): Snapshot | undefined {
    return this.#subscriptions.find(({ entity }) => entity === name)?.since;
  }

  #leaveUnauthenticated(): void {
    if (this.#isUnauthenticated) realtimeOf(this.#app).unauthenticated.release(this.#address);
    this.#isUnauthenticated = false;
  }

  #leave(): void {
    if (this.#membership !== undefined) realtimeOf(this.#app).leave(this.#membership);
    this.#membership = undefined;
  }

  #end(reason: CloseReason): void {
    if (reason === 'stopping') this.#socket?.close(CLOSE.goingAway, 'the service is stopping');
    else if (reason === 'lost') this.#socket?.close(CLOSE.overloaded, 'events may have been lost; connect again');
    else if (this.#isPastExpiry()) this.#expire();
    else this.#reject('the token is not accepted any more', 'not_authenticated', CLOSE.unauthenticated);
  }

  async #authenticate(token: string): Promise<void> {
    const caller = await this.#callerOf(token);
    if (caller === null) return this.#apply(authenticated(this.#state, 'refused'));
    const { tenant, expiresAt } = caller;
    const isSame = this.#tenantId === tenant.id;
    if (!isSame && !(await this.#acquireLease(tenant.id))) return;
    // Kept for all connections with this token, so it holds on to none.
    const [app, origin] = [this.#app, this.#origin];
    const load = (): Promise<TenantCaller> => webSocketCaller(app, token, origin);
    const ticket: AccessSource = { key: `ws ${origin} ${sha256(token).toString('hex')}`, load };
    const realtime = realtimeOf(app);
    const { entities } = isSame ? this.#state : NEW_SOCKET;
    const { seat, since } = await realtime.join(ticket, caller, this, entities);
    if (this.#isClosed) return realtime.leave(seat);
    this.#leave();
    this.#leaveUnauthenticated();
    this.#membership = seat;
    this.#subscriptions = entities.map((entity) => ({ entity, since: this.#sinceOf(entity) ?? since }));
    this.#tenantId = tenant.id;
    this.#expiresAt = expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(expiresAt);
    this.#apply(authenticated(this.#state, isSame ? 'same' : 'other'));
    this.#awaitExpiry();
  }

  /** Null for a token that is refused; rejects when that cannot be told. */
  async #callerOf(token: string): Promise<TenantCaller | null> {
    try {
      return await webSocketCaller(this.#app, token, this.#origin);
    } catch (cause) {
      if (cause instanceof ServiceError && (cause.status === 401 || cause.status === 403)) return null;
      throw cause;
    }
  }

  async #acquireLease(tenantId: string): Promise<boolean> {
    await this.#release();
    const { maxPerTenant } = this.#app.config.ws;
    const place = await realtimeOf(this.#app).leases.acquire({ [`ws:${tenantId}`]: maxPerTenant });
    this.#lease = place ?? undefined;
    if (this.#isClosed) await this.#release();
    if (place === null) this.#reject('too many connections are open', 'limit_exceeded', CLOSE.overloaded);
    return place !== null && !this.#isClosed;
  }

  async #release(): Promise<void> {
    const place = this.#lease;
    this.#lease = undefined;
    this.#tenantId = '';
    if (place !== undefined) await realtimeOf(this.#app).leases.release(place);
  }

  async #subscribe(name: string): Promise<void> {
    const seat = this.#membership;
    const caller = await seat?.tenant.currentCaller(seat.group.source.key);
    // Whoever has lost the rights is told so by itself.
    if (seat === undefined || caller == null) return;
    const entity = (await catalogOf(this.#app, caller.tenant)).byName.get(name);
    const isThere = entity !== undefined && allows(caller.rights, 'read', name);
    if (isThere && this.#sinceOf(name) === undefined) {
      const since = await realtimeOf(this.#app).addEntity(seat, name);
      if (since !== null) this.#subscriptions = [...this.#subscriptions, { entity: name, since }];
    }
    this.#apply(entityLookedUp(this.#state, name, isThere));
  }

  #awaitExpiry(): void {
    this.#clearDeadline();
    if (this.#expiresAt === Number.POSITIVE_INFINITY) return;
    const left = Math.max(0, this.#expiresAt - Date.now());
    this.#deadline = setTimeout(() => (this.#isPastExpiry() ? this.#expire() : this.#awaitExpiry()), capped(left));
  }

  #isPastExpiry(): boolean {
    return this.#expiresAt <= Date.now();
  }

  #expire(): void {
    if (this.#state.phase === 'expired') return;
    this.#leave();
    // What changes until the next `auth` is not told after it either, whether others listen meanwhile or not.
    this.#subscriptions = [];
    this.#apply(expired(this.#state));
    this.#startAuthDeadline(RENEW_WITHIN_MS);
  }

  /** Closes the connection unless somebody is authenticated in time. */
  #startAuthDeadline(withinMs: number): void {
    this.#clearDeadline();
    this.#deadline = setTimeout(() => {
      if (this.#state.phase === 'ready') return;
      this.#leaveUnauthenticated();
      this.#socket?.close(CLOSE.unauthenticated, 'no auth in time');
    }, withinMs);
  }

  #clearDeadline(): void {
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
  }

  #reject(message: string, code: string, closeCode: number): void {
    this.#send({ type: 'auth_error', code, message });
    this.#socket?.close(closeCode, message);
  }

  #apply({ state, replies }: Transition): void {
    this.#state = state;
    for (const { entity } of this.#subscriptions) if (!state.entities.includes(entity)) this.#unsubscribe(entity);
    for (const reply of replies) this.#send(reply);
  }

  #unsubscribe(name: string): void {
    this.#subscriptions = this.#subscriptions.filter(({ entity }) => entity !== name);
    if (this.#membership !== undefined) realtimeOf(this.#app).removeEntity(this.#membership, name);
  }

  #send(reply: Reply): void {
    this.#socket?.send(JSON.stringify(reply));
  }
}

function capped(ms: number): number {
  return Math.min(ms, TIMER_MAX_MS);
}
