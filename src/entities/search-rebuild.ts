// Rebuilds the search terms of an entity's records after its `searchFolding` has changed, in the background and in slices,
// while records are read and written: a batch skips locked rows, and takes them later. Writes make the new terms from the
// change on. Readers see the same records, so ETags stay. Any process may continue where another has stopped. Times are
// milliseconds. Contract: decisions#search, neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import { type App, perApp } from '../app.ts';
import { conflict, ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { newId } from '../runtime/ids.ts';
import { identifier, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { forTenant } from '../runtime/work.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { type Tenant, tenantById } from '../tenants/tenants.ts';
import { pagesOf, type StoredRow, waitForOlderWrites } from './backfill.ts';
import { loadCatalog } from './catalog.ts';
import { withDefinitionLock } from './definition-lock.ts';
import type { Entity } from './field.ts';
import { searchVector } from './search-vector.ts';

const POLL_MS = 30_000;
/** How long a process works on one entity before it turns to the next; another process may take over after `LEASE_S`. */
const SLICE_MS = 2_000;
const LEASE_S = 60;
const LATER_S = 5;
const BATCH_ROWS = 200;
const LOCKED_MS = 50;
const LOCKED_MAX_MS = 10_000;
const FIRST = '00000000-0000-0000-0000-000000000000';
const NO_TENANT = FIRST;

interface Rebuild {
  entityId: string;
  tenantId: string;
  attempt: string;
  afterId: string | null;
}

const workerOf = perApp(() => ({ worker: undefined as Worker | undefined }));

export function startSearchRebuilds(app: App): Worker {
  let latest = NO_TENANT;
  const once = async (signal: AbortSignal): Promise<number> => {
    const tenantId = await rebuildSearchOnce(app, signal, latest);
    latest = tenantId ?? NO_TENANT;
    return tenantId === null ? 0 : 1;
  };
  const worker = startWorker({ name: 'search terms', once, pollMs: POLL_MS, log: app.log });
  workerOf(app).worker = worker;
  return worker;
}

/** Changes the setting, and has the terms rebuilt from the start. Must hold the definition lock. */
export async function changeSearchFolding(tx: Tx, entity: Entity, searchFolding: boolean): Promise<void> {
  await tx.rows(sql`
    update ${identifier(entity.schema, 'entity_definitions')}
    set search_folding = ${searchFolding}::boolean, version = version + 1
    where id = ${entity.id}::uuid`);
  await tx.rows(sql`
    insert into platform.search_rebuilds as s (entity_id, tenant_id, attempt)
    values (${entity.id}::uuid, ${entity.tenantId}::uuid, ${newId()}::uuid)
    on conflict (tenant_id, entity_id) do update set attempt = excluded.attempt, after_id = null, due_at = now()`);
}

/** Wakes the worker, because a rebuild has been requested. */
export function nudgeSearchRebuild(app: App): void {
  workerOf(app).worker?.nudge();
}

/**
 * Continues the rebuild of one entity, of the next tenant after `latest`: tenants take turns, and the entities of a tenant do
 * too. Resolves to that tenant's id; null when nothing is due.
 */
export async function rebuildSearchOnce(
  app: App,
  signal?: AbortSignal,
  latest: string = NO_TENANT,
): Promise<string | null> {
  const rebuild = await app.db.first<Rebuild>(sql`
    update platform.search_rebuilds as s set due_at = now() + make_interval(secs => ${LEASE_S}::int)
    from (
      select tenant_id, entity_id from platform.search_rebuilds where due_at <= now()
      order by tenant_id <= ${latest}::uuid, tenant_id, due_at limit 1 for update skip locked
    ) as due
    where s.tenant_id = due.tenant_id and s.entity_id = due.entity_id
    returning s.entity_id as "entityId", s.tenant_id as "tenantId", s.attempt, s.after_id as "afterId"`);
  if (rebuild === undefined) return null;
  const tenant = await tenantById(app, rebuild.tenantId);
  if (tenant === null) return rebuild.tenantId;
  await forTenant(tenant.id, async () => {
    try {
      await rebuildSlice(app, tenant, rebuild, performance.now() + SLICE_MS, signal);
    } catch (error) {
      // Records stay locked, or the definition is being changed.
      if (!(error instanceof ServiceError && error.ecode === 'CONFLICT')) throw error;
      await advance(app, rebuild, rebuild.afterId, LATER_S);
    }
  });
  return tenant.id;
}

async function rebuildSlice(
  app: App,
  tenant: Tenant,
  rebuild: Rebuild,
  until: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const entity = await entityOf(app, tenant, rebuild);
  if (entity === undefined) return finish(app, tenant, rebuild);
  if (rebuild.afterId === null) {
    // Wait until no process searches, and no write makes terms, under the previous setting.
    await delay(LIMITS.cacheStaleMs);
    await waitForOlderWrites(app, entity);
  }
  const after = sql`r.id > ${rebuild.afterId ?? FIRST}::uuid`;
  for await (const rows of pagesOf<StoredRow>(app, entity, after, sql`r.version, r.data`, sql`r.data`, BATCH_ROWS)) {
    await rebuildRows(app, tenant, rebuild, entity, rows);
    rebuild.afterId = (rows.at(-1) as StoredRow).id;
    const isOver = performance.now() > until || signal?.aborted === true;
    if (!(await advance(app, rebuild, rebuild.afterId, isOver ? 0 : LEASE_S)) || isOver) return;
  }
  await finish(app, tenant, rebuild);
}

async function entityOf(app: App, tenant: Tenant, { entityId }: Rebuild): Promise<Entity | undefined> {
  return (await loadCatalog(app.db, tenant)).byId.get(entityId);
}

/** Rebuilds the terms of all rows; rows that are locked, or changed meanwhile, are read again. 409 when some stay locked. */
async function rebuildRows(
  app: App,
  tenant: Tenant,
  rebuild: Rebuild,
  entity: Entity,
  rows: readonly StoredRow[],
): Promise<void> {
  const deadline = performance.now() + LOCKED_MAX_MS;
  for (let [current, left]: [Entity | undefined, readonly StoredRow[]] = [entity, rows]; current !== undefined; ) {
    const done = new Set(await replaceVectors(app, current, left));
    const ids = left.flatMap(({ id }) => (done.has(id) ? [] : [id]));
    if (ids.length === 0) return;
    if (performance.now() > deadline) throw conflict('records stay locked by other transactions');
    await delay(LOCKED_MS);
    current = await entityOf(app, tenant, rebuild);
    left = await app.db.slow.rows<StoredRow>(sql`
      select r.id, r.version, r.data from ${entity.table} as r where r.id = any(${ids}::uuid[])`);
  }
}

/** Stores the new terms. Resolves to the ids of the rows that have them now. */
async function replaceVectors(app: App, entity: Entity, rows: readonly StoredRow[]): Promise<string[]> {
  const vectors: (string | null)[] = [];
  for (const { data } of rows) {
    await giveWay();
    vectors.push(await searchVector(entity, data));
  }
  const done = await app.db.slow.rows<{ id: string }>(sql`
    with input as (
      select * from unnest(
        ${rows.map(({ id }) => id)}::uuid[],
        ${rows.map(({ version }) => version)}::bigint[],
        ${vectors}::text[]
      ) as i (id, version, search_vector)
    ),
    free as materialized (
      select r.id, i.search_vector::tsvector as search_vector
      from ${entity.table} as r join input as i on r.id = i.id and r.version = i.version
      where exists (
        select from ${identifier(entity.schema, 'entity_definitions')} as d
        where d.id = ${entity.id}::uuid and d.version = ${entity.version}::bigint)
      for update of r skip locked
    ),
    changed as (
      update ${entity.table} as r set search_vector = f.search_vector
      from free as f
      where r.id = f.id and r.search_vector is distinct from f.search_vector
    )
    select id from free`);
  return done.map(({ id }) => id);
}

/** Stores how far the rebuild is, and when it continues; false when the setting has changed again. */
async function advance(app: App, rebuild: Rebuild, afterId: string | null, s: number): Promise<boolean> {
  const kept = await app.db.first(sql`
    update platform.search_rebuilds
    set after_id = ${afterId}::uuid, due_at = now() + make_interval(secs => ${s}::int)
    where ${isStill(rebuild)}
    returning 1 as one`);
  return kept !== undefined;
}

/** Ends the rebuild: from now on searches use the new terms, and the new version invalidates cached totals. */
async function finish(app: App, tenant: Tenant, rebuild: Rebuild): Promise<void> {
  await withDefinitionLock(app, tenant, (lock) =>
    lock.transaction(async (tx) => {
      const ended = await tx.first(sql`
        delete from platform.search_rebuilds where ${isStill(rebuild)}
        returning 1 as one`);
      if (ended === undefined) return;
      await tx.rows(sql`
        update ${identifier(tenant.schema, 'entity_definitions')} set version = version + 1
        where id = ${rebuild.entityId}::uuid`);
    }),
  );
}

function isStill({ tenantId, entityId, attempt }: Rebuild): Sql {
  return sql`tenant_id = ${tenantId}::uuid and entity_id = ${entityId}::uuid and attempt = ${attempt}::uuid`;
}
