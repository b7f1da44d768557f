// The events of one record, newest first: the reading of a record's versions that everything about its past builds on. Each
// event has the image after and the one before (`FeedEvent`); of a deletion, the version and image are those of the record
// deleted. Versions of a record never repeat, also when it comes back after a deletion, so a position is a version; the deletion
// of a version is newer than the version. A step is bounded by events and bytes. The partitions' index by record
// finds the events.
// Failures: 503; 400 beyond the budget of received bytes. Contract: history#history, history#cost.
import type { App } from '../app.ts';
import { EVENT_COLUMNS, eventSize, storedSize } from '../events/event.ts';
import {
  type FeedEvent,
  type FeedPosition,
  isSeen,
  rowsByIndex,
  type StepSize,
  type StoredFeedEvent,
  toFeedEvent,
} from '../events/feed.ts';
import { VERSIONS_ALIKE } from '../events/record-indexes.ts';
import { receivedBudget } from '../http/bounded-response.ts';
import type { ByteBudget } from '../runtime/byte-budget.ts';
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

const ONE: StepSize = { events: 1, bytes: 1 };

export function positionOf({ row, type }: FeedEvent): VersionPosition {
  return { version: row?.version ?? 0, isDeletion: type === 'record.deleted' };
}

/** The next events of a record, at most `events` and as many as `bytes` allow, but one at least; none at the end. */
export async function readVersions(
  app: App,
  record: RecordOfEvents,
  wanted: VersionsWanted,
  size: StepSize = ONE,
  received: ByteBudget = receivedBudget(),
): Promise<FeedEvent[]> {
  const rows = await rowsByIndex<StoredFeedEvent>(app, versionsQuery(record, wanted, size), received);
  return rows.map(toFeedEvent);
}

/** The same in a transaction. */
export async function readVersionsIn(
  tx: Tx,
  record: RecordOfEvents,
  wanted: VersionsWanted,
  size: StepSize = ONE,
): Promise<FeedEvent[]> {
  return (await tx.rows<StoredFeedEvent>(versionsQuery(record, wanted, size))).map(toFeedEvent);
}

function versionsQuery(
  { tenantId, entityId, recordId, keptSince }: RecordOfEvents,
  { after, at, isOldestFirst = false }: VersionsWanted,
  { events: limit, bytes }: StepSize,
): Sql {
  const order = raw(isOldestFirst ? 'asc' : 'desc');
  const newest = (of: Sql): Sql =>
    sql`${alike(sql`${of}.version`)} ${order}, ${of}.version ${order}, (${of}.type = 'record.deleted') ${order}`;
  // The conditions on tenant and entity are written so that no index serves them: the one by record must.
  return sql`
    select ${EVENT_COLUMNS}, old from (
      select w.*, row_number() over (order by ${newest(sql`w`)}) as n,
        sum(${eventSize(sql`w`)} + ${storedSize(sql`w.old`)}) over (order by ${newest(sql`w`)} rows unbounded preceding) as total
      from (
        select v.* from platform.events as v
        where v.record_id = ${recordId}::uuid and v.version is not null ${after === undefined ? EMPTY : isBefore(after)}
          and v.tenant_id is not distinct from ${tenantId}::uuid and v.entity_id is not distinct from ${entityId}::uuid
          and v.at >= ${keptSince}::timestamptz ${at === undefined ? EMPTY : hadBeenMade(at)}
        order by ${newest(sql`v`)}
        limit ${limit}::int
      ) as w
    ) as measured
    where total <= ${bytes}::int or n = 1
    order by n`;
}

/** The part of a version that the index holds. */
function alike(version: Sql): Sql {
  return sql`(${version} / ${raw(String(VERSIONS_ALIKE))})`;
}

function isBefore({ version, isDeletion }: VersionPosition): Sql {
  const indexed = sql`and ${alike(sql`v.version`)} <= ${alike(sql`${version}::bigint`)}`;
  if (!isDeletion) return sql`${indexed} and v.version < ${version}::bigint`;
  return sql`${indexed} and v.version <= ${version}::bigint and (v.version < ${version}::bigint or v.type <> 'record.deleted')`;
}

function hadBeenMade(moment: Moment): Sql {
  if ('timeMs' in moment) return sql`and v.at <= ${new Date(moment.timeMs).toISOString()}::timestamptz`;
  const { seen, cut } = moment.position;
  const isBefore = isSeen(seen, sql`v`);
  if (cut === null) return sql`and ${isBefore}`;
  return sql`and (${isBefore} or (v.seq <= ${cut.number}::bigint and ${isSeen(cut.until, sql`v`)}))`;
}
