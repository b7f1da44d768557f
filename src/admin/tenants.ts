// The platform's operations on tenants: create, list, change, delete. One transaction creates a tenant: row, schema,
// first owner, first key. Every process is notified of a change.
// Failures: 400 with every problem, 404, 409. Contract: decisions#tenants.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { hashPassword } from '../access/passwords.ts';
import type { App } from '../app.ts';
import { lockDefinitions } from '../entities/entities.ts';
import { conflict, invalidField, notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import type { Paging } from '../http/parameters.ts';
import { type Page, pageOf } from '../http/reply.ts';
import { closed, nullable, oneOf, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { issueOwnerKey } from '../keys/owner-keys.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { isDeadlock } from '../runtime/postgres/failures.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { identifier, join, jsonb, sql, type Tx } from '../runtime/sql.ts';
import { createTenantSchema, dropTenantSchema } from '../tenants/provision.ts';
import {
  isServiceHost,
  schemaOf,
  TENANT_COLUMNS,
  type Tenant,
  type TenantRow,
  type TenantSettings,
  toTenant,
} from '../tenants/tenants.ts';
import { Email, Password, PersonName } from '../users/person.ts';

/** Few are needed: a retry can deadlock only with writes that began before it. */
const DROP_TRIES = 10;
const HOST = '^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+$';

export const TenantSlug = Type.String({ pattern: '^[a-z][a-z0-9-]{1,46}[a-z0-9]$', examples: ['acme'] });
export const TenantName = text(LIMITS.tenant.nameMax, { examples: ['Acme Ltd'] });
const Status = oneOf(['active', 'suspended']);
const Settings = closed(
  {
    selfRegistration: Type.Optional(Type.Boolean({ examples: [false] })),
    passwordReset: Type.Optional(Type.Boolean({ examples: [false] })),
    customDomain: Type.Optional(
      nullable(Type.String({ pattern: HOST }), { error: 'must be a host name, or null', examples: ['data.acme.test'] }),
    ),
  },
  { $id: 'TenantSettings' },
);
const Shown = {
  id: Uuid,
  slug: TenantSlug,
  name: TenantName,
  status: Status,
  settings: Settings,
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
  { slug: TenantSlug, name: TenantName, settings: optional(Settings), owner: optional(Owner) },
  { $id: 'NewTenant' },
);
export type NewTenant = Static<typeof NewTenant>;
const OwnChanges = { name: Type.Optional(TenantName), settings: optional(Settings) };
/** Missing settings keep their values. */
export const OwnTenantChange = closed(OwnChanges);
export type OwnTenantChange = Static<typeof OwnTenantChange>;
export const TenantChange = closed({ ...OwnChanges, status: Type.Optional(Status) });
export type TenantChange = Static<typeof TenantChange>;

/** Creates a tenant. 400 with every problem, 409 when slug or domain is taken. `apiKey` is shown once. */
export async function createTenant(app: App, body: NewTenant): Promise<Static<typeof CreatedTenant>> {
  const { slug, name, settings, owner = null } = check(NewTenant, body);
  const passwordHash = owner === null ? null : await hashPassword(owner.password);
  const id = newId();
  const apiKey = await app.db.slow.begin(async (tx) => {
    await insertTenant(app, tx, { id, slug, name, settings: storedSettings(settings) });
    if (owner !== null) await insertOwner(tx, id, owner, passwordHash);
    const { key } = await issueOwnerKey(tx, id, { label: 'first key', createdBy: null });
    return key;
  });
  await app.invalidations.publish('tenant', id);
  return { id, slug, name, apiKey };
}

/**
 * Stores a tenant and creates its schema. 409 when slug or domain is taken. The caller publishes the change after
 * commit.
 */
export async function insertTenant(
  app: App,
  tx: Transaction,
  { id, slug, name, settings }: Pick<Tenant, 'id' | 'slug' | 'name' | 'settings'>,
): Promise<void> {
  await requireNamesFree(app, tx, { slug, domain: settings.customDomain ?? null });
  await tx.rows(sql`
    insert into platform.tenants (id, slug, name, settings)
    values (${id}::uuid, ${slug}, ${name}, ${jsonb(settings)})`);
  await createTenantSchema(app, tx, id);
}

function storedSettings(settings: NewTenant['settings']): TenantSettings {
  const { customDomain, ...switches } = settings ?? {};
  return customDomain === undefined ? switches : { ...switches, customDomain: customDomain?.toLowerCase() ?? null };
}

/**
 * 409 when another tenant has the slug or domain, or the service itself has the domain. Holds a lock on all names until
 * the commit.
 */
async function requireNamesFree(
  app: App,
  tx: Tx,
  { slug, domain, owner }: { slug?: string; domain: string | null; owner?: string },
): Promise<void> {
  const domainTaken = `the domain ${domain} is taken`;
  if (domain !== null && isServiceHost(app, domain)) throw conflict(domainTaken);
  await tx.rows(sql`select pg_advisory_xact_lock(hashtext('tenant names'))`);
  const taken = await tx.first<{ slug: string }>(sql`
    select slug from platform.tenants
    where (slug = ${slug ?? null} or settings ->> 'customDomain' = ${domain})
      and slug is distinct from ${owner ?? null}`);
  if (taken !== undefined) throw conflict(taken.slug === slug ? `a tenant ${slug} already exists` : domainTaken);
}

async function insertOwner(tx: Tx, tenantId: string, owner: Owner, passwordHash: string | null): Promise<void> {
  await tx.rows(sql`
    insert into ${identifier(schemaOf(tenantId), 'users')} (id, email, name, role, password_hash)
    values (${newId()}::uuid, ${owner.email}, ${owner.name}, 'owner', ${passwordHash})`);
}

/** All tenants, newest first, with their counts. */
export async function listTenants(app: App, paging: Paging): Promise<Page<TenantView>> {
  const { tenants, total, page, limit } = await tenantPage(app, paging);
  return pageOf(await withCounts(app, tenants), total, page, limit);
}

/** A page of the tenants, newest first, and the number of all. */
export async function tenantPage(app: App, { page = 1, limit = LIMITS.list.limitDefault }: Paging) {
  const rows = await app.db.rows<TenantRow>(sql`
    select ${TENANT_COLUMNS} from platform.tenants
    order by id desc limit ${limit}::bigint offset ${(page - 1) * limit}::bigint`);
  const counted = await app.db.first<{ total: number }>(sql`select count(*) as total from platform.tenants`);
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
        (select coalesce(sum(n), 0)::bigint from ${identifier(schema, 'entity_counts')}) as records,
        (select count(*) from ${identifier(schema, 'users')}) as users`,
  );
  const counted = await app.db.slow.rows<TenantView['counts'] & { id: string }>(join(parts, ' union all '));
  const byId = new Map(counted.map(({ id, ...counts }) => [id, counts]));
  const none = { entities: 0, records: 0, users: 0 };
  return tenants.map((tenant) => ({ ...ownView(tenant), counts: byId.get(tenant.id) ?? none }));
}

/** A tenant as its own admins see it. */
export function ownView({ id, slug, name, status, settings, createdAt, updatedAt }: Tenant) {
  return { id, slug, name, status, settings, createdAt, updatedAt };
}

/** Changes the caller's own tenant: name and settings. 400 with every problem, 409 for a taken domain. */
export function updateOwnTenant(app: App, { tenant }: TenantCaller, body: OwnTenantChange): Promise<Tenant> {
  return updateTenant(app, tenant.slug, check(OwnTenantChange, body));
}

/** Changes name, settings and status. 400 with every problem, 404, 409 for a taken domain. */
export async function updateTenant(app: App, slug: string, body: TenantChange): Promise<Tenant> {
  const { name, status, settings: given } = check(TenantChange, body);
  const settings = storedSettings(given);
  const row = await app.db.begin(async (tx) => {
    if (settings.customDomain) await requireNamesFree(app, tx, { domain: settings.customDomain, owner: slug });
    return tx.first<TenantRow>(sql`
      update platform.tenants
      set name = coalesce(${name ?? null}, name), status = coalesce(${status ?? null}, status),
        settings = settings || ${jsonb(settings)}, updated_at = now()
      where slug = ${slug}
      returning ${TENANT_COLUMNS}`);
  });
  if (row === undefined) throw notFound('tenant');
  await app.invalidations.publish('tenant', row.id);
  return toTenant(row);
}

/** Deletes a tenant and all of its data. 400 unless `confirm` repeats the slug. */
export async function deleteTenant(app: App, slug: string, confirm: string | undefined): Promise<string> {
  if (confirm !== slug) throw invalidField('confirm', 'must repeat the slug of the tenant to delete');
  const id = await dropTenant(app, slug);
  await app.invalidations.publish('tenant', id);
  await app.invalidations.publish('catalog', id);
  return id;
}

/** Retries on deadlock: a write may hold one table of the tenant and wait for another. */
async function dropTenant(app: App, slug: string): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      return await app.db.slow.begin((tx) => dropIn(tx, slug));
    } catch (error) {
      if (!isDeadlock(error) || tries === DROP_TRIES) throw error;
    }
  }
}

/** Takes the definition lock first; otherwise this and a change of definitions could deadlock. */
async function dropIn(tx: Tx, slug: string): Promise<string> {
  const found = await tx.first<{ id: string }>(sql`select id from platform.tenants where slug = ${slug}`);
  if (found === undefined) throw notFound('tenant');
  const { id } = found;
  await lockDefinitions(tx, schemaOf(id));
  const deleted = await tx.first(sql`delete from platform.tenants where id = ${id}::uuid returning id`);
  if (deleted === undefined) throw notFound('tenant');
  await dropTenantSchema(tx, id);
  await tx.rows(sql`delete from platform.events where tenant_id = ${id}::uuid`);
  await tx.rows(sql`delete from platform.idempotency_keys where tenant_id = ${id}::uuid`);
  return id;
}
