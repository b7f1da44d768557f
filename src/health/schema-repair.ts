// Repairs degraded tenants. It leaves out the others, and also tenants that lack only objects that need pgvector when that is
// missing. Each tenant is locked, checked, repaired and checked again in one transaction, so concurrent repairs share the work
// and count each tenant once. No existing row, column or table is changed. Faults that cannot be repaired are reported per
// tenant.
// Contract: interface#schema-health.
import type { App } from '../app.ts';
import { repairEntities } from '../entities/entities.ts';
import { ServiceError } from '../errors.ts';
import { forEachConcurrently } from '../runtime/concurrency.ts';
import { addVectorExtension } from '../runtime/migrate.ts';
import { isDeadlock, isLockTimeout } from '../runtime/postgres/failures.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { sql } from '../runtime/sql.ts';
import { LOCK_TIMEOUT_MS, repairTenantSchema, withTenantLock } from '../tenants/provision.ts';
import { TENANT_COLUMNS, type TenantRow, toTenant } from '../tenants/tenants.ts';
import { SCHEMA_CONCURRENCY } from '../tenants/upgrade.ts';
import { describeFinding, type Finding, needsVector } from './issues.ts';
import { type CheckedTenant, checkSchemas, checkTenant } from './schema-check.ts';

type Repair = { fixed: number; errors: { tenant: string; message: string }[] };

/** Repairs all degraded tenants; resolves to the number this call repaired and the failures. */
export async function repairSchemas(app: App): Promise<Repair> {
  const degraded = (await checkSchemas(app)).filter(({ findings }) => findings.length > 0);
  const lacksVector = degraded.some(({ findings }) => findings.some(({ check }) => check === 'extension_exists'));
  const canAddVector = !lacksVector || (await addExtension(app));
  const repair: Repair = { fixed: 0, errors: [] };
  await forEachConcurrently(degraded, SCHEMA_CONCURRENCY, async (tenant) => {
    const isInVain = !canAddVector && tenant.findings.every(needsVector);
    const outcome = isInVain ? stillMissing(tenant.findings) : await repairTenant(app, tenant);
    if (outcome === 'fixed') repair.fixed++;
    else if (outcome !== 'healthy') repair.errors.push({ tenant: tenant.slug, message: outcome });
  });
  repair.errors.sort((a, b) => (a.tenant < b.tenant ? -1 : 1));
  return repair;
}

/**
 * Adds pgvector, and resolves to whether it is there now. A failure is only logged: the tenants are repaired without pgvector,
 * which they report as missing.
 */
async function addExtension(app: App): Promise<boolean> {
  try {
    return await addVectorExtension(app.db.slow, app.log);
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    app.log.error('the extension vector could not be created', { error });
    return false;
  }
}

function stillMissing(findings: readonly Finding[]): string {
  return `still missing: ${findings.map(describeFinding).join(', ')}`;
}

/**
 * How often the repair of a tenant is tried that is being dropped or changed meanwhile: a deadlock with that ends one of the
 * two.
 */
const TRIES = 5;

/** `fixed`; `healthy` when another process repaired the schema or the tenant is gone; otherwise the failure's message. */
async function repairTenant(app: App, tenant: CheckedTenant, tries = 1): Promise<string> {
  const { id, slug } = tenant;
  try {
    const outcome = await withTenantLock(app, id, (tx, version) => repairLocked(app, tx, id, version), LOCK_TIMEOUT_MS);
    if (outcome === 'fixed') {
      app.log.info('tenant schema repaired', { tenant: slug });
      for (const topic of ['tenant', 'catalog', 'role'] as const) await app.invalidations.publish(topic, id);
    }
    return outcome ?? 'healthy';
  } catch (error) {
    if (isDeadlock(error) && tries < TRIES) return repairTenant(app, tenant, tries + 1);
    app.log.error('a tenant schema could not be repaired', { tenant: slug, error });
    if (isLockTimeout(error)) return 'another session locks the tenant or one of its tables; try again later';
    return error instanceof Error ? error.message : 'unknown failure';
  }
}

/** Repairs a tenant under its lock. A partial repair is committed too. */
async function repairLocked(app: App, tx: Transaction, id: string, version: number): Promise<string> {
  if (version > app.tenantSchema.migrations.length) return 'the schema version is newer than this process';
  if ((await checkTenant(app, tx, id)).length === 0) return 'healthy';
  await repairTenantSchema(app, tx, id, version);
  const row = await tx.first<TenantRow>(sql`select ${TENANT_COLUMNS} from platform.tenants where id = ${id}::uuid`);
  if (row !== undefined) await repairEntities(tx, toTenant(row));
  const left = await checkTenant(app, tx, id);
  return left.length === 0 ? 'fixed' : stillMissing(left);
}
