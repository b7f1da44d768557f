// Reads a JSON request body: size, content type, encoding, and what JSON.parse accepts but the service does not:
// deep nesting, duplicate or dangerous names, strings that Postgres cannot store.
// Failures: 400, 413, 415. Contract: decisions#responses.
import { invalid, invalidField, type Problem, ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { type JsonObject, textProblem } from '../runtime/text.ts';

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** The body as an object of at most `maxBytes`. */
export async function readJson(request: Request, maxBytes: number): Promise<JsonObject> {
  if (!JSON_TYPE.test(request.headers.get('content-type') ?? '')) {
    throw new ServiceError('UNSUPPORTED_MEDIA_TYPE', 'send the body as Content-Type: application/json');
  }
  const text = decode(await readBytes(request, maxBytes));
  const value = parse(text);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw invalidField('body', 'must be a JSON object');
  }
  const problems = inspectJson(value as JsonObject, text);
  if (problems.length > 0) throw invalid(problems);
  return value as JsonObject;
}

/** The raw bytes. Stops reading at `maxBytes`; rejects a compressed body. */
async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  requireIdentityEncoding(request);
  const declared = request.headers.get('content-length');
  if (declared !== null && Number(declared) > maxBytes) throw tooLarge(maxBytes);
  try {
    return declared === null
      ? await collect(request.body ?? [], maxBytes)
      : new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    // The client disconnected or broke the framing: it never sees this response.
    throw invalidField('body', 'ended before it was complete');
  }
}

async function collect(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export function requireIdentityEncoding(request: Request): void {
  const encoding = request.headers.get('content-encoding');
  if (encoding !== null && encoding.toLowerCase() !== 'identity') {
    throw new ServiceError('UNSUPPORTED_MEDIA_TYPE', 'send the body without Content-Encoding');
  }
}

function tooLarge(maxBytes: number): ServiceError {
  return new ServiceError('PAYLOAD_TOO_LARGE', `the request body is larger than ${maxBytes} bytes`);
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalidField('body', 'is not valid UTF-8');
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidField('body', 'is not valid JSON');
  }
}

/** The problems of a parsed body. Iterative, so that nesting cannot overflow the stack. */
export function inspectJson(root: JsonObject, text: string): Problem[] {
  const problems: Problem[] = [];
  let members = 0;
  const open: { value: object; path: string; depth: number }[] = [{ value: root, path: '', depth: 1 }];
  for (let at = open.pop(); at !== undefined && problems.length < 20; at = open.pop()) {
    if (at.depth > LIMITS.json.depthMax) {
      return [{ path: 'body', message: `is nested deeper than ${LIMITS.json.depthMax} levels` }];
    }
    const isArray = Array.isArray(at.value);
    for (const [key, value] of Object.entries(at.value)) {
      if (!isArray) members += 1;
      const path = at.path === '' ? key : `${at.path}.${key}`;
      const message = (isArray ? undefined : nameProblem(key)) ?? valueProblem(value);
      if (message !== undefined) problems.push({ path: printable(path), message });
      if (value !== null && typeof value === 'object') open.push({ value, path, depth: at.depth + 1 });
    }
  }
  if (problems.length === 0 && members !== countMembers(text)) {
    problems.push({ path: 'body', message: 'has a duplicate member' });
  }
  return problems;
}

function nameProblem(key: string): string | undefined {
  if (key === '__proto__') return 'is not allowed as a name';
  return textProblem(key);
}

function valueProblem(value: unknown): string | undefined {
  if (typeof value === 'string') return textProblem(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return 'is a number out of range';
  return undefined;
}

function printable(path: string): string {
  return path.toWellFormed().replaceAll('\0', '\\0').slice(0, 200);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** The number of members in the text: colons outside strings. If parsing finds fewer, a name is duplicated. */
function countMembers(text: string): number {
  let count = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === BACKSLASH) i += 1;
      else if (code === QUOTE) inString = false;
    } else if (code === QUOTE) inString = true;
    else if (code === COLON) count += 1;
  }
  return count;
}
