// Generates a TypeScript client for a tenant's entities: one file without dependencies that compiles under
// `strict`. It has a record type, input types and the permitted operations for each entity, verifies webhooks and
// reads the event stream. Pure: the same entities give the same source. Contract: interface#mcp.
import type { Field } from '../entities/field.ts';
import { specOf } from '../entities/field-types.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { CLIENT_EVENTS } from './client-events.ts';
import { CLIENT_RUNTIME } from './client-runtime.ts';
import type { VisibleEntity } from './visible-entities.ts';

/** The source of the client. `baseUrl` is its default address, `slug` its tenant. */
export async function clientSource(
  entities: readonly VisibleEntity[],
  { baseUrl, slug }: { baseUrl: string; slug: string },
): Promise<string> {
  return [
    `// Client of the tenant ${slug}, with the entities, fields and operations permitted to the credential that generated it.`,
    '// Generated code: do not edit; generate it again.',
    CLIENT_RUNTIME.trim(),
    ...(await eachOf(entities, typesOf)),
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

function typesOf({ name, description, typeName, fields, operations }: VisibleEntity): string {
  const record = fields.map((field) => `  ${field.key}: ${specOf(field).clientType(field.options ?? [])} | null;`);
  const created = fields.map((field) => `  ${field.key}${isRequired(field) ? '' : '?'}: ${inputOf(field)};`);
  const blocks = [
    `/** ${commentText(description ?? `A record of ${name}.`)} */\nexport interface ${typeName}Record extends SystemFields {\n${record.join('\n')}\n}`,
  ];
  if (operations.has('create')) {
    blocks.push(
      `/** The values of a new record of ${name}. */\nexport interface New${typeName} {\n${created.join('\n')}\n}`,
    );
  }
  if (operations.has('update')) {
    const changed = fields.map((field) => `  ${field.key}?: ${inputOf(field)};`);
    blocks.push(
      `/** Changes to a record of ${name}; null clears a field. */\nexport interface ${typeName}Changes {\n${changed.join('\n')}\n}`,
    );
  }
  return blocks.join('\n\n');
}

/** The text on one line, changed so that it cannot end the comment around it. */
function commentText(text: string): string {
  return text.replaceAll('*/', '* /').replaceAll(/\s+/g, ' ');
}

function isRequired({ required, default: fallback }: Field): boolean {
  return required && fallback === undefined;
}

function inputOf({ type, options, required }: Field): string {
  const { clientType, clientInput = clientType(options ?? []) } = specOf({ type });
  return required ? clientInput : `${clientInput} | null`;
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
    lines.push(`create: (values: New${typeName}) => send<${record}>("POST", ${path}, {}, values),`);
  }
  if (operations.has('update')) {
    lines.push(
      `update: (id: string, changes: ${typeName}Changes) =>\n        send<${record}>("PATCH", \`\${${path}}/\${encodeURIComponent(id)}\`, {}, changes),`,
    );
  }
  if (operations.has('delete')) {
    lines.push(
      `delete: (id: string) => send<{ id: string; deleted: true }>("DELETE", \`\${${path}}/\${encodeURIComponent(id)}\`),`,
    );
  }
  return `    ${name}: {\n${lines.map((line) => `      ${line}`).join('\n')}\n    },`;
}
