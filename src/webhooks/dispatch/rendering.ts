// The body of a delivery whose subscription does not send the usual payload. If the subscription shows less than everything, the body is
// rendered for each attempt: the role's current rights decide what is sent, however long ago the change was. Such a delivery stores the
// body of its last attempt.
// Contract: decisions#webhooks-for-others.
import type { App } from '../../app.ts';
import { forgetCatalog, isOlderThan } from '../../entities/catalog.ts';
import { tenantById } from '../../tenants/tenants.ts';
import { Judge } from '../audience.ts';
import { bodyOf } from '../content.ts';
import { exampleBody } from '../example.ts';
import type { ClaimedDelivery } from './claim.ts';

/** Why there is nothing to send; the delivery has failed. */
export interface Unsendable {
  reason: string;
  /** It cannot be decided now whether the delivery may be sent: it waits. */
  isHeld?: boolean;
}

const NOT_KEPT: Unsendable = { reason: 'event no longer kept' };
const NOT_VISIBLE: Unsendable = { reason: 'not sent: the role may not see this' };

export async function renderedBody(
  app: App,
  { body, source, eventId, type, tenantId, isTest }: ClaimedDelivery,
): Promise<string | Unsendable> {
  if (source === null) return body ?? NOT_KEPT;
  const { entityId, content, row, at, erased } = source;
  const tenant = await tenantById(app, tenantId);
  if (tenant === null) return NOT_KEPT;
  let judge = await Judge.of(app, tenant);
  const sent = { ...source, eventId, type, tenantId };
  if (isTest) return (await exampleBody(app, judge, sent)) ?? NOT_VISIBLE;
  if (isOlderThan(judge.catalog, entityId, row)) {
    forgetCatalog(app, tenant);
    judge = await Judge.of(app, tenant);
  }
  const entity = judge.catalog.byId.get(entityId);
  if (entity === undefined) return NOT_KEPT;
  const fault = judge.faultOf({ ...content.audience, entity_id: entityId }, entity, new Date(at));
  if (fault !== null) return { reason: fault, isHeld: true };
  const fields = judge.fieldsOf(content.audience, entity);
  if (fields === null || !(await judge.isVisible(content.audience, entity, { row, at, isErased: erased !== null })))
    return NOT_VISIBLE;
  return bodyOf(app, judge, content, { entity, fields }, sent);
}
