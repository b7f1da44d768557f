// The API document for one caller: the routes its credential may use, and in place of the record routes of any
// entity those of the entities it may use, with their fields. It shows nothing that the caller may not read.
// Pure. Contract: interface#mcp, decisions#roles.
import type { Caller } from '../access/caller.ts';
import type { Operation } from '../access/rights.ts';
import { type Access, mayUse } from '../access/route-access.ts';
import type { Field } from '../entities/field.ts';
import { specOf } from '../entities/field-types.ts';
import type { VisibleEntity } from './visible-entities.ts';

type Json = { [key: string]: unknown };
type Paths = Record<string, Record<string, Json>>;

/** A route in the framework's list. */
export interface ListedRoute {
  method: string;
  path: string;
  hooks?: unknown;
}

/** Whether the caller may use a route, apart from its permissions on resources. */
export function mayUseRoute(caller: Caller, { hooks }: ListedRoute): boolean {
  return mayUse(caller, (hooks as { detail: { 'x-access': Access } }).detail['x-access']);
}

const RECORDS = '/api/entities/{entityName}/records';
const NEEDED: Readonly<Record<string, Operation>> = {
  get: 'read',
  post: 'create',
  put: 'update',
  patch: 'update',
  delete: 'delete',
};

/** Replaces the record routes of the document, in place, by those of each entity. */
export function withEntities(document: Json, entities: readonly VisibleEntity[]): Json {
  const paths = document.paths as Paths;
  const schemas = (document.components as { schemas: Json }).schemas;
  for (const [path, item] of Object.entries(paths).filter(([name]) => name.startsWith(RECORDS))) {
    delete paths[path];
    for (const entity of entities) {
      const allowed = Object.entries(item).filter(([method]) => entity.operations.has(NEEDED[method] as Operation));
      if (allowed.length === 0) continue;
      paths[path.replace('{entityName}', entity.name)] = Object.fromEntries(
        allowed.map(([method, operation]) => [method, operationFor(operation, entity)]),
      );
    }
  }
  for (const entity of entities) addSchemas(schemas, entity);
  return document;
}

/** The operation of one entity: without the path parameter, with its own names and types. */
function operationFor(operation: Json, { typeName }: VisibleEntity): Json {
  const text = JSON.stringify(operation)
    .replaceAll('"#/components/schemas/Record"', `"#/components/schemas/${typeName}Record"`)
    .replaceAll('"#/components/schemas/Values"', `"#/components/schemas/${typeName}Values"`);
  const own = JSON.parse(text) as Json & { parameters?: { name?: string }[] };
  own.operationId = `${own.operationId}Of${typeName}`;
  const parameters = (own.parameters ?? []).filter(({ name }) => name !== 'entityName');
  delete own.parameters;
  return parameters.length === 0 ? own : { ...own, parameters };
}

function addSchemas(schemas: Json, { name, typeName, fields }: VisibleEntity): void {
  const { properties, required, type } = schemas.Record as { properties: Json; required: string[]; type: string };
  const values = Object.fromEntries(fields.map((field) => [field.key, nullable(schemaOf(field))]));
  schemas[`${typeName}Record`] = {
    type,
    description: `A record of ${name}`,
    required: [...required, ...fields.map(({ key }) => key)],
    properties: { ...properties, ...values },
  };
  const own = Object.fromEntries(
    fields.map((field) => [field.key, field.required ? schemaOf(field) : nullable(schemaOf(field))]),
  );
  schemas[`${typeName}Values`] = {
    type: 'object',
    description: `Values of a record of ${name}, by field key`,
    properties: own,
    additionalProperties: false,
  };
}

function nullable(schema: Json): Json {
  return Object.keys(schema).length === 0 ? schema : { anyOf: [schema, { type: 'null' }] };
}

function schemaOf(field: Field): Json {
  const schema = specOf(field).schema(field.options ?? []);
  const isAnything = Object.keys(schema).length === 0;
  return field.description === null || isAnything ? schema : { ...schema, description: field.description };
}
