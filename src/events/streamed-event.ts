// Events as they are stored in the entries of a tenant's live stream: small ones in full, large ones as a reference to the
// outbox. So no tenant's records fill the broker, and the relay is as fast for large records as for small ones.
// Contract: neighbours#fair-shares, decisions#events.
import { LIMITS } from '../limits.ts';
import type { PooledQueries } from '../runtime/postgres.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { type CommittedEvent, EVENT_COLUMNS, type EventRow, eventSize, toEvent } from './event.ts';
import { BY_INDEX } from './outbox-cursor.ts';

const { inlineBytes } = LIMITS.events;

/** The most events and characters in one entry of a stream. */
export const ENTRY_EVENTS = 20;
const ENTRY_LENGTH = 2 * inlineBytes;
/**
 * The most characters of the entries that are appended together, so that neither process nor broker is busy with them for long.
 */
const CHAIN_LENGTH = 262_144;

/** An event in the outbox. */
export interface EventReference {
  id: string;
  seq: number;
  at: string;
  isReference: true;
  /** The event's trace. */
  trace?: string | null;
}

export type StreamedEvent = CommittedEvent | EventReference;

export function isReference(event: StreamedEvent): event is EventReference {
  return 'isReference' in event;
}

function referenceTo({ id, seq, at, trace }: CommittedEvent | EventRow): EventReference {
  return { id, seq, at, isReference: true, ...(trace == null ? {} : { trace }) };
}

/** The approximate length of the event's JSON, computed without writing it. */
export function lengthOf({ row, payload }: CommittedEvent): number {
  let length = 0;
  for (const value of Object.values(row?.data ?? payload ?? {})) {
    if (typeof value === 'object' && value !== null) length += JSON.stringify(value).length;
    else length += typeof value === 'string' ? value.length : 8;
  }
  return length;
}

/**
 * The events with these numbers, by number. The transaction must have the setting BY_INDEX. The values of large events are not
 * read.
 */
export async function readStreamed(tx: Tx, numbers: readonly number[]): Promise<Map<number, StreamedEvent>> {
  const rows = await tx.rows<EventRow & { isLarge: boolean }>(sql`
    select ${EVENT_COLUMNS}, "isLarge"
    from (
      select id, seq, at, tenant_id, type, entity_id, entity, record_id, version, created_at, updated_at, created_by,
        updated_by, actor, triggered_by, depth, xid, trace, erased_at, erased_by, size."isLarge",
        case when not size."isLarge" then data end as data, case when not size."isLarge" then payload end as payload
      from platform.events as s
      cross join lateral (
        select ${eventSize(sql`s`)} > ${inlineBytes} as "isLarge"
      ) as size
      where seq = any(${[...numbers]}::bigint[])
    ) as e`);
  return new Map(rows.map(({ isLarge, ...row }) => [row.seq, isLarge ? referenceTo(row) : toEvent(row)]));
}

/** The referenced events with the lengths of their JSON, by id; an event that is no longer kept is missing. */
export async function readReferences(
  db: PooledQueries,
  references: readonly EventReference[],
): Promise<Map<string, { event: CommittedEvent; length: number }>> {
  const times = references.map(({ at }) => at).sort();
  const rows = await db.begin(async (tx) => {
    await tx.rows(sql`select ${BY_INDEX}`);
    return tx.rows<EventRow & { length: number }>(sql`
      select ${EVENT_COLUMNS}, octet_length(coalesce(data, payload)::text) as length from platform.events
      where seq = any(${references.map(({ seq }) => seq)}::bigint[])
        and at between ${times[0]}::timestamptz and ${times.at(-1)}::timestamptz`);
  });
  return new Map(rows.map(({ length, ...row }) => [row.id, { event: toEvent(row), length }]));
}

/** Entries of a stream as JSON, each within the limits of an entry. */
export function* entriesOf(events: readonly StreamedEvent[]): Generator<string> {
  let texts: string[] = [];
  let length = 0;
  for (const event of events) {
    const text = textOf(event);
    if (texts.length > 0 && (texts.length >= ENTRY_EVENTS || length + text.length > ENTRY_LENGTH)) {
      yield `[${texts.join()}]`;
      texts = [];
      length = 0;
    }
    texts.push(text);
    length += text.length;
  }
  if (texts.length > 0) yield `[${texts.join()}]`;
}

/** Splits the entries into parts that are appended together. */
export function* chained(entries: Iterable<string>): Generator<string[]> {
  let part: string[] = [];
  let length = 0;
  for (const entry of entries) {
    if (length + entry.length > CHAIN_LENGTH && part.length > 0) {
      yield part;
      part = [];
      length = 0;
    }
    part.push(entry);
    length += entry.length;
  }
  if (part.length > 0) yield part;
}

function textOf(event: StreamedEvent): string {
  const text = JSON.stringify(event);
  if (isReference(event) || text.length <= inlineBytes) return text;
  return JSON.stringify(referenceTo(event));
}
