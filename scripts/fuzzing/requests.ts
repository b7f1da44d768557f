// Random requests over the operations of the API document: path, query, headers and body, mostly valid.
// A request names existing things where it can, so that many requests reach the operations behind the checks.
// Bodies are JSON text, or lines of a file for imports.
import type { Random } from './random.ts';
import { hostile, jsonFor, type Schema } from './values.ts';

export interface Operation {
  method: string;
  path: string;
  declared: Schema;
}

export interface FuzzRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

/** Every operation of the document. */
export function operationsOf(document: Schema): Operation[] {
  return Object.entries<Schema>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Schema>(methods).map(([method, declared]) => ({ method: method.toUpperCase(), path, declared })),
  );
}

/** A request for the operation; `known` are names and ids that exist. */
export function requestFor(
  random: Random,
  operation: Operation,
  document: Schema,
  known: readonly string[],
): FuzzRequest {
  const { method, path, declared } = operation;
  const filled = path.replace(/\{\w+\}/g, () => segment(random, known));
  const body = method === 'GET' ? undefined : bodyFor(random, declared, document, known);
  const headers: Record<string, string> = {};
  if (random.chance(0.05)) headers['if-match'] = random.pick(['*', '"1"', 'W/"x"', 'nonsense']);
  if (random.chance(0.05)) headers['if-none-match'] = random.pick(['*', '"1"', 'nonsense']);
  if (random.chance(0.05)) headers['idempotency-key'] = random.pick(['once', 'x'.repeat(300), 'a b']);
  if (body !== undefined) headers['content-type'] = random.chance(0.97) ? body.type : 'text/plain';
  return {
    method,
    path: filled + queryFor(random, declared, document, known),
    headers,
    ...(body && { body: body.text }),
  };
}

function segment(random: Random, known: readonly string[]): string {
  if (random.chance(0.8)) return encodeURIComponent(random.pick(known));
  return random.pick([
    'nothing',
    'a%2Fb',
    '%00',
    '%ff',
    '..%2f',
    'x'.repeat(300),
    '-',
    '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
    "'",
  ]);
}

function queryFor(random: Random, declared: Schema, document: Schema, known: readonly string[]): string {
  const parts: string[] = [];
  for (const parameter of declared.parameters ?? []) {
    if (parameter.in !== 'query' || !random.chance(0.25)) continue;
    const value =
      parameter.name === 'filters' && random.chance(0.7)
        ? condition(random)
        : plain(jsonFor(random, parameter.schema, document, known));
    parts.push(`${parameter.name}=${encodeURIComponent(value)}`);
    if (random.chance(0.04)) parts.push(parts.at(-1) ?? '');
  }
  if (random.chance(0.05))
    parts.push(
      random.pick(['filter=x', 'x=1', 'access_token=y', '%ff=1', '=', 'filter.title=a', '__proto__=1', 'limit=1e400']),
    );
  return parts.length === 0 ? '' : `?${parts.join('&').slice(0, 8_000)}`;
}

const FIELDS = ['title', 'n', 'due', 'done', 'link', 'id', 'createdAt', 'link.title', 'nothing'];
const OPERATORS = ['=', '!=', '>', '<=', 'CONTAINS', 'STARTS_WITH', 'IN', 'IS EMPTY', 'LIKE'];

function condition(random: Random): string {
  const term = () =>
    `${random.pick(FIELDS)} ${random.pick(OPERATORS)} ${random.pick(['"a"', '1', 'true', '("a", "b")', '"2026-01-01"', '-1e400', '"'])}`;
  const terms = Array.from({ length: 1 + random.below(5) }, term);
  return terms.join(random.pick([' AND ', ' OR ', ' and not ', ' ']));
}

/** The text of a JSON string, or the JSON text of another value, as a well-formed parameter. */
function plain(json: string): string {
  try {
    const value: unknown = JSON.parse(json);
    return (typeof value === 'string' ? value : json).toWellFormed().slice(0, 2_000);
  } catch {
    return json.slice(0, 2_000);
  }
}

function bodyFor(
  random: Random,
  declared: Schema,
  document: Schema,
  known: readonly string[],
): { type: string; text: string } | undefined {
  const content = declared.requestBody?.content;
  if (content === undefined)
    return random.chance(0.02) ? { type: 'application/json', text: hostile(random) } : undefined;
  const type = random.pick(Object.keys(content));
  if (type !== 'application/json') {
    const lines = Array.from({ length: random.below(6) }, () => `{"title":${hostile(random)}}`);
    return { type, text: type.includes('csv') ? `title,n\n${'a,1\n'.repeat(random.below(5))}"x` : lines.join('\n') };
  }
  const text =
    random.chance(0.35) && content[type].example !== undefined
      ? JSON.stringify(content[type].example)
      : jsonFor(random, content[type].schema, document, known);
  return { type, text: random.chance(0.02) ? text.slice(0, -1) : text };
}
