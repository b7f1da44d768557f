// Owner API keys, which have full access to one tenant.
// Failures: 400 with every problem, 404.
// Contract: decisions#keys, interface#credentials.
import type { Static } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { check } from '../http/check.ts';
import { closed, FutureTimestamp, nullable, optional, Timestamp, text } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { type Queries, sql } from '../runtime/sql.ts';
import { IS_ACTIVE_KEY, requireRoom } from '../tenants/definition-counts.ts';
import { KeyTable, keysOf, LAST_USED } from './key-table.ts';

const Label = text(LIMITS.key.labelMax, { examples: ['nightly import'] });
export const OWNER_KEYS = new KeyTable(
  'owner_key',
  'OwnerKey',
  { label: Label, expiresAt: nullable(Timestamp) },
  LAST_USED,
);
type OwnerKey = Static<typeof OWNER_KEYS.schema>;
type IssuedOwnerKey = Static<typeof OWNER_KEYS.issuedSchema>;
/** A key without `expiresAt` does not expire. */
export const NewOwnerKey = closed({ label: Label, expiresAt: optional(FutureTimestamp) });
export type NewOwnerKey = Static<typeof NewOwnerKey>;

export async function createOwnerKey(app: App, caller: TenantCaller, body: NewOwnerKey): Promise<IssuedOwnerKey> {
  const { label, expiresAt } = check(NewOwnerKey, body);
  return app.db.begin(async (tx) => {
    await requireRoom(tx, caller.tenant, 'ownerKeys');
    return issueOwnerKey(tx, caller.tenant.id, { label, expiresAt, createdBy: caller.id });
  });
}

/** Issues a key. `expiresAt` is any text that `Date` parses. */
export async function issueOwnerKey(
  queries: Queries,
  tenantId: string,
  { label, expiresAt, createdBy }: { label: string; expiresAt?: string | null | undefined; createdBy: string | null },
): Promise<IssuedOwnerKey> {
  const expires = expiresAt == null ? null : new Date(expiresAt).toISOString();
  return OWNER_KEYS.issue(queries, {
    tenant_id: sql`${tenantId}::uuid`,
    label: sql`${label}`,
    expires_at: sql`${expires}::timestamptz`,
    created_by: sql`${createdBy}`,
  });
}

/**
 * Lists the tenant's keys, but only the last `expiredShown` of the expired ones: keys may expire at once, so their number is
 * unlimited.
 */
export function listOwnerKeys(app: App, caller: TenantCaller): Promise<OwnerKey[]> {
  const isOwn = keysOf(caller);
  const expired = sql`
    select id from platform.owner_keys where ${isOwn} and expires_at <= now()
    order by expires_at desc, id desc limit ${LIMITS.key.expiredShown}::int`;
  return OWNER_KEYS.list(app.db, sql`${isOwn} and (${IS_ACTIVE_KEY} or id in (${expired}))`);
}

export function revokeOwnerKey(app: App, caller: TenantCaller, id: string) {
  return OWNER_KEYS.revoke(app, keysOf(caller), id);
}
