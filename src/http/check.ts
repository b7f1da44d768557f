// Validates a value against its TypeBox schema and reports every problem at once, by path. A schema's own
// `error` replaces the messages of everything below it; other messages are derived from the schema's keywords.
// Operations add the checks that a schema cannot express, on the valid part of the value.
// Contract: decisions#responses.
import type { Static, TSchema } from '@sinclair/typebox';
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler';
import { Value } from '@sinclair/typebox/value';
import { invalid, invalidField, type Problem } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { isJsonLarger, jsonBytes } from '../runtime/text.ts';

/** A value without its invalid members; an invalid item of a list is undefined. */
export type Valid<T> = T extends readonly (infer Item)[]
  ? (Valid<Item> | undefined)[]
  : T extends object
    ? { [K in keyof T]?: Valid<T[K]> }
    : T;

/** The value, typed by its schema. 400 with every problem: from the schema, and from `further`, which checks the valid part. */
export function check<T extends TSchema>(
  schema: T,
  value: unknown,
  further?: (valid: Valid<Static<T>>) => readonly Problem[],
): Static<T> {
  const violations = violationsOf(schema, value);
  const problems = violations.map(toProblem);
  if (further !== undefined && violations.length <= LIMITS.problemsMax) {
    const known = new Set(problems.map(({ path }) => path));
    const others = further(validPart(value, violations) as Valid<Static<T>>);
    problems.push(...others.filter(({ path }) => !known.has(path)));
  }
  if (problems.length > 0) throw invalid(problems);
  return value as Static<T>;
}

/** 400 when a definition takes more than `bytes` as JSON. */
export function requireFits(definition: object, what: string, bytes: number): void {
  if (!isJsonLarger(definition, bytes)) return;
  throw invalidField('body', `${what} takes at most ${bytes} bytes as JSON, and this one ${jsonBytes(definition)}`);
}

/** The problems of a value, as the response shows them. */
export function problemsOf(schema: TSchema, value: unknown): Problem[] {
  return violationsOf(schema, value).map(toProblem);
}

/** The violations of a value: at most one more than a response lists. */
function violationsOf(schema: TSchema, value: unknown): Violation[] {
  return isValid(schema, value) ? [] : [...violationsIn(schema as Schema, value, []).take(LIMITS.problemsMax + 1)];
}

const compiled = new WeakMap<TSchema, TypeCheck<TSchema>>();

function isValid(schema: TSchema, value: unknown): boolean {
  let known = compiled.get(schema);
  if (known === undefined) {
    known = TypeCompiler.Compile(schema);
    compiled.set(schema, known);
  }
  return known.Check(value);
}

interface Violation {
  keys: readonly string[];
  message: string;
}

const PATH_MAX = 200;
const UNKNOWN = 'is not accepted here';

function toProblem({ keys, message }: Violation): Problem {
  return { path: keys.map((key) => key.slice(0, PATH_MAX)).join('.'), message };
}

/** The keywords that this file reads. */
interface Schema extends TSchema {
  type?: string;
  error?: string;
  /** The message for a key that does not match the pattern of a record. */
  keyError?: string;
  const?: unknown;
  pattern?: string;
  anyOf?: Schema[];
  properties?: Readonly<Record<string, Schema>>;
  patternProperties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  additionalProperties?: unknown;
  items?: Schema;
}

function* violationsIn(schema: Schema, value: unknown, keys: readonly string[]): Generator<Violation> {
  if (Value.Check(schema, value)) return;
  let isExplained = false;
  if (schema.error === undefined) {
    const inner =
      schema.anyOf === undefined ? innerViolations(schema, value, keys) : branchViolations(schema.anyOf, value, keys);
    for (const violation of inner) {
      isExplained = true;
      yield violation;
    }
  }
  if (!isExplained) yield { keys, message: expected(schema) };
}

/** The violations of the intended branch: the only one besides null, or the one whose literal member matches. */
function* branchViolations(branches: readonly Schema[], value: unknown, keys: readonly string[]): Generator<Violation> {
  const [first, ...others] = branches.filter(({ type }) => type !== 'null');
  if (first === undefined) return;
  if (others.length === 0) return yield* violationsIn(first, value, keys);
  const tag = Object.entries(first.properties ?? {}).find(([, member]) => member.const !== undefined)?.[0];
  if (tag === undefined || value === null || typeof value !== 'object' || Array.isArray(value)) return;
  const tags = [first, ...others].map((branch) => branch.properties?.[tag] as Schema);
  const index = tags.findIndex((member) => member.const === (value as Record<string, unknown>)[tag]);
  if (index >= 0) return yield* violationsIn([first, ...others][index] as Schema, value, keys);
  yield { keys: [...keys, tag], message: expected({ anyOf: tags } as Schema) };
  const known = new Set([first, ...others].flatMap(({ properties = {} }) => Object.keys(properties)));
  for (const name of Object.keys(value)) if (!known.has(name)) yield { keys: [...keys, name], message: UNKNOWN };
}

function* innerViolations(schema: Schema, value: unknown, keys: readonly string[]): Generator<Violation> {
  const { items, properties, patternProperties } = schema;
  if (Array.isArray(value)) {
    const isTooLong = value.length > (schema.maxItems ?? value.length);
    if (items === undefined || isTooLong) return;
    for (let i = 0; i < value.length; i++) yield* violationsIn(items, value[i], [...keys, String(i)]);
    return;
  }
  if (value === null || typeof value !== 'object') return;
  const [[pattern, any] = []] = Object.entries(patternProperties ?? {});
  if (pattern !== undefined && any !== undefined) {
    const isKey = new RegExp(pattern);
    for (const [name, item] of Object.entries(value)) {
      if (isKey.test(name)) yield* violationsIn(any, item, [...keys, name]);
      else yield { keys: [...keys, name], message: schema.keyError ?? UNKNOWN };
    }
  } else if (properties !== undefined) yield* memberViolations(schema, value, keys);
}

function* memberViolations(schema: Schema, value: object, keys: readonly string[]): Generator<Violation> {
  const { properties = {}, required = [], additionalProperties } = schema;
  for (const [name, member] of Object.entries(properties)) {
    const at = [...keys, name];
    if (Object.hasOwn(value, name)) yield* violationsIn(member, (value as Record<string, unknown>)[name], at);
    else if (required.includes(name)) {
      yield { keys: at, message: member.error ?? `is required: ${expected(member)}` };
    }
  }
  if (additionalProperties !== false) return;
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(properties, name)) yield { keys: [...keys, name], message: UNKNOWN };
  }
}

/** The message about what a schema accepts, which follows the path. */
function expected(schema: Schema): string {
  const { error, anyOf = [], type, pattern } = schema;
  if (error !== undefined) return error;
  if (anyOf.length > 0 && anyOf.every((branch) => branch.const !== undefined || branch.type === 'null')) {
    return `must be one of ${anyOf.map((branch) => String(branch.const ?? null)).join(', ')}`;
  }
  if (anyOf[0] !== undefined) return expected(anyOf[0]);
  if (schema.const !== undefined) return `must be ${JSON.stringify(schema.const)}`;
  if (type === 'string')
    return pattern === undefined || pattern === '\\S' ? `must be a string${sizes(schema)}` : `must match ${pattern}`;
  if (type === 'array') return `must be a list${sizes(schema)}`;
  if (type === 'integer') return `must be a whole number${range(schema)}`;
  if (type === 'number') return `must be a number${range(schema)}`;
  return type === 'boolean' ? 'must be true or false' : `must be an ${type ?? 'accepted value'}`;
}

function sizes({ minLength, maxLength, minItems, maxItems, uniqueItems }: TSchema): string {
  const [min = 0, max, unit] = [minLength ?? minItems, maxLength ?? maxItems, minItems ?? maxItems] as (
    | number
    | undefined
  )[];
  const what = unit === undefined ? 'characters' : uniqueItems === true ? 'different items' : 'items';
  if (max === undefined) return min === 0 ? '' : ` of at least ${min} ${what}`;
  return min === 0 ? ` of at most ${max} ${what}` : ` of ${min} to ${max} ${what}`;
}

function range({ minimum, maximum }: TSchema): string {
  if (minimum === undefined) return maximum === undefined ? '' : ` of at most ${maximum}`;
  return maximum === undefined ? ` of at least ${minimum}` : ` from ${minimum} to ${maximum}`;
}

function validPart(value: unknown, violations: readonly Violation[]): unknown {
  if (violations.length === 0) return value;
  const copy = structuredClone(value);
  for (const { keys } of violations) {
    const last = keys.at(-1);
    const parent = keys
      .slice(0, -1)
      .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], copy);
    if (last === undefined || parent === null || typeof parent !== 'object') continue;
    if (Array.isArray(parent)) parent[Number(last)] = undefined;
    else delete (parent as Record<string, unknown>)[last];
  }
  return copy;
}

/** The members of a change that are neither undefined nor null; the others stay unchanged. */
export function given<T extends object>(change: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const members = Object.entries(change).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(members) as { [K in keyof T]?: NonNullable<T[K]> };
}
