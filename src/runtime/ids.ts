// Identifiers: UUID version 7 (RFC 9562), increasing within a process, so ids sort by creation time
// and index pages fill in order. Timestamps are milliseconds.
// Contract: decisions#responses.

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Random hexadecimal digits are generated for this many ids at a time. */
const POOL_IDS = 512;
const RANDOM_DIGITS = 16;
const SEQUENCE_MAX = 0xfff;
/** Indexed by a random digit: the variant's two bits and two random bits. */
const VARIANT = [...'0123456789abcdef'].map((digit) => ((Number.parseInt(digit, 16) & 0x3) | 0x8).toString(16));

/** Before every other id in their order. */
export const LEAST_ID = '00000000-0000-0000-0000-000000000000';

let pool = '';
let poolAt = 0;
let lastMs = 0;
/** The timestamp part of ids at `lastMs`. */
let timestampPart = '';
let sequence = 0;

/** A new id. Ids of a process increase strictly, even within a millisecond or when the clock steps back. */
export function newId(): string {
  advance();
  if (poolAt === pool.length) {
    pool = crypto.getRandomValues(new Uint8Array((POOL_IDS * RANDOM_DIGITS) / 2)).toHex();
    poolAt = 0;
  }
  const at = poolAt;
  poolAt += RANDOM_DIGITS;
  const variant = VARIANT[Number.parseInt(pool.charAt(at), 16)] as string;
  // The added digit preserves leading zeros and is cut off again.
  const middle = (0x1000 + sequence).toString(16).slice(1);
  return `${timestampPart}${middle}-${variant}${pool.slice(at + 1, at + 4)}-${pool.slice(at + 4, at + RANDOM_DIGITS)}`;
}

/** The 12 bits after the version count ids within a millisecond; on overflow the timestamp moves on. */
function advance(): void {
  const now = Date.now();
  if (now > lastMs) startAt(now);
  else if (sequence === SEQUENCE_MAX) startAt(lastMs + 1);
  else sequence += 1;
}

function startAt(ms: number): void {
  lastMs = ms;
  sequence = 0;
  const time = ms.toString(16).padStart(12, '0');
  timestampPart = `${time.slice(0, 8)}-${time.slice(8)}-7`;
}

/** Whether a text is a UUID in its usual form, of any version and case. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** The lowest UUIDv7 of a time: ids rise with time, and are indexed. */
export function lowestIdAt(at: string): string {
  const ms = Date.parse(at).toString(16).padStart(12, '0');
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7000-8000-000000000000`;
}

/** When an id was made, in milliseconds since the epoch. For ids without a time: an hour after the epoch. */
export function timeOf(id: string): number {
  return id.charAt(14) === '7' ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : 3_600_000;
}
