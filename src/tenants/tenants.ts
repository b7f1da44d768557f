// Finds tenants by slug, id or custom domain; null when there is none. Each process caches them until any process publishes a
// change of the tenant or of the name, so changes of one tenant cost others nothing.
// Contract: interface#tenant-context, decisions#tenants.
import { type App, perApp } from '../app.ts';
import { type Sql, sql } from '../runtime/sql.ts';

export interface TenantSettings {
  selfRegistration?: boolean;
  passwordReset?: boolean;
  customDomain?: string | null;
  /** The origins whose pages may use the tenant's credentials. */
  allowedOrigins?: string[];
  /** How many days events are kept, at most as long as the service keeps them; null or missing for that maximum. */
  eventRetentionDays?: number | null;
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
  /** The verification of the custom domain; null without one. */
  domain: { status: 'pending' | 'verified'; token: string } | null;
  /** The tenant's own Postgres schema. */
  schema: string;
  createdAt: string;
  updatedAt: string;
}

const DEFAULT_SETTINGS: TenantSettings = {
  selfRegistration: false,
  passwordReset: false,
  customDomain: null,
  allowedOrigins: [],
};
const CACHED_TENANTS = 10_000;
const CACHED_NAMES = 20_000;
/** The longest slug. A name in a header may have 16 KB, and names without a tenant are cached too. */
const SLUG_MAX = 48;
const HOST_MAX = 253;

/** Tenants by id, and the id of the tenant by name: null for a name that no tenant has. */
const cachesOf = perApp((app) => ({
  tenants: app.invalidations.cache<Tenant | null>('tenant', CACHED_TENANTS),
  ids: app.invalidations.cache<string | null>('name', CACHED_NAMES),
}));

/** A name by which a tenant is found, besides its id. */
export type FoundBy = `slug:${string}` | `host:${string}`;

/** Host names of the service itself, and reserved ones. */
const serviceHosts = perApp(({ config: { host, baseUrl, appUrl, reservedHosts } }): ReadonlySet<string> => {
  const urls = [baseUrl, appUrl].filter((url) => url !== null);
  return new Set([host.toLowerCase(), ...reservedHosts, ...urls.map((url) => new URL(url).hostname)]);
});

export async function tenantBySlug(app: App, slug: string): Promise<Tenant | null> {
  if (slug.length > SLUG_MAX) return null;
  return tenantNamed(app, `slug:${slug}`, sql`slug = ${slug}`);
}

export async function tenantById(app: App, id: string): Promise<Tenant | null> {
  return cachesOf(app).tenants.get(id, async () => {
    const row = await app.db.first<TenantRow>(sql`
      select ${TENANT_COLUMNS} from platform.tenants where id = ${id}::uuid`);
    return row === undefined ? null : toTenant(row);
  });
}

/**
 * Whether the tenant has been deleted. For work of the tenant that has failed: after a deletion it fails in many ways, which
 * nobody needs to look into. Queries the database. False when that is not possible.
 */
export async function isDeleted({ db }: App, id: string): Promise<boolean> {
  const found = db.first(sql`select from platform.tenants where id = ${id}::uuid`);
  return found.then(
    (row) => row === undefined,
    () => false,
  );
}

/**
 * Whether the service itself uses or reserves this host name: a tenant with this custom domain would capture every other
 * tenant's requests.
 */
export function isServiceHost(app: App, host: string): boolean {
  return serviceHosts(app).has(host);
}

/** The active tenant whose verified custom domain this is. */
export async function tenantByHost(app: App, host: string): Promise<Tenant | null> {
  if (host.length > HOST_MAX || isServiceHost(app, host)) return null;
  const isVerified = sql`settings ->> 'customDomain' = ${host} and domain_verified_at is not null`;
  return tenantNamed(app, `host:${host}`, isVerified);
}

async function tenantNamed(app: App, name: FoundBy, condition: Sql): Promise<Tenant | null> {
  const id = await cachesOf(app).ids.get(name, async () => {
    const row = await app.db.first<{ id: string }>(sql`select id from platform.tenants where ${condition}`);
    return row?.id ?? null;
  });
  return id === null ? null : tenantById(app, id);
}

/** Makes every process read these tenants and names again. Call it after the commit of their change. */
export async function publishTenants(app: App, ids: readonly string[], names: readonly FoundBy[]): Promise<void> {
  await app.invalidations.publish('name', names);
  await app.invalidations.publish('tenant', ids);
}

export interface TenantRow extends Omit<Tenant, 'schema' | 'createdAt' | 'updatedAt' | 'domain'> {
  domain_token?: string | null;
  domain_verified_at?: string | null;
  created_at: string;
  updated_at: string;
}

export const TENANT_COLUMNS = sql`
  id, slug, name, status, settings, quotas, domain_token, domain_verified_at, created_at, updated_at`;

export function toTenant(row: TenantRow): Tenant {
  const { id, slug, name, status, quotas, created_at: createdAt, updated_at: updatedAt } = row;
  const settings = shownSettings(row);
  const token = row.domain_token ?? null;
  const isVerified = (row.domain_verified_at ?? null) !== null;
  const domain = token === null ? null : { status: isVerified ? ('verified' as const) : ('pending' as const), token };
  return { id, slug, name, status, settings, quotas, domain, schema: schemaOf(id), createdAt, updatedAt };
}

/** The settings, with defaults for those that are not stored. */
export function shownSettings({ settings }: Pick<Tenant, 'settings'>): TenantSettings {
  return { ...DEFAULT_SETTINGS, ...settings };
}

const DAY_MS = 86_400_000;

/** The time of the oldest kept events and deliveries of a tenant, in milliseconds since the epoch. */
export function keptSince({ config }: App, { settings }: Pick<Tenant, 'settings'>, now = Date.now()): number {
  return now - Math.min(config.eventRetentionDays, settings.eventRetentionDays ?? config.eventRetentionDays) * DAY_MS;
}

/** The schema's name is derived from the id alone, so a slug never becomes SQL text. */
export function schemaOf(tenantId: string): string {
  return `t_${tenantId.replaceAll('-', '')}`;
}
