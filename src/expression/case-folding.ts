// Case folding for `contains`. Each code point is folded by itself, to the lower case of its upper case if both
// are single code points (É é; Σ σ ς; K and the Kelvin sign). The four letters I i İ ı are equal, so that a search
// works for Turkish too. Folding keeps the length (ß is not ss) and does not normalise. Postgres's lower()
// depends on the locale, so SQL gets the letters to replace instead.
// Contract: decisions#expressions.

const DOTTED_CAPITAL_I = '\u0130';
const CASED = /\p{Changes_When_Casemapped}/u;
/** The last code point that can have case. */
const LAST_CASED = 0x1ffff;

interface Letters {
  /** Letters that folding changes, with their folded form. */
  folded: ReadonlyMap<string, string>;
  /** Folded letters, with all letters that fold to them. */
  variants: ReadonlyMap<string, readonly string[]>;
}

let known: Letters | undefined;

/** Built on first use: scanning all code points would slow down the start. */
function letters(): Letters {
  if (known !== undefined) return known;
  const folded = new Map<string, string>();
  const variants = new Map<string, string[]>();
  for (let point = 0; point <= LAST_CASED; point++) {
    const letter = String.fromCodePoint(point);
    const changed = CASED.test(letter) ? foldLetter(letter) : letter;
    if (changed === letter) continue;
    folded.set(letter, changed);
    variants.set(changed, [...(variants.get(changed) ?? []), letter]);
  }
  known = { folded, variants };
  return known;
}

const ONLY_ASCII = /^[\0-\x7f]*$/;

export function isAscii(text: string): boolean {
  return ONLY_ASCII.test(text);
}

/** Keeps the number of code points. */
export function foldCase(text: string): string {
  if (isAscii(text)) return text.toLowerCase();
  const { folded } = letters();
  let all = '';
  for (const letter of text) all += folded.get(letter) ?? letter;
  return all;
}

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
