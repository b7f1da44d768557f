// Grants refer to roles, entities and views by name, so an old grant must not apply to a new resource of the same name. A role
// cannot be deleted while it is being assigned; deleting an entity or a view revokes the grants on it. Row filters and hidden
// fields stay, since they only restrict.
// Failures: 400.
// Contract: decisions#roles, decisions#keys.
import type { App } from '../app.ts';
import { invalidField } from '../errors.ts';
import type { Topic } from '../runtime/invalidations.ts';
import { identifier, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { isEntityName } from './rights.ts';

type Schema = Pick<Tenant, 'schema'>;

/** Returns which of the names are roles, and locks those roles against deletion until the transaction ends. */
export async function lockRoles(tx: Tx, { schema }: Schema, names: readonly string[]): Promise<Set<string>> {
  const rows = await tx.rows<{ name: string }>(sql`
    select name from ${identifier(schema, 'roles')}
    where name in (${listed(names)})
    order by id
    for key share`);
  return new Set(rows.map(({ name }) => name));
}

/** 400 unless the role exists. Locks it against deletion until the transaction ends. */
export async function lockRole(tx: Tx, tenant: Schema, name: string): Promise<void> {
  if (!(await lockRoles(tx, tenant, [name])).has(name)) {
    throw invalidField('role', `there is no role ${JSON.stringify(name)}`);
  }
}

/** Like `lockRole`, by the role's id. */
export async function lockRoleById(tx: Tx, { schema }: Schema, id: string): Promise<void> {
  const row = await tx.first(sql`
    select from ${identifier(schema, 'roles')} where id = ${id}::uuid for key share`);
  if (row === undefined) throw invalidField('roleId', 'is not the id of a role');
}

/** 400 at `<path>.<name>` unless each entity in `granted` exists. Locks them against deletion, as above. */
export async function lockEntities(tx: Tx, { schema }: Schema, granted: object, path: string): Promise<void> {
  const names = Object.keys(granted).filter(isEntityName);
  if (names.length === 0) return;
  const existing = await tx.rows<{ name: string }>(sql`
    select name from ${identifier(schema, 'entity_definitions')}
    where name in (${listed(names)})
    order by id
    for key share`);
  const missing = names.find((name) => !existing.some((entity) => entity.name === name));
  if (missing !== undefined) throw invalidField(`${path}.${missing}`, 'is not an entity');
}

/** The invalidations to publish once the transaction has committed: keys by topic, all of one tenant. */
export type RevokedGrants = readonly (readonly [Topic, readonly string[], tenantId: string])[];

/** Revokes every grant on these resources, in roles, platform APIs and bots. */
export async function revokeGrants(
  tx: Tx,
  { id, schema }: Tenant,
  resources: readonly string[],
): Promise<RevokedGrants> {
  const names = sql`array(${listed(resources)})`;
  const roles = await tx.rows(sql`
    update ${identifier(schema, 'roles')} set permissions = permissions - ${names}, updated_at = now()
    where permissions ?| ${names}
    returning id`);
  const bots = await tx.rows<{ id: string }>(sql`
    update platform.bots
    set permissions = jsonb_set(permissions, '{entities}', (permissions -> 'entities') - ${names}), updated_at = now()
    where tenant_id = ${id}::uuid and (permissions -> 'entities') ?| ${names}
    returning id`);
  const keys = await tx.rows<{ hash: string }>(sql`
    with changed as (
      update platform.apis set permissions = permissions - ${names}, updated_at = now()
      where tenant_id = ${id}::uuid and permissions ?| ${names}
      returning id
    )
    select encode(k.hash, 'hex') as hash from platform.platform_keys as k
    where k.tenant_id = ${id}::uuid and k.api_id in (select id from changed) and k.revoked_at is null`);
  return [
    ['role', roles.length > 0 ? [id] : [], id],
    ['bot', bots.map((bot) => bot.id), id],
    ['credential', keys.map(({ hash }) => hash), id],
  ];
}

export async function publishRevokedGrants(app: App, revoked: RevokedGrants): Promise<void> {
  await Promise.all(revoked.map(([topic, keys, tenantId]) => app.invalidations.publish(topic, keys, tenantId)));
}

function listed(names: readonly string[]): Sql {
  return sql`select jsonb_array_elements_text(${JSON.stringify(names)}::text::jsonb)`;
}
