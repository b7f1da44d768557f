// The tenant of a request: X-Tenant-ID, then X-Tenant-Slug, then the credential's own tenant, then the host. A
// bound credential cannot access another tenant, and the 403 does not reveal whether that tenant exists.
// Failures: 400, 403, 404. Contract: interface#tenant-context, decisions#tenant-context.
import type { App } from '../app.ts';
import { forbidden, invalidField, notFound } from '../errors.ts';
import { countForStrangers } from '../runtime/work.ts';
import { type Tenant, tenantByHost, tenantBySlug } from '../tenants/tenants.ts';
import type { Caller } from './caller.ts';
import { propertiesOf } from './credential-kinds.ts';
import { attachNamedTenant, hostOf } from './request-context.ts';

const HEADERS = ['X-Tenant-ID', 'X-Tenant-Slug'] as const;

/** 403 when the request names a tenant other than the one its credential is bound to. */
export async function requireSameTenant(app: App, request: Request, bound: Tenant): Promise<void> {
  const slug = slugFromHeaders(request.headers);
  const named = slug ?? (await tenantOfHost(app, request))?.slug;
  if (named !== undefined && named !== bound.slug) throw forbidden('this credential belongs to another tenant');
}

/**
 * The tenant that a request without a credential names by header or host; null when it names none, 404 for an unknown slug. From
 * here on the request counts as work of the anonymous clients of this tenant: a burst of sign-ins, from whichever addresses,
 * delays other sign-ins to the same tenant, but neither the tenant's own calls nor other tenants.
 */
export async function namedTenant(app: App, request: Request): Promise<Tenant | null> {
  const tenant = (await tenantInHeaders(app, request)) ?? (await tenantOfHost(app, request));
  if (tenant === null) return null;
  countForStrangers(tenant.id);
  attachNamedTenant(request, tenant);
  return tenant;
}

/**
 * The tenant that a request names by header; null when it names none, 404 for an unknown slug. The super-admin acts only in a
 * tenant named by header: a host name could belong to a tenant that has taken it over.
 */
export async function tenantInHeaders(app: App, request: Request): Promise<Tenant | null> {
  const slug = slugFromHeaders(request.headers);
  if (slug === undefined) return null;
  const tenant = await tenantBySlug(app, slug);
  if (tenant === null) throw notFound('tenant');
  return tenant;
}

/** Whether the request names a tenant by header or, if the caller is bound to one, by host. */
export async function namesTenant(app: App, request: Request, { kind }: Caller): Promise<boolean> {
  if (slugFromHeaders(request.headers) !== undefined) return true;
  return propertiesOf(kind).tenant === 'bound' && (await tenantOfHost(app, request)) !== null;
}

/** The slug of the first tenant header. 400 for a header with differing values. */
function slugFromHeaders(headers: Headers): string | undefined {
  let chosen: string | undefined;
  for (const name of HEADERS) {
    const value = headers.get(name);
    if (value === null) continue;
    const slugs = new Set(value.split(',').map((slug) => slug.trim()));
    if (slugs.size > 1) throw invalidField(name, 'names more than one tenant');
    chosen ??= [...slugs][0];
  }
  return chosen;
}

async function tenantOfHost(app: App, request: Request): Promise<Tenant | null> {
  const host = hostOf(request, app.config.trustProxy);
  if (host === '' || host === 'localhost' || /^[\d.]+$|^\[/.test(host)) return null;
  return tenantByHost(app, host);
}
