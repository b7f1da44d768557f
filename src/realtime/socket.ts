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
import type { RelayedEvent } from '../events/relay.ts';
import { isSeenIn, type Snapshot } from '../events/snapshot.ts';
import type { SocketHandler, TextSocket } from '../runtime/socket.ts';
import { sha256 } from '../runtime/tokens.ts';
import type { EndReason, Listener, Seat } from './audience.ts';
import type { Ticket } from './group.ts';
import type { Place } from './places.ts';
import { realtimeOf } from './realtime.ts';
import {
  authenticated,
  expired,
  looked,
  NEW_SESSION,
  type Reply,
  receive,
  type Session,
  type Step,
} from './session.ts';
import { socketCaller } from './token.ts';
import type { Rendering, View } from './view.ts';

const FRAME_BYTES_MAX = 65_536;
const BUFFERED_BYTES_MAX = 1_048_576;
const IDLE_S = 60;
const AUTH_WITHIN_MS = 10_000;
/** After a token has expired its holder may need a person to get a new one. */
const RENEW_WITHIN_MS = 60_000;
const TIMER_MAX_MS = 2_147_483_647;
const CLOSE = { unauthenticated: 4401, overloaded: 1013, goingAway: 1001 };

/** The endpoint for the server. */
export function socketHandler(app: App): SocketHandler<Visit> {
  return {
    path: '/ws',
    maxFrameBytes: FRAME_BYTES_MAX,
    maxBufferedBytes: BUFFERED_BYTES_MAX,
    idleSeconds: IDLE_S,
    upgrade: (request, peer) => {
      const { address } = attachRequestContext(request, peer, app.config.trustProxy);
      return new Visit(app, request.headers.get('origin'), address);
    },
    open: (socket) => socket.data.open(socket),
    message: (socket, text) => socket.data.message(text),
    close: (socket) => socket.data.close(),
  };
}

interface Subscription {
  entity: string;
  since: Snapshot;
}

/** One connection and who is behind it. There may be many that wait for events seldom, so it holds little. */
class Visit implements Listener {
  readonly #app: App;
  readonly #origin: string | null;
  readonly #address: string;
  /** In the lobby, where it is counted by its address. */
  #isWaiting = false;
  #socket: TextSocket<Visit> | undefined;
  #session: Session = NEW_SESSION;
  /** Taken with the present token; one of an earlier token is heard no more. */
  #seat: Seat | undefined;
  /** The tenant it has a place in, and when the present token runs out: milliseconds since 1970, Infinity for never. */
  #tenantId = '';
  #place: Place | undefined;
  #expiresAt = Number.POSITIVE_INFINITY;
  /** What was known when each entity was subscribed to is not told. */
  #known: readonly Subscription[] = [];
  #deadline: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(app: App, origin: string | null, address: string) {
    this.#app = app;
    this.#origin = origin;
    this.#address = address;
  }

  open(socket: TextSocket<Visit>): void {
    this.#socket = socket;
    this.#isWaiting = realtimeOf(this.#app).lobby.enter(this.#address);
    if (this.#isWaiting) this.#expect(AUTH_WITHIN_MS);
    else this.#refuse('too many connections wait to authenticate', 'limit_exceeded', CLOSE.overloaded);
  }

  async message(text: string): Promise<void> {
    const step = receive(this.#session, text, this.#app.config.ws.maxSubscriptions);
    this.#take(step);
    const { need } = step;
    if (need === undefined) return;
    try {
      if (need.kind === 'auth') await this.#authenticate(need.token);
      else await this.#subscribe(need.entity);
    } catch (cause) {
      if (!(cause instanceof ServiceError)) throw cause;
      this.#socket?.close(CLOSE.overloaded, cause.message);
    }
  }

  /** The connection is over: everything it held is given back. */
  close(): void {
    this.#isClosed = true;
    this.#leaveLobby();
    this.#stopClock();
    this.#leave();
    void this.#release();
  }

  deliver(seat: Seat, event: RelayedEvent, rendering: Rendering, view: View | null): void {
    if (seat !== this.#seat || view === null || event.row === null || this.#session.phase !== 'ready') return;
    const since = this.#sinceOf(view.entity.name);
    if (since === undefined || isSeenIn(since, rendering.xid)) return;
    this.#socket?.send(rendering.text(view));
  }

  end(seat: Seat, reason: EndReason): void {
    if (seat === this.#seat || reason !== 'refused') this.#end(reason);
  }

  #sinceOf(name: string): Snapshot | undefined {
    return this.#known.find(({ entity }) => entity === name)?.since;
  }

  #leaveLobby(): void {
    if (this.#isWaiting) realtimeOf(this.#app).lobby.leave(this.#address);
    this.#isWaiting = false;
  }

  #leave(): void {
    if (this.#seat !== undefined) realtimeOf(this.#app).leave(this.#seat);
    this.#seat = undefined;
  }

  #end(reason: EndReason): void {
    if (reason === 'stopping') this.#socket?.close(CLOSE.goingAway, 'the service is stopping');
    else if (reason === 'lost') this.#socket?.close(CLOSE.overloaded, 'events may have been lost; connect again');
    else if (this.#isPastExpiry()) this.#expire();
    else this.#refuse('the token is not accepted any more', 'not_authenticated', CLOSE.unauthenticated);
  }

  async #authenticate(token: string): Promise<void> {
    const caller = await this.#accepted(token);
    if (caller === null) return this.#take(authenticated(this.#session, 'refused'));
    const { tenant, expiresAt } = caller;
    const isSame = this.#tenantId === tenant.id;
    if (!isSame && !(await this.#takePlace(tenant.id))) return;
    // Kept for all connections with this token, so it holds on to none.
    const [app, origin] = [this.#app, this.#origin];
    const load = (): Promise<TenantCaller> => socketCaller(app, token, origin);
    const ticket: Ticket = { key: `ws ${origin} ${sha256(token).toString('hex')}`, load };
    const realtime = realtimeOf(app);
    const { entities } = isSame ? this.#session : NEW_SESSION;
    const { seat, since } = await realtime.join(ticket, caller, this, entities);
    if (this.#isClosed) return realtime.leave(seat);
    this.#leave();
    this.#leaveLobby();
    this.#seat = seat;
    this.#known = entities.map((entity) => ({ entity, since: this.#sinceOf(entity) ?? since }));
    this.#tenantId = tenant.id;
    this.#expiresAt = expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(expiresAt);
    this.#take(authenticated(this.#session, isSame ? 'same' : 'other'));
    this.#awaitExpiry();
  }

  /** Null for a token that is refused; rejects when that cannot be told. */
  async #accepted(token: string): Promise<TenantCaller | null> {
    try {
      return await socketCaller(this.#app, token, this.#origin);
    } catch (cause) {
      if (cause instanceof ServiceError && (cause.status === 401 || cause.status === 403)) return null;
      throw cause;
    }
  }

  async #takePlace(tenantId: string): Promise<boolean> {
    await this.#release();
    const { maxPerTenant } = this.#app.config.ws;
    const place = await realtimeOf(this.#app).places.take({ [`ws:${tenantId}`]: maxPerTenant });
    this.#place = place ?? undefined;
    if (this.#isClosed) await this.#release();
    if (place === null) this.#refuse('too many connections are open', 'limit_exceeded', CLOSE.overloaded);
    return place !== null && !this.#isClosed;
  }

  async #release(): Promise<void> {
    const place = this.#place;
    this.#place = undefined;
    this.#tenantId = '';
    if (place !== undefined) await realtimeOf(this.#app).places.release(place);
  }

  async #subscribe(name: string): Promise<void> {
    const seat = this.#seat;
    const caller = await seat?.audience.callerOf(seat.group.ticket.key);
    // Whoever has lost the rights is told so by itself.
    if (seat === undefined || caller == null) return;
    const entity = (await catalogOf(this.#app, caller.tenant)).byName.get(name);
    const isThere = entity !== undefined && allows(caller.rights, 'read', name);
    if (isThere && this.#sinceOf(name) === undefined) {
      const since = await realtimeOf(this.#app).listen(seat, name);
      if (since !== null) this.#known = [...this.#known, { entity: name, since }];
    }
    this.#take(looked(this.#session, name, isThere));
  }

  #awaitExpiry(): void {
    this.#stopClock();
    if (this.#expiresAt === Number.POSITIVE_INFINITY) return;
    const left = Math.max(0, this.#expiresAt - Date.now());
    this.#deadline = setTimeout(() => (this.#isPastExpiry() ? this.#expire() : this.#awaitExpiry()), capped(left));
  }

  #isPastExpiry(): boolean {
    return this.#expiresAt <= Date.now();
  }

  #expire(): void {
    if (this.#session.phase === 'expired') return;
    this.#leave();
    // What changes until the next `auth` is not told after it either, whether others listen meanwhile or not.
    this.#known = [];
    this.#take(expired(this.#session));
    this.#expect(RENEW_WITHIN_MS);
  }

  /** Closes the connection unless somebody is authenticated in time. */
  #expect(withinMs: number): void {
    this.#stopClock();
    this.#deadline = setTimeout(() => {
      if (this.#session.phase === 'ready') return;
      this.#leaveLobby();
      this.#socket?.close(CLOSE.unauthenticated, 'no auth in time');
    }, withinMs);
  }

  #stopClock(): void {
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
  }

  #refuse(message: string, code: string, closeCode: number): void {
    this.#send({ type: 'auth_error', code, message });
    this.#socket?.close(closeCode, message);
  }

  #take({ session, replies }: Step): void {
    this.#session = session;
    for (const { entity } of this.#known) if (!session.entities.includes(entity)) this.#forget(entity);
    for (const reply of replies) this.#send(reply);
  }

  #forget(name: string): void {
    this.#known = this.#known.filter(({ entity }) => entity !== name);
    if (this.#seat !== undefined) realtimeOf(this.#app).unlisten(this.#seat, name);
  }

  #send(reply: Reply): void {
    this.#socket?.send(JSON.stringify(reply));
  }
}

function capped(ms: number): number {
  return Math.min(ms, TIMER_MAX_MS);
}
