// The JSON Schemas of an entity's records as one caller sees them: the record in responses, and the values of creations and
// changes. The types of the typed API document and of the generated client come from here. Hidden fields, and the names of
// entities that the caller may not read, appear in none of them. Pure.
// Contract: decisions#api-document, decisions#fields.
import type { Field } from '../entities/field.ts';
import { specOf } from '../entities/field-types.ts';
import type { JsonSchema } from './schema.ts';
import type { VisibleEntity } from './visible-entities.ts';

export interface EntitySchemas {
  record: JsonSchema;
  create: JsonSchema;
  update: JsonSchema;
}

/** The type names of the entities that the caller may read, by id. Only they are named as targets of relations. */
export type ReadableTypes = ReadonlyMap<string, { name: string; typeName: string | null }>;

const UUID = { type: 'string', format: 'uuid' };
const TIME = { type: 'string', format: 'date-time' };
const PERSON = { type: ['string', 'null'] };
const BEFORE: JsonSchema = { id: UUID, entityId: UUID };
const AFTER: JsonSchema = { createdAt: TIME, updatedAt: TIME, createdBy: PERSON, updatedBy: PERSON };

export function schemasOf({ name, fields }: VisibleEntity, readable: ReadableTypes): EntitySchemas {
  const inRecord = fields.map((field) => [field.key, recordProperty(field, readable)] as const);
  const inBody = fields.map((field) => [field.key, bodyProperty(field, readable)] as const);
  const properties = { ...BEFORE, ...Object.fromEntries(inRecord), ...AFTER };
  const body = { type: 'object', properties: Object.fromEntries(inBody), additionalProperties: false };
  const required = fields.filter(isRequired).map(({ key }) => key);
  return {
    record: {
      type: 'object',
      description: `A record of ${name}. With \`fields\`, only the system fields and those named are returned.`,
      required: Object.keys(properties),
      properties,
    },
    create: {
      description: `The values of a new record of ${name}, by field key.`,
      ...body,
      ...(required.length === 0 ? {} : { required }),
    },
    update: { description: `Changes to a record of ${name}, by field key; null clears a field.`, ...body },
  };
}

/** Whether a new record needs a value in its request. */
export function isRequired({ required, default: fallback }: Field): boolean {
  return required && fallback === undefined;
}

/** A field of a response: with `resolve`, relations are records. */
function recordProperty(field: Field, readable: ReadableTypes): JsonSchema {
  const value = valueSchema(field);
  const target = readable.get(field.targetId ?? '')?.typeName;
  const expanded = target == null ? value : withRecords(value, target);
  return described(field, readable, field.required ? expanded : nullable(expanded));
}

function bodyProperty(field: Field, readable: ReadableTypes): JsonSchema {
  const { inputType } = specOf(field);
  const value = inputType === undefined ? valueSchema(field) : { ...valueSchema(field), type: inputType };
  const schema = field.required ? value : nullable(value);
  return described(field, readable, field.default === undefined ? schema : { ...schema, default: field.default });
}

function withRecords({ items, ...value }: JsonSchema, typeName: string): JsonSchema {
  const record = { $ref: `#/components/schemas/${typeName}Record` };
  return items === undefined ? { anyOf: [value, record] } : { ...value, items: { anyOf: [items, record] } };
}

/** The values of a field, without descriptions. */
function valueSchema(field: Field): JsonSchema {
  const { min, max, minLength, maxLength, pattern, options = [] } = field;
  const schema: JsonSchema = { ...specOf(field).schema(options) };
  const isNumber = schema.type === 'integer' || schema.type === 'number';
  if (isNumber && min !== undefined) schema.minimum = Number(min);
  if (isNumber && max !== undefined) schema.maximum = Number(max);
  if (minLength !== undefined) schema.minLength = minLength;
  if (maxLength !== undefined) schema.maxLength = maxLength;
  if (pattern !== undefined && isSharedSyntax(pattern)) schema.pattern = pattern;
  return schema;
}

/** Whether a pattern means the same in JSON Schema, which uses ECMAScript's syntax, and in the service, which uses RE2's. */
function isSharedSyntax(pattern: string): boolean {
  if (/\[:|\(\?[^:)]/.test(pattern)) return false;
  try {
    new RegExp(pattern, 'u');
    return true;
  } catch {
    return false;
  }
}

function nullable(schema: JsonSchema): JsonSchema {
  const { type, enum: values, anyOf } = schema;
  if (anyOf !== undefined) return { ...schema, anyOf: [...(anyOf as JsonSchema[]), { type: 'null' }] };
  // The field accepts anything, null included.
  if (type === undefined) return schema;
  return {
    ...schema,
    type: [...[type].flat(), 'null'],
    ...(values === undefined ? {} : { enum: [...(values as string[]), null] }),
  };
}

function described(field: Field, readable: ReadableTypes, schema: JsonSchema): JsonSchema {
  const { label, pattern } = field;
  const notes = [field.description, targetNote(field, readable), limitNote(field)];
  if (pattern !== undefined && schema.pattern === undefined) notes.push(`Matches the RE2 pattern ${pattern}`);
  const description = notes.filter((note) => note !== null && note !== '').join('\n\n');
  return { ...(label ? { title: label } : {}), ...schema, ...(description === '' ? {} : { description }) };
}

function targetNote({ type, targetId }: Field, readable: ReadableTypes): string | null {
  if (targetId === null) return null;
  const name = readable.get(targetId)?.name;
  const of = name === undefined ? 'records' : `records of ${name}`;
  return type === 'relation' ? `The id of one of the ${of}.` : `Ids of ${of}.`;
}

/** Limits that the schema of a text cannot state. */
function limitNote({ type, min, max }: Field): string | null {
  if (type !== 'decimal') return null;
  const limits = [min === undefined ? '' : `at least ${min}`, max === undefined ? '' : `at most ${max}`];
  return ['An exact decimal number', ...limits.filter((limit) => limit !== '')].join(', ').concat('.');
}
