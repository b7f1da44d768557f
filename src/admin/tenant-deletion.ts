// Deletes tenants, busy ones too, in one transaction each. A tenant is suspended first, so that it starts no new work. When one
// of its tables is in use, the deletion soon releases the tables it has locked and tries again: a write that holds one table and
// needs another would deadlock with it, and every call that waits for a locked table would hold a connection that other tenants
// need.
// Failures: 400 unless confirmed, 404, 503 while other work of the tenant does not end. After a failure, and when the process
// dies, the tenant is as it was before. Times are milliseconds. Contract: decisions#tenants, neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import { listedBy, publishOrigins } from '../access/listed-origins.ts';
import { type App, perApp } from '../app.ts';
import { lockDefinitions } from '../entities/entities.ts';
import { invalidField, notFound, unavailable } from '../errors.ts';
import { deleteOutboxOf } from '../events/deletion.ts';
import { streamOf } from '../events/relay.ts';
import { deleteRunsOf } from '../rules/runs.ts';
import { limitLockWaits } from '../runtime/locks.ts';
import { isOfNone, newOwnedId } from '../runtime/owned-ids.ts';
import { isDeadlock, isLockTimeout } from '../runtime/postgres/failures.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { liveProcesses } from '../tenants/live-processes.ts';
import { dropTenantSchema } from '../tenants/provision.ts';
import { publishTenants, schemaOf, type Tenant } from '../tenants/tenants.ts';
import { namesOf } from './tenant-rows.ts';

/** How long the first try and the longest try wait for a lock. Between two tries, the tenant's work continues for as long. */
const FIRST_WAIT_MS = 25;
const LONGEST_WAIT_MS = 1_000;
/** How long a deletion keeps trying; an export with a slow client may take this long. */
const WITHIN_MS = 600_000;

/** How often a process looks for deletions that a dead process has left. */
const POLL_MS = 30_000;

/** The deletions that this process is carrying out. */
const underwayOf = perApp(() => new Set<string>());

/** Deletes a tenant and all of its data. 400 unless `confirm` repeats the slug. */
export async function deleteTenant(
  app: App,
  slug: string,
  confirm: string | undefined,
  withinMs: number = WITHIN_MS,
): Promise<string> {
  if (confirm !== slug) throw invalidField('confirm', 'must repeat the slug of the tenant to delete');
  const deletion = newOwnedId(app.db.id);
  const underway = underwayOf(app).add(deletion);
  try {
    const id = await suspend(app, slug, deletion);
    const dropped = await dropTenant(app, id, withinMs);
    await publishTenants(app, [id], namesOf(dropped));
    await publishOrigins(app, id, []);
    await app.invalidations.publish('catalog', id);
    await deleteRuns(app, id);
    await deleteStreamed(app, id);
    return id;
  } catch (error) {
    underway.delete(deletion);
    await restoreLeft(app).catch((cause: unknown) => {
      app.log.warn('a tenant that was not deleted stays suspended for a while', { tenant: slug, cause });
    });
    throw error;
  } finally {
    underway.delete(deletion);
  }
}

/** Deletes waiting rule runs. Runs that remain end one by one, when their turn comes. */
async function deleteRuns(app: App, id: string): Promise<void> {
  await deleteRunsOf(app.db.slow, id).catch((cause: unknown) => {
    app.log.warn('rule runs of a deleted tenant are left', { tenantId: id, cause });
  });
}

/** Deletes the events in the live stream. Without the broker they stay until the stream expires. */
async function deleteStreamed({ broker, log }: App, id: string): Promise<void> {
  await broker.trim(streamOf(id), 0).catch((cause: unknown) => {
    log.warn('the live stream of a deleted tenant is left until it expires', { tenantId: id, cause });
  });
}

/** Starts the worker that reactivates tenants whose deletion ended with its process. */
export function startRestoring(app: App): Worker {
  return startWorker({ name: 'tenant deletions', once: () => restoreLeft(app), pollMs: POLL_MS, log: app.log });
}

type Named = Pick<Tenant, 'id' | 'slug' | 'settings'>;

/**
 * Suspends a tenant for its deletion. Resolves to its id. Unlike a suspension by an operator, this keeps the verified domain,
 * since the tenant may stay.
 */
async function suspend(app: App, slug: string, deletion: string): Promise<string> {
  const suspended = await app.db.first<Named>(sql`
    update platform.tenants set status = 'suspended', deletion = ${deletion}::uuid
    where slug = ${slug} and (status = 'active' or deletion is not null)
    returning id, slug, settings`);
  if (suspended !== undefined) {
    await publishStatus(app, suspended);
    return suspended.id;
  }
  const found = await app.db.first<{ id: string }>(sql`select id from platform.tenants where slug = ${slug}`);
  if (found === undefined) throw notFound('tenant');
  return found.id;
}

/** Reactivates tenants whose deletion no process is carrying out any more. Resolves to their number. */
export async function restoreLeft(app: App): Promise<number> {
  const live = await liveProcesses(app);
  const own = [app.db.id];
  const others = live.filter((id) => id !== app.db.id);
  const isLeft = live.length > 0 ? isOfNone(sql`deletion`, others) : sql`not ${isOfNone(sql`deletion`, own)}`;
  const restored = await app.db.rows<Named>(sql`
    update platform.tenants set status = 'active', deletion = null
    where deletion is not null and deletion <> all(${[...underwayOf(app)]}::uuid[]) and ${isLeft}
    returning id, slug, settings`);
  for (const tenant of restored) await publishStatus(app, tenant);
  return restored.length;
}

async function publishStatus(app: App, tenant: Named): Promise<void> {
  await publishTenants(app, [tenant.id], namesOf(tenant));
  await publishOrigins(app, tenant.id, await listedBy(app, tenant.id));
}

async function dropTenant(app: App, id: string, withinMs: number): Promise<Named> {
  const deadline = performance.now() + withinMs;
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    try {
      return await app.db.slow.begin((tx) => dropIn(tx, id, waitMs));
    } catch (error) {
      if (!isLockTimeout(error) && !isDeadlock(error)) throw error;
      if (performance.now() > deadline) throw unavailable('other work of this tenant does not end', error);
    }
    await delay(waitMs);
  }
}

/**
 * Drops a tenant's data. Takes the definition lock first; otherwise this and a change of definitions could deadlock. The schema
 * is dropped before the rows, since a write locks its table before rows: in the other order every write in flight caused a
 * deadlock. Once the tables are locked, only tables shared with other tenants remain, and no other tenant holds a lock on them
 * for long.
 */
async function dropIn(tx: Tx, id: string, waitMs: number): Promise<Named> {
  await limitLockWaits(tx, waitMs);
  await lockDefinitions(tx, schemaOf(id));
  await dropTenantSchema(tx, id);
  await limitLockWaits(tx, 0);
  await deleteOutboxOf(tx, id);
  await tx.rows(sql`delete from platform.idempotency_keys where tenant_id = ${id}::uuid`);
  // An accepted code belongs to the tenant that was created with it.
  await tx.rows(sql`
    delete from platform.invitations
    where kind = 'platform' and inviting_tenant = ${id}::uuid and accepted_at is null`);
  // This also deletes the deliveries in flight, whose results are stored together with the results of other tenants.
  const deleted = await tx.first<Named>(sql`
    delete from platform.tenants where id = ${id}::uuid returning id, slug, settings`);
  if (deleted === undefined) throw notFound('tenant');
  return deleted;
}
