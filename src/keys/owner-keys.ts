// Owner API keys, which have full access to one tenant.
// Failures: 400 with every problem, 404.
// Contract: decisions#keys, interface#credentials.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { FUTURE, Input, text } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { type Queries, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { type Issued, KeyTable, keysOf } from './key-table.ts';

export interface OwnerKey {
  id: string;
  keyPrefix: string;
  label: string;
  expiresAt: string | null;
  createdAt: string;
}

const KEYS = new KeyTable<OwnerKey>(
  'owner_key',
  sql`id, prefix as "keyPrefix", label, expires_at as "expiresAt", created_at as "createdAt"`,
);

export async function createOwnerKey(app: App, caller: TenantCaller, body: JsonObject): Promise<Issued<OwnerKey>> {
  const input = new Input(body);
  const label = input.required('label', text(LIMITS.key.labelMax));
  const expiresAt = input.optional('expiresAt', FUTURE);
  input.refuseOthers();
  input.done();
  return issueOwnerKey(app.db, caller.tenant.id, { label, expiresAt, createdBy: caller.id });
}

/** Issues a key. `expiresAt` is any text that Date reads. */
export async function issueOwnerKey(
  queries: Queries,
  tenantId: string,
  { label, expiresAt, createdBy }: { label: string; expiresAt?: string | undefined; createdBy: string | null },
): Promise<Issued<OwnerKey>> {
  const expires = expiresAt === undefined ? null : new Date(expiresAt).toISOString();
  const issued = await KEYS.issue(queries, {
    tenant_id: sql`${tenantId}::uuid`,
    label: sql`${label}`,
    expires_at: sql`${expires}::timestamptz`,
    created_by: sql`${createdBy}`,
  });
  return issued as Issued<OwnerKey>;
}

export function listOwnerKeys(app: App, caller: TenantCaller): Promise<OwnerKey[]> {
  return KEYS.list(app.db, keysOf(caller));
}

export function revokeOwnerKey(app: App, caller: TenantCaller, id: string): Promise<void> {
  return KEYS.revoke(app, keysOf(caller), id);
}
