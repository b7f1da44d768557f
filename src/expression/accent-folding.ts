// Accent folding for `search`: a word without its accents. Done here, not by Postgres's `unaccent`, which few databases have
// and whose rules each may change. Accents are the combining marks of Latin, Greek and Cyrillic letters, and the vowel
// points of Hebrew and Arabic; the vowel signs of Indian scripts and the voicing marks of Japanese make other letters and
// stay. Letters that have no accent in Unicode but are written without one on other keyboards are in a table.
// Contract: decisions#search.
import { isAscii } from './case-folding.ts';

const ACCENTS = new RegExp(
  [
    '[\\u0300-\\u036f\\u1ab0-\\u1aff\\u1dc0-\\u1dff\\u20d0-\\u20ff\\ufe20-\\ufe2f]',
    '[\\u0591-\\u05bd\\u05bf\\u05c1\\u05c2\\u05c4\\u05c5\\u05c7]',
    '[\\u0610-\\u061a\\u064b-\\u065f\\u0670\\u06d6-\\u06dc]',
  ].join('|'),
  'g',
);

const LETTERS: ReadonlyMap<string, string> = new Map(
  Object.entries({ ß: 'ss', æ: 'ae', œ: 'oe', ø: 'o', đ: 'd', ð: 'd', þ: 'th', ł: 'l', ħ: 'h', ŧ: 't', ŋ: 'n' }),
);
const LETTER = new RegExp(`[${[...LETTERS.keys()].join('')}]`, 'g');

/** A case-folded word without accents. The caller bounds runs of marks, whose sorting takes the square of their length. */
export function foldAccents(word: string): string {
  if (isAscii(word)) return word;
  const base = word.normalize('NFD').replace(ACCENTS, '');
  return base.replace(LETTER, (letter) => LETTERS.get(letter) as string).normalize('NFC');
}
