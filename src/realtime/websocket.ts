// The WebSocket endpoint: runs the protocol of websocket-protocol.ts on real connections, with its lookups, deadlines and
// connection limits. Times are milliseconds.
// Failures: close codes 4401 (no or revoked access), 1013 (limit, lost events, slow reader), 1001 (stopping).
// Contract: interface#websocket, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import { attachRequestContext } from '../access/request-context.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { catalogOf } from '../entities/catalog.ts';
import { quotaProblem, ServiceError } from '../errors.ts';
import { isSeenIn, type Snapshot } from '../events/snapshot.ts';
import { NO_PARAMETERS, queryReader } from '../http/parameters.ts';
import { failure } from '../http/reply.ts';
import type { SocketHandler, TextSocket } from '../runtime/socket.ts';
import { sha256 } from '../runtime/tokens.ts';
import { countFor } from '../runtime/work.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { openTimeOf } from '../usage/open-time.ts';
import type { AccessSource } from './access-group.ts';
import type { ConnectionLease } from './connection-limits.ts';
import { SocketMessages } from './message-pace.ts';
import type { EventSerializer, Projection } from './projection.ts';
import { realtimeOf } from './realtime.ts';
import { acceptedCallerOf, callerOf } from './socket-caller.ts';
import type { CloseReason, LiveConnection, Membership } from './tenant-connections.ts';
import type { Reader, WaitingBytes } from './waiting-bytes.ts';
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

const FRAME_BYTES_MAX = 65_536;
const BUFFERED_BYTES_MAX = 1_048_576;
const IDLE_S = 60;
const AUTH_DEADLINE_MS = 10_000;
/** The deadline for a new token once the old one has expired; a person may have to sign in first. */
const RENEWAL_DEADLINE_MS = 60_000;
const TIMER_MAX_MS = 2_147_483_647;
const readQuery = queryReader(NO_PARAMETERS);
const CLOSE = { unauthenticated: 4401, overloaded: 1013, goingAway: 1001 };

export function socketHandler(app: App): SocketHandler<WebSocketConnection> {
  return {
    path: '/ws',
    maxFrameBytes: FRAME_BYTES_MAX,
    maxBufferedBytes: BUFFERED_BYTES_MAX,
    idleSeconds: IDLE_S,
    upgrade: (request, peer) => {
      const { address, requestId } = attachRequestContext(request, peer, app.config.trustProxy);
      try {
        readQuery(request.url);
      } catch (cause) {
        if (!(cause instanceof ServiceError)) throw cause;
        app.refusals.count(cause.ecode);
        return failure(cause, requestId);
      }
      return new WebSocketConnection(app, request.headers.get('origin'), address);
    },
    open: (socket) => socket.data.open(socket),
    message: (socket, text) => socket.data.message(text),
    close: (socket) => socket.data.close(),
  };
}

interface EntitySubscription {
  entity: string;
  /** Events in it preceded the subscription and are not sent. */
  since: Snapshot;
}

/** Many connections may be open and idle, so each keeps little state. */
class WebSocketConnection implements LiveConnection, Reader {
  /** Counted against the limit of unauthenticated connections. */
  #isUnauthenticated = false;
  #socket: TextSocket<WebSocketConnection> | undefined;
  #state: SocketState = NEW_SOCKET;
  /** Of the current token; calls for an earlier membership are ignored. */
  #membership: Membership | undefined;
  /** The tenant of the lease. */
  #tenantId = '';
  #lease: ConnectionLease | undefined;
  /** Ends the counting of the time that it is open in the tenant. */
  #endTime = (): void => {};
  /** When the current token expires, in ms since the epoch. */
  #expiresAt = Number.POSITIVE_INFINITY;
  #subscriptions: readonly EntitySubscription[] = [];
  #deadline: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;
  #messages: SocketMessages | undefined;
  #waiting: WaitingBytes | undefined;

  constructor(
    private readonly app: App,
    private readonly origin: string | null,
    private readonly address: string,
  ) {}

  open(socket: TextSocket<WebSocketConnection>): void {
    this.#socket = socket;
    this.#isUnauthenticated = realtimeOf(this.app).unauthenticated.acquire(this.address);
    if (this.#isUnauthenticated) this.#startAuthDeadline(AUTH_DEADLINE_MS);
    else this.#reject('too many unauthenticated connections', 'limit_exceeded', CLOSE.overloaded);
  }

  message(text: string): Promise<void> {
    this.#messages ??= new SocketMessages(realtimeOf(this.app).paces, this.address);
    return this.#messages.handle(this.#tenantId, text, () => this.#handle(text));
  }

  get ownBytes(): number {
    return this.#socket?.buffered ?? 0;
  }

  get waitingBytes(): number {
    return this.ownBytes;
  }

  cut(): void {
    this.#socket?.close(CLOSE.overloaded, 'reading too slowly');
  }

  async #handle(text: string): Promise<void> {
    const transition = receive(this.#state, text, this.app.config.ws.maxSubscriptions);
    this.#apply(transition);
    const { lookup } = transition;
    if (lookup === undefined) return;
    try {
      if (lookup.kind === 'auth') await this.#authenticate(lookup.token);
      else await this.#subscribe(lookup.entity);
    } catch (cause) {
      if (!(cause instanceof ServiceError)) throw cause;
      this.#socket?.close(CLOSE.overloaded, cause.message);
    }
  }

  /** Called once the socket is closed. */
  close(): void {
    this.#isClosed = true;
    this.#messages?.close();
    this.#waiting?.readers.delete(this);
    this.#releaseUnauthenticated();
    this.#clearDeadline();
    this.#leave();
    void this.#release();
  }

  deliver(membership: Membership, serializer: EventSerializer, projection: Projection | null): void {
    if (membership !== this.#membership || projection === null || serializer.event.row === null) return;
    const since = this.#sinceOf(projection.entity.name);
    if (since === undefined || this.#state.phase !== 'ready' || isSeenIn(since, serializer.xid)) return;
    this.#sendText(serializer.text(projection));
  }

  disconnect(membership: Membership, reason: CloseReason): void {
    if (reason === 'stopping') this.#socket?.close(CLOSE.goingAway, 'the service is stopping');
    else if (reason === 'gap') this.#socket?.close(CLOSE.overloaded, 'events may have been lost; connect again');
    else if (membership !== this.#membership) return;
    else if (this.#isPastExpiry()) this.#expire();
    else this.#reject('the token is no longer accepted', 'not_authenticated', CLOSE.unauthenticated);
  }

  #sinceOf(name: string): Snapshot | undefined {
    return this.#subscriptions.find(({ entity }) => entity === name)?.since;
  }

  #releaseUnauthenticated(): void {
    if (this.#isUnauthenticated) realtimeOf(this.app).unauthenticated.release(this.address);
    this.#isUnauthenticated = false;
  }

  #leave(): void {
    if (this.#membership !== undefined) realtimeOf(this.app).leave(this.#membership);
    this.#membership = undefined;
  }

  async #authenticate(token: string): Promise<void> {
    const caller = await acceptedCallerOf(this.app, token, this.origin);
    if (caller === null) return this.#apply(authenticated(this.#state, 'rejected'));
    const { tenant, expiresAt } = caller;
    countFor(tenant.id, false);
    const isSame = this.#tenantId === tenant.id;
    if (!isSame && !(await this.#acquireLease(tenant))) return;
    // The group outlives the connection, so `load` must not capture it.
    const { app, origin } = this;
    const load = (): Promise<TenantCaller> => callerOf(app, token, origin);
    const source: AccessSource = { key: `ws ${origin} ${sha256(token).toString('hex')}`, load };
    const realtime = realtimeOf(app);
    const { entities } = isSame ? this.#state : NEW_SOCKET;
    const { membership, since } = await realtime.join(source, caller, this, entities);
    if (this.#isClosed) return realtime.leave(membership);
    this.#leave();
    this.#releaseUnauthenticated();
    this.#waiting?.readers.delete(this);
    this.#waiting = realtime.waitingOf(tenant.id).added(this);
    this.#membership = membership;
    this.#subscriptions = entities.map((entity) => ({ entity, since: this.#sinceOf(entity) ?? since }));
    this.#tenantId = tenant.id;
    if (!isSame) this.#endTime = openTimeOf(app).opened(tenant.id, 'socket');
    this.#expiresAt = expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(expiresAt);
    this.#apply(authenticated(this.#state, isSame ? 'same' : 'other'));
    this.#awaitExpiry();
  }

  async #acquireLease(tenant: Tenant): Promise<boolean> {
    await this.#release();
    const { lease, use } = await realtimeOf(this.app).leases.acquireInTenant(tenant, 'sockets');
    this.#lease = lease ?? undefined;
    if (this.#isClosed) await this.#release();
    const why = use === undefined ? '' : `; ${quotaProblem(use).message}`;
    if (lease === null) this.#reject(`too many connections are open${why}`, 'limit_exceeded', CLOSE.overloaded);
    return lease !== null && !this.#isClosed;
  }

  async #release(): Promise<void> {
    const lease = this.#lease;
    this.#lease = undefined;
    this.#tenantId = '';
    this.#endTime();
    if (lease !== undefined) await realtimeOf(this.app).leases.release(lease);
  }

  async #subscribe(name: string): Promise<void> {
    const membership = this.#membership;
    const caller = await membership?.tenant.currentCaller(membership.group.source.key);
    // Without a caller, `disconnect` has already been called.
    if (membership === undefined || caller == null) return;
    const entity = (await catalogOf(this.app, caller.tenant)).byName.get(name);
    const isVisible = entity !== undefined && allows(caller.rights, 'read', name);
    if (isVisible && this.#sinceOf(name) === undefined) {
      const since = await realtimeOf(this.app).addEntity(membership, name);
      if (since !== null) this.#subscriptions = [...this.#subscriptions, { entity: name, since }];
    }
    this.#apply(entityLookedUp(this.#state, name, isVisible));
  }

  #awaitExpiry(): void {
    this.#clearDeadline();
    if (this.#expiresAt === Number.POSITIVE_INFINITY) return;
    const ms = Math.min(Math.max(0, this.#expiresAt - Date.now()), TIMER_MAX_MS);
    this.#deadline = setTimeout(() => (this.#isPastExpiry() ? this.#expire() : this.#awaitExpiry()), ms);
  }

  #isPastExpiry(): boolean {
    return this.#expiresAt <= Date.now();
  }

  #expire(): void {
    if (this.#state.phase === 'expired') return;
    this.#leave();
    // Events before the next `auth` are never sent.
    this.#subscriptions = [];
    this.#apply(expired(this.#state));
    this.#startAuthDeadline(RENEWAL_DEADLINE_MS);
  }

  #startAuthDeadline(ms: number): void {
    this.#clearDeadline();
    this.#deadline = setTimeout(() => {
      if (this.#state.phase === 'ready') return;
      this.#releaseUnauthenticated();
      this.#socket?.close(CLOSE.unauthenticated, 'no auth message in time');
    }, ms);
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
    if (this.#membership !== undefined) realtimeOf(this.app).removeEntity(this.#membership, name);
  }

  #send(reply: Reply): void {
    this.#sendText(JSON.stringify(reply));
  }

  #sendText(text: string): void {
    this.#socket?.send(text);
    if (this.#tenantId !== '') this.app.counters.of(this.#tenantId).sentBytes += Buffer.byteLength(text);
  }
}
