// The roles of a tenant and the rights they grant, cached per process. A change of a role takes effect on every
// process within a second; a deleted role grants none.
// Contract: decisions#roles, decisions#changes-of-rights.
import { type App, perApp } from '../app.ts';
import { identifier, notKept, sql } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { type EntityRestriction, FULL_RIGHTS, NO_RIGHTS, type Operation, type Rights } from './rights.ts';

export interface Role {
  id: string;
  name: string;
  description: string | null;
  isSystem: boolean;
  permissions: Record<string, Operation[]>;
  entities: Record<string, EntityRestriction>;
  createdAt: string;
  updatedAt: string;
}

export interface TenantRoles {
  byName: ReadonlyMap<string, Role>;
  byId: ReadonlyMap<string, Role>;
}

/** Whether a role makes its users tenant admins, who have full rights. */
export function isAdminRole(name: string | null): boolean {
  return name === 'owner' || name === 'admin';
}

/** The rights that a role grants; none for a missing role. */
export function rightsOf(role: Role | undefined): Rights {
  if (role === undefined) return NO_RIGHTS;
  if (isAdminRole(role.name)) return FULL_RIGHTS;
  return { isUnlimited: false, permissions: role.permissions, restrictions: role.entities };
}

const CACHED_TENANTS = 5_000;
const cacheOf = perApp((app) => app.invalidations.cache<TenantRoles>('role', CACHED_TENANTS));

export async function rolesOf(app: App, tenant: Tenant): Promise<TenantRoles> {
  return cacheOf(app).get(tenant.id, () => loadRoles(app, tenant));
}

async function loadRoles(app: App, tenant: Tenant): Promise<TenantRoles> {
  const roles = await app.db.rows<Role>(
    notKept(sql`
    select id, name, description, is_system as "isSystem", permissions, entities, created_at as "createdAt",
      updated_at as "updatedAt"
    from ${identifier(tenant.schema, 'roles')}
    order by is_system desc, name`),
  );
  return {
    byName: new Map(roles.map((role) => [role.name, role])),
    byId: new Map(roles.map((role) => [role.id, role])),
  };
}
