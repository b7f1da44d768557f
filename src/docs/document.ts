// The API document, OpenAPI 3.1, put together from the routes themselves: path, method, access and
// schemas stand where the framework uses them, the rest in each route's description. Throws on a
// route that describes nothing, so that the document is whole. Contract: decisions#api-document.

import type { TSchema } from '@sinclair/typebox';
import { SECURITY_SCHEMES } from '../access/credential-kinds.ts';
import { ROUTE_ACCESS } from '../access/route-access.ts';
import type { Description } from '../http/openapi.ts';
import { answersOf, type Kind, textContent } from './answers.ts';
import { exampleOf } from './example.ts';
import { type JsonSchema, Schemas } from './schema.ts';
import { webhooksOf } from './webhooks.ts';
import { ANSWER_HEADERS, HEADER_PARAMETERS, INTRODUCTION, PARAMETER_OF, TAGS, TITLE } from './words.ts';

/** A route as the framework lists it. */
export interface Route {
  method: string;
  path: string;
  hooks?: unknown;
}

interface Hooks {
  detail: { 'x-svc': Description; 'x-access': keyof typeof ROUTE_ACCESS; security: object[] };
  params?: ObjectSchema;
  query?: ObjectSchema;
  body?: TSchema;
}

interface ObjectSchema extends TSchema {
  properties: Record<string, TSchema>;
  required?: string[];
}

/** The document; `server` is the address that clients use. */
export function buildDocument(routes: readonly Route[], version: string, server: string): JsonSchema {
  const schemas = new Schemas();
  const responses: Record<string, JsonSchema> = {};
  const paths: Record<string, JsonSchema> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operationOf(route, schemas, responses);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: TITLE,
      version,
      description: INTRODUCTION,
      license: { name: 'MIT', identifier: 'MIT' },
      contact: { name: TITLE, url: server },
    },
    servers: [{ url: server }],
    tags: tagsOf(paths),
    paths,
    // Only who may subscribe is told of what subscriptions send.
    ...(paths['/api/webhooks/subscriptions'] === undefined ? {} : { webhooks: webhooksOf(schemas) }),
    components: {
      schemas: schemas.components,
      responses,
      parameters: HEADER_PARAMETERS,
      headers: ANSWER_HEADERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

/** The tags in use, in the order of the table. Throws on one without words. */
function tagsOf(paths: Record<string, JsonSchema>): object[] {
  const operations = Object.values(paths).flatMap((path) => Object.values(path)) as { tags: string[] }[];
  const used = new Set(operations.flatMap(({ tags }) => tags));
  const unknown = [...used].filter((tag) => TAGS[tag] === undefined);
  if (unknown.length > 0) throw new Error(`tags without words in the API document: ${unknown.join(', ')}`);
  return Object.entries(TAGS)
    .filter(([name]) => used.has(name))
    .map(([name, description]) => ({ name, description }));
}

function operationOf(route: Route, schemas: Schemas, responses: Record<string, JsonSchema>): JsonSchema {
  const hooks = route.hooks as Hooks;
  const { 'x-svc': description, 'x-access': access, security } = hooks.detail;
  const kind: Kind = {
    isOpen: access === 'open',
    hasBody: hooks.body !== undefined || description.body !== undefined,
    hasPathParameters: route.path.includes(':'),
    hasQuery: hooks.query !== undefined,
  };
  const parameters = [
    ...pathParameters(route, hooks, schemas),
    ...queryParameters(hooks, schemas),
    ...headerParameters(description, kind),
  ];
  return {
    operationId: description.id,
    tags: [description.tag],
    summary: description.summary,
    description: `${description.description ?? `${description.summary}.`}\n\n${ROUTE_ACCESS[access]}`,
    security: route.method === 'GET' ? security : security.filter((scheme) => !('publicKey' in scheme)),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...bodyOf(description, hooks, schemas),
    responses: answersOf(description, kind, schemas, responses),
  };
}

function pathParameters(
  route: Route,
  { params, detail: { 'x-svc': description } }: Hooks,
  schemas: Schemas,
): JsonSchema[] {
  const names = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name as string);
  return names.map((name) => {
    const schema = params?.properties?.[name];
    return {
      name,
      in: 'path',
      required: true,
      description: description.params?.[name] ?? schema?.description ?? PATH_WORDS[name] ?? `the ${name}`,
      schema: schema === undefined ? { type: 'string' } : withoutWords(schemas.of(schema)),
    };
  });
}

const PATH_WORDS: Readonly<Record<string, string>> = {
  entityName: 'the name of the entity',
  id: 'the id; a malformed one is answered like an unknown one',
  key: 'the key of the field',
};

function queryParameters({ query }: Hooks, schemas: Schemas): JsonSchema[] {
  return Object.entries(query?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    ...(query?.required?.includes(name) ? { required: true } : {}),
    ...(schema.description === undefined ? {} : { description: schema.description }),
    schema: withoutWords(schemas.of(schema)),
  }));
}

/** A parameter says its words itself. */
function withoutWords({ description: _, ...schema }: JsonSchema): JsonSchema {
  return schema;
}

function headerParameters({ takes = [] }: Description, { isOpen }: Kind): JsonSchema[] {
  const names = [...(isOpen ? [] : ['TenantId', 'TenantSlug']), ...takes.map((header) => PARAMETER_OF[header])];
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

function bodyOf({ body, bodyTypes = [] }: Description, hooks: Hooks, schemas: Schemas): JsonSchema {
  const schema = body ?? hooks.body;
  const content: JsonSchema = {};
  if (schema !== undefined) {
    const json = schemas.of(schema);
    content['application/json'] = { schema: json, example: exampleOf(json, schemas.components) };
  }
  for (const type of bodyTypes) content[type] = textContent(type);
  return Object.keys(content).length === 0 ? {} : { requestBody: { required: true, content } };
}
