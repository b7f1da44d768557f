// How search reads each UTF-16 unit of a text that does not depend on its neighbours: as a folded letter or digit, or as a
// separator. Most texts of most languages consist of such units. Combining marks, Hangul in parts, emoji, and letters that fold
// to several depend on their neighbours. The table holds the result of `wordsOf` for each unit; a block of 256 is computed at
// its first use, which takes 0.2 ms.
// Contract: decisions#search.
import { foldAccents } from '../expression/accent-folding.ts';
import { foldCaseOnce } from '../expression/case-folding.ts';

const UNKNOWN = 0;
/** The value of a unit that separates words. */
export const BETWEEN = 1;
const DEPENDENT = 0xffff;
const BLOCK = 256;

const read = new Uint16Array(0x10000);
const accented = new Uint8Array(0x10000);

const LETTER = /^[\p{L}\p{N}]$/u;
/** Hangul letters, which combine into syllables. */
const JOINING = /^[\u1100-\u11ff]$/;
const IN_WORDS = /[\p{L}\p{N}\p{M}\p{RI}\p{Extended_Pictographic}\p{Cs}]/u;

/** Writes the units of a text as search reads them. Returns false for a text that must be read as a whole. */
export function readUnits(text: string, to: Uint16Array): boolean {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (read[unit] === UNKNOWN) readBlock(unit);
    const found = read[unit] as number;
    if (found === DEPENDENT) return false;
    to[i] = found;
  }
  return true;
}

/** Whether a unit, as it is read, has an accent to fold. */
export function hasAccent(unit: number): boolean {
  if (read[unit] === UNKNOWN) readBlock(unit);
  return accented[unit] === 1;
}

function readBlock(within: number): void {
  const start = within - (within % BLOCK);
  for (let unit = start; unit < start + BLOCK; unit++) {
    const letter = String.fromCharCode(unit);
    read[unit] = readUnit(letter.normalize('NFKC'));
    accented[unit] = foldAccents(letter) === letter ? 0 : 1;
  }
}

function readUnit(text: string): number {
  if (text.length === 1 && LETTER.test(text) && !JOINING.test(text)) return foldCaseOnce(text).charCodeAt(0);
  return IN_WORDS.test(text) ? DEPENDENT : BETWEEN;
}
