// The quotas of writes: records, bytes of their values, and writes per minute. Far from a limit, a write of one record checks
// them in its own statement. Otherwise a transaction checks them before its commit, so that nothing is half done. Close to a
// limit, transactions of the tenant check and commit one after the other: each sees what the others have committed, so the
// counts are exact. The lock for this is the last one that a transaction takes, so it waits for no other.
// Failures: 403 and 429 QUOTA_EXCEEDED; 503 while the broker is unavailable.
// Contract: neighbours#usage-and-quotas.
import { type App, perApp } from '../app.ts';
import { quotaExceeded, ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { literal, raw, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { Quotas, Tenant } from '../tenants/tenants.ts';
import { NEAR, noticeUse } from './near-quota.ts';
import { countWrites, requireRoomForWrites, type Writer, type WriteWindow, writeWindowsOf } from './write-rate.ts';

/** The writes of a transaction in a tenant: the changes of its records and bytes, and the number of writes. */
export interface WrittenInTenant {
  records: number;
  bytes: number;
  writes: number;
  quotas: Quotas;
  /** The windows in which the writes count. */
  windows: readonly WriteWindow[];
}

interface Stored {
  records: number;
  bytes: number;
}

/** How long a tenant that was close to a quota counts as close, in milliseconds. */
const NEAR_KEPT_MS = 1_000;
const NEAR_TENANTS_MAX = 10_000;
const nearUntil = perApp(() => new Map<string, number>());

/** Whether a tenant's writes are limited, or a bot's. */
export function areWritesLimited({ tenant, limits }: Writer): boolean {
  const { records, storageBytes, writesPerMin } = tenant.quotas;
  const all = [records, storageBytes, writesPerMin, limits?.writesPerHour];
  return all.some((limit) => limit !== undefined);
}

export function isQuotaExceeded(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.ecode === 'QUOTA_EXCEEDED';
}

/** The number of writes that still fit, from a refusal by a quota of writes; undefined for any other error. */
export function roomLeft(error: unknown): number | undefined {
  if (!isQuotaExceeded(error)) return undefined;
  const [use] = (error.details ?? []) as readonly { quota?: string; limit?: number; used?: number }[];
  if (use?.limit === undefined || use.used === undefined) return undefined;
  const room = Math.max(0, use.limit - use.used);
  return use.quota === 'storageBytes' && room > 0 ? undefined : room;
}

/**
 * Whether a write of one record may check the quotas in its own statement. It may not close to a limit: transactions check that
 * limit exactly, and notice the use.
 */
export function isProbablyFar(app: App, { id, quotas }: Pick<Tenant, 'id' | 'quotas'>): boolean {
  const { records, bytes } = farFrom(quotas);
  return records > 0 && bytes > 0 && (nearUntil(app).get(id) ?? 0) < performance.now();
}

/** The condition that the tenant stays far from its quotas with one more record, of any size. */
export function isFarFromQuotas({ id, quotas }: Pick<Tenant, 'id' | 'quotas'>): Sql {
  const { records, bytes } = farFrom(quotas);
  if (records === Number.POSITIVE_INFINITY && bytes === Number.POSITIVE_INFINITY) return sql`true`;
  const conditions = [
    ...(records === Number.POSITIVE_INFINITY ? [] : [`coalesce(sum(n), 0) < ${records}`]),
    ...(bytes === Number.POSITIVE_INFINITY ? [] : [`coalesce(sum(bytes), 0) < ${bytes}`]),
  ];
  return sql`(
    select ${raw(conditions.join(' and '))} from platform.entity_counts where tenant_id = ${literal(id)}::uuid)`;
}

/** Thresholds as whole numbers: below them, one more record is neither close to a limit nor a use to announce. */
function farFrom({ records, storageBytes }: Quotas): Stored {
  const { recordsAhead, bytesAhead } = LIMITS.quota;
  const below = (limit: number | undefined, ahead: number, added: number): number =>
    limit === undefined ? Number.POSITIVE_INFINITY : Math.floor(Math.min(limit - ahead, limit * NEAR)) - added;
  return {
    records: below(records, recordsAhead, 1),
    bytes: below(storageBytes, bytesAhead, LIMITS.recordBytesMax),
  };
}

/** Runs a statement that writes one record, far from the quotas of sizes, and counts it. Null when nothing changed. */
export async function withinWriteRate<T>(app: App, writer: Writer, write: () => Promise<T>): Promise<T> {
  const windows = writeWindowsOf(writer);
  if (windows.length === 0) return write();
  requireRoomForWrites(app, windows);
  const counted = await countWrites(app, windows, 1);
  let written: T;
  try {
    written = await write();
  } catch (error) {
    await counted.undo(error);
    throw error;
  }
  const { id, quotas } = writer.tenant;
  if (written === null) await counted.undo(null);
  else if (counted.used !== undefined) noticeUse(app, id, 'writesPerMin', quotas.writesPerMin ?? 0, counted.used);
  return written;
}

/** Functions for the end of a transaction that is within the quotas. */
export interface WithinQuotas {
  committed(): void;
  failed(error: unknown): Promise<void>;
}

/** Refuses a transaction that exceeds a quota. Must be the last step of the transaction. */
export async function requireWithinQuotas(
  app: App,
  tx: Tx,
  tenantId: string,
  written: WrittenInTenant,
): Promise<WithinQuotas> {
  const stored = await requireRoom(app, tx, tenantId, written);
  const { quotas, writes, windows } = written;
  const counted = writes > 0 ? await countWrites(app, windows, writes) : undefined;
  const committed = (): void => {
    const uses = { records: stored?.records, storageBytes: stored?.bytes, writesPerMin: counted?.used };
    for (const [quota, used] of Object.entries(uses) as [keyof typeof uses, number | undefined][]) {
      const limit = quotas[quota];
      if (limit !== undefined && used !== undefined) noticeUse(app, tenantId, quota, limit, used);
    }
  };
  return { committed, failed: async (error) => counted?.undo(error) };
}

/** Resolves to the stored amounts, if the transaction adds to something that has a quota. */
async function requireRoom(app: App, tx: Tx, tenantId: string, written: WrittenInTenant): Promise<Stored | undefined> {
  const { quotas } = written;
  const maxRecords = written.records > 0 ? quotas.records : undefined;
  const maxBytes = written.bytes > 0 ? quotas.storageBytes : undefined;
  if (maxRecords === undefined && maxBytes === undefined) return undefined;
  const { recordsAhead, bytesAhead } = LIMITS.quota;
  let stored = await readStored(tx, tenantId);
  const far = farFrom(quotas);
  if (stored.records >= far.records || stored.bytes >= far.bytes) rememberNear(app, tenantId);
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

function rememberNear(app: App, tenantId: string): void {
  const known = nearUntil(app);
  if (known.size >= NEAR_TENANTS_MAX) known.clear();
  known.set(tenantId, performance.now() + NEAR_KEPT_MS);
}

/** The stored amounts: those that others have committed, and those that the transaction has written. */
async function readStored(tx: Tx, tenantId: string): Promise<Stored> {
  const row = await tx.first<Stored>(sql`
    select coalesce(sum(n), 0)::bigint as records, coalesce(sum(bytes), 0)::bigint as bytes
    from platform.entity_counts
    where tenant_id = ${tenantId}::uuid`);
  return row ?? { records: 0, bytes: 0 };
}
