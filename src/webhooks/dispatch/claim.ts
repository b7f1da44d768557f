// Claims deliveries in Postgres under a lease that outlasts the attempt, so that processes share the work. The claims of a dead
// process end with its connections (claim-owners.ts), or with their lease at the latest. The lock on the subscription's row serializes
// the claims of one subscription. Deliveries of inactive subscriptions and suspended tenants are not claimed. Contract:
// decisions#deliveries.

import type { App } from '../../app.ts';
import { catalogWithin, isOlderThan, loadCatalog } from '../../entities/catalog.ts';
import { beforeImage } from '../../events/before-image.ts';
import type { Erased, RecordEventType } from '../../events/event.ts';
import { signingSecrets } from '../../events/signing-secrets.ts';
import { LIMITS } from '../../limits.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { newOwnedId } from '../../runtime/owned-ids.ts';
import { ASYNC_COMMIT, GENERIC_PLANS, inputRows, sql, type Tx } from '../../runtime/sql.ts';
import { type Tenant, type TenantRow, toTenant } from '../../tenants/tenants.ts';
import type { Audience } from '../audience.ts';
import type { Content, Include, SentChange } from '../content.ts';
import { exampleSource } from '../example.ts';
import { payloadOf } from '../transport/payload.ts';
import { isLimited, withinQuotas } from './delivery-quota.ts';
import type { InFlight } from './in-flight.ts';
import {
  type ClaimRequest,
  findPending,
  IS_PENDING,
  type PendingRow,
  postponeBlocked,
  type Recheck,
  recheckIn,
} from './pending.ts';

/** A delivery that this process must send. */
export interface ClaimedDelivery {
  id: string;
  claimId: string;
  subscriptionId: string;
  tenantId: string;
  eventId: string;
  type: RecordEventType;
  /** The trace of the request that caused the change, as events keep it. */
  trace: string | null;
  attempts: number;
  /** Attempts since the last manual redelivery: these count against the retry limit. */
  attemptsSinceReset: number;
  /** Null when the event is no longer kept or its entity no longer exists. */
  body: string | null;
  url: string;
  /** The newest first. */
  secrets: readonly string[];
  /** If false, the body is stored with the first result. */
  isBodyStored: boolean;
  /** Inserted as claimed (inline-deliveries.ts). */
  isInline: boolean;
  /** Whether it is about an imaginary record. */
  isTest: boolean;
  /** Set for a subscription that does not send the usual payload: the event from which the attempt renders the body. */
  source: BodySource | null;
}

/** An event whose body is rendered when it is sent. */
export interface BodySource extends Pick<SentChange, 'row' | 'before' | 'at' | 'seq'> {
  entityId: string;
  content: Content;
  size: number;
  erased: Erased | null;
}

export interface Claim {
  claimed: ClaimedDelivery[];
  /** Later claims for the deliveries that this claim leaves; nothing else schedules them. */
  rechecks: Recheck[];
}

/** Delay before the next claim when a limit of the tenant or process is reached, or another process holds the lock. */
const RETRY_MS = 250;

interface SubscriptionRow extends TenantRow, Audience {
  subscription_id: string;
  entity_id: string;
  include: readonly Include[] | null;
  url: string;
  secrets: readonly string[] | null;
}

type LockedSubscription = ClaimRequest & {
  tenant: Tenant;
  entityId: string;
  url: string;
  secrets: readonly string[];
  /** Null for a subscription that sends the payload of the contract. */
  content: Content | null;
  isNarrowed: boolean;
  isWithPrevious: boolean;
};
type Locked = ReadonlyMap<string, LockedSubscription>;

/** Claims due deliveries, as many as `inFlight` has places for. The caller passes a copy, which this call changes. */
export async function claimPending(app: App, requests: readonly ClaimRequest[], inFlight: InFlight): Promise<Claim> {
  return app.db.begin(async (tx) => {
    const locked = await lockSubscriptions(tx, requests);
    const lockedElsewhere = recheckIn(RETRY_MS, await findLockedElsewhere(tx, requests, locked));
    if (locked.size === 0) return { claimed: [], rechecks: lockedElsewhere };
    const { pending, rechecks } = await findPending(tx, [...locked.values()], leaseMsOf(app));
    const blocked = pending.filter((row) => row.is_blocked);
    const postponed = blocked.length > 0 ? await postponeBlocked(tx, blocked) : [];
    const unread = pending.filter((row) => row.is_unread).map((row) => row.subscription_id);
    const ready = pending.filter((row) => !row.is_blocked && !row.is_unread);
    const taken = withinLimits(ready, locked, inFlight);
    const overLimit = ready.filter((row) => !taken.has(row)).map((row) => row.subscription_id);
    const { admitted, waiting } = await withinQuotas(app, tx, [...taken], tenantsOf(locked));
    const claimed = await markClaimed(app, tx, admitted, locked);
    const ids = new Set(claimed.map(({ id }) => id));
    const changed = admitted.filter(({ id }) => !ids.has(id)).map((row) => row.subscription_id);
    const nextPart = recheckIn(overLimit.length === 0 ? 0 : RETRY_MS, unread);
    const later = [...postponed, ...recheckIn(RETRY_MS, overLimit), ...recheckIn(0, changed), ...nextPart, ...waiting];
    return { claimed, rechecks: [...lockedElsewhere, ...rechecks, ...later] };
  });
}

/**
 * Locks the subscriptions that no other process has locked. The commit may be asynchronous: results commit after it,
 * so a crash loses only claims of deliveries in flight, which are then sent again.
 */
async function lockSubscriptions(tx: Tx, requests: readonly ClaimRequest[]): Promise<Locked> {
  const byId = new Map(requests.map((request) => [request.subscriptionId, request]));
  const rows = await tx.rows<SubscriptionRow>(sql`
    select s.id as subscription_id, s.entity_id, s.role, s.filters, s.field_ids, s.include, s.url, ${signingSecrets(sql`s`)} as secrets, t.id, t.slug, t.name, t.status, t.settings,
      t.quotas, t.created_at, t.updated_at, ${ASYNC_COMMIT} as setting, ${GENERIC_PLANS} as plans
    from platform.webhook_subscriptions as s
    join platform.tenants as t on t.id = s.tenant_id
    where s.id = any(${[...byId.keys()]}::uuid[]) and s.is_active and t.status = 'active'
    for no key update of s skip locked`);
  return new Map(
    rows.map((row) => {
      const { subscription_id: id, entity_id: entityId, url, secrets, role, filters, field_ids, include } = row;
      const request = byId.get(id) as ClaimRequest;
      const isNarrowed = role !== null || field_ids !== null;
      const content = isNarrowed || include !== null ? { audience: { role, filters, field_ids }, include } : null;
      const isWithPrevious = include?.includes('previous') === true;
      const sent = { entityId, url, secrets: secrets ?? [], content, isNarrowed, isWithPrevious };
      return [id, { ...request, tenant: toTenant(row), ...sent }];
    }),
  );
}

/** Subscriptions locked by another process, whose snapshot may be older than their newest delivery. */
async function findLockedElsewhere(tx: Tx, requests: readonly ClaimRequest[], locked: Locked): Promise<string[]> {
  const missing = requests.map(({ subscriptionId }) => subscriptionId).filter((id) => !locked.has(id));
  if (missing.length === 0) return [];
  const rows = await tx.rows<{ id: string }>(sql`
    select s.id from platform.webhook_subscriptions as s
    join platform.tenants as t on t.id = s.tenant_id
    where s.id = any(${missing}::uuid[]) and s.is_active and t.status = 'active'`);
  return rows.map(({ id }) => id);
}

/** Applies the tenant's limit over all processes, and the places in this process. */
function withinLimits(ready: readonly PendingRow[], locked: Locked, inFlight: InFlight): Set<PendingRow> {
  const counts = new Map<string, number>();
  const taken = new Set<PendingRow>();
  for (const row of ready) {
    const tenantId = locked.get(row.subscription_id)?.tenant.id as string;
    const count = counts.get(tenantId) ?? row.tenant_in_flight;
    if (count >= LIMITS.webhook.perTenant || !inFlight.take(tenantId, row.size)) continue;
    counts.set(tenantId, count + 1);
    taken.add(row);
  }
  return taken;
}

/** The tenant of each locked subscription. */
function tenantsOf(locked: Locked): ReadonlyMap<string, Tenant> {
  return new Map([...locked].map(([id, { tenant }]) => [id, tenant]));
}

/** Claims the deliveries that have not changed since they were read: a change may have erased the values that were read. */
async function markClaimed(app: App, tx: Tx, rows: readonly PendingRow[], locked: Locked): Promise<ClaimedDelivery[]> {
  if (rows.length === 0) return [];
  const claimId = newOwnedId(app.db.id);
  const claimed: ClaimedDelivery[] = [];
  for (const row of rows) {
    const subscription = locked.get(row.subscription_id) as LockedSubscription;
    await giveWay();
    const kept = subscription.isNarrowed ? null : row.body;
    const body = kept ?? (subscription.content === null ? await renderBody(app, tx, row, subscription) : null);
    claimed.push(toClaimed(row, claimId, subscription, body));
  }
  const input = inputRows(
    ['uuid', 'uuid', 'uuid', 'text', 'boolean'],
    rows.map(({ subscription_id: subscriptionId, tenant_id: tenantId, id, row_version: version }) => {
      return [subscriptionId, tenantId, id, version, isLimited(locked.get(subscriptionId)?.tenant)];
    }),
  );
  const updated = await tx.rows<{ id: string }>(sql`
    with i (subscription_id, tenant_id, id, row_version, is_counted) as (${input})
    update platform.webhook_deliveries as d
    set claim_id = ${claimId}::uuid, is_counted = d.is_counted or i.is_counted,
      next_at = now() + ${leaseMsOf(app)}::int * interval '1 ms'
    from i
    where d.subscription_id = i.subscription_id and d.tenant_id = i.tenant_id and d.id = i.id and ${IS_PENDING}
      and d.xmin::text = i.row_version and d.next_at + interval '0' <= now()
    returning d.id`);
  const ids = new Set(updated.map(({ id }) => id));
  return claimed.filter(({ id }) => ids.has(id));
}

function toClaimed(
  row: PendingRow,
  claimId: string,
  { tenant, subscriptionId, entityId, url, secrets, content }: LockedSubscription,
  body: string | null,
): ClaimedDelivery {
  return {
    id: row.id,
    claimId,
    subscriptionId,
    tenantId: tenant.id,
    eventId: row.event_id,
    type: row.type,
    trace: row.trace,
    attempts: row.attempt_count,
    attemptsSinceReset: row.attempt_count - row.attempts_before,
    body,
    url,
    secrets,
    isBodyStored: row.body !== null && body !== null,
    isInline: false,
    isTest: row.is_test,
    source: body === null && content !== null ? sourceFrom(row, content, entityId) : null,
  };
}

/** Null when the event is no longer kept. `ownId` is the entity of the subscription. */
function sourceFrom(row: PendingRow, content: Content, ownId: string): BodySource | null {
  if (row.is_test) {
    const { record_id: recordId, type, at, size } = row;
    return { ...exampleSource({ entityId: ownId, recordId, type, at, by: null }, content), size, erased: null };
  }
  const { version, data, old, entity_id: entityId, at, event_seq: seq, size } = row;
  if (version === null || data === null || entityId === null) return null;
  const after = { ...row, id: row.record_id, version, data };
  return {
    entityId,
    content,
    row: after,
    before: old === null ? null : beforeImage(after, old),
    at,
    seq,
    size,
    erased: erasedIn(row),
  };
}

export function leaseMsOf({ config }: App): number {
  return config.webhook.timeoutMs + LIMITS.webhook.leaseSlackMs;
}

/** The body under the current definition; null when the event or its entity no longer exists. */
async function renderBody(app: App, tx: Tx, row: PendingRow, { tenant }: LockedSubscription): Promise<string | null> {
  const { version, data, entity_id: entityId } = row;
  if (data === null || version === null || entityId === null) return null;
  const known = await catalogWithin(app, tx, tenant);
  const catalog = isOlderThan(known, entityId, { data }) ? await loadCatalog(tx, tenant) : known;
  const entity = catalog.byId.get(entityId);
  if (entity === undefined) return null;
  const record = { ...row, id: row.record_id, version, data };
  const { event_id: eventId, type, at } = row;
  return payloadOf({ eventId, type, tenantId: tenant.id, at, row: record, erased: erasedIn(row) }, entity);
}

function erasedIn({ erased_at: at, erased_by: by }: PendingRow): Erased | null {
  return at === null ? null : { at, by };
}
