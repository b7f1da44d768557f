// Query parameters: each route declares the ones that it takes. Other parameters, repeated ones and invalid values are refused,
// all in one response. The query is read here, since the framework reports one problem at a time, without the parameter's name,
// and silently accepts a repeated parameter.
// Contract: neighbours#strict-requests, interface#list.
import {
  Kind,
  type TObject,
  type TProperties,
  type TSchema,
  type TUnsafe,
  Type,
  TypeRegistry,
} from '@sinclair/typebox';
import { invalid, type Problem } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { nearestName } from '../runtime/nearest-name.ts';
import { textProblem } from '../runtime/text.ts';
import { problemsOf } from './check.ts';

interface IntegerSchema extends TSchema {
  minimum: number;
  maximum: number;
}

TypeRegistry.Set<IntegerSchema>('QueryInteger', ({ minimum, maximum }, value) => {
  return typeof value === 'number' && value >= minimum && value <= maximum;
});
TypeRegistry.Set('QueryFlag', (_, value) => typeof value === 'boolean');

interface Options {
  description?: string;
  default?: number | boolean;
}

/** A whole number in a query. */
export function integerParameter(minimum: number, maximum: number, options: Options = {}): TUnsafe<number> {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return Type.Unsafe<number>({ ...options, type: 'integer', minimum, maximum, error, [Kind]: 'QueryInteger' });
}

/** `true` or `false` in a query. */
export function flagParameter(options: Options = {}): TUnsafe<boolean> {
  return Type.Unsafe<boolean>({ ...options, type: 'boolean', error: 'must be true or false', [Kind]: 'QueryFlag' });
}

/** The parameters of a route. It also takes those whose names begin with `prefix`, whose values are text. */
export function parameters<T extends TProperties>(properties: T, prefix?: string) {
  return Type.Object(properties, prefix === undefined ? {} : { prefix });
}

/** The parameters of a route that ignores unknown and repeated ones; few do. */
export function lenientParameters<T extends TProperties>(properties: T) {
  return Type.Object(properties, { prefix: '' });
}

const { pageMax, limitMax, limitDefault } = LIMITS.list;

/** The parameters of every paginated list. */
export function pageParameters(defaultLimit: number = limitDefault) {
  return {
    page: Type.Optional(integerParameter(1, pageMax, { default: 1, description: '1-indexed page' })),
    limit: Type.Optional(integerParameter(1, limitMax, { default: defaultLimit, description: 'items per page' })),
  };
}

type Query = Record<string, unknown>;

/** The parameters of a route that takes none. */
export const NO_PARAMETERS = parameters({});
export const ANY_PARAMETERS = lenientParameters({});
const PROBLEMS_MAX = 20;
const NAME_MAX = 200;

/** The function that reads the query of a URL. It throws 400 with every problem: names, repetitions and values. */
export function queryReader(schema: TObject): (url: string) => Query {
  const { properties, prefix, required = [] } = schema as TObject & { prefix?: string };
  const isLenient = prefix === '';
  const names = Object.keys(properties);
  const isKnown = (name: string) =>
    Object.hasOwn(properties, name) || (prefix !== undefined && name.startsWith(prefix));
  return (url) => {
    const start = url.indexOf('?');
    if (start < 0 && required.length === 0) return {};
    const query: Query = {};
    const problems: Problem[] = [];
    const seen = new Set<string>();
    for (const part of start < 0 ? [] : partsOf(url, start + 1)) {
      if (part === '') continue;
      const at = part.indexOf('=');
      const text = at < 0 ? part : part.slice(0, at);
      const name = decoded(text) ?? text;
      const value = at < 0 ? '' : decoded(part.slice(at + 1));
      const message = isLenient
        ? undefined
        : nameProblem(name, {
            // Finding the nearest name takes long, and a URL has room for thousands of names.
            names: problems.length < PROBLEMS_MAX ? names : [],
            isKnown: isKnown(name),
            isRepeated: seen.has(name),
            takesAny: names.length > 0,
          });
      const problem = message ?? (isKnown(name) ? valueProblem(value) : undefined);
      if (problem !== undefined) problems.push({ path: shownName(name), message: problem });
      else if (isKnown(name) && name !== '__proto__') query[name] = converted(properties[name], value as string);
      seen.add(name);
    }
    problems.push(...problemsOf(schema, query));
    if (problems.length > 0) throw invalid(distinct(problems).slice(0, PROBLEMS_MAX));
    return query;
  };
}

/** The encoded parameters from an index on; a fragment, which some clients send, is not part of them. */
function partsOf(url: string, from: number): string[] {
  const end = url.indexOf('#', from);
  return url.slice(from, end < 0 ? url.length : end).split('&');
}

function decoded(text: string): string | null {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

/** Converts well-formed numbers and flags; validation then reports the others. */
function converted(schema: TSchema | undefined, value: string): unknown {
  if (schema?.[Kind] === 'QueryInteger' && /^\d{1,15}$/.test(value)) return Number(value);
  if (schema?.[Kind] === 'QueryFlag' && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

interface Names {
  /** The names that the client may have meant. */
  names: readonly string[];
  /** Whether the route takes any parameters. */
  takesAny: boolean;
  isKnown: boolean;
  isRepeated: boolean;
}

function valueProblem(value: string | null): string | undefined {
  return value === null ? 'is not valid UTF-8 in percent-encoding' : textProblem(value);
}

function nameProblem(name: string, { names, takesAny, isKnown, isRepeated }: Names): string | undefined {
  if (isKnown) return isRepeated ? 'is given more than once' : undefined;
  if (!takesAny) return 'unknown; this route takes no parameters';
  const near = nearestName(name, names);
  return near === undefined ? 'unknown' : `unknown; did you mean ${near}?`;
}

/** A name in a form that a response may contain. */
function shownName(name: string): string {
  return name === '' ? '(empty name)' : name.toWellFormed().replaceAll('\0', '\\0').slice(0, NAME_MAX);
}

/** The first problem of each parameter. */
function distinct(problems: readonly Problem[]): Problem[] {
  const byPath = new Map<string, Problem>();
  for (const problem of problems) if (!byPath.has(problem.path)) byPath.set(problem.path, problem);
  return [...byPath.values()];
}
