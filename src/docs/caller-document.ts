// The API document for one caller: the routes that it may use, with its tenant's own entities. REST caches the documents that it
// serves, by what the caller may see, for as long as the tenant's definitions stay the same. MCP and the generated client are
// built from the same parts.
// Failures: 404 for an entity that the caller may not use, 400 beyond the bytes of a response, 503 when too many are being made.
// Contract: decisions#api-document, neighbours#byte-budgets.
import { type Caller, requireTenant, type TenantCaller } from '../access/caller.ts';
import { propertiesOf } from '../access/credential-kinds.ts';
import { allows } from '../access/rights.ts';
import { type Access, mayUse } from '../access/route-access.ts';
import { type App, perApp } from '../app.ts';
import { readableScopeOf } from '../entities/access-scope.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import type { TargetIds } from '../entities/example-values.ts';
import { invalidField } from '../errors.ts';
import { toSql } from '../expression/to-sql.ts';
import { jsonInPieces } from '../http/bounded-response.ts';
import type { Route } from '../http/route.ts';
import { LIMITS } from '../limits.ts';
import { ByteBudget } from '../runtime/byte-budget.ts';
import { Semaphore } from '../runtime/concurrency.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { EMPTY, sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { withoutSignal } from '../runtime/work.ts';
import type { Compressed } from './compressed.ts';
import { buildDocument, type ListedRoute, versionOfPackage } from './document.ts';
import { isRequired, type ReadableTypes } from './entity-schemas.ts';
import { KeptDocuments } from './kept-documents.ts';
import type { JsonSchema } from './schema.ts';
import { addEntities, takeTemplates, typedText } from './typed-document.ts';
import { entitiesNamed, type VisibleEntity, visibleEntities } from './visible-entities.ts';

export interface DocumentRequest {
  caller: Caller;
  /** The entities to describe; null for all. */
  entityNames: readonly string[] | null;
  /** The bytes that the document may have as JSON, and how to ask for a smaller one. */
  bytesMax: number;
  remedy: string;
}

const { making, waitingMax, waitMs } = LIMITS.apiDocument;
/** Limits how many documents are built at once: each takes several times its bytes, but no connection that others wait for. */
const makers = new Semaphore({ name: 'api-documents', slots: making, shareWaitingMax: waitingMax, waitMs });

/** The document, and its bytes as JSON, estimated. 503 when too many are being made. */
export function documentFor(
  app: App,
  routes: readonly ListedRoute[],
  request: DocumentRequest,
): Promise<{ document: JsonSchema; bytes: number }> {
  return makers.run(() => makeDocument(app, routes, request));
}

async function makeDocument(
  app: App,
  routes: readonly ListedRoute[],
  { caller, entityNames, bytesMax, remedy }: DocumentRequest,
): Promise<{ document: JsonSchema; bytes: number }> {
  const budget = new ByteBudget(bytesMax, () =>
    invalidField('document', `would be larger than ${bytesMax} bytes; ${remedy}`),
  );
  const visible = caller.tenant === null ? null : await visibleTo(app, requireTenant(caller), entityNames);
  // Otherwise builds that waited for a slot would follow each other without the event loop running in between.
  await giveWay();
  const document = await buildDocument(routesOf(routes, caller), versionOfPackage(), app.config.baseUrl ?? app.address);
  state(document, caller);
  await giveWay();
  const templates = takeTemplates(document, propertiesOf(caller.kind).hasOwnRateLimits).filter(({ needs }) =>
    visible?.entities.some(({ operations }) => needs.some((operation) => operations.has(operation))),
  );
  await giveWay();
  await dropUnused(
    document,
    templates.map(({ text }) => JSON.parse(typedText(text, 'Entity')) as JsonSchema),
  );
  await giveWay();
  if (visible !== null) {
    const { inTenant, catalog, all, entities } = visible;
    const readable = readableTypes(inTenant, all, entities);
    const targets = await targetIds(app, inTenant, catalog, entities);
    await addEntities(document, templates, { entities, readable, targets }, budget);
    describeTags(document, entities);
  }
  return { document, bytes: budget.taken };
}

/** The entities that the caller may use, and among them the ones that the document describes. */
async function visibleTo(app: App, inTenant: TenantCaller, entityNames: readonly string[] | null) {
  const catalog = await catalogOf(app, inTenant.tenant);
  const all = visibleEntities(catalog, inTenant);
  return { inTenant, catalog, all, entities: entitiesNamed(all, entityNames) };
}

/** The routes that the caller may use, apart from its permissions on entities. */
export function routesOf(routes: readonly ListedRoute[], caller: Caller): ListedRoute[] {
  const isReader = propertiesOf(caller.kind).rights === 'role-reads';
  return routes.filter(({ method, hooks }) => {
    const { 'x-access': access, 'x-svc': route } = (hooks as { detail: { 'x-access': Access; 'x-svc': Route } }).detail;
    if (method === 'OPTIONS' || !mayUse(caller, access)) return false;
    // The only thing that a public key may post is the request for a ticket.
    if (isReader && method !== 'GET' && access !== 'open' && access !== 'ticket') return false;
    return route.mayCall?.(caller) !== false;
  });
}

/**
 * The types of the readable entities. Only these are named as targets of relations; the ones that the document describes have a
 * type.
 */
function readableTypes(
  { rights }: TenantCaller,
  visible: readonly VisibleEntity[],
  described: readonly VisibleEntity[],
): ReadableTypes {
  const isDescribed = new Set(described);
  return new Map(
    visible
      .filter(({ name }) => allows(rights, 'read', name))
      .map((entity) => [entity.id, { name: entity.name, typeName: isDescribed.has(entity) ? entity.typeName : null }]),
  );
}

/** How many targets are looked up for examples; the others get an id that no record has. */
const TARGETS_MAX = 50;

/** For each entity that a new record must refer to: the id of a record that the caller may see. */
async function targetIds(
  app: App,
  caller: TenantCaller,
  catalog: Catalog,
  entities: readonly VisibleEntity[],
): Promise<TargetIds> {
  const needed = entities
    .filter(({ operations }) => operations.has('create'))
    .flatMap(({ fields }) => fields.filter(isRequired).flatMap(({ targetId }) => targetId ?? []));
  const found = new Map<string, string>();
  for (const targetId of [...new Set(needed)].slice(0, TARGETS_MAX)) {
    const target = catalog.byId.get(targetId);
    const scope = target && readableScopeOf(catalog, caller, target);
    if (target === undefined || scope === undefined) continue;
    const { rowFilter } = scope;
    const row = await app.db.first<{ id: string }>(sql`
      select r.id from ${target.table} as r
      ${rowFilter === null ? EMPTY : sql`where ${toSql(rowFilter, sql`r`)}`}
      order by r.id
      limit 1`);
    if (row !== undefined) found.set(targetId, row.id);
  }
  return found;
}

/** Gives each entity its own tag, after the tags of the routes in use. */
function describeTags(document: JsonSchema, entities: readonly VisibleEntity[]): void {
  const own = entities.map(({ name, description }) => ({ name, description: description || `Records of ${name}.` }));
  document.tags = [
    ...(document.tags as object[]).filter((tag) => (tag as { name: string }).name !== 'Records'),
    ...own,
  ];
}

/** States the caller's kind of credential once, instead of every kind in each operation. */
function state(document: JsonSchema, { kind, tenant }: Caller): void {
  const { scheme, carriers } = propertiesOf(kind);
  const schemes = new Set([...((carriers as readonly string[]).includes('bearer') ? ['bearer'] : []), scheme]);
  const info = document.info as { title: string };
  if (tenant !== null) info.title = `${info.title}: ${tenant.slug}`;
  document.security = [...schemes].map((name) => ({ [name]: [] }));
  for (const item of Object.values(document.paths as Record<string, Record<string, JsonSchema>>)) {
    for (const operation of Object.values(item)) {
      const stated = operation.security as object[] | undefined;
      const isOwn = stated !== undefined && stated.length > 0 && stated.every((one) => Object.keys(one).length === 1);
      if (isOwn) delete operation.security;
    }
  }
}

/** How many nodes of the document's tree are processed at once, which takes less than a millisecond. */
const NODES = 500;

/**
 * Drops components to which neither the document nor the others refer, such as components of routes that the caller may not use.
 */
async function dropUnused(document: JsonSchema, others: readonly JsonSchema[]): Promise<void> {
  const { components, ...rest } = document as { components: Record<string, Record<string, unknown>> };
  const used = new Set<string>();
  const open: unknown[] = [rest, ...others];
  for (let visited = 0; open.length > 0; visited++) {
    const turn = visited % NODES === 0 ? giveWay() : undefined;
    if (turn !== undefined) await turn;
    const node = open.pop();
    if (node === null || typeof node !== 'object') continue;
    for (const [key, value] of Object.entries(node)) {
      if (key === '$ref' && typeof value === 'string' && !used.has(value)) {
        used.add(value);
        const [, , kind = '', name = ''] = value.split('/');
        open.push(components[kind]?.[name]);
      } else if (key !== 'example' && key !== 'examples') open.push(value);
    }
  }
  for (const kind of ['schemas', 'responses', 'parameters', 'headers']) {
    const members = components[kind] ?? {};
    components[kind] = Object.fromEntries(
      Object.entries(members).filter(([name]) => used.has(`#/components/${kind}/${name}`)),
    );
  }
}

const keptOf = perApp(() => new KeptDocuments());
/** How many levels of the document's tree are split; deeper values are written in one piece. */
const LEVELS = 5;

/** The document as JSON, kept until the definitions or the caller's rights change. */
export async function documentText(
  app: App,
  routes: readonly ListedRoute[],
  caller: Caller,
  entityNames: readonly string[] | null,
): Promise<Compressed> {
  const catalog = caller.tenant === null ? null : await catalogOf(app, requireTenant(caller).tenant);
  const { kind, rights, scopes, isTenantAdmin, tenant } = caller;
  const server = app.config.baseUrl ?? app.address;
  const seen = JSON.stringify([server, tenant?.slug, kind, rights, scopes, isTenantAdmin, entityNames]);
  // Examples name records, and row filters decide which.
  const scope = seen.includes('$currentUser') ? `${seen} ${caller.id}` : seen;
  const id = sha256(scope).toString('base64');
  const bytesMax = LIMITS.response.bytesMax;
  const remedy = 'name the entities that it shall describe: ?entity=a,b';
  const build = async (): Promise<Uint8Array<ArrayBuffer>> => {
    const { document } = await documentFor(app, routes, { caller, entityNames, bytesMax, remedy });
    const budget = new ByteBudget(bytesMax, () =>
      invalidField('document', `would be larger than ${bytesMax} bytes; ${remedy}`),
    );
    return jsonInPieces(document, budget, LEVELS);
  };
  const share = tenant?.id ?? '';
  return keptOf(app).get({ id, share, catalog }, () => withoutSignal(build));
}
