// Reads a JSON request body: size, content type, encoding. What JSON.parse accepts but the service does not is in
// json-object.ts.
// Failures: 400, 413, 415. Contract: decisions#responses.
import { invalid, invalidField, ServiceError } from '../errors.ts';
import { giveWay } from '../runtime/event-loop.ts';
import type { JsonObject } from '../runtime/text.ts';
import { parseObject } from './json-object.ts';

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** Bytes of a body that takes long enough to parse to wait for a turn. */
const LARGE = 16_384;

/** The body as an object of at most `maxBytes`. */
export async function readJson(request: Request, maxBytes: number): Promise<JsonObject> {
  if (!JSON_TYPE.test(request.headers.get('content-type') ?? '')) {
    throw new ServiceError('UNSUPPORTED_MEDIA_TYPE', 'send the body as Content-Type: application/json');
  }
  const bytes = await readBytes(request, maxBytes);
  // Parsing a megabyte takes up to 30 ms, and what follows as long: many bodies that arrive together take turns.
  if (bytes.length >= LARGE) await giveWay();
  const parsed = parseObject(decode(bytes));
  if ('problems' in parsed) throw invalid(parsed.problems);
  if (bytes.length >= LARGE) await giveWay();
  return parsed.value;
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
