// The relay's cursor in the outbox. It reads only the numbers of events, so that it soon reaches every tenant's newest event,
// however much others have written; backlog.ts decides in which order the events are relayed. Numbers are assigned before
// commit, so an event may appear after events with higher numbers. Missing numbers are therefore remembered with the
// transactions that could have them, and read again when one of these has ended. So a long transaction of one tenant, however
// many events it has, costs the others' events nothing until it ends.
// Contract: decisions#events, neighbours#fair-shares.
import { ASYNC_COMMIT, EMPTY, type Queries, raw, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { RelayPosition } from './backlog.ts';
import { fromMultirange, type NumberRange, type NumberRanges, toMultirange, union, without } from './number-ranges.ts';
import { isSeenIn, parseSnapshot } from './snapshot.ts';
import { hasSubscriber } from './stream-subscriptions.ts';

/** How many numbers one read takes: many, so that the cursor is faster than all writers. */
const BATCH = 20_000;
/** How far below the newest number to look for uncommitted ones when relaying begins. */
const LOOK_BACK = 50_000;

/** Numbers up to `readTo` are read, except the `missing` ones. */
export interface Cursor {
  readTo: number;
  missing: readonly MissingNumbers[];
  /** The position where the last leader stopped; null once it has been passed. */
  resumed: RelayPosition | null;
}

/** Numbers that were not in the outbox, and the transactions that were running when a read first missed them. */
interface MissingNumbers {
  ranges: NumberRanges;
  owners: readonly bigint[];
}

/** The process that relays, the watermark it has stored, and the age of its last heartbeat. */
export interface LeaderState {
  watermark: number;
  /** Null, or for another watermark, if a leader of an earlier version has relayed. */
  position: RelayPosition | null;
  leader: string | null;
  age_s: number;
}

export interface OutboxRead {
  state: LeaderState;
  /** How many numbers were read, and by tenant the ascending numbers of events that have a subscriber. */
  count: number;
  isFull: boolean;
  numbers: { tenantId: string; numbers: number[] }[];
  /** The cursor after the read, the numbers that the read skipped, and the numbers missing before that have now appeared. */
  readTo: number;
  skipped: NumberRanges;
  late: NumberRanges;
  /** The read's snapshot, and its own transaction id, which is higher than all that the snapshot sees. */
  snapshot: string;
  own: bigint;
}

/**
 * The setting for a transaction that finds events by their numbers. A new partition has no statistics, so the planner would
 * read all of it: with millions of events a stream then opened only after seconds, or not at all.
 */
export const BY_INDEX = raw(
  `set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true)`,
);

const LEADER_STATE = sql`
  select watermark, position, leader, extract(epoch from clock_timestamp() - heartbeat_at)::float8 as age_s
  from platform.relay where id = 1`;

export function readLeaderState(queries: Queries): Promise<LeaderState | undefined> {
  return queries.first<LeaderState>(LEADER_STATE);
}

export async function lockLeaderState(tx: Tx): Promise<LeaderState> {
  const state = await tx.first<LeaderState>(sql`${LEADER_STATE} for update`);
  if (state === undefined) throw new Error('platform.relay has no row');
  return state;
}

/** The cursor of a leader that continues where the last one stopped. */
export function cursorAt({ watermark, position }: LeaderState): Cursor {
  const resumed = position?.watermark === watermark ? position : null;
  return { readTo: watermark, missing: [], resumed };
}

/** All missing numbers of a cursor. */
export function missingOf({ missing }: Cursor): NumberRange[] {
  return union(missing.map(({ ranges }) => ranges));
}

/** A cursor at the end of the outbox; uncommitted numbers count as missing. */
export async function cursorAtEnd(tx: Tx): Promise<Cursor> {
  const end = await tx.first<{ last: number } & Taken & { skipped: string }>(sql`
    with last as (select coalesce(max(seq), 0)::bigint as last, ${BY_INDEX} as setting from platform.events),
    span as (select last, int8range(greatest(1, last - ${LOOK_BACK}::int), last + 1) as numbers from last)
    select last, ${TAKEN},
      (int8multirange(numbers) - (
        select coalesce(range_agg(int8range(seq, seq, '[]')), '{}') from platform.events
        where seq >= lower(numbers) and seq < upper(numbers)
      ))::text as skipped
    from span`);
  if (end === undefined) throw new Error('the outbox has no end');
  const { last, snapshot, own, skipped } = end;
  return { readTo: last, missing: newlyMissing(fromMultirange(skipped), snapshot, BigInt(own)), resumed: null };
}

/** The snapshot of a statement and its transaction. */
const TAKEN = sql`pg_current_snapshot()::text as snapshot, pg_current_xact_id()::text as own`;

interface Taken {
  snapshot: string;
  own: string;
}

/**
 * Locks the leader's row and reads the numbers after the cursor, with missing ones that have appeared, in one statement.
 * The first row is the leader and the new cursor, the others are the tenants' events with a subscriber. If the statement
 * had to wait for the lock, its snapshot is older than the lock, and the next read finds what it missed. The commit is
 * asynchronous: after a server crash the stored position may be older, and some events are relayed twice.
 */
export async function readOutbox(tx: Tx, { readTo, missing }: Cursor): Promise<OutboxRead> {
  // A setting within the statement would come too late for its own plan.
  if (missing.length > 0) await tx.rows(sql`select ${BY_INDEX}`);
  type First = LeaderState & Taken & { count: number; read_to: number; skipped: string; late: string };
  const [first, ...numbers] = await tx.rows<First & OutboxRead['numbers'][number]>(sql`
    with state as materialized (${LEADER_STATE} for update),
    seen as materialized (
      ${lateEvents(missing)}
      (select seq, tenant_id, entity from platform.events where seq > ${readTo}::bigint order by seq limit ${BATCH})
    ),
    reach as (
      select count(*)::int as count, count(*) filter (where seq > ${readTo}::bigint) as added,
        greatest(max(seq), ${readTo}::bigint) as read_to
      from seen
    ),
    next as (
      select count, read_to,
        (select coalesce(range_agg(int8range(seq, seq, '[]')), '{}') from seen where seq <= ${readTo}::bigint)::text as late,
        case
          when added = read_to - ${readTo}::bigint then '{}'
          else (int8multirange(int8range(${readTo}::bigint + 1, read_to, '[]')) - (
            select range_agg(int8range(seq, seq, '[]')) from seen where seq > ${readTo}::bigint))::text
        end as skipped
      from reach
    )
    select l.*, n.*, ${TAKEN}, s.setting, e.tenant_id as "tenantId", e.numbers
    from (state as l cross join next as n cross join (select ${ASYNC_COMMIT} || ${BY_INDEX} as setting) as s)
    full join (
      select tenant_id, array_agg(seq order by seq) as numbers from seen where ${hasSubscriber(sql`seen`)} group by tenant_id
    ) as e on false
    order by e.tenant_id nulls first`);
  if (!first?.own) throw new Error('platform.relay has no row');
  const { watermark, position, leader, age_s, count, snapshot, own } = first;
  return {
    state: { watermark, position, leader, age_s },
    count,
    isFull: count >= BATCH,
    numbers,
    readTo: first.read_to,
    skipped: fromMultirange(first.skipped),
    late: fromMultirange(first.late),
    snapshot,
    own: BigInt(own),
  };
}

/** A query of the missing events that have appeared, followed by `union all`. */
function lateEvents(missing: readonly MissingNumbers[]): Sql {
  if (missing.length === 0) return EMPTY;
  return sql`
    (select e.seq, e.tenant_id, e.entity
    from (
      select unnest(m.ranges) as numbers
      from unnest(${missing.map(({ ranges }) => toMultirange(ranges))}::int8multirange[],
        ${missing.map(({ owners }) => owners.join(' '))}::text[]) as m (ranges, owners)
      where exists (
        select from unnest(string_to_array(m.owners, ' ')) as o (xid)
        where pg_visible_in_snapshot(o.xid::xid8, pg_current_snapshot()))
    ) as a
    cross join lateral (
      select seq, tenant_id, entity from platform.events where seq >= lower(a.numbers) and seq < upper(a.numbers)
      order by seq
    ) as e)
    union all`;
}

/** Moves the cursor past what was read. */
export function advance(cursor: Cursor, read: OutboxRead): void {
  cursor.readTo = read.readTo;
  if (read.count === 0 || cursor.readTo >= (cursor.resumed?.readTo ?? 0)) cursor.resumed = null;
  const still = cursor.missing.flatMap((numbers) => stillMissing(numbers, read));
  cursor.missing = merged([...still, ...newlyMissing(read.skipped, read.snapshot, read.own)]);
}

/** The numbers that the read still missed. Numbers whose transactions have all ended were rolled back. */
function stillMissing(numbers: MissingNumbers, { snapshot, late }: OutboxRead): MissingNumbers[] {
  const ended = parseSnapshot(snapshot);
  const owners = numbers.owners.filter((xid) => !isSeenIn(ended, xid));
  if (owners.length === numbers.owners.length) return [numbers];
  const ranges = without(numbers.ranges, late);
  return ranges.length === 0 || owners.length === 0 ? [] : [{ ranges, owners }];
}

/**
 * The numbers that a read has skipped. Their transactions are the ones that its snapshot does not see, up to its own: the
 * snapshot's xmax would be too low, since a transaction that already has a number may have a later id.
 */
function newlyMissing(ranges: NumberRanges, snapshot: string, own: bigint): MissingNumbers[] {
  const { xmax, running } = parseSnapshot(snapshot);
  const owners = [...running].filter((xid) => xid !== own);
  for (let xid = xmax; xid < own; xid++) owners.push(xid);
  return ranges.length === 0 || owners.length === 0 ? [] : [{ ranges, owners }];
}

/** Merges the numbers of the same transactions. */
function merged(missing: readonly MissingNumbers[]): MissingNumbers[] {
  const byOwners = new Map<string, MissingNumbers[]>();
  for (const numbers of missing) {
    const key = numbers.owners.join();
    byOwners.set(key, [...(byOwners.get(key) ?? []), numbers]);
  }
  return [...byOwners.values()].map((same) => {
    const [first] = same;
    if (same.length === 1 && first !== undefined) return first;
    return { ranges: union(same.map(({ ranges }) => ranges)), owners: first?.owners ?? [] };
  });
}
