// The field types: one table of all their differences. A new type needs an entry here, its name in field.ts
// and a description in the docs; the compiler checks that nothing is missing.
// Values are stored as JSON: numbers as numbers, lists as arrays, everything else as canonical text.
// Contract: decisions#fields.
import type { FieldRef } from '../expression/ast.ts';
import * as types from '../expression/value-types.ts';
import { parseValue } from '../http/json-object.ts';
import type { Field, FieldRules, FieldType } from './field.ts';
import * as convert from './field-conversions.ts';
import * as parse from './field-parsers.ts';

/**
 * A value as a CSV cell. Reading a written cell gives the same value; a cell that does not fit its type stays text, for
 * the parser to reject.
 */
interface Cell {
  write(value: unknown): string;
  /** The value of a cell that is not empty. */
  read(cell: string): unknown;
}

/**
 * Text that a spreadsheet would run as a formula is prefixed with an apostrophe, and so is text that is empty or only
 * apostrophes.
 */
const FORMULA = /^'*([=+\-@\t\r\n＝＋－＠]|$)/;
const GUARDED = /^'+([=+\-@\t\r\n＝＋－＠]|$)/;
/** Digits must match in one way only: with two ways, a cell of a megabyte would take an hour. */
const NUMBER_TEXT = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

const PLAIN_CELL: Cell = { write: String, read: (cell) => cell };

const FREE_TEXT_CELL: Cell = {
  write: (value) => (FORMULA.test(String(value)) ? `'${value}` : String(value)),
  read: (cell) => (GUARDED.test(cell) ? cell.slice(1) : cell),
};

const NUMBER_CELL: Cell = { write: String, read: (cell) => (NUMBER_TEXT.test(cell) ? Number(cell) : cell) };

const BOOLEAN_CELL: Cell = {
  write: String,
  read: (cell) => ({ true: true, false: false })[cell.toLowerCase()] ?? cell,
};

const JSON_CELL: Cell = {
  write: (value) => JSON.stringify(value),
  read: (cell) => {
    return parseValue(cell) ?? cell;
  },
};

/** Attributes of a definition that only some types have. */
export type TypeAttribute = keyof FieldRules | 'entity' | 'onDelete';

interface FieldTypeSpec {
  /** Operators, order, aggregates and the stored value in SQL. */
  value: types.ValueType;
  /** The stored form of an input value that is not null, from JSON or from `cell.read`. */
  parse(input: unknown, field: Field): parse.Parsed;
  attributes: readonly TypeAttribute[];
  /** The index that `indexed` builds, if the type supports one: by value, or by the members of a list. */
  index: 'value' | 'members' | null;
  /** Indexed even without `indexed`, because deleting a record looks up the relations to it. */
  isAlwaysIndexed: boolean;
  canBeUnique: boolean;
  /** Text of any length; an index entry holds at most LIMITS.indexedTextMax characters. */
  isFreeText: boolean;
  /** Whether `search` covers the field. */
  isSearchable: boolean;
  /** Types of one family store and index values alike, so a change of type within it rewrites nothing. */
  family: string;
  /** The types that convert to this one, and how. A type always converts to itself. */
  convertsFrom: convert.Conversions;
  cell: Cell;
  /** The JSON Schema of values; `inputType` are the types that input may have, if they are more. */
  schema(options: readonly string[]): Record<string, unknown>;
  inputType?: readonly string[];
}

const SCALAR = {
  attributes: [],
  index: 'value',
  isAlwaysIndexed: false,
  canBeUnique: true,
  isFreeText: false,
  isSearchable: false,
  cell: PLAIN_CELL,
  schema: () => ({ type: 'string' }),
} as const;

const STRING = {
  ...SCALAR,
  value: types.TEXT,
  attributes: ['minLength', 'maxLength', 'pattern'],
  isFreeText: true,
  isSearchable: true,
  family: 'text',
  cell: FREE_TEXT_CELL,
} as const;

const NUMERIC = {
  ...SCALAR,
  value: types.NUMBER,
  attributes: ['min', 'max'],
  family: 'number',
  convertsFrom: convert.toNumber,
  cell: NUMBER_CELL,
} as const;

/** Values without an order in Postgres: neither unique nor sort keys. */
const UNORDERED = { ...SCALAR, canBeUnique: false, cell: JSON_CELL } as const;

const RELATION = { attributes: ['entity', 'onDelete'], isAlwaysIndexed: true } as const;

export const FIELD_TYPES = {
  text: { ...STRING, parse: parse.text, convertsFrom: convert.toText },
  email: { ...STRING, parse: parse.email, convertsFrom: convert.toFormat },
  url: { ...STRING, parse: parse.url, convertsFrom: convert.toFormat },
  uuid: {
    ...SCALAR,
    value: types.UUID,
    parse: parse.uuid,
    family: 'uuid',
    convertsFrom: convert.toUuid,
    schema: () => ({ type: 'string', format: 'uuid' }),
  },
  integer: { ...NUMERIC, parse: parse.integer, schema: () => ({ type: 'integer' }) },
  number: { ...NUMERIC, parse: parse.number, schema: () => ({ type: 'number' }) },
  decimal: {
    ...NUMERIC,
    value: types.DECIMAL,
    parse: parse.decimal,
    family: 'decimal',
    convertsFrom: convert.toDecimal,
    cell: PLAIN_CELL,
    inputType: ['string', 'number'],
    schema: () => ({ type: 'string' }),
  },
  boolean: {
    ...SCALAR,
    value: types.BOOLEAN,
    parse: parse.boolean,
    canBeUnique: false,
    family: 'boolean',
    convertsFrom: convert.toBoolean,
    cell: BOOLEAN_CELL,
    schema: () => ({ type: 'boolean' }),
  },
  date: {
    ...SCALAR,
    value: types.DATE,
    parse: parse.date,
    family: 'date',
    convertsFrom: convert.toDate,
    schema: () => ({ type: 'string', format: 'date' }),
  },
  datetime: {
    ...SCALAR,
    value: types.DATE_TIME,
    parse: parse.dateTime,
    family: 'datetime',
    convertsFrom: convert.toDateTime,
    schema: () => ({ type: 'string', format: 'date-time' }),
  },
  select: {
    ...SCALAR,
    value: types.TEXT,
    parse: parse.select,
    attributes: ['options'],
    isFreeText: true,
    family: 'select',
    convertsFrom: convert.toSelect,
    cell: FREE_TEXT_CELL,
    schema: choiceSchema,
  },
  multiselect: {
    ...UNORDERED,
    value: types.TEXT_LIST,
    parse: parse.multiselect,
    attributes: ['options'],
    index: 'members',
    family: 'multiselect',
    convertsFrom: convert.toMultiselect,
    schema: (options) => ({ type: 'array', items: choiceSchema(options) }),
  },
  json: {
    ...UNORDERED,
    value: types.JSON_VALUE,
    parse: parse.json,
    index: null,
    family: 'json',
    convertsFrom: convert.toJson,
    schema: () => ({}),
  },
  relation: {
    ...SCALAR,
    ...RELATION,
    value: types.UUID,
    parse: parse.uuid,
    family: 'relation',
    convertsFrom: convert.toRelation,
    schema: () => ({ type: 'string', format: 'uuid' }),
  },
  relations: {
    ...UNORDERED,
    ...RELATION,
    value: types.UUID_LIST,
    parse: parse.uuidList,
    index: 'members',
    family: 'relations',
    convertsFrom: convert.toRelations,
    schema: () => ({ type: 'array', items: { type: 'string', format: 'uuid' } }),
  },
} as const satisfies Readonly<Record<FieldType, FieldTypeSpec>>;

export const FIELD_TYPE_NAMES = Object.keys(FIELD_TYPES) as FieldType[];

export function specOf({ type }: Pick<Field, 'type'>): FieldTypeSpec {
  return FIELD_TYPES[type];
}

/** The field as expressions use it. */
export function fieldRef({ key, type, slot }: Pick<Field, 'key' | 'type' | 'slot'>): FieldRef {
  return { key, type, slot, value: FIELD_TYPES[type].value };
}

/** A value as a CSV cell; no value is an empty cell. */
export function cellOf(field: Pick<Field, 'type'>, value: unknown): string {
  return value === null || value === undefined ? '' : specOf(field).cell.write(value);
}

function choiceSchema(options: readonly string[]): Record<string, unknown> {
  return { type: 'string', ...(options.length === 0 ? {} : { enum: options }) };
}
