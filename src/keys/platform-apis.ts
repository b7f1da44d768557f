// Platform APIs: what the platform keys of each role may do, as defined by a tenant admin. A change
// holds for the keys at once: every key is announced, so that no process goes by an old definition.
// Contract: interface#platform-key, decisions#keys.
import type { TenantCaller } from '../access/caller.ts';
import { lockRoles } from '../access/grants.ts';
import type { Operation } from '../access/rights.ts';
import { isOperationList, isResource, isWildcard, OPERATIONS_RULE } from '../access/rights.ts';
import type { App } from '../app.ts';
import { conflict, notFound } from '../errors.ts';
import { Input, matching, OBJECT, text, texts } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { jsonb, sql, type Tx } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';

export const API_SLUG = /^[a-z0-9][a-z0-9-]{0,62}$/;
const { rolesMax, roleNameMax } = LIMITS.platformApi;

/** Operations by resource and role. */
export type ApiPermissions = Record<string, Record<string, Operation[]>>;

export interface PlatformApi {
  id: string;
  name: string;
  slug: string;
  roles: string[];
  permissions: ApiPermissions;
  createdAt: string;
  updatedAt: string;
}

type Definition = Pick<PlatformApi, 'name' | 'slug' | 'roles' | 'permissions'>;

const COLUMNS = sql`id, name, slug, roles, permissions, created_at as "createdAt", updated_at as "updatedAt"`;

/** Defines an API. 400 with every problem, 409 when the slug is taken. */
export async function createPlatformApi(app: App, caller: TenantCaller, body: JsonObject): Promise<PlatformApi> {
  const { input, definition } = readDefinition(body);
  const { name, slug, roles, permissions } = definition;
  const row = await app.db.begin(async (tx) => {
    await checkRoles(tx, caller, input, definition);
    return tx.first<PlatformApi>(sql`
      insert into platform.apis (id, tenant_id, name, slug, roles, permissions)
      values (${newId()}::uuid, ${caller.tenant.id}::uuid, ${name}, ${slug}, ${jsonb(roles)}, ${jsonb(permissions)})
      on conflict (tenant_id, slug) do nothing
      returning ${COLUMNS}`);
  });
  if (row === undefined) throw taken(slug);
  return row;
}

/** The tenant's APIs, newest first. */
export async function listApis(app: App, caller: TenantCaller): Promise<PlatformApi[]> {
  return app.db.rows<PlatformApi>(sql`
    select ${COLUMNS} from platform.apis where tenant_id = ${caller.tenant.id}::uuid order by id desc`);
}

/** One API of the tenant; 404 otherwise. */
export async function getApi(app: App, caller: TenantCaller, id: string): Promise<PlatformApi> {
  if (!isUuid(id)) throw notFound('API');
  const row = await app.db.first<PlatformApi>(sql`
    select ${COLUMNS} from platform.apis where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid`);
  if (row === undefined) throw notFound('API');
  return row;
}

/** Changes the members given. Keys whose role is not the API's any more may do nothing. */
export async function updateApi(app: App, caller: TenantCaller, id: string, body: JsonObject): Promise<PlatformApi> {
  const { name, slug, roles, permissions } = await getApi(app, caller, id);
  const next = readDefinition(changed({ name, slug, roles, permissions }, body));
  const row = await replaceDefinition(app, caller, id, next, roles);
  if (row === undefined) throw notFound('API');
  await announceKeys(app, await keyHashes(app, id));
  return row;
}

async function replaceDefinition(
  app: App,
  caller: TenantCaller,
  id: string,
  { input, definition }: ReadDefinition,
  known: readonly string[],
): Promise<PlatformApi | undefined> {
  const { name, slug, roles, permissions } = definition;
  try {
    return await app.db.begin(async (tx) => {
      await checkRoles(tx, caller, input, definition, known);
      return tx.first<PlatformApi>(sql`
        update platform.apis
        set name = ${name}, slug = ${slug}, roles = ${jsonb(roles)}, permissions = ${jsonb(permissions)},
          updated_at = now()
        where id = ${id}::uuid
        returning ${COLUMNS}`);
    });
  } catch (error) {
    if ((error as { constraint_name?: string } | null)?.constraint_name === 'apis_slug_key') throw taken(slug);
    throw error;
  }
}

/** Removes the API with all its keys, at once. */
export async function deleteApi(app: App, caller: TenantCaller, id: string): Promise<void> {
  await getApi(app, caller, id);
  const hashes = await keyHashes(app, id);
  await app.db.rows(sql`
    delete from platform.apis where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid`);
  await announceKeys(app, hashes);
}

/** What stands, with the members of a PATCH over it; null leaves what stands. */
function changed(standing: Definition, body: JsonObject): JsonObject {
  const stays = ([name, value]: [string, unknown]): boolean => value === null && Object.hasOwn(standing, name);
  return { ...standing, ...Object.fromEntries(Object.entries(body).filter((member) => !stays(member))) };
}

/** A definition whose problems are told once its roles are checked too. */
interface ReadDefinition {
  input: Input;
  definition: Definition;
}

function readDefinition(body: JsonObject): ReadDefinition {
  const input = new Input(body);
  const name = input.required('name', text(LIMITS.key.labelMax));
  const slug = input.required('slug', matching(API_SLUG));
  const isRoleName = (role: string): boolean => role.trim() !== '' && role.length <= roleNameMax;
  const roles = input.required(
    'roles',
    texts(1, rolesMax, isRoleName, `must be a list of 1 to ${rolesMax} role names`),
  );
  const permissions = input.required('permissions', OBJECT) as ApiPermissions;
  input.refuseOthers();
  input.done();
  checkPermissions(input, permissions);
  return { input, definition: { name, slug, roles, permissions } };
}

/**
 * 400 unless each role exists, stands in `permissions`, or is `known`: the API has it already. Those that exist stay
 * until the transaction ends, since they confine the API's keys.
 */
async function checkRoles(
  tx: Tx,
  { tenant }: TenantCaller,
  input: Input,
  { roles, permissions }: Definition,
  known: readonly string[] = [],
): Promise<void> {
  const held = await lockRoles(tx, tenant, roles);
  const sound = new Set([
    ...held,
    ...known,
    ...Object.values(permissions).flatMap((byRole) => Object.keys(byRole ?? {})),
  ]);
  for (const role of roles) {
    if (!sound.has(role)) input.problem('roles', `"${role}" is neither a role nor a key of permissions`);
  }
  input.done();
}

/** Names every problem of `permissions`. */
function checkPermissions(input: Input, permissions: JsonObject): void {
  for (const [resource, byRole] of Object.entries(permissions)) {
    const path = `permissions.${resource}`;
    if (!isResource(resource) && !isWildcard(resource)) input.problem(path, 'is no entity, view or agent');
    if (!OBJECT.accepts(byRole)) {
      input.problem(path, 'must be an object of operations by role');
      continue;
    }
    for (const [role, operations] of Object.entries(byRole)) {
      if (!isOperationList(operations)) input.problem(`${path}.${role}`, OPERATIONS_RULE);
    }
  }
}

function taken(slug: string): Error {
  return conflict(`an API with the slug ${slug} exists already`);
}

async function keyHashes(app: App, apiId: string): Promise<string[]> {
  const rows = await app.db.rows<{ hash: string }>(sql`
    select encode(hash, 'hex') as hash from platform.platform_keys
    where api_id = ${apiId}::uuid and revoked_at is null and (expires_at is null or expires_at > now())`);
  return rows.map(({ hash }) => hash);
}

async function announceKeys(app: App, hashes: readonly string[]): Promise<void> {
  await Promise.all(hashes.map((hash) => app.invalidations.publish('credential', hash)));
}
