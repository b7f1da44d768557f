// Erases the values of a record from its events for good: the images become empty, and the events state when that was done and
// by whom. Entries of the live stream that hold values are removed from the broker. Each call erases a part, so that no
// transaction is long, however many versions the record has and however large they are.
// Contract: history#erase.
import type { App } from '../app.ts';
import { lockNumber } from '../runtime/locks.ts';
import { NO_TABLE_SCANS, raw, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { eventSize, storedSize } from './event.ts';
import { VERSIONS_ALIKE } from './record-indexes.ts';
import { streamOf } from './relay.ts';
import { isReference, type StreamedEvent } from './streamed-event.ts';

/** A record whose values are erased. */
export interface ErasedRecord {
  tenantId: string;
  recordId: string;
  /** The time in ISO 8601, and the id of the caller who erases the record. */
  at: string;
  by: string | null;
}

/** A row of platform.erasures. */
export interface Erasure extends ErasedRecord {
  /** The number of the deletion's event, which has no values; null for a record that was deleted before. */
  seq: number | null;
}

/** The limits of one part: its events, the approximate bytes of their values, and the events that are searched for at once. */
const PART = { events: 200, bytes: 8_388_608, found: 20_000 };

/** The last number of an event so far. */
export async function lastNumber(tx: Tx): Promise<number> {
  const row = await tx.first<{ last: number }>(sql`select last_value as last from platform.events_seq`);
  return row?.last ?? 0;
}

/**
 * Erases the values from the event of a deletion that this transaction has made; its number is above `after`. Resolves to that
 * number.
 */
export async function eraseDeletion(tx: Tx, record: ErasedRecord, after: number): Promise<number | null> {
  const row = await tx.first<{ seq: number }>(sql`
    update platform.events as e set ${erasing(record)}
    where e.seq > ${after}::bigint and e.at > now() - interval '1 second' and e.record_id = ${record.recordId}::uuid
      and e.tenant_id = ${record.tenantId}::uuid and e.type = 'record.deleted'
    returning seq`);
  return row?.seq ?? null;
}

/** The condition for a record's events, in a form that only the indexes by record can serve. */
export function isOfRecord({ tenantId, recordId }: Pick<ErasedRecord, 'tenantId' | 'recordId'>): Sql {
  return sql`record_id = ${recordId}::uuid and tenant_id::text = ${tenantId} and version is not null`;
}

/** The time of the record's oldest kept event, in ISO 8601; undefined if there is none. */
export function oldestEventAt({ db }: App, record: ErasedRecord): Promise<string | undefined> {
  return db.begin(async (tx) => {
    await tx.rows(sql`select ${NO_TABLE_SCANS}`);
    const row = await tx.first<{ at: string }>(sql`
      select at from platform.events where ${isOfRecord(record)}
      order by version / ${raw(String(VERSIONS_ALIKE))}, version
      limit 1`);
    return row?.at;
  });
}

/** An event with the approximate bytes of its values. */
interface Found {
  seq: number;
  at: string;
  bytes: number;
}

/** Returns a function that erases the values from some of the record's events, and resolves to false when there was none. */
export function eraseEvents(app: App, record: ErasedRecord): () => Promise<boolean> {
  let found: Found[] = [];
  return async () => {
    // Events are found many at a time: a search by record may read much of a day.
    if (found.length === 0) found = await findEvents(app, record);
    const part: Found[] = [];
    for (let bytes = 0; found.length > 0 && part.length < PART.events && bytes < PART.bytes; ) {
      const next = found.shift() as Found;
      bytes += next.bytes;
      part.push(next);
    }
    if (part.length > 0) await erasePart(app, record, part);
    return part.length > 0;
  };
}

function findEvents({ db }: App, record: ErasedRecord): Promise<Found[]> {
  return db.begin(async (tx) => {
    await tx.rows(sql`select ${NO_TABLE_SCANS}`);
    return tx.rows<Found>(sql`
      select s.seq, s.at, ${eventSize(sql`s`)} + ${storedSize(sql`s.old`)} as bytes from platform.events as s
      where ${isOfRecord(record)} and erased_at is null
      limit ${PART.found}::int`);
  });
}

async function erasePart({ db }: App, record: ErasedRecord, part: readonly Found[]): Promise<void> {
  const times = part.map(({ at }) => at).sort();
  const numbers = part.map(({ seq }) => seq).sort((a, b) => a - b);
  await db.begin(async (tx) => {
    // One process erases at a time: two could each hold rows that the other waits for.
    const lock = lockNumber(record.tenantId, 'erasing', record.recordId);
    await tx.rows(sql`select ${NO_TABLE_SCANS}, pg_advisory_xact_lock(${lock})`);
    await tx.rows(sql`
      update platform.events as e set ${erasing(record)}
      where e.seq = any(${numbers}::bigint[]) and e.at between ${times[0]}::timestamptz and ${times.at(-1)}::timestamptz
        and e.erased_at is null`);
  });
}

function erasing({ at, by }: ErasedRecord): Sql {
  return sql`data = '{}', old = null, data_bytes = 2, erased_at = ${at}::timestamptz, erased_by = ${by}`;
}

/** Removes the entries of the tenant's live stream that hold values of the record. */
export async function eraseStreamed({ broker }: App, { tenantId, recordId }: ErasedRecord): Promise<void> {
  const holds = (event: StreamedEvent): boolean =>
    !isReference(event) && event.recordId === recordId && event.erased === undefined;
  await broker.remove(streamOf(tenantId), ({ events = '[]' }) => {
    return events.includes(recordId) && (JSON.parse(events) as StreamedEvent[]).some(holds);
  });
}
