// Taking deliveries to send: in Postgres, under a lease that outlasts the attempt, so that several
// processes share the work and a dead one's share comes free by itself. Claims of one subscription
// take turns by its row's lock. Contract: decisions#deliveries.
import type { App } from '../../app.ts';
import { type Catalog, catalogWithin, loadCatalog } from '../../entities/catalog.ts';
import type { RecordEventType } from '../../events/event.ts';
import { LIMITS } from '../../limits.ts';
import { newId } from '../../runtime/ids.ts';
import { ASYNC_COMMIT, GENERIC_PLANS, inputRows, sql, type Tx } from '../../runtime/sql.ts';
import { type Tenant, type TenantRow, toTenant } from '../../tenants/tenants.ts';
import { payloadOf } from '../transport/payload.ts';
import { type Asked, findPending, IS_PENDING, inMs, type PendingRow, postpone, type Recheck } from './pending.ts';

/** A subscription to look at, how many of its deliveries may be on their way, and how many may leave now. */
export interface ClaimRequest {
  subscriptionId: string;
  window: number;
  most: number;
}

/** A delivery that this process is to send. */
export interface ClaimedDelivery {
  id: string;
  claimId: string;
  subscriptionId: string;
  tenantId: string;
  eventId: string;
  type: RecordEventType;
  attempts: number;
  /** Attempts since it was last sent anew by hand: what counts against the retries. */
  attemptsSinceReset: number;
  /** Null when its event or its entity is no longer there. */
  body: string | null;
  url: string;
  secret: string | null;
  /** The body is in the database: otherwise it is written there when this attempt has ended. */
  isBodyStored: boolean;
  /** It was inserted claimed (inline-deliveries.ts). */
  isInline: boolean;
}

export interface Claim {
  claimed: ClaimedDelivery[];
  /** What is to be looked at again, and in how long: whatever a claim leaves behind, nobody else may know of. */
  rechecks: Recheck[];
}

/** For those held back by the tenant's limit or the process's, and those at which another process is. */
const RETRY_MS = 250;

interface SubscriptionRow extends TenantRow {
  subscription_id: string;
  entity_id: string;
  url: string;
  secret: string | null;
}

interface LockedSubscription extends Asked {
  entityId: string;
  url: string;
  secret: string | null;
  tenant: Tenant;
}

/** Claims at most `capacity` deliveries that are due. Inactive subscriptions and suspended tenants have none. */
export async function claimPending(app: App, wanted: readonly ClaimRequest[], capacity: number): Promise<Claim> {
  return app.db.begin(async (tx) => {
    const subscriptions = await lockSubscriptions(tx, wanted);
    const busy = await findBusy(tx, wanted, subscriptions);
    const isBusy = inMs(RETRY_MS, busy);
    if (subscriptions.size === 0) return { claimed: [], rechecks: isBusy };
    const { due, again } = await findPending(tx, [...subscriptions.values()], leaseMsOf(app));
    const waiting = due.filter((row) => row.is_blocked);
    const putAsideFor = waiting.length > 0 ? await postpone(tx, waiting) : [];
    const ready = due.filter((row) => !row.is_blocked);
    const taken = withinLimits(ready, subscriptions, capacity);
    const left = ready.filter((row) => !taken.includes(row));
    const claimed = await markClaimed(app, tx, taken, subscriptions);
    const heldBack = inMs(
      RETRY_MS,
      left.map((row) => row.subscription_id),
    );
    return { claimed, rechecks: [...isBusy, ...again, ...putAsideFor, ...heldBack] };
  });
}

/**
 * Without those at which another process is at the moment. A claim that a crash of the server undoes is of deliveries on
 * their way, and the outcome of one that has arrived commits after its claim.
 */
async function lockSubscriptions(tx: Tx, wanted: readonly ClaimRequest[]): Promise<Map<string, LockedSubscription>> {
  const wantedOf = new Map(wanted.map((each) => [each.subscriptionId, each]));
  const rows = await tx.rows<SubscriptionRow>(sql`
    select s.id as subscription_id, s.entity_id, s.url, s.secret, t.id, t.slug, t.name, t.status, t.settings,
      t.created_at, t.updated_at, ${ASYNC_COMMIT} as setting, ${GENERIC_PLANS} as plans
    from platform.webhook_subscriptions as s
    join platform.tenants as t on t.id = s.tenant_id
    where s.id = any(${[...wantedOf.keys()]}::uuid[]) and s.is_active and t.status = 'active'
    for no key update of s skip locked`);
  return new Map(
    rows.map((row) => {
      const { subscription_id: id, entity_id: entityId, url, secret } = row;
      const tenant = toTenant(row);
      const { window, most } = wantedOf.get(id) as ClaimRequest;
      return [id, { id, tenantId: tenant.id, entityId, url, secret, tenant, window, most }];
    }),
  );
}

/** Those at which another process is: it may have looked before the newest of their deliveries was there. */
async function findBusy(
  tx: Tx,
  wanted: readonly ClaimRequest[],
  locked: ReadonlyMap<string, LockedSubscription>,
): Promise<string[]> {
  const missing = wanted.map(({ subscriptionId }) => subscriptionId).filter((id) => !locked.has(id));
  if (missing.length === 0) return [];
  const rows = await tx.rows<{ id: string }>(sql`
    select s.id from platform.webhook_subscriptions as s
    join platform.tenants as t on t.id = s.tenant_id
    where s.id = any(${missing}::uuid[]) and s.is_active and t.status = 'active'`);
  return rows.map(({ id }) => id);
}

/** The tenant's limit over all its subscriptions, and what this process can carry. */
function withinLimits(
  ready: readonly PendingRow[],
  subscriptions: Map<string, LockedSubscription>,
  capacity: number,
): PendingRow[] {
  const counts = new Map<string, number>();
  return ready.slice(0, capacity).filter((row) => {
    const tenantId = subscriptions.get(row.subscription_id)?.tenant.id as string;
    const count = counts.get(tenantId) ?? row.tenant_claimed;
    counts.set(tenantId, count + 1);
    return count < LIMITS.webhook.perTenant;
  });
}

async function markClaimed(
  app: App,
  tx: Tx,
  rows: readonly PendingRow[],
  subscriptions: Map<string, LockedSubscription>,
): Promise<ClaimedDelivery[]> {
  if (rows.length === 0) return [];
  const claimId = newId();
  const claimed: ClaimedDelivery[] = [];
  for (const row of rows) {
    const subscribed = subscriptions.get(row.subscription_id) as LockedSubscription;
    claimed.push(toClaimed(row, claimId, subscribed, row.body ?? (await renderBody(app, tx, row, subscribed))));
  }
  const input = inputRows(
    ['uuid', 'uuid'],
    claimed.map(({ subscriptionId, id }) => [subscriptionId, id]),
  );
  const taken = await tx.rows<{ id: string }>(sql`
    with i (subscription_id, id) as (${input})
    update platform.webhook_deliveries as d
    set claim_id = ${claimId}::uuid,
      next_at = now() + ${leaseMsOf(app)}::int * interval '1 ms'
    from i
    where d.subscription_id = i.subscription_id and d.id = i.id and ${IS_PENDING} and d.next_at + interval '0' <= now()
    returning d.id`);
  const ids = new Set(taken.map(({ id }) => id));
  return claimed.filter(({ id }) => ids.has(id));
}

function toClaimed(
  row: PendingRow,
  claimId: string,
  { tenant, url, secret }: LockedSubscription,
  body: string | null,
): ClaimedDelivery {
  return {
    id: row.id,
    claimId,
    subscriptionId: row.subscription_id,
    tenantId: tenant.id,
    eventId: row.event_id,
    type: row.type,
    attempts: row.attempt_count,
    attemptsSinceReset: row.attempt_count - row.attempts_before,
    body,
    url,
    secret,
    isBodyStored: row.body !== null,
    isInline: false,
  };
}

/** How long a claim holds, in ms. */
export function leaseMsOf({ config }: App): number {
  return config.webhook.timeoutMs + LIMITS.webhook.leaseSlackMs;
}

/** The body, made with the definition of this moment; null when the event or its entity is gone. */
async function renderBody(
  app: App,
  tx: Tx,
  row: PendingRow,
  { tenant, entityId }: LockedSubscription,
): Promise<string | null> {
  const { record_id: id, version, data, created_at, updated_at, created_by, updated_by } = row;
  if (data === null || version === null) return null;
  const known: Catalog = await catalogWithin(app, tx, tenant);
  const entity = known.byId.get(entityId) ?? (await loadCatalog(tx, tenant)).byId.get(entityId);
  if (entity === undefined) return null;
  const event = { id, version, data, created_at, updated_at, created_by, updated_by };
  return payloadOf({ eventId: row.event_id, type: row.type, tenantId: tenant.id, at: row.at, row: event }, entity);
}
