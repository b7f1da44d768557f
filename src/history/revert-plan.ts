// What a revert has to undo: the records that were changed in a span, newest first, with how each was before it and how it is now.
// Versions tell whether somebody else has changed a record since: they rise by one with each change. Events are found without
// their values first, and kept as text, which takes a tenth of the memory; values are read for few records at a time.
// Failures: 400 for a span with too many records. Contract: history#revert.
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
import { type Sql, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { PartTooLarge } from './fitting-parts.ts';

/** Records that one revert may touch. */
const RECORDS_MAX = 100_000;
/** Records that are undone together. */
const PART_RECORDS = 200;
/** Bytes of values that are read at once, unless a single record has more. */
const PART_BYTES = 8_388_608;

/** A record with what was done to it in the span, as the first and the last of the events say. */
export interface Touched {
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
  /** Without deletions. */
  changes: number;
}

/** What undoes it. A record that comes back has its last values first, and then those of `body`. */
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
        max(version) as last_version, count(*) filter (where type <> 'record.deleted') as changes
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
          first_version, last_type, last_version, changes)
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
  ...[firstVersion: number, lastType: RecordEventType, lastVersion: number, changes: number],
];

export function touchedIn(part: TouchedPart): Touched[] {
  return (JSON.parse(part) as TouchedRow[]).map(
    ([recordId, entityId, entity, first, firstAt, firstType, firstVersion, lastType, lastVersion, changes]) => ({
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
    }),
  );
}

/** What undoes the changes of each record. Rejects with `PartTooLarge`. */
export async function undosOf(app: App, catalog: Catalog, records: readonly Touched[]): Promise<Map<Touched, Undo>> {
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
  const undos = new Map<Touched, Undo>();
  for (const record of records) {
    // Long values are compared as JSON.
    await giveWay();
    const entity = catalog.byId.get(record.entityId);
    undos.set(record, undoOf(record, entity, firsts.get(record.first), current.get(record.recordId)));
  }
  return undos;
}

function undoOf(
  record: Touched,
  entity: Entity | undefined,
  first: FeedEvent | undefined,
  row: RecordRow | undefined,
): Undo {
  if (entity === undefined) return { kind: 'conflict', reason: 'its entity no longer exists' };
  if (first === undefined) return { kind: 'conflict', reason: 'how it was before is no longer kept' };
  const wasThere = first.type !== 'record.created';
  if (!wasThere && row === undefined) return { kind: 'skip' };
  if (first.erased !== undefined) return { kind: 'conflict', reason: 'its values have been erased' };
  if (wasThere && first.before === null) return { kind: 'conflict', reason: 'how it was before is not known' };
  const body = wasThere && row !== undefined ? bodyBack(entity, row, first) : {};
  if (wasThere && row !== undefined && Object.keys(body).length === 0) return { kind: 'skip' };
  const isOthers = !isLast(record, row) || !isWhole(record);
  if (isOthers) return { kind: 'conflict', reason: 'it has been changed since' };
  if (row === undefined) return { kind: 'return', version: record.lastVersion, event: first };
  return wasThere ? { kind: 'update', version: row.version, body } : { kind: 'delete', version: row.version };
}

/** Whether the record is as the last event of the span has left it. */
function isLast({ lastType, lastVersion }: Touched, row: RecordRow | undefined): boolean {
  const isGone = lastType === 'record.deleted';
  return row === undefined ? isGone : !isGone && row.version === lastVersion;
}

/** Whether all of its changes from the first to the last are in the span. */
function isWhole({ firstType, firstVersion, lastVersion, changes }: Touched): boolean {
  return changes === lastVersion - firstVersion + (firstType === 'record.deleted' ? 0 : 1);
}

/** The values by key that give a record those that it had before an event; of fields that could have one then. */
export function bodyBack(entity: Entity, row: Pick<RecordRow, 'data'>, { before, at }: FeedEvent): JsonObject {
  const body: JsonObject = {};
  for (const { key, slot, slotAt } of entity.fields) {
    if (slotAt !== null && Date.parse(slotAt) > Date.parse(at)) continue;
    const [now, then] = [row.data[slot] ?? null, before?.data[slot] ?? null];
    if (now !== then && JSON.stringify(now) !== JSON.stringify(then)) body[key] = then;
  }
  return body;
}
