// Random requests over the operations of the API document: path, query, headers and body, mostly valid.
// A request names existing things where it can, so that many requests reach the operations behind the checks.
// Bodies are JSON text, or lines of a file for imports.
import { condition, hinted } from './hints.ts';
import type { Schema } from './json.ts';
import type { Names } from './names.ts';
import type { Random } from './random.ts';
import { fieldValue, hostile, jsonFor, mutated } from './values.ts';

export interface Operation {
  method: string;
  path: string;
  /** The template of the path in the document without a credential. */
  generic: string;
  declared: Schema;
}

export interface FuzzRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

const EXTRA = ['filter=x', 'x=1', 'access_token=y', '%ff=1', '=', 'filter.title=a', '__proto__=1', 'limit=1e400'];
/** Members that must be unique: an example can be sent once. */
const UNIQUE = new Set(['name', 'slug', 'key', 'email']);
/** Members of which an example says nothing that exists. */
const AIMED = ['roleId', 'from', 'token', 'to_agent', 'secret'];
const RECORD = /\/records(\/[^/]+)?$/;

/** Every operation of the document. */
export function operationsOf(document: Schema, templateOf: (path: string) => string | undefined): Operation[] {
  return Object.entries<Schema>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Schema>(methods).map(([method, declared]) => ({
      method: method.toUpperCase(),
      path,
      generic: templateOf(path) ?? path,
      declared,
    })),
  );
}

/** A request for the operation, about things that exist. */
export function requestFor(random: Random, operation: Operation, document: Schema, names: Names): FuzzRequest {
  const { method, path, declared } = operation;
  const body = method === 'GET' ? undefined : bodyFor(random, operation, document, names);
  const headers: Record<string, string> = {};
  if (random.chance(0.05)) headers['if-match'] = random.pick(['*', '"1"', names.word(random, 'etag'), 'nonsense']);
  if (random.chance(0.05)) headers['if-none-match'] = random.pick(['*', '"1"', 'nonsense']);
  if (random.chance(0.05)) headers['idempotency-key'] = random.pick(['once', 'x'.repeat(300), 'a b']);
  if (random.chance(0.02)) headers['x-svc-as-role'] = names.word(random, 'roles');
  if (random.chance(0.02)) headers['x-svc-client'] = 'console';
  if (path === '/mcp' && random.chance(0.8)) headers.accept = 'application/json, text/event-stream';
  if (body !== undefined) headers['content-type'] = random.chance(0.98) ? body.type : 'text/plain';
  const filled = names.path(random, path, operation.generic);
  return {
    method,
    path: filled + queryFor(random, declared, document, names, filled),
    // A header is bytes: other characters could not be sent.
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, value.replaceAll(/[^ -~]/g, '?')]),
    ),
    ...(body && { body: body.text }),
  };
}

function queryFor(random: Random, declared: Schema, document: Schema, names: Names, path: string): string {
  const parts: string[] = [];
  // Few parameters at once: each has a chance to be wrong.
  const chance = random.pick([0.03, 0.15, 0.3]);
  for (const parameter of declared.parameters ?? []) {
    if (parameter.in !== 'query' || !random.chance(parameter.name === 'confirm' ? 0.7 : chance)) continue;
    const value = parameterFor(random, parameter, document, names, path);
    parts.push(`${parameter.name}=${encodeURIComponent(value)}`);
    if (random.chance(0.02)) parts.push(parts.at(-1) ?? '');
  }
  if (random.chance(0.03)) parts.push(random.pick(EXTRA));
  return parts.length === 0 ? '' : `?${parts.join('&').slice(0, 8_000)}`;
}

function parameterFor(random: Random, { name, schema }: Schema, document: Schema, names: Names, path: string): string {
  if (name === 'confirm' && random.chance(0.8)) return decoded(path.split('/').at(-1) ?? '');
  const hint = random.chance(0.9) ? hinted(random, name, names) : undefined;
  return hint?.slice(0, 2_000) ?? plain(jsonFor(random, schema, document, names));
}

/** Unchanged where it cannot be decoded, as `%ff`. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
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
  { path, declared }: Operation,
  document: Schema,
  names: Names,
): { type: string; text: string } | undefined {
  const content = declared.requestBody?.content;
  if (content === undefined)
    return random.chance(0.02) ? { type: 'application/json', text: hostile(random) } : undefined;
  const type = random.pick(Object.keys(content));
  if (type !== 'application/json') return { type, text: linesFor(random, type, names) };
  const { example, schema } = content[type];
  if (example === undefined || random.chance(0.25)) return { type, text: jsonFor(random, schema, document, names) };
  const aimed = retargeted(random, structuredClone(example), names, path);
  if (path.endsWith('/accept')) aimed.tenantSlug = `accepted-${random.below(1e9).toString(36)}`;
  if (RECORD.test(path) && random.chance(0.3)) aimed[names.word(random, 'fields')] = 'of a field';
  const value = fieldValue(random);
  const whole = JSON.stringify(aimed).replace('"of a field"', () => value);
  const text = random.chance(0.5) ? whole : mutated(random, aimed, names);
  return { type, text: random.chance(0.01) ? text.slice(0, -1) : text };
}

/** The example, with unique names, and with things of this tenant where it names some of its own. */
function retargeted(random: Random, value: Schema, names: Names, path: string): Schema {
  for (const [name, member] of Object.entries<Schema>(value ?? {})) {
    if (typeof member === 'object' && !Array.isArray(member)) retargeted(random, member, names, path);
    if (typeof member !== 'string') continue;
    const isLookup = /login|identify|forgot|developer-token|accept/.test(path);
    if (UNIQUE.has(name) && !isLookup && random.chance(0.9)) {
      const suffix = random.below(1e9).toString(36);
      value[name] =
        name === 'email' ? `${suffix}@example.com` : `${member.slice(0, 20)}-${suffix}`.replaceAll(' ', '-');
      if (name === 'key' || /entities$/.test(path)) value[name] = `n${suffix}`;
    } else if (AIMED.includes(name) || random.chance(0.1)) {
      value[name] = hinted(random, name, names) ?? member;
    }
  }
  return value;
}

function linesFor(random: Random, type: string, names: Names): string {
  if (type.includes('csv')) {
    const rows = Array.from({ length: random.below(5) }, (_, i) => `a${i},DE,${random.below(100)}\n`);
    return `title,country,${random.pick(['employees', 'nothing'])}\n${rows.join('')}${random.chance(0.3) ? '"x' : ''}`;
  }
  const line = () => {
    const value = { title: names.word(random), country: 'DE', employees: 1 + random.below(9) };
    return random.chance(0.7) ? JSON.stringify(value) : mutated(random, value, names);
  };
  return Array.from({ length: random.below(6) }, line).join('\n');
}

/** A WebSocket message, mostly of the protocol. */
export function socketMessage(random: Random, tokens: readonly string[], names: Names): string {
  if (random.chance(0.1)) return hostile(random);
  const message: Schema = {
    type: random.pick(['auth', 'subscribe', 'subscribe', 'subscribe', 'unsubscribe', 'ping', 'x']),
  };
  if (message.type === 'auth') message.token = random.pick([...tokens, names.word(random, 'ticket'), 'nothing']);
  if (message.type.endsWith('subscribe')) message.entity = names.word(random, 'entities');
  for (const name of ['since', 'filters', 'view', 'fields']) {
    if (random.chance(0.2)) message[name] = name === 'filters' ? condition(random, names) : hinted(random, name, names);
  }
  if (random.chance(0.3)) message.transitions = true;
  return random.chance(0.15) ? mutated(random, message, names) : JSON.stringify(message);
}
