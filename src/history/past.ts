// A record whose past is requested. The caller must see the record: as it is today or, if it has been deleted, as it last was.
// Its events are shown as the feed shows them: the same reader judges each by its own images.
// Failures: 403 without the right to read, or for a public key that may not follow changes; 404.
// Contract: history#who-sees-what.
import { requireRight, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { EventReader } from '../changes/reader.ts';
import type { Selection } from '../changes/selection.ts';
import { type AccessScope, accessScopeFor } from '../entities/access-scope.ts';
import { forbidden, notFound } from '../errors.ts';
import type { FeedEvent } from '../events/feed.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { isSeenNow } from '../records/read/read.ts';
import { isUuid } from '../runtime/ids.ts';
import { keptSince } from '../tenants/tenants.ts';
import { countRead } from '../usage/tally.ts';
import { type RecordOfEvents, readVersion } from './versions.ts';

/** The scope of an entity whose past the caller may see. */
export async function openPast(app: App, caller: TenantCaller, entityName: string): Promise<AccessScope> {
  requireRight(caller, 'read', entityName);
  if (!mayFollow(caller)) throw forbidden('this key lacks the scope channels:read, which what has changed needs');
  countRead(app, caller);
  return accessScopeFor(app, caller, entityName);
}

export interface PastOfRecord {
  scope: AccessScope;
  record: RecordOfEvents;
}

/** 404 for a record that the caller cannot see, or could not when it was deleted. */
export async function openRecord(
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
): Promise<PastOfRecord> {
  const scope = await openPast(app, caller, entityName);
  if (!isUuid(id)) throw notFound('record');
  const record = recordOf(app, caller, scope, id);
  if (await isSeenNow(app.db, scope, id)) return { scope, record };
  const last = await readVersion(app, record, {});
  if (last === undefined || !(await isSeenDeletion(app, caller, last))) throw notFound('record');
  return { scope, record };
}

export function recordOf(app: App, caller: TenantCaller, { entity }: AccessScope, id: string): RecordOfEvents {
  return { tenantId: entity.tenantId, entityId: entity.id, recordId: id, keptSince: oldestOf(app, caller) };
}

/** The time of the oldest events that are kept. ISO 8601. */
export function oldestOf(app: App, { tenant }: TenantCaller): string {
  return new Date(keptSince(app, tenant)).toISOString();
}

/** Whether the event is the deletion of a record that the caller saw. */
export async function isSeenDeletion(app: App, caller: TenantCaller, event: FeedEvent): Promise<boolean> {
  if (event.type !== 'record.deleted') return false;
  // For an erased record, nobody can tell whether it was among the caller's rows.
  return (await (await readerOf(app, caller, false)).see(event))?.type === 'record.deleted';
}

/** The reader of a caller's events of any kind and entity. */
export function readerOf(app: App, caller: TenantCaller, transitions: boolean): Promise<EventReader> {
  const selection: Selection = { entities: null, events: null, filters: [], view: null, transitions };
  return EventReader.open(app, caller, selection);
}
