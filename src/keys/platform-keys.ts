// The keys of a platform API: each has one of the API's roles. `ttlDays` is whole days from now; a key
// without it does not expire. Failures: 400 with every problem, 404.
// Contract: interface#platform-key, decisions#keys.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { closed, nullable, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { type Issued, KeyTable, keysOf } from './key-table.ts';
import { getApi } from './platform-apis.ts';

const { roleNameMax, ttlDaysMax } = LIMITS.platformApi;
const Role = text(roleNameMax, { description: 'one of the API’s roles', examples: ['reader'] });
const Label = text(LIMITS.key.labelMax, { examples: ['web shop'] });
const Shown = {
  id: Uuid,
  apiId: Uuid,
  keyPrefix: Type.String({ examples: ['svc_pkey_0f3a9c1d2'] }),
  role: Role,
  label: nullable(Label),
  expiresAt: nullable(Timestamp),
  createdAt: Timestamp,
};
export const PlatformKeySchema = Type.Object(Shown, { $id: 'PlatformKey' });
export type PlatformKey = Static<typeof PlatformKeySchema>;
export const IssuedPlatformKey = Type.Object(
  { ...Shown, key: Type.String({ description: 'shown once', examples: ['svc_pkey_...'] }) },
  { $id: 'IssuedPlatformKey' },
);
const TtlDays = Type.Integer({
  minimum: 1,
  maximum: ttlDaysMax,
  description: 'without it the key does not expire',
  examples: [90],
});
export const NewPlatformKey = closed({ role: Role, label: optional(Label), ttlDays: optional(TtlDays) });
export type NewPlatformKey = Static<typeof NewPlatformKey>;

const KEYS = new KeyTable<PlatformKey>(
  'platform_key',
  sql`id, api_id as "apiId", prefix as "keyPrefix", role, label, expires_at as "expiresAt", created_at as "createdAt"`,
);

/** Issues a key. 400 for a role that the API does not have, 404 for an unknown API. */
export async function issuePlatformKey(
  app: App,
  caller: TenantCaller,
  apiId: string,
  body: NewPlatformKey,
): Promise<Issued<PlatformKey>> {
  const api = await getApi(app, caller, apiId);
  const {
    role,
    label = null,
    ttlDays = null,
  } = check(NewPlatformKey, body, (sound) =>
    sound.role === undefined || api.roles.includes(sound.role)
      ? []
      : [{ path: 'role', message: `must be one of the API's roles: ${api.roles.join(', ')}` }],
  );
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
