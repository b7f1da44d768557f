// Definitions of views: written by tenant admins, listed for callers that may read them. A process caches a tenant's
// views; the invalidation of its catalog clears them on every process.
// Failures: 400 with every problem, 404, 409 for a duplicate slug. Contract: interface#view, interface#views.
import type { TenantCaller } from '../access/caller.ts';
import { publishRevokedGrants, revokeGrants } from '../access/grants.ts';
import { allows } from '../access/rights.ts';
import { type App, perApp } from '../app.ts';
import { announceView, changerOf } from '../entities/announcement.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import { lockCatalog } from '../entities/entities.ts';
import type { Entity } from '../entities/field.ts';
import { conflict, notFound } from '../errors.ts';
import { notifyCommitted } from '../events/publication.ts';
import { check, requireFits } from '../http/check.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { newId } from '../runtime/ids.ts';
import { notKept, sql, type Tx } from '../runtime/sql.ts';
import { jsonBytes } from '../runtime/text.ts';
import { requireRoom, requireTextFits } from '../tenants/definition-counts.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { dslProblems, visibleDsl } from './dsl.ts';
import { type FilterDsl, NewView, type View, ViewChange } from './view.ts';

type ViewRow = Omit<View, 'entitySlug'> & { entity_id: string };

interface TenantViews {
  bySlug: ReadonlyMap<string, ViewRow>;
  /** As in the catalog. */
  definitionChanges: number;
}

const COLUMNS = sql`id, slug, entity_id, name, description, filter_dsl as "filterDsl", created_at as "createdAt",
  updated_at as "updatedAt"`;
const CACHED_TENANTS = 2_000;
const cacheOf = perApp((app) => app.invalidations.cache<TenantViews>('catalog', CACHED_TENANTS));

async function viewsOf(app: App, tenant: Tenant): Promise<TenantViews> {
  return cacheOf(app).get(tenant.id, async () => {
    const rows = await app.db.rows<{ changes: number } & (ViewRow | { id: null })>(
      notKept(sql`
      select t.definition_changes::float8 as changes, v.*
      from platform.tenants as t
      left join (select ${COLUMNS} from platform.views where tenant_id = ${tenant.id}::uuid) as v on true
      where t.id = ${tenant.id}::uuid
      order by v.slug collate "C"`),
    );
    const views = rows.flatMap(({ changes: _, ...view }) => (view.id === null ? [] : view));
    return { bySlug: new Map(views.map((view) => [view.slug, view])), definitionChanges: rows[0]?.changes ?? 0 };
  });
}

/** How many of the tenant's announced changes the views and the catalog contain. */
export async function definitionChangesOf(app: App, tenant: Tenant): Promise<number> {
  const views = await viewsOf(app, tenant);
  const catalog = await catalogOf(app, tenant);
  return Math.min(views.definitionChanges, catalog.definitionChanges);
}

/** Drops the cached views, so that the next read loads them again. */
export function forgetViews(app: App, tenant: Tenant): void {
  cacheOf(app).drop(tenant.id);
}

interface FoundView {
  view: ViewRow;
  entity: Entity;
  catalog: Catalog;
}

/** A view with its entity and their catalog; undefined for none. */
export async function findView(app: App, caller: TenantCaller, slug: string): Promise<FoundView | undefined> {
  const view = (await viewsOf(app, caller.tenant)).bySlug.get(slug);
  const catalog = await catalogOf(app, caller.tenant);
  const entity = catalog.byId.get(view?.entity_id ?? '');
  return view === undefined || entity === undefined ? undefined : { view, entity, catalog };
}

/** Like `findView`; 404 when there is none. */
export async function viewFor(app: App, caller: TenantCaller, slug: string): Promise<FoundView> {
  const found = await findView(app, caller, slug);
  if (found === undefined) throw notFound('view');
  return found;
}

/** The views that the caller may read. */
export async function listViews(app: App, caller: TenantCaller): Promise<View[]> {
  const catalog = await catalogOf(app, caller.tenant);
  const readable = [...(await viewsOf(app, caller.tenant)).bySlug.values()].filter(({ slug }) =>
    allows(caller.rights, 'read', `view:${slug}`),
  );
  const views: View[] = [];
  for (const row of readable) {
    await giveWay();
    const entity = catalog.byId.get(row.entity_id);
    if (entity !== undefined) views.push(visibleView(row, catalog, caller, entity));
  }
  return views;
}

/** Creates a view. 400 with every problem, 404 for an unknown entity, 409 for a duplicate slug. */
export async function createView(app: App, caller: TenantCaller, body: NewView): Promise<View> {
  requireFits(body, 'a view', LIMITS.definitionBytesMax);
  const { row, catalog, entity } = await app.db.begin(async (tx) => {
    const locked = await lockCatalog(tx, caller.tenant);
    const of = locked.byName.get(body.entitySlug);
    const { slug, name, description, filterDsl } = check(NewView, body, (valid) =>
      of === undefined ? [] : dslProblems(valid.filterDsl, locked, caller, of),
    );
    if (of === undefined) throw notFound('entity');
    await requireRoom(tx, caller.tenant, 'views');
    await requireTextFits(tx, caller.tenant, 'views', jsonBytes(body));
    const added = await tx.first<ViewRow>(sql`
      insert into platform.views (id, tenant_id, slug, entity_id, name, description, filter_dsl)
      values (${newId()}::uuid, ${caller.tenant.id}::uuid, ${slug}, ${of.id}::uuid, ${name}, ${description ?? null},
        ${JSON.stringify(storedDsl(filterDsl))}::text::jsonb)
      on conflict (tenant_id, slug) do nothing
      returning ${COLUMNS}`);
    return { row: added, catalog: locked, entity: of };
  });
  if (row === undefined) throw conflict(`a view ${body.slug} already exists`);
  await app.invalidations.publish('catalog', caller.tenant.id);
  return visibleView(row, catalog, caller, entity);
}

/** Changes name, description and conditions; the slug is fixed, because permissions name it. 400, 404. */
export async function updateView(app: App, caller: TenantCaller, slug: string, body: ViewChange): Promise<View> {
  const { view } = await viewFor(app, caller, slug);
  const { id: _, entity_id: __, createdAt, updatedAt, ...rest } = view;
  requireFits({ ...rest, ...body }, 'a view', LIMITS.definitionBytesMax);
  const { row, catalog, entity } = await app.db.begin(async (tx) => {
    const locked = await lockCatalog(tx, caller.tenant);
    const of = locked.byId.get(view.entity_id);
    if (of === undefined) throw notFound('view');
    const { name, description, filterDsl } = check(ViewChange, body, (valid) => {
      const fixed = { slug: view.slug, entitySlug: of.name };
      const changed = (['slug', 'entitySlug'] as const).filter((path) => (valid[path] ?? fixed[path]) !== fixed[path]);
      const problems = dslProblems(valid.filterDsl, locked, caller, of);
      return [...changed.map((path) => ({ path, message: 'cannot be changed' })), ...problems];
    });
    const dsl = filterDsl === undefined ? null : JSON.stringify(storedDsl(filterDsl));
    await requireTextFits(tx, caller.tenant, 'views', jsonBytes({ ...rest, ...body }) - jsonBytes(rest));
    if (dsl !== null && (await willChange(tx, caller.tenant, view.id, dsl)))
      await announceView(tx, changerOf(caller), view, of);
    const changed = await tx.first<ViewRow>(sql`
      update platform.views
      set name = coalesce(${name ?? null}, name),
        description = case when ${description === undefined}::boolean then description else ${description ?? null} end,
        filter_dsl = coalesce(${dsl}::text::jsonb, filter_dsl),
        updated_at = now()
      where tenant_id = ${caller.tenant.id}::uuid and id = ${view.id}::uuid
      returning ${COLUMNS}`);
    return { row: changed, catalog: locked, entity: of };
  });
  await app.invalidations.publish('catalog', caller.tenant.id);
  notifyCommitted(app, { tenantId: caller.tenant.id, change: null });
  if (row === undefined) throw notFound('view');
  return visibleView(row, catalog, caller, entity);
}

/** Deletes a view and returns its id; the records stay. 404. */
export async function deleteView(app: App, caller: TenantCaller, slug: string): Promise<string> {
  const { tenant } = caller;
  const catalog = await catalogOf(app, tenant);
  const { id, revoked } = await app.db.begin(async (tx) => {
    const row = await tx.first<{ id: string; slug: string; entity_id: string }>(sql`
      delete from platform.views where tenant_id = ${tenant.id}::uuid and slug = ${slug} returning id, slug, entity_id`);
    if (row === undefined) throw notFound('view');
    // Another view may have its name by the time its followers read on.
    const entity = catalog.byId.get(row.entity_id);
    if (entity !== undefined) await announceView(tx, changerOf(caller), row, entity);
    return { id: row.id, revoked: await revokeGrants(tx, tenant, [`view:${slug}`]) };
  });
  await app.invalidations.publish('catalog', tenant.id);
  await publishRevokedGrants(app, revoked);
  notifyCommitted(app, { tenantId: tenant.id, change: null });
  return id;
}

function visibleView(row: ViewRow, catalog: Catalog, caller: TenantCaller, entity: Entity): View {
  const { id, entity_id: _, filterDsl, ...members } = row;
  return { id, entitySlug: entity.name, ...members, filterDsl: visibleDsl(filterDsl, catalog, caller, entity) };
}

/**
 * Locks the view, and returns whether its conditions will change. With the lock, the later of two concurrent changes announces
 * its own effect.
 */
async function willChange(tx: Tx, tenant: Tenant, id: string, dsl: string): Promise<boolean> {
  const row = await tx.first<{ will: boolean }>(sql`
    select filter_dsl is distinct from ${dsl}::text::jsonb as will
    from platform.views where tenant_id = ${tenant.id}::uuid and id = ${id}::uuid for update`);
  return row?.will === true;
}

function storedDsl(given: NewView['filterDsl']): FilterDsl {
  return { validate: given?.validate ?? [] };
}
