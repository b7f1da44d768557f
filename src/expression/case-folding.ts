// Upper and lower case made one, for `contains`: each code point is folded alone, to the lower case
// of its upper case where both are single code points (É é; Σ σ ς; K and the Kelvin sign), and all
// four letters i (I i İ ı) are one, so that Turkish and other text are both found. Nothing changes
// length (ß is not ss) and nothing is normalised. Postgres's lower() depends on the locale it was
// built with, so the database is never asked to fold: it is handed the few letters to replace.
// Contract: decisions#expressions.

const DOTTED_CAPITAL_I = '\u0130';
const CASED = /\p{Changes_When_Casemapped}/u;
/** Letters beyond this point have no case in Unicode. */
const LAST_CASED = 0x1ffff;

/** The letters that change when folded, with what they fold to; and what others fold to, with all of those. */
interface Letters {
  folded: ReadonlyMap<string, string>;
  variants: ReadonlyMap<string, readonly string[]>;
}

let known: Letters | undefined;

/** Found by looking at every code point, which takes too long for a start: at the first use. */
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

/** Whether a text is nothing but ASCII: what is done to it can then be done faster. */
export function isAscii(text: string): boolean {
  return ONLY_ASCII.test(text);
}

/** The text with every letter's case folded; as many code points as before. */
export function foldCase(text: string): string {
  if (isAscii(text)) return text.toLowerCase();
  const { folded } = letters();
  let all = '';
  for (const letter of text) all += folded.get(letter) ?? letter;
  return all;
}

/**
 * The replacements (`from[i]` by `to[i]`, code point by code point) that turn any text into one which contains the
 * folded text exactly when the folding of all its letters would: the variants of the letters that occur in it.
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
