// The definition lock of a tenant: one change of its fields at a time, over several transactions. The lock is a lease in
// platform.definition_locks, renewed while the change lasts. Each transaction verifies that it still holds the lease, so a
// stalled process cannot finish a change that another process has cleaned up. A row marks an interrupted change when its lease
// has expired, or when its process has no connection to the database any more. Times are milliseconds.
// Contract: decisions#field-changes.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../app.ts';
import { conflict, ServiceError } from '../errors.ts';
import { isOfNone, newOwnedId } from '../runtime/owned-ids.ts';
import { type Sql, sql, type Tx } from '../runtime/sql.ts';
import { withoutSignal } from '../runtime/work.ts';
import { liveProcesses } from '../tenants/live-processes.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { type Catalog, loadCatalog } from './catalog.ts';
import { lockDefinitions } from './entities.ts';

/** How long a process that hangs blocks field changes in its tenant; a change that stalls for longer is abandoned. */
const LEASE_MS = 20_000;
/** How long after the last renewal a process without a connection counts as dead: it may just be reconnecting. */
const DEAD_MS = 1_000;
const RENEWAL_MS = 4_000;
const WAIT_MS = 5_000;
const POLL_MS = 100;

/** A held definition lock. */
export interface DefinitionLock {
  readonly app: App;
  readonly tenant: Tenant;
  /** Whether the previous holder's change was interrupted and needs cleanup. */
  readonly wasInterrupted: boolean;
  /** Whether an interruption now would need cleanup; if so, releasing the lock keeps its row. */
  needsCleanup: boolean;
  /** One transaction of the change, with the current definitions; its commit invalidates the cached catalog. */
  transaction<T>(work: (tx: Tx, catalog: Catalog) => Promise<T>): Promise<T>;
}

/**
 * Runs a change under the lock. 409 when the lock is not free within five seconds. A change that has begun goes on when
 * its client has gone.
 */
export function withDefinitionLock<T>(
  app: App,
  tenant: Tenant,
  change: (lock: DefinitionLock) => Promise<T>,
): Promise<T> {
  return withoutSignal(() => runUnderLock(app, tenant, change));
}

async function runUnderLock<T>(app: App, tenant: Tenant, change: (lock: DefinitionLock) => Promise<T>): Promise<T> {
  if (app.db.dryRun !== undefined) return change(await dryLock(app, tenant));
  const holder = newOwnedId(app.db.id);
  const wasInterrupted = await acquire(app, tenant.id, holder);
  const renewal = setInterval(() => {
    renew(app, tenant.id, holder).catch((cause: unknown) =>
      app.log.warn('failed to renew the definition lock', { cause }),
    );
  }, RENEWAL_MS);
  const lock: DefinitionLock = {
    app,
    tenant,
    wasInterrupted,
    needsCleanup: wasInterrupted,
    transaction: (work) => transactionUnder(app, tenant, holder, work),
  };
  try {
    return await change(lock);
  } finally {
    clearInterval(renewal);
    await release(lock, holder).catch((cause: unknown) =>
      app.log.warn('failed to release the definition lock', { cause }),
    );
  }
}

/**
 * A dry run takes no lock, since others would have to wait for the end of its transaction. It waits for no lock either: it
 * holds a connection, on the embedded database the only session, which the change in progress may need. For the same reason it
 * does not query which processes are alive. 409 while a change is in progress.
 */
async function dryLock(app: App, tenant: Tenant): Promise<DefinitionLock> {
  const held = await app.db.first(sql`
    select from platform.definition_locks as l
    where tenant_id = ${tenant.id}::uuid and not ${isFree([])}`);
  if (held !== undefined) throw new BeingChanged();
  const transaction: DefinitionLock['transaction'] = async (work) => {
    const result = await app.db.begin(async (tx) => work(tx, await loadCatalog(tx, tenant)));
    await app.invalidations.publish('catalog', tenant.id);
    return result;
  };
  return { app, tenant, wasInterrupted: false, needsCleanup: false, transaction };
}

/** If cleanup is needed, keeps the row with an expired lease, so that the next holder cleans up. */
async function release({ app, tenant, needsCleanup }: DefinitionLock, holder: string): Promise<void> {
  const own = sql`tenant_id = ${tenant.id}::uuid and holder = ${holder}::uuid`;
  if (needsCleanup) await app.db.rows(sql`update platform.definition_locks set expires_at = now() where ${own}`);
  else await app.db.rows(sql`delete from platform.definition_locks where ${own}`);
}

async function acquire(app: App, tenantId: string, holder: string): Promise<boolean> {
  let live: readonly string[] = [];
  const { was_interrupted: wasInterrupted } = await polled(async () => {
    const taken = await app.db.first<{ was_interrupted: boolean }>(sql`
      insert into platform.definition_locks as l (tenant_id, holder, expires_at)
      values (${tenantId}::uuid, ${holder}::uuid, now() + ${LEASE_MS}::int * interval '1 ms')
      on conflict (tenant_id) do update set holder = excluded.holder, expires_at = excluded.expires_at
      where ${isFree(live)}
      returning xmax::text <> '0' as was_interrupted`);
    if (taken === undefined) live = await liveProcesses(app);
    return taken;
  });
  return wasInterrupted;
}

/** The tenants whose last change was interrupted. */
export async function interruptedTenants(app: App): Promise<string[]> {
  const rows = await app.db.rows<{ id: string }>(
    sql`select l.tenant_id as id from platform.definition_locks as l where ${isFree(await liveProcesses(app))}`,
  );
  return rows.map(({ id }) => id);
}

/**
 * The condition that the lock `l` is free: its lease has expired, or the process that holds it is not in `live`. An empty
 * `live` means that the living processes are not known; then only the lease decides.
 */
function isFree(live: readonly string[]): Sql {
  const isExpired = sql`l.expires_at <= clock_timestamp()`;
  if (live.length === 0) return isExpired;
  const isStale = sql`l.expires_at <= clock_timestamp() + ${LEASE_MS - DEAD_MS}::int * interval '1 ms'`;
  return sql`(${isExpired} or (${isStale} and ${isOfNone(sql`l.holder`, live)}))`;
}

/** Another change holds the lock. */
class BeingChanged extends ServiceError {
  constructor() {
    super('CONFLICT', 'another change of fields is in progress; try again later');
  }
}

/** Whether the error is that another change held the lock. */
export function isBeingChanged(error: unknown): boolean {
  return error instanceof BeingChanged;
}

/** Resolves to the first result; 409 when there is none within five seconds. */
async function polled<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (performance.now() > deadline) throw new BeingChanged();
    await delay(POLL_MS);
  }
}

async function renew(app: App, tenantId: string, holder: string): Promise<void> {
  await app.db.rows(sql`
    update platform.definition_locks set expires_at = now() + ${LEASE_MS}::int * interval '1 ms'
    where tenant_id = ${tenantId}::uuid and holder = ${holder}::uuid`);
}

async function transactionUnder<T>(
  app: App,
  tenant: Tenant,
  holder: string,
  work: (tx: Tx, catalog: Catalog) => Promise<T>,
): Promise<T> {
  const result = await app.db.begin(async (tx) => {
    await lockDefinitions(tx, tenant.schema);
    const held = await tx.first(sql`
      select from platform.definition_locks
      where tenant_id = ${tenant.id}::uuid and holder = ${holder}::uuid
      for update`);
    if (held === undefined) throw conflict('the change took too long and was abandoned; try again');
    return work(tx, await loadCatalog(tx, tenant));
  });
  await app.invalidations.publish('catalog', tenant.id);
  return result;
}
