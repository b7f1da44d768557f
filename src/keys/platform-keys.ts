// The keys of a platform API, each with one of the API's roles. `ttlDays` counts from now. Failures: 400 with every
// problem, 404, 409 for more than an API may have.
// Contract: interface#platform-key, decisions#keys, neighbours#byte-budgets.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { conflict, notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { closed, nullable, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { IS_ACTIVE_KEY } from '../tenants/definition-counts.ts';
import { KeyTable, keysOf, LAST_USED } from './key-table.ts';
import { getApi } from './platform-apis.ts';

const { roleNameMax, ttlDaysMax } = LIMITS.platformApi;
const Role = text(roleNameMax, { description: 'one of the API’s roles', examples: ['reader'] });
const Label = text(LIMITS.key.labelMax, { examples: ['web shop'] });
export const PLATFORM_KEYS = new KeyTable(
  'platform_key',
  'PlatformKey',
  { apiId: Uuid, role: Role, label: nullable(Label), expiresAt: nullable(Timestamp) },
  LAST_USED,
);
type PlatformKey = Static<typeof PLATFORM_KEYS.schema>;
type IssuedPlatformKey = Static<typeof PLATFORM_KEYS.issuedSchema>;
const TtlDays = Type.Integer({
  minimum: 1,
  maximum: ttlDaysMax,
  description: 'without it the key does not expire',
  examples: [90],
});
export const NewPlatformKey = closed({ role: Role, label: optional(Label), ttlDays: optional(TtlDays) });
export type NewPlatformKey = Static<typeof NewPlatformKey>;

/** Issues a key. 400 for a role that the API does not have, 404 for an unknown API, 409 when the API has too many. */
export async function issuePlatformKey(
  app: App,
  caller: TenantCaller,
  apiId: string,
  body: NewPlatformKey,
): Promise<IssuedPlatformKey> {
  const api = await getApi(app, caller, apiId);
  const {
    role,
    label = null,
    ttlDays = null,
  } = check(NewPlatformKey, body, (valid) =>
    valid.role === undefined || api.roles.includes(valid.role)
      ? []
      : [{ path: 'role', message: `must be one of the API's roles: ${api.roles.join(', ')}` }],
  );
  const values = {
    tenant_id: sql`a.tenant_id`,
    api_id: sql`a.id`,
    role: sql`${role}::text`,
    label: sql`${label}::text`,
    expires_at: sql`now() + make_interval(days => ${ttlDays}::int)`,
    created_by: sql`${caller.id}::text`,
  };
  const from = sql`from platform.apis as a
    where a.id = ${api.id}::uuid and a.tenant_id = ${caller.tenant.id}::uuid and a.roles @> to_jsonb(${role}::text) for share`;
  return app.db.begin(async (tx) => {
    await requireRoomForKey(tx, caller, api.id);
    return PLATFORM_KEYS.issue(tx, values, { from, noun: 'API' });
  });
}

/** 409 at the limit. Of two concurrent requests for the last key, one waits for the other and is then refused. */
async function requireRoomForKey(tx: Tx, caller: TenantCaller, apiId: string): Promise<void> {
  await tx.rows(sql`select pg_advisory_xact_lock(hashtext('platform keys'), hashtext(${apiId}))`);
  const counted = await tx.first<{ n: number }>(sql`
    select count(*)::int as n from platform.platform_keys where api_id = ${apiId}::uuid and ${keysOf(caller)} and ${IS_ACTIVE_KEY}`);
  const max = LIMITS.platformApi.keysMax;
  if ((counted?.n ?? 0) >= max) throw conflict(`a platform API has at most ${max} active keys; revoke one first`);
}

export async function listPlatformKeys(app: App, caller: TenantCaller, apiId: string): Promise<PlatformKey[]> {
  const api = await getApi(app, caller, apiId);
  return PLATFORM_KEYS.list(app.db, sql`api_id = ${api.id}::uuid and ${keysOf(caller)}`);
}

export async function revokePlatformKey(app: App, caller: TenantCaller, apiId: string, keyId: string) {
  if (!isUuid(apiId)) throw notFound('key');
  return PLATFORM_KEYS.revoke(app, sql`api_id = ${apiId}::uuid and ${keysOf(caller)}`, keyId);
}
