// Held deliveries: their changes cannot be judged, because a condition of the subscription no longer fits the definitions, or its role is
// gone. They wait, as pending, and are judged again once a role or a definition has changed, and at intervals. Then they are sent in
// their order, or dropped when the change does not match the subscription. A subscription whose deliveries have been held for days is
// disabled, so that they do not grow without limit. A log line says when a subscription begins to hold deliveries, and when its condition
// fits again. Tenants are served in slices, however many deliveries a tenant has held.
// Contract: decisions#webhooks-for-others, decisions#health-of-subscriptions, neighbours#fair-shares.
import type { App } from '../../app.ts';
import { eventSize } from '../../events/event.ts';
import { LIMITS } from '../../limits.ts';
import { inputRows, raw, type Sql, sql } from '../../runtime/sql.ts';
import { TenantSlices } from '../../runtime/tenant-slices.ts';
import { isUnavailable } from '../../runtime/unavailability.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { tenantById } from '../../tenants/tenants.ts';
import { Judge } from '../audience.ts';
import { disableSubscription } from '../subscriptions/disable.ts';
import { CHANGE_COLUMNS, type Change, changeOf, EVENT_OF_DELIVERY, JUDGING_COLUMNS, type Judging } from './changes.ts';

/** The `error` of a held delivery. */
export const HELD = 'waits: a condition of the subscription no longer fits';
/** How far in the future a held delivery is due, so that nothing claims it. */
export const HELD_MS = 36_525 * 86_400_000;
/** A condition of held deliveries `d`. */
export const IS_HELD = raw(`d.status = 'pending' and d.next_at > now() + interval '50 years'`);
/** Deliveries that one statement judges again, and the bytes of their changes. */
const BATCH = 500;
const BATCH_BYTES = 4_194_304;
/** Ends a batch early: a condition that follows a relation asks the database for each change. Milliseconds. */
const BATCH_MS = 50;

type HeldRow = Change & { delivery_id: string; subscription_id: string; attempt_count: number };

/** A subscription that holds deliveries. */
interface Holding {
  id: string;
  tenant_id: string;
}

export class HeldDeliveries {
  /** The subscriptions that hold deliveries, as far as this process knows. */
  readonly #holding = new Set<string>();
  /** By tenant, subscriptions that cannot be judged yet, or that failed. They are skipped until a change of the tenant, or an interval. */
  readonly #aside = new Map<string, Set<string>>();
  readonly #slices = new TenantSlices<Holding>({
    tenantOf: ({ tenant_id: id }) => id,
    keyOf: ({ id }) => id,
    serve: (holding) => this.#serve(holding),
  });

  constructor(
    private readonly app: App,
    private readonly onReleased: (subscriptionId: string, tenantId: string) => void,
  ) {}

  start(): Worker {
    const once = (): Promise<number> => this.once();
    const worker = startWorker({ name: 'held webhooks', once, pollMs: LIMITS.webhook.sweepMs, log: this.app.log });
    for (const topic of ['role', 'catalog', 'webhook'] as const) {
      this.app.invalidations.on(topic, (tenantIds) => {
        if (tenantIds === null) this.#aside.clear();
        for (const id of tenantIds ?? []) this.#aside.delete(id);
        if (this.#holding.size > 0) worker.nudge();
      });
    }
    return worker;
  }

  /** Call this when a delivery has been held. */
  noteHeld(subscription: string, reason: string): void {
    if (this.#holding.has(subscription)) return;
    this.#holding.add(subscription);
    this.app.log.warn('changes wait, because a webhook subscription cannot be judged', { subscription, reason });
  }

  /** Runs one round, in which held deliveries are judged again. Resolves to 0 when nothing is left to do. */
  async once(): Promise<number> {
    // One index step for each subscription, however many deliveries it has.
    const found = await this.app.db.rows<Holding>(sql`
      select s.id, s.tenant_id from platform.webhook_subscriptions as s
      cross join lateral (
        select from platform.webhook_deliveries as d
        where d.subscription_id = s.id and d.tenant_id = s.tenant_id and ${IS_HELD}
        order by d.next_at desc
        limit 1
      ) as held
      where s.is_active
      order by s.id`);
    if (found.length === 0) this.#holding.clear();
    const due = found.filter(({ id, tenant_id: tenantId }) => this.#aside.get(tenantId)?.has(id) !== true);
    if (due.length === 0) this.#aside.clear();
    await this.#slices.serve(due);
    return due.length;
  }

  async #serve({ id, tenant_id: tenantId }: Holding): Promise<void> {
    // A change replaces this set, so that verdicts from before the change are ignored.
    const aside = this.#aside.get(tenantId) ?? new Set();
    this.#aside.set(tenantId, aside);
    try {
      if (!(await this.#judge(id, tenantId))) aside.add(id);
    } catch (cause) {
      if (isUnavailable(cause)) throw cause;
      aside.add(id);
      this.app.log.warn('held changes of a webhook subscription could not be judged', { subscription: id, cause });
    }
  }

  /** False when the deliveries of the subscription must continue to wait. */
  async #judge(id: string, tenantId: string): Promise<boolean> {
    const tenant = await tenantById(this.app, tenantId);
    const subscription = await this.app.db.first<Judging & { held_ms: number }>(sql`
      select ${JUDGING_COLUMNS}, held.ms as held_ms from platform.webhook_subscriptions as s
      cross join lateral (
        select extract(epoch from now() - min(d.next_at))::float8 * 1000 + ${HELD_MS}::float8 as ms
        from platform.webhook_deliveries as d
        where d.subscription_id = s.id and d.tenant_id = s.tenant_id and ${IS_HELD}
      ) as held
      where s.id = ${id}::uuid and s.tenant_id = ${tenantId}::uuid and s.is_active and held.ms is not null`);
    if (tenant === null || subscription === undefined) return false;
    const judge = await Judge.of(this.app, tenant);
    const fault = judge.faultOf(subscription);
    if (fault === null) await this.#release(judge, subscription, tenantId);
    else if (subscription.held_ms < LIMITS.webhook.disabledAfterMs) this.noteHeld(id, fault);
    else await disableSubscription(this.app, id, `${fault}, for days`);
    return fault === null;
  }

  /** Releases one batch: deliveries that match the subscription become due, the others are deleted. */
  async #release(judge: Judge, subscription: Judging, tenantId: string): Promise<void> {
    const { id } = subscription;
    if (this.#holding.delete(id)) this.app.log.info('a webhook subscription can be judged again', { subscription: id });
    const isOwn = sql`d.subscription_id = ${id}::uuid and d.tenant_id = ${tenantId}::uuid`;
    const rows = await this.#oldest(isOwn);
    // Another process has judged these deliveries already.
    if (rows.length === 0) return;
    const until = performance.now() + BATCH_MS;
    const verdicts: [id: string, isMeant: boolean][] = [];
    for (const row of rows) {
      verdicts.push([row.delivery_id, await isMeant(judge, subscription, row)]);
      if (performance.now() > until) break;
    }
    await this.app.db.rows(sql`
      with verdict (id, is_meant) as (${inputRows(['uuid', 'boolean'], verdicts)}),
      due as (
        update platform.webhook_deliveries as d set next_at = now(), error = null
        from verdict as v
        where ${isOwn} and d.id = v.id and v.is_meant and ${IS_HELD}
      )
      delete from platform.webhook_deliveries as d using verdict as v
      where ${isOwn} and d.id = v.id and not v.is_meant and ${IS_HELD}`);
    this.onReleased(id, tenantId);
  }

  /** The oldest, in the order in which they were held, as in the index. Deliveries of a record are sent in the order of its changes anyway. */
  #oldest(isOwn: Sql): Promise<HeldRow[]> {
    return this.app.db.rows<HeldRow>(sql`
      select * from (
        select d.id as delivery_id, d.subscription_id, d.attempt_count, d.next_at, d.event_seq, e.entity_id, ${CHANGE_COLUMNS},
          sum(${eventSize(sql`e`)}) over (order by d.next_at, d.event_seq, d.id) - ${eventSize(sql`e`)} as before
        from (
          select * from platform.webhook_deliveries as d
          where ${isOwn} and ${IS_HELD}
          order by d.next_at, d.event_seq, d.id
          limit ${BATCH}::int
        ) as d
        ${EVENT_OF_DELIVERY}
      ) as d
      where d.before < ${BATCH_BYTES}::int
      order by d.next_at, d.event_seq, d.delivery_id`);
  }
}

/** A delivery with attempts has matched the subscription before. Whether it may be sent again is decided at the next attempt. */
async function isMeant(judge: Judge, subscription: Judging, row: HeldRow): Promise<boolean> {
  if (row.attempt_count > 0) return true;
  const entity = judge.catalog.byId.get(row.entity_id);
  const change = changeOf(row);
  return entity !== undefined && change !== null && judge.matches(subscription, entity, change);
}
