// Texts and JSON values: whether Postgres can store a text, and whether one is longer or larger than a limit, without
// counting more than needed. Postgres rejects NUL characters and unpaired surrogates.
// Contract: decisions#responses, neighbours#byte-budgets.

/** Why Postgres cannot store a text, or undefined. */
export function textProblem(text: string): string | undefined {
  if (text.includes('\0')) return 'contains a NUL character';
  if (!text.isWellFormed()) return 'contains half a surrogate pair';
  return undefined;
}

/** A parsed JSON object. */
export type JsonObject = Record<string, unknown>;

/** Whether a text has more than this many code points. Counts them only when the number of UTF-16 units leaves it open. */
export function isLongerThan(text: string, characters: number): boolean {
  if (text.length <= characters) return false;
  return text.length > 2 * characters || codePoints(text) > characters;
}

/** Unicode code points, as users and Postgres count characters. */
export function codePoints(text: string): number {
  let count = text.length;
  for (let i = 1; i < text.length; i++) {
    const isPair = (text.charCodeAt(i) & 0xfc00) === 0xdc00 && (text.charCodeAt(i - 1) & 0xfc00) === 0xd800;
    if (isPair) count -= 1;
  }
  return count;
}

/**
 * The bytes of a value as JSON in UTF-8, with all digits of its numbers, as Postgres writes them: `1e300` has 301. A long text is
 * counted without a copy if nothing in it is escaped.
 */
export function jsonBytes(value: unknown): number {
  if (typeof value === 'string' && isPlain(value)) return Buffer.byteLength(value) + 2;
  if (!hasLongMember(value)) return jsonTextBytes(JSON.stringify(value) ?? '', value);
  let sum = 2;
  for (const [key, member] of Object.entries(value)) {
    if (member !== undefined) sum += jsonBytes(key) + jsonBytes(member) + 2;
  }
  return sum - 1;
}

/** Like `jsonBytes`, for a value whose JSON is at hand. */
export function jsonTextBytes(text: string, value: unknown): number {
  return Buffer.byteLength(text) + (EXPONENT.test(text) ? digitsLeftOut(value) : 0);
}

/** Matches every number with an exponent, and few other texts. */
const EXPONENT = /\de[+-]\d/;

/** The characters that JSON saves by exponents. Does not list the values first, which took 300 ms for 300,000 arrays. */
function digitsLeftOut(value: unknown): number {
  if (typeof value === 'number') return hasExponent(value) ? writtenOut(value) - String(value).length : 0;
  if (value === null || typeof value !== 'object') return 0;
  let sum = 0;
  if (Array.isArray(value)) for (const item of value) sum += digitsLeftOut(item);
  else for (const key in value) sum += digitsLeftOut((value as JsonObject)[key]);
  return sum;
}

/** Whether JSON writes a number with an exponent. */
function hasExponent(value: number): boolean {
  const size = Math.abs(value);
  return size >= 1e21 || (size < 1e-6 && size > 0);
}

/** The characters of a number when it is written without an exponent. */
function writtenOut(value: number): number {
  const text = String(value);
  const end = text.indexOf('e');
  const sign = value < 0 ? 1 : 0;
  const digits = end - sign - (text.includes('.') ? 1 : 0);
  const power = Number(text.slice(end + 1));
  return sign + (power > 0 ? power + 1 : '0.'.length - power - 1 + digits);
}

const LONG = 8_192;
/** Characters that JSON escapes. */
const ESCAPED = /["\\\u0000-\u001f]/;

/** Whether a text is long, and JSON contains it as it is. */
function isPlain(text: string): boolean {
  return text.length >= LONG && text.isWellFormed() && !ESCAPED.test(text);
}

function hasLongMember(value: unknown): value is JsonObject {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || 'toJSON' in value) return false;
  for (const key in value) {
    const member = (value as JsonObject)[key];
    if (typeof member === 'string' && member.length >= LONG) return true;
  }
  return false;
}

/** Whether a value has more than `bytes` as JSON in UTF-8. Serializes it only if its texts leave that open. */
export function isJsonLarger(value: unknown, bytes: number): boolean {
  return jsonBound(value) > bytes && jsonBytes(value) > bytes;
}

/** An upper bound of a value's bytes as JSON: a UTF-16 unit takes 6 at most, as `\\u001f`; a number without an exponent 24. */
function jsonBound(value: unknown): number {
  if (typeof value === 'string') return 6 * value.length + 2;
  if (typeof value === 'number') return hasExponent(value) ? Math.max(24, writtenOut(value)) : 24;
  if (value === null || typeof value !== 'object') return 24;
  let sum = 2;
  if (Array.isArray(value)) for (const item of value) sum += jsonBound(item) + 1;
  else for (const key in value) sum += 6 * key.length + 4 + jsonBound((value as JsonObject)[key]);
  return sum;
}

/** The digits without trailing zeros. A loop, because /0+$/ is quadratic on a long run of zeros that does not end the text. */
export function withoutFinalZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}
