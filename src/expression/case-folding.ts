// Case folding for `contains`. Each code point is folded by itself, to the lower case of its upper case if both
// are single code points (É é; Σ σ ς; K and the Kelvin sign). The four letters I i İ ı are equal, so that a search
// works for Turkish too. Folding keeps the length (ß is not ss) and does not normalise. Postgres's lower()
// depends on the locale, so SQL gets the letters to replace instead.
// Contract: decisions#expressions.

const DOTTED_CAPITAL_I = '\u0130';
const CASED = /\p{Changes_When_Casemapped}/gu;
/** The last code point that can have case. */
const LAST_CASED = 0x1ffff;

interface Letters {
  /** Letters that folding changes, with their folded form. */
  folded: ReadonlyMap<string, string>;
  /** Folded letters, with all letters that fold to them. */
  variants: ReadonlyMap<string, readonly string[]>;
  /** The folded form of each UTF-16 unit that is a letter by itself; any other unit maps to itself. */
  units: Uint16Array;
}

let known: Letters | undefined;

/** Built on first use: scanning all code points would slow down the start. */
function letters(): Letters {
  if (known !== undefined) return known;
  const folded = new Map<string, string>();
  const variants = new Map<string, string[]>();
  const units = new Uint16Array(0x10000);
  for (let unit = 0; unit < units.length; unit++) units[unit] = unit;
  for (const letter of casedLetters()) {
    const changed = foldLetter(letter);
    if (changed === letter) continue;
    folded.set(letter, changed);
    variants.set(changed, [...(variants.get(changed) ?? []), letter]);
    if (letter.length === 1) units[letter.charCodeAt(0)] = changed.charCodeAt(0);
  }
  known = { folded, variants, units };
  return known;
}

function casedLetters(): string[] {
  const units = new Uint16Array(0x10000 + 2 * (LAST_CASED - 0xffff));
  let at = 0;
  for (let unit = 0; unit <= 0xffff; unit++) if (unit < 0xd800 || unit > 0xdfff) units[at++] = unit;
  for (let point = 0; point <= LAST_CASED - 0x10000; point++) {
    units[at++] = 0xd800 + (point >> 10);
    units[at++] = 0xdc00 + (point & 0x3ff);
  }
  return textOf(units.subarray(0, at)).match(CASED) ?? [];
}

const ONLY_ASCII = /^[\0-\x7f]*$/;

export function isAscii(text: string): boolean {
  return ONLY_ASCII.test(text);
}

/**
 * A condition may fold the same long value in each of its terms, so the latest results are kept, up to this many UTF-16 units.
 */
const KEPT_MAX = 4_194_304;
const LONG = 1_024;
const kept = new Map<string, string>();
let keptUnits = 0;

/** Folds the case of a text, without changing the number of code points. */
export function foldCase(text: string): string {
  if (text.length < LONG) return foldCaseOnce(text);
  const known = kept.get(text);
  if (known !== undefined) return known;
  const folded = foldCaseOnce(text);
  kept.set(text, folded);
  keptUnits += text.length;
  for (const oldest of kept.keys()) {
    if (keptUnits <= KEPT_MAX) break;
    kept.delete(oldest);
    keptUnits -= oldest.length;
  }
  return folded;
}

/** Like `foldCase`, but does not keep the result: for a text that will not be folded again soon. */
export function foldCaseOnce(text: string): string {
  if (isAscii(text)) return text.toLowerCase();
  const { folded, units } = letters();
  const written = new Uint16Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xd800 || unit > 0xdbff) written[i] = units[unit] as number;
    else {
      const pair = text.slice(i, i + 2);
      const changed = folded.get(pair) ?? pair;
      for (let k = 0; k < changed.length; k++) written[i + k] = changed.charCodeAt(k);
      i += changed.length - 1;
    }
  }
  return textOf(written);
}

/** How many units are passed as arguments of one call. */
const PART = 8_192;

/** The text of these units. */
export function textOf(units: Uint16Array): string {
  if (units.length <= PART) return String.fromCharCode.apply(null, units as ArrayLike<number> as number[]);
  let all = '';
  for (let at = 0; at < units.length; at += PART) {
    const part: ArrayLike<number> = units.subarray(at, at + PART);
    all += String.fromCharCode.apply(null, part as number[]);
  }
  return all;
}

/**
 * Whether a text contains another one. It takes time in proportion to the sum of the lengths, where `includes` may take their
 * product.
 */
export function includesText(text: string, part: string): boolean {
  if (part.length < SHORT || text.length < LONG) return text.includes(part);
  // Knuth, Morris, Pratt: for each length of a match, the length of the longest shorter match that ends at the same place.
  const shorter = new Uint32Array(part.length + 1);
  for (let i = 1, length = 0; i < part.length; i++) {
    while (length > 0 && part.charCodeAt(i) !== part.charCodeAt(length)) length = shorter[length] as number;
    if (part.charCodeAt(i) === part.charCodeAt(length)) length += 1;
    shorter[i + 1] = length;
  }
  for (let i = 0, length = 0; i < text.length; i++) {
    while (length > 0 && text.charCodeAt(i) !== part.charCodeAt(length)) length = shorter[length] as number;
    if (text.charCodeAt(i) === part.charCodeAt(length)) length += 1;
    if (length === part.length) return true;
  }
  return false;
}

/** A part of at most this length is compared at every place, which takes no longer than the search below. */
const SHORT = 128;

/**
 * Replacements (`from[i]` by `to[i]`, by code point) for Postgres's `translate`. Only letters that occur in `folded` need
 * replacing: a text translated with them contains `folded` exactly when the folded text does.
 */
export function foldingTranslation(folded: string): { from: string; to: string } {
  const { variants } = letters();
  let from = '';
  let to = '';
  for (const letter of new Set(folded)) {
    const others = variants.get(letter) ?? [];
    from += others.join('');
    to += letter.repeat(others.length);
  }
  return { from, to };
}

function foldLetter(letter: string): string {
  if (letter === DOTTED_CAPITAL_I) return 'i';
  const upper = single(letter.toUpperCase()) ?? letter;
  return single(upper.toLowerCase()) ?? upper;
}

function single(text: string): string | undefined {
  return text.length === ((text.codePointAt(0) ?? 0) > 0xffff ? 2 : 1) ? text : undefined;
}
