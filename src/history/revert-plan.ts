// What a revert has to undo: the records that were changed in a span, newest first, with their values before it and their
// current ones. Versions tell whether somebody else has changed a record since: they rise by one with each change. Retyping a
// field raises them too, without an event, so where they do not match, the record's events are counted. Events are first found
// without their values and kept as text, which takes a tenth of the memory; values are read for few records at a time.
// Failures: 400 for a span with too many records.
// Contract: history#revert.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { invalidField } from '../errors.ts';
import { EVENT_COLUMNS, RECORD_EVENTS, type RecordEventType } from '../events/event.ts';
import { type FeedEvent, type StoredFeedEvent, toFeedEvent } from '../events/feed.ts';
import { RECORD_COLUMNS, type RecordRow } from '../records/row.ts';
import { ByteBudget } from '../runtime/byte-budget.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { plannedOnce, type Sql, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { PartTooLarge } from './fitting-parts.ts';

/** Records that one revert may touch. */
const RECORDS_MAX = 100_000;
/** Records that are undone together. */
const PART_RECORDS = 200;
/** The longest transaction: of two changes of a record, the later one may have a time that is earlier by up to this. */
const DAY_MS = 86_400_000;
/** Bytes of values that are read at once, unless a single record has more. */
const PART_BYTES = 8_388_608;

/** A record and its changes in the span, taken from the first and the last of its events there. */
export interface TouchedRecord {
  recordId: string;
  entityId: string;
  entity: string;
  first: number;
  /** In milliseconds since 1970. */
  firstAt: number;
  firstType: RecordEventType;
  firstVersion: number;
  lastType: RecordEventType;
  lastVersion: number;
  /** The number of events without deletions. */
  changes: number;
  /** The number of events with deletions. */
  events: number;
}

/** The undo of a record's changes. A record that comes back first gets its last values, and then the values of `body`. */
export type Undo =
  | { kind: 'skip' }
  | { kind: 'conflict'; reason: string }
  | { kind: 'delete'; version: number }
  | { kind: 'update'; version: number; body: JsonObject }
  | { kind: 'return'; version: number; event: FeedEvent };

/** Consecutive records as text, which `touchedIn` reads: 100,000 of them are 20 MB, and 120 MB as objects. */
export type TouchedPart = string;

/** The records touched by the events that meet the condition, newest first. */
export async function touchedRecords(app: App, { tenant }: TenantCaller, condition: Sql): Promise<TouchedPart[]> {
  const parts = await app.db.slow.rows<{ records: number; text: TouchedPart }>(sql`
    with touched as (
      select record_id, entity_id, min(entity) as entity, min(seq) as first, max(seq) as last,
        (array_agg(at order by seq))[1] as first_at, (array_agg(type order by seq))[1] as first_type,
        (array_agg(version order by seq))[1] as first_version, (array_agg(type order by seq desc))[1] as last_type,
        max(version) as last_version, count(*) filter (where type <> 'record.deleted') as changes,
        count(*) as events
      from platform.events
      where tenant_id = ${tenant.id}::uuid and type = any(${[...RECORD_EVENTS]}::text[]) and version is not null and ${condition}
      group by record_id, entity_id
      order by max(seq) desc
      limit ${RECORDS_MAX + 1}::int
    ), numbered as (
      select *, (row_number() over (order by last desc) - 1) / ${PART_RECORDS}::int as part from touched
    )
    select count(*)::int as records,
      json_agg(
        json_build_array(record_id, entity_id, entity, first, (extract(epoch from first_at) * 1000)::bigint, first_type,
          first_version, last_type, last_version, changes, events)
        order by last desc)::text as text
    from numbered
    group by part
    order by part`);
  if (parts.reduce((sum, { records }) => sum + records, 0) <= RECORDS_MAX) return parts.map(({ text }) => text);
  const max = RECORDS_MAX.toLocaleString('en');
  throw invalidField('from', `the span has changes of more than ${max} records; choose a shorter one, or one entity`);
}

type TouchedRow = [
  ...[recordId: string, entityId: string, entity: string, first: number, firstAt: number, firstType: RecordEventType],
  ...[firstVersion: number, lastType: RecordEventType, lastVersion: number, changes: number, events: number],
];

export function touchedIn(part: TouchedPart): TouchedRecord[] {
  return (JSON.parse(part) as TouchedRow[]).map(
    ([
      recordId,
      entityId,
      entity,
      first,
      firstAt,
      firstType,
      firstVersion,
      lastType,
      lastVersion,
      changes,
      events,
    ]) => ({
      recordId,
      entityId,
      entity,
      first,
      firstAt,
      firstType,
      firstVersion,
      lastType,
      lastVersion,
      changes,
      events,
    }),
  );
}

/** The undo of each record. Rejects with `PartTooLarge`. */
export async function undosOf(
  app: App,
  catalog: Catalog,
  records: readonly TouchedRecord[],
): Promise<Map<TouchedRecord, Undo>> {
  const max = records.length === 1 ? Number.POSITIVE_INFINITY : PART_BYTES;
  const budget = new ByteBudget(max, () => new PartTooLarge());
  const times = records.map(({ firstAt }) => firstAt);
  const [from, to] = [Math.min(...times), Math.max(...times)].map((at) => new Date(at).toISOString());
  const events = await app.db.rows<StoredFeedEvent>(
    sql`
    select ${EVENT_COLUMNS}, old from platform.events
    where seq = any(${records.map(({ first }) => first)}::bigint[])
      and at between ${from}::timestamptz and ${to}::timestamptz`,
    budget,
  );
  const firsts = new Map(events.map((stored) => [stored.seq, toFeedEvent(stored)]));
  const current = new Map<string, RecordRow>();
  for (const [entityId, own] of Map.groupBy(records, (record) => record.entityId)) {
    const entity = catalog.byId.get(entityId);
    if (entity === undefined) continue;
    const ids = own.map(({ recordId }) => recordId);
    const rows = await app.db.rows<RecordRow>(
      sql`select ${RECORD_COLUMNS} from ${entity.table} as r where r.id = any(${ids}::uuid[])`,
      budget,
    );
    for (const row of rows) current.set(row.id, row);
  }
  const others = await changedByOthers(app, catalog, records, current);
  const undos = new Map<TouchedRecord, Undo>();
  for (const record of records) {
    // Long values are compared as JSON.
    await giveWay();
    const entity = catalog.byId.get(record.entityId);
    const isOthers = others.has(record.recordId);
    undos.set(record, undoOf(record, entity, firsts.get(record.first), current.get(record.recordId), isOthers));
  }
  return undos;
}

/**
 * The records that have had other events since the first event in the span. Mostly the versions tell; retyping a field has
 * raised them without a change of the record, so then the events are counted.
 */
async function changedByOthers(
  app: App,
  catalog: Catalog,
  records: readonly TouchedRecord[],
  current: ReadonlyMap<string, RecordRow>,
): Promise<Set<string>> {
  const unclear = records.filter((record) => !isLast(record, current.get(record.recordId)) || !isWhole(record));
  const tenantId = unclear.map(({ entityId }) => catalog.byId.get(entityId)?.tenantId).find((id) => id !== undefined);
  if (tenantId === undefined) return new Set();
  const firsts = unclear.map(({ first }) => first);
  const ids = unclear.map(({ recordId }) => recordId);
  const from = new Date(Math.min(...unclear.map(({ firstAt }) => firstAt)) - DAY_MS).toISOString();
  // The index by record finds them: the condition on the tenant is written so that no other index serves it.
  const counted = await app.db.rows<{ id: string; events: number }>(
    plannedOnce(sql`
      select t.id, (
        select count(*) from platform.events as v
        where v.record_id = t.id and v.version is not null and v.seq >= t.first and v.at >= ${from}::timestamptz
          and v.type = any(${[...RECORD_EVENTS]}::text[]) and v.tenant_id is not distinct from ${tenantId}::uuid
      )::int as events
      from unnest(${ids}::uuid[], ${firsts}::bigint[]) as t (id, first)`),
  );
  const all = new Map(counted.map(({ id, events }) => [id, events]));
  return new Set(
    unclear.filter(({ recordId, events }) => all.get(recordId) !== events).map(({ recordId }) => recordId),
  );
}

function undoOf(
  record: TouchedRecord,
  entity: Entity | undefined,
  first: FeedEvent | undefined,
  row: RecordRow | undefined,
  isOthers: boolean,
): Undo {
  if (entity === undefined) return { kind: 'conflict', reason: 'its entity no longer exists' };
  if (first === undefined) return { kind: 'conflict', reason: 'how it was before is no longer kept' };
  const wasThere = first.type !== 'record.created';
  if (!wasThere && row === undefined) return { kind: 'skip' };
  if (first.erased !== undefined) return { kind: 'conflict', reason: 'its values have been erased' };
  if (wasThere && first.before === null) return { kind: 'conflict', reason: 'how it was before is not known' };
  const body = wasThere && row !== undefined ? formerBody(entity, row, first) : {};
  if (wasThere && row !== undefined && Object.keys(body).length === 0) return { kind: 'skip' };
  if (isOthers) return { kind: 'conflict', reason: 'it has been changed since' };
  if (row === undefined) return { kind: 'return', version: record.lastVersion, event: first };
  return wasThere ? { kind: 'update', version: row.version, body } : { kind: 'delete', version: row.version };
}

/** Whether the record is still as the last event of the span left it. */
function isLast({ lastType, lastVersion }: TouchedRecord, row: RecordRow | undefined): boolean {
  const isGone = lastType === 'record.deleted';
  return row === undefined ? isGone : !isGone && row.version === lastVersion;
}

/** Whether all changes of the record from the first to the last are in the span. */
function isWhole({ firstType, firstVersion, lastVersion, changes }: TouchedRecord): boolean {
  return changes === lastVersion - firstVersion + (firstType === 'record.deleted' ? 0 : 1);
}

/** The values by key that undo an event: the former values of all fields that could have one then. */
export function formerBody(entity: Entity, row: Pick<RecordRow, 'data'>, { before, at }: FeedEvent): JsonObject {
  const body: JsonObject = {};
  for (const { key, slot, slotAt } of entity.fields) {
    if (slotAt !== null && Date.parse(slotAt) > Date.parse(at)) continue;
    const [now, then] = [row.data[slot] ?? null, before?.data[slot] ?? null];
    if (now !== then && JSON.stringify(now) !== JSON.stringify(then)) body[key] = then;
  }
  return body;
}
