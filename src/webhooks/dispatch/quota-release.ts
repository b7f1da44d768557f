// Releases the deliveries that wait for the next day once the quota has changed. It works in batches, and a batch is sent while others
// still wait, until the quota of the day is used up again. The change of the quota inserts a row that the release deletes at its end.
// If this process dies, another process finds the row and continues: nothing else would release the rest.
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
/** A delivery that waits for the next day is due within this time; a later one waits for something else. */
const WAITING_DAYS = 2;
const LEASE = sql`now() + make_interval(secs => ${LEASE_S}::int)`;

/** A release in progress. It ends when another process has taken it over, or when it has been started again. */
interface Release {
  tenantId: string;
  attempt: string;
}

/** Call this in the transaction that changes the quota. After the commit, the caller or another process continues with `release`. */
export async function beginRelease(tx: Tx, tenantId: string): Promise<Release> {
  const attempt = newId();
  await tx.rows(sql`
    insert into platform.delivery_releases as r (tenant_id, attempt, due_at) values (${tenantId}::uuid, ${attempt}::uuid, ${LEASE})
    on conflict (tenant_id) do update set attempt = excluded.attempt, due_at = excluded.due_at`);
  return { tenantId, attempt };
}

/** Continues releases whose process has died. */
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

/** Makes the deliveries due, even if the client disconnects. */
export async function release(app: App, { tenantId, attempt }: Release): Promise<void> {
  const isOwn = sql`tenant_id = ${tenantId}::uuid and attempt = ${attempt}::uuid`;
  await withoutSignal(async () => {
    // The locks wait for claims that have read the old quota: from now on, no claim postpones anything because of it.
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

/** Deliveries that one claim has postponed are due at the same time, and are released in one batch. */
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
