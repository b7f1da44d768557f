// The events of one record, newest first: the reading of a record's versions that everything about its past builds on. Each
// event has the image after and the one before (`FeedEvent`); of a deletion, the version and image are those of the record
// deleted. Versions of a record never repeat, also when it comes back after a deletion, so a position is a version; the deletion
// of a version is newer than the version. A step is bounded by events and bytes. Partitions are searched by their index by record.
// Failures: 503; 400 beyond the budget of received bytes. Contract: history#history, history#cost.
import type { App } from '../app.ts';
import { EVENT_COLUMNS, eventSize, storedSize } from '../events/event.ts';
import {
  type FeedEvent,
  type FeedPosition,
  isSeen,
  type StepSize,
  type StoredFeedEvent,
  toFeedEvent,
} from '../events/feed.ts';
import type { ByteBudget } from '../runtime/byte-budget.ts';
import { PlaceNeeded, waitForPlace } from '../runtime/large-calls.ts';
import { EMPTY, raw, type Sql, sql, type Tx } from '../runtime/sql.ts';

/** The record whose events are read. */
export interface RecordOfEvents {
  tenantId: string;
  entityId: string;
  /** A UUID. */
  recordId: string;
  /** The time of the oldest events that are kept. ISO 8601. */
  keptSince: string;
}

export interface VersionsWanted {
  /** Go on after this event: only older ones. */
  after?: VersionPosition | undefined;
  /** Those that had been made at a moment. */
  at?: Moment;
  /** The oldest first. */
  isOldestFirst?: boolean;
}

/** Where a reading has come to. */
export interface VersionPosition {
  version: number;
  isDeletion: boolean;
}

/** A time in milliseconds, or a position of the feed. */
export type Moment = { timeMs: number } | { position: FeedPosition };

/** Bytes that one step reads, besides the first event. */
const STEP_BYTES = 4_194_304;
/** The rank that no event has. */
const BEYOND = 2 ** 50;

/**
 * The filters of a day under way name blocks, and Postgres takes them for useless, since it estimates them by the order of the
 * rows: so it must not read whole partitions instead, and it needs no helpers for what is left.
 */
const BY_RECORD = raw(`set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('jit', 'off', true)
  || set_config('enable_seqscan', 'off', true) || set_config('max_parallel_workers_per_gather', '0', true)`);
const RESET = raw(`set_config('plan_cache_mode', 'auto', true) || set_config('enable_seqscan', 'on', true)`);

export function positionOf({ row, type }: FeedEvent): VersionPosition {
  return { version: row?.version ?? 0, isDeletion: type === 'record.deleted' };
}

/** The next events of a record, at most `limit` and as many as `bytes` allow, but one at least; none at the end. */
export async function readVersions(
  app: App,
  record: RecordOfEvents,
  wanted: VersionsWanted,
  { events: limit, bytes }: StepSize = { events: 1, bytes: STEP_BYTES },
  received?: ByteBudget,
): Promise<FeedEvent[]> {
  const taken = received?.taken ?? 0;
  const read = (): Promise<FeedEvent[]> =>
    app.db.begin((tx) =>
      readVersionsIn(tx, record, wanted, { events: limit, bytes: Math.min(bytes, STEP_BYTES) }, received),
    );
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof PlaceNeeded)) throw error;
    // A large result that has to wait for its place does so without a connection.
    await waitForPlace();
    received?.returnTo(taken);
    return read();
  }
}

/** The same in a transaction. */
export async function readVersionsIn(
  tx: Tx,
  { tenantId, entityId, recordId, keptSince }: RecordOfEvents,
  { after, at, isOldestFirst = false }: VersionsWanted,
  { events: limit, bytes }: StepSize,
  received?: ByteBudget,
): Promise<FeedEvent[]> {
  const rank = after === undefined ? BEYOND : rankOf(after);
  const order = raw(isOldestFirst ? 'asc' : 'desc');
  await tx.rows(sql`select ${BY_RECORD}`);
  // The conditions on tenant and entity are written so that no index serves them: the one by record must.
  const rows = await tx.rows<StoredFeedEvent>(
    sql`
    select ${EVENT_COLUMNS}, old from (
      select *, sum(bytes) over (order by rank ${order} rows unbounded preceding) as total,
        row_number() over (order by rank ${order}) as n
      from (
        select *, version * 2 + (type = 'record.deleted')::int as rank,
          ${eventSize(sql`v`)} + ${storedSize(sql`v.old`)} as bytes
        from platform.events as v
        where record_id = ${recordId}::uuid and at >= ${keptSince}::timestamptz and version <= ${Math.floor(rank / 2)}::bigint
          and tenant_id is not distinct from ${tenantId}::uuid and entity_id is not distinct from ${entityId}::uuid
          and version * 2 + (type = 'record.deleted')::int < ${rank}::bigint ${at === undefined ? EMPTY : hadBeenMade(at)}
        order by version ${order}, (type = 'record.deleted') ${order}
        limit ${limit}::int
      ) as wanted
    ) as measured
    where total <= ${bytes}::int or n = 1
    order by rank ${order}`,
    received,
  );
  await tx.rows(sql`select ${RESET}`);
  return rows.map(toFeedEvent);
}

function rankOf({ version, isDeletion }: VersionPosition): number {
  return version * 2 + (isDeletion ? 1 : 0);
}

function hadBeenMade(moment: Moment): Sql {
  if ('timeMs' in moment) return sql`and v.at <= ${new Date(moment.timeMs).toISOString()}::timestamptz`;
  const { seen, cut } = moment.position;
  const isBefore = isSeen(seen, sql`v`);
  if (cut === null) return sql`and ${isBefore}`;
  return sql`and (${isBefore} or (v.seq <= ${cut.number}::bigint and ${isSeen(cut.until, sql`v`)}))`;
}
