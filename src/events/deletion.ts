// Deletes deliveries and events in a transaction, in small statements: a single statement for 300,000 deliveries would occupy a
// processor of the database for as long as it runs. Deliveries in flight are left to the trigger that runs when their
// subscription is deleted at the end: their results are stored in one statement with the results of other tenants, which would
// otherwise wait. The tables of a deleted tenant must be locked, since rows written meanwhile may be left behind.
// Contract: neighbours#fair-shares.
import { LEAST_ID } from '../runtime/ids.ts';
import { inParts, PART_ROWS } from '../runtime/parts.ts';
import { GENERIC_PLANS, raw, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { BY_TENANT, isOfTenant } from './feed.ts';

const GREATEST = '9223372036854775807';

/** Deletes a tenant's events and the deliveries of its subscriptions. */
export async function deleteOutboxOf(tx: Tx, tenantId: string): Promise<void> {
  await deleteDeliveries(tx, sql`tenant_id = ${tenantId}::uuid`);
  await inParts(tx, (after) => eventsAfter(tenantId, after));
}

/** Deletes the deliveries of the subscriptions that meet a condition and that this transaction is about to delete. */
export async function deleteDeliveries(tx: Tx, condition: Sql): Promise<void> {
  await tx.rows(sql`select ${GENERIC_PLANS}`);
  // Locks the subscription first and then its deliveries, as claims do: from now on nothing claims any of them.
  const subscriptions = await tx.rows<{ id: string; tenantId: string }>(sql`
    select id, tenant_id as "tenantId" from platform.webhook_subscriptions where ${condition} order by id for update`);
  for (const { id, tenantId } of subscriptions) await inParts(tx, (after) => deliveriesAfter(tenantId, id, after));
}

/**
 * Deletes an entity's changes that subscriptions have not judged yet; changes in a clone, whose entity has the same id, stay.
 * It does not pause between batches, because the judging of other tenants waits for it.
 */
export async function deleteUnjudged(tx: Tx, tenantId: string, entityId: string): Promise<void> {
  await inParts(tx, (after) => deliveriesAfter(tenantId, entityId, after), { rests: false });
}

function deliveriesAfter(tenantId: string, subscriptionId: string, after: string | null): Sql {
  const isOwn = sql`d.subscription_id = ${subscriptionId}::uuid and d.tenant_id = ${tenantId}::uuid`;
  return sql`
    with part as materialized (
      select array(
        select d.id from platform.webhook_deliveries as d
        where ${isOwn} and d.id > ${after ?? LEAST_ID}::uuid
        order by d.id limit ${PART_ROWS}::int) as ids
    ), deleted as (
      delete from platform.webhook_deliveries as d using part as p
      where ${isOwn} and d.id = any(p.ids) and d.claim_id is null
    )
    select cardinality(p.ids) as count, p.ids[cardinality(p.ids)]::text as last from part as p`;
}

function eventsAfter(tenantId: string, after: string | null): Sql {
  return sql`
    with part as materialized (
      select array(
        select e.seq from platform.events as e
        where ${isOfTenant(sql`e`, tenantId, after ?? '0', raw(`${GREATEST}::bigint`))}
        order by ${BY_TENANT} limit ${PART_ROWS}::int) as seqs
    ), deleted as (
      delete from platform.events as e using part as p
      where e.tenant_id = ${tenantId}::uuid and e.seq = any(p.seqs)
    )
    select cardinality(p.seqs) as count, p.seqs[cardinality(p.seqs)]::text as last from part as p`;
}
