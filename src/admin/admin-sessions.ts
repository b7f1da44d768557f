// Admin sessions: the super-admin acts as a tenant's admin for 12 hours with a secret token, a random UUID (version 4).
// Only its hash is stored.
// Failures: 404. Contract: decisions#tenant-admin.
import { randomUUID } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import type { Caller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { open, Timestamp, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { tenantBySlug } from '../tenants/tenants.ts';

const Slug = Type.String({ error: 'must be the slug of a tenant', examples: ['acme'] });
export const NewAdminSession = open({ tenantSlug: Slug });
export const AdminSessionSchema = Type.Object(
  { token: Uuid, tenantSlug: Slug, expiresAt: Timestamp },
  { $id: 'AdminSession' },
);

/** Opens a session in a tenant. 404 for an unknown tenant. */
export async function openAdminSession(
  app: App,
  body: Static<typeof NewAdminSession>,
): Promise<Static<typeof AdminSessionSchema>> {
  const { tenantSlug } = check(NewAdminSession, body);
  const tenant = await tenantBySlug(app, tenantSlug);
  if (tenant === null) throw notFound('tenant');
  const token = randomUUID();
  const expiresAt = new Date(Date.now() + LIMITS.session.ttlMs).toISOString();
  await app.db.rows(sql`
    insert into platform.admin_sessions (id, tenant_id, hash, expires_at)
    values (${newId()}::uuid, ${tenant.id}::uuid, decode(${sha256(token).toString('hex')}, 'hex'), ${expiresAt}::timestamptz)`);
  return { token, tenantSlug, expiresAt };
}

/** Ends the caller's session, on every process. Returns its id. */
export async function endAdminSession(app: App, caller: Caller): Promise<string> {
  const row = await app.db.first<{ id: string; hash: string; tenant_id: string }>(sql`
    update platform.admin_sessions set ended_at = now()
    where id = ${caller.id}::uuid and ended_at is null
    returning id, encode(hash, 'hex') as hash, tenant_id`);
  if (row === undefined) throw notFound('session');
  await app.invalidations.publish('credential', row.hash, row.tenant_id);
  return row.id;
}
