// Tenants by slug, id or custom domain; null when there is none. Cached per process until any process
// publishes a change.
// Contract: interface#tenant-context, decisions#tenants.
import { type App, perApp } from '../app.ts';
import { type Sql, sql } from '../runtime/sql.ts';

export interface TenantSettings {
  selfRegistration?: boolean;
  passwordReset?: boolean;
  customDomain?: string | null;
}

/** The most that a tenant may use; a missing one does not limit. Rates are per minute and per UTC day. */
export const QUOTAS = [
  'records',
  'storageBytes',
  'requestsPerMin',
  'writesPerMin',
  'deliveriesPerDay',
  'streams',
  'sockets',
  'users',
] as const;
export type Quota = (typeof QUOTAS)[number];
export type Quotas = Readonly<Partial<Record<Quota, number>>>;

export interface Tenant {
  id: string;
  slug: string;
  name: string;
  status: 'active' | 'suspended';
  settings: TenantSettings;
  quotas: Quotas;
  /** Of the custom domain; null without one. */
  domain: { status: 'pending' | 'verified'; token: string } | null;
  /** The tenant's own Postgres schema. */
  schema: string;
  createdAt: string;
  updatedAt: string;
}

const DEFAULT_SETTINGS: TenantSettings = { selfRegistration: false, passwordReset: false, customDomain: null };
const CACHED_TENANTS = 10_000;

/** Keys begin with `slug:`, `id:` or `host:`. */
const cacheOf = perApp((app) => {
  const cache = app.invalidations.cache<Tenant | null>('tenant', CACHED_TENANTS);
  // A tenant is cached under several keys, former ones too, so any change clears the whole cache.
  app.invalidations.on('tenant', () => cache.clear());
  return cache;
});

/** Host names of the service itself, and reserved ones. */
const serviceHosts = perApp(({ config: { host, baseUrl, appUrl, reservedHosts } }): ReadonlySet<string> => {
  const urls = [baseUrl, appUrl].filter((url) => url !== null);
  return new Set([host.toLowerCase(), ...reservedHosts, ...urls.map((url) => new URL(url).hostname)]);
});

export async function tenantBySlug(app: App, slug: string): Promise<Tenant | null> {
  return cacheOf(app).get(`slug:${slug}`, () => find(app, sql`slug = ${slug}`));
}

export async function tenantById(app: App, id: string): Promise<Tenant | null> {
  return cacheOf(app).get(`id:${id}`, () => find(app, sql`id = ${id}::uuid`));
}

/** Whether this is a host name of the service itself or reserved: a tenant with this custom domain would capture every other tenant's requests. */
export function isServiceHost(app: App, host: string): boolean {
  return serviceHosts(app).has(host);
}

/** The active tenant whose verified custom domain this is. */
export async function tenantByHost(app: App, host: string): Promise<Tenant | null> {
  if (isServiceHost(app, host)) return null;
  return cacheOf(app).get(`host:${host}`, () =>
    find(app, sql`settings ->> 'customDomain' = ${host} and domain_verified_at is not null`),
  );
}

export interface TenantRow extends Omit<Tenant, 'schema' | 'createdAt' | 'updatedAt' | 'domain'> {
  domain_token?: string | null;
  domain_verified_at?: string | null;
  created_at: string;
  updated_at: string;
}

export const TENANT_COLUMNS = sql`
  id, slug, name, status, settings, quotas, domain_token, domain_verified_at, created_at, updated_at`;

async function find(app: App, condition: Sql): Promise<Tenant | null> {
  const row = await app.db.first<TenantRow>(sql`select ${TENANT_COLUMNS} from platform.tenants where ${condition}`);
  return row === undefined ? null : toTenant(row);
}

export function toTenant(row: TenantRow): Tenant {
  const { id, slug, name, status, quotas, created_at: createdAt, updated_at: updatedAt } = row;
  const settings = { ...DEFAULT_SETTINGS, ...row.settings };
  const token = row.domain_token ?? null;
  const isVerified = (row.domain_verified_at ?? null) !== null;
  const domain = token === null ? null : { status: isVerified ? ('verified' as const) : ('pending' as const), token };
  return { id, slug, name, status, settings, quotas, domain, schema: schemaOf(id), createdAt, updatedAt };
}

/** The schema's name is derived from the id alone, so a slug never becomes SQL text. */
export function schemaOf(tenantId: string): string {
  return `t_${tenantId.replaceAll('-', '')}`;
}
