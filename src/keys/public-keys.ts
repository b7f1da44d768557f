// Public keys: for browsers and apps, readable by anyone who looks. They only read, what their role
// reads, from the origins they name, so many requests a minute and a day. Shown once, kept as a hash.
// Contract: interface#public-key, decisions#keys.
import type { TenantCaller } from '../access/caller.ts';
import { isOrigin } from '../access/cors.ts';
import { CREDENTIAL_KINDS } from '../access/credential-kinds.ts';
import { lockRoleById } from '../access/grants.ts';
import { rolesOf } from '../access/role-store.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { Input, someOf, text, texts, wholeNumber } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { displayPrefix, newToken, sha256 } from '../runtime/tokens.ts';
import { revokeKey } from './revoke.ts';

export const PUBLIC_KEY_SCOPES = ['records:read', 'channels:read'] as const;
const { ttlDays: TTL_DAYS, perMinute: PER_MINUTE, perDay: PER_DAY, originsMax } = LIMITS.publicKey;

type Scope = (typeof PUBLIC_KEY_SCOPES)[number];

export interface PublicKey {
  id: string;
  keyPrefix: string;
  label: string;
  roleId: string;
  scopes: Scope[];
  allowedOrigins: string[];
  rateLimitPerMin: number;
  rateLimitPerDay: number;
  expiresAt: string;
  createdAt: string;
}

/** What an admin may set, at creation and later. */
type Settings = Pick<
  PublicKey,
  'label' | 'roleId' | 'scopes' | 'allowedOrigins' | 'rateLimitPerMin' | 'rateLimitPerDay'
>;

interface KeyRow {
  id: string;
  prefix: string;
  label: string;
  role_id: string;
  scopes: Scope[];
  allowed_origins: string[];
  rate_limit_per_min: number;
  rate_limit_per_day: number;
  expires_at: string;
  created_at: string;
}

const COLUMNS = sql`
  id, prefix, label, role_id, scopes, allowed_origins, rate_limit_per_min, rate_limit_per_day, expires_at, created_at`;

/** Makes a key; the answer is the only place its value ever stands. 400 with every problem. */
export async function issuePublicKey(
  app: App,
  caller: TenantCaller,
  body: JsonObject,
): Promise<PublicKey & { key: string }> {
  const { settings, ttlDays } = await readSettings(app, caller, body);
  const key = newToken(CREDENTIAL_KINDS.public_key.format);
  const row = await withRoleLocked(app, caller, settings.roleId, (tx) =>
    tx.first<KeyRow>(sql`
      insert into platform.public_keys (id, tenant_id, prefix, hash, label, role_id, scopes, allowed_origins,
        rate_limit_per_min, rate_limit_per_day, expires_at, created_by)
      values (${newId()}::uuid, ${caller.tenant.id}::uuid, ${displayPrefix(key, CREDENTIAL_KINDS.public_key.format)},
        decode(${sha256(key).toString('hex')}, 'hex'), ${settings.label}, ${settings.roleId}::uuid,
        ${JSON.stringify(settings.scopes)}::text::jsonb, ${JSON.stringify(settings.allowedOrigins)}::text::jsonb,
        ${settings.rateLimitPerMin}::int, ${settings.rateLimitPerDay}::int,
        now() + make_interval(days => ${ttlDays ?? TTL_DAYS.default}::int), ${caller.id})
      returning ${COLUMNS}`),
  );
  return { ...toKey(row as KeyRow), key };
}

/** The tenant's usable and expired keys, newest first, without their values. */
export async function listPublicKeys(app: App, caller: TenantCaller): Promise<PublicKey[]> {
  const rows = await app.db.rows<KeyRow>(sql`
    select ${COLUMNS} from platform.public_keys
    where tenant_id = ${caller.tenant.id}::uuid and revoked_at is null
    order by id desc`);
  return rows.map(toKey);
}

/** Changes the members given, on every process at once; `ttlDays` counts anew from now. 404 for a key that is not the tenant's. */
export async function updatePublicKey(
  app: App,
  caller: TenantCaller,
  id: string,
  body: JsonObject,
): Promise<PublicKey> {
  const current = await findKey(app, caller, id);
  const { settings, ttlDays } = await readSettings(app, caller, body, current);
  const row = await withRoleLocked(app, caller, settings.roleId, (tx) =>
    tx.first<KeyRow & { hash: string }>(sql`
      update platform.public_keys
      set label = ${settings.label}, role_id = ${settings.roleId}::uuid,
        scopes = ${JSON.stringify(settings.scopes)}::text::jsonb,
        allowed_origins = ${JSON.stringify(settings.allowedOrigins)}::text::jsonb,
        rate_limit_per_min = ${settings.rateLimitPerMin}::int, rate_limit_per_day = ${settings.rateLimitPerDay}::int,
        expires_at = coalesce(now() + make_interval(days => ${ttlDays ?? null}::int), expires_at)
      where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid and revoked_at is null
      returning ${COLUMNS}, encode(hash, 'hex') as hash`),
  );
  if (row === undefined) throw notFound('key');
  await app.invalidations.publish('credential', row.hash);
  return toKey(row);
}

/** Writes a key while its role is kept from going. */
function withRoleLocked<T>(
  app: App,
  { tenant }: TenantCaller,
  roleId: string,
  write: (tx: Tx) => Promise<T>,
): Promise<T> {
  return app.db.begin(async (tx) => {
    await lockRoleById(tx, tenant, roleId);
    return write(tx);
  });
}

/** Revokes at once, on every process. 404 for a key that is not the tenant's, or revoked already. */
export function revokePublicKey(app: App, caller: TenantCaller, id: string): Promise<void> {
  return revokeKey(app, caller, 'public_keys', id);
}

async function findKey(app: App, caller: TenantCaller, id: string): Promise<PublicKey> {
  if (!isUuid(id)) throw notFound('key');
  const row = await app.db.first<KeyRow>(sql`
    select ${COLUMNS} from platform.public_keys
    where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid and revoked_at is null`);
  if (row === undefined) throw notFound('key');
  return toKey(row);
}

/** The settings in a body, over those that stand already or the defaults. */
async function readSettings(
  app: App,
  caller: TenantCaller,
  body: JsonObject,
  current?: PublicKey,
): Promise<{ settings: Settings; ttlDays: number | undefined }> {
  const input = new Input(body);
  const member = <T>(name: string, rule: Parameters<typeof input.required<T>>[1], standing: T | undefined): T =>
    standing === undefined ? input.required(name, rule) : (input.optional(name, rule) ?? standing);
  const origins = texts(0, originsMax, isOrigin, 'must be a list of origins, such as https://app.example.com');
  const settings: Settings = {
    label: member('label', text(LIMITS.key.labelMax), current?.label),
    roleId: member('roleId', text(LIMITS.key.labelMax), current?.roleId),
    scopes: member('scopes', someOf(PUBLIC_KEY_SCOPES), current?.scopes),
    allowedOrigins: member('allowedOrigins', origins, current?.allowedOrigins ?? []),
    rateLimitPerMin: member(
      'rateLimitPerMin',
      wholeNumber(1, PER_MINUTE.max),
      current?.rateLimitPerMin ?? PER_MINUTE.default,
    ),
    rateLimitPerDay: member(
      'rateLimitPerDay',
      wholeNumber(1, PER_DAY.max),
      current?.rateLimitPerDay ?? PER_DAY.default,
    ),
  };
  const ttlDays = input.optional('ttlDays', wholeNumber(1, TTL_DAYS.max));
  input.refuseOthers();
  const { byId } = await rolesOf(app, caller.tenant);
  if (typeof settings.roleId === 'string' && !byId.has(settings.roleId.toLowerCase())) {
    input.problem('roleId', 'is not the id of a role');
  }
  input.done();
  return { settings, ttlDays };
}

function toKey(row: KeyRow): PublicKey {
  const { id, prefix, label, role_id: roleId, scopes, expires_at: expiresAt, created_at: createdAt } = row;
  const { allowed_origins: allowedOrigins, rate_limit_per_min, rate_limit_per_day } = row;
  return {
    id,
    keyPrefix: prefix,
    label,
    roleId,
    scopes,
    allowedOrigins,
    rateLimitPerMin: rate_limit_per_min,
    rateLimitPerDay: rate_limit_per_day,
    expiresAt,
    createdAt,
  };
}
