// The feed of a tenant's events, read from the outbox by readers that keep a position. A position is a snapshot: the next page
// contains what a newer snapshot sees and this one does not, in the order of numbers; then the newer snapshot is the position.
// So every committed event is in exactly one page, whatever commits meanwhile and however long a transaction takes. Changes of
// one record are in order: the second waits for the first's row lock, so its number is higher, and no snapshot sees it without
// the first. The position within an unfinished page, a cut, keeps the newer snapshot and the last number read. A statement
// reads a bounded span of numbers, so that none takes long, however many events the reader does not want.
// Contract: feed#guarantee, neighbours#fair-shares.
import type { App } from '../app.ts';
import { LIMITS } from '../limits.ts';
import type { ByteBudget } from '../runtime/byte-budget.ts';
import { EMPTY, plannedOnce, type Sql, sql } from '../runtime/sql.ts';
import { beforeImage, type FormerValues } from './before-image.ts';
import {
  type CommittedEvent,
  EVENT_COLUMNS,
  type EventRow,
  eventSize,
  type RecordRow,
  storedSize,
  toEvent,
} from './event.ts';
import type { FeedHead } from './feed-heads.ts';
import { includes, parseSnapshot } from './snapshot.ts';

const { stepNumbers } = LIMITS.changes;

/** The events up to the number `last` that a snapshot sees; `last` is null in cursors of an earlier version. */
export interface SeenEvents {
  readonly snapshot: string;
  readonly last: number | null;
}

/**
 * How far a follower has read: everything that `seen` sees and, of what `cut.until` sees beyond that, the numbers up to
 * `cut.number`.
 */
export interface FeedPosition {
  readonly seen: SeenEvents & Pick<FeedHead, 'floor'>;
  /** Milliseconds. Retention may delete events up to this time without a loss for the reader. Null at the oldest kept event. */
  readonly at: number | null;
  /** Null between two pages. */
  readonly cut: { readonly until: FeedHead; readonly number: number } | null;
}

/** The position before the oldest kept event. */
export const EARLIEST: FeedPosition = { seen: { snapshot: '1:1:', floor: 0, last: 0 }, at: null, cut: null };

/** The position at a head: everything that the head sees has been read. */
export function positionAt({ snapshot, floor, last, at }: FeedHead): FeedPosition {
  return { seen: { snapshot, floor, last }, at, cut: null };
}

/** The position after an event of the page that ends at a head. */
export function positionAfter(
  { seen, at }: FeedPosition,
  until: FeedHead,
  event: { seq: number; at: string },
): FeedPosition {
  // Nothing that was committed before the event is missing any more.
  return { seen, at: Math.max(at ?? 0, Date.parse(event.at)), cut: { until, number: event.seq } };
}

/**
 * The later of two positions. A page from it contains nothing from before `bound`, and nothing from before `position` either,
 * except where two unfinished pages overlap, since a position can describe only one. A cut stays only if its head sees
 * everything in `seen`: that head is the next position.
 */
export function laterOf(position: FeedPosition, bound: FeedPosition): FeedPosition {
  const seen = sees(position.seen, bound.seen) ? position.seen : bound.seen;
  const at = position.at === null ? bound.at : Math.max(position.at, bound.at ?? 0);
  const unfinished = ({ cut }: FeedPosition) => (cut === null || sees(seen, cut.until) ? null : cut);
  const own = unfinished(position);
  const given = unfinished(bound);
  if (given !== null && !sees(given.until, seen)) return bound;
  if (own === null || !sees(own.until, seen)) return { seen, at, cut: given };
  const isFurther = given === null || (sees(own.until, given.until) && own.number >= given.number);
  return { seen, at, cut: isFurther ? own : given };
}

/** Whether `one` has seen everything that `other` has. Their last numbers are compared only if both are known. */
function sees(one: SeenEvents, other: SeenEvents): boolean {
  const isAsFar = one.last === null || other.last === null || one.last >= other.last;
  return isAsFar && includes(parseSnapshot(one.snapshot), parseSnapshot(other.snapshot));
}

/** An event with the record before the change; null for a creation, and for an update whose former values are not known. */
export interface FeedEvent extends CommittedEvent {
  before: RecordRow | null;
}

/** The condition that `seen` contains the event; `event` is the alias of its table. */
export function isSeen({ snapshot, last }: SeenEvents, event: Sql): Sql {
  return sql`(${event}.seq <= ${last ?? Number.MAX_SAFE_INTEGER}::bigint
    and pg_visible_in_snapshot(${event}.xid, ${snapshot}::pg_snapshot))`;
}

/** The condition that the event comes after a position; `event` is the alias of its table. */
export function isAfter({ seen, cut }: FeedPosition, event: Sql): Sql {
  const isNew = sql`not ${isSeen(seen, event)}`;
  if (cut === null) return isNew;
  return sql`${isNew} and not (${event}.seq <= ${cut.number}::bigint and ${isSeen(cut.until, event)})`;
}

/** No event up to this number comes after the position. */
export function floorOf({ seen, cut }: FeedPosition): number {
  return Math.max(seen.floor, cut === null ? 0 : Math.min(cut.number, cut.until.floor));
}

/**
 * The condition that the event belongs to a tenant, with a number after `after` and up to `last`. Only the index by tenant and
 * number serves this form, together with `BY_TENANT`. When it was written as two conditions and ordered by number, Postgres
 * used the index by number where a partition's statistics knew only one tenant: a page then skipped 90,000 events of others.
 */
export function isOfTenant(event: Sql, tenantId: string, after: number | string, last: Sql): Sql {
  const key = sql`(${event}.tenant_id, ${event}.seq)`;
  return sql`${key} > (${tenantId}::uuid, ${after}::bigint) and ${key} <= (${tenantId}::uuid, ${last})`;
}

/** The order of the events that `isOfTenant` finds. */
export const BY_TENANT: Sql = sql`tenant_id, seq`;

/** Some events after a position, and the last number read; null at the end of the page. */
export interface FeedStep {
  events: FeedEvent[];
  readTo: number | null;
}

/** `start` is the tenant's first event in the span. */
type StepRow = { start: number } & FittedRow;

/** The limits of what one step reads. */
export interface StepSize {
  events: number;
  /** The bytes of the values. */
  bytes: number;
  /** This many events are read, however large they are. */
  atLeast: 0 | 1;
}

/**
 * The next events after a number, in the page from `seen` to `until`; from the earliest position on, only events made at
 * `oldest` or later.
 */
export async function readStep(
  app: App,
  tenantId: string,
  { seen, at, cut }: FeedPosition,
  until: FeedHead,
  size: StepSize,
  received: ByteBudget,
  oldest: string,
): Promise<FeedStep> {
  const after = Math.max(seen.floor, cut?.number ?? 0);
  const isKept = at === null ? sql`and at >= ${oldest}::timestamptz` : EMPTY;
  const wanted = sql`
    select * from platform.events as v
    where ${isOfTenant(sql`v`, tenantId, after, sql`(select seq from start) + ${stepNumbers - 1}::int`)}
      and v.seq <= ${until.last}::bigint and not ${isSeen(seen, sql`v`)}
      and ${isSeen(until, sql`v`)} ${isKept}
    order by ${BY_TENANT} limit ${size.events}::int`;
  const statement = sql`
    with start as materialized (
      select seq from platform.events as v
      where ${isOfTenant(sql`v`, tenantId, after, sql`${until.last}::bigint`)} ${isKept}
      order by ${BY_TENANT} limit 1
    )
    select s.seq as start, e.*
    from start as s
    left join (${selectFitting(wanted, BY_TENANT, size)}) as e on true
    order by e.n`;
  const rows = await rowsByIndex<StepRow>(app, statement, received);
  const [first] = rows;
  if (first === undefined) return { events: [], readTo: null };
  const { events, hasMore } = fittingEvents(rows, size);
  const readTo = hasMore ? (events.at(-1)?.seq ?? first.start - 1) : first.start + stepNumbers - 1;
  return { events, readTo: !hasMore && readTo >= until.last ? null : readTo };
}

/**
 * The first of the `wanted` events, in this order, that fit into a step: each with its position `n` and the number of events
 * found. When none fits, a single row without an event says so.
 */
export function selectFitting(wanted: Sql, order: Sql, { bytes, atLeast }: StepSize): Sql {
  const size = sql`${eventSize(sql`w`)} + ${storedSize(sql`w.old`)}`;
  return sql`
    select m.n::int, m.found::int, f.*
    from (
      select *, row_number() over (order by ${order}) as n, count(*) over () as found,
        sum(${size}) over (order by ${order} rows unbounded preceding) as total
      from (${wanted}) as w
    ) as m
    left join lateral (
      select ${EVENT_COLUMNS}, old from (select m.*) as one
      where m.total <= ${bytes}::int or m.n <= ${atLeast}::int
    ) as f on true
    where m.total <= ${bytes}::int or m.n = 1`;
}

/** A row of `selectFitting`. */
export type FittedRow = { found: number | null } & (StoredFeedEvent | { id: null });

/** The events of the rows of `selectFitting`, and whether more may follow. */
export function fittingEvents(rows: readonly FittedRow[], size: StepSize): { events: FeedEvent[]; hasMore: boolean } {
  const events = rows.filter((row) => row.id !== null).map(toFeedEvent);
  return { events, hasMore: events.length >= size.events || events.length < (rows[0]?.found ?? 0) };
}

/** An event as stored, with the former values of an update. */
export type StoredFeedEvent = EventRow & { old: FormerValues | null };

export function toFeedEvent({ old, ...stored }: StoredFeedEvent): FeedEvent {
  const event = toEvent(stored as EventRow);
  const { row, type } = event;
  if (type === 'record.deleted') return { ...event, before: row };
  return { ...event, before: row === null || old === null ? null : beforeImage(row, old) };
}

/** Runs a statement whose rows must be found by an index. */
export const rowsByIndex = <T>(app: App, statement: Sql, received: ByteBudget): Promise<T[]> =>
  app.db.rows<T>(plannedOnce(statement), received);
