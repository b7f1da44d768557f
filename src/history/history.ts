// The history of a record: its versions, newest first, with the author of each and its changes in the fields that the caller
// sees today. A version whose row was outside the caller's row filter is not shown; a version that moved the row into the
// filter shows only its values. A page ends with its last item, with its bytes, or after as many events as one request may look
// at.
// Failures: 400, 403, 404, 503.
// Contract: history#history.

import { type Static, Type } from '@sinclair/typebox';
import { rowsOfPage } from '../access/bot-limits.ts';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import type { Seen } from '../changes/reader.ts';
import { Scan } from '../changes/scan.ts';
import { hasRowFilter } from '../entities/access-scope.ts';
import type { Field } from '../entities/field.ts';
import { invalidField } from '../errors.ts';
import { RECORD_EVENTS } from '../events/event.ts';
import type { FeedEvent } from '../events/feed.ts';
import { receivedBudget, sized } from '../http/bounded-response.ts';
import { integerParameter, parameters } from '../http/parameters.ts';
import { nullable, oneOf, Timestamp } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { ErasedSchema } from '../records/record.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { jsonBytes } from '../runtime/text.ts';
import { ActorSchema, actorsOf, type ChangeOrigin } from './actors.ts';
import { openRecord, readerOf } from './past.ts';
import { positionOf, readVersions, type VersionPosition } from './versions.ts';

const { limitDefault, limitMax } = LIMITS.list;
const { pageBytes, scanMs } = LIMITS.changes;
const HISTORY_EVENTS = [...RECORD_EVENTS, 'record.entered'] as const;

export const HistoryQuery = parameters({
  limit: Type.Optional(integerParameter(1, limitMax, { default: limitDefault, description: 'versions per page' })),
  cursor: Type.Optional(Type.String({ description: '`nextCursor` of the page before; empty for the first page' })),
});
export type HistoryQuery = Static<typeof HistoryQuery>;

const Change = Type.Object({
  from: Type.Unknown({ description: 'null for none', examples: ['open'] }),
  to: Type.Unknown({ description: 'null for none', examples: ['won'] }),
});

const VersionSchema = Type.Object(
  {
    version: Type.Integer({ minimum: 1, description: 'of a deletion, the version deleted', examples: [3] }),
    event: oneOf(HISTORY_EVENTS, {
      description: '`record.entered`: an update that moved the record into the rows that the caller sees',
      examples: ['record.updated'],
    }),
    at: Timestamp,
    actor: ActorSchema,
    triggered_by: Type.String({ examples: ['api'] }),
    changes: Type.Unsafe<Record<string, Static<typeof Change>>>(
      Type.Object(
        {},
        {
          additionalProperties: Change,
          description: 'by field, with the keys of today; empty when only fields changed that the caller does not see',
          examples: [{ country: { from: 'DE', to: 'FR' } }],
        },
      ),
    ),
    erased: Type.Optional(ErasedSchema),
  },
  { $id: 'Version' },
);
export type HistoryVersion = Static<typeof VersionSchema>;

export const HistorySchema = Type.Object({
  items: Type.Array(VersionSchema),
  nextCursor: nullable(Type.String(), { description: 'null when there are no older versions', examples: [null] }),
});
export type HistoryPage = Static<typeof HistorySchema>;

/** `bytesMax` bounds the changes as JSON. */
export async function readHistory(
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
  { limit: asked, cursor = '' }: HistoryQuery,
  bytesMax: number = pageBytes,
): Promise<HistoryPage> {
  const limit = rowsOfPage(caller, asked, limitDefault);
  let after = positionFrom(cursor);
  const { scope, record } = await openRecord(app, caller, entityName, id);
  const reader = await readerOf(app, caller, true);
  const isFiltered = hasRowFilter(caller, scope.entity);
  const received = receivedBudget();
  const scan = new Scan(scanMs);
  const shown: { made: ChangeOrigin; version: Omit<HistoryVersion, 'actor'> }[] = [];
  let hasMore = false;
  let bytes = 0;
  read: for (;;) {
    const step = { events: limit + 1, ...(await scan.nextStep(bytesMax)) };
    const { taken } = received;
    const { events, hasMore: areMoreStored } = await readVersions(app, record, { after }, step, received);
    reader.expect(events);
    for (const event of events) {
      const turn = giveWay();
      if (turn !== undefined) await turn;
      const seen = await reader.see(event);
      if (seen !== null && seen.type !== 'record.left') {
        const version = versionOf(event, seen, isFiltered);
        bytes += jsonBytes(version.changes);
        hasMore = shown.length >= limit || (bytes > bytesMax && shown.length > 0);
        if (hasMore) break read;
        shown.push({ made: { actor: event.actor, triggeredBy: event.triggeredBy }, version });
      }
      after = positionOf(event);
    }
    scan.add(events.length, received.taken - taken);
    // Only what is shown stays counted, as in a page of the feed.
    received.returnTo(bytes);
    if (!areMoreStored) break;
    hasMore = scan.isEnough;
    if (hasMore) break;
  }
  const actorOf = await actorsOf(
    app,
    caller,
    shown.map(({ made }) => made),
  );
  const items = shown.map(({ made, version: { changes, ...version } }) => ({
    ...version,
    actor: actorOf(made),
    changes,
  }));
  return sized({ items, nextCursor: hasMore && after !== undefined ? cursorAt(after) : null }, received.taken);
}

function versionOf(event: FeedEvent, seen: Seen, isFiltered: boolean): Omit<HistoryVersion, 'actor'> {
  // Without the before image of an update, only the absence of a row filter tells that the caller saw the record before it.
  const type =
    seen.type === 'record.entered' && !isFiltered ? 'record.updated' : (seen.type as HistoryVersion['event']);
  return {
    version: event.row?.version ?? 0,
    event: type,
    at: event.at,
    triggered_by: event.triggeredBy,
    changes: changesOf(event, type, seen.record?.fields ?? []),
    ...(event.erased === undefined ? {} : { erased: event.erased }),
  };
}

/** An unchanged value is the same object in both images. */
function changesOf(
  { row, before }: FeedEvent,
  type: HistoryVersion['event'],
  fields: readonly Field[],
): HistoryVersion['changes'] {
  if (row === null || (type === 'record.updated' && before === null)) return {};
  const from = type === 'record.updated' || type === 'record.deleted' ? (before?.data ?? {}) : {};
  const to = type === 'record.deleted' ? {} : row.data;
  const changes: HistoryVersion['changes'] = {};
  for (const { key, slot } of fields) {
    if (from[slot] !== to[slot]) changes[key] = { from: from[slot] ?? null, to: to[slot] ?? null };
  }
  return changes;
}

function cursorAt({ version, isDeletion }: VersionPosition): string {
  return Buffer.from(`${version}${isDeletion ? 'd' : ''}`).toString('base64url');
}

/** The position in a cursor; undefined without one, for the newest version. 400. */
function positionFrom(cursor: string): VersionPosition | undefined {
  if (cursor === '') return undefined;
  const text = cursor.length > 50 ? '' : Buffer.from(cursor, 'base64url').toString();
  const [, version, deleted] = /^(\d{1,14})(d?)$/.exec(text) ?? [];
  if (version === undefined) throw invalidField('cursor', 'is not a cursor of a history; start again without one');
  return { version: Number(version), isDeletion: deleted === 'd' };
}
