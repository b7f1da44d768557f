// Full-text search. Splitting and folding happen here, not in Postgres, so that every database and locale agrees. A
// record keeps its terms in one tsvector, in which a term's positions are the numbers of the fields that contain it:
// one index serves all callers, and for a caller with hidden fields the condition also checks the positions. With
// `searchFolding` a word with accents is there a second time without them, with the weight A; a word as it stands has the
// lowest weight, D. Long texts are read in pieces, between which the event loop turns.
// Contract: decisions#search, neighbours#fair-shares.
import { foldAccents } from '../expression/accent-folding.ts';
import { foldCase, isAscii } from '../expression/case-folding.ts';
import { giveWay } from '../runtime/event-loop.ts';
import type { Entity, Field } from './field.ts';
import { specOf } from './field-types.ts';
import { SeenWords } from './seen-words.ts';
import type { SlotValues } from './values.ts';

/** A run of letters, digits and their marks, or a single emoji. */
const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*|\p{RI}{2}|\p{Extended_Pictographic}/gu;
const ASCII_WORD = /[a-z0-9]+/g;
const WORD_MAX = 200;
/** A tsvector is limited to a megabyte; terms beyond this size are not searchable. */
const VECTOR_BYTES_MAX = 900_000;

/** Read at once, in UTF-16 units. Normalizing multiplies the length by up to 18. */
const PIECE = 4_096;
/** Texts that together normalize to more are searchable up to here. */
const READ_MAX = 2_097_152;
/** Where a text can be cut: no word and no letter continues across a space or a punctuation mark. */
const BOUNDARY = /[\s\p{P}]/gu;
/** Sorting a run of combining marks takes the square of its length, so a run has at most 30 (UAX 15, stream-safe text). */
const LONG_MARKS = /([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu;

/** The text in pieces of which none divides a word, unless the word alone is longer than a piece. */
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
  const folded = isAscii(piece) ? piece.toLowerCase() : foldCase(piece.replace(LONG_MARKS, '$1').normalize('NFKC'));
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

/** Texts that together have at most so many units, all of ASCII, are read at once. */
const QUICK_UNITS = 16_384;
const GAP = /[^a-z0-9]+/g;
const LONG_WORD = new RegExp(`[a-z0-9]{${WORD_MAX + 1}}`);

/**
 * The tsvector of short texts in ASCII: in place of what lies between two words, the position and the quotes around them.
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
  const terms: Terms = { isFolding: entity.searchFolding, positions: new Map(), read: 0, length: 0 };
  for (const field of entity.fields) {
    const { next } = field;
    for (const definition of next === undefined || next.slot === field.slot ? [field] : [field, next]) {
      const reading = addTerms(terms, definition, data);
      if (reading !== undefined) await reading;
    }
  }
  if (terms.positions.size === 0) return null;
  let vector = '';
  for (const [word, slots] of terms.positions) {
    const entry = `'${word}':${slots} `;
    if (vector.length * 3 + entry.length * 3 > VECTOR_BYTES_MAX) break;
    vector += entry;
  }
  return vector;
}

interface Terms {
  /** Whether words with accents are there without them too. */
  isFolding: boolean;
  /** The numbers of the fields that contain a term, separated by commas; with an A where only an accent makes a difference. */
  positions: Map<string, string>;
  /** UTF-16 units of normalized text. */
  read: number;
  /** Of the terms, which the vector must have room for. */
  length: number;
}

/** Whether a change keeps the record's search vector; false during a transition of the entity's fields. */
export function isSearchVectorUnchanged(entity: Entity, before: SlotValues, after: SlotValues): boolean {
  if (entity.retiredSlots.length > 0) return false;
  return entity.fields.every(
    (field) => field.next === undefined && (!specOf(field).isSearchable || before[field.slot] === after[field.slot]),
  );
}

/** Adds the field's number to each of its terms. */
function addTerms(terms: Terms, field: Field, data: SlotValues): Promise<void> | undefined {
  const text = data[field.slot];
  if (!specOf(field).isSearchable || typeof text !== 'string') return undefined;
  const position = field.slot.slice(1);
  if (text.length > PIECE) return addPieces(terms, text, position);
  addPiece(terms, text, position);
  return undefined;
}

async function addPieces(terms: Terms, text: string, position: string): Promise<void> {
  const seen = new SeenWords();
  for (const piece of pieces(text)) {
    if (terms.read > READ_MAX) return;
    if (isAscii(piece)) addAsciiPiece(terms, piece, position, seen);
    else addPiece(terms, piece, position);
    const way = giveWay();
    if (way !== undefined) await way;
  }
}

/** Words in ASCII have no accents. */
function addAsciiPiece(all: Terms, piece: string, position: string, seen: SeenWords): void {
  all.read += piece.length;
  for (const word of seen.newIn(piece.toLowerCase())) addTerm(all, termOf(word), position, false);
}

function addPiece(all: Terms, piece: string, position: string): void {
  const { words, read } = wordsOf(piece);
  all.read += read;
  for (const word of words) {
    addTerm(all, termOf(word), position, false);
    if (!all.isFolding) continue;
    const folded = foldAccents(word);
    if (folded !== word) addTerm(all, termOf(folded), position, true);
  }
}

function addTerm(all: Terms, term: string, position: string, isFolded: boolean): void {
  const known = all.positions.get(term);
  const added = isFolded ? `${position}A` : position;
  if (known === undefined) {
    if (all.length * 3 > VECTOR_BYTES_MAX) return;
    all.length += term.length;
    all.positions.set(term, added);
    return;
  }
  const last = known.slice(known.lastIndexOf(',') + 1);
  if (last === position || last === added) return;
  const others = last === `${position}A` ? known.slice(0, -last.length) : `${known},`;
  all.positions.set(term, `${others}${added}`);
}
