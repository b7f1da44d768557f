// An SSE stream of one tenant: authorization, its filter, and its life from `connected` to the end. Failures: 400 for
// parameters; 403 for a credential that opens no streams, another tenant, or an agent that may not be read; 429 when
// all connection leases are taken; 503.
// Contract: interface#sse, decisions#sse, decisions#status-codes.
import type { Caller, TenantCaller } from '../access/caller.ts';
import { type Credential, propertiesOf } from '../access/credential-kinds.ts';
import { admitsOther, openerKey } from '../access/opener.ts';
import { isPageAllowed, type Page } from '../access/origins.ts';
import { callerOfOpener, isKnownGood, openerOf } from '../access/resolve-opener.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { type Following, LiveFollower } from '../changes/live-follower.ts';
import type { Seen } from '../changes/reader.ts';
import { catalogOf } from '../entities/catalog.ts';
import { forbidden, quotaProblem, rateLimited, unauthorized } from '../errors.ts';
import { ADMIN_EVENTS, type CommittedEvent, DEFINITION_CHANGED } from '../events/event.ts';
import { precedes, type StreamStart } from '../events/snapshot.ts';
import { ALL_ENTITIES } from '../events/stream-subscriptions.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { knownFailure } from '../http/failures.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { openTimeOf } from '../usage/open-time.ts';
import type { AccessSource } from './access-group.ts';
import type { ConnectionLease } from './connection-limits.ts';
import { cursorFromNow, followedFrame } from './followed-stream.ts';
import type { LiveConnection, Membership } from './membership.ts';
import { type EventSerializer, type Projection, payloadFor } from './projection.ts';
import { type Realtime, realtimeOf } from './realtime.ts';
import { SseChannel, sseFrame } from './sse-channel.ts';
import { readFilter, readFollow, type StreamFilter, type StreamQuery } from './stream-filter.ts';

const RETRY_AFTER_S = 5;

/** How a request opens a stream: its caller, the key it sent unless it used a ticket, and the page that sent it. */
export interface StreamRequest {
  caller: Caller;
  credential: Credential | undefined;
  page: Page;
}

/** Opens a stream of the caller's own tenant; resolves to the body of the response. */
export async function openStream(
  app: App,
  request: StreamRequest,
  slug: string,
  query: StreamQuery,
): Promise<ReadableStream<Uint8Array>> {
  const caller = requireStreamCaller(request.caller, slug);
  const filter = await readFilter(app, caller, query);
  const followed = await readFollow(app, caller, filter, query);
  const source = await sourceOf(app, caller, request);
  const realtime = realtimeOf(app);
  realtime.requireOpen();
  const lease = await acquireLease(app, realtime, caller);
  const stream = new SseStream(app, realtime, filter, { lease, tenantId: caller.tenant.id });
  try {
    const selected = followed === null ? filter : { ...filter, entities: followed.entities };
    const entities = await subscribedTo(app, caller, selected);
    const { membership, since } = await realtime.join(source, caller, stream, entities);
    if (followed === null) return stream.begin(membership, since);
    const { following } = followed;
    const cursor = following.cursor ?? (await cursorFromNow(app, membership.caller));
    return stream.beginToFollow(membership, { ...following, cursor });
  } catch (cause) {
    stream.abandon();
    throw cause;
  }
}

/** Loads the rights of the key, or of the credential that made the ticket. The page of a ticket must still be listed. */
async function sourceOf(
  app: App,
  { tenant, ticket }: TenantCaller,
  { credential, page }: StreamRequest,
): Promise<AccessSource> {
  if (ticket === undefined) {
    if (credential === undefined) throw forbidden();
    const opener = await openerOf(app, tenant.id, credential);
    const load = (): Promise<TenantCaller> => callerOfOpener(app, opener);
    return { key: `sse ${openerKey(opener)}`, load, isKnownGood: () => isKnownGood(app, opener) };
  }
  const { opener } = ticket;
  const load = async (): Promise<TenantCaller> => {
    const caller = await callerOfOpener(app, opener);
    if (!mayFollow(caller) || !isPageAllowed(caller, page, true)) throw forbidden();
    return caller;
  };
  const key = `sse ${page.isOwn} ${page.origin} ${openerKey(opener)}`;
  return { key, load, isKnownGood: () => isKnownGood(app, opener) };
}

/**
 * The entities whose events the relay must pass on to the stream. A name that no entity has yet is not stored, since many streams could
 * name many such entities: a stream with such a name gets the events of all entities, and drops those that it does not name.
 */
async function subscribedTo(app: App, { tenant }: TenantCaller, { entities }: StreamFilter): Promise<string[]> {
  if (entities === null) return [ALL_ENTITIES];
  const { byName } = await catalogOf(app, tenant);
  return [...entities].every((name) => byName.has(name)) ? [...entities] : [ALL_ENTITIES];
}

/** 429 when the tenant or the service has reached its limit of streams. */
async function acquireLease(app: App, realtime: Realtime, { tenant }: TenantCaller): Promise<ConnectionLease> {
  const { maxGlobal } = app.config.sse;
  const { lease, use } = await realtime.leases.acquire(tenant, 'streams', { sse: maxGlobal });
  if (lease !== null) return lease;
  const details = use !== undefined && use.used >= use.limit ? [quotaProblem(use)] : undefined;
  throw rateLimited('too many streams are open', RETRY_AFTER_S, details);
}

/** 403 for any other credential, even when the tenant does not exist. A ticket is worth nothing in another tenant. */
function requireStreamCaller(caller: Caller, slug: string): TenantCaller {
  const { kind, tenant, ticket } = caller;
  if (ticket === undefined && !propertiesOf(kind).opensEventStream) {
    throw forbidden('streams take owner keys, platform keys and tickets only');
  }
  if (tenant !== null && tenant.slug === slug) return caller as TenantCaller;
  throw ticket === undefined ? forbidden('this credential belongs to another tenant') : unauthorized();
}

class SseStream implements LiveConnection {
  readonly #channel: SseChannel;
  #heartbeat: ReturnType<typeof setInterval> | undefined;
  #membership: Membership | undefined;
  /** Nothing is sent until this or the follower is set. */
  #since: StreamStart | null = null;
  #follower: LiveFollower | undefined;

  constructor(
    private readonly app: App,
    realtime: Realtime,
    private readonly filter: StreamFilter,
    { lease, tenantId }: { lease: ConnectionLease; tenantId: string },
  ) {
    const { maxQueuedEvents: maxQueued, idleTimeoutMs } = app.config.sse;
    const closed = openTimeOf(app).opened(tenantId, 'stream');
    const onSent = (bytes: number): void => {
      app.counters.of(tenantId).sentBytes += bytes;
    };
    const onEnd = (): void => {
      closed();
      clearInterval(this.#heartbeat);
      this.#follower?.stop();
      if (this.#membership !== undefined) realtime.leave(this.#membership);
      void realtime.leases.release(lease);
    };
    const onSlowReader = (): void => app.refusals.count('SLOW_READER');
    lease.onGivenUp = () => this.disconnect();
    const waiting = realtime.waitingOf(tenantId);
    this.#channel = new SseChannel({ waiting, maxQueued, idleTimeoutMs, onSent, onSlowReader, onEnd });
  }

  /**
   * Must be called in the same turn of the event loop in which `join` resolves, so that no event precedes `connected`.
   */
  begin(membership: Membership, since: StreamStart): ReadableStream<Uint8Array> {
    this.#since = since;
    return this.#start(membership);
  }

  /** Like `begin`, for a stream that reads the feed: live events only wake it. */
  beginToFollow(membership: Membership, following: Omit<Following, 'limit'>): ReadableStream<Uint8Array> {
    const { maxQueuedEvents } = this.app.config.sse;
    const limit = Math.max(1, Math.floor(maxQueuedEvents / 2));
    const { slug } = membership.caller.tenant;
    const stream = this.#start(membership);
    if (!this.#channel.isOpen) return stream;
    this.#follower = new LiveFollower(
      this.app,
      {
        caller: () => membership.caller,
        callerNow: () => membership.callerNow(),
        others: (event) => this.#otherEvent(membership, event),
        takenAt: () => this.#channel.takenAt,
        cut: () => this.#channel.cut(),
        room: () => this.#channel.room(maxQueuedEvents - limit, LIMITS.replay.unsent),
        send: (entry, cursor) => this.#channel.send(followedFrame(entry, slug, cursor)),
        failed: (cause) => {
          if (knownFailure(this.app, cause) === undefined) this.app.log.error('a stream cannot follow', { cause });
          this.disconnect();
        },
      },
      { ...following, limit },
    );
    this.#follower.wake();
    return stream;
  }

  #start(membership: Membership): ReadableStream<Uint8Array> {
    this.#membership = membership;
    const { slug } = membership.caller.tenant;
    const connected = { type: 'connected', tenant: slug, connection_id: newId(), timestamp: now() };
    this.#channel.send(sseFrame('connected', connected));
    this.#sendHeartbeat();
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), this.app.config.sse.heartbeatMs);
    if (!this.#channel.isOpen) clearInterval(this.#heartbeat);
    return this.#channel.stream;
  }

  /** Discards a stream that was never returned to the client. */
  abandon(): void {
    this.#channel.stream.cancel().catch((cause: unknown) => {
      this.app.log.error('cannot discard a stream', { cause });
    });
  }

  deliver({ caller }: Membership, serializer: EventSerializer, projection: Projection | null): void {
    const { event } = serializer;
    if (this.#follower !== undefined) {
      this.#follower.wake();
      return;
    }
    const { entities, events } = this.filter;
    if (events !== null && !events.has(event.type)) return;
    if (this.#since === null || precedes(this.#since, serializer)) return;
    if (event.row !== null) {
      const isNamed = entities === null || entities.has(event.entity ?? '');
      if (projection !== null && isNamed) this.#channel.send(serializer.recordFrame(projection));
    } else if (this.#isVisible(event, projection, caller)) {
      this.#channel.send(serializer.payloadFrame(caller));
    }
  }

  disconnect(): void {
    clearInterval(this.#heartbeat);
    this.#follower?.stop();
    this.#channel.end();
  }

  accessLoaded(): void {
    this.#follower?.accessLoaded();
  }

  catchUp(): boolean {
    this.#follower?.wake();
    return this.#follower !== undefined;
  }

  /** An event that is not of a record, as a stream without a cursor shows it. */
  async #otherEvent({ caller, group }: Membership, event: CommittedEvent): Promise<Seen | null> {
    const { events } = this.filter;
    if (event.row !== null || event.type === DEFINITION_CHANGED || events?.has(event.type) === false) return null;
    const catalog = await catalogOf(this.app, caller.tenant);
    const entity = catalog.byId.get(event.entityId ?? '');
    const projection = entity === undefined ? null : group.projectionOf(entity);
    if (!this.#isVisible(event, projection, caller)) return null;
    return { type: event.type, entity: event.entity, data: payloadFor(caller, catalog, event) };
  }

  /** A rule event may carry values of any field of its entity. A message needs read permission on its agent. */
  #isVisible({ type, entity, payload }: CommittedEvent, projection: Projection | null, caller: TenantCaller): boolean {
    const { entities, agent, given } = this.filter;
    const canRead = (name: unknown): boolean => allows(caller.rights, 'read', `agent:${String(name)}`);
    if (type === DEFINITION_CHANGED || !admitsOther(given, type)) return false;
    if (type === 'message.received') return agent !== null && payload?.to_agent === agent && canRead(agent);
    if (ADMIN_EVENTS.includes(type)) return caller.isTenantAdmin;
    if (type === 'message.chain_limit') return canRead(payload?.to_agent);
    if (entities !== null && !entities.has(entity ?? '')) return false;
    return caller.rights.isUnlimited || projection?.isComplete === true;
  }

  #sendHeartbeat(): void {
    this.#channel.send(sseFrame('heartbeat', { type: 'heartbeat', timestamp: now() }));
  }
}

function now(): string {
  return new Date().toISOString();
}
