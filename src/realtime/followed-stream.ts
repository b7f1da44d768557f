// An event stream that follows the feed because it has a cursor, a condition or transitions: its parameters, and its frames. A frame is the
// same as in any stream, with the member `cursor` added if the stream has cursors. Transitions are event types of their own. For a record
// that has left, only the id is sent.
// Failures: 400 with every problem, 403, 404, 409, 410. Contract: feed#resume, feed#filtered-subscriptions.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import type { Follow } from '../access/opener.ts';
import type { App } from '../app.ts';
import { cursorOf, EARLIEST_CURSOR } from '../changes/changes.ts';
import type { Following } from '../changes/live-follower.ts';
import type { Entry } from '../changes/page.ts';
import { conditionsIn, readSelection, type Wanted } from '../changes/selection.ts';
import { invalid, type Problem } from '../errors.ts';
import { laterOf, positionAt } from '../events/feed.ts';
import { feedHeadsOf } from '../events/feed-heads.ts';
import { type ChangesCursor, openedCursor, rightsKeyOf, sealCursor } from '../http/changes-cursor.ts';
import { flagParameter } from '../http/parameters.ts';
import { fieldsOf } from './projection.ts';
import { type SseFrame, sseFrame } from './sse-channel.ts';

export const FollowQuery = {
  since: Type.Optional(
    Type.String({ description: 'a cursor: replays what came after it, then goes on; empty: from now, with cursors' }),
  ),
  filters: Type.Optional(Type.String({ description: 'a condition on the changed records of the one entity named' })),
  view: Type.Optional(Type.String({ description: 'the slug of a view, whose entity and conditions apply' })),
  transitions: Type.Optional(
    flagParameter({ description: 'show updates that move a record in or out of what one sees as such' }),
  ),
};
const Query = Type.Object(FollowQuery);

/** Null entities mean all entities; a null cursor means now. */
export interface Followed {
  following: Omit<Following, 'limit' | 'cursor'> & { cursor: Following['cursor'] | null };
  entities: Wanted['entities'];
}

/** The requested selection; its conditions are those of the ticket and those of the stream. */
export type Asked = Omit<Follow, 'filters'> & Pick<Wanted, 'filters'>;

/** What the parameters and the ticket together ask for; null for a stream of live events only. */
export function followOf(
  query: Static<typeof Query>,
  given: Follow | null,
): { follow: Asked | null; problems: Problem[] } {
  const { since, filters, view, transitions } = query;
  const asked = since !== undefined || filters?.trim() || view?.trim() || transitions === true;
  if (!asked && given === null) return { follow: null, problems: [] };
  const own = view?.trim() || null;
  const isOther = own !== null && given?.view != null && given.view !== own;
  const follow = {
    since: since ?? given?.since ?? null,
    from: given?.from ?? null,
    filters: [...conditionsIn(given?.filters), ...conditionsIn(filters)],
    view: own ?? given?.view ?? null,
    transitions: transitions === true || given?.transitions === true,
  };
  return { follow, problems: isOther ? [{ path: 'view', message: 'the ticket is for another view' }] : [] };
}

/** Checks everything and returns what a stream follows; `wanted` has the entities and events of the stream. */
export async function readFollowing(
  app: App,
  caller: TenantCaller,
  follow: Asked,
  wanted: Pick<Wanted, 'entities' | 'events' | 'stream'>,
  others: readonly Problem[],
): Promise<Followed> {
  const { since, from, filters, view, transitions } = follow;
  const { cursor, problem } = cursorOf(app, caller, since);
  const all: Wanted = { ...wanted, filters, view, transitions };
  const { entities } = await readSelection(app, caller, all, [...others, ...problem]);
  if (problem.length > 0) throw invalid(problem);
  const begin = cursor === null || from === null ? cursor : notBefore(app, caller, cursor, from);
  return { following: { cursor: begin, wanted: all, hasCursors: since !== null }, entities };
}

/** The later one of a cursor and the ticket's first position. */
function notBefore(app: App, { tenant }: TenantCaller, cursor: ChangesCursor, from: string): ChangesCursor {
  if (from === EARLIEST_CURSOR) return cursor;
  return { ...cursor, position: laterOf(cursor.position, openedCursor(app, tenant, from).position) };
}

/** What is stored with the ticket, including the position before which no stream of the ticket may begin. */
export async function ticketFollow(app: App, caller: TenantCaller, follow: Asked): Promise<Follow> {
  const { since, filters } = follow;
  const from = since === '' ? sealCursor(app, caller.tenant.id, await cursorFromNow(app, caller)) : since;
  return { ...follow, from, filters: filters[0] ?? null };
}

/** A cursor from now on. Call this once the stream has joined the live events. */
export async function cursorFromNow(app: App, caller: TenantCaller): Promise<Following['cursor']> {
  return { position: positionAt(await feedHeadsOf(app).take()), rightsKey: rightsKeyOf(caller) };
}

/** The frame of an event. */
export function followedFrame({ event, seen }: Entry, slug: string, cursor: string | null): SseFrame {
  const { type, record } = seen;
  const about = { id: `evt_${event.id}`, type, timestamp: event.at, tenant: slug };
  const further = cursor === null ? {} : { cursor };
  if (record === undefined) return sseFrame(type, { ...about, ...seen.data, ...further });
  const data =
    type === 'record.left'
      ? seen.data
      : { fields: fieldsOf(event.row, record, event.erased), triggered_by: event.triggeredBy };
  return sseFrame(type, { ...about, entity: seen.entity, record_id: event.recordId, data, ...further });
}
