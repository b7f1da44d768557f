// Builds the API document, OpenAPI 3.1, from the declaration of each route: access, schemas, responses, descriptions.
// Throws on a route without a declaration, so that the document is complete.
// Contract: decisions#api-document.
import { readFileSync } from 'node:fs';
import { SECURITY_SCHEMES } from '../access/credential-kinds.ts';
import { type Access, admitsMethod, ROUTE_ACCESS } from '../access/route-access.ts';
import type { Route } from '../http/route.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { exampleOf } from './example.ts';
import { HEADER_PARAMETERS, INTRODUCTION, PARAMETER_OF, RESPONSE_HEADERS, TAGS, TITLE } from './prose.ts';
import { responsesOf, textContent } from './responses.ts';
import { type JsonSchema, Schemas } from './schema.ts';
import { webhooksOf } from './webhooks.ts';

/** A route as the framework lists it. */
export interface ListedRoute {
  method: string;
  path: string;
  hooks?: unknown;
}

interface Detail {
  'x-svc': Route;
  'x-access': Access;
  security: object[];
}

/**
 * Builds the document. `server` is the address that clients use. The event loop runs between operations, which take up to 25 ms
 * together.
 */
export async function buildDocument(
  routes: readonly ListedRoute[],
  version: string,
  server: string,
): Promise<JsonSchema> {
  const schemas = new Schemas();
  const responses: Record<string, JsonSchema> = {};
  const paths: Record<string, JsonSchema> = {};
  for (const route of routes) {
    const turn = giveWay();
    if (turn !== undefined) await turn;
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
    // Only callers that may subscribe see the webhooks.
    ...(paths['/api/webhooks/subscriptions'] === undefined ? {} : { webhooks: webhooksOf(schemas) }),
    components: {
      schemas: schemas.components,
      responses,
      // A caller's document adds its own parameters.
      parameters: { ...HEADER_PARAMETERS },
      headers: RESPONSE_HEADERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

/** The tags in use, in the order of the table. Throws on a tag without a description. */
function tagsOf(paths: Record<string, JsonSchema>): object[] {
  const operations = Object.values(paths).flatMap((path) => Object.values(path)) as { tags: string[] }[];
  const used = new Set(operations.flatMap(({ tags }) => tags));
  const unknown = [...used].filter((tag) => TAGS[tag] === undefined);
  if (unknown.length > 0) throw new Error(`tags without a description in the API document: ${unknown.join(', ')}`);
  return Object.entries(TAGS)
    .filter(([name]) => used.has(name))
    .map(([name, description]) => ({ name, description }));
}

function operationOf({ hooks, method, path }: ListedRoute, schemas: Schemas, responses: Record<string, JsonSchema>) {
  const { 'x-svc': route, 'x-access': access, security } = (hooks as { detail: Detail }).detail;
  const isOpen = access === 'open';
  const parameters = [
    ...pathParameters(path, method, route),
    ...queryParameters(route, schemas),
    ...headerParameters(route, isOpen),
  ];
  return {
    operationId: route.id,
    tags: [route.tag],
    summary: route.summary,
    description: `${route.description ?? `${route.summary}.`}\n\n${ROUTE_ACCESS[access]}`,
    security: admitsMethod('public_key', method, access)
      ? security
      : security.filter((scheme) => !('publicKey' in scheme)),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...bodyOf(route, schemas),
    responses: responsesOf(route, { isOpen, hasPathParameters: path.includes(':') }, schemas, responses),
  };
}

function pathParameters(path: string, method: string, { params, pathExamples = {} }: Route): JsonSchema[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => {
    // A page that fills in examples must not offer to delete something.
    const example = method === 'DELETE' ? undefined : (pathExamples[name] ?? PATH_EXAMPLES[name]);
    return {
      name,
      in: 'path',
      required: true,
      description: params?.[name] ?? PATH_DESCRIPTIONS[name] ?? `the ${name}`,
      schema: { type: 'string' },
      ...(example === undefined ? {} : { example }),
    };
  });
}

/** Path parameters of the demo tenant. */
const PATH_EXAMPLES: Readonly<Record<string, string>> = { entityName: 'companies', key: 'country' };

const PATH_DESCRIPTIONS: Readonly<Record<string, string>> = {
  entityName: 'the name of the entity',
  id: 'the id; a malformed one is a 404, like an unknown one',
  key: 'the key of the field',
};

function queryParameters({ query }: Route, schemas: Schemas): JsonSchema[] {
  return Object.entries(query?.properties ?? {}).map(([name, property]) => {
    const { description, ...schema } = schemas.of(property);
    return { name, in: 'query', ...(description === undefined ? {} : { description }), schema };
  });
}

function headerParameters({ requestHeaders = [] }: Route, isOpen: boolean): JsonSchema[] {
  const names = [
    ...(isOpen ? [] : ['TenantId', 'TenantSlug']),
    ...requestHeaders.map((header) => PARAMETER_OF[header]),
  ];
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

function bodyOf(
  { body, rawBody, example, bodyTypes = [], isBodyOptional = false }: Route,
  schemas: Schemas,
): JsonSchema {
  const schema = body ?? rawBody;
  const content: JsonSchema = {};
  if (schema !== undefined) {
    const json = schemas.of(schema);
    content['application/json'] = { schema: json, example: example ?? exampleOf(json, schemas.components) };
  }
  for (const type of bodyTypes) {
    content[type] = { ...textContent(type), ...(typeof example === 'string' ? { example } : {}) };
  }
  return Object.keys(content).length === 0 ? {} : { requestBody: { required: !isBodyOptional, content } };
}

/** The version of the service. */
let version: string | undefined;
export function versionOfPackage(): string {
  version ??= (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string })
    .version;
  return version;
}
