// The relay's cursor in the outbox, which reads only the numbers of events, so that it reaches every tenant's newest event
// soon whatever others have written; backlog.ts decides in which order the events are relayed. Sequence numbers are assigned before commit, so an event may appear after events with
// higher numbers: the missing numbers are remembered and read again until every transaction that could have them has ended.
// Contract: decisions#events.
import { ASYNC_COMMIT, type Queries, raw, sql, type Tx } from '../runtime/sql.ts';
import type { RelayPosition } from './backlog.ts';
import { hasSubscriber } from './stream-subscriptions.ts';

/** Numbers that one read takes: many, so that the cursor is faster than any writers. */
const BATCH = 20_000;
/** How far below the newest number to look for uncommitted ones when relaying begins. */
const LOOK_BACK = 10_000;

/** Numbers up to `readTo` are read, except the `missing` ones. */
export interface Cursor {
  readTo: number;
  missing: Set<number>;
  /** When all transactions before `xid` have ended, the numbers still missing up to `upTo` were rolled back. */
  horizon: { xid: bigint; upTo: number } | null;
  /** Where the last leader stopped; null once that has been passed. */
  resumed: RelayPosition | null;
}

/** The process that relays, the watermark it has stored, and the age of its last heartbeat. */
export interface LeaderState {
  watermark: number;
  /** Null, or of another watermark, if a leader of an earlier version has relayed. */
  position: RelayPosition | null;
  leader: string | null;
  age_s: number;
}

export interface OutboxRead {
  state: LeaderState;
  /** How many numbers were read, and those of events that have a subscriber, ascending, by tenant. */
  count: number;
  isFull: boolean;
  numbers: { tenantId: string; numbers: number[] }[];
  /** The cursor after the read. */
  readTo: number;
  missing: number[];
  /** The oldest running transaction in the read's snapshot, and the read's own, which has a higher number. */
  oldest: bigint;
  own: bigint;
}

/**
 * For a transaction that finds events by their numbers. A new partition has no statistics, and the planner would read all
 * of it: with millions of events a stream then opened only after seconds, or not at all.
 */
export const BY_INDEX = raw(`set_config('enable_seqscan', 'off', true)`);

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
  return { readTo: watermark, missing: new Set(), horizon: null, resumed };
}

/** A cursor at the end of the outbox; what is uncommitted counts as missing. */
export async function cursorAtEnd(tx: Tx): Promise<Cursor> {
  const end = await tx.first<{ last: number }>(sql`
    select coalesce(max(seq), 0)::bigint as last, ${BY_INDEX} as setting from platform.events`);
  const last = end?.last ?? 0;
  const from = Math.max(1, last - LOOK_BACK);
  const missing = await tx.rows<{ seq: number }>(sql`
    select generate_series(${from}::bigint, ${last}::bigint) as seq
    except
    select seq from platform.events where seq between ${from}::bigint and ${last}::bigint`);
  return { readTo: last, missing: new Set(missing.map(({ seq }) => seq)), horizon: null, resumed: null };
}

/**
 * Locks the leader's row and reads the numbers after the cursor, with missing ones that have appeared, in one statement.
 * The first row is the leader and the new cursor, the others are the tenants' events with a subscriber. If the statement
 * had to wait for the lock, its snapshot is older than the lock, and the next read finds what it missed. The commit is
 * asynchronous: after a server crash the stored position may be older, and some events are relayed twice.
 */
export async function readOutbox(tx: Tx, { readTo, missing }: Cursor): Promise<OutboxRead> {
  // The setting of the statement itself comes too late for its own plan.
  if (missing.size > 0) await tx.rows(sql`select ${BY_INDEX}`);
  type First = LeaderState & Pick<OutboxRead, 'count' | 'missing'> & { read_to: number; oldest: string; own: string };
  const [first, ...numbers] = await tx.rows<First & OutboxRead['numbers'][number]>(sql`
    with state as materialized (${LEADER_STATE} for update),
    seen as materialized (
      (select seq, tenant_id, entity from platform.events where seq = any(${[...missing]}::bigint[]))
      union all
      (select seq, tenant_id, entity from platform.events where seq > ${readTo}::bigint order by seq limit ${BATCH})
    ),
    reach as (
      select count(*)::int as count, greatest(max(seq), ${readTo}::bigint) as read_to from seen
    ),
    expected as (
      select unnest(${[...missing]}::bigint[]) as seq
      union all
      select generate_series(${readTo}::bigint + 1, read_to) from reach
    ),
    next as (
      select *,
        case
          when count = read_to - ${readTo}::bigint + ${missing.size}::int then '{}'
          else array(select seq from expected except select seq from seen)
        end as missing
      from reach
    )
    select l.*, n.*, pg_snapshot_xmin(pg_current_snapshot())::text as oldest, pg_current_xact_id()::text as own,
      s.setting, e.tenant_id as "tenantId", e.numbers
    from (state as l cross join next as n cross join (select ${ASYNC_COMMIT} || ${BY_INDEX} as setting) as s)
    full join (
      select tenant_id, array_agg(seq order by seq) as numbers from seen where ${hasSubscriber(sql`seen`)} group by tenant_id
    ) as e on false
    order by e.tenant_id nulls first`);
  if (!first?.own) throw new Error('platform.relay has no row');
  const { watermark, position, leader, age_s, count, oldest, own } = first;
  return {
    state: { watermark, position, leader, age_s },
    count,
    isFull: count >= BATCH,
    numbers,
    readTo: first.read_to,
    missing: first.missing,
    oldest: BigInt(oldest),
    own: BigInt(own),
  };
}

/** Moves the cursor past what was read. */
export function advance(cursor: Cursor, read: OutboxRead): void {
  cursor.readTo = read.readTo;
  cursor.missing = new Set(read.missing);
  if (read.count === 0 || cursor.readTo >= (cursor.resumed?.readTo ?? 0)) cursor.resumed = null;
  dropRolledBack(cursor, read);
}

/**
 * Drops missing numbers whose transactions were rolled back. The horizon is the transaction of the read that first missed
 * them: once all older transactions have ended, numbers that a read still misses will never appear. The snapshot's xmax would
 * be too low: a transaction with an assigned number may begin after it.
 */
function dropRolledBack(cursor: Cursor, { oldest, own }: OutboxRead): void {
  const { horizon, missing } = cursor;
  if (horizon !== null && oldest >= horizon.xid) {
    for (const seq of missing) if (seq <= horizon.upTo) missing.delete(seq);
    cursor.horizon = null;
  }
  if (missing.size === 0) cursor.horizon = null;
  else cursor.horizon ??= { xid: own, upTo: cursor.readTo };
}
