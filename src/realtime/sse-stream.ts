// An SSE stream of one tenant: authorization, its filter, and its life from `connected` to the end. Failures: 400 for
// parameters; 403 for a credential that opens no streams, another tenant, or an agent that may not be read; 429 when
// all connection leases are taken; 503.
// Contract: interface#sse, decisions#sse, decisions#status-codes.
import { type Static, Type } from '@sinclair/typebox';
import type { Caller, TenantCaller } from '../access/caller.ts';
import { type Credential, propertiesOf } from '../access/credential-kinds.ts';
import { resolveCaller } from '../access/resolve-caller.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { forbidden, invalidField, quotaProblem, rateLimited } from '../errors.ts';
import { type CommittedEvent, EVENT_TYPES } from '../events/event.ts';
import { isSeenIn, type Snapshot } from '../events/snapshot.ts';
import { ALL_ENTITIES } from '../events/stream-subscriptions.ts';
import { parameters } from '../http/parameters.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { openTimeOf } from '../usage/open-time.ts';
import type { ConnectionLease } from './connection-limits.ts';
import type { EventSerializer, Projection } from './projection.ts';
import { type Realtime, realtimeOf } from './realtime.ts';
import { SseChannel, sseFrame } from './sse-channel.ts';
import type { LiveConnection, Membership } from './tenant-connections.ts';

/** Null selects everything. */
interface StreamFilter {
  entities: ReadonlySet<string> | null;
  events: ReadonlySet<string> | null;
  /** The name of the agent whose messages are included. */
  agent: string | null;
}

export const StreamQuery = parameters({
  entities: Type.Optional(Type.String({ description: 'comma-separated entity names; default: all' })),
  events: Type.Optional(
    Type.String({ description: `comma-separated event types (${EVENT_TYPES.join(', ')}); default: all` }),
  ),
  agent_id: Type.Optional(Type.String({ description: 'name or id of the bot whose messages are included' })),
});
type StreamQuery = Static<typeof StreamQuery>;

/** Sent on every stream; naming them in `events` is accepted and ignored. */
const STREAM_TYPES = ['connected', 'heartbeat', 'error'];
const RETRY_AFTER_S = 5;

/** Opens a stream of the caller's own tenant; resolves to the body of the response. */
export async function openStream(
  app: App,
  caller: Caller,
  credential: Credential | undefined,
  slug: string,
  query: StreamQuery,
): Promise<ReadableStream<Uint8Array>> {
  const keyHolder = requireStreamKey(caller, slug);
  if (credential === undefined) throw forbidden();
  const filter = await readFilter(app, keyHolder, query);
  const realtime = realtimeOf(app);
  realtime.requireOpen();
  const lease = await acquireLease(app, realtime, keyHolder);
  const stream = new SseStream(app, realtime, filter, { lease, tenantId: keyHolder.tenant.id });
  try {
    const source = {
      key: `sse ${sha256(credential.value).toString('hex')}`,
      load: () => resolveCaller(app, credential),
    };
    const entities = filter.entities === null ? [ALL_ENTITIES] : [...filter.entities];
    const { membership, since } = await realtime.join(source, keyHolder, stream, entities);
    return stream.begin(membership, since);
  } catch (cause) {
    stream.abandon();
    throw cause;
  }
}

/** 429 when the tenant or the service has as many streams as it may have. */
async function acquireLease(app: App, realtime: Realtime, { tenant }: TenantCaller): Promise<ConnectionLease> {
  const { maxGlobal } = app.config.sse;
  const { lease, use } = await realtime.leases.acquireInTenant(tenant, 'streams', { sse: maxGlobal });
  if (lease !== null) return lease;
  const details = use !== undefined && use.used >= use.limit ? [quotaProblem(use)] : undefined;
  throw rateLimited('too many streams are open', RETRY_AFTER_S, details);
}

/** 403 for any other credential, even when the tenant does not exist. */
function requireStreamKey(caller: Caller, slug: string): TenantCaller {
  const { kind, tenant } = caller;
  if (!propertiesOf(kind).opensEventStream) throw forbidden('streams take owner keys and platform keys only');
  if (tenant === null || tenant.slug !== slug) throw forbidden('this credential belongs to another tenant');
  return caller as TenantCaller;
}

async function readFilter(app: App, caller: TenantCaller, query: StreamQuery): Promise<StreamFilter> {
  const events = namesIn(query.events);
  const known: readonly string[] = [...EVENT_TYPES, ...STREAM_TYPES];
  const unknown = [...(events ?? [])].find((type) => !known.includes(type));
  if (unknown !== undefined) throw invalidField('events', `has an unknown event type: ${unknown}`);
  return { entities: namesIn(query.entities), events, agent: await agentOf(app, caller, query.agent_id) };
}

function namesIn(text: string | undefined): ReadonlySet<string> | null {
  const names = (text ?? '').split(',').map((name) => name.trim());
  const set = new Set(names.filter((name) => name !== ''));
  return set.size === 0 ? null : set;
}

/** The agent's name. A platform key needs read permission, and cannot find out which agents exist. */
async function agentOf(app: App, caller: TenantCaller, given: string | undefined): Promise<string | null> {
  if (given === undefined || given === '') return null;
  const bot = await app.db.first<{ name: string }>(sql`
    select name from platform.bots
    where tenant_id = ${caller.tenant.id}::uuid
      and ${isUuid(given) ? sql`id = ${given}::uuid` : sql`name = ${given}`}`);
  const name = bot?.name ?? given;
  if (!allows(caller.rights, 'read', `agent:${name}`)) throw forbidden(`no read permission on agent:${given}`);
  return name;
}

class SseStream implements LiveConnection {
  readonly #channel: SseChannel;
  #heartbeat: ReturnType<typeof setInterval> | undefined;
  #membership: Membership | undefined;
  /** Nothing is sent before it is set. */
  #since: Snapshot | null = null;

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
      if (this.#membership !== undefined) realtime.leave(this.#membership);
      void realtime.leases.release(lease);
    };
    const onSlowReader = (): void => app.refusals.count('SLOW_READER');
    const waiting = realtime.waitingOf(tenantId);
    this.#channel = new SseChannel({ waiting, maxQueued, idleTimeoutMs, onSent, onSlowReader, onEnd });
  }

  /**
   * Must be called in the same turn of the event loop in which `join` resolves, so that no event precedes `connected`.
   */
  begin(membership: Membership, since: Snapshot): ReadableStream<Uint8Array> {
    this.#membership = membership;
    this.#since = since;
    const { slug } = membership.caller.tenant;
    const connected = { type: 'connected', tenant: slug, connection_id: newId(), timestamp: now() };
    this.#channel.send(sseFrame('connected', connected));
    this.#sendHeartbeat();
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), this.app.config.sse.heartbeatMs);
    if (!this.#channel.isOpen) clearInterval(this.#heartbeat);
    return this.#channel.stream;
  }

  /** For a stream that was never returned. */
  abandon(): void {
    this.#channel.stream.cancel().catch((cause: unknown) => {
      this.app.log.error('cannot discard a stream', { cause });
    });
  }

  deliver({ caller }: Membership, serializer: EventSerializer, projection: Projection | null): void {
    const { event } = serializer;
    const { events } = this.filter;
    if (events !== null && !events.has(event.type)) return;
    if (this.#since === null || isSeenIn(this.#since, serializer.xid)) return;
    if (event.row !== null) {
      if (projection !== null) this.#channel.send(serializer.recordFrame(projection));
    } else if (this.#isVisible(event, projection, caller)) {
      this.#channel.send(serializer.payloadFrame(caller));
    }
  }

  disconnect(): void {
    clearInterval(this.#heartbeat);
    this.#channel.end();
  }

  /** A rule event may carry values of any field of its entity. A message needs read permission on its agent. */
  #isVisible({ type, entity, payload }: CommittedEvent, projection: Projection | null, caller: TenantCaller): boolean {
    const { entities, agent } = this.filter;
    const canRead = (name: unknown): boolean => allows(caller.rights, 'read', `agent:${String(name)}`);
    if (type === 'message.received') return agent !== null && payload?.to_agent === agent && canRead(agent);
    if (type === 'quota.warning') return caller.isTenantAdmin;
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
