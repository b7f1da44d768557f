// Builds responses: the envelope, one JSON content type on every runtime, and the headers of all JSON responses.
// An error has its own status and headers.
// Contract: decisions#responses.
import { Buffer } from 'node:buffer';
import type { ErrorCode, Problem, ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { slices } from '../runtime/slices.ts';
import { STRANGERS } from '../runtime/work.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

/** A body in memory, in pieces; no pieces when it is one text. */
interface Body {
  bytes: number;
  chunks: readonly Uint8Array[];
}

/** A property of the response: reading its body would turn it into a stream, and a WeakMap costs microseconds on Deno. */
const BODY = Symbol('body');
type WithBody = Response & { [BODY]?: Body };

/** Bytes of the body; undefined when it is streamed or was not built here. */
export function bodyBytesOf(response: Response): number | undefined {
  return (response as WithBody)[BODY]?.bytes;
}

/** The body, if it was built here in pieces. */
export function bodyOf(response: Response): Body | undefined {
  const body = (response as WithBody)[BODY];
  return body?.chunks.length === 0 ? undefined : body;
}

/** A response with this JSON text; null for a status without a body. */
export function jsonText(text: string | null, status = 200, headers: Record<string, string> = {}): Response {
  return json(text, status, headers);
}

/** Like `jsonText`, for bytes in pieces. */
export function jsonChunks(chunks: readonly Uint8Array[], status: number, headers: Record<string, string>): Response {
  return json(chunks, status, headers);
}

function json(
  body: string | readonly Uint8Array[] | null,
  status: number,
  headers: Record<string, string> = {},
): Response {
  // A long text is sent as its reader takes it, like one in pieces.
  if (typeof body === 'string' && body.length >= LIMITS.response.unreadFrom) {
    return json([Buffer.from(body)], status, headers);
  }
  const isText = typeof body === 'string' || body === null;
  const response = new Response(isText ? body : inPieces(body), {
    status,
    headers: {
      'content-type': JSON_TYPE,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...headers,
    },
  });
  (response as WithBody)[BODY] = isText
    ? { bytes: body === null ? 0 : Buffer.byteLength(body), chunks: [] }
    : { bytes: lengthOf(body), chunks: body };
  return response;
}

function lengthOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0);
}

/**
 * A stream that is made of the pieces as it is read, without copying all of them. With a share, each piece waits for that
 * share's turn on the event loop.
 */
function inPieces(chunks: readonly Uint8Array[], share?: string): BodyInit {
  const [only] = chunks;
  if (chunks.length === 1) return only as BodyInit;
  const left = chunks.values();
  const next = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    const { done, value } = left.next();
    if (done === true) controller.close();
    else controller.enqueue(value);
  };
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const turn = share === undefined ? undefined : giveWay(share);
        return turn === undefined ? next(controller) : turn.then(() => next(controller));
      },
    },
    { highWaterMark: 0 },
  );
}

const KEPT_CHUNK_BYTES = 131_072;

/**
 * A response with bytes that many responses share: unread responses hold no copies of them, and many that are sent at once take
 * turns.
 */
export function keptBytes(bytes: Uint8Array, headers: Record<string, string>): Response {
  const chunks = [...slices(bytes, KEPT_CHUNK_BYTES)];
  const response = new Response(inPieces(chunks, STRANGERS), { headers });
  (response as WithBody)[BODY] = { bytes: bytes.length, chunks };
  return response;
}

/** The same response with another body. */
export function withBody(response: Response, chunks: readonly Uint8Array[]): Response {
  const replaced = new Response(inPieces(chunks), response);
  (replaced as WithBody)[BODY] = { bytes: lengthOf(chunks), chunks };
  return replaced;
}

/** The same response, with its bytes sent from this stream. */
export function withStream(response: Response, stream: ReadableStream<Uint8Array>): Response {
  const replaced = new Response(stream, response);
  (replaced as WithBody)[BODY] = { bytes: bodyBytesOf(response) ?? 0, chunks: [] };
  return replaced;
}

/** The body of a successful response. */
export interface Envelope<T> {
  success: true;
  data: T;
}

/** The text around the JSON of the data. */
export const ENVELOPE = { beginning: '{"success":true,"data":', end: '}' } as const;

/** 200 `{ success: true, data }`. */
export function ok<const T>(data: T, headers?: Record<string, string>): Envelope<T> {
  return enveloped(data, 200, headers);
}

/** 201 `{ success: true, data }`. */
export function created<const T>(data: T, headers?: Record<string, string>): Envelope<T> {
  return enveloped(data, 201, headers);
}

function enveloped<T>(data: T, status: number, headers?: Record<string, string>): Envelope<T> {
  const { beginning, end } = ENVELOPE;
  return typed(jsonText(`${beginning}${JSON.stringify(data ?? null)}${end}`, status, headers));
}

/** 200 with these bytes of JSON, an envelope. */
export function okBytes<T>(bytes: readonly Uint8Array[], headers?: Record<string, string>): Envelope<T> {
  return typed(json(bytes, 200, headers));
}

/** A `Response`, typed as its body, so that the compiler checks a handler against its route's declaration. */
export function typed<T>(response: Response): Envelope<T> {
  return response as unknown as Envelope<T>;
}

/** The `Response` behind an envelope type. */
export function responseOf(envelope: Envelope<unknown>): Response {
  return envelope as unknown as Response;
}

/** 304: the caller already has the version that the ETag names. */
export function notModified(etag: string): Envelope<never> {
  const response = jsonText(null, 304, { etag });
  response.headers.delete('content-type');
  return typed(response);
}

/** `{ success: false, error: { code, message, requestId, details? } }` with the error's status and headers. */
export function failure(error: ServiceError, requestId: string): Response {
  return jsonText(
    JSON.stringify({ success: false, error: errorBody(error, requestId) }),
    error.status,
    error.headers as Record<string, string>,
  );
}

/** The body of an error response. */
export interface Failure {
  success: false;
  error: ErrorBody & { requestId: string };
}

interface ErrorBody {
  code: ErrorCode;
  message: string;
  requestId?: string;
  details?: Problem[];
}

/** The `error` member of an error response or of a result of a bulk request. */
export function errorBody(error: ServiceError, requestId?: string): ErrorBody {
  return {
    code: error.ecode,
    message: error.message,
    ...(requestId === undefined ? {} : { requestId }),
    ...(error.details === undefined ? {} : { details: [...error.details] }),
  };
}

/** One page of a list. */
export interface Page<T> {
  items: T[];
  total: number;
  page: number;
  limit: number;
  totalPages: number;
}

export function pageOf<T>(items: T[], total: number, page: number, limit: number): Page<T> {
  return { items, total, page, limit, totalPages: Math.ceil(total / limit) };
}
