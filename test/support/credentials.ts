// Every kind of credential for a test's tenant, stored directly, so that access tests do not depend on the
// operations that issue them.
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { tokensOf } from '../../src/access/resolve-caller.ts';
import type { Operation } from '../../src/access/rights.ts';
import { newId } from '../../src/runtime/ids.ts';
import { identifier, sql } from '../../src/runtime/sql.ts';
import { displayPrefix, newToken, sha256 } from '../../src/runtime/tokens.ts';
import { schemaOf } from '../../src/tenants/tenants.ts';
import { ADMIN_SECRET, type Client, clientOf, type TestService } from './service.ts';

type Permissions = Record<string, Operation[]>;

export interface RoleInput {
  permissions: Permissions;
  entities?: Record<string, { fields?: string[]; excludeFields?: string[]; rowFilter?: string }>;
}

interface TenantRef {
  id: string;
  slug: string;
}

let count = 0;
const uniqueName = (name: string): string => {
  count += 1;
  return `${name}${count}`;
};
const inAnHour = (): number => Math.floor(Date.now() / 1000) + 3_600;
const hashed = (value: string) => sql`decode(${sha256(value).toString('hex')}, 'hex')`;

/** Stores a role; returns its id and name. */
export async function addRole(
  service: TestService,
  { id }: TenantRef,
  role: RoleInput,
): Promise<{ id: string; name: string }> {
  const roleId = newId();
  const name = uniqueName('role');
  await service.app.db.rows(sql`
    insert into ${identifier(schemaOf(id), 'roles')} (id, name, permissions, entities)
    values (${roleId}::uuid, ${name}, ${JSON.stringify(role.permissions)}::text::jsonb,
      ${JSON.stringify(role.entities ?? {})}::text::jsonb)`);
  await service.app.invalidations.publish('role', id);
  await invalidationsReceived(service, id);
  return { id: roleId, name };
}

/** Replaces the permissions of a role. */
export async function changeRole(
  service: TestService,
  { id }: TenantRef,
  name: string,
  role: RoleInput,
): Promise<void> {
  await service.app.db.rows(sql`
    update ${identifier(schemaOf(id), 'roles')}
    set permissions = ${JSON.stringify(role.permissions)}::text::jsonb,
      entities = ${JSON.stringify(role.entities ?? {})}::text::jsonb
    where name = ${name}`);
  await service.app.invalidations.publish('role', id);
  await invalidationsReceived(service, id);
}

/**
 * Resolves when the serving process has received this process's invalidations. Under Deno that is another process, which
 * receives them later but in order: once it refuses a key revoked last, it has received all of them.
 */
export async function invalidationsReceived(service: TestService, tenantId: string): Promise<void> {
  if (process.env.SERVICE_RUNTIME !== 'deno') return;
  const id = newId();
  const key = newToken('svc_ak_');
  await service.app.db.rows(sql`
    insert into platform.owner_keys (id, tenant_id, prefix, hash, label)
    values (${id}::uuid, ${tenantId}::uuid, ${displayPrefix(key, 'svc_ak_')}, ${hashed(key)}, 'probe')`);
  const probe = clientOf(service.url, { 'x-api-key': key });
  const before = await probe.get('/api/auth/whoami');
  if (before.status !== 200) throw new Error(`a new key is refused: ${before.text}`);
  await service.app.db.rows(sql`delete from platform.owner_keys where id = ${id}::uuid`);
  await service.app.invalidations.publish('credential', sha256(key).toString('hex'));
  while ((await probe.get('/api/auth/whoami')).status !== 401) await delay(5);
}

/** The token of a new user with the role. */
export async function userToken(
  service: TestService,
  { id: tenantId }: TenantRef,
  role: string,
  kind: 'user' | 'developer' = 'user',
  email = `${uniqueName('person')}@example.com`,
): Promise<string> {
  const id = newId();
  await service.app.db.rows(sql`
    insert into ${identifier(schemaOf(tenantId), 'users')} (id, email, name, role)
    values (${id}::uuid, ${email}, 'Person', ${role})`);
  return tokensOf(service.app).sign({ kind, tenantId, subject: id, version: 1, expiresAtS: inAnHour() });
}

/** A client for a new user with a new role. */
export async function withRole(
  service: TestService,
  tenant: TenantRef,
  role: RoleInput,
  email?: string,
): Promise<Client> {
  const { name } = await addRole(service, tenant, role);
  return bearer(service, await userToken(service, tenant, name, 'user', email));
}

export function bearer(service: TestService, token: string): Client {
  return clientOf(service.url, { authorization: `Bearer ${token}` });
}

/** A platform key: its API grants these operations to one role, and the tenant’s role of that name restricts it. */
export async function platformKey(
  service: TestService,
  { id: tenantId }: TenantRef,
  role: string,
  permissions: Permissions,
) {
  const apiId = newId();
  const key = newToken('svc_pkey_');
  const byRole = Object.fromEntries(Object.entries(permissions).map(([name, list]) => [name, { [role]: list }]));
  await service.app.db.rows(sql`
    insert into platform.apis (id, tenant_id, name, slug, roles, permissions)
    values (${apiId}::uuid, ${tenantId}::uuid, 'api', ${uniqueName('api')}, ${JSON.stringify([role])}::text::jsonb,
      ${JSON.stringify(byRole)}::text::jsonb)`);
  await service.app.db.rows(sql`
    insert into platform.platform_keys (id, tenant_id, api_id, prefix, hash, role)
    values (${newId()}::uuid, ${tenantId}::uuid, ${apiId}::uuid, ${displayPrefix(key, 'svc_pkey_')}, ${hashed(key)}, ${role})`);
  return key;
}

export async function publicKey(service: TestService, { id: tenantId }: TenantRef, roleId: string): Promise<string> {
  const key = newToken('svc_pk_');
  await service.app.db.rows(sql`
    insert into platform.public_keys (id, tenant_id, prefix, hash, label, role_id, scopes, rate_limit_per_min,
      rate_limit_per_day, expires_at)
    values (${newId()}::uuid, ${tenantId}::uuid, ${displayPrefix(key, 'svc_pk_')}, ${hashed(key)}, 'public',
      ${roleId}::uuid, '["records:read", "channels:read"]', 100000, 100000, now() + interval '1 day')`);
  return key;
}

export async function botToken(
  service: TestService,
  { id: tenantId }: TenantRef,
  entities: Permissions,
): Promise<string> {
  const id = newId();
  await service.app.db.rows(sql`
    insert into platform.bots (id, tenant_id, name, secret_hash, permissions)
    values (${id}::uuid, ${tenantId}::uuid, ${uniqueName('bot-')}, ${hashed(newToken(''))},
      ${JSON.stringify({ entities })}::text::jsonb)`);
  return tokensOf(service.app).sign({ kind: 'bot', tenantId, subject: id, version: 1, expiresAtS: inAnHour() });
}

export async function adminKey(service: TestService, scopes: readonly string[]): Promise<string> {
  const key = newToken('svc_adm_');
  await service.app.db.rows(sql`
    insert into platform.admin_keys (id, prefix, hash, name, scopes)
    values (${newId()}::uuid, ${displayPrefix(key, 'svc_adm_')}, ${hashed(key)}, 'key', ${JSON.stringify(scopes)}::text::jsonb)`);
  return key;
}

export async function adminSession(service: TestService, { slug }: TenantRef): Promise<string> {
  const answer = await service.admin.post('/api/admin/sessions', { tenantSlug: slug });
  return answer.body.data.token;
}

/** A tenant's credentials by kind, as headers. */
export type Credentials = Record<string, Record<string, string>>;

const EVERYTHING: Permissions = { '*': ['read', 'create', 'update', 'delete'], 'view:*': ['read'] };

/** Every kind of credential for a tenant; kinds that are not tenant admins get every permission. */
export async function everyKind(service: TestService, tenant: TenantRef & { key: string }): Promise<Credentials> {
  const role = await addRole(service, tenant, { permissions: EVERYTHING });
  const authorization = (value: string) => ({ authorization: `Bearer ${value}` });
  const shownKey = await publicKey(service, tenant, role.id);
  return {
    owner_key: { 'x-api-key': tenant.key },
    platform_key: authorization(await platformKey(service, tenant, role.name, EVERYTHING)),
    public_key: { 'x-public-key': shownKey },
    legacy_public_key: { 'x-anon-key': shownKey },
    user: authorization(await userToken(service, tenant, role.name)),
    admin_user: authorization(await userToken(service, tenant, 'admin')),
    developer: authorization(await userToken(service, tenant, role.name, 'developer')),
    bot: authorization(await botToken(service, tenant, { task: ['read', 'create', 'update', 'delete'] })),
    admin_session: authorization(await adminSession(service, tenant)),
    admin_key: { 'x-admin-key': await adminKey(service, ['platform:read', 'platform:write', 'tenants:manage']) },
    super_admin: { 'x-admin-secret': ADMIN_SECRET },
  };
}
