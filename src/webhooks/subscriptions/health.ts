// The health of a subscription, as callers see it: its state, the times of the last success and failure, and how many deliveries wait
// or have failed. The state alone is cheap; the counts read the subscription's pending and failed deliveries, up to a limit.
// Contract: decisions#health-of-subscriptions, neighbours#usage-and-quotas.
import { type Static, Type } from '@sinclair/typebox';
import type { App } from '../../app.ts';
import { nullable, oneOf, Timestamp } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { sql, type Tx } from '../../runtime/sql.ts';
import type { Tenant } from '../../tenants/tenants.ts';
import { type Audience, Judge } from '../audience.ts';
import { isDayUsedUp } from '../dispatch/delivery-quota.ts';

const State = oneOf(['ok', 'failing', 'disabled', 'quota_exceeded'], {
  description:
    '`failing`: no attempt has succeeded since the last one that failed, or its conditions no longer fit and changes wait; `disabled`: inactive; `quota_exceeded`: further deliveries wait for the next UTC day',
  examples: ['ok'],
});
export const HealthState = Type.Object({ state: State });
export const Health = Type.Object({
  state: State,
  lastSuccessAt: nullable(Timestamp),
  lastFailureAt: nullable(Timestamp),
  lastError: nullable(
    Type.String({ description: 'of the last attempt that failed, or why changes wait', examples: ['status 503'] }),
  ),
  pending: Type.Integer({ minimum: 0, description: 'deliveries that are not finished' }),
  failed24h: Type.Integer({ minimum: 0, description: 'deliveries that have failed for good in the last 24 hours' }),
  behindSeconds: Type.Integer({
    minimum: 0,
    description: 'how long the delivery that has been due for longest has waited; 0 when none is overdue',
  }),
});
export type Health = Static<typeof Health>;

/** A subscription whose health is wanted. */
type Watched = Audience & { id: string; entity_id: string; is_active: boolean };

/** Resets the failures of a subscription, in the transaction that activates it, so that every later failure counts. */
export async function forgetFailures(tx: Tx, id: string): Promise<void> {
  await tx.rows(sql`
    update platform.webhook_health set failing_since = null where subscription_id = ${id}::uuid`);
}

interface Known {
  isActive: boolean;
  isFailing: boolean;
  isUsedUp: boolean;
}

function stateOf({ isActive, isFailing, isUsedUp }: Known): Health['state'] {
  if (!isActive) return 'disabled';
  if (isUsedUp) return 'quota_exceeded';
  return isFailing ? 'failing' : 'ok';
}

/** The states of subscriptions, in their order. */
export async function statesOf(
  app: App,
  tenant: Tenant,
  subscriptions: readonly Watched[],
): Promise<Static<typeof HealthState>[]> {
  const isUsedUp = await isDayUsedUp(app.db, tenant);
  const rows = await app.db.rows<{ subscription_id: string }>(sql`
    select subscription_id from platform.webhook_health
    where subscription_id = any(${subscriptions.map(({ id }) => id)}::uuid[]) and failing_since is not null`);
  const failing = new Set(rows.map((row) => row.subscription_id));
  const judge = await Judge.of(app, tenant);
  const states: Static<typeof HealthState>[] = [];
  for (const one of subscriptions) {
    const turn = giveWay();
    if (turn !== undefined) await turn;
    const isFailing = failing.has(one.id) || judge.faultOf(one) !== null;
    states.push({ state: stateOf({ isActive: one.is_active, isUsedUp, isFailing }) });
  }
  return states;
}

/** How many of the newest deliveries are searched for the last success, whose time is stored at intervals only. */
const RECENT = 100;

interface HealthRow {
  is_failing: boolean;
  last_success_at: string | null;
  last_failure_at: string | null;
  last_error: string | null;
  pending: number;
  failed: number;
  behind_s: number;
}

export async function healthOf(app: App, tenant: Tenant, subscription: Watched): Promise<Health> {
  const { id, is_active: isActive } = subscription;
  const { countedMax } = LIMITS.metrics;
  const of = sql`subscription_id = ${id}::uuid`;
  const row = await app.db.first<HealthRow>(sql`
    select coalesce(h.failing_since is not null and (r.at is null or r.at <= h.last_failure_at), false) as is_failing,
      greatest(h.last_success_at, r.at) as last_success_at, h.last_failure_at, h.last_error,
      (select count(*)::int from (
        select from platform.webhook_deliveries where ${of} and status = 'pending' limit ${countedMax}::int) as d) as pending,
      (select count(*)::int from (
        select completed_at from platform.webhook_deliveries where ${of} and status = 'failed'
        order by id desc limit ${countedMax}::int) as d
        where d.completed_at > now() - interval '24 hours') as failed,
      coalesce((select floor(extract(epoch from now() - d.next_at)) from platform.webhook_deliveries as d
        where ${of} and status = 'pending' and next_at <= now() order by next_at limit 1), 0)::int as behind_s
    from (
      select max(d.completed_at) as at from (
        select status, completed_at from platform.webhook_deliveries where ${of} order by id desc limit ${RECENT}::int) as d
      where d.status = 'delivered') as r
    left join platform.webhook_health as h on h.${of}`);
  const isUsedUp = await isDayUsedUp(app.db, tenant);
  const fault = (await Judge.of(app, tenant)).faultOf(subscription);
  return {
    state: stateOf({ isActive, isUsedUp, isFailing: row?.is_failing === true || fault !== null }),
    lastSuccessAt: row?.last_success_at ?? null,
    lastFailureAt: row?.last_failure_at ?? null,
    lastError: fault ?? row?.last_error ?? null,
    pending: row?.pending ?? 0,
    failed24h: row?.failed ?? 0,
    behindSeconds: row?.behind_s ?? 0,
  };
}
