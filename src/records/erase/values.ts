// Erases the values of a deleted record everywhere, in parts: from waiting rule runs, events, deliveries, kept responses and the
// live stream. Erasing again finds nothing left, so that any process may go on where another has stopped. A minute later it is
// all done once more: a process may just have stored what it had read before, such as the result of a delivery in flight.
// Contract: history#erase.
import type { App } from '../../app.ts';
import { type Erasure, eraseEvents, eraseStreamed } from '../../events/erasure.ts';
import { sql } from '../../runtime/sql.ts';
import { forTenant } from '../../runtime/work.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { eraseAnswers } from '../write/idempotency.ts';
import { eraseDeliveries, eraseRuns } from './copies.ts';

/** Seconds after which another process takes over, and after which the second pass begins. */
export const LEASE_S = 10;
const AGAIN_S = 60;
const POLL_MS = 5_000;
const NO_TENANT = '00000000-0000-0000-0000-000000000000';

export function startErasures(app: App): Worker {
  let latest = NO_TENANT;
  const once = async (signal: AbortSignal): Promise<number> => {
    const tenantId = await eraseOnce(app, signal, latest);
    latest = tenantId ?? NO_TENANT;
    return tenantId === null ? 0 : 1;
  };
  return startWorker({ name: 'erasures', once, pollMs: POLL_MS, log: app.log });
}

/** Goes on with a due erasure of the tenant after `latest`, in turn. Resolves to that tenant's id; null when none is due. */
export async function eraseOnce(app: App, signal: AbortSignal, latest = NO_TENANT): Promise<string | null> {
  const erasure = await app.db.first<Erasure>(sql`
    update platform.erasures as e set due_at = now() + make_interval(secs => ${LEASE_S}::int)
    from (
      select tenant_id, record_id from platform.erasures where due_at <= now()
      order by tenant_id <= ${latest}::uuid, tenant_id, due_at limit 1 for update skip locked
    ) as due
    where e.tenant_id = due.tenant_id and e.record_id = due.record_id
    returning e.tenant_id as "tenantId", e.record_id as "recordId", e.at, e.actor as by, e.seq`);
  if (erasure === undefined) return null;
  await forTenant(erasure.tenantId, () => eraseValues(app, erasure, Number.POSITIVE_INFINITY, signal));
  return erasure.tenantId;
}

/** Resolves to false when it stops before the end, at a time of `performance.now()` or by the signal. */
export async function eraseValues(app: App, erasure: Erasure, until: number, signal?: AbortSignal): Promise<boolean> {
  let renewedAt = performance.now();
  const parts = [
    () => eraseRuns(app, erasure),
    eraseEvents(app, erasure),
    ...(await eraseDeliveries(app, erasure)),
    ...eraseAnswers(app, erasure),
  ];
  for (const erasePart of parts) {
    while (await erasePart()) {
      if (signal?.aborted === true || performance.now() > until) return false;
      if (performance.now() - renewedAt < (LEASE_S * 1_000) / 4) continue;
      renewedAt = performance.now();
      await postpone(app, erasure, LEASE_S);
    }
  }
  await eraseStreamed(app, erasure);
  await finish(app, erasure);
  return true;
}

async function postpone({ db }: App, { tenantId, recordId }: Erasure, seconds: number): Promise<void> {
  await db.rows(sql`
    update platform.erasures set due_at = now() + make_interval(secs => ${seconds}::int)
    where tenant_id = ${tenantId}::uuid and record_id = ${recordId}::uuid`);
}

/** Ends the second pass, or begins to wait for it. */
async function finish({ db }: App, { tenantId, recordId }: Erasure): Promise<void> {
  const isOwn = sql`tenant_id = ${tenantId}::uuid and record_id = ${recordId}::uuid`;
  await db.rows(sql`
    with ended as (
      delete from platform.erasures
      where ${isOwn} and is_swept and at < now() - make_interval(secs => ${AGAIN_S}::int)
    )
    update platform.erasures set is_swept = true, due_at = now() + make_interval(secs => ${AGAIN_S}::int)
    where ${isOwn} and not is_swept`);
}
