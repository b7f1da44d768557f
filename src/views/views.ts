// Views as definitions: made, changed and dropped by tenant admins, listed to those who may read
// them. A tenant's views are cached per process and dropped with its catalogue, on every process.
// Failures: 400 naming every problem, 404, 409 for a slug that is taken. Contract: interface#view, interface#views.
import type { TenantCaller } from '../access/caller.ts';
import { publishRevokedGrants, revokeGrants } from '../access/grants.ts';
import { allows } from '../access/rights.ts';
import { type App, perApp } from '../app.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { conflict, invalid, notFound, type Problem } from '../errors.ts';
import { strangers } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { identifier, sql } from '../runtime/sql.ts';
import { type JsonObject, textProblem } from '../runtime/text.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { type FilterDsl, readDsl, visibleDsl } from './dsl.ts';

const UNKNOWN = 'is not an attribute of a view';

/** A view as it is shown. `filterDsl` holds the conditions that the reader may know. */
export interface View {
  id: string;
  entitySlug: string;
  slug: string;
  name: string;
  description: string | null;
  filterDsl: FilterDsl;
  createdAt: string;
  updatedAt: string;
}

interface ViewRow {
  id: string;
  slug: string;
  entity_id: string;
  name: string;
  description: string | null;
  filter_dsl: FilterDsl;
  created_at: string;
  updated_at: string;
}

const SLUG = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const COLUMNS = sql`id, slug, entity_id, name, description, filter_dsl, created_at, updated_at`;
const CACHED_TENANTS = 2_000;
const cacheOf = perApp((app) => app.invalidations.cache<Map<string, ViewRow>>('catalog', CACHED_TENANTS));

async function viewsOf(app: App, tenant: Tenant): Promise<Map<string, ViewRow>> {
  return cacheOf(app).get(tenant.id, async () => {
    const rows = await app.db.rows<ViewRow>(sql`
      select ${COLUMNS} from ${identifier(tenant.schema, 'views')} order by slug collate "C"`);
    return new Map(rows.map((row) => [row.slug, row]));
  });
}

/** A view, its entity, and the catalogue they stand in. 404. */
export async function viewFor(
  app: App,
  caller: TenantCaller,
  slug: string,
): Promise<{ view: ViewRow; entity: Entity; catalog: Catalog }> {
  const view = (await viewsOf(app, caller.tenant)).get(slug);
  const catalog = await catalogOf(app, caller.tenant);
  const entity = catalog.byId.get(view?.entity_id ?? '');
  if (view === undefined || entity === undefined) throw notFound('view');
  return { view, entity, catalog };
}

/** The views that the caller may read; all of them for a tenant admin. */
export async function listViews(app: App, caller: TenantCaller): Promise<View[]> {
  const catalog = await catalogOf(app, caller.tenant);
  const readable = [...(await viewsOf(app, caller.tenant)).values()].filter(({ slug }) =>
    allows(caller.rights, 'read', `view:${slug}`),
  );
  return readable.flatMap((row) => {
    const entity = catalog.byId.get(row.entity_id);
    return entity === undefined ? [] : [shownView(row, catalog, caller, entity)];
  });
}

/** Makes a view. 400 with every problem, 404 for an unknown entity, 409 when the slug is taken. */
export async function createView(app: App, caller: TenantCaller, input: JsonObject): Promise<View> {
  const catalog = await catalogOf(app, caller.tenant);
  const problems: Problem[] = [];
  const known = ['entitySlug', 'slug', 'name', 'description', 'filterDsl'];
  problems.push(...strangers(input, known, UNKNOWN));
  const { entitySlug, slug } = input;
  const entity = typeof entitySlug === 'string' ? catalog.byName.get(entitySlug) : undefined;
  if (typeof entitySlug !== 'string') problems.push({ path: 'entitySlug', message: 'must be the name of an entity' });
  if (typeof slug !== 'string' || !SLUG.test(slug))
    problems.push({ path: 'slug', message: `must match ${SLUG.source}` });
  const name = readText(input, 'name', LIMITS.entity.labelMax, problems);
  if (input.name === undefined || input.name === null) problems.push({ path: 'name', message: 'is required' });
  const description = readText(input, 'description', LIMITS.entity.descriptionMax, problems);
  const dsl = entity === undefined ? null : readDsl(input.filterDsl, catalog, caller, entity, problems);
  if (problems.length > 0) throw invalid(problems);
  if (entity === undefined || dsl === null) throw notFound('entity');
  const row = await app.db.first<ViewRow>(sql`
    insert into ${identifier(entity.schema, 'views')} (id, slug, entity_id, name, description, filter_dsl)
    values (${newId()}::uuid, ${slug}, ${entity.id}::uuid, ${name}, ${description ?? null},
      ${JSON.stringify(dsl)}::text::jsonb)
    on conflict (slug) do nothing
    returning ${COLUMNS}`);
  if (row === undefined) throw conflict(`a view ${slug} exists already`);
  await app.invalidations.publish('catalog', caller.tenant.id);
  return shownView(row, catalog, caller, entity);
}

/** Changes name, description and conditions; its slug stands in permissions and stays. 400, 404. */
export async function updateView(app: App, caller: TenantCaller, slug: string, input: JsonObject): Promise<View> {
  const { view, entity, catalog } = await viewFor(app, caller, slug);
  const problems: Problem[] = [];
  problems.push(...strangers(input, ['entitySlug', 'slug', 'name', 'description', 'filterDsl'], UNKNOWN));
  for (const [path, value] of [['slug', view.slug] as const, ['entitySlug', entity.name] as const]) {
    if (input[path] !== undefined && input[path] !== value) problems.push({ path, message: 'cannot be changed' });
  }
  const name = readText(input, 'name', LIMITS.entity.labelMax, problems);
  if (name === null) problems.push({ path: 'name', message: 'cannot be cleared' });
  const description = readText(input, 'description', LIMITS.entity.descriptionMax, problems);
  const dsl = input.filterDsl === undefined ? null : readDsl(input.filterDsl, catalog, caller, entity, problems);
  if (problems.length > 0) throw invalid(problems);
  const row = await app.db.first<ViewRow>(sql`
    update ${identifier(entity.schema, 'views')}
    set name = coalesce(${name ?? null}, name),
      description = case when ${description === undefined}::boolean then description else ${description ?? null} end,
      filter_dsl = coalesce(${dsl === null ? null : JSON.stringify(dsl)}::text::jsonb, filter_dsl),
      updated_at = now()
    where id = ${view.id}::uuid
    returning ${COLUMNS}`);
  await app.invalidations.publish('catalog', caller.tenant.id);
  if (row === undefined) throw notFound('view');
  return shownView(row, catalog, caller, entity);
}

/** Drops a view and returns its id; its records stay. 404. */
export async function deleteView(app: App, caller: TenantCaller, slug: string): Promise<string> {
  const { tenant } = caller;
  const { id, withdrawn } = await app.db.begin(async (tx) => {
    const row = await tx.first<{ id: string }>(sql`
      delete from ${identifier(tenant.schema, 'views')} where slug = ${slug} returning id`);
    if (row === undefined) throw notFound('view');
    return { id: row.id, withdrawn: await revokeGrants(tx, tenant, [`view:${slug}`]) };
  });
  await app.invalidations.publish('catalog', tenant.id);
  await publishRevokedGrants(app, withdrawn);
  return id;
}

function shownView(row: ViewRow, catalog: Catalog, caller: TenantCaller, entity: Entity): View {
  return {
    id: row.id,
    entitySlug: entity.name,
    slug: row.slug,
    name: row.name,
    description: row.description,
    filterDsl: visibleDsl(row.filter_dsl, catalog, caller, entity),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

/** A text, null, or undefined where it is left out or wrong. */
function readText(input: JsonObject, path: string, max: number, problems: Problem[]): string | null | undefined {
  const value = input[path];
  if (value === undefined || value === null) return value;
  const isFit = typeof value === 'string' && value.length <= max && (path !== 'name' || value.trim() !== '');
  const message = isFit ? textProblem(value as string) : `must be a text of at most ${max} characters`;
  if (message === undefined) return value as string;
  problems.push({ path, message });
  return undefined;
}
