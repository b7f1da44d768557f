// Writes a TypeScript client for a tenant's entities: one file, no dependencies, compiles under `strict`.
// Per entity a record type, the types of new and changed values, and the operations that the caller may
// use; for all of them, webhooks and the event stream. Pure: the same entities give the same text.
// Contract: interface#mcp.
import type { Field } from '../entities/field.ts';
import { specOf } from '../entities/field-types.ts';
import { CLIENT_EVENTS } from './client-events.ts';
import { CLIENT_RUNTIME } from './client-runtime.ts';
import type { VisibleEntity } from './visible-entities.ts';

/** The client's file. `baseUrl` is its default address, `slug` the tenant that it names. */
export function clientSource(
  entities: readonly VisibleEntity[],
  { baseUrl, slug }: { baseUrl: string; slug: string },
): string {
  const known = new Set(entities.map(({ name }) => name));
  return [
    `// Client of the tenant ${slug}: the entities, fields and operations that its maker may use.`,
    '// Generated; to change it, generate it anew.',
    CLIENT_RUNTIME.trim(),
    ...entities.map(typesOf),
    `const BASE_URL = ${JSON.stringify(baseUrl)};`,
    `const TENANT = ${JSON.stringify(slug)};`,
    recordsOf(entities),
    CLIENT_EVENTS.trim(),
    factoryOf(entities.filter(({ name }) => known.has(name))),
  ]
    .join('\n\n')
    .concat('\n');
}

function recordsOf(entities: readonly VisibleEntity[]): string {
  const members = entities.map(({ name, typeName }) => `  ${name}: ${typeName}Record;`);
  return `/** The entities by name. */\nexport interface Records {\n${members.join('\n')}\n}`;
}

function typesOf({ name, description, typeName, fields, operations }: VisibleEntity): string {
  const record = fields.map((field) => `  ${field.key}: ${specOf(field).clientType(field.options ?? [])} | null;`);
  const fresh = fields.map((field) => `  ${field.key}${isNeeded(field) ? '' : '?'}: ${inputOf(field)};`);
  const blocks = [
    `/** ${words(description ?? `A record of ${name}.`)} */\nexport interface ${typeName}Record extends SystemFields {\n${record.join('\n')}\n}`,
  ];
  if (operations.has('create')) {
    blocks.push(
      `/** What a new record of ${name} takes. */\nexport interface New${typeName} {\n${fresh.join('\n')}\n}`,
    );
  }
  if (operations.has('update')) {
    const changed = fields.map((field) => `  ${field.key}?: ${inputOf(field)};`);
    blocks.push(
      `/** What may be changed in a record of ${name}; null clears a field. */\nexport interface ${typeName}Changes {\n${changed.join('\n')}\n}`,
    );
  }
  return blocks.join('\n\n');
}

/** A comment's words cannot end the comment. */
function words(text: string): string {
  return text.replaceAll('*/', '* /').replaceAll(/\s+/g, ' ');
}

function isNeeded({ required, default: fallback }: Field): boolean {
  return required && fallback === undefined;
}

function inputOf({ type, options, required }: Field): string {
  const { clientType, clientInput = clientType(options ?? []) } = specOf({ type });
  return required ? clientInput : `${clientInput} | null`;
}

function factoryOf(entities: readonly VisibleEntity[]): string {
  return `/** The client. Give it a credential's headers, such as \`{ authorization: "Bearer ..." }\`. */
export function createClient(options: ClientOptions) {
  const send = sender({ baseUrl: BASE_URL, tenant: TENANT, ...options });
  return {
${entities.map(methodsOf).join('\n')}
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
