// The platform's operations on tenants: create, list, change. One transaction creates a tenant: row, schema,
// first owner, first key. Every process is notified of a change.
// Failures: 400 with every problem, 404, 409. Contract: decisions#tenants.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { listedBy, publishOrigins } from '../access/listed-origins.ts';
import { hashPassword } from '../access/passwords.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { pageParameters, parameters } from '../http/parameters.ts';
import { type Page, pageOf } from '../http/reply.ts';
import { closed, nullable, oneOf, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { issueOwnerKey } from '../keys/owner-keys.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { identifier, join, jsonb, sql, type Tx } from '../runtime/sql.ts';
import { checkClaim, lockTenantNames } from '../tenants/custom-domains.ts';
import {
  publishTenants,
  schemaOf,
  TENANT_COLUMNS,
  type Tenant,
  type TenantRow,
  tenantById,
  toTenant,
} from '../tenants/tenants.ts';
import { Email, Password, PersonName } from '../users/person.ts';
import { beginRelease, release } from '../webhooks/dispatch/quota-release.ts';
import { QuotaChange, QuotasSchema, shownQuotas } from './quotas.ts';
import { announceTenant, insertTenant, namesOf } from './tenant-rows.ts';
import {
  changeDomain,
  OperatorSettings,
  Settings,
  settingProblems,
  storedSettings,
  touchesDomain,
} from './tenant-settings.ts';

export const TenantSlug = Type.String({ pattern: '^[a-z][a-z0-9-]{1,46}[a-z0-9]$', examples: ['acme'] });
export const TenantName = text(LIMITS.tenant.nameMax, { examples: ['Acme Ltd'] });
const Status = oneOf(['active', 'suspended']);
const Shown = {
  id: Uuid,
  slug: TenantSlug,
  name: TenantName,
  status: Status,
  settings: Settings,
  quotas: QuotasSchema,
  customDomainStatus: nullable(oneOf(['pending', 'verified']), { examples: ['pending'] }),
  customDomainToken: nullable(
    Type.String({
      description: 'the TXT record of _svc-verify.<domain> that verifies it',
      examples: ['svc-verify-4hQ...'],
    }),
  ),
  createdAt: Timestamp,
  updatedAt: Timestamp,
};
const Count = Type.Integer({ minimum: 0 });
const Counts = Type.Object({ entities: Count, records: Count, users: Count });
export const OwnTenantSchema = Type.Object(Shown, { $id: 'OwnTenant' });
/** A tenant as operators see it. */
export const TenantSchema = Type.Object({ ...Shown, counts: Counts }, { $id: 'Tenant' });
type TenantView = Static<typeof TenantSchema>;
export const CreatedTenant = Type.Object({
  id: Uuid,
  slug: TenantSlug,
  name: TenantName,
  apiKey: Type.String({ description: 'shown once', examples: ['svc_ak_9fQ2...'] }),
});

const Owner = Type.Object({ email: Email, password: Password, name: PersonName });
type Owner = Static<typeof Owner>;
export const NewTenant = closed(
  { slug: TenantSlug, name: TenantName, settings: optional(OperatorSettings), owner: optional(Owner) },
  { $id: 'NewTenant' },
);
export type NewTenant = Static<typeof NewTenant>;
const OwnChanges = { name: Type.Optional(TenantName), settings: optional(Settings) };
/** A change of a tenant by its own admins: missing settings keep their values. */
export const OwnTenantChange = closed(OwnChanges);
export type OwnTenantChange = Static<typeof OwnTenantChange>;
export const TenantChange = closed({
  ...OwnChanges,
  settings: optional(OperatorSettings),
  status: Type.Optional(Status),
  quotas: Type.Optional(QuotaChange),
});
export type TenantChange = Static<typeof TenantChange>;

/** Creates a tenant. 400 with every problem, 409 when slug or domain is taken. `apiKey` is shown once. */
export async function createTenant(app: App, body: NewTenant): Promise<Static<typeof CreatedTenant>> {
  const { slug, name, settings, owner = null } = check(NewTenant, body, settingProblems(app));
  const passwordHash = owner === null ? null : await hashPassword(owner.password);
  const id = newId();
  const stored = storedSettings(settings);
  const { key, others } = await app.db.slow.begin(async (tx) => {
    await insertTenant(app, tx, { id, slug, name, settings: stored });
    const others = await changeDomain(tx, { id, settings: {}, isVerified: false }, settings ?? {});
    if (owner !== null) await insertOwner(tx, id, owner, passwordHash);
    const { key } = await issueOwnerKey(tx, id, { label: 'first key', createdBy: null });
    return { key, others };
  });
  await announceTenant(app, { id, slug, settings: stored }, others);
  return { id, slug, name, apiKey: key };
}

async function insertOwner(tx: Tx, tenantId: string, owner: Owner, passwordHash: string | null): Promise<void> {
  await tx.rows(sql`
    insert into ${identifier(schemaOf(tenantId), 'users')} (id, email, name, role, password_hash)
    values (${newId()}::uuid, ${owner.email}, ${owner.name}, 'owner', ${passwordHash})`);
}

export const TenantFilter = parameters({
  ...pageParameters(),
  search: Type.Optional(
    Type.String({ maxLength: LIMITS.tenant.nameMax, description: 'only those whose slug or name contains this text' }),
  ),
});

/** The tenants, newest first, with their counts; with `search` those whose slug or name contains it, in any case. */
export async function listTenants(app: App, filter: Static<typeof TenantFilter>): Promise<Page<TenantView>> {
  const { tenants, total, page, limit } = await tenantPage(app, filter);
  return pageOf(await withCounts(app, tenants), total, page, limit);
}

/** A page of the tenants, newest first, and their total; with `search`, only the tenants that contain it. */
export async function tenantPage(
  app: App,
  { page = 1, limit = LIMITS.list.limitDefault, search = '' }: Static<typeof TenantFilter>,
) {
  const found = sql`platform.tenants where ${search} = ''
    or strpos(slug, lower(${search})) > 0 or strpos(lower(name), lower(${search})) > 0`;
  const rows = await app.db.rows<TenantRow>(sql`
    select ${TENANT_COLUMNS} from ${found}
    order by id desc limit ${limit}::bigint offset ${(page - 1) * limit}::bigint`);
  const counted = await app.db.first<{ total: number }>(sql`select count(*) as total from ${found}`);
  return { tenants: rows.map(toTenant), total: counted?.total ?? 0, page, limit };
}

/** One tenant by its slug, with its counts. 404. */
export async function getTenant(app: App, slug: string): Promise<TenantView> {
  const rows = await app.db.rows<TenantRow>(sql`select ${TENANT_COLUMNS} from platform.tenants where slug = ${slug}`);
  const [view] = await withCounts(app, rows.map(toTenant));
  if (view === undefined) throw notFound('tenant');
  return view;
}

/** Adds the counts of all tenants in one statement. */
async function withCounts(app: App, tenants: readonly Tenant[]): Promise<TenantView[]> {
  if (tenants.length === 0) return [];
  const parts = tenants.map(
    ({ id, schema }) => sql`
      select ${id} as id,
        (select count(*) from ${identifier(schema, 'entity_definitions')}) as entities,
        (select coalesce(sum(n), 0)::bigint from platform.entity_counts where tenant_id = ${id}::uuid) as records,
        (select count(*) from ${identifier(schema, 'users')}) as users`,
  );
  const counted = await app.db.slow.rows<TenantView['counts'] & { id: string }>(join(parts, ' union all '));
  const byId = new Map(counted.map(({ id, ...counts }) => [id, counts]));
  const none = { entities: 0, records: 0, users: 0 };
  return tenants.map((tenant) => ({ ...ownView(tenant), counts: byId.get(tenant.id) ?? none }));
}

/** A tenant as its own admins see it. */
export function ownView({ id, slug, name, status, settings, quotas, domain, createdAt, updatedAt }: Tenant) {
  const [customDomainStatus, customDomainToken] = [domain?.status ?? null, domain?.token ?? null];
  const domainView = { customDomainStatus, customDomainToken };
  return { id, slug, name, status, settings, quotas: shownQuotas(quotas), ...domainView, createdAt, updatedAt };
}

/** The caller's own tenant. A pending domain is checked first, at most every few seconds. */
export async function getOwnTenant(app: App, { tenant }: TenantCaller): Promise<Tenant> {
  const isVerified = tenant.domain?.status === 'pending' && (await checkClaim(app, tenant.id));
  return (isVerified ? await tenantById(app, tenant.id) : null) ?? tenant;
}

/** Changes the caller's own tenant: name and settings. 400 with every problem, 409 for a taken domain. */
export function updateOwnTenant(app: App, { tenant }: TenantCaller, body: OwnTenantChange): Promise<Tenant> {
  return updateTenant(app, tenant.slug, check(OwnTenantChange, body));
}

/** Changes name, settings, quotas and status. A suspension ends the verification of the domain. 400 with every problem, 404, 409 for a taken domain. */
export async function updateTenant(app: App, slug: string, body: TenantChange): Promise<Tenant> {
  const { name, status, settings, quotas = {} } = check(TenantChange, body, settingProblems(app));
  const { row, before, others, released } = await app.db.begin(async (tx) => {
    // All tenants share this lock, so only a change of a domain takes it or waits for it.
    if (touchesDomain(settings)) await lockTenantNames(tx);
    const before = await tx.first<TenantRow>(sql`
      select ${TENANT_COLUMNS} from platform.tenants where slug = ${slug} for no key update`);
    if (before === undefined) throw notFound('tenant');
    const verified = { id: before.id, settings: before.settings, isVerified: before.domain_verified_at != null };
    const others = touchesDomain(settings) ? await changeDomain(tx, verified, settings ?? {}) : [];
    const row = await tx.first<TenantRow>(sql`
      update platform.tenants
      set name = coalesce(${name ?? null}, name), status = coalesce(${status ?? null}, status),
        settings = settings || ${jsonb(storedSettings(settings))}, quotas = jsonb_strip_nulls(quotas || ${jsonb(quotas)}),
        updated_at = now(), deletion = case when ${status ?? null}::text is null then deletion end,
        domain_verified_at = case when ${status ?? ''} <> 'suspended' then domain_verified_at end
      where id = ${before.id}::uuid
      returning ${TENANT_COLUMNS}`);
    const released = quotas.deliveriesPerDay === undefined ? undefined : await beginRelease(tx, before.id);
    return { row, before, others, released };
  });
  if (row === undefined) throw notFound('tenant');
  await publishTenants(
    app,
    [row.id, ...others],
    touchesDomain(settings) || status !== undefined ? namesOf(before, row) : [],
  );
  if (status !== undefined) await publishOrigins(app, row.id, await listedBy(app, row.id));
  else if (settings?.allowedOrigins != null) await publishOrigins(app, row.id, settings.allowedOrigins);
  if (released !== undefined) await release(app, released);
  return toTenant(row);
}
