// Tenants: who they are and how they are found, by slug, id or custom domain. Cached per process,
// dropped when any process announces a change; null where there is none.
// Contract: interface#tenant-context, decisions#tenants.
import type { App } from '../app.ts';
import { Cache } from '../runtime/cache.ts';
import { type Sql, sql } from '../runtime/sql.ts';

export interface TenantSettings {
  selfRegistration?: boolean;
  passwordReset?: boolean;
  customDomain?: string | null;
}

export interface Tenant {
  id: string;
  slug: string;
  name: string;
  status: 'active' | 'suspended';
  settings: TenantSettings;
  /** The tenant's own Postgres schema. */
  schema: string;
  createdAt: string;
  updatedAt: string;
}

const DEFAULT_SETTINGS: TenantSettings = { selfRegistration: false, passwordReset: false, customDomain: null };
const CACHED_TENANTS = 10_000;

interface TenantCaches {
  /** By `slug:`, `id:` and `host:`; null where there is none. */
  found: Cache<Tenant | null>;
  /** Hosts of the service itself. */
  own: ReadonlySet<string>;
}

const caches = new WeakMap<App, TenantCaches>();

function cachesOf(app: App): TenantCaches {
  const existing = caches.get(app);
  if (existing !== undefined) return existing;
  const { host, baseUrl, appUrl } = app.config;
  const urls = [baseUrl, appUrl].filter((url) => url !== null);
  const own = new Set([host.toLowerCase(), ...urls.map((url) => new URL(url).hostname)]);
  const made = { found: new Cache<Tenant | null>(CACHED_TENANTS, () => app.changes.heard), own };
  // A tenant is cached under three names and its old ones, so a change to any drops them all.
  app.changes.on('tenant', () => made.found.clear());
  caches.set(app, made);
  return made;
}

export async function tenantBySlug(app: App, slug: string): Promise<Tenant | null> {
  return cachesOf(app).found.get(`slug:${slug}`, () => find(app, sql`slug = ${slug}`));
}

export async function tenantById(app: App, id: string): Promise<Tenant | null> {
  return cachesOf(app).found.get(`id:${id}`, () => find(app, sql`id = ${id}::uuid`));
}

/** Whether the service itself goes by this host: a tenant that had it would speak for all the others. */
export function isOwnHost(app: App, host: string): boolean {
  return cachesOf(app).own.has(host);
}

/** The tenant whose settings name this host as their custom domain. */
export async function tenantByHost(app: App, host: string): Promise<Tenant | null> {
  if (isOwnHost(app, host)) return null;
  return cachesOf(app).found.get(`host:${host}`, () => find(app, sql`settings ->> 'customDomain' = ${host}`));
}

export interface TenantRow {
  id: string;
  slug: string;
  name: string;
  status: 'active' | 'suspended';
  settings: TenantSettings;
  created_at: string;
  updated_at: string;
}

export const TENANT_COLUMNS = sql`id, slug, name, status, settings, created_at, updated_at`;

async function find(app: App, condition: Sql): Promise<Tenant | null> {
  const row = await app.db.first<TenantRow>(sql`select ${TENANT_COLUMNS} from platform.tenants where ${condition}`);
  return row === undefined ? null : toTenant(row);
}

export function toTenant(row: TenantRow): Tenant {
  const { id, slug, name, status, created_at: createdAt, updated_at: updatedAt } = row;
  const settings = { ...DEFAULT_SETTINGS, ...row.settings };
  return { id, slug, name, status, settings, schema: schemaOf(id), createdAt, updatedAt };
}

/** The schema's name follows from the tenant's id alone, so a slug never reaches SQL text. */
export function schemaOf(tenantId: string): string {
  return `t_${tenantId.replaceAll('-', '')}`;
}
