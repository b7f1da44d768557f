// The end of a key of any kind: it stays in its table, marked as revoked, and every process refuses it
// within a second. What it was and when it ended can still be told from its row.
// Failures: 404. Contract: decisions#tenants, decisions#keys.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { isUuid } from '../runtime/ids.ts';
import { identifier, type Sql, sql } from '../runtime/sql.ts';

/** Revokes at once. 404 for a key that is not the tenant's, does not meet `further`, or is revoked already. */
export async function revokeKey(
  app: App,
  { tenant }: TenantCaller,
  table: 'owner_keys' | 'platform_keys' | 'public_keys',
  id: string,
  further: Sql = sql`true`,
): Promise<void> {
  if (!isUuid(id)) throw notFound('key');
  const row = await app.db.first<{ hash: string }>(sql`
    update ${identifier('platform', table)} set revoked_at = now()
    where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid and revoked_at is null and ${further}
    returning encode(hash, 'hex') as hash`);
  if (row === undefined) throw notFound('key');
  await app.invalidations.publish('credential', row.hash);
}
