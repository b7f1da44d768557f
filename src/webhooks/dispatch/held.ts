// Held deliveries: of changes that cannot be judged, because a condition of the subscription no longer fits the definitions, or
// its role is gone. They wait, as pending, and are judged again once a role or a definition has changed, and at intervals: then
// they are sent in their order, or dropped when the change is not for the subscription. A subscription whose deliveries have been
// held for days is disabled, so that they do not grow without limit. A log line says when a subscription begins to hold, and when
// it fits again. Contract: decisions#webhooks-for-others, decisions#health-of-subscriptions.
import type { App } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { inputRows, raw, sql } from '../../runtime/sql.ts';
import { forTenant } from '../../runtime/work.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { tenantById } from '../../tenants/tenants.ts';
import { Judge } from '../audience.ts';
import { disableSubscription } from '../subscriptions/disable.ts';
import { CHANGE_COLUMNS, type Change, changeOf, EVENT_OF_DELIVERY, JUDGING_COLUMNS, type Judging } from './changes.ts';

/** The `error` of a held delivery. */
export const HELD = 'waits: a condition of the subscription no longer fits';
/** Until when it is due, so that nothing claims it. */
export const HELD_MS = 36_525 * 86_400_000;
/** A condition of held deliveries `d`. */
export const IS_HELD = raw(`d.status = 'pending' and d.next_at > now() + interval '50 years'`);
/** Deliveries that one statement judges again. */
const BATCH = 500;

type HeldRow = Change & { delivery_id: string; subscription_id: string; attempt_count: number };

export class HeldDeliveries {
  /** Subscriptions of which this process knows that they hold deliveries. */
  readonly #holding = new Set<string>();

  constructor(
    private readonly app: App,
    private readonly onReleased: (subscriptionId: string, tenantId: string) => void,
  ) {}

  start(): Worker {
    const once = (): Promise<number> => this.once();
    const worker = startWorker({ name: 'held webhooks', once, pollMs: LIMITS.webhook.sweepMs, log: this.app.log });
    for (const topic of ['role', 'catalog', 'webhook'] as const) {
      this.app.invalidations.on(topic, () => {
        if (this.#holding.size > 0) worker.nudge();
      });
    }
    return worker;
  }

  /** To be called when a delivery has been held. */
  noteHeld(subscription: string, reason: string): void {
    if (this.#holding.has(subscription)) return;
    this.#holding.add(subscription);
    this.app.log.warn('changes wait, because a webhook subscription cannot be judged', { subscription, reason });
  }

  /** Judges held deliveries again. Resolves to how many are held no longer. */
  async once(): Promise<number> {
    // One step into the index for each subscription, however many deliveries it has.
    const found = await this.app.db.rows<{ tenant_id: string }>(sql`
      select distinct s.tenant_id from platform.webhook_subscriptions as s
      cross join lateral (
        select from platform.webhook_deliveries as d
        where d.subscription_id = s.id and d.tenant_id = s.tenant_id and ${IS_HELD}
        order by d.next_at desc
        limit 1
      ) as held
      where s.is_active`);
    let released = 0;
    for (const { tenant_id: id } of found) released += await forTenant(id, () => this.#ofTenant(id));
    if (found.length === 0) this.#holding.clear();
    return released;
  }

  async #ofTenant(tenantId: string): Promise<number> {
    const tenant = await tenantById(this.app, tenantId);
    if (tenant === null) return 0;
    const subscriptions = await this.app.db.rows<Judging & { held_ms: number }>(sql`
      select ${JUDGING_COLUMNS}, held.ms as held_ms from platform.webhook_subscriptions as s
      cross join lateral (
        select extract(epoch from now() - min(d.next_at))::float8 * 1000 + ${HELD_MS}::float8 as ms
        from platform.webhook_deliveries as d
        where d.subscription_id = s.id and d.tenant_id = s.tenant_id and ${IS_HELD}
      ) as held
      where s.tenant_id = ${tenantId}::uuid and s.is_active and held.ms is not null`);
    const judge = await Judge.of(this.app, tenant);
    let released = 0;
    for (const subscription of subscriptions) {
      const fault = judge.faultOf(subscription);
      if (fault === null) released += await this.#release(judge, subscription, tenantId);
      else if (subscription.held_ms < LIMITS.webhook.disabledAfterMs) this.noteHeld(subscription.id, fault);
      else await disableSubscription(this.app, subscription.id, `${fault}, for days`);
    }
    return released;
  }

  /** Those that are for the subscription are due, the others are deleted. */
  async #release(judge: Judge, subscription: Judging, tenantId: string): Promise<number> {
    const { id } = subscription;
    const isOwn = sql`d.subscription_id = ${id}::uuid and d.tenant_id = ${tenantId}::uuid`;
    const rows = await this.app.db.rows<HeldRow>(sql`
      select d.id as delivery_id, d.subscription_id, d.attempt_count, e.entity_id, ${CHANGE_COLUMNS}
      from (
        select * from platform.webhook_deliveries as d
        where ${isOwn} and ${IS_HELD}
        order by d.event_seq
        limit ${BATCH}::int
      ) as d
      ${EVENT_OF_DELIVERY}`);
    const verdicts: [id: string, isMeant: boolean][] = [];
    for (const row of rows) verdicts.push([row.delivery_id, await isMeant(judge, subscription, row)]);
    await this.app.db.rows(sql`
      with verdict (id, is_meant) as (${inputRows(['uuid', 'boolean'], verdicts)}),
      due as (
        update platform.webhook_deliveries as d set next_at = now(), error = null
        from verdict as v
        where ${isOwn} and d.id = v.id and v.is_meant and ${IS_HELD}
      )
      delete from platform.webhook_deliveries as d using verdict as v
      where ${isOwn} and d.id = v.id and not v.is_meant and ${IS_HELD}`);
    if (rows.length < BATCH && this.#holding.delete(id)) {
      this.app.log.info('a webhook subscription can be judged again', { subscription: id });
    }
    this.onReleased(id, tenantId);
    return rows.length;
  }
}

/** What has been sent before was for the subscription: whether it is sent again is decided then. */
async function isMeant(judge: Judge, subscription: Judging, row: HeldRow): Promise<boolean> {
  if (row.attempt_count > 0) return true;
  const entity = judge.catalog.byId.get(row.entity_id);
  const change = changeOf(row);
  return entity !== undefined && change !== null && judge.matches(subscription, entity, change);
}
