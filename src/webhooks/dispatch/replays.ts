// Replays in progress. Each replay queues a few deliveries at a time, and only while few deliveries of its subscription are due. So
// deliveries of new changes wait for at most a few replayed ones. Deliveries of other subscriptions and tenants wait for none: a
// replay takes its turns like any subscription. All replays of a tenant share its time slices, so a tenant with a thousand replays
// delays no other tenant. A replay ends with its last delivery; the replay of an inactive subscription waits.
// Failures: a replay that fails is tried again later, and delays no other. Contract: decisions#replay, neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../../app.ts';
import type { FeedPosition } from '../../events/feed.ts';
import { Retries } from '../../runtime/retries.ts';
import { GENERIC_PLANS, sql } from '../../runtime/sql.ts';
import { TenantSlices } from '../../runtime/tenant-slices.ts';
import { isUnavailable } from '../../runtime/unavailability.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { isInSpan } from '../replayed.ts';

/** The most due deliveries that a replay gives a subscription. */
const DUE_MAX = 100;
/** The pause between two rounds. */
const PART_MS = 200;
const POLL_MS = 5_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

interface Underway {
  subscription_id: string;
  tenant_id: string;
  is_of_failed: boolean;
  since: FeedPosition | null;
  from_at: string;
  to_at: string;
}

/** `onQueued` is called for each subscription with deliveries to send again. */
export function startReplays(app: App, onQueued: (subscriptionId: string, tenantId: string) => void): Worker {
  const retries = new Retries(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
  const idOf = ({ subscription_id: id }: Underway): string => id;
  // Rejects with 503 while the database is unavailable.
  const serve = async (replay: Underway): Promise<void> => {
    const { subscription_id: id, tenant_id: tenantId } = replay;
    try {
      if (await queuePart(app, replay)) onQueued(id, tenantId);
      retries.succeeded(id);
    } catch (cause) {
      if (isUnavailable(cause)) throw cause;
      if (!retries.failed(id, cause)) return;
      app.log.warn('a replay of a webhook subscription does not go on yet', { subscription: id, tenantId, cause });
    }
  };
  const slices = new TenantSlices<Underway>({ tenantOf: ({ tenant_id: id }) => id, keyOf: idOf, serve });
  const once = async (signal: AbortSignal): Promise<number> => {
    const underway = await app.db.rows<Underway>(sql`
      select r.subscription_id, r.tenant_id, r.is_of_failed, r.since, r.from_at, r.to_at from platform.webhook_replays as r
      join platform.webhook_subscriptions as s on s.id = r.subscription_id and s.is_active
      join platform.tenants as t on t.id = s.tenant_id and t.status = 'active'
      order by r.subscription_id`);
    await slices.serve(retries.due(underway, idOf));
    if (underway.length > 0) await delay(PART_MS, undefined, { signal }).catch(() => undefined);
    return underway.length;
  };
  const worker = startWorker({ name: 'webhook replays', once, pollMs: POLL_MS, log: app.log });
  app.invalidations.on('webhook', () => worker.nudge());
  return worker;
}

/** Queues the next deliveries of a replay, or ends it. Resolves to whether there were any. */
async function queuePart(
  app: App,
  { subscription_id: id, tenant_id: tenantId, ...replay }: Underway,
): Promise<boolean> {
  const span = { from: replay.from_at, to: replay.to_at, since: replay.since, isOfFailed: replay.is_of_failed };
  const isOwn = sql`d.subscription_id = ${id}::uuid and d.tenant_id = ${tenantId}::uuid`;
  const statement = sql`
    with replay as materialized (
      select * from platform.webhook_replays where subscription_id = ${id}::uuid for update skip locked
    ), room as materialized (
      select ${DUE_MAX}::int - count(*)::int as n from (
        select from platform.webhook_deliveries as d
        where ${isOwn} and d.status = 'pending' and d.next_at <= now()
        limit ${DUE_MAX}::int) as d
    ), next as materialized (
      select d.id from platform.webhook_deliveries as d
      where ${isOwn} and d.id > (select position from replay) and d.id <= (select last_id from replay)
        and ${isInSpan(span)}
      order by d.id
      limit (select n from room)
    ), queued as (
      update platform.webhook_deliveries as d
      set status = 'pending', next_at = now(), attempts_before = d.attempt_count, is_counted = false, completed_at = null, claim_id = null
      from next as n
      where ${isOwn} and d.id = n.id
    ), ended as (
      delete from platform.webhook_replays as r using room, replay
      where r.subscription_id = replay.subscription_id and room.n > (select count(*) from next)
    ), moved as (
      update platform.webhook_replays as r set position = (select max(n.id::text)::uuid from next as n)
      from room, replay
      where r.subscription_id = replay.subscription_id and room.n > 0 and room.n = (select count(*) from next)
    )
    select count(*)::int as queued from next`;
  const part = await app.db.begin(async (tx) => {
    await tx.rows(sql`select ${GENERIC_PLANS}`);
    return tx.first<{ queued: number }>(statement);
  });
  return (part?.queued ?? 0) > 0;
}
