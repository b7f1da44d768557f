// Making a tenant's schema, completing it and dropping it. The same idempotent text provisions,
// upgrades and repairs; the tenant's row carries the text's digest. Whoever completes a schema holds
// that row, so that processes take turns by tenant. Durations are milliseconds.
import type { App } from '../app.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import { schemaOf } from './tenants.ts';

/** How long a table may keep the change of its definition waiting, and requests behind it. */
const LOCK_WAIT_MS = 5_000;

/** Creates or completes the tenant's schema; losing nothing that is there. */
export async function applyTenantSchema(app: App, tx: Transaction, tenantId: string): Promise<void> {
  const schema = identifier(schemaOf(tenantId));
  await tx.rows(sql`create schema if not exists ${schema}`);
  await tx.rows(sql`select set_config('search_path', ${`${schemaOf(tenantId)}, public`}, true)`);
  await tx.exec(app.tenantSchema.text);
  await tx.rows(sql`select set_config('search_path', 'public', true)`);
  await tx.rows(sql`
    update platform.tenants set schema_digest = ${app.tenantSchema.digest} where id = ${tenantId}::uuid`);
}

/**
 * Runs `work` in a transaction that holds the tenant: no other process completes or drops its schema meanwhile.
 * Undefined when there is no such tenant any more. A table that stays locked for too long fails it (SQLSTATE 55P03).
 */
export async function withTenantLock<T>(
  app: App,
  tenantId: string,
  work: (tx: Transaction, digest: string | null) => Promise<T>,
): Promise<T | undefined> {
  return app.db.slow.begin(async (tx) => {
    const row = await tx.first<{ digest: string | null }>(sql`
      select schema_digest as digest from platform.tenants where id = ${tenantId}::uuid for no key update`);
    if (row === undefined) return undefined;
    await tx.rows(sql`select set_config('lock_timeout', ${`${LOCK_WAIT_MS}ms`}, true)`);
    return work(tx, row.digest);
  });
}

/** Drops the schema and everything in it. */
export async function dropTenantSchema(tx: Tx, tenantId: string): Promise<void> {
  await tx.rows(sql`drop schema if exists ${identifier(schemaOf(tenantId))} cascade`);
}
