// Repair: the tenant schema's files applied again to every degraded tenant, and to no other. Each
// tenant is held, looked at again, mended and looked at once more in one transaction, so that repairs
// at the same time share the work and what is mended is counted once. Nothing that is there is lost.
// What could not be mended is told per tenant. Contract: interface#schema-health.
import type { App } from '../app.ts';
import { repairEntities } from '../entities/repair.ts';
import { ServiceError } from '../errors.ts';
import { forEachConcurrently } from '../runtime/concurrency.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { sql } from '../runtime/sql.ts';
import { addVectorExtension } from '../runtime/vector.ts';
import { applyTenantSchema, withTenantLock } from '../tenants/provision.ts';
import { TENANT_COLUMNS, type TenantRow, toTenant } from '../tenants/tenants.ts';
import { SCHEMA_CONCURRENCY } from '../tenants/upgrade.ts';
import { wordsOf } from './issues.ts';
import { type CheckedTenant, checkSchemas, checkTenant } from './schema-check.ts';

export interface RepairFailure {
  tenant: string;
  message: string;
}

/** Mends all degraded tenants; resolves to how many this call has mended, and to what it could not mend. */
export async function repairSchemas(app: App): Promise<{ fixed: number; errors: RepairFailure[] }> {
  const degraded = (await checkSchemas(app)).filter(({ findings }) => findings.length > 0);
  if (degraded.some(({ findings }) => findings.some(({ check }) => check === 'extension_exists'))) {
    await addExtension(app);
  }
  let fixed = 0;
  const errors: RepairFailure[] = [];
  await forEachConcurrently(degraded, SCHEMA_CONCURRENCY, async (tenant) => {
    const outcome = await repairTenant(app, tenant);
    if (outcome === 'fixed') fixed++;
    else if (outcome !== 'healthy') errors.push({ tenant: tenant.slug, message: outcome });
  });
  errors.sort((a, b) => (a.tenant < b.tenant ? -1 : 1));
  return { fixed, errors };
}

/** Without it the tenants are mended all the same, and each says that it is missing. */
async function addExtension(app: App): Promise<void> {
  try {
    await addVectorExtension(app.db.slow, app.log);
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    app.log.error('the extension vector could not be created', { error });
  }
}

/** `fixed`, `healthy` when it was mended meanwhile or is gone, else what is still wrong. */
async function repairTenant(app: App, { id, slug }: CheckedTenant): Promise<string> {
  try {
    const outcome = await withTenantLock(app, id, (tx) => mend(app, tx, id));
    if (outcome === 'fixed') {
      app.log.info('a tenant’s schema was repaired', { tenant: slug });
      for (const topic of ['tenant', 'catalog', 'role'] as const) await app.invalidations.publish(topic, id);
    }
    return outcome ?? 'healthy';
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    app.log.error('a tenant’s schema could not be repaired', { tenant: slug, error });
    return error instanceof Error ? error.message : 'unknown failure';
  }
}

/** What can be mended stays mended, whatever is left. */
async function mend(app: App, tx: Transaction, id: string): Promise<string> {
  if ((await checkTenant(app, tx, id)).length === 0) return 'healthy';
  await applyTenantSchema(app, tx, id);
  const row = await tx.first<TenantRow>(sql`select ${TENANT_COLUMNS} from platform.tenants where id = ${id}::uuid`);
  if (row !== undefined) await repairEntities(tx, toTenant(row));
  const left = await checkTenant(app, tx, id);
  return left.length === 0 ? 'fixed' : `still missing: ${left.map(wordsOf).join(', ')}`;
}
