// Admin keys, the credentials of operators' tools on platform endpoints. Creation, use and revocation are audited
// (use in access/authenticate.ts). Failures: 400 with every problem, 401, 404.
// Contract: interface#admin-key, interface#admin-keys, decisions#admin-keys.
import { type Static, Type } from '@sinclair/typebox';
import type { Caller } from '../access/caller.ts';
import { adminKeyRequired, writeKeyExists } from '../access/route-access.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import {
  closed,
  FutureTimestamp,
  nullable,
  optional,
  type Revoked,
  someOf,
  Timestamp,
  text,
  Uuid,
} from '../http/schemas.ts';
import { KeyTable } from '../keys/key-table.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { jsonb, sql } from '../runtime/sql.ts';

const Name = text(LIMITS.key.labelMax, { examples: ['deployment'] });
const Scopes = someOf(['platform:read', 'platform:write', 'tenants:manage'], { examples: [['platform:read']] });
export const ADMIN_KEYS = new KeyTable(
  'admin_key',
  'AdminKey',
  { name: Name, scopes: Scopes, expiresAt: nullable(Timestamp) },
  { isActive: Type.Boolean({ examples: [true] }), lastUsedAt: nullable(Timestamp) },
);
export const NewAdminKey = closed({ name: Name, scopes: Scopes, expiresAt: optional(FutureTimestamp) });
export type NewAdminKey = Static<typeof NewAdminKey>;

export const AuditEntrySchema = Type.Object(
  {
    id: Uuid,
    action: Type.String({ description: '`created`, `used` or `revoked`', examples: ['used'] }),
    actorId: nullable(Type.String({ description: 'the admin key that created or revoked this one, or `super_admin`' })),
    endpoint: nullable(Type.String({ examples: ['GET /api/admin/platform/tenants'] })),
    ip: nullable(Type.String({ examples: ['127.0.0.1'] })),
    createdAt: Timestamp,
  },
  { $id: 'AdminKeyAuditEntry' },
);

/** Issues a key. Of concurrent requests with the secret alone, one gets the first key and the others 401. */
export async function createAdminKey(
  app: App,
  caller: Caller,
  body: NewAdminKey,
): Promise<Static<typeof ADMIN_KEYS.issuedSchema>> {
  const { name, scopes, expiresAt = null } = check(NewAdminKey, body);
  return app.db.begin(async (tx) => {
    await tx.rows(sql`select pg_advisory_xact_lock(hashtext('platform.admin_keys'))`);
    if (caller.scopes === undefined && (await writeKeyExists(tx))) throw adminKeyRequired();
    const values = { name: sql`${name}`, scopes: jsonb(scopes), expires_at: sql`${expiresAt}::timestamptz` };
    const key = await ADMIN_KEYS.issue(tx, values);
    await tx.rows(sql`
      insert into platform.admin_key_audit (id, key_id, action, actor_id)
      values (${newId()}::uuid, ${key.id}::uuid, 'created', ${actorOf(caller)})`);
    return key;
  });
}

/** All keys, revoked ones included, newest first, without their values. */
export function listAdminKeys(app: App): Promise<Static<typeof ADMIN_KEYS.schema>[]> {
  return ADMIN_KEYS.list(app.db, sql`true`);
}

/** Revokes with immediate effect: admin keys are not cached. 404 for an unknown or revoked key. */
export async function revokeAdminKey(app: App, caller: Caller, id: string): Promise<Static<typeof Revoked>> {
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
  return { id: id.toLowerCase(), revoked: true };
}

/** The audit of a key, newest first, at most `limit` entries. 404 for an unknown key. */
export async function auditOf(app: App, id: string, limit: number): Promise<Static<typeof AuditEntrySchema>[]> {
  if (!isUuid(id)) throw notFound('key');
  const entries = await app.db.rows<Static<typeof AuditEntrySchema>>(sql`
    select id, action, actor_id as "actorId", endpoint, ip, created_at as "createdAt"
    from platform.admin_key_audit
    where key_id = ${id}::uuid
    order by id desc
    limit ${limit}::int`);
  // Every key has an entry: its creation.
  if (entries.length === 0) throw notFound('key');
  return entries;
}

/** The acting admin key, or the super-admin that acts without a key. */
function actorOf(caller: Caller): string {
  return caller.adminKeyId ?? 'super_admin';
}
