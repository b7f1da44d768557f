// Public keys, for browsers and apps, where anyone can extract them. They read what their role reads, from
// the origins they name, within rate limits per minute and per day.
// Contract: interface#public-key, decisions#keys.
import type { TenantCaller } from '../access/caller.ts';
import { lockRoleById } from '../access/grants.ts';
import { isOrigin } from '../access/origins.ts';
import { rolesOf } from '../access/role-store.ts';
import type { App } from '../app.ts';
import { Input, someOf, text, texts, wholeNumber } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { identifier, join, jsonb, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { type Issued, KeyTable, keysOf } from './key-table.ts';

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

const KEYS = new KeyTable<PublicKey>(
  'public_key',
  sql`id, prefix as "keyPrefix", label, role_id as "roleId", scopes, allowed_origins as "allowedOrigins",
    rate_limit_per_min as "rateLimitPerMin", rate_limit_per_day as "rateLimitPerDay", expires_at as "expiresAt",
    created_at as "createdAt"`,
);

/** Issues a key. 400 with every problem. */
export async function issuePublicKey(app: App, caller: TenantCaller, body: JsonObject): Promise<Issued<PublicKey>> {
  const { settings, ttlDays = TTL_DAYS.default } = await readSettings(app, caller, body);
  const values = {
    tenant_id: sql`${caller.tenant.id}::uuid`,
    ...columnsOf(settings),
    expires_at: sql`now() + make_interval(days => ${ttlDays}::int)`,
    created_by: sql`${caller.id}`,
  };
  const issued = await withRoleLocked(app, caller, settings.roleId, (tx) => KEYS.issue(tx, values));
  return issued as Issued<PublicKey>;
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
  return KEYS.list(app.db, keysOf(caller));
}

/** Changes the members given; `ttlDays` counts from now. 400 with every problem, 404. */
export async function updatePublicKey(
  app: App,
  caller: TenantCaller,
  id: string,
  body: JsonObject,
): Promise<PublicKey> {
  const current = await KEYS.find(app, keysOf(caller), id);
  const { settings, ttlDays = null } = await readSettings(app, caller, body, current);
  const values = {
    ...columnsOf(settings),
    expires_at: sql`coalesce(now() + make_interval(days => ${ttlDays}::int), expires_at)`,
  };
  const assignments = Object.entries(values).map(([name, value]) => sql`${identifier(name)} = ${value}`);
  return KEYS.update(app, keysOf(caller), id, join(assignments, ', '), (statement) =>
    withRoleLocked(app, caller, settings.roleId, statement),
  );
}

/** Runs a statement in a transaction in which the role cannot be deleted. */
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

export function revokePublicKey(app: App, caller: TenantCaller, id: string): Promise<void> {
  return KEYS.revoke(app, keysOf(caller), id);
}

/** The settings of a body; members left out keep their current value, or get the default. */
async function readSettings(
  app: App,
  caller: TenantCaller,
  body: JsonObject,
  current?: PublicKey,
): Promise<{ settings: Settings; ttlDays: number | undefined }> {
  const input = new Input(body);
  const member = <T>(name: string, rule: Parameters<typeof input.required<T>>[1], fallback: T | undefined): T =>
    fallback === undefined ? input.required(name, rule) : (input.optional(name, rule) ?? fallback);
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
