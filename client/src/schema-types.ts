// Writes the entity map for `createClient` from the definitions of entities: per entity an interface for records, one for
// creations and one for changes, and `Schema`, which names them. The command line and MCP's generated client take their types
// from here. Pure: the same definitions give the same text, which needs no imports.
import type { Operation } from './schema.ts';

/** An entity as GET /api/entities returns it. */
export interface EntityDefinition {
  name: string;
  label?: string | null;
  description?: string | null;
  fields: readonly FieldDefinition[];
  /** The operations that the credential may use; missing: all. */
  operations?: readonly Operation[];
}

export interface FieldDefinition {
  key: string;
  type: string;
  description?: string | null;
  required: boolean;
  default?: unknown;
  options?: readonly string[] | null;
  /** The target entity of a relation. */
  entity?: string | null;
}

/** The members that every record has. */
const SYSTEM_BEFORE = ['id: string', 'entityId: string'];
const SYSTEM_AFTER = ['createdAt: string', 'updatedAt: string', 'createdBy: string | null', 'updatedBy: string | null'];

/** The text in parts, one per entity and finally the map, to be joined by empty lines. */
export function* schemaTypes(definitions: readonly EntityDefinition[]): Generator<string, void, undefined> {
  const names = typeNamesOf(definitions.map(({ name }) => name));
  for (const definition of definitions) yield typesOf(definition, names.get(definition.name) as string);
  const members = definitions.map((definition) => mapMember(definition, names.get(definition.name) as string, names));
  yield `/** The entities of the tenant, for \`createClient<Schema>\`. */\nexport interface Schema {\n${members.join('\n')}\n}`;
}

/** The names of the types of entities, by name: PascalCase, unique. */
export function typeNamesOf(names: readonly string[]): Map<string, string> {
  const taken = new Set<string>();
  return new Map(
    names.map((name) => {
      const pascal = name.replaceAll(/(?:^|_+)([a-z0-9]?)/g, (_, letter: string) => letter.toUpperCase());
      const word = pascal.replaceAll(/\W/g, '_');
      let typeName = /^[A-Z]/.test(word) ? word : `Entity${word}`;
      while (taken.has(typeName)) typeName += '_';
      taken.add(typeName);
      return [name, typeName];
    }),
  );
}

function typesOf({ name, label, description, fields, operations }: EntityDefinition, typeName: string): string {
  const may = (operation: Operation): boolean => operations?.includes(operation) ?? true;
  const own = fields.map((field) => `${comment(field.description)}  ${memberName(field.key)}: ${valueType(field)};`);
  const system = (members: readonly string[]): string[] => members.map((member) => `  ${member};`);
  const about = commentText(description || label || `A record of ${name}.`);
  const record = [...system(SYSTEM_BEFORE), ...own, ...system(SYSTEM_AFTER)];
  const blocks = [`/** ${about} */\nexport interface ${typeName}Record {\n${record.join('\n')}\n}`];
  if (may('create')) {
    const members = fields.map(
      (field) => `  ${memberName(field.key)}${needsValue(field) ? '' : '?'}: ${inputType(field)};`,
    );
    blocks.push(
      `/** The values of a new record of ${commentText(name)}. */\nexport interface ${typeName}Create {\n${members.join('\n')}\n}`,
    );
  }
  if (may('update')) {
    const members = fields.map((field) => `  ${memberName(field.key)}?: ${inputType(field)};`);
    blocks.push(
      `/** Changes to a record of ${commentText(name)}; null clears a field. */\nexport interface ${typeName}Update {\n${members.join('\n')}\n}`,
    );
  }
  return blocks.join('\n\n');
}

/** Whether a new record needs a value in its request. */
function needsValue({ required, default: fallback }: FieldDefinition): boolean {
  return required && fallback === undefined;
}

function mapMember(
  { name, fields, operations }: EntityDefinition,
  typeName: string,
  names: ReadonlyMap<string, string>,
): string {
  const may = (operation: Operation): boolean => operations?.includes(operation) ?? true;
  const relations = fields.filter(({ entity }) => entity != null && names.has(entity));
  const members = [
    `record: ${typeName}Record`,
    `create: ${may('create') ? `${typeName}Create` : 'never'}`,
    `update: ${may('update') ? `${typeName}Update` : 'never'}`,
    ...(relations.length === 0
      ? []
      : [`relations: { ${relations.map(({ key, entity }) => `${memberName(key)}: ${quoted(entity)}`).join('; ')} }`]),
    ...(operations === undefined ? [] : [`operations: ${union(operations)}`]),
  ];
  return `  ${memberName(name)}: {\n${members.map((member) => `    ${member};`).join('\n')}\n  };`;
}

const TYPES: Readonly<Record<string, string>> = {
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  json: 'unknown',
  relations: 'string[]',
};

function bareType({ type, options }: FieldDefinition): string {
  if (type === 'select') return union(options ?? []);
  if (type === 'multiselect') return `(${union(options ?? [])})[]`;
  // Texts of all kinds, dates, exact numbers and ids are strings; a type that a later service adds is unknown.
  return TYPES[type] ?? (TEXTS.includes(type) ? 'string' : 'unknown');
}

const TEXTS = ['text', 'email', 'url', 'uuid', 'decimal', 'date', 'datetime', 'relation'];

function valueType(field: FieldDefinition): string {
  return nullable(bareType(field), field);
}

/** Exact numbers may also be given as JSON numbers. */
function inputType(field: FieldDefinition): string {
  return nullable(field.type === 'decimal' ? 'string | number' : bareType(field), field);
}

function nullable(type: string, { required }: FieldDefinition): string {
  return required || type === 'unknown' ? type : `${type} | null`;
}

function union(values: readonly string[]): string {
  return values.length === 0 ? 'never' : values.map(quoted).join(' | ');
}

function comment(text: string | null | undefined): string {
  return text ? `  /** ${commentText(text)} */\n` : '';
}

/**
 * The text on one line, changed so that it can neither end the comment around it nor make the code look different from what it
 * is.
 */
function commentText(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll(INVISIBLE, '').replaceAll('*/', '* /').trim();
}

function memberName(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : quoted(name);
}

function quoted(value: unknown): string {
  const code = (one: string): string => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value).replaceAll(INVISIBLE, code);
}

/** Control characters, and marks that change the direction of writing. */
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
