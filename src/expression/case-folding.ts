// Case folding for `contains`. Each code point folds by itself, to the lower case of its upper case
// where both are single code points (É é; Σ σ ς; K and the Kelvin sign). The four letters i (I i İ ı) are
// equal, so that a search finds Turkish and other text alike. Folding keeps the length (ß is not ss) and does
// not normalise. Postgres's lower() depends on its locale, so the database gets the letters to replace instead.
// Contract: decisions#expressions.

const DOTTED_CAPITAL_I = '\u0130';
const CASED = /\p{Changes_When_Casemapped}/u;
/** No letter above this code point has case. */
const LAST_CASED = 0x1ffff;

interface Letters {
  /** Letters that folding changes, with their folded form. */
  folded: ReadonlyMap<string, string>;
  /** Folded letters, with all letters that fold to them. */
  variants: ReadonlyMap<string, readonly string[]>;
}

let known: Letters | undefined;

/** Built on first use: scanning every code point would slow down the start. */
function letters(): Letters {
  known ??= findLetters();
  return known;
}

function findLetters(): Letters {
  const folded = new Map<string, string>();
  const variants = new Map<string, string[]>();
  for (let point = 0; point <= LAST_CASED; point++) {
    const letter = String.fromCodePoint(point);
    const changed = CASED.test(letter) ? foldLetter(letter) : letter;
    if (changed === letter) continue;
    folded.set(letter, changed);
    variants.set(changed, [...(variants.get(changed) ?? []), letter]);
  }
  return { folded, variants };
}

const ONLY_ASCII = /^[\0-\x7f]*$/;

/** Whether a text is pure ASCII, for which faster paths exist. */
export function isAscii(text: string): boolean {
  return ONLY_ASCII.test(text);
}

/** The text with every letter folded; the number of code points stays the same. */
export function foldCase(text: string): string {
  if (isAscii(text)) return text.toLowerCase();
  const { folded } = letters();
  let all = '';
  for (const letter of text) all += folded.get(letter) ?? letter;
  return all;
}

/**
 * Replacements (`from[i]` by `to[i]`, by code point) for Postgres's `translate`. A text translated with them contains
 * `folded` exactly when the completely folded text does: only letters that occur in `folded` need replacing.
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
