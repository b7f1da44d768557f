// The typed part of a caller's API document: replaces the generic record routes by the routes of each entity that the caller may
// use, with schemas and examples of the entity's own fields. It shows nothing that the caller may not read. The event loop runs
// between entities. Failures: 400 when the document would be larger than a response.
// Contract: decisions#api-document, decisions#roles, neighbours#fair-shares.
import { OPERATIONS, type Operation } from '../access/rights.ts';
import type { TargetIds } from '../entities/example-values.ts';
import { cellOf } from '../entities/field-types.ts';
import { csvLine } from '../records/transfer/csv.ts';
import type { ByteBudget } from '../runtime/byte-budget.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { jsonBytes } from '../runtime/text.ts';
import { exampleOfRecord, exampleToCreate, exampleToUpdate } from './entity-examples.ts';
import { type EntitySchemas, type ReadableTypes, schemasOf } from './entity-schemas.ts';
import type { JsonSchema } from './schema.ts';
import type { VisibleEntity } from './visible-entities.ts';

type Paths = Record<string, Record<string, JsonSchema>>;
type Content = Record<string, JsonSchema>;

const RECORDS = '/api/entities/{entityName}/records';
/** The rights of which an operation needs one. */
const NEEDS: Readonly<Record<string, readonly Operation[]>> = {
  get: ['read'],
  post: ['create'],
  put: ['update'],
  patch: ['update'],
  delete: ['delete'],
  bulk: ['create', 'update', 'delete'],
  restore: ['create', 'update'],
};

export interface TypedParts {
  entities: readonly VisibleEntity[];
  readable: ReadableTypes;
  targets: TargetIds;
}

/** Adds the record routes of each entity to the document, in place. */
export async function addEntities(
  document: JsonSchema,
  templates: readonly Template[],
  { entities, readable, targets }: TypedParts,
  budget: ByteBudget,
): Promise<void> {
  const paths = document.paths as Paths;
  const components = document.components as Record<string, Record<string, JsonSchema>>;
  for (const entity of entities) {
    const examples = await examplesOf(entity, targets);
    const added: Paths = {};
    for (const { path, method, needs, text } of templates) {
      if (!needs.some((operation) => entity.operations.has(operation))) continue;
      const turn = giveWay();
      if (turn !== undefined) await turn;
      const own = path.replace('{entityName}', entity.name);
      added[own] ??= {};
      added[own][method] = operationOf(text, entity, examples);
    }
    const schemas = namedSchemas(entity, schemasOf(entity, readable), examples);
    await budget.takeWaiting(jsonBytes(added) + jsonBytes(schemas));
    Object.assign(paths, added);
    Object.assign(components.schemas as object, schemas);
  }
}

/** The schemas that the entity's operations refer to, by name. */
function namedSchemas(
  { typeName, operations }: VisibleEntity,
  { record, create, update }: EntitySchemas,
  examples: Examples,
): Record<string, JsonSchema> {
  const isWritten = OPERATIONS.some((operation) => operation !== 'read' && operations.has(operation));
  return {
    [`${typeName}Record`]: examples.record === null ? record : { ...record, examples: [examples.record] },
    ...(operations.has('create') ? { [`${typeName}Create`]: create } : {}),
    ...(isWritten ? { [`${typeName}Update`]: update } : {}),
  };
}

/** A generic record operation. */
export interface Template {
  path: string;
  method: string;
  needs: readonly Operation[];
  /** The operation as JSON, in which an entity's names replace the generic ones. */
  text: string;
}

/**
 * Takes the generic record operations out of the document. Their parameters become components that all entities share.
 * `isLimited`: whether the caller has its own rate limits, whose headers are then stated.
 */
export function takeTemplates(document: JsonSchema, isLimited: boolean): Template[] {
  const paths = document.paths as Paths;
  const { parameters } = document.components as { parameters: Record<string, JsonSchema> };
  const templates: Template[] = [];
  for (const [path, item] of Object.entries(paths).filter(([name]) => name.startsWith(RECORDS))) {
    delete paths[path];
    for (const [method, { parameters: own = [], responses, security: _, ...operation }] of Object.entries(item)) {
      const shared = (own as JsonSchema[])
        .filter(({ name }) => name !== 'entityName')
        .map((parameter) => sharedParameter(withoutExample(parameter), operation.operationId as string, parameters));
      const typed = {
        ...operation,
        ...(shared.length === 0 ? {} : { parameters: shared }),
        responses: shortened(responses as Record<string, JsonSchema>, isLimited),
      };
      const [, last = ''] = /\/(bulk|restore)$/.exec(path) ?? [];
      const needs = NEEDS[last] ?? NEEDS[method] ?? [];
      templates.push({ path, method, needs, text: JSON.stringify(typed) });
    }
  }
  return templates;
}

function sharedParameter(
  parameter: JsonSchema,
  operationId: string,
  components: Record<string, JsonSchema>,
): JsonSchema {
  if (parameter.$ref !== undefined) return parameter;
  const text = JSON.stringify(parameter);
  const plain = pascal(parameter.name as string);
  const name = [plain, `${pascal(operationId)}${plain}`].find((candidate) => {
    const known = components[candidate];
    return known === undefined || JSON.stringify(known) === text;
  }) as string;
  components[name] = parameter;
  return { $ref: `#/components/parameters/${name}` };
}

/** Examples of parameters name fields of the demo's entities. */
function withoutExample({ schema, ...parameter }: JsonSchema): JsonSchema {
  if (schema === undefined) return parameter;
  const { examples: _, ...own } = schema as JsonSchema;
  return { ...parameter, schema: own };
}

function pascal(name: string): string {
  return name.replaceAll(/(?:^|[^a-zA-Z0-9]+)([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Successful responses show the example of their schema, and state the headers of rate limits only if there are any. */
function shortened(responses: Record<string, JsonSchema>, isLimited: boolean): Record<string, JsonSchema> {
  return Object.fromEntries(
    Object.entries(responses).map(([status, { content, headers, ...response }]) => {
      const media = Object.entries((content ?? {}) as Content).map(([type, { example: _, ...own }]) => [type, own]);
      const stated = Object.entries((headers ?? {}) as JsonSchema).filter(
        ([name]) => isLimited || !/RateLimit/.test(name),
      );
      return [
        status,
        {
          ...response,
          ...(headers === undefined ? {} : { headers: Object.fromEntries(stated) }),
          ...(content === undefined ? {} : { content: Object.fromEntries(media) }),
        },
      ];
    }),
  );
}

/** The JSON of a generic operation with the schemas of an entity's type. */
export function typedText(text: string, typeName: string): string {
  const values = /"operationId":"createRecord"/.test(text) ? 'Create' : 'Update';
  return text
    .replaceAll('"#/components/schemas/Record"', `"#/components/schemas/${typeName}Record"`)
    .replaceAll('"#/components/schemas/Values"', `"#/components/schemas/${typeName}${values}"`);
}

/** A generic operation for one entity: without the path parameter, with the entity's names, types and examples. */
function operationOf(text: string, { name, typeName }: VisibleEntity, { bodies }: Examples): JsonSchema {
  const { operationId, requestBody, ...operation } = JSON.parse(typedText(text, typeName)) as JsonSchema & {
    operationId: string;
  };
  const content = Object.entries((requestBody as { content: Content } | undefined)?.content ?? {}).map(
    ([type, { example: _, ...media }]) => {
      const example = bodies[`${operationId} ${type}`];
      return [type, example == null ? media : { ...media, example }];
    },
  );
  return {
    ...operation,
    operationId: `${operationId}Of${typeName}`,
    tags: [name],
    ...(requestBody === undefined
      ? {}
      : { requestBody: { ...(requestBody as object), content: Object.fromEntries(content) } }),
  };
}

interface Examples {
  record: JsonSchema | null;
  /** Request bodies, by operation and content type; null where a required field has no example. */
  bodies: Readonly<Record<string, unknown>>;
}

const SYSTEM_EXAMPLE = {
  id: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
  entityId: '01993b1b-0a10-7d3e-8c44-1f2a3b4c5d6e',
  createdAt: '2026-03-01T09:30:00.000Z',
  updatedAt: '2026-03-01T09:30:00.000Z',
  createdBy: null,
  updatedBy: null,
};

async function examplesOf(entity: VisibleEntity, targets: TargetIds): Promise<Examples> {
  const create = await exampleToCreate(entity, targets, 'create', { isComplete: true });
  const [inBulk, inCsv, inLines, inArray] = await Promise.all(
    ['bulk', 'csv', 'ndjson', 'json'].map((use) => exampleToCreate(entity, targets, use, { isComplete: false })),
  );
  const update = await exampleToUpdate(entity, targets);
  const record = await exampleOfRecord(entity, targets, create);
  return {
    record: record === null ? null : { ...SYSTEM_EXAMPLE, ...record },
    bodies: {
      'createRecord application/json': create,
      'replaceRecord application/json': update,
      'updateRecord application/json': update,
      'restoreRecord application/json': { version: 1 },
      'bulkRecords application/json': inBulk && { operations: [{ op: 'create', data: inBulk }] },
      'importRecords text/csv': inCsv && csvOf(entity, inCsv),
      'importRecords application/json': inArray && [inArray],
      'importRecords application/x-ndjson': inLines && `${JSON.stringify(inLines)}\n`,
    },
  };
}

/** A header line and one record. An entity without required fields has one column nevertheless. */
function csvOf({ fields }: VisibleEntity, values: Record<string, unknown>): string | null {
  const columns = fields.filter(({ key }) => values[key] !== undefined);
  const shown = columns.length === 0 ? fields.slice(0, 1) : columns;
  if (shown.length === 0) return null;
  return csvLine(shown.map(({ key }) => key)) + csvLine(shown.map((field) => cellOf(field, values[field.key])));
}
