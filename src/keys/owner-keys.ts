// Owner API keys: full access to one tenant. The value is shown once; its hash is kept, and a
// revoked key is refused by every process within a second.
// Contract: decisions#tenants.
import type { TenantCaller } from '../access/caller.ts';
import { CREDENTIAL_KINDS } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { FUTURE, Input, text } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { type Queries, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { displayPrefix, newToken, sha256 } from '../runtime/tokens.ts';
import { revokeKey } from './revoke.ts';

export interface OwnerKey {
  id: string;
  keyPrefix: string;
  label: string;
  expiresAt: string | null;
  createdAt: string;
}

interface KeyRow {
  id: string;
  prefix: string;
  label: string;
  expires_at: string | null;
  created_at: string;
}

const COLUMNS = sql`id, prefix, label, expires_at, created_at`;

/** Makes the key that a body asks for. 400 with every problem. */
export async function createOwnerKey(
  app: App,
  caller: TenantCaller,
  body: JsonObject,
): Promise<OwnerKey & { key: string }> {
  const input = new Input(body);
  const label = input.required('label', text(LIMITS.key.labelMax));
  const expiresAt = input.optional('expiresAt', FUTURE);
  input.refuseOthers();
  input.done();
  const expires = expiresAt === undefined ? undefined : new Date(expiresAt).toISOString();
  return issueOwnerKey(app.db, caller.tenant.id, { label, expiresAt: expires, createdBy: caller.id });
}

/** Makes a key; the answer is the only place its value ever stands. */
export async function issueOwnerKey(
  queries: Queries,
  tenantId: string,
  input: { label: string; expiresAt?: string | undefined; createdBy: string | null },
): Promise<OwnerKey & { key: string }> {
  const key = newToken(CREDENTIAL_KINDS.owner_key.format);
  const row = await queries.first<KeyRow>(sql`
    insert into platform.owner_keys (id, tenant_id, prefix, hash, label, expires_at, created_by)
    values (${newId()}::uuid, ${tenantId}::uuid, ${displayPrefix(key, CREDENTIAL_KINDS.owner_key.format)},
      decode(${sha256(key).toString('hex')}, 'hex'), ${input.label}, ${input.expiresAt ?? null}::timestamptz,
      ${input.createdBy})
    returning ${COLUMNS}`);
  return { ...toKey(row as KeyRow), key };
}

/** The tenant's usable and expired keys, newest first, without their values. */
export async function listOwnerKeys(app: App, caller: TenantCaller): Promise<OwnerKey[]> {
  const rows = await app.db.rows<KeyRow>(sql`
    select ${COLUMNS} from platform.owner_keys
    where tenant_id = ${caller.tenant.id}::uuid and revoked_at is null
    order by id desc`);
  return rows.map(toKey);
}

/** Revokes at once, on every process. 404 for a key that is not the tenant's, or revoked already. */
export function revokeOwnerKey(app: App, caller: TenantCaller, id: string): Promise<void> {
  return revokeKey(app, caller, 'owner_keys', id);
}

function toKey(row: KeyRow): OwnerKey {
  const { id, prefix, label, expires_at: expiresAt, created_at: createdAt } = row;
  return { id, keyPrefix: prefix, label, expiresAt, createdAt };
}
