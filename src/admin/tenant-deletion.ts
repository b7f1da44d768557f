// Deletes tenants, busy ones too, in one transaction each. A tenant is suspended first, so that it starts no new work. When one of
// its tables is in use, the deletion soon releases those it has locked and tries again: a write that holds a table and needs another
// would deadlock with it, and every call that waits for a locked table would hold a connection that other tenants need.
// Failures: 400 unless confirmed, 404, 503 while other work of the tenant does not end; then its status is what it was.
// Times are milliseconds. Contract: decisions#tenants, neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import { listedBy, publishOrigins } from '../access/listed-origins.ts';
import type { App } from '../app.ts';
import { lockDefinitions } from '../entities/entities.ts';
import { invalidField, notFound, unavailable } from '../errors.ts';
import { deleteOutboxOf } from '../events/deletion.ts';
import { limitLockWaits } from '../runtime/locks.ts';
import { isDeadlock, isLockTimeout } from '../runtime/postgres/failures.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { dropTenantSchema } from '../tenants/provision.ts';
import { publishTenants, schemaOf, type Tenant } from '../tenants/tenants.ts';
import { namesOf } from './tenant-rows.ts';

/** How long the first try waits for a lock, and at most; the tenant's work goes on for as long between two tries. */
const FIRST_WAIT_MS = 25;
const LONGEST_WAIT_MS = 1_000;
/** An export whose client is slow may take this long. */
const WITHIN_MS = 600_000;

/** Deletes a tenant and all of its data. 400 unless `confirm` repeats the slug. */
export async function deleteTenant(app: App, slug: string, confirm: string | undefined): Promise<string> {
  if (confirm !== slug) throw invalidField('confirm', 'must repeat the slug of the tenant to delete');
  const { id, status } = await suspend(app, slug);
  let dropped: Named;
  try {
    dropped = await dropTenant(app, id);
  } catch (error) {
    await setStatus(app, slug, status);
    throw error;
  }
  await publishTenants(app, [id], namesOf(dropped));
  await publishOrigins(app, id, []);
  await app.invalidations.publish('catalog', id);
  return id;
}

type Named = Pick<Tenant, 'id' | 'slug' | 'settings'>;

/** Resolves to the status before. A tenant that stays keeps its verified domain, unlike one that an operator suspends. */
async function suspend(app: App, slug: string): Promise<Pick<Tenant, 'id' | 'status'>> {
  const found = await app.db.first<Pick<Tenant, 'id' | 'status'>>(sql`
    select id, status from platform.tenants where slug = ${slug}`);
  if (found === undefined) throw notFound('tenant');
  if (found.status === 'active') await setStatus(app, slug, 'suspended');
  return found;
}

async function setStatus(app: App, slug: string, status: Tenant['status']): Promise<void> {
  const changed = await app.db.first<Named>(sql`
    update platform.tenants set status = ${status}
    where slug = ${slug} and status <> ${status}
    returning id, slug, settings`);
  if (changed === undefined) return;
  await publishTenants(app, [changed.id], namesOf(changed));
  await publishOrigins(app, changed.id, await listedBy(app, changed.id));
}

async function dropTenant(app: App, id: string): Promise<Named> {
  const deadline = performance.now() + WITHIN_MS;
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
 * Takes the definition lock first; otherwise this and a change of definitions could deadlock. The schema goes before the rows, as
 * a write locks its table before rows: in the other order every write in flight was a deadlock. Once its tables are locked, what is
 * left is shared with other tenants: none of them holds a lock for long.
 */
async function dropIn(tx: Tx, id: string, waitMs: number): Promise<Named> {
  await limitLockWaits(tx, waitMs);
  await lockDefinitions(tx, schemaOf(id));
  await dropTenantSchema(tx, id);
  await limitLockWaits(tx, 0);
  await deleteOutboxOf(tx, id);
  const deleted = await tx.first<Named>(sql`
    delete from platform.tenants where id = ${id}::uuid returning id, slug, settings`);
  if (deleted === undefined) throw notFound('tenant');
  await tx.rows(sql`delete from platform.idempotency_keys where tenant_id = ${id}::uuid`);
  return deleted;
}
