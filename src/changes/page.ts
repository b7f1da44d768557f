// Reads the feed page by page, as one caller sees it. A page ends with the newest commit, or earlier: when it has enough
// entries or bytes, or after as many events as one read may look at. Requests, and the streams that replay, all read the feed
// here.
// Failures: 400 when filters no longer fit, 503.
// Contract: feed#guarantee, neighbours#fair-shares.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import type { Field } from '../entities/field.ts';
import { type CommittedEvent, DEFINITION_CHANGED, type RecordRow } from '../events/event.ts';
import {
  type FeedEvent,
  type FeedPosition,
  positionAfter,
  positionAt,
  readStep,
  type StepSize,
} from '../events/feed.ts';
import { type FeedHead, feedHeadsOf } from '../events/feed-heads.ts';
import { receivedBudget } from '../http/bounded-response.ts';
import { type ChangesCursor, isOfRights, rightsKeyOf } from '../http/changes-cursor.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { newId } from '../runtime/ids.ts';
import { jsonBytes } from '../runtime/text.ts';
import { keptSince } from '../tenants/tenants.ts';
import { EventReader, type Seen } from './reader.ts';
import { Scan } from './scan.ts';
import { RIGHTS_CHANGED, type Selection } from './selection.ts';

const { stepEvents } = LIMITS.changes;
/** How many times the missing entries the next step reads, when a page is not full: the caller does not see every event. */
const STEP_GROWTH = 4;

type EventFacts = Pick<CommittedEvent, 'id' | 'at' | 'recordId' | 'row' | 'triggeredBy' | 'actor' | 'erased'>;

/** An event, what the caller sees of it, and the cursor after it, with the caller's current rights. */
export interface Entry {
  event: EventFacts;
  seen: Seen;
  cursor: ChangesCursor;
}

export interface FeedPage {
  entries: Entry[];
  /** The cursor at which the next page begins, with the caller's current rights. */
  cursor: ChangesCursor;
  hasMore: boolean;
  /** Bytes of what the entry shows. */
  received: number;
  /** Bytes that were received for the entry, including what it does not show. */
  scanned: number;
}

/** When a page ends. */
export interface PageSize {
  entries: number;
  /** The bytes of the entries as JSON, not counting the first. */
  bytes: number;
  /** How long a read looks for events that the caller may see. */
  scanMs: number;
}

export type OtherEvents = (event: FeedEvent) => Promise<Seen | null> | null;

export class PageReader {
  #received = receivedBudget();
  #entries: Entry[] = [];
  #bytes = 0;
  #scan = new Scan(0);
  #oldest = '';
  #rightsKey = '';
  /** How many changes of definitions the follower knows or has been told of; undefined when it has been shown nothing before. */
  #told: number | undefined;

  constructor(
    private readonly app: App,
    private readonly size: PageSize,
    /** What to show of events that are not changes of records; nothing by default. */
    private readonly others: OtherEvents = () => null,
  ) {}

  /** Reads one page, which is empty when nothing has happened. */
  async page(caller: TenantCaller, selection: Selection, cursor: ChangesCursor): Promise<FeedPage> {
    const { position } = cursor;
    this.#received = receivedBudget();
    this.#oldest = new Date(keptSince(this.app, caller.tenant)).toISOString();
    this.#rightsKey = rightsKeyOf(caller);
    this.#scan = new Scan(this.size.scanMs);
    this.#bytes = 0;
    const isOfSameRights = isOfRights(cursor, caller);
    // A follower that has to read everything again is not told of earlier changes of definitions too.
    this.#told = isOfSameRights ? cursor.definitionChanges : undefined;
    this.#entries = isOfSameRights ? [] : [{ ...rightsChanged(caller.tenant.id), cursor: this.#cursorAt(position) }];
    const reader = await EventReader.open(this.app, caller, selection, cursor.definitionChanges);
    const { end, hasMore } = await this.#read(reader, caller.tenant.id, position);
    const received = this.#received.taken;
    return { entries: this.#entries, hasMore, cursor: this.#cursorAt(end), received, scanned: this.#scan.bytes };
  }

  /** Adds entries up to the newest commit; resolves to the position after the last one, and whether more follows. */
  async #read(
    reader: EventReader,
    tenantId: string,
    from: FeedPosition,
  ): Promise<{ end: FeedPosition; hasMore: boolean }> {
    let position = from;
    // The head is taken later, so it sees all changes that these definitions contain.
    const { definitionChanges } = reader;
    if (position.cut !== null) {
      const { until } = position.cut;
      const end = await this.#readUntil(until, reader, tenantId, position);
      if (end !== null) return { end, hasMore: true };
      position = positionAt(until);
    }
    const head = await feedHeadsOf(this.app).take();
    const end = await this.#readUntil(head, reader, tenantId, position);
    if (end !== null) return { end, hasMore: true };
    return { end: positionAt(head), hasMore: !this.#tellOf(definitionChanges, tenantId, positionAt(head)) };
  }

  /** Resolves to null when everything that the head sees has been read. */
  async #readUntil(
    until: FeedHead,
    reader: EventReader,
    tenantId: string,
    from: FeedPosition,
  ): Promise<FeedPosition | null> {
    let position = from;
    for (let growth = 1; ; growth *= STEP_GROWTH) {
      // One entry more than the page has room for tells whether more follows.
      const missing = this.size.entries + 1 - this.#entries.length;
      const step = { events: Math.min(stepEvents, missing * growth), ...(await this.#scan.nextStep(this.size.bytes)) };
      const { end, isFull, readTo } = await this.#step(reader, tenantId, position, until, step);
      // A page that is filled by a single large entry needs no further read.
      if (isFull || this.#bytes >= this.size.bytes) return end;
      if (readTo === null) return null;
      position = { ...end, cut: { until, number: readTo } };
      if (this.#scan.isEnough) return position;
    }
  }

  /** Reads some events, and adds entries for them; see `#show` and `readStep`. */
  async #step(reader: EventReader, tenantId: string, from: FeedPosition, until: FeedHead, size: StepSize) {
    const { taken } = this.#received;
    const { events, readTo } = await readStep(this.app, tenantId, from, until, size, this.#received, this.#oldest);
    this.#scan.add(events.length, this.#received.taken - taken);
    const shown = await this.#show(reader, events, tenantId, from, until);
    // Only what is shown stays counted: hidden values, however large, must neither end a page nor refuse it.
    this.#received.returnTo(this.#bytes);
    return { ...shown, readTo };
  }

  /** Adds entries for the events that the caller sees. Resolves to the position after the last event that fits. */
  async #show(
    reader: EventReader,
    events: readonly FeedEvent[],
    tenantId: string,
    from: FeedPosition,
    until: FeedHead,
  ): Promise<{ end: FeedPosition; isFull: boolean }> {
    let end = from;
    reader.expect(events);
    for (const event of events) {
      const turn = giveWay();
      if (turn !== undefined) await turn;
      const number = numberOf(event);
      if (number !== undefined && !this.#tellOf(number - 1, tenantId, end)) return { end, isFull: true };
      const seen = (await reader.see(event)) ?? (await this.others(event));
      const position = positionAfter(end, until, event);
      const told = number === undefined ? this.#told : Math.max(this.#told ?? 0, number);
      const cursor = this.#cursorAt(position, told);
      if (seen !== null && !this.#add({ ...shownFor(event, seen), cursor })) return { end, isFull: true };
      this.#told = told;
      end = position;
    }
    return { end, isFull: false };
  }

  #cursorAt(position: FeedPosition, definitionChanges = this.#told): ChangesCursor {
    return { position, rightsKey: this.#rightsKey, definitionChanges };
  }

  /**
   * Tells the follower to read again when it knows fewer than `count` changes of definitions: its records were read while a process
   * still used former definitions, and its cursor is from after the change. Returns false when the page is full.
   */
  #tellOf(count: number, tenantId: string, position: FeedPosition): boolean {
    const told = Math.max(this.#told ?? 0, count);
    const isMissing = this.#told !== undefined && this.#told < count;
    if (isMissing && !this.#add({ ...rightsChanged(tenantId), cursor: this.#cursorAt(position, told) })) return false;
    this.#told = told;
    return true;
  }

  /**
   * Adds an entry. Returns false when the page is full: this entry begins the next page, so that `hasMore` depends only on
   * visible events.
   */
  #add(entry: Entry): boolean {
    const { seen, event } = entry;
    const bytes = this.#bytes + jsonBytes(seen.type === 'record.deleted' ? (event.row?.data ?? null) : seen.data);
    const isFull = this.#entries.length >= this.size.entries || (bytes > this.size.bytes && this.#entries.length > 0);
    if (isFull) return false;
    this.#entries.push(entry);
    this.#bytes = bytes;
    return true;
  }
}

/** The number of an announced change of definitions (entities/announcement.ts). */
function numberOf({ type, payload }: FeedEvent): number | undefined {
  return type === DEFINITION_CHANGED ? (payload?.number as number | undefined) : undefined;
}

/** Does not name an erased record that the caller may not have seen. */
function shownFor(event: FeedEvent, seen: Seen): Pick<Entry, 'event' | 'seen'> {
  if (seen.type === RIGHTS_CHANGED) return { ...rightsChanged(event.tenantId, event.at), seen };
  return { event: factsOf(event, seen), seen };
}

/** The event without values that are not shown, which may be large. */
function factsOf({ id, at, recordId, row, triggeredBy, actor, erased }: FeedEvent, { type, record }: Seen): EventFacts {
  const shown = row && { ...row, data: type === 'record.left' ? {} : valuesOf(row, record?.fields ?? []) };
  return { id, at, recordId, row: shown, triggeredBy, actor, ...(erased === undefined ? {} : { erased }) };
}

function valuesOf({ data }: RecordRow, fields: readonly Field[]): RecordRow['data'] {
  const values: RecordRow['data'] = {};
  for (const { slot } of fields) if (data[slot] !== undefined) values[slot] = data[slot];
  return values;
}

/** The entry that says that everything has to be read again: the caller's rights have changed since the cursor was issued. */
function rightsChanged(tenantId: string, at = new Date().toISOString()): Pick<Entry, 'event' | 'seen'> {
  const event = {
    id: newId(),
    at,
    tenantId,
    recordId: null,
    row: null,
    triggeredBy: 'system',
    actor: null,
  } as const;
  return { event, seen: { type: RIGHTS_CHANGED, entity: null, data: {} } };
}
