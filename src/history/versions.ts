// Reads the events of one record, newest first; everything about a record's past builds on this. Each event has the images
// after and before it (`FeedEvent`); a deletion has the version and image of the deleted record. Versions of a record never
// repeat, even when it comes back after a deletion, so a position is a version; the deletion of a version is newer than the
// version itself. A step is bounded by events and bytes. The partitions' index by record finds the events.
// Failures: 503; 400 beyond the budget of received bytes.
// Contract: history#history, history#cost.
import type { App } from '../app.ts';
import { Scan } from '../changes/scan.ts';
import {
  type FeedEvent,
  type FeedPosition,
  type FittedRow,
  fittingEvents,
  isSeen,
  rowsByIndex,
  type StepSize,
  selectFitting,
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
  /** Continue after this event: only older events. */
  after?: VersionPosition | undefined;
  /** Only events that had been made at this moment. */
  at?: Moment;
  /** Whether to read the oldest event first. */
  isOldestFirst?: boolean;
}

/** The position that a reading has reached. */
export interface VersionPosition {
  version: number;
  isDeletion: boolean;
}

/** A time in milliseconds, or a position of the feed. */
export type Moment = { timeMs: number } | { position: FeedPosition };

export function positionOf({ row, type }: FeedEvent): VersionPosition {
  return { version: row?.version ?? 0, isDeletion: type === 'record.deleted' };
}

/** The next events of a record, and whether more follow. */
export async function readVersions(
  app: App,
  record: RecordOfEvents,
  wanted: VersionsWanted,
  size: StepSize,
  received: ByteBudget,
): Promise<{ events: FeedEvent[]; hasMore: boolean }> {
  return fittingEvents(await rowsByIndex<FittedRow>(app, versionsQuery(record, wanted, size), received), size);
}

/** The next event of a record. */
export async function readVersion(
  app: App,
  record: RecordOfEvents,
  wanted: VersionsWanted,
  received: ByteBudget = receivedBudget(),
): Promise<FeedEvent | undefined> {
  const scan = new Scan(0);
  for (;;) {
    const { taken } = received;
    const size = { events: 1, ...(await scan.nextStep()) };
    const { events, hasMore } = await readVersions(app, record, wanted, size, received);
    if (events.length > 0 || !hasMore) return events[0];
    scan.add(0, received.taken - taken);
  }
}

/** Like `readVersion`, in a transaction. */
export async function readVersionIn(
  tx: Tx,
  record: RecordOfEvents,
  wanted: VersionsWanted,
): Promise<FeedEvent | undefined> {
  const size: StepSize = { events: 1, bytes: 1, atLeast: 1 };
  return fittingEvents(await tx.rows<FittedRow>(versionsQuery(record, wanted, size)), size).events[0];
}

function versionsQuery(
  { tenantId, entityId, recordId, keptSince }: RecordOfEvents,
  { after, at, isOldestFirst = false }: VersionsWanted,
  size: StepSize,
): Sql {
  const order = raw(isOldestFirst ? 'asc' : 'desc');
  const newest = sql`${indexedVersion(sql`version`)} ${order}, version ${order}, (type = 'record.deleted') ${order}`;
  // The conditions on tenant and entity are written so that no index serves them: the index by record must.
  const wanted = sql`
    select * from platform.events as v
    where v.record_id = ${recordId}::uuid and v.version is not null ${after === undefined ? EMPTY : isBefore(after)}
      and v.tenant_id is not distinct from ${tenantId}::uuid and v.entity_id is not distinct from ${entityId}::uuid
      and v.at >= ${keptSince}::timestamptz ${at === undefined ? EMPTY : hadBeenMade(at)}
    order by ${newest}
    limit ${size.events}::int`;
  return sql`${selectFitting(wanted, newest, size)} order by m.n`;
}

/** The part of a version that the index holds. */
function indexedVersion(version: Sql): Sql {
  return sql`(${version} / ${raw(String(VERSIONS_ALIKE))})`;
}

function isBefore({ version, isDeletion }: VersionPosition): Sql {
  const indexed = sql`and ${indexedVersion(sql`v.version`)} <= ${indexedVersion(sql`${version}::bigint`)}`;
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
