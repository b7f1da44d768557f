// Where the relay is in the outbox, and what it sees from there. Numbers are handed out before commit, so
// one may appear after higher ones: a number that is missing is remembered and looked for until every
// transaction that could still bring it has ended.
// Contract: decisions#events.
import { ASYNC_COMMIT, type Queries, sql, type Tx } from '../runtime/sql.ts';
import type { EventRecord } from './event.ts';
import { hasSubscriber } from './stream-subscriptions.ts';

const BATCH = 500;
/** Numbers below the newest that may still be on their way when relaying begins. */
const LOOK_BACK = 10_000;

export type RelayRecord = EventRecord & { xid: string };

/** Where the relay is. Numbers up to `readTo` are relayed, but for the `missing` ones. */
export interface Cursor {
  readTo: number;
  missing: Set<number>;
  /** A transaction younger than all that could bring the missing numbers up to one: past it they are dead. */
  horizon: { xid: bigint; upTo: number } | null;
}

/** Who relays, up to where, and how long ago it said so. */
export interface LeaderState {
  watermark: number;
  leader: string | null;
  age_s: number;
}

/** What one look shows. Nothing that could have brought a missing number was still to begin then. */
interface OutboxRead {
  standing: LeaderState;
  /** How many events it came by, and those of them that somebody listens to. */
  count: number;
  rows: RelayRecord[];
  /** The place after it. */
  readTo: number;
  missing: number[];
  /** The oldest transaction that runs, and this one, which has begun after the look. */
  oldest: bigint;
  own: bigint;
}

const LEADER_STATE = sql`
  select watermark, leader, extract(epoch from clock_timestamp() - heartbeat_at)::float8 as age_s
  from platform.relay where id = 1`;

export function readLeaderState(queries: Queries): Promise<LeaderState | undefined> {
  return queries.first<LeaderState>(LEADER_STATE);
}

export async function lockLeaderState(tx: Tx): Promise<LeaderState> {
  const standing = await tx.first<LeaderState>(sql`${LEADER_STATE} for update`);
  if (standing === undefined) throw new Error('the row of the relay is not there');
  return standing;
}

/** To go on where the last one stopped a moment ago. */
export function cursorAt(watermark: number): Cursor {
  return { readTo: watermark, missing: new Set(), horizon: null };
}

/** To begin anew: whatever is still uncommitted counts as missing. */
export async function cursorAtEnd(tx: Tx): Promise<Cursor> {
  const end = await tx.first<{ last: number }>(sql`
    select coalesce(max(seq), 0)::bigint as last from platform.events`);
  const last = end?.last ?? 0;
  const missing = await tx.rows<{ seq: number }>(sql`
    select s.seq from generate_series(greatest(1, ${last - LOOK_BACK}::bigint), ${last}::bigint) as s (seq)
    where not exists (select from platform.events as e where e.seq = s.seq)`);
  return { readTo: last, missing: new Set(missing.map(({ seq }) => seq)), horizon: null };
}

/** The number up to which nothing is missing. */
export function watermarkOf({ readTo, missing }: Cursor): number {
  let watermark = readTo;
  for (const seq of missing) watermark = Math.min(watermark, seq - 1);
  return watermark;
}

const COLUMNS = sql`id, seq, at, tenant_id, type, entity_id, entity, record_id, version, data, created_at, updated_at,
  created_by, updated_by, payload, actor, triggered_by, depth, xid::text as xid`;

/**
 * Locks the relay's row and goes through what comes next in one statement: the events after the place, and those missing
 * ones that have appeared. The first row is that of the relay, the others are the events that somebody listens to.
 * Where it has to wait for the lock, what was committed meanwhile is seen by the next look. A place that a crash of the
 * server sets back costs events that are relayed twice.
 */
export async function readOutbox(tx: Tx, { readTo, missing }: Cursor): Promise<OutboxRead> {
  type First = LeaderState & Pick<OutboxRead, 'count' | 'missing'> & { read_to: number; oldest: string; own: string };
  const [first, ...rows] = await tx.rows<First & RelayRecord>(sql`
    with standing as materialized (${LEADER_STATE} for update),
    seen as materialized (
      (select ${COLUMNS} from platform.events where seq = any(${[...missing]}::bigint[]))
      union all
      (select ${COLUMNS} from platform.events where seq > ${readTo}::bigint order by seq limit ${BATCH})
    ),
    reach as (
      select count(*)::int as count, greatest(max(seq), ${readTo}::bigint) as read_to from seen
    ),
    expected as (
      select unnest(${[...missing]}::bigint[]) as seq
      union all
      select generate_series(${readTo}::bigint + 1, read_to) from reach
    ),
    place as (
      select *, array(select seq from expected except select seq from seen) as missing from reach
    )
    select s.*, p.*, pg_snapshot_xmin(pg_current_snapshot())::text as oldest, pg_current_xact_id()::text as own,
      l.setting, e.*
    from (standing as s cross join place as p cross join (select ${ASYNC_COMMIT} as setting) as l)
    full join (select * from seen where ${hasSubscriber(sql`seen`)}) as e on false
    order by e.seq nulls first`);
  if (!first?.own) throw new Error('the row of the relay is not there');
  const { watermark, leader, age_s, oldest, own } = first;
  const standing = { watermark, leader, age_s };
  const place = { count: first.count, readTo: first.read_to, missing: first.missing };
  return { standing, rows, ...place, oldest: BigInt(oldest), own: BigInt(own) };
}

/** Moves the place past what was seen; numbers left out there are missing until they cannot come any more. */
export function advance(place: Cursor, seen: OutboxRead): void {
  place.readTo = seen.readTo;
  place.missing = new Set(seen.missing);
  dropRolledBack(place, seen);
}

/**
 * Forgets numbers whose transactions were rolled back. When all that had begun before they were first missed has ended,
 * what this look has not brought never will come. A snapshot's own end would not do for that: one that has begun may
 * lie beyond it.
 */
function dropRolledBack(place: Cursor, { oldest, own }: OutboxRead): void {
  const { horizon, missing } = place;
  if (horizon !== null && oldest >= horizon.xid) {
    for (const seq of missing) if (seq <= horizon.upTo) missing.delete(seq);
    place.horizon = null;
  }
  if (missing.size === 0) place.horizon = null;
  else place.horizon ??= { xid: own, upTo: place.readTo };
}
