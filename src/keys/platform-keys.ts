// The keys of a platform API: each has one of the API's roles. `ttlDays` is whole days from now; a key
// without it does not expire. Failures: 400 with every problem, 404.
// Contract: interface#platform-key, decisions#keys.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { Input, text, wholeNumber } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { type Issued, KeyTable, keysOf } from './key-table.ts';
import { getApi } from './platform-apis.ts';

export interface PlatformKey {
  id: string;
  apiId: string;
  keyPrefix: string;
  role: string;
  label: string | null;
  expiresAt: string | null;
  createdAt: string;
}

const KEYS = new KeyTable<PlatformKey>(
  'platform_key',
  sql`id, api_id as "apiId", prefix as "keyPrefix", role, label, expires_at as "expiresAt", created_at as "createdAt"`,
);

/** Issues a key. 400 for a role that the API does not have, 404 for an unknown API. */
export async function issuePlatformKey(
  app: App,
  caller: TenantCaller,
  apiId: string,
  body: JsonObject,
): Promise<Issued<PlatformKey>> {
  const api = await getApi(app, caller, apiId);
  const input = new Input(body);
  const role = input.required('role', text(LIMITS.platformApi.roleNameMax));
  const label = input.optional('label', text(LIMITS.key.labelMax)) ?? null;
  const ttlDays = input.optional('ttlDays', wholeNumber(1, LIMITS.platformApi.ttlDaysMax)) ?? null;
  input.refuseOthers();
  input.done();
  if (!api.roles.includes(role)) input.problem('role', `must be one of the API's roles: ${api.roles.join(', ')}`);
  input.done();
  const issued = await KEYS.issue(
    app.db,
    {
      tenant_id: sql`a.tenant_id`,
      api_id: sql`a.id`,
      role: sql`${role}::text`,
      label: sql`${label}::text`,
      expires_at: sql`now() + make_interval(days => ${ttlDays}::int)`,
      created_by: sql`${caller.id}::text`,
    },
    sql`from platform.apis as a where a.id = ${api.id}::uuid and a.roles @> to_jsonb(${role}::text) for share`,
  );
  if (issued === undefined) throw notFound('API');
  return issued;
}

export async function listPlatformKeys(app: App, caller: TenantCaller, apiId: string): Promise<PlatformKey[]> {
  const api = await getApi(app, caller, apiId);
  return KEYS.list(app.db, sql`api_id = ${api.id}::uuid and revoked_at is null`);
}

export async function revokePlatformKey(app: App, caller: TenantCaller, apiId: string, keyId: string): Promise<void> {
  if (!isUuid(apiId)) throw notFound('key');
  await KEYS.revoke(app, sql`api_id = ${apiId}::uuid and ${keysOf(caller)}`, keyId);
}
