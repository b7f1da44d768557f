// Admin keys: what operators' tools present on platform endpoints. Shown once, kept as a hash, and
// every creation, use and revocation written down (uses: access/authenticate.ts). Times are ISO 8601.
// Contract: interface#admin-key, interface#admin-keys, decisions#admin-keys.
import { keyMissing, writingKeyExists } from '../access/admin-key-access.ts';
import type { Caller } from '../access/caller.ts';
import { CREDENTIAL_KINDS } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { FUTURE, Input, someOf, text } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { displayPrefix, newToken, sha256 } from '../runtime/tokens.ts';

export const ADMIN_SCOPES = ['platform:read', 'platform:write', 'tenants:manage'] as const;
type Scope = (typeof ADMIN_SCOPES)[number];

export interface AdminKey {
  id: string;
  keyPrefix: string;
  name: string;
  scopes: Scope[];
  isActive: boolean;
  lastUsedAt: string | null;
  expiresAt: string | null;
  createdAt: string;
}

interface KeyRow {
  id: string;
  prefix: string;
  name: string;
  scopes: Scope[];
  is_active: boolean;
  last_used_at: string | null;
  expires_at: string | null;
  created_at: string;
}

export interface AuditEntry {
  id: string;
  action: string;
  actorId: string | null;
  endpoint: string | null;
  ip: string | null;
  createdAt: string;
}

const COLUMNS = sql`id, prefix, name, scopes, is_active, last_used_at, expires_at, created_at`;

/** What stands as the actor when the super-admin acted without a key. */
const SUPER_ADMIN = 'super_admin';

/**
 * Makes a key; the answer is the only place its value ever stands. Of several first keys at once, made with the
 * secret alone, one is made and the others get 401.
 */
export async function createAdminKey(
  app: App,
  caller: Caller,
  body: JsonObject,
): Promise<Omit<AdminKey, 'isActive' | 'lastUsedAt'> & { key: string }> {
  const input = new Input(body);
  const name = input.required('name', text(LIMITS.key.labelMax));
  const scopes = input.required('scopes', someOf(ADMIN_SCOPES));
  const expiresAt = input.optional('expiresAt', FUTURE) ?? null;
  input.refuseOthers();
  input.done();
  const key = newToken(CREDENTIAL_KINDS.admin_key.format);
  const row = await app.db.begin(async (tx) => {
    await tx.rows(sql`select pg_advisory_xact_lock(hashtext('platform.admin_keys'))`);
    if (caller.scopes === undefined && (await writingKeyExists(tx))) throw keyMissing();
    return insertKey(tx, caller, { key, name, scopes, expiresAt });
  });
  const { isActive: _, lastUsedAt: __, ...made } = toKey(row);
  return { ...made, key };
}

interface NewKey {
  key: string;
  name: string;
  scopes: Scope[];
  expiresAt: string | null;
}

async function insertKey(tx: Tx, caller: Caller, { key, name, scopes, expiresAt }: NewKey): Promise<KeyRow> {
  const row = await tx.first<KeyRow>(sql`
    insert into platform.admin_keys (id, prefix, hash, name, scopes, expires_at)
    values (${newId()}::uuid, ${displayPrefix(key, CREDENTIAL_KINDS.admin_key.format)}, decode(${sha256(key).toString('hex')}, 'hex'),
      ${name}, ${JSON.stringify(scopes)}::text::jsonb, ${expiresAt}::timestamptz)
    returning ${COLUMNS}`);
  const { id } = row as KeyRow;
  await tx.rows(sql`
    insert into platform.admin_key_audit (id, key_id, action, actor_id)
    values (${newId()}::uuid, ${id}::uuid, 'created', ${actorOf(caller)})`);
  return row as KeyRow;
}

/** All keys, revoked ones too, newest first, without their values. */
export async function listAdminKeys(app: App): Promise<AdminKey[]> {
  const rows = await app.db.rows<KeyRow>(sql`select ${COLUMNS} from platform.admin_keys order by id desc`);
  return rows.map(toKey);
}

/** Revokes at once: admin keys are looked up anew for every request. 404 for one that is unknown or revoked already. */
export async function revokeAdminKey(app: App, caller: Caller, id: string): Promise<void> {
  if (!isUuid(id)) throw notFound('key');
  const row = await app.db.first(sql`
    with revoked as (
      update platform.admin_keys set is_active = false where id = ${id}::uuid and is_active
      returning id
    )
    insert into platform.admin_key_audit (id, key_id, action, actor_id)
    select ${newId()}::uuid, id, 'revoked', ${actorOf(caller)} from revoked
    returning key_id`);
  if (row === undefined) throw notFound('key');
}

interface AuditRow {
  id: string;
  action: string;
  actor_id: string | null;
  endpoint: string | null;
  ip: string | null;
  created_at: string;
}

/** What was done with and to a key, newest first, at most `limit` entries. 404 for an unknown key. */
export async function auditOf(app: App, id: string, limit: number): Promise<AuditEntry[]> {
  if (!isUuid(id)) throw notFound('key');
  const rows = await app.db.rows<AuditRow>(sql`
    select id, action, actor_id, endpoint, ip, created_at from platform.admin_key_audit
    where key_id = ${id}::uuid
    order by id desc
    limit ${limit}::int`);
  // Every key has an entry: its creation.
  if (rows.length === 0) throw notFound('key');
  return rows.map(({ actor_id: actorId, created_at: createdAt, ...entry }) => ({ ...entry, actorId, createdAt }));
}

/** The acting admin key, or the super-admin itself. */
function actorOf(caller: Caller): string {
  return caller.adminKeyId ?? SUPER_ADMIN;
}

function toKey(row: KeyRow): AdminKey {
  const { id, prefix, name, scopes, is_active: isActive, last_used_at: lastUsedAt } = row;
  const { expires_at: expiresAt, created_at: createdAt } = row;
  return { id, keyPrefix: prefix, name, scopes, isActive, lastUsedAt, expiresAt, createdAt };
}
