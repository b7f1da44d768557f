// Decides which subscriptions a change matches, among those for which changes must be judged first. Used when deliveries are made, and in a
// dry run, which only counts them.
// Contract: decisions#webhooks-for-others, trying#dry-runs.
import type { App } from '../../app.ts';
import type { Entity } from '../../entities/field.ts';
import { type EntityChange, EVERY_ENTITY } from '../../events/entity-change.ts';
import type { RecordEventType, RecordRow } from '../../events/event.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { sql } from '../../runtime/sql.ts';
import { tenantById } from '../../tenants/tenants.ts';
import { Judge, type JudgedChange } from '../audience.ts';
import { JUDGING_COLUMNS, type Judging } from './changes.ts';

/** A subscription that a change matches, or may match. */
interface Meant {
  id: string;
  /** Why it cannot be decided yet; null when the change matches. */
  fault: string | null;
}

/** The tenant's subscriptions for which changes must be judged first. */
export function judgingOf({ db }: App, tenantId: string): Promise<Judging[]> {
  return db.rows<Judging>(sql`
    select ${JUDGING_COLUMNS} from platform.webhook_subscriptions as s
    where s.tenant_id = ${tenantId}::uuid and s.is_judged`);
}

/** The subscriptions that the change matches, or may match. Rejects when `stopping` aborts. */
export async function meantBy(
  judge: Judge,
  subscriptions: readonly Judging[],
  entity: Entity,
  type: RecordEventType,
  change: JudgedChange,
  stopping?: AbortSignal,
): Promise<Meant[]> {
  const found: Meant[] = [];
  // Many subscriptions may be for the same role, with the same filters.
  const verdicts = new Map<string, boolean>();
  for (const subscription of subscriptions) {
    stopping?.throwIfAborted();
    const concerns = subscription.entity_id === entity.id || subscription.entity_id === EVERY_ENTITY;
    // The deliveries of a subscription that was active at the time of the change wait for it to be active again.
    const isMeant = subscription.is_active || Date.parse(subscription.updated_at) >= Date.parse(change.at);
    if (!concerns || !isMeant || !subscription.event_types.includes(type)) continue;
    const fault = judge.faultOf(subscription, entity, new Date(change.at));
    const key = JSON.stringify([subscription.role, subscription.filters]);
    const verdict = verdicts.get(key) ?? (fault !== null || (await judge.matches(subscription, entity, change)));
    verdicts.set(key, verdict);
    if (verdict) found.push({ id: subscription.id, fault });
  }
  return found;
}

/** How many deliveries changes of a dry run would make for such subscriptions. */
export async function countJudged(
  app: App,
  tenantId: string,
  { entity: { id }, type }: EntityChange,
  rows: readonly RecordRow[],
): Promise<number> {
  const tenant = await tenantById(app, tenantId);
  if (tenant === null || rows.length === 0) return 0;
  const judge = await Judge.of(app, tenant);
  const entity = judge.catalog.byId.get(id);
  if (entity === undefined) return 0;
  const subscriptions = await judgingOf(app, tenantId);
  const at = new Date().toISOString();
  let count = 0;
  for (const row of rows) {
    await giveWay();
    count += (await meantBy(judge, subscriptions, entity, type, { row, at })).length;
  }
  return count;
}
