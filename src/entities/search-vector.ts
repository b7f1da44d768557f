// Full-text search. Words are split and folded here, not in Postgres, so that every database and locale agrees. A record keeps
// its terms in one tsvector, in which a term's positions are the numbers of the fields that contain it: one index serves all
// callers, and for a caller with hidden fields the condition also checks the positions. A word as it was written has the lowest
// weight, D. With `searchFolding` a word with accents is stored a second time without them, with the weight A. Long texts are
// read in pieces, between which the event loop runs.
// Contract: decisions#search, neighbours#fair-shares.
import { foldAccents } from '../expression/accent-folding.ts';
import { foldCaseOnce, isAscii, textOf } from '../expression/case-folding.ts';
import { giveWay } from '../runtime/event-loop.ts';
import type { Entity, Field } from './field.ts';
import { specOf } from './field-types.ts';
import { Terms } from './terms.ts';
import type { SlotValues } from './values.ts';
import { BETWEEN, hasAccent, readUnits } from './word-units.ts';

/** A run of letters, digits and their marks, or a single emoji. */
const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*|\p{RI}{2}|\p{Extended_Pictographic}/gu;
const ASCII_WORD = /[a-z0-9]+/g;
const WORD_MAX = 200;
/** A tsvector is limited to a megabyte; terms beyond this size are not searchable. */
const VECTOR_BYTES_MAX = 900_000;
/** A UTF-16 unit takes at most three bytes. */
const TERMS_MAX = VECTOR_BYTES_MAX / 3;

/** The size of a piece that is read at once, in UTF-16 units. Normalizing multiplies the length by up to 18. */
const PIECE = 4_096;
/** The limit of a record's normalized texts together; what comes after it is not searchable. */
const READ_MAX = 2_097_152;
/** Where a text can be cut: no word and no letter continues across a space or a punctuation mark. */
const BOUNDARY = /[\s\p{P}]/gu;
/** Sorting a run of combining marks takes the square of its length, so a run has at most 30 (UAX 15, stream-safe text). */
const LONG_MARKS = /([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu;

/** The text in pieces. No piece divides a word, unless the word alone is longer than a piece. */
function* pieces(text: string): Generator<string> {
  let start = 0;
  while (text.length - start > PIECE) {
    BOUNDARY.lastIndex = start + PIECE;
    const boundary = text.length - start > 2 * PIECE ? BOUNDARY.exec(text.slice(0, start + 2 * PIECE)) : null;
    const end = boundary?.index ?? Math.min(start + 2 * PIECE, text.length);
    yield text.slice(start, end).toWellFormed();
    start = end;
  }
  if (start < text.length) yield text.slice(start);
}

/** The words of a piece of text, and its units. Compatibility forms and case are folded, accents are kept. */
export function wordsOf(piece: string): { words: readonly string[]; read: number } {
  const folded = isAscii(piece) ? piece.toLowerCase() : foldCaseOnce(piece.replace(LONG_MARKS, '$1').normalize('NFKC'));
  return { words: folded.match(isAscii(folded) ? ASCII_WORD : WORD) ?? [], read: folded.length };
}

/** The term of a word: at most so many units of it. */
export function termOf(word: string): string {
  return word.length > WORD_MAX ? word.slice(0, WORD_MAX).toWellFormed() : word;
}

/** The record's tsvector as text; null without terms. */
export function searchVector(entity: Entity, data: SlotValues): string | null | Promise<string | null> {
  const quick = quickVector(entity, data);
  return quick === undefined ? slowVector(entity, data) : quick;
}

/** Texts that are all ASCII and together have at most this many units are read at once. */
const QUICK_UNITS = 16_384;
const GAP = /[^a-z0-9]+/g;
const LONG_WORD = new RegExp(`[a-z0-9]{${WORD_MAX + 1}}`);

/**
 * The tsvector of short texts in ASCII: replaces what lies between two words by the position and the quotes around them.
 * Postgres removes the repetitions. 30 words take 2 µs instead of 7. Undefined for other texts.
 */
function quickVector({ fields }: Entity, data: SlotValues): string | null | undefined {
  let vector = '';
  let units = 0;
  for (const field of fields) {
    if (field.next !== undefined) return undefined;
    const text = data[field.slot];
    if (typeof text !== 'string' || !specOf(field).isSearchable) continue;
    units += text.length;
    if (units > QUICK_UNITS || !isAscii(text)) return undefined;
    const folded = text.toLowerCase();
    if (folded.length > WORD_MAX && LONG_WORD.test(folded)) return undefined;
    const gap = `':${field.slot.slice(1)} '`;
    const words = folded.replace(GAP, gap);
    const start = words.startsWith(gap) ? gap.length : 0;
    const end = words.endsWith(gap) ? words.length - gap.length : words.length;
    if (start < end)
      vector += `'${start === 0 && end === words.length ? words : words.slice(start, end)}${gap.slice(0, -1)}`;
  }
  return vector === '' ? null : vector;
}

async function slowVector(entity: Entity, data: SlotValues): Promise<string | null> {
  const reading: Reading = { isFolding: entity.searchFolding, terms: new Terms(TERMS_MAX), read: 0 };
  for (const field of entity.fields) {
    const { next } = field;
    for (const definition of next === undefined || next.slot === field.slot ? [field] : [field, next]) {
      const adding = addField(reading, definition, data);
      if (adding !== undefined) await adding;
    }
  }
  return reading.terms.size === 0 ? null : reading.terms.toVector(TERMS_MAX);
}

interface Reading {
  /** Whether words with accents are also stored without them. */
  isFolding: boolean;
  terms: Terms;
  /** UTF-16 units of normalized text. */
  read: number;
}

/** Whether a change keeps the record's search vector; false during a transition of the entity's fields. */
export function isSearchVectorUnchanged(entity: Entity, before: SlotValues, after: SlotValues): boolean {
  if (entity.retiredSlots.length > 0) return false;
  return entity.fields.every(
    (field) => field.next === undefined && (!specOf(field).isSearchable || before[field.slot] === after[field.slot]),
  );
}

/** Adds the field's number to each of its terms. */
function addField(reading: Reading, field: Field, data: SlotValues): Promise<void> | undefined {
  const text = data[field.slot];
  if (!specOf(field).isSearchable || typeof text !== 'string') return undefined;
  const position = field.slot.slice(1);
  if (text.length > PIECE) return addPieces(reading, text, position);
  addPiece(reading, text, position);
  return undefined;
}

async function addPieces(reading: Reading, text: string, position: string): Promise<void> {
  for (const piece of pieces(text)) {
    if (reading.read > READ_MAX) return;
    addPiece(reading, piece, position);
    const way = giveWay();
    if (way !== undefined) await way;
  }
}

/** The units of the piece and of the term that are being read. */
const units = new Uint16Array(2 * PIECE);
const termUnits = new Uint16Array(WORD_MAX);

/** Reading unit by unit takes a fifth of the time of reading words, and no memory. */
function addPiece(reading: Reading, piece: string, position: string): void {
  if (readUnits(piece, units)) addUnits(reading, piece.length, position);
  else addWords(reading, piece, position);
}

function addUnits(reading: Reading, length: number, position: string): void {
  const { terms, isFolding } = reading;
  reading.read += length;
  for (let at = 0; at < length; at++) {
    const start = at;
    while (at < length && units[at] !== BETWEEN) at += 1;
    if (at === start) continue;
    const end = Math.min(at, start + WORD_MAX);
    const isNew = terms.add(units, start, end, position, false);
    if (isNew && isFolding && hasAccents(start, end)) {
      const folded = foldAccents(textOf(units.subarray(start, end)));
      addTerm(terms, termOf(folded), position, true);
    }
  }
}

function hasAccents(start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (hasAccent(units[at] as number)) return true;
  return false;
}

function addWords(reading: Reading, piece: string, position: string): void {
  const { words, read } = wordsOf(piece);
  reading.read += read;
  for (const word of words) {
    addTerm(reading.terms, termOf(word), position, false);
    if (!reading.isFolding) continue;
    const folded = foldAccents(word);
    if (folded !== word) addTerm(reading.terms, termOf(folded), position, true);
  }
}

function addTerm(terms: Terms, term: string, position: string, isFolded: boolean): void {
  for (let i = 0; i < term.length; i++) termUnits[i] = term.charCodeAt(i);
  terms.add(termUnits, 0, term.length, position, isFolded);
}
