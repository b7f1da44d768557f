// Responses whose size depends on stored data: at most LIMITS.response.bytesMax bytes of JSON. An operation that has read
// much marks its result as large; it is then written in pieces, so that the event loop is free between them, and is
// counted as it is written.
// Failures: 400 for a larger response. Contract: neighbours#byte-budgets.
import { invalidField, type ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { ByteBudget } from '../runtime/byte-budget.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { jsonBytes } from '../runtime/text.ts';
import { type Envelope, ok, okBytes } from './reply.ts';

const { bytesMax, receivedMax, largeFrom } = LIMITS.response;
const large = new WeakSet<object>();

/** 400: the response would be too large. */
export function responseTooLarge(): ServiceError {
  return invalidField(
    'response',
    `would be larger than ${bytesMax} bytes; ask for fewer records, fields or relations (limit, fields, resolve)`,
  );
}

/** For the bytes of a response, before it is built. */
export function responseBudget(): ByteBudget {
  return new ByteBudget(bytesMax, responseTooLarge);
}

/** For the bytes that statements receive for a response: stored data is written less tightly than a response. */
export function receivedBudget(max: number = receivedMax): ByteBudget {
  return new ByteBudget(max, responseTooLarge);
}

/** Marks a result as large if this many bytes were read for it. */
export function sized<T extends object>(result: T, bytes: number): T {
  if (bytes >= largeFrom) large.add(result);
  return result;
}

/** 200 `{ success: true, data }`, of at most `LIMITS.response.bytesMax` bytes if the result is marked as large. */
export async function okBounded<const T extends object>(
  data: T,
  headers?: Record<string, string>,
): Promise<Envelope<T>> {
  if (!large.has(data)) return ok(data, headers);
  return okBytes(Buffer.concat(await written({ success: true, data }, responseBudget())), headers);
}

/** 200 with a list of definitions or keys, which may be long; each item takes little time to write. */
export async function okList<const T extends object>(items: readonly T[]): Promise<Envelope<T[]>> {
  const unlimited = new ByteBudget(Number.MAX_SAFE_INTEGER, responseTooLarge);
  return okBytes(Buffer.concat(await written({ success: true, data: items }, unlimited, LIST_LEVELS)));
}

/**
 * The JSON text of a result that a response contains twice, as MCP's does: as it is, and as a text in which it is escaped
 * once more. 400 when both together exceed `LIMITS.response.bytesMax`.
 */
export async function textOfTwice(data: object): Promise<string> {
  const budget = responseBudget();
  const half = new ByteBudget(bytesMax / 2, responseTooLarge);
  const text = large.has(data) ? Buffer.concat(await written(data, half)).toString() : JSON.stringify(data);
  budget.take(large.has(data) ? half.taken : Buffer.byteLength(text));
  if (text.length >= SURELY_FITS_TWICE) budget.take(jsonBytes(text));
  return text;
}

/** The JSON of a value. Throws when it needs more bytes than the budget has. */
async function written(value: unknown, budget: ByteBudget, levels = LEVELS): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  let text = '';
  const flush = async (): Promise<void> => {
    const chunk = Buffer.from(text);
    text = '';
    await budget.takeWaiting(chunk.length);
    chunks.push(chunk);
  };
  for (const piece of piecesOf(value, levels)) {
    text += piece;
    if (text.length >= CHUNK_CHARACTERS) await flush();
    const turn = giveWay();
    if (turn !== undefined) await turn;
  }
  await flush();
  return chunks;
}

/** Characters: a text of fewer fits with its escaped copy, even if every character is escaped. */
const SURELY_FITS_TWICE = largeFrom;
const CHUNK_CHARACTERS = 262_144;
/** The envelope, a page, its items, a record, its relations, and the same of a related record: what is deeper is one piece. */
const LEVELS = 8;
/** The envelope and the list. */
const LIST_LEVELS = 2;

/** The JSON text of a value, in pieces of at most one stored value each. */
function* piecesOf(value: unknown, levels: number): Generator<string> {
  if (value === null || typeof value !== 'object' || levels === 0) {
    yield JSON.stringify(value ?? null);
    return;
  }
  const isArray = Array.isArray(value);
  let separator = isArray ? '[' : '{';
  for (const [key, member] of isArray ? value.entries() : Object.entries(value)) {
    if (member === undefined && !isArray) continue;
    yield isArray ? separator : `${separator}${JSON.stringify(key)}:`;
    yield* piecesOf(member, levels - 1);
    separator = ',';
  }
  yield separator === ',' ? (isArray ? ']' : '}') : isArray ? '[]' : '{}';
}
