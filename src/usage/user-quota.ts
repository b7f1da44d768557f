// The quota of users, active or not. Users are added one after the other where it is set, so that the count is exact.
// An invitation does not count; accepting it does.
// Failures: 403 QUOTA_EXCEEDED. Contract: neighbours#usage-and-quotas.
import type { App } from '../app.ts';
import { quotaExceeded } from '../errors.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { noticeUse } from './near-quota.ts';

/** Refuses one more user beyond the quota. Must precede the insert in the same transaction. */
export async function requireRoomForUser(
  app: App,
  tx: Tx,
  { id, schema, quotas }: Pick<Tenant, 'id' | 'schema' | 'quotas'>,
): Promise<void> {
  const limit = quotas.users;
  if (limit === undefined) return;
  await tx.rows(sql`select pg_advisory_xact_lock(hashtext('quota of users'), hashtext(${id}))`);
  const row = await tx.first<{ used: number }>(sql`select count(*) as used from ${identifier(schema, 'users')}`);
  const used = row?.used ?? 0;
  if (used >= limit) throw quotaExceeded({ quota: 'users', limit, used });
  noticeUse(app, id, 'users', limit, used + 1);
}
