// The WebSocket endpoint: runs the protocol of websocket-protocol.ts on real connections, with its lookups, deadlines and
// connection limits. Times are milliseconds.
// Failures: close codes 4401 (no or revoked access), 1013 (limit, lost events, slow reader), 1001 (stopping).
// Contract: interface#websocket, decisions#websocket.
import { admits, type Narrowing, NOT_NARROWED } from '../access/opener.ts';
import type { Page } from '../access/origins.ts';
import type { App } from '../app.ts';
import { quotaProblem, ServiceError } from '../errors.ts';
import { knownFailure } from '../http/failures.ts';
import type { TextSocket } from '../runtime/socket.ts';
import { countFor } from '../runtime/work.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { openTimeOf } from '../usage/open-time.ts';
import type { ConnectionLease } from './connection-limits.ts';
import type { CloseReason, LiveConnection, Membership } from './membership.ts';
import { SocketMessages } from './message-pace.ts';
import type { EventSerializer, Projection } from './projection.ts';
import { realtimeOf } from './realtime.ts';
import { acceptedAccessOf } from './socket-caller.ts';
import { SocketSubscriptions } from './socket-subscriptions.ts';
import type { UnauthenticatedSocket } from './unauthenticated-sockets.ts';
import type { Reader, WaitingBytes } from './waiting-bytes.ts';
import {
  authenticated,
  entityLookedUp,
  expired,
  NEW_SOCKET,
  type Reply,
  receive,
  refused,
  type SocketState,
  type SubscribeOptions,
  type Transition,
} from './websocket-protocol.ts';

const AUTH_DEADLINE_MS = 10_000;
/** The deadline for a new token once the old one has expired; a person may have to sign in first. */
const RENEWAL_DEADLINE_MS = 60_000;
const TIMER_MAX_MS = 2_147_483_647;
const CLOSE = { unauthenticated: 4401, overloaded: 1013, goingAway: 1001 };

/** Many connections may be open and idle, so each keeps little state. */
export class WebSocketConnection implements LiveConnection, Reader {
  #unauthenticated: UnauthenticatedSocket | null = null;
  #socket: TextSocket<WebSocketConnection> | undefined;
  #state: SocketState = NEW_SOCKET;
  /** The membership of the current token; calls for an earlier membership are ignored. */
  #membership: Membership | undefined;
  /** The narrowing by the ticket that was sent, if any. */
  #narrowing: Narrowing = NOT_NARROWED;
  /** The tenant of the lease; empty before `auth`. */
  tenantId = '';
  #lease: ConnectionLease | undefined;
  #endTime = (): void => {};
  readonly #subscriptions: SocketSubscriptions;
  #deadline: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;
  #messages: SocketMessages | undefined;
  #waiting: WaitingBytes | undefined;

  constructor(
    private readonly app: App,
    private readonly page: Page,
    readonly network: string,
  ) {
    this.#subscriptions = new SocketSubscriptions(app, {
      membership: () => this.#membership,
      lookedUp: (entity, isVisible) => this.#apply(entityLookedUp(this.#state, entity, isVisible)),
      buffered: () => this.ownBytes,
      sendText: (text) => this.#sendText(text),
      cut: () => this.cut(),
      failed: (entity, cause) => this.#onFailed(entity, cause),
    });
  }

  open(socket: TextSocket<WebSocketConnection>): void {
    this.#socket = socket;
    const refuse = (): void => this.#reject('too many unauthenticated connections', 'limit_exceeded', CLOSE.overloaded);
    this.#unauthenticated = realtimeOf(this.app).unauthenticated.acquire(this.network, refuse);
    if (this.#unauthenticated === null) refuse();
    else this.#startAuthDeadline(AUTH_DEADLINE_MS);
  }

  message(text: string): Promise<void> {
    this.#messages ??= new SocketMessages(realtimeOf(this.app).paces, this.network);
    return this.#messages.handle(this.tenantId, text, () => this.#handle(text));
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
      else await this.#subscribe(lookup.entity, lookup.options);
    } catch (cause) {
      const known = knownFailure(this.app, cause);
      if (known === undefined) throw cause;
      this.#socket?.close(CLOSE.overloaded, known.message);
    }
  }

  /** Called once the socket is closed. */
  close(): void {
    this.#isClosed = true;
    this.#messages?.close();
    this.#waiting?.readers.delete(this);
    this.#releaseUnauthenticated();
    this.#clearDeadline();
    this.#subscriptions.clear();
    this.#leave();
    void this.#release();
  }

  deliver(membership: Membership, serializer: EventSerializer, projection: Projection | null): void {
    const { event } = serializer;
    if (membership !== this.#membership || this.#state.phase !== 'ready') return;
    if (!this.#subscriptions.admits(event.entity ?? '', serializer) || projection === null || event.row === null)
      return;
    if (!admits(this.#narrowing.events, event.type)) return;
    const text = serializer.text(projection);
    this.#socket?.hold(text);
    this.#countSent(text);
  }

  flush(): void {
    this.#socket?.flush();
  }

  accessLoaded(): void {
    this.#subscriptions.accessLoaded();
  }

  catchUp({ entities }: Membership): boolean {
    return this.#subscriptions.catchUp(entities);
  }

  disconnect(membership: Membership, reason: CloseReason): void {
    if (reason === 'stopping') this.#socket?.close(CLOSE.goingAway, 'the service is stopping');
    else if (reason === 'gap') this.#socket?.close(CLOSE.overloaded, 'events may have been lost; connect again');
    else if (membership !== this.#membership) return;
    else if (this.#expiresAt <= Date.now()) this.#expire();
    else this.#reject('the token is no longer accepted', 'not_authenticated', CLOSE.unauthenticated);
  }

  #releaseUnauthenticated(): void {
    if (this.#unauthenticated !== null) realtimeOf(this.app).unauthenticated.release(this.#unauthenticated);
    this.#unauthenticated = null;
  }

  #leave(): void {
    if (this.#membership !== undefined) realtimeOf(this.app).leave(this.#membership);
    this.#membership = undefined;
  }

  async #authenticate(token: string): Promise<void> {
    const access = await acceptedAccessOf(this.app, token, this.page);
    if (access === null) return this.#apply(authenticated(this.#state, 'rejected'));
    const { caller, source, narrowing } = access;
    const { tenant } = caller;
    countFor(tenant.id, false);
    const isSame = this.tenantId === tenant.id;
    if (!isSame && !(await this.#acquireLease(tenant))) return;
    const realtime = realtimeOf(this.app);
    const { entities: kept } = isSame ? this.#state : NEW_SOCKET;
    // The ticket may allow less than what was followed.
    const narrowed = narrowing === NOT_NARROWED ? [] : this.#subscriptions.followed;
    const isNarrower = narrowing.follow !== null;
    const entities = kept.filter((name) => !isNarrower && !narrowed.includes(name) && admits(narrowing.entities, name));
    const { membership, since } = await realtime.join(source, caller, this, entities);
    if (this.#isClosed) return realtime.leave(membership);
    this.#leave();
    this.#releaseUnauthenticated();
    this.#waiting?.readers.delete(this);
    this.#waiting = realtime.waitingOf(tenant.id).added(this);
    this.#membership = membership;
    if (!isSame) this.#subscriptions.clear();
    this.#subscriptions.keep(entities, since);
    this.tenantId = tenant.id;
    if (!isSame) this.#endTime = openTimeOf(this.app).opened(tenant.id, 'socket');
    this.#narrowing = narrowing;
    this.#apply(authenticated({ ...this.#state, entities }, isSame ? 'same' : 'other'));
    this.#awaitExpiry();
  }

  async #acquireLease(tenant: Tenant): Promise<boolean> {
    await this.#release();
    const { lease, use } = await realtimeOf(this.app).leases.acquire(tenant, 'sockets');
    this.#lease = lease ?? undefined;
    if (this.#isClosed) await this.#release();
    const why = use === undefined ? '' : `; ${quotaProblem(use).message}`;
    if (lease === null) this.#reject(`too many connections are open${why}`, 'limit_exceeded', CLOSE.overloaded);
    return lease !== null && !this.#isClosed;
  }

  async #release(): Promise<void> {
    const lease = this.#lease;
    this.#lease = undefined;
    this.tenantId = '';
    this.#endTime();
    if (lease !== undefined) await realtimeOf(this.app).leases.release(lease);
  }

  async #subscribe(entity: string, options: SubscribeOptions): Promise<void> {
    try {
      await this.#subscriptions.subscribe(entity, options, this.#narrowing);
    } catch (cause) {
      if (!(cause instanceof ServiceError) || cause.status >= 500) throw cause;
      this.#apply(refused(this.#state, cause.message));
    }
  }

  /** The feed of a subscription is gone, or cannot be read now; its client then reconnects from its last cursor. */
  #onFailed(entity: string, cause: unknown): void {
    const known = knownFailure(this.app, cause);
    if (known === undefined) this.app.log.error('a subscription cannot follow', { cause });
    if (known === undefined || known.status >= 500) {
      this.#socket?.close(CLOSE.overloaded, 'events cannot be read');
      return;
    }
    const entities = this.#state.entities.filter((name) => name !== entity);
    this.#apply(refused({ ...this.#state, entities }, known.message));
  }

  #awaitExpiry(): void {
    this.#clearDeadline();
    if (this.#expiresAt === Number.POSITIVE_INFINITY) return;
    const ms = Math.min(Math.max(0, this.#expiresAt - Date.now()), TIMER_MAX_MS);
    this.#deadline = setTimeout(() => (this.#expiresAt <= Date.now() ? this.#expire() : this.#awaitExpiry()), ms);
  }

  /** When the credential expires, in ms since the epoch; a refresh of its session postpones it. */
  get #expiresAt(): number {
    return Date.parse(this.#membership?.caller.expiresAt ?? '') || Number.POSITIVE_INFINITY;
  }

  #expire(): void {
    if (this.#state.phase === 'expired') return;
    this.#leave();
    // Events before the next `auth` are never sent, and followed entities are subscribed to again.
    const followed = this.#subscriptions.followed;
    this.#subscriptions.clear();
    const entities = this.#state.entities.filter((name) => !followed.includes(name));
    this.#apply(expired({ ...this.#state, entities }));
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
    this.#subscriptions.retain(state.entities);
    for (const reply of replies) this.#send(reply);
  }

  #send(reply: Reply): void {
    this.#sendText(JSON.stringify(reply));
  }

  #sendText(text: string): void {
    this.#socket?.send(text);
    this.#countSent(text);
  }

  #countSent(text: string): void {
    if (this.tenantId !== '') this.app.counters.of(this.tenantId).sentBytes += Buffer.byteLength(text);
  }
}
