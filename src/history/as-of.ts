// A record as it was at a time, or at a cursor of the feed: the newest version that existed then, as the caller's current
// rights show it. For a moment before the oldest kept event, it is the image before that event, provided that the record has
// not changed since the moment. A record without kept events is shown as it is now.
// Failures: 400 for an invalid moment, 403, 404 when the record did not exist or was not visible, 410 when that is no longer
// kept.
// Contract: history#at-a-moment.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { invalidField, notFound, ServiceError } from '../errors.ts';
import type { FeedEvent } from '../events/feed.ts';
import { parseDateTime } from '../expression/date-time.ts';
import { receivedBudget, sized } from '../http/bounded-response.ts';
import { openCursor } from '../http/changes-cursor.ts';
import { readProjection } from '../records/read/list.ts';
import type { RecordQuery } from '../records/read/parameters.ts';
import { findRow } from '../records/read/read.ts';
import type { FlatRecord } from '../records/record.ts';
import { type RecordRow, shape } from '../records/row.ts';
import { openRecord, type PastOfRecord, readerOf } from './past.ts';
import { type Moment, readVersion } from './versions.ts';

export async function readAsOf(
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
  { asOf = '', resolve, resolve_depth: depth, fields: wanted }: RecordQuery,
): Promise<FlatRecord> {
  if (resolve === true || depth !== undefined) {
    throw invalidField(
      'resolve',
      'does not go with asOf: related records are shown as they are now; read them with asOf',
    );
  }
  const past = await openRecord(app, caller, entityName, id);
  const moment = momentOf(app, caller, asOf);
  const fields = readProjection(past.scope, wanted);
  const received = receivedBudget();
  const event = (await readVersion(app, past.record, { at: moment }, received)) ?? (await earlier(app, past, moment));
  // The reader judges the image like the record after an update.
  const seen = event.type === 'record.deleted' ? null : await (await readerOf(app, caller, false)).see(event);
  if (seen === null || event.row === null) throw notFound('record');
  if (event.erased !== undefined) throw new ServiceError('GONE', 'the values of this record have been erased');
  return sized(shape(event.row, past.scope.entity, fields), received.taken);
}

function momentOf(app: App, caller: TenantCaller, text: string): Moment {
  if (!/^\d{4}-\d{2}-\d{2}/.test(text)) {
    return { position: openCursor(app, caller.tenant, text, 'asOf').position };
  }
  const time = parseDateTime(text);
  if (time === undefined)
    throw invalidField('asOf', 'must be an ISO 8601 time with a zone, or a cursor of /api/changes');
  return { timeMs: Date.parse(time) };
}

/** The record at a moment before all its kept events, as the event that would have led to it. 404, 410. */
async function earlier(app: App, { record, scope }: PastOfRecord, moment: Moment): Promise<FeedEvent> {
  const oldest = await readVersion(app, record, { isOldestFirst: true });
  const image = oldest === undefined ? ((await findRow(app.db, scope, record.recordId)) ?? null) : oldest.before;
  if (oldest?.type === 'record.created' && oldest.row?.version === 1) throw notFound('record');
  const known = image ?? oldest?.row;
  if (known == null || isAfter(known.created_at, moment)) throw notFound('record');
  if (image === null || isAfter(image.updated_at, moment)) {
    throw new ServiceError('GONE', 'how the record was then is no longer kept');
  }
  return eventOf(image, { tenantId: record.tenantId, entityId: record.entityId, entity: scope.entity.name });
}

/** A cursor is never older than the kept events, so a change that they do not contain was made before it. */
function isAfter(time: string, moment: Moment): boolean {
  return 'timeMs' in moment && Date.parse(time) > moment.timeMs;
}

function eventOf(row: RecordRow, about: Pick<FeedEvent, 'tenantId' | 'entityId' | 'entity'>): FeedEvent {
  const origin = { id: row.id, seq: 0, xid: '0', depth: 0, triggeredBy: 'api', actor: row.updated_by } as const;
  return {
    ...origin,
    ...about,
    type: 'record.updated',
    at: row.updated_at,
    recordId: row.id,
    row,
    before: null,
    payload: null,
  };
}
