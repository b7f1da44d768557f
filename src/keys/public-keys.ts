// Public keys for browsers and apps, from which anyone can extract them. A key can read what its role can read, from its allowed
// origins, within rate limits per minute and per day.
// Contract: interface#public-key, decisions#keys.
import { type Static, type TObject, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { lockRoleById } from '../access/grants.ts';
import { publishOrigins } from '../access/listed-origins.ts';
import { isOrigin, ORIGINS_RULE } from '../access/origins.ts';
import { rolesOf } from '../access/role-store.ts';
import type { App } from '../app.ts';
import type { Problem } from '../errors.ts';
import { check, given, type Valid } from '../http/check.ts';
import { closed, closedChange, optional, someOf, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { jsonb, type Sql, sql } from '../runtime/sql.ts';
import { requireRoom } from '../tenants/definition-counts.ts';
import { KeyTable, keysOf, LAST_USED } from './key-table.ts';

const { ttlDays: TTL_DAYS, perMinute: PER_MINUTE, perDay: PER_DAY, originsMax } = LIMITS.publicKey;

/** The settings that an admin may give, at creation and later. */
const Settings = {
  label: text(LIMITS.key.labelMax, { examples: ['web site'] }),
  roleId: Uuid,
  scopes: someOf(['records:read', 'channels:read'], { examples: [['records:read']] }),
  allowedOrigins: Type.Array(Type.String(), {
    maxItems: originsMax,
    uniqueItems: true,
    error: ORIGINS_RULE,
    description: 'where browsers may use the key; compared as text with the Origin header',
    examples: [['https://app.example.com']],
  }),
  rateLimitPerMin: Type.Integer({ minimum: 1, maximum: PER_MINUTE.max, examples: [PER_MINUTE.default] }),
  rateLimitPerDay: Type.Integer({ minimum: 1, maximum: PER_DAY.max, examples: [PER_DAY.default] }),
};
type Settings = Static<TObject<typeof Settings>>;

export const PUBLIC_KEYS = new KeyTable('public_key', 'PublicKey', { ...Settings, expiresAt: Timestamp }, LAST_USED);
type PublicKey = Static<typeof PUBLIC_KEYS.schema>;
type IssuedPublicKey = Static<typeof PUBLIC_KEYS.issuedSchema>;
const TtlDays = Type.Integer({
  minimum: 1,
  maximum: TTL_DAYS.max,
  default: TTL_DAYS.default,
  description: 'days from now',
});
const { label, roleId, scopes, allowedOrigins, rateLimitPerMin, rateLimitPerDay } = Settings;
export const NewPublicKey = closed({
  label,
  roleId,
  scopes,
  ttlDays: optional(TtlDays),
  allowedOrigins: optional(allowedOrigins),
  rateLimitPerMin: optional(rateLimitPerMin),
  rateLimitPerDay: optional(rateLimitPerDay),
});
export type NewPublicKey = Static<typeof NewPublicKey>;
/** A change of a key: members that are missing or null keep their values. */
export const PublicKeyChange = closedChange({ ...Settings, ttlDays: TtlDays });
export type PublicKeyChange = Static<typeof PublicKeyChange>;

const DEFAULTS = { allowedOrigins: [], rateLimitPerMin: PER_MINUTE.default, rateLimitPerDay: PER_DAY.default };

/** Issues a key. 400 with every problem. */
export async function issuePublicKey(app: App, caller: TenantCaller, body: NewPublicKey): Promise<IssuedPublicKey> {
  const input = check(NewPublicKey, body, await settingProblems(app, caller));
  const { ttlDays = TTL_DAYS.default, ...settings } = { ...DEFAULTS, ...(given(input) as typeof input & Settings) };
  const values = {
    tenant_id: sql`${caller.tenant.id}::uuid`,
    ...columnsOf(settings),
    expires_at: sql`now() + make_interval(days => ${ttlDays}::int)`,
    created_by: sql`${caller.id}`,
  };
  const key = await app.db.begin(async (tx) => {
    await lockRoleById(tx, caller.tenant, settings.roleId);
    await requireRoom(tx, caller.tenant, 'publicKeys');
    return PUBLIC_KEYS.issue(tx, values);
  });
  await publishOrigins(app, caller.tenant.id, settings.allowedOrigins);
  return key;
}

function columnsOf(settings: Settings): Readonly<Record<string, Sql>> {
  return {
    label: sql`${settings.label}`,
    role_id: sql`${settings.roleId}::uuid`,
    scopes: jsonb(settings.scopes),
    allowed_origins: jsonb(settings.allowedOrigins),
    rate_limit_per_min: sql`${settings.rateLimitPerMin}::int`,
    rate_limit_per_day: sql`${settings.rateLimitPerDay}::int`,
  };
}

export function listPublicKeys(app: App, caller: TenantCaller): Promise<PublicKey[]> {
  return PUBLIC_KEYS.list(app.db, keysOf(caller));
}

/** Changes the members given; `ttlDays` counts from now. 400 with every problem, 404. */
export async function updatePublicKey(
  app: App,
  caller: TenantCaller,
  id: string,
  body: PublicKeyChange,
): Promise<PublicKey> {
  const problems = await settingProblems(app, caller);
  const key = await PUBLIC_KEYS.update(app, keysOf(caller), id, async (tx, current) => {
    const change = given(check(PublicKeyChange, body, problems));
    const { ttlDays = null, ...settings } = { ...current, ...change };
    // A key that had expired was no use of its role.
    await lockRoleById(tx, caller.tenant, settings.roleId);
    const expiresAt = sql`coalesce(now() + make_interval(days => ${ttlDays}::int), expires_at)`;
    return { ...columnsOf(settings), expires_at: expiresAt };
  });
  await publishOrigins(app, caller.tenant.id, key.allowedOrigins);
  return key;
}

export async function revokePublicKey(app: App, caller: TenantCaller, id: string) {
  const revoked = await PUBLIC_KEYS.revoke(app, keysOf(caller), id);
  await publishOrigins(app, caller.tenant.id, []);
  return revoked;
}

/** Finds the problems that a schema cannot: an unknown role, and text that is not an origin. */
async function settingProblems(app: App, { tenant }: TenantCaller) {
  const { byId } = await rolesOf(app, tenant);
  return ({ roleId, allowedOrigins }: Valid<PublicKeyChange>): Problem[] => [
    ...(typeof roleId !== 'string' || byId.has(roleId.toLowerCase())
      ? []
      : [{ path: 'roleId', message: 'is not the id of a role' }]),
    ...(allowedOrigins?.every((origin) => origin !== undefined && isOrigin(origin)) === false
      ? [{ path: 'allowedOrigins', message: ORIGINS_RULE }]
      : []),
  ];
}
