// Counts the writes of a commit: records, bytes and events by tenant. A single statement is counted when it has run, a
// transaction when it has committed; a transaction that fails counts nothing. Before a transaction commits, its writes must be
// within the tenant's quotas.
// Contract: neighbours#usage-and-quotas.
import type { App } from '../app.ts';
import type { Transaction } from '../runtime/postgres.ts';
import type { Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { requireWithinQuotas, type WithinQuotas, type WrittenInTenant } from './write-quotas.ts';
import { type Writer, writeWindowsOf } from './write-rate.ts';

/** The changes of records by one statement. */
export interface Changes {
  writes: number;
  /** The growth of the number of records and of the bytes of their values. */
  records: number;
  bytes: number;
}

interface Written extends WrittenInTenant {
  events: number;
}

const tallies = new WeakMap<Tx, Map<string, Written>>();

/** Runs a transaction, and counts its writes once it has committed. 403 and 429 beyond a quota. */
export async function beginCounted<T>(app: App, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const tally = new Map<string, Written>();
  const checked: WithinQuotas[] = [];
  const run = async (tx: Transaction): Promise<T> => {
    tallies.set(tx, tally);
    const done = await work(tx);
    for (const [tenantId, written] of tally) {
      checked.push(await requireWithinQuotas(app, tx, tenantId, written));
    }
    return done;
  };
  try {
    const result = await app.db.begin(run);
    for (const [tenantId, { writes, events }] of tally) count(app, tenantId, writes, events);
    for (const { committed } of checked) committed();
    return result;
  } catch (error) {
    for (const { failed } of checked) await failed(error);
    throw error;
  }
}

/** The quotas of the writer's tenant, and its own limits, apply to what the transaction writes. */
export function applyQuotas(tx: Tx, writer: Writer): void {
  const written = writtenIn(tx, writer.tenant.id);
  if (written === undefined) return;
  written.quotas = writer.tenant.quotas;
  const windows = new Map([...written.windows, ...writeWindowsOf(writer)].map((window) => [window.key, window]));
  written.windows = [...windows.values()];
}

/** Whether the bytes that the transaction adds must be known. */
export function needsBytes(tx: Tx, tenantId: string): boolean {
  return tallies.get(tx)?.get(tenantId)?.quotas.storageBytes !== undefined;
}

/** Counts the changes of records that a statement has committed. Each has an event. */
export function countChanges(app: App, tenantId: string, { writes }: Changes): void {
  count(app, tenantId, writes, writes);
}

/** Counts changes of records when the transaction commits. Each has an event. */
export function tallyChanges(tx: Tx, tenantId: string, { writes, records, bytes }: Changes): void {
  const written = writtenIn(tx, tenantId);
  if (written === undefined) return;
  written.writes += writes;
  written.events += writes;
  written.records += records;
  written.bytes += bytes;
}

/** Counts an event that is not the change of a record, when the transaction commits. */
export function tallyEvent(tx: Tx, tenantId: string): void {
  const written = writtenIn(tx, tenantId);
  if (written !== undefined) written.events += 1;
}

function writtenIn(tx: Tx, tenantId: string): Written | undefined {
  const tally = tallies.get(tx);
  const known = tally?.get(tenantId);
  if (known !== undefined || tally === undefined) return known;
  const written = { writes: 0, records: 0, bytes: 0, events: 0, quotas: {}, windows: [] };
  tally.set(tenantId, written);
  return written;
}

function count(app: App, tenantId: string, writes: number, events: number): void {
  const counts = app.counters.of(tenantId);
  counts.writes += writes;
  counts.events += events;
}

/** Counts a request that reads records: of one, a list, a view, an aggregate or an export. */
export function countRead(app: App, { tenant }: { tenant: Pick<Tenant, 'id'> }): void {
  app.counters.of(tenant.id).reads += 1;
}
