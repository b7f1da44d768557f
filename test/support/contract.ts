// Compares every answer to a test's client with the service's API document: path, method and status must be
// documented, content type, required headers and body must match, and a body must not have undocumented members.
// Accepted requests must match the document as well.
import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

// biome-ignore lint/suspicious/noExplicitAny: the document is walked as plain JSON
type Json = any;

export interface Observed {
  method: string;
  path: string;
  status: number;
  headers: Headers;
  /** The parsed body, or its text. */
  body: unknown;
  /** The JSON that was sent, if any. */
  sent?: unknown;
}

/** Throws an error that says how an answer differs from the document. */
export type Check = (observed: Observed) => void;

/** Responses are checked against a copy of the document that forbids other members, requests against the document itself. */
const ANSWERS = 'answers';
const REQUESTS = 'requests';
const ERROR_MEMBERS = new Set(['code', 'message', 'requestId', 'details']);

/** The check against a document as served at /swagger/json. */
export function contractCheck(document: Json): Check {
  const closed = close(structuredClone(document));
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: true, validateSchema: false });
  addFormats.default(ajv);
  ajv.addSchema({ $id: ANSWERS, ...closed });
  ajv.addSchema({ $id: REQUESTS, ...document });
  const templates = Object.keys(closed.paths)
    .map(templateOf)
    .sort((a, b) => a.variables - b.variables);
  return (observed) => {
    if (observed.method === 'OPTIONS') return;
    const { pathname } = new URL(observed.path, 'http://service');
    const template = templates.find(({ pattern }) => pattern.test(pathname));
    const fault = template === undefined ? unknownPathFault(observed) : faultOf(ajv, closed, template.path, observed);
    if (fault === undefined) return;
    const { method, path, status, body } = observed;
    throw new Error(`${method} ${path} answers ${status}, but ${fault}:\n${JSON.stringify(body)?.slice(0, 2_000)}`);
  };
}

/** A path of the document as a pattern. Paths with fewer variables take precedence, as in the router. */
function templateOf(path: string): { path: string; pattern: RegExp; variables: number } {
  const parts = path.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return { path, pattern: new RegExp(`^${parts.join('[^/]+')}$`), variables: parts.length - 1 };
}

/** The pages of the console are no part of the API. */
const CONSOLE = /^\/(app|invite|reset-password)(\/|$)/;

/** What is wrong with the answer to an undocumented path. */
function unknownPathFault({ path, status, body }: Observed): string | undefined {
  if (CONSOLE.test(new URL(path, 'http://service').pathname)) return undefined;
  if (status !== 404 && status !== 405) return 'the document has no such path';
  return isFailure(body) ? undefined : 'its body is not an error';
}

function isFailure(body: Json): boolean {
  if (body?.success !== false || typeof body.error?.code !== 'string') return false;
  return Object.keys(body.error).every((key) => ERROR_MEMBERS.has(key));
}

function faultOf(ajv: Ajv2020, document: Json, path: string, observed: Observed): string | undefined {
  const method = observed.method.toLowerCase();
  const operation = document.paths[path][method];
  if (operation === undefined) {
    if (method === 'head') return undefined;
    return observed.status === 405 ? unknownPathFault(observed) : 'the document has no such method';
  }
  const pointer = ['paths', path, method, 'responses', String(observed.status)];
  const stated = operation.responses[observed.status];
  if (stated === undefined) return 'the document does not name this status';
  const isReference = typeof stated.$ref === 'string';
  const at = isReference ? stated.$ref.slice(2).split('/') : pointer;
  const answer = isReference ? document.components.responses[at.at(-1)] : stated;
  return (
    headerFault(document, answer, observed) ??
    bodyFault(ajv, at, answer, observed) ??
    requestFault(ajv, ['paths', path, method, 'requestBody'], operation, observed)
  );
}

/** What is wrong with a request that was accepted. */
function requestFault(ajv: Ajv2020, at: string[], operation: Json, { status, sent }: Observed): string | undefined {
  if (status >= 300 || sent === undefined) return undefined;
  if (operation.requestBody?.content['application/json'] === undefined) return undefined;
  const validate = validatorAt(ajv, REQUESTS, [...at, 'content', 'application/json', 'schema']);
  if (validate(sent)) return undefined;
  return `the accepted body (${JSON.stringify(sent).slice(0, 500)}) differs from the document: ${ajv.errorsText(validate.errors)}`;
}

function headerFault(document: Json, answer: Json, { headers }: Observed): string | undefined {
  for (const [name, header] of Object.entries<Json>(answer.headers ?? {})) {
    const stated = header.$ref === undefined ? header : document.components.headers[header.$ref.split('/').at(-1)];
    if (stated.required === true && !headers.has(name)) return `the header ${name} is missing`;
  }
  return undefined;
}

function bodyFault(ajv: Ajv2020, at: string[], answer: Json, { headers, body }: Observed): string | undefined {
  if (answer.content === undefined) return body === '' ? undefined : 'the document has no body for it';
  const type = headers.get('content-type')?.split(';')[0]?.trim() ?? '';
  if (answer.content[type] === undefined) return `the document does not name the content type "${type}"`;
  const validate = validatorAt(ajv, ANSWERS, [...at, 'content', type, 'schema']);
  return validate(body) ? undefined : `its body differs from the document: ${ajv.errorsText(validate.errors)}`;
}

/** The validator of the schema at a path in the document, compiled on first use. */
function validatorAt(ajv: Ajv2020, id: string, at: string[]): ValidateFunction {
  const pointer = at.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')));
  const reference = `${id}#/${pointer.join('/')}`;
  const validate = ajv.getSchema(reference) as ValidateFunction | undefined;
  if (validate === undefined) throw new Error(`no schema at ${reference}`);
  return validate;
}

/** Forbids undocumented members of objects, which the document itself allows. */
function close(schema: Json): Json {
  if (schema === null || typeof schema !== 'object') return schema;
  for (const value of Object.values(schema)) close(value);
  const isObject = schema.type === 'object' && typeof schema.properties === 'object';
  if (isObject && schema.additionalProperties === undefined) schema.additionalProperties = false;
  return schema;
}

const checks = new Map<string, Promise<Check>>();

/** The check for the service at an address. Its document is read once. */
export function contractAt(url: string): Promise<Check> {
  const known = checks.get(url) ?? readCheck(url);
  checks.set(url, known);
  return known;
}

/** When a service has stopped: another one may get its port. */
export function forgetContract(url: string): void {
  checks.delete(url);
}

/** By the document's text: services of the same settings share their validators, which take long to compile. */
const compiled = new Map<string, Check>();

async function readCheck(url: string): Promise<Check> {
  const answer = await fetch(`${url}/swagger/json`);
  if (answer.status !== 200) throw new Error(`no API document at ${url}: ${answer.status}`);
  const text = (await answer.text()).replaceAll(url, '');
  const check = compiled.get(text) ?? contractCheck(JSON.parse(text));
  compiled.set(text, check);
  return check;
}
