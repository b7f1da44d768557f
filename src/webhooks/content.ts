// What a subscription sends for a change: the record with the fields that the subscription shows. It may also include the record before an
// update, within what its role may see, and the cursor of the feed after the change. The cursor has no owner: any caller with the rights
// of the subscription's role may continue from it.
// Contract: decisions#webhooks-for-others, feed#cursors.
import type { App } from '../app.ts';
import type { Entity, Field } from '../entities/field.ts';
import type { Erased, RecordEventType, RecordRow } from '../events/event.ts';
import { EARLIEST, positionAfter, positionAt } from '../events/feed.ts';
import { feedHeadsOf } from '../events/feed-heads.ts';
import { sealCursor } from '../http/changes-cursor.ts';
import { shape } from '../records/row.ts';
import type { Audience, Judge } from './audience.ts';
import { payloadOf } from './transport/payload.ts';

export const INCLUDES = ['previous', 'cursor'] as const;
export type Include = (typeof INCLUDES)[number];

/** What a subscription sends. A subscription that narrows nothing and includes nothing sends the payload of the contract. */
export interface Content {
  audience: Audience;
  include: readonly Include[] | null;
}

/** A change as a subscription sends it. */
export interface SentChange {
  eventId: string;
  type: RecordEventType;
  tenantId: string;
  /** ISO 8601. */
  at: string;
  /** The event's number; 0 for an imaginary event. */
  seq: number;
  row: RecordRow;
  /** Null unless it is known and the change is an update. */
  before: RecordRow | null;
  isTest?: boolean;
  erased?: Erased | null;
}

/** The body; it shows `fields` of the entity. */
export async function bodyOf(
  app: App,
  judge: Judge,
  { audience, include }: Content,
  { entity, fields }: { entity: Entity; fields: readonly Field[] },
  change: SentChange,
): Promise<string> {
  const { before, at } = change;
  const included: { previous?: unknown; cursor?: string } = {};
  if (include?.includes('previous') && before !== null) {
    const isShown = await judge.isVisible(audience, entity, { row: before, at });
    if (isShown) included.previous = shape(before, entity, fields);
  }
  if (include?.includes('cursor')) included.cursor = await cursorAfter(app, change, judge, audience);
  return payloadOf(change, entity, fields, included);
}

/**
 * A reader that follows from this cursor sees changes with a higher number, and changes that were not committed when this is called: it
 * misses nothing that is committed after the request.
 */
async function cursorAfter(
  app: App,
  { tenantId, seq, at }: SentChange,
  judge: Judge,
  audience: Audience,
): Promise<string> {
  const head = await feedHeadsOf(app).take();
  const position = seq === 0 ? positionAt(head) : positionAfter(EARLIEST, head, { seq, at });
  const { definitionChanges } = judge.catalog;
  return sealCursor(app, tenantId, { position, rightsKey: judge.rightsKeyOf(audience), definitionChanges });
}
