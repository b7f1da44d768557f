// The quotas of what a transaction writes: records, bytes of their values, and writes in a minute. They are checked
// before the commit, so that nothing is half done. Close to a limit, transactions of the tenant check and commit one
// after the other: each sees what the others have committed, so that the counts are exact. The lock is the last one
// that a transaction takes, so its holder never waits for another one.
// Failures: 403 and 429 QUOTA_EXCEEDED; 503 while the broker is unavailable. Contract: neighbours#usage-and-quotas.
import type { App } from '../app.ts';
import { quotaExceeded, ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import { type Quotas, schemaOf } from '../tenants/tenants.ts';
import { noticeUse } from './near-quota.ts';
import { countWrites } from './write-rate.ts';

/** What a transaction has written in a tenant: the changes of its records and bytes, and the number of writes. */
export interface WrittenInTenant {
  records: number;
  bytes: number;
  writes: number;
  /** Operators are not limited by rates. */
  isOperator: boolean;
  quotas: Quotas;
}

interface Stored {
  records: number;
  bytes: number;
}

/** Whether writes of the tenant are limited. They must be made in transactions. */
export function limitsWrites({ records, storageBytes, writesPerMin }: Quotas): boolean {
  return records !== undefined || storageBytes !== undefined || writesPerMin !== undefined;
}

export function isQuotaExceeded(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.ecode === 'QUOTA_EXCEEDED';
}

/** How many writes still fit, from a refusal by a quota that counts them; undefined for any other error. */
export function roomLeft(error: unknown): number | undefined {
  if (!isQuotaExceeded(error)) return undefined;
  const [use] = (error.details ?? []) as readonly { quota?: string; limit?: number; used?: number }[];
  if (use?.limit === undefined || use.used === undefined) return undefined;
  const room = Math.max(0, use.limit - use.used);
  return use.quota === 'storageBytes' && room > 0 ? undefined : room;
}

/** What follows the end of a transaction that is within the quotas. */
export interface WithinQuotas {
  committed(): void;
  failed(error: unknown): Promise<void>;
}

/** Refuses what exceeds a quota, as the last step of a transaction. */
export async function requireWithinQuotas(
  app: App,
  tx: Tx,
  tenantId: string,
  written: WrittenInTenant,
): Promise<WithinQuotas> {
  const stored = await requireRoom(tx, tenantId, written);
  const { quotas, writes, isOperator } = written;
  const { writesPerMin } = quotas;
  const isCounted = writesPerMin !== undefined && writes > 0 && !isOperator;
  const counted = isCounted ? await countWrites(app, tenantId, writesPerMin, writes) : undefined;
  const committed = (): void => {
    const uses = { records: stored?.records, storageBytes: stored?.bytes, writesPerMin: counted?.used };
    for (const [quota, used] of Object.entries(uses) as [keyof typeof uses, number | undefined][]) {
      const limit = quotas[quota];
      if (limit !== undefined && used !== undefined) noticeUse(app, tenantId, quota, limit, used);
    }
  };
  return { committed, failed: async (error) => counted?.undo(error) };
}

/** Resolves to what is stored, if the transaction adds to something that is limited. */
async function requireRoom(tx: Tx, tenantId: string, written: WrittenInTenant): Promise<Stored | undefined> {
  const { quotas } = written;
  const maxRecords = written.records > 0 ? quotas.records : undefined;
  const maxBytes = written.bytes > 0 ? quotas.storageBytes : undefined;
  if (maxRecords === undefined && maxBytes === undefined) return undefined;
  const { recordsAhead, bytesAhead } = LIMITS.quota;
  let stored = await readStored(tx, tenantId);
  const isNear =
    (maxRecords !== undefined && stored.records > maxRecords - recordsAhead) ||
    (maxBytes !== undefined && stored.bytes > maxBytes - bytesAhead);
  if (isNear) {
    await tx.rows(sql`select pg_advisory_xact_lock(hashtext('quotas'), hashtext(${tenantId}))`);
    stored = await readStored(tx, tenantId);
  }
  if (maxRecords !== undefined && stored.records > maxRecords) {
    throw quotaExceeded({ quota: 'records', limit: maxRecords, used: stored.records - written.records });
  }
  if (maxBytes !== undefined && stored.bytes > maxBytes) {
    throw quotaExceeded({ quota: 'storageBytes', limit: maxBytes, used: stored.bytes - written.bytes });
  }
  return stored;
}

/** What others have committed, and what the transaction has written. */
async function readStored(tx: Tx, tenantId: string): Promise<Stored> {
  const row = await tx.first<Stored>(sql`
    select coalesce(sum(n), 0)::bigint as records, coalesce(sum(bytes), 0)::bigint as bytes
    from ${identifier(schemaOf(tenantId), 'entity_counts')}`);
  return row ?? { records: 0, bytes: 0 };
}
