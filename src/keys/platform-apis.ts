// Platform APIs: a tenant admin's definition of what the platform keys of each role may do. A change takes effect on
// the API's keys on every process within a second.
// Failures: 400 with every problem, 404, 409. Contract: interface#platform-key, decisions#keys.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { lockRoles } from '../access/grants.ts';
import type { App } from '../app.ts';
import { conflict, notFound, type Problem } from '../errors.ts';
import { check, given, requireFits, type Valid } from '../http/check.ts';
import { byResource, closed, closedChange, type Deleted, Operations, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { jsonb, type Queries, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { requireRoom } from '../tenants/definition-counts.ts';

const { rolesMax, roleNameMax } = LIMITS.platformApi;

/** Operations by resource and role. */
const Permissions = byResource(Type.Record(Type.String(), Operations), {
  description: 'operations by entity (or `*`, `view:<slug>`, `agent:<name>`) and role',
  examples: [{ '*': { reader: ['read'] } }],
});
const Members = {
  name: text(LIMITS.key.labelMax, { examples: ['Shop'] }),
  slug: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$', examples: ['shop'] }),
  roles: Type.Array(text(roleNameMax), {
    minItems: 1,
    maxItems: rolesMax,
    uniqueItems: true,
    error: `must be a list of 1 to ${rolesMax} role names`,
    description: 'each a role of the tenant or a role in `permissions`',
    examples: [['reader']],
  }),
  permissions: Permissions,
};
export const PlatformApiSchema = Type.Object(
  { id: Uuid, ...Members, createdAt: Timestamp, updatedAt: Timestamp },
  { $id: 'PlatformApi' },
);
export type PlatformApi = Static<typeof PlatformApiSchema>;
export const PlatformApiDefinition = closed(Members);
export type PlatformApiDefinition = Static<typeof PlatformApiDefinition>;
/** A change of an API: members that are missing or null keep their values. */
export const PlatformApiChange = closedChange(Members);
export type PlatformApiChange = Static<typeof PlatformApiChange>;

const COLUMNS = sql`id, name, slug, roles, permissions, created_at as "createdAt", updated_at as "updatedAt"`;

/** Creates an API. 409 when the slug is taken. */
export async function createPlatformApi(
  app: App,
  caller: TenantCaller,
  body: PlatformApiDefinition,
): Promise<PlatformApi> {
  requireFits(body, 'a platform API', LIMITS.definitionBytesMax);
  const row = await app.db.begin(async (tx) => {
    const { name, slug, roles, permissions } = check(PlatformApiDefinition, body, await roleProblems(tx, caller, body));
    await requireRoom(tx, caller.tenant, 'platformApis');
    return tx.first<PlatformApi>(sql`
      insert into platform.apis (id, tenant_id, name, slug, roles, permissions)
      values (${newId()}::uuid, ${caller.tenant.id}::uuid, ${name}, ${slug}, ${jsonb(roles)}, ${jsonb(permissions)})
      on conflict (tenant_id, slug) do nothing
      returning ${COLUMNS}`);
  });
  if (row === undefined) throw taken(body.slug);
  return row;
}

/** The tenant's APIs, newest first. */
export async function listApis(app: App, caller: TenantCaller): Promise<PlatformApi[]> {
  return app.db.rows<PlatformApi>(sql`
    select ${COLUMNS} from platform.apis where tenant_id = ${caller.tenant.id}::uuid order by id desc`);
}

/** One API of the tenant; 404 otherwise. */
export async function getApi(app: App, caller: TenantCaller, id: string): Promise<PlatformApi> {
  return found(app.db, caller, id, sql``);
}

async function found(queries: Queries, { tenant }: TenantCaller, id: string, lock: Sql): Promise<PlatformApi> {
  if (!isUuid(id)) throw notFound('API');
  const row = await queries.first<PlatformApi>(sql`
    select ${COLUMNS} from platform.apis where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid ${lock}`);
  if (row === undefined) throw notFound('API');
  return row;
}

/**
 * Changes the given members. The others are locked until the change is stored, so that rights that somebody else has just taken
 * away do not come back. Keys whose role the API no longer has lose all permissions.
 */
export async function updateApi(
  app: App,
  caller: TenantCaller,
  id: string,
  body: PlatformApiChange,
): Promise<PlatformApi> {
  const { tenant } = caller;
  const update = async (tx: Tx) => {
    const current = await found(tx, caller, id, sql`for no key update`);
    const { id: _, createdAt, updatedAt, ...definition } = current;
    requireFits({ ...definition, ...body }, 'a platform API', LIMITS.definitionBytesMax);
    const change = given(check(PlatformApiChange, body, await roleProblems(tx, caller, body, current)));
    const { name, slug, roles, permissions } = { ...current, ...change };
    return tx.first<PlatformApi>(sql`
      update platform.apis
      set name = ${name}, slug = ${slug}, roles = ${jsonb(roles)}, permissions = ${jsonb(permissions)},
        updated_at = now()
      where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid
      returning ${COLUMNS}`);
  };
  const row = await app.db.begin(update).catch((error: { constraint_name?: string } | null) => {
    throw error?.constraint_name === 'apis_slug_key' ? taken(body.slug) : error;
  });
  if (row === undefined) throw notFound('API');
  await invalidateKeys(app, caller, await keyHashes(app.db, caller, id));
  return row;
}

/** Deletes the API and all its keys. No key is issued meanwhile, which would go on working until it is forgotten. */
export async function deleteApi(app: App, caller: TenantCaller, id: string): Promise<Static<typeof Deleted>> {
  const hashes = await app.db.begin(async (tx) => {
    await found(tx, caller, id, sql`for update`);
    const keys = await keyHashes(tx, caller, id);
    await tx.rows(sql`delete from platform.apis where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid`);
    return keys;
  });
  await invalidateKeys(app, caller, hashes);
  return { id: id.toLowerCase(), deleted: true };
}

/**
 * Finds roles that are neither in the tenant nor in `permissions`, unless the API has them already. The tenant's roles are
 * locked until the transaction ends, since they restrict the API's keys.
 */
async function roleProblems(tx: Tx, { tenant }: TenantCaller, body: PlatformApiChange, current?: PlatformApi) {
  const named = Array.isArray(body.roles) ? body.roles.filter((role) => typeof role === 'string') : [];
  const locked = await lockRoles(tx, tenant, named.slice(0, rolesMax));
  const keys = Object.values(body.permissions ?? current?.permissions ?? {}).flatMap((byRole) =>
    Object.keys(byRole ?? {}),
  );
  const known = new Set([...locked, ...(current?.roles ?? []), ...keys]);
  const givesPermissions = current === undefined || (body.permissions ?? null) !== null;
  return ({ roles, permissions }: Valid<PlatformApiChange>): Problem[] => {
    // Invalid permissions may be the ones that name the roles.
    if (givesPermissions && permissions === undefined) return [];
    const unknown = (roles ?? []).filter((role) => role !== undefined && !known.has(role));
    return unknown.map((role) => ({ path: 'roles', message: `"${role}" is neither a role nor a key of permissions` }));
  };
}

function taken(slug: unknown): Error {
  return conflict(`an API with the slug ${slug} already exists`);
}

async function keyHashes(queries: Queries, { tenant }: TenantCaller, apiId: string): Promise<string[]> {
  const rows = await queries.rows<{ hash: string }>(sql`
    select encode(hash, 'hex') as hash from platform.platform_keys
    where api_id = ${apiId}::uuid and tenant_id = ${tenant.id}::uuid and revoked_at is null and (expires_at is null or expires_at > now())`);
  return rows.map(({ hash }) => hash);
}

async function invalidateKeys(app: App, { tenant }: TenantCaller, hashes: readonly string[]): Promise<void> {
  await app.invalidations.publish('credential', hashes, tenant.id);
}
