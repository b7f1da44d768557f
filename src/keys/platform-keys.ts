// The keys of a platform API: each has one of its roles. Shown once, kept as a hash, revoked on every
// process within a second. `ttlDays` is whole days from now; without it a key does not run out.
// Contract: interface#platform-key, decisions#keys.
import type { TenantCaller } from '../access/caller.ts';
import { CREDENTIAL_KINDS } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { Input, text, wholeNumber } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { displayPrefix, newToken, sha256 } from '../runtime/tokens.ts';
import { getApi } from './platform-apis.ts';
import { revokeKey } from './revoke.ts';

export interface PlatformKey {
  id: string;
  apiId: string;
  keyPrefix: string;
  role: string;
  label: string | null;
  expiresAt: string | null;
  createdAt: string;
}

interface KeyRow {
  id: string;
  api_id: string;
  prefix: string;
  role: string;
  label: string | null;
  expires_at: string | null;
  created_at: string;
}

const COLUMNS = sql`id, api_id, prefix, role, label, expires_at, created_at`;

/** Makes a key; the answer is the only place its value ever stands. 404 for an unknown API, 400 for a role that is not its own. */
export async function issuePlatformKey(
  app: App,
  caller: TenantCaller,
  apiId: string,
  body: JsonObject,
): Promise<PlatformKey & { key: string }> {
  const api = await getApi(app, caller, apiId);
  const input = new Input(body);
  const role = input.required('role', text(LIMITS.platformApi.roleNameMax));
  const label = input.optional('label', text(LIMITS.key.labelMax)) ?? null;
  const ttlDays = input.optional('ttlDays', wholeNumber(1, LIMITS.platformApi.ttlDaysMax)) ?? null;
  input.refuseOthers();
  input.done();
  if (!api.roles.includes(role)) input.problem('role', `must be one of the API's roles: ${api.roles.join(', ')}`);
  input.done();
  const key = newToken(CREDENTIAL_KINDS.platform_key.format);
  const row = await app.db.first<KeyRow>(sql`
    insert into platform.platform_keys (id, tenant_id, api_id, prefix, hash, role, label, expires_at, created_by)
    select ${newId()}::uuid, a.tenant_id, a.id, ${displayPrefix(key, CREDENTIAL_KINDS.platform_key.format)},
      decode(${sha256(key).toString('hex')}, 'hex'), ${role}::text, ${label}::text,
      now() + make_interval(days => ${ttlDays}::int), ${caller.id}::text
    from platform.apis as a
    where a.id = ${api.id}::uuid and a.roles @> to_jsonb(${role}::text)
    for share
    returning ${COLUMNS}`);
  if (row === undefined) throw notFound('API');
  return { ...toKey(row), key };
}

/** The API's usable and expired keys, newest first, without their values. */
export async function listPlatformKeys(app: App, caller: TenantCaller, apiId: string): Promise<PlatformKey[]> {
  const api = await getApi(app, caller, apiId);
  const rows = await app.db.rows<KeyRow>(sql`
    select ${COLUMNS} from platform.platform_keys
    where api_id = ${api.id}::uuid and revoked_at is null
    order by id desc`);
  return rows.map(toKey);
}

/** Revokes at once, on every process. 404 for a key that is not the API's, or revoked already. */
export async function revokePlatformKey(app: App, caller: TenantCaller, apiId: string, keyId: string): Promise<void> {
  if (!isUuid(apiId)) throw notFound('key');
  await revokeKey(app, caller, 'platform_keys', keyId, sql`api_id = ${apiId}::uuid`);
}

function toKey(row: KeyRow): PlatformKey {
  const { id, api_id: apiId, prefix, role, label, expires_at: expiresAt, created_at: createdAt } = row;
  return { id, apiId, keyPrefix: prefix, role, label, expiresAt, createdAt };
}
