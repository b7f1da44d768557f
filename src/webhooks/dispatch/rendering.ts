// The body of a delivery whose subscription shows less than everything, rendered for each attempt: the role's rights of now
// decide what is sent, however long ago the change was. Such a delivery stores the body of its last attempt.
// Contract: decisions#webhooks-for-others.
import type { App } from '../../app.ts';
import { forgetCatalog } from '../../entities/catalog.ts';
import { Judge } from '../audience.ts';
import { payloadOf } from '../transport/payload.ts';
import type { ClaimedDelivery } from './claim.ts';

/** Why there is nothing to send; the delivery has failed. */
export interface Unsendable {
  reason: string;
}

const NOT_KEPT: Unsendable = { reason: 'event no longer kept' };
const NOT_VISIBLE: Unsendable = { reason: 'not sent: the role may not see this' };

export async function renderedBody(
  app: App,
  { body, narrowed, eventId, type }: ClaimedDelivery,
): Promise<string | Unsendable> {
  if (narrowed === null) return body ?? NOT_KEPT;
  const { tenant, entityId, audience, row, at } = narrowed;
  let judge = await Judge.of(app, tenant);
  if (!judge.catalog.byId.has(entityId)) {
    forgetCatalog(app, tenant);
    judge = await Judge.of(app, tenant);
  }
  const entity = judge.catalog.byId.get(entityId);
  if (entity === undefined) return NOT_KEPT;
  const fields = judge.fieldsOf(audience, entity);
  if (fields === null || !(await judge.isVisible(audience, entity, { row, at }))) return NOT_VISIBLE;
  return payloadOf({ eventId, type, tenantId: tenant.id, at, row }, entity, fields);
}
