// Identifiers: UUID version 7 (RFC 9562), rising within a process, so that "newest first" is an
// order by id and index pages fill from one side. Times within are milliseconds.
// Contract: decisions#answers.
import { randomBytes } from 'node:crypto';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Random hexadecimal digits are drawn for this many ids at a time. */
const POOL_IDS = 512;
const RANDOM_DIGITS = 16;
const SEQUENCE_MAX = 0xfff;
/** By a random digit: the variant's two bits, and two random ones. */
const VARIANT = [...'0123456789abcdef'].map((digit) => ((Number.parseInt(digit, 16) & 0x3) | 0x8).toString(16));

let pool = '';
let poolAt = 0;
let lastMs = 0;
/** The id's beginning, which the milliseconds make: for `lastMs`, once `advance` has been called. */
let beginning = '';
let sequence = 0;

/** A new id. Ids of one process rise strictly, also within a millisecond and when the clock steps back. */
export function newId(): string {
  advance();
  if (poolAt === pool.length) {
    pool = randomBytes((POOL_IDS * RANDOM_DIGITS) / 2).toString('hex');
    poolAt = 0;
  }
  const at = poolAt;
  poolAt += RANDOM_DIGITS;
  const variant = VARIANT[Number.parseInt(pool.charAt(at), 16)] as string;
  // The digit that goes before keeps leading zeros; it is cut off again.
  const middle = (0x1000 + sequence).toString(16).slice(1);
  return `${beginning}${middle}-${variant}${pool.slice(at + 1, at + 4)}-${pool.slice(at + 4, at + RANDOM_DIGITS)}`;
}

/** The 12 bits after the version count within a millisecond; when they run out the clock is nudged on. */
function advance(): void {
  const now = Date.now();
  if (now > lastMs) begin(now);
  else if (sequence === SEQUENCE_MAX) begin(lastMs + 1);
  else sequence += 1;
}

function begin(ms: number): void {
  lastMs = ms;
  sequence = 0;
  const time = ms.toString(16).padStart(12, '0');
  beginning = `${time.slice(0, 8)}-${time.slice(8)}-7`;
}

/** Whether a text is a UUID in its usual form, of any version and case. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
