// The roles of a tenant: list, add, change, delete. Users and keys refer to roles, so a change affects all of them,
// on every process within a second.
// Failures: 400 with every problem, 404, 409 for a taken name, a system role, or a role in use.
// Contract: decisions#roles.
import type { TenantCaller } from '../access/caller.ts';
import { lockEntities } from '../access/grants.ts';
import { isAdminRole, type Role, rolesOf } from '../access/role-store.ts';
import type { App } from '../app.ts';
import { lockCatalog } from '../entities/entities.ts';
import { conflict, notFound } from '../errors.ts';
import { check, requireFits } from '../http/check.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { identifier, jsonb, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { jsonBytes } from '../runtime/text.ts';
import { requireRoom, requireTextFits } from '../tenants/definition-counts.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { NewRole, RoleChange, roleProblems } from './role-input.ts';
import { usersTable } from './users.ts';

/** All roles, the system ones first, then by name. */
export async function listRoles(app: App, { tenant }: TenantCaller): Promise<Role[]> {
  return [...(await rolesOf(app, tenant)).byName.values()];
}

/** One role by its name. 404. */
export async function getRole(app: App, { tenant }: TenantCaller, name: string): Promise<Role> {
  const role = (await rolesOf(app, tenant)).byName.get(name);
  if (role === undefined) throw notFound('role');
  return role;
}

/** Adds a role. */
export async function addRole(app: App, caller: TenantCaller, body: NewRole): Promise<Role> {
  const { tenant } = caller;
  requireFits(body, 'a role', LIMITS.definitionBytesMax);
  const row = await app.db.begin(async (tx) => {
    const catalog = await lockCatalog(tx, tenant);
    const { name, description, permissions, entities } = check(NewRole, body, (valid) =>
      roleProblems(valid, catalog, caller),
    );
    await lockEntities(tx, tenant, permissions, 'permissions');
    await requireRoom(tx, tenant, 'roles');
    await requireTextFits(tx, tenant, 'roles', jsonBytes(body));
    return tx.first(sql`
      insert into ${rolesTable(tenant)} (id, name, description, permissions, entities)
      values (${newId()}::uuid, ${name}, ${description ?? null}, ${jsonb(permissions)}, ${jsonb(entities ?? {})})
      on conflict (name) do nothing
      returning id`);
  });
  if (row === undefined) throw conflict('a role with this name exists', [{ path: 'name', message: 'is taken' }]);
  await app.invalidations.publish('role', tenant.id);
  return getRole(app, caller, body.name);
}

/** Changes the members in the body; `permissions` and `entities` are replaced as a whole. The name is fixed. */
export async function changeRole(app: App, caller: TenantCaller, name: string, body: RoleChange): Promise<Role> {
  const { tenant } = caller;
  const { id: _, isSystem, createdAt, updatedAt, ...rest } = await getRole(app, caller, name);
  if (isAdminRole(name)) throw conflict(`the role ${name} cannot be changed`);
  requireFits({ ...rest, ...body }, 'a role', LIMITS.definitionBytesMax);
  const row = await app.db.begin(async (tx) => {
    const catalog = await lockCatalog(tx, tenant);
    const { description, permissions, entities } = check(RoleChange, body, (valid) => [
      ...((valid.name ?? name) === name ? [] : [{ path: 'name', message: 'cannot be changed' }]),
      ...roleProblems(valid, catalog, caller),
    ]);
    await lockEntities(tx, tenant, permissions ?? {}, 'permissions');
    await requireTextFits(tx, tenant, 'roles', jsonBytes({ ...rest, ...body }) - jsonBytes(rest));
    return tx.first(sql`
      update ${rolesTable(tenant)}
      set description = case when ${description === undefined}::boolean then description else ${description ?? null} end,
        permissions = coalesce(${jsonb(permissions)}, permissions), entities = coalesce(${jsonb(entities)}, entities),
        updated_at = now()
      where name = ${name}
      returning id`);
  });
  if (row === undefined) throw notFound('role');
  await app.invalidations.publish('role', tenant.id);
  return getRole(app, caller, name);
}

/** Deletes a role that is not in use. Returns its id. */
export async function removeRole(app: App, { tenant }: TenantCaller, name: string): Promise<string> {
  const id = await app.db.begin(async (tx) => {
    const role = await tx.first<{ id: string; is_system: boolean }>(sql`
      select id, is_system from ${rolesTable(tenant)} where name = ${name} for update`);
    if (role === undefined) throw notFound('role');
    if (role.is_system) throw conflict(`the role ${name} cannot be deleted`);
    const uses = await usesOf(tx, tenant, name, role.id);
    if (uses.length > 0) throw conflict(`the role ${name} is in use: ${uses.join(', ')}`);
    await tx.rows(sql`delete from ${rolesTable(tenant)} where id = ${role.id}::uuid`);
    return role.id;
  });
  await app.invalidations.publish('role', tenant.id);
  return id;
}

const USE_LABELS = {
  users: 'users',
  invitations: 'invitations',
  apis: 'platform APIs',
  keys: 'keys',
  webhooks: 'webhook subscriptions',
} as const;
type Use = keyof typeof USE_LABELS;

/** The uses of a role, with counts. A platform API counts: without the role its keys would lose their restrictions. */
async function usesOf(tx: Tx, { id: tenantId, ...tenant }: Tenant, name: string, roleId: string): Promise<string[]> {
  const ofTenant = sql`tenant_id = ${tenantId}::uuid`;
  const uses = await tx.first<Record<Use, number>>(sql`
    select
      (select count(*) from ${usersTable(tenant)} where role = ${name}) as users,
      (select count(*) from platform.invitations
        where ${ofTenant} and role = ${name} and accepted_at is null and revoked_at is null and expires_at > now()
      ) as invitations,
      (select count(*) from platform.apis where ${ofTenant} and roles @> to_jsonb(${name}::text)) as apis,
      (select count(*) from platform.public_keys
        where ${ofTenant} and role_id = ${roleId}::uuid and revoked_at is null and expires_at > now()
      ) + (select count(*) from platform.platform_keys
        where ${ofTenant} and role = ${name} and revoked_at is null and (expires_at is null or expires_at > now())
      ) as keys,
      (select count(*) from platform.webhook_subscriptions where ${ofTenant} and role = ${name}) as webhooks`);
  return Object.entries(USE_LABELS).flatMap(([use, label]) => {
    const count = uses?.[use as Use] ?? 0;
    return count > 0 ? [`${label}: ${count}`] : [];
  });
}

function rolesTable({ schema }: Tenant): Sql {
  return identifier(schema, 'roles');
}
