// Opening a tenant's event stream: who may, what it asks for, and its life until it ends.
// Failures: 400 for parameters, 403 for other credentials, tenants and agents, 429 when all places are
// taken, 503. Contract: interface#sse, decisions#sse, decisions#status-codes.

import type { Caller, TenantCaller } from '../access/caller.ts';
import { type Credential, factsOf } from '../access/credential-kinds.ts';
import { resolveCaller } from '../access/resolve-caller.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { forbidden, invalidField, rateLimited } from '../errors.ts';
import { type CommittedEvent, EVENT_TYPES } from '../events/event.ts';
import { isSeenIn, type Snapshot } from '../events/snapshot.ts';
import { ALL_ENTITIES } from '../events/stream-subscriptions.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import type { ConnectionLease } from './connection-leases.ts';
import type { EventSerializer, Projection } from './projection.ts';
import { type Realtime, realtimeOf } from './realtime.ts';
import { SseChannel, sseFrame } from './sse-channel.ts';
import type { LiveConnection, Membership } from './tenant-connections.ts';

/** What a stream shows; null where everything is asked for. */
interface StreamFilter {
  entities: ReadonlySet<string> | null;
  events: ReadonlySet<string> | null;
  /** The agent whose messages are shown too, by name. */
  agent: string | null;
}

export interface StreamQuery {
  entities?: string | undefined;
  events?: string | undefined;
  agent_id?: string | undefined;
}

/** What every stream shows, asked for or not. */
const OWN_TYPES: readonly string[] = ['connected', 'heartbeat', 'error'];
const RETRY_AFTER_S = 5;

/** The body of an open stream of the caller's own tenant. */
export async function openStream(
  app: App,
  caller: Caller,
  credential: Credential | undefined,
  slug: string,
  query: StreamQuery,
): Promise<ReadableStream<Uint8Array>> {
  const owner = requireKeyOf(caller, slug);
  if (credential === undefined) throw forbidden();
  const wanted = await streamFilter(app, owner, query);
  const realtime = realtimeOf(app);
  realtime.requireOpen();
  const { maxPerTenant, maxGlobal } = app.config.sse;
  const place = await realtime.leases.acquire({ [`sse:${owner.tenant.id}`]: maxPerTenant, sse: maxGlobal });
  if (place === null) throw rateLimited('too many streams are open', RETRY_AFTER_S);
  const stream = new SseStream(app, realtime, wanted, place);
  try {
    const ticket = {
      key: `sse ${sha256(credential.value).toString('hex')}`,
      load: () => resolveCaller(app, credential),
    };
    const entities = wanted.entities === null ? [ALL_ENTITIES] : [...wanted.entities];
    const { seat, since } = await realtime.join(ticket, owner, stream, entities);
    return stream.begin(seat, since);
  } catch (cause) {
    stream.abandon();
    throw cause;
  }
}

/** Only the tenant's own owner and platform keys: 403 for the rest, whether the tenant exists or not. */
function requireKeyOf(caller: Caller, slug: string): TenantCaller {
  const { kind, tenant } = caller;
  if (!factsOf(kind).opensEventStream) throw forbidden('streams take owner keys and platform keys only');
  if (tenant === null || tenant.slug !== slug) throw forbidden('this credential belongs to another tenant');
  return caller as TenantCaller;
}

async function streamFilter(app: App, caller: TenantCaller, query: StreamQuery): Promise<StreamFilter> {
  const events = listed(query.events);
  const unknown = [...(events ?? [])].find(
    (type) => !(EVENT_TYPES as readonly string[]).includes(type) && !OWN_TYPES.includes(type),
  );
  if (unknown !== undefined) throw invalidField('events', `has an unknown event type: ${unknown}`);
  return { entities: listed(query.entities), events, agent: await agentOf(app, caller, query.agent_id) };
}

function listed(text: string | undefined): ReadonlySet<string> | null {
  const names = (text ?? '').split(',').map((name) => name.trim());
  const given = names.filter((name) => name !== '');
  return given.length === 0 ? null : new Set(given);
}

/** The agent by its name; a platform key needs its role's permission, and learns nothing else of who exists. */
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
  readonly #app: App;
  readonly #filter: StreamFilter;
  readonly #channel: SseChannel;
  #heartbeat: ReturnType<typeof setInterval> | undefined;
  #membership: Membership | undefined;
  /** Nothing is shown before the stream has begun. */
  #since: Snapshot | null = null;

  constructor(app: App, realtime: Realtime, wanted: StreamFilter, place: ConnectionLease) {
    this.#app = app;
    this.#filter = wanted;
    const { maxQueuedEvents: maxQueued, idleTimeoutMs } = app.config.sse;
    const onEnd = (): void => {
      clearInterval(this.#heartbeat);
      if (this.#membership !== undefined) realtime.leave(this.#membership);
      void realtime.leases.release(place);
    };
    this.#channel = new SseChannel({ maxQueued, idleTimeoutMs, onEnd });
  }

  /** Called in the same turn as the registration, so that nothing comes in between. */
  begin(seat: Membership, since: Snapshot): ReadableStream<Uint8Array> {
    this.#membership = seat;
    this.#since = since;
    const connected = { type: 'connected', tenant: seat.caller.tenant.slug, connection_id: newId(), timestamp: now() };
    this.#channel.send(sseFrame('connected', connected));
    this.#sendHeartbeat();
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), this.#app.config.sse.heartbeatMs);
    if (!this.#channel.isOpen) clearInterval(this.#heartbeat);
    return this.#channel.stream;
  }

  /** It never came to be read. */
  abandon(): void {
    this.#channel.stream.cancel().catch((cause: unknown) => {
      this.#app.log.error('a stream could not be abandoned', { cause });
    });
  }

  deliver({ caller }: Membership, event: CommittedEvent, rendering: EventSerializer, view: Projection | null): void {
    const { events } = this.#filter;
    if (events !== null && !events.has(event.type)) return;
    if (this.#since === null || isSeenIn(this.#since, rendering.xid)) return;
    if (event.row !== null) {
      if (view !== null) this.#channel.send(rendering.frame(view));
    } else if (this.#matches(event, view, caller)) this.#channel.send(rendering.payloadFrame());
  }

  disconnect(): void {
    clearInterval(this.#heartbeat);
    this.#channel.end();
  }

  /** What a rule says may hold values of any field; a message is for those who may read what its agent gets. */
  #matches({ type, entity, payload }: CommittedEvent, view: Projection | null, caller: TenantCaller): boolean {
    const { entities, agent } = this.#filter;
    const reads = (name: unknown): boolean => allows(caller.rights, 'read', `agent:${String(name)}`);
    if (type === 'message.received') return agent !== null && payload?.to_agent === agent && reads(agent);
    if (type === 'message.chain_limit') return reads(payload?.to_agent);
    if (entities !== null && !entities.has(entity ?? '')) return false;
    return caller.rights.isUnlimited || view?.isComplete === true;
  }

  #sendHeartbeat(): void {
    this.#channel.send(sseFrame('heartbeat', { type: 'heartbeat', timestamp: now() }));
  }
}

function now(): string {
  return new Date().toISOString();
}
