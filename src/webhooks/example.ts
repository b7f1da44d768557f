// The event of a test delivery: a change of an imaginary record, whose values fit the fields that the subscription shows. Like the body of
// any other change, it is rendered again for an attempt if the subscription shows less than everything.
// Contract: decisions#webhooks-for-others.
import type { App } from '../app.ts';
import { storedExample } from '../entities/example-values.ts';
import type { Entity, Field } from '../entities/field.ts';
import { EVERY_ENTITY } from '../events/entity-change.ts';
import type { RecordEventType } from '../events/event.ts';
import type { Judge } from './audience.ts';
import { bodyOf, type Content, type SentChange } from './content.ts';

/** An imaginary change; `entityId` is the subscription's. */
interface Example {
  entityId: string;
  recordId: string;
  type: RecordEventType;
  /** ISO 8601. */
  at: string;
  /** Who asked for the test, if known. */
  by: string | null;
}

/** The change without values. */
export function exampleSource({ entityId, recordId, type, at, by }: Example, content: Content) {
  const row = { id: recordId, version: 1, data: {}, created_at: at, updated_at: at, created_by: by, updated_by: by };
  return { entityId, content, row, before: type === 'record.updated' ? row : null, at, seq: 0 };
}

/** The body with values; null when there is no entity that the subscription may show. */
export async function exampleBody(
  app: App,
  judge: Judge,
  change: SentChange & { entityId: string; content: Content },
): Promise<string | null> {
  const { content, entityId } = change;
  const shown = firstShown(judge, content, entityId);
  if (shown === null) return null;
  const data: Record<string, unknown> = {};
  for (const field of shown.fields) data[field.slot] = await storedExample(field, new Map());
  const row = { ...change.row, data };
  const before = change.before === null ? null : row;
  return bodyOf(app, judge, content, shown, { ...change, row, before, isTest: true });
}

/** The entity, or the first one that the subscription shows, with the fields that it shows. */
function firstShown(
  judge: Judge,
  { audience }: Content,
  entityId: string,
): { entity: Entity; fields: readonly Field[] } | null {
  const { byId } = judge.catalog;
  const entities = entityId === EVERY_ENTITY ? [...byId.values()] : [byId.get(entityId)];
  for (const entity of entities) {
    const fields = entity && judge.fieldsOf(audience, entity);
    if (entity && fields) return { entity, fields };
  }
  return null;
}
