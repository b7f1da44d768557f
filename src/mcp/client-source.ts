// Generates a TypeScript client for a tenant's entities: one file without dependencies that compiles under
// `strict`. It has a record type, input types and the permitted operations for each entity, verifies webhooks and
// reads the event stream. Pure: the same entities give the same source. Contract: interface#mcp.
import { type EntitySchemas, schemasOf } from '../docs/entity-schemas.ts';
import type { JsonSchema } from '../docs/schema.ts';
import type { VisibleEntity } from '../docs/visible-entities.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { CLIENT_EVENTS } from './client-events.ts';
import { CLIENT_RUNTIME } from './client-runtime.ts';

interface TypedEntity {
  entity: VisibleEntity;
  schemas: EntitySchemas;
}

/** The client has no types of expanded relations. */
const NO_TYPES = new Map();

/** The source of the client. `baseUrl` is its default address, `slug` its tenant. */
export async function clientSource(
  entities: readonly VisibleEntity[],
  { baseUrl, slug }: { baseUrl: string; slug: string },
): Promise<string> {
  return [
    `// Client of the tenant ${slug}, with the entities, fields and operations permitted to the credential that generated it.`,
    '// Generated code: do not edit; generate it again.',
    CLIENT_RUNTIME.trim(),
    ...(await eachOf(entities, (entity) => typesOf({ entity, schemas: schemasOf(entity, NO_TYPES) }))),
    `const BASE_URL = ${JSON.stringify(baseUrl)};`,
    `const TENANT = ${JSON.stringify(slug)};`,
    recordsOf(entities),
    CLIENT_EVENTS.trim(),
    await factoryOf(entities),
  ]
    .join('\n\n')
    .concat('\n');
}

/** The texts of the entities; the event loop turns between them. */
async function eachOf(
  entities: readonly VisibleEntity[],
  textOf: (entity: VisibleEntity) => string,
): Promise<string[]> {
  const texts: string[] = [];
  for (const entity of entities) {
    texts.push(textOf(entity));
    await giveWay();
  }
  return texts;
}

function recordsOf(entities: readonly VisibleEntity[]): string {
  const members = entities.map(({ name, typeName }) => `  ${name}: ${typeName}Record;`);
  return `/** Record types by entity name. */\nexport interface Records {\n${members.join('\n')}\n}`;
}

function typesOf({ entity, schemas }: TypedEntity): string {
  const { name, description, typeName, operations } = entity;
  const system = new Set<string>(SYSTEM_MEMBERS);
  const blocks = [
    `/** ${commentText(description ?? `A record of ${name}.`)} */\nexport interface ${typeName}Record extends SystemFields ${membersOf(schemas.record, system)}`,
  ];
  if (operations.has('create')) {
    blocks.push(
      `/** The values of a new record of ${name}. */\nexport interface ${typeName}Create ${membersOf(schemas.create)}`,
    );
  }
  if (operations.has('update')) {
    blocks.push(
      `/** Changes to a record of ${name}; null clears a field. */\nexport interface ${typeName}Update ${membersOf(schemas.update)}`,
    );
  }
  return blocks.join('\n\n');
}

/** The members of `SystemFields`, which every record has. */
const SYSTEM_MEMBERS = ['id', 'entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'] as const;

function membersOf({ properties, required = [] }: JsonSchema, left: ReadonlySet<string> = new Set()): string {
  const isRequired = new Set(required as string[]);
  const lines = Object.entries(properties as Record<string, JsonSchema>)
    .filter(([key]) => !left.has(key))
    .map(([key, schema]) => `  ${key}${isRequired.has(key) ? '' : '?'}: ${typeOf(schema)};`);
  return `{\n${lines.join('\n')}\n}`;
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
};

/** The TypeScript type of a schema. Relations are ids: the client does not expand them. */
function typeOf({ type, enum: values, anyOf, items, $ref }: JsonSchema): string {
  if ($ref !== undefined) return '';
  if (anyOf !== undefined) {
    const types = (anyOf as JsonSchema[]).map(typeOf).filter((one) => one !== '');
    return types.join(' | ');
  }
  if (values !== undefined) return (values as unknown[]).map((value) => JSON.stringify(value)).join(' | ');
  if (type === undefined) return 'Json';
  const types = [type].flat() as string[];
  return types.map((one) => (one === 'array' ? `(${typeOf(items as JsonSchema)})[]` : TYPES[one])).join(' | ');
}

/** The text on one line, changed so that it cannot end the comment around it. */
function commentText(text: string): string {
  return text.replaceAll('*/', '* /').replaceAll(/\s+/g, ' ');
}

async function factoryOf(entities: readonly VisibleEntity[]): Promise<string> {
  return `/** Creates a client that sends the credential in these headers, such as \`{ authorization: "Bearer ..." }\`. */
export function createClient(options: ClientOptions) {
  const send = requestSender({ baseUrl: BASE_URL, tenant: TENANT, ...options });
  return {
${(await eachOf(entities, methodsOf)).join('\n')}
  };
}

export type Client = ReturnType<typeof createClient>;`;
}

function methodsOf({ name, typeName, operations, fields }: VisibleEntity): string {
  const record = `${typeName}Record`;
  const keys = ['SystemKey', ...fields.map(({ key }) => JSON.stringify(key))].join(' | ');
  const path = JSON.stringify(`/api/entities/${name}/records`);
  const lines: string[] = [];
  if (operations.has('read')) {
    lines.push(
      `list: (options: ListOptions<${keys}> = {}) => send<Page<${record}>>("GET", ${path}, options),`,
      `all: (options: ListOptions<${keys}> = {}) => pages<${record}>((more) => send("GET", ${path}, { ...options, ...more })),`,
      `get: (id: string) => send<${record}>("GET", \`\${${path}}/\${encodeURIComponent(id)}\`),`,
    );
  }
  if (operations.has('create')) {
    lines.push(`create: (values: ${typeName}Create) => send<${record}>("POST", ${path}, {}, values),`);
  }
  if (operations.has('update')) {
    lines.push(
      `update: (id: string, changes: ${typeName}Update) =>\n        send<${record}>("PATCH", \`\${${path}}/\${encodeURIComponent(id)}\`, {}, changes),`,
    );
  }
  if (operations.has('delete')) {
    lines.push(
      `delete: (id: string) => send<{ id: string; deleted: true }>("DELETE", \`\${${path}}/\${encodeURIComponent(id)}\`),`,
    );
  }
  return `    ${name}: {\n${lines.map((line) => `      ${line}`).join('\n')}\n    },`;
}
