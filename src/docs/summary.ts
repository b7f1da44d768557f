// The summary of a caller's API document, for readers that pay by the word: each entity as one member, with its fields as short
// texts; the routes of records once for all entities; only the operation ids of the other routes. It has the shape of an OpenAPI
// document, and the full document has the rest. It names nothing that the caller's full document does not name.
// Failures: 404 for an entity that is not among the caller's.
// Contract: decisions#mcp, decisions#api-document.
import { type Caller, requireTenant } from '../access/caller.ts';
import { allows, type Rights } from '../access/rights.ts';
import type { App } from '../app.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import type { Field } from '../entities/field.ts';
import type { Route } from '../http/route.ts';
import { routesOf } from './caller-document.ts';
import { type ListedRoute, versionOfPackage } from './document.ts';
import { isRequired } from './entity-schemas.ts';
import { TITLE } from './prose.ts';
import { entitiesNamed, type VisibleEntity, visibleEntities } from './visible-entities.ts';

/** How many characters of a select's options are shown, and of an entity's description. */
const OPTIONS_MAX = 80;
const DESCRIPTION_MAX = 120;
const DESCRIPTION = `A summary: ask with detail "full" for parameters, bodies and responses. Of fields, ! means required in a new record.
Record routes are the same for every entity in x-entities, in place of {entityName}. x-operations are the other routes, by tag.`;

/** `entityNames` are the entities to describe; null for all. */
export async function summaryFor(
  app: App,
  routes: readonly ListedRoute[],
  caller: Caller,
  entityNames: readonly string[] | null,
): Promise<Record<string, unknown>> {
  const summary = {
    openapi: '3.1.0',
    info: { title: TITLE, version: versionOfPackage(), description: DESCRIPTION },
    servers: [{ url: app.config.baseUrl ?? app.address }],
  };
  const own = routesOf(routes, caller).map((route) => ({ ...route, declared: declaredBy(route) }));
  const records = own.filter(({ path }) => isOfRecords(path));
  const others = Map.groupBy(
    own.filter(({ path }) => !isOfRecords(path)),
    ({ declared }) => declared.tag,
  );
  const operations = Object.fromEntries(
    [...others].map(([tag, list]) => [tag, list.map(({ declared }) => declared.id)]),
  );
  if (caller.tenant === null) return { ...summary, paths: {}, 'x-operations': operations };
  const catalog = await catalogOf(app, caller.tenant);
  const entities = entitiesNamed(visibleEntities(catalog, requireTenant(caller)), entityNames);
  const paths: Record<string, Record<string, object>> = {};
  for (const { method, path, declared } of records) {
    const key = path.replaceAll(/:(\w+)/g, '{$1}');
    paths[key] = { ...paths[key], [method.toLowerCase()]: { summary: declared.summary } };
  }
  const described = entities.map((entity) => [entity.name, entityOf(entity, catalog, caller.rights)] as const);
  return { ...summary, paths, 'x-entities': Object.fromEntries(described), 'x-operations': operations };
}

function declaredBy({ hooks }: ListedRoute): Route {
  return (hooks as { detail: { 'x-svc': Route } }).detail['x-svc'];
}

function isOfRecords(path: string): boolean {
  return path.startsWith('/api/entities/:entityName/records');
}

function entityOf({ description, operations, fields }: VisibleEntity, catalog: Catalog, rights: Rights): object {
  return {
    ...(description ? { description: cut(description, DESCRIPTION_MAX) } : {}),
    operations: [...operations],
    fields: Object.fromEntries(fields.map((field) => [field.key, textOf(field, catalog, rights)])),
  };
}

/** A field as text, such as `select! open|won|lost`, or `relation companies`. */
function textOf(field: Field, catalog: Catalog, rights: Rights): string {
  const target = catalog.byId.get(field.targetId ?? '')?.name;
  const options = field.options ?? [];
  const parts = [
    `${field.type}${isRequired(field) ? '!' : ''}`,
    options.length === 0 ? '' : cut(options.join('|'), OPTIONS_MAX),
    target !== undefined && allows(rights, 'read', target) ? target : '',
  ];
  return parts.filter((part) => part !== '').join(' ');
}

function cut(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max)}...`;
}
