// Erases the copies of a record's values that wait for rules and receivers: the images that queued rule runs start with (the
// runs then find an empty record), and the bodies of deliveries with the receivers' answers. A delivery that waits or is in
// flight loses its claim: its result is not stored, and it fails at its next attempt. Only the delivery of the deletion itself,
// which has no values, is sent.
// Contract: history#erase.
import type { App } from '../../app.ts';
import { type Erasure, oldestEventAt } from '../../events/erasure.ts';
import { LEAST_ID, lowestIdAt } from '../../runtime/ids.ts';
import { PART_ROWS } from '../../runtime/parts.ts';
import { sql } from '../../runtime/sql.ts';

/** How far the clocks of the processes and the database may differ, in milliseconds. */
const CLOCKS_MS = 60_000;

/** Erases some of the images of waiting rule runs; resolves to false when there was none. */
export async function eraseRuns({ db }: App, { tenantId, recordId }: Erasure): Promise<boolean> {
  const erased = await db.rows(sql`
    with run as materialized (
      select r.position, r.event_id from platform.rule_runs as r
      where r.record_id = ${recordId}::uuid and r.tenant_id = ${tenantId}::uuid and (
        r.data <> '{}' or exists (select from platform.rule_images as i where i.event_id = r.event_id and i.data <> '{}'))
      limit ${PART_ROWS}::int
      for update of r skip locked
    ), image as (
      update platform.rule_images as i set data = '{}', bytes = 2
      where i.event_id = any(array(select event_id from run))
    )
    update platform.rule_runs as r set data = case when r.data is not null then '{}'::jsonb end
    where r.position = any(array(select position from run))
    returning 1`);
  return erased.length > 0;
}

/** One function per subscription of the tenant; each call erases a part of its deliveries, and resolves to false at the end. */
export async function eraseDeliveries(app: App, erasure: Erasure): Promise<(() => Promise<boolean>)[]> {
  const subscriptions = await app.db.rows<{ id: string }>(sql`
    select id from platform.webhook_subscriptions where tenant_id = ${erasure.tenantId}::uuid`);
  const first = await oldestEventAt(app, erasure);
  // The record's own id does not tell when the record was created: a file may have brought it.
  const start = first === undefined ? LEAST_ID : lowestIdAt(new Date(Date.parse(first) - CLOCKS_MS).toISOString());
  return subscriptions.map(({ id }) => {
    let after = start;
    return async () => {
      const row = await app.db.first<{ last: string | null }>(erasePart(id, after, erasure));
      after = row?.last ?? after;
      return row?.last != null;
    };
  });
}

/**
 * Goes through the deliveries by id: an index of deliveries by record would slow down the insertion of every delivery. A
 * pending delivery that was never sent holds no values, but is updated too, so that a process that has just read the values
 * cannot claim it.
 */
function erasePart(subscriptionId: string, after: string, { tenantId, recordId, seq }: Erasure) {
  const isOwn = sql`d.subscription_id = ${subscriptionId}::uuid and d.tenant_id = ${tenantId}::uuid`;
  return sql`
    with part as materialized (
      select d.id, d.record_id from platform.webhook_deliveries as d
      where ${isOwn} and d.id > ${after}::uuid
      order by d.id limit ${PART_ROWS}::int
    ), erased as (
      update platform.webhook_deliveries as d
      set body = null, claim_id = null,
        attempts = (
          select jsonb_agg(jsonb_set(a.attempt, '{4}', 'null') order by a.n)
          from jsonb_array_elements(d.attempts) with ordinality as a (attempt, n)),
        next_at = case when d.claim_id is null then least(d.next_at, now()) else d.next_at end
      where ${isOwn} and d.id = any(array(
          select p.id from part as p where p.record_id = ${recordId}::uuid))
        and (d.body is not null or d.attempts is not null or d.claim_id is not null or d.status = 'pending')
        and d.event_seq <> coalesce(${seq}::bigint, 0)
    )
    select (select p.id from part as p order by p.id desc limit 1) as last`;
}
