// What a commit writes: records, bytes and events by tenant. A single statement is counted when it has run, a
// transaction when it has committed; one that fails counts nothing.
// Contract: neighbours#usage-and-quotas.
import type { App } from '../app.ts';
import type { Transaction } from '../runtime/postgres.ts';
import type { Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';

/** What a transaction has written in one tenant so far. */
interface Written {
  writes: number;
  events: number;
}

class Tally {
  readonly byTenant = new Map<string, Written>();

  of(tenantId: string): Written {
    const known = this.byTenant.get(tenantId);
    if (known !== undefined) return known;
    const written = { writes: 0, events: 0 };
    this.byTenant.set(tenantId, written);
    return written;
  }
}

const tallies = new WeakMap<Tx, Tally>();

/** Runs a transaction and counts what it has written, once it has committed. */
export async function beginCounted<T>(app: App, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const tally = new Tally();
  const result = await app.db.begin((tx) => {
    tallies.set(tx, tally);
    return work(tx);
  });
  for (const [tenantId, { writes, events }] of tally.byTenant) count(app, tenantId, writes, events);
  return result;
}

/** Counts the changes of records that a statement has committed. Each has an event. */
export function countChanges(app: App, tenantId: string, changes: number): void {
  count(app, tenantId, changes, changes);
}

/** Counts changes of records when the transaction commits. Each has an event. */
export function tallyChanges(tx: Tx, tenantId: string, changes: number): void {
  const written = tallies.get(tx)?.of(tenantId);
  if (written === undefined) return;
  written.writes += changes;
  written.events += changes;
}

/** Counts an event that is not the change of a record, when the transaction commits. */
export function tallyEvent(tx: Tx, tenantId: string): void {
  const written = tallies.get(tx)?.of(tenantId);
  if (written !== undefined) written.events += 1;
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
