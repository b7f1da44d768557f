// The API document for one caller: the routes it may use, where the generic record routes are replaced by those of
// each entity that it may use, with the entity's fields. It shows nothing that the caller may not read.
// Contract: interface#mcp, decisions#roles, neighbours#fair-shares.
import type { Caller } from '../access/caller.ts';
import type { Operation } from '../access/rights.ts';
import { type Access, mayUse } from '../access/route-access.ts';
import type { Field } from '../entities/field.ts';
import { specOf } from '../entities/field-types.ts';
import { responseTooLarge, sized } from '../http/bounded-response.ts';
import { LIMITS } from '../limits.ts';
import { ByteBudget } from '../runtime/byte-budget.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { jsonBytes } from '../runtime/text.ts';
import type { VisibleEntity } from './visible-entities.ts';

type Json = { [key: string]: unknown };
type Paths = Record<string, Record<string, Json>>;

/** A route as the framework lists it. */
export interface ListedRoute {
  method: string;
  path: string;
  hooks?: unknown;
}

/** Whether the caller may use a route, regardless of its permissions on resources. */
export function mayUseRoute(caller: Caller, { hooks }: ListedRoute): boolean {
  return mayUse(caller, (hooks as { detail: { 'x-access': Access } }).detail['x-access']);
}

const RECORDS = '/api/entities/{entityName}/records';
/** By HTTP method. */
const OPERATION: Record<string, Operation> = {
  get: 'read',
  post: 'create',
  put: 'update',
  patch: 'update',
  delete: 'delete',
};

/** Replaces the document's generic record routes, in place, with those of each entity. 400 when that is too large for a response. */
export async function withEntities(document: Json, entities: readonly VisibleEntity[]): Promise<Json> {
  const paths = document.paths as Paths;
  const schemas = (document.components as { schemas: Json }).schemas;
  // The result contains it twice.
  const budget = new ByteBudget(LIMITS.response.bytesMax / 2, responseTooLarge);
  for (const [path, item] of Object.entries(paths).filter(([name]) => name.startsWith(RECORDS))) {
    delete paths[path];
    for (const entity of entities) {
      const allowed = Object.entries(item).filter(([method]) => entity.operations.has(OPERATION[method] as Operation));
      if (allowed.length === 0) continue;
      paths[path.replace('{entityName}', entity.name)] = Object.fromEntries(
        allowed.map(([method, operation]) => [method, operationFor(operation, entity, budget)]),
      );
      await giveWay();
    }
  }
  for (const entity of entities) {
    addSchemas(schemas, entity, budget);
    await giveWay();
  }
  return sized(document, budget.taken);
}

/** A generic operation for one entity: without the path parameter, with the entity's names and types. */
function operationFor(operation: Json, { typeName }: VisibleEntity, budget: ByteBudget): Json {
  const text = JSON.stringify(operation)
    .replaceAll('"#/components/schemas/Record"', `"#/components/schemas/${typeName}Record"`)
    .replaceAll('"#/components/schemas/Values"', `"#/components/schemas/${typeName}Values"`);
  budget.take(text.length);
  const { parameters = [], ...rest } = JSON.parse(text) as Json & { parameters?: { name?: string }[] };
  const others = parameters.filter(({ name }) => name !== 'entityName');
  const operationId = `${rest.operationId}Of${typeName}`;
  return { ...rest, operationId, ...(others.length === 0 ? {} : { parameters: others }) };
}

function addSchemas(schemas: Json, { name, typeName, fields }: VisibleEntity, budget: ByteBudget): void {
  const { properties, required, type } = schemas.Record as { properties: Json; required: string[]; type: string };
  schemas[`${typeName}Record`] = {
    type,
    description: `A record of ${name}`,
    required: [...required, ...fields.map(({ key }) => key)],
    properties: { ...properties, ...propertiesOf(fields, () => true) },
  };
  schemas[`${typeName}Values`] = {
    type: 'object',
    description: `Values of a record of ${name}, by field key`,
    properties: propertiesOf(fields, ({ required }) => !required),
    additionalProperties: false,
  };
  budget.take(jsonBytes([schemas[`${typeName}Record`], schemas[`${typeName}Values`]]));
}

function propertiesOf(fields: readonly Field[], isNullable: (field: Field) => boolean): Json {
  return Object.fromEntries(
    fields.map((field) => [field.key, isNullable(field) ? nullable(schemaOf(field)) : schemaOf(field)]),
  );
}

function nullable(schema: Json): Json {
  return Object.keys(schema).length === 0 ? schema : { anyOf: [schema, { type: 'null' }] };
}

function schemaOf(field: Field): Json {
  const schema = specOf(field).schema(field.options ?? []);
  const isAnything = Object.keys(schema).length === 0;
  return field.description === null || isAnything ? schema : { ...schema, description: field.description };
}
