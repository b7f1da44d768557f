// Responses whose size depends on stored data: at most LIMITS.response.bytesMax bytes of JSON. An operation that has read many
// bytes marks its result as large. A large result is written in pieces, so that the event loop is free between them, and its
// bytes are counted as it is written.
// Failures: 400 for a larger response.
// Contract: neighbours#byte-budgets.
import { invalidField, type ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { ByteBudget } from '../runtime/byte-budget.ts';
import { giveWay } from '../runtime/event-loop.ts';
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

/** The budget for the bytes of a response, before it is built. */
export function responseBudget(): ByteBudget {
  return new ByteBudget(bytesMax, responseTooLarge);
}

/** The budget for the bytes that statements receive for a response: stored data is written less compactly than a response. */
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
  return okBytes(await written({ success: true, data }, responseBudget()), headers);
}

/** 200 with a list of definitions or keys, which may be long; each item takes little time to write. */
export async function okList<const T extends object>(items: readonly T[]): Promise<Envelope<T[]>> {
  const unlimited = new ByteBudget(Number.MAX_SAFE_INTEGER, responseTooLarge);
  return okBytes(await written({ success: true, data: items }, unlimited, LIST_LEVELS));
}

/** The JSON of a result in UTF-8, and the same JSON as the content of a JSON string. */
export interface JsonTwice {
  json: Uint8Array[];
  escaped: Uint8Array[];
}

/** For a response that contains a result twice, as MCP's does. 400 when both together exceed `LIMITS.response.bytesMax`. */
export async function jsonTwice(data: object): Promise<JsonTwice> {
  const budget = responseBudget();
  const half = new ByteBudget(bytesMax / 2, responseTooLarge);
  const json = large.has(data) ? await written(data, half) : [Buffer.from(JSON.stringify(data))];
  const escaped: Uint8Array[] = [];
  for (const chunk of json) {
    budget.take(chunk.length);
    const turn = giveWay();
    if (turn !== undefined) await turn;
    escaped.push(Buffer.from(JSON.stringify(chunk.toString()).slice(1, -1)));
    await budget.takeWaiting(escaped.at(-1)?.length ?? 0);
  }
  return { json, escaped };
}

/** The JSON of a value that is not a response's data, split down to this many levels; deeper values are one piece. */
export async function jsonInPieces(
  value: object,
  budget: ByteBudget,
  levels: number,
): Promise<Uint8Array<ArrayBuffer>> {
  return Buffer.concat(await written(value, budget, levels));
}

/** A text in UTF-8, in pieces between which the event loop runs. */
export async function utf8InPieces(text: string): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  for (let start = 0, end = 0; end < text.length; start = end) {
    end = Math.min(text.length, start + CHUNK_CHARACTERS);
    // Both halves of a surrogate pair are in one piece.
    if (isHighSurrogate(text.charCodeAt(end - 1))) end = Math.min(text.length, end + 1);
    const turn = giveWay();
    if (turn !== undefined) await turn;
    pieces.push(Buffer.from(text.slice(start, end)));
  }
  return pieces;
}

function isHighSurrogate(unit: number): boolean {
  return (unit & 0xfc00) === 0xd800;
}

/** The JSON of a value. Throws when it needs more bytes than the budget has. */
async function written(value: unknown, budget: ByteBudget, levels = LEVELS): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
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

const CHUNK_CHARACTERS = 262_144;
/** The levels that are split: the envelope, a page, its items, a record, its relations, and the same of a related record. */
const LEVELS = 8;
/** The levels of a list: the envelope and the list. */
const LIST_LEVELS = 2;

/** About how many characters of JSON are written at once: that takes some microseconds. */
const SMALL = 4_096;
/** Characters assumed for a number, and for the name and separators of a member. */
const FEW = 8;

/** What remains of the characters after a value's JSON; negative when they do not suffice. */
function charactersLeft(value: unknown, characters: number): number {
  if (typeof value === 'string') return characters - value.length;
  let left = characters - FEW;
  if (value === null || typeof value !== 'object') return left;
  for (const key in value) {
    left = charactersLeft((value as Record<string, unknown>)[key], left - FEW);
    if (left < 0) return left;
  }
  return left;
}

/** The JSON text of a value, in pieces that are small or have at most one stored value each. */
function* piecesOf(value: unknown, levels: number): Generator<string> {
  if (value === null || typeof value !== 'object' || levels === 0 || charactersLeft(value, SMALL) >= 0) {
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
