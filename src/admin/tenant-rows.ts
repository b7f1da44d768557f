// The rows of tenants: stores a new tenant, and announces it to every process.
// Failures: 409 when the slug is taken.
// Contract: decisions#tenants.
import { publishOrigins } from '../access/listed-origins.ts';
import type { App } from '../app.ts';
import { conflict } from '../errors.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { jsonb, sql, type Tx } from '../runtime/sql.ts';
import { lockTenantNames } from '../tenants/custom-domains.ts';
import { createTenantSchema } from '../tenants/provision.ts';
import { type FoundBy, publishTenants, type Tenant } from '../tenants/tenants.ts';

/** Stores a tenant and creates its schema. 409 when the slug is taken. The caller publishes the change after commit. */
export async function insertTenant(app: App, tx: Transaction, tenant: TenantNames): Promise<void> {
  await insertTenantRow(tx, tenant);
  await createTenantSchema(app, tx, tenant.id);
}

type TenantNames = Pick<Tenant, 'id' | 'slug' | 'name' | 'settings'>;

/** Stores a tenant whose schema the caller provides. 409 when the slug is taken. */
export async function insertTenantRow(tx: Tx, { id, slug, name, settings }: TenantNames): Promise<void> {
  await lockTenantNames(tx);
  const taken = await tx.first(sql`select from platform.tenants where slug = ${slug}`);
  if (taken !== undefined) throw conflict(`a tenant ${slug} already exists`);
  await tx.rows(sql`
    insert into platform.tenants (id, slug, name, settings)
    values (${id}::uuid, ${slug}, ${name}, ${jsonb(settings)})`);
}

/** Announces to every process a new tenant, and the tenants that have lost their claim to its domain. */
export async function announceTenant(
  app: App,
  tenant: Pick<Tenant, 'id' | 'slug' | 'settings'>,
  others: readonly string[],
): Promise<void> {
  await publishTenants(app, [tenant.id, ...others], namesOf(tenant));
  await publishOrigins(app, tenant.id, tenant.settings.allowedOrigins ?? []);
}

/** The names by which the tenants may be found. */
export function namesOf(...tenants: Pick<Tenant, 'slug' | 'settings'>[]): FoundBy[] {
  return tenants.flatMap(({ slug, settings: { customDomain = null } }): FoundBy[] => [
    `slug:${slug}`,
    ...(customDomain === null ? [] : [`host:${customDomain}` as const]),
  ]);
}
