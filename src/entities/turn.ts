// Turns: one change of a tenant's fields at a time, though it takes several transactions. A turn is a
// lease in platform.definition_changes, renewed while it lasts; every transaction of a change proves
// that the lease still holds, so a process that stalled cannot finish what another has cleared away.
// A row that outlives its lease marks a change that was cut off. Times are milliseconds.
import type { App } from '../app.ts';
import { conflict } from '../errors.ts';
import { newId } from '../runtime/ids.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { type Catalog, loadCatalog } from './catalog.ts';
import { lockDefinitions } from './entities.ts';

/** How long a killed process keeps others from the fields of a tenant. A change that stalls for longer is given up. */
const LEASE_MS = 20_000;
const RENEWAL_MS = 4_000;
const WAIT_MS = 5_000;
const POLL_MS = 100;

/** The right to change a tenant's fields. */
export interface Turn {
  readonly app: App;
  readonly tenant: Tenant;
  /** Whether a change before this one was cut off, and is to be cleared away. */
  readonly isAfterCrash: boolean;
  /** Set while the change would leave something to clear away; the row then stays when the turn ends. */
  isDirty: boolean;
  /** One transaction of the change, with the definitions as they are; announced when it has committed. */
  step<T>(work: (tx: Tx, catalog: Catalog) => Promise<T>): Promise<T>;
}

/** Runs a change when its turn has come. 409 when that takes longer than five seconds. */
export async function inTurn<T>(app: App, tenant: Tenant, change: (turn: Turn) => Promise<T>): Promise<T> {
  const holder = newId();
  const isAfterCrash = await acquire(app, tenant.id, holder);
  const renewal = setInterval(() => {
    renew(app, tenant.id, holder).catch((cause: unknown) => app.log.warn('a lease was not renewed', { cause }));
  }, RENEWAL_MS);
  const turn: Turn = {
    app,
    tenant,
    isAfterCrash,
    isDirty: isAfterCrash,
    step: (work) => step(app, tenant, holder, work),
  };
  try {
    return await change(turn);
  } finally {
    clearInterval(renewal);
    await release(turn, holder).catch((cause: unknown) => app.log.warn('a lease was not given back', { cause }));
  }
}

/** A dirty turn leaves its row behind, run out, so that the next turn clears away what it left. */
async function release({ app, tenant, isDirty }: Turn, holder: string): Promise<void> {
  const own = sql`tenant_id = ${tenant.id}::uuid and holder = ${holder}::uuid`;
  if (isDirty) await app.db.rows(sql`update platform.definition_changes set until = now() where ${own}`);
  else await app.db.rows(sql`delete from platform.definition_changes where ${own}`);
}

async function acquire(app: App, tenantId: string, holder: string): Promise<boolean> {
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const taken = await app.db.first<{ is_after_crash: boolean }>(sql`
      insert into platform.definition_changes as c (tenant_id, holder, until)
      values (${tenantId}::uuid, ${holder}::uuid, now() + ${LEASE_MS}::int * interval '1 ms')
      on conflict (tenant_id) do update set holder = excluded.holder, until = excluded.until
      where c.until <= now()
      returning xmax::text <> '0' as is_after_crash`);
    if (taken !== undefined) return taken.is_after_crash;
    if (performance.now() > deadline)
      throw conflict('another change of fields is under way; try again when it is done');
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function renew(app: App, tenantId: string, holder: string): Promise<void> {
  await app.db.rows(sql`
    update platform.definition_changes set until = now() + ${LEASE_MS}::int * interval '1 ms'
    where tenant_id = ${tenantId}::uuid and holder = ${holder}::uuid`);
}

async function step<T>(
  app: App,
  tenant: Tenant,
  holder: string,
  work: (tx: Tx, catalog: Catalog) => Promise<T>,
): Promise<T> {
  const result = await app.db.begin(async (tx) => {
    await lockDefinitions(tx, tenant.schema);
    const held = await tx.first(sql`
      select from platform.definition_changes
      where tenant_id = ${tenant.id}::uuid and holder = ${holder}::uuid
      for update`);
    if (held === undefined) throw conflict('the change took too long and was given up; try again');
    return work(tx, await loadCatalog(tx, tenant));
  });
  await app.changes.announce('catalog', tenant.id);
  return result;
}

/** Tenants in which a change was cut off. */
export async function cutOffTenants(app: App): Promise<string[]> {
  const rows = await app.db.rows<{ tenant_id: string }>(
    sql`select tenant_id from platform.definition_changes where until <= now()`,
  );
  return rows.map(({ tenant_id: id }) => id);
}
