// Owner API keys, which have full access to one tenant.
// Failures: 400 with every problem, 404.
// Contract: decisions#keys, interface#credentials.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { check } from '../http/check.ts';
import { closed, FutureTimestamp, nullable, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { type Queries, sql } from '../runtime/sql.ts';
import { type Issued, KeyTable, keysOf } from './key-table.ts';

const Label = text(LIMITS.key.labelMax, { examples: ['nightly import'] });
const Shown = {
  id: Uuid,
  keyPrefix: Type.String({ examples: ['svc_ak_9fQ2'] }),
  label: Label,
  expiresAt: nullable(Timestamp),
  createdAt: Timestamp,
};
export const OwnerKeySchema = Type.Object(Shown, { $id: 'OwnerKey' });
export type OwnerKey = Static<typeof OwnerKeySchema>;
export const IssuedOwnerKey = Type.Object(
  { ...Shown, key: Type.String({ description: 'shown once', examples: ['svc_ak_9fQ2...'] }) },
  { $id: 'IssuedOwnerKey' },
);
/** Without `expiresAt` the key does not expire. */
export const NewOwnerKey = closed({ label: Label, expiresAt: optional(FutureTimestamp) });
export type NewOwnerKey = Static<typeof NewOwnerKey>;

const KEYS = new KeyTable<OwnerKey>(
  'owner_key',
  sql`id, prefix as "keyPrefix", label, expires_at as "expiresAt", created_at as "createdAt"`,
);

export async function createOwnerKey(app: App, caller: TenantCaller, body: NewOwnerKey): Promise<Issued<OwnerKey>> {
  const { label, expiresAt } = check(NewOwnerKey, body);
  return issueOwnerKey(app.db, caller.tenant.id, { label, expiresAt, createdBy: caller.id });
}

/** Issues a key. `expiresAt` is any text that Date reads. */
export async function issueOwnerKey(
  queries: Queries,
  tenantId: string,
  { label, expiresAt, createdBy }: { label: string; expiresAt?: string | null | undefined; createdBy: string | null },
): Promise<Issued<OwnerKey>> {
  const expires = expiresAt == null ? null : new Date(expiresAt).toISOString();
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
