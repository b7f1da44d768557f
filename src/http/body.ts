// Reads a JSON request body: size, content type, encoding. json-object.ts refuses what JSON.parse accepts but the service does
// not.
// Failures: 400, 408, 413, 415.
// Contract: decisions#responses, neighbours#byte-budgets.
import { placeOf } from '../access/request-context.ts';
import { invalid, invalidField, ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { holdBytesWaiting } from '../runtime/large-calls.ts';
import type { ArrivingBytes } from '../runtime/request-places.ts';
import type { JsonObject } from '../runtime/text.ts';
import { deadlineOf, readWithin, steady } from './body-progress.ts';
import { parseObject } from './json-object.ts';

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** A body of this many bytes takes long enough to parse that it waits for a turn. */
const LARGE = 16_384;

/**
 * The memory of a body as a multiple of its bytes, until its request is answered: while the request waits, the text and its
 * values.
 */
const HELD = 2;

/** The body as an object of at most `maxBytes`. */
export async function readJson(request: Request, maxBytes: number): Promise<JsonObject> {
  if (!JSON_TYPE.test(request.headers.get('content-type') ?? '')) {
    throw new ServiceError('UNSUPPORTED_MEDIA_TYPE', 'send the body as Content-Type: application/json');
  }
  const bytes = await readBytes(request, maxBytes);
  // Decoding and parsing a megabyte takes up to 30 ms, and its use takes as long: many bodies that arrive together take turns.
  if (bytes.length >= LARGE) await giveWay();
  const parsed = await parseObject(decode(bytes));
  if ('problems' in parsed) throw invalid(parsed.problems);
  if (bytes.length >= LARGE) await giveWay();
  return parsed.value;
}

/** Whether a request was sent without a body. */
export function hasNoBody({ headers }: Request): boolean {
  return !headers.has('transfer-encoding') && Number(headers.get('content-length') ?? 0) === 0;
}

/**
 * How many bytes of a long body may still arrive after a response that is sent before the body's end; 0 for a body that is not
 * long, which the runtime accepts anyway. The runtime discards the rest of a long body, but at any speed and for ever.
 */
export function bytesAfterResponse({ headers, bodyUsed }: Request, { status }: Response): number {
  if (status < 400 && bodyUsed) return 0;
  if (headers.has('transfer-encoding')) return Number.POSITIVE_INFINITY;
  const declared = Number(headers.get('content-length'));
  return declared > LIMITS.body.takenIn.declared ? declared : 0;
}

/** Reads the raw bytes. Stops at `maxBytes`; rejects a compressed body. */
async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  requireIdentityEncoding(request);
  const declared = request.headers.get('content-length');
  if (declared !== null && Number(declared) > maxBytes) throw tooLarge(maxBytes);
  const arriving = placeOf(request)?.receiving();
  try {
    // Reading the body whole is faster.
    if (declared !== null && Number(declared) <= LIMITS.body.wholeMax) {
      arriving?.add(Number(declared));
      const bytes = await readWithin(request.arrayBuffer(), deadlineOf(Number(declared)));
      await holdBytesWaiting(HELD * bytes.byteLength);
      return new Uint8Array(bytes);
    }
    const bytes = await collect(request.body === null ? [] : steady(request.body), maxBytes, arriving);
    await holdBytesWaiting(HELD * bytes.byteLength);
    return bytes;
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    // The client disconnected or broke the framing: it never sees this response.
    throw invalidField('body', 'ended before it was complete');
  } finally {
    arriving?.end();
  }
}

/** Collects chunks into a buffer that grows, so that chunks of a byte take no more memory than large ones. */
async function collect(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
  arriving: ArrivingBytes | undefined,
): Promise<Uint8Array> {
  let buffer = new Uint8Array(0);
  let size = 0;
  for await (const chunk of body) {
    const end = size + chunk.byteLength;
    if (end > maxBytes) throw tooLarge(maxBytes);
    if (end > buffer.byteLength) {
      const grown = Math.max(end, Math.min(maxBytes, 2 * buffer.byteLength));
      arriving?.add(grown - buffer.byteLength);
      const larger = new Uint8Array(grown);
      larger.set(buffer.subarray(0, size));
      buffer = larger;
    }
    buffer.set(chunk, size);
    size = end;
  }
  return buffer.subarray(0, size);
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
