// The selection of an event stream: its parameters, narrowed by its ticket; and whether the stream follows the feed.
// Failures: 400 with every problem, 403 for an agent that may not be read; those of a selection of changes.
// Contract: interface#sse, browsers#tickets, feed#resume.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { type Narrowing, NOT_NARROWED } from '../access/opener.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { namesIn } from '../changes/selection.ts';
import { forbidden, invalidField } from '../errors.ts';
import { EVENT_TYPES } from '../events/event.ts';
import { parameters } from '../http/parameters.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { type Asked, FollowQuery, followOf, readFollowing } from './followed-stream.ts';

/** Null selects everything. */
export interface StreamFilter {
  entities: ReadonlySet<string> | null;
  events: ReadonlySet<string> | null;
  /** The name of the agent whose messages are included. */
  agent: string | null;
  /** The selection of the ticket. */
  given: Narrowing;
}

export const StreamQuery = parameters({
  entities: Type.Optional(Type.String({ description: 'comma-separated entity names; default: all' })),
  events: Type.Optional(
    Type.String({ description: `comma-separated event types (${EVENT_TYPES.join(', ')}); default: all` }),
  ),
  ...FollowQuery,
  agent_id: Type.Optional(Type.String({ description: 'name or id of the bot whose messages are included' })),
  ticket: Type.Optional(Type.String({ description: 'a ticket in place of a key; the stream is narrowed as it says' })),
});
export type StreamQuery = Static<typeof StreamQuery>;

/** Sent on every stream; naming them in `events` is accepted and ignored. */
const STREAM_TYPES = ['connected', 'heartbeat', 'error'];
const STREAM = { types: [...EVENT_TYPES, ...STREAM_TYPES] };
/** What the stream follows; null for live events only. */
export async function readFollow(
  app: App,
  caller: TenantCaller,
  { entities, events }: StreamFilter,
  query: StreamQuery,
) {
  const { follow, problems } = followOf(query, caller.ticket?.narrowing.follow ?? null);
  return follow && readFollowing(app, caller, follow, { entities, events, stream: STREAM }, problems);
}

/** 400, 403, 404, 409 and 410 for a stream that could not follow. */
export async function requireFollowing(
  app: App,
  caller: TenantCaller,
  { entities, events }: Omit<Narrowing, 'follow'>,
  follow: Asked,
): Promise<void> {
  const wanted = { entities: entities && new Set(entities), events: events && new Set(events), stream: STREAM };
  await readFollowing(app, caller, follow, wanted, []);
}

export async function readFilter(app: App, caller: TenantCaller, query: StreamQuery): Promise<StreamFilter> {
  const given: Narrowing = caller.ticket?.narrowing ?? NOT_NARROWED;
  const events = namesIn(query.events);
  requireEventTypes([...(events ?? [])], followOf(query, given.follow).follow);
  const entities = namesIn(query.entities);
  const max = LIMITS.entity.perTenantMax;
  if ((entities?.size ?? 0) > max) {
    throw invalidField('entities', `names more than ${max}, which is all that a tenant can have`);
  }
  return {
    entities: common(entities, given.entities),
    events: common(events, given.events),
    agent: await agentOf(app, caller, query.agent_id),
    given,
  };
}

/** 400 for an unknown event type. If the stream follows changes, the types are checked with their selection instead. */
export function requireEventTypes(types: readonly string[], follow: object | null): void {
  if (follow !== null) return;
  const known: readonly string[] = STREAM.types;
  const unknown = types.find((type) => !known.includes(type));
  if (unknown !== undefined) throw invalidField('events', `has an unknown event type: ${unknown}`);
}

/** The intersection of two selections. */
function common(names: ReadonlySet<string> | null, others: readonly string[] | null): ReadonlySet<string> | null {
  if (others === null) return names;
  return new Set(names === null ? others : others.filter((name) => names.has(name)));
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
