// Releases the deliveries that wait for the next day once the quota has changed: in parts, each of which is sent while others
// still wait, until the day is used up again. The change of the quota leaves a row that the release deletes at its end, so that
// another process goes on when this one dies: nothing else would release the rest.
// Contract: neighbours#usage-and-quotas, neighbours#fair-shares.
import type { App } from '../../app.ts';
import { newId } from '../../runtime/ids.ts';
import { inParts, PART_ROWS } from '../../runtime/parts.ts';
import { type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { forTenant, withoutSignal } from '../../runtime/work.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { isUsedUp, WAITING } from './delivery-quota.ts';
import { IS_PENDING } from './pending.ts';

/** Seconds after which another process takes over. */
const LEASE_S = 30;
const POLL_MS = 10_000;
/** Deliveries wait for the next day; later ones wait for something else. */
const WAITING_DAYS = 2;
const LEASE = sql`now() + make_interval(secs => ${LEASE_S}::int)`;

/** A release under way; one that another process has taken over, or that has begun again, ends. */
interface Release {
  tenantId: string;
  attempt: string;
}

/** In the transaction that changes the quota. Its caller goes on with `release` after the commit, or another process does. */
export async function beginRelease(tx: Tx, tenantId: string): Promise<Release> {
  const attempt = newId();
  await tx.rows(sql`
    insert into platform.delivery_releases as r (tenant_id, attempt, due_at) values (${tenantId}::uuid, ${attempt}::uuid, ${LEASE})
    on conflict (tenant_id) do update set attempt = excluded.attempt, due_at = excluded.due_at`);
  return { tenantId, attempt };
}

/** Goes on with releases whose process has died. */
export function startReleases(app: App): Worker {
  return startWorker({ name: 'webhook releases', once: () => releaseOnce(app), pollMs: POLL_MS, log: app.log });
}

/** Takes over one release that is due. Resolves to 0 when there is none. */
export async function releaseOnce(app: App): Promise<number> {
  const due = await app.db.first<Release>(sql`
    update platform.delivery_releases as r set attempt = ${newId()}::uuid, due_at = ${LEASE}
    from (
      select tenant_id from platform.delivery_releases where due_at <= now()
      order by due_at limit 1 for update skip locked
    ) as due
    where r.tenant_id = due.tenant_id
    returning r.tenant_id as "tenantId", r.attempt`);
  if (due === undefined) return 0;
  await forTenant(due.tenantId, () => release(app, due));
  return 1;
}

/** Makes the deliveries due, also when the client has gone. */
export async function release(app: App, { tenantId, attempt }: Release): Promise<void> {
  const isOwn = sql`tenant_id = ${tenantId}::uuid and attempt = ${attempt}::uuid`;
  await withoutSignal(async () => {
    // The locks wait for claims that have read the old quota: none postpones anything by it from now on.
    const subscriptions = await app.db.slow.begin((tx) =>
      tx.rows<{ id: string }>(sql`
        select id from platform.webhook_subscriptions where tenant_id = ${tenantId}::uuid order by id for no key update`),
    );
    const isWanted = sql`exists (select from platform.delivery_releases where ${isOwn}) and not ${isUsedUp(tenantId)}`;
    const onPart = async (): Promise<void> => {
      await app.invalidations.publish('webhook', tenantId);
      await app.db.slow.rows(sql`update platform.delivery_releases set due_at = ${LEASE} where ${isOwn}`);
    };
    for (const { id } of subscriptions) {
      await inParts(app.db.slow, (after) => waitingAfter(isWanted, { tenantId, id }, after), { onPart });
    }
    await app.db.slow.rows(sql`delete from platform.delivery_releases where ${isOwn}`);
  });
}

/** Those that a claim has postponed are due at the same time, and are released in one part. */
function waitingAfter(isWanted: Sql, subscription: { tenantId: string; id: string }, after: string | null): Sql {
  const isOwn = sql`d.subscription_id = ${subscription.id}::uuid and d.tenant_id = ${subscription.tenantId}::uuid`;
  return sql`
    with part as materialized (
      select d.id, d.next_at from platform.webhook_deliveries as d
      where ${isWanted}
        and ${isOwn} and d.status = 'pending' and d.error = ${WAITING} and d.claim_id is null
        and d.next_at > coalesce(${after}::timestamptz, now()) and d.next_at < now() + make_interval(days => ${WAITING_DAYS}::int)
      order by d.next_at
      fetch first (${PART_ROWS}::int) rows with ties
    ), released as (
      update platform.webhook_deliveries as d set next_at = now(), error = null
      from part as p
      where ${isOwn} and d.id = p.id and ${IS_PENDING} and d.error = ${WAITING}
        and d.claim_id is null
    )
    select count(*)::int as count, max(next_at)::text as last from part`;
}
