// Admin keys, which operators' tools present on platform endpoints. Creation, use and revocation are audited
// (use in access/authenticate.ts). Failures: 400 with every problem, 401, 404.
// Contract: interface#admin-key, interface#admin-keys, decisions#admin-keys.

import type { Caller } from '../access/caller.ts';
import { keyMissing, writingKeyExists } from '../access/route-access.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { FUTURE, Input, someOf, text } from '../http/input.ts';
import { type Issued, KeyTable } from '../keys/key-table.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { jsonb, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';

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

export interface AuditEntry {
  id: string;
  action: string;
  actorId: string | null;
  endpoint: string | null;
  ip: string | null;
  createdAt: string;
}

const KEYS = new KeyTable<AdminKey>(
  'admin_key',
  sql`id, prefix as "keyPrefix", name, scopes, is_active as "isActive", last_used_at as "lastUsedAt",
    expires_at as "expiresAt", created_at as "createdAt"`,
);

/** The audited actor when the super-admin acts without a key. */
const SUPER_ADMIN = 'super_admin';

/** Issues a key. Of concurrent first keys, created with the secret alone, one is issued and the others get 401. */
export async function createAdminKey(
  app: App,
  caller: Caller,
  body: JsonObject,
): Promise<Omit<Issued<AdminKey>, 'isActive' | 'lastUsedAt'>> {
  const input = new Input(body);
  const name = input.required('name', text(LIMITS.key.labelMax));
  const scopes = input.required('scopes', someOf(ADMIN_SCOPES));
  const expiresAt = input.optional('expiresAt', FUTURE) ?? null;
  input.refuseOthers();
  input.done();
  const issued = await app.db.begin(async (tx) => {
    await tx.rows(sql`select pg_advisory_xact_lock(hashtext('platform.admin_keys'))`);
    if (caller.scopes === undefined && (await writingKeyExists(tx))) throw keyMissing();
    const values = { name: sql`${name}`, scopes: jsonb(scopes), expires_at: sql`${expiresAt}::timestamptz` };
    const key = (await KEYS.issue(tx, values)) as Issued<AdminKey>;
    await tx.rows(sql`
      insert into platform.admin_key_audit (id, key_id, action, actor_id)
      values (${newId()}::uuid, ${key.id}::uuid, 'created', ${actorOf(caller)})`);
    return key;
  });
  const { isActive: _, lastUsedAt: __, ...shown } = issued;
  return shown;
}

/** All keys, revoked ones included, newest first, without their values. */
export function listAdminKeys(app: App): Promise<AdminKey[]> {
  return KEYS.list(app.db, sql`true`);
}

/** Revokes with immediate effect: admin keys are not cached. 404 for an unknown or revoked key. */
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

/** The audit of a key, newest first, at most `limit` entries. 404 for an unknown key. */
export async function auditOf(app: App, id: string, limit: number): Promise<AuditEntry[]> {
  if (!isUuid(id)) throw notFound('key');
  const entries = await app.db.rows<AuditEntry>(sql`
    select id, action, actor_id as "actorId", endpoint, ip, created_at as "createdAt"
    from platform.admin_key_audit
    where key_id = ${id}::uuid
    order by id desc
    limit ${limit}::int`);
  // Every key has an entry: its creation.
  if (entries.length === 0) throw notFound('key');
  return entries;
}

/** The acting admin key, or the super-admin itself. */
function actorOf(caller: Caller): string {
  return caller.adminKeyId ?? SUPER_ADMIN;
}
