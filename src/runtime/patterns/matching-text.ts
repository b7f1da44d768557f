// Texts that match a pattern, for examples: the shortest way through the pattern's program, one character at a time. Bounded
// by the program's instructions times the characters; a pattern that needs more, or that takes long to compile, has none.
// Contract: decisions#api-document.
import { RE2JS } from 're2js';
import { isSimple } from './program.ts';

/** Characters of a text that the program is searched for. */
const LENGTH_MAX = 200;

/** The instructions of a program, as the library compiles them. */
interface Instruction {
  op: number;
  out: number;
  arg: number;
  runes: ArrayLike<number>;
}
const OP = {
  alt: 1,
  altMatch: 2,
  capture: 3,
  emptyWidth: 4,
  match: 6,
  nop: 7,
  anyRune: 10,
  anyButNewline: 11,
} as const;
/** Assertions that hold only before the first character, and only after the last. */
const AT_START = 1 | 4;
const AT_END = 2 | 8;
/** Characters of a class, tried in this order; if none fits, the first character of the class. */
const PREFERRED = [...'abcxyzABC0123456789-_. /@'].map((character) => character.codePointAt(0) as number);

/** A position in the program, and how it was reached. */
interface Step {
  pc: number;
  isAtEnd: boolean;
  text: string;
}

/** A text of at least `minLength` characters that matches; undefined when none is found. Seeds make different ones. */
export function matchingText(source: string, minLength: number, seed: number): string | undefined {
  if (minLength > LENGTH_MAX || !isSimple(source)) return undefined;
  const program = RE2JS.compile(source);
  const { inst, start } = program.re2Input.prog as unknown as { inst: Instruction[]; start: number };
  let steps: Step[] = [{ pc: start, isAtEnd: false, text: '' }];
  for (let length = 0; length <= LENGTH_MAX && steps.length > 0; length++) {
    const reached = closure(inst, steps, length);
    const matched = reached.filter(({ pc }) => inst[pc]?.op === OP.match);
    // Without an end, more may follow a match.
    const found = matched
      .map(({ text, isAtEnd }) => (isAtEnd ? text : text.padEnd(minLength, 'x')))
      .find((text) => text.length >= minLength && program.test(text));
    if (found !== undefined) return found;
    const turn = Math.floor(seed / 7 ** length);
    steps = reached.flatMap((step) => consumed(inst, step, turn));
  }
  return undefined;
}

/** The positions that are reached without a character. */
function closure(inst: readonly Instruction[], steps: readonly Step[], length: number): Step[] {
  const seen = new Set<number>();
  const reached: Step[] = [];
  const open = [...steps].reverse();
  for (let step = open.pop(); step !== undefined; step = open.pop()) {
    const { pc, isAtEnd, text } = step;
    const key = 2 * pc + (isAtEnd ? 1 : 0);
    const instruction = inst[pc];
    if (seen.has(key) || instruction === undefined) continue;
    seen.add(key);
    reached.push(step);
    const { op, out, arg } = instruction;
    if (op === OP.alt || op === OP.altMatch) open.push({ pc: arg, isAtEnd, text }, { pc: out, isAtEnd, text });
    if (op === OP.capture || op === OP.nop) open.push({ pc: out, isAtEnd, text });
    if (op === OP.emptyWidth && !((arg & AT_START) !== 0 && length > 0)) {
      open.push({ pc: out, isAtEnd: isAtEnd || (arg & AT_END) !== 0, text });
    }
  }
  return reached;
}

function consumed(inst: readonly Instruction[], { pc, isAtEnd, text }: Step, turn: number): Step[] {
  const { op, out, runes } = inst[pc] as Instruction;
  if (isAtEnd || op <= OP.nop || op > OP.anyButNewline) return [];
  const character = op >= OP.anyRune ? 'x' : characterOf(runes, turn);
  return character === undefined ? [] : [{ pc: out, isAtEnd, text: text + character }];
}

/** A character of a class, which is a list of ranges, or a single character; another one at each turn. */
function characterOf(runes: ArrayLike<number>, turn: number): string | undefined {
  const ranges: (readonly [number, number])[] = [];
  if (runes.length === 1) ranges.push([runes[0] as number, runes[0] as number]);
  for (let i = 0; i + 1 < runes.length; i += 2) ranges.push([runes[i] as number, runes[i + 1] as number]);
  const isIn = (code: number): boolean => ranges.some(([from, to]) => from <= code && code <= to);
  const plain = PREFERRED.filter(isIn);
  const code =
    plain[turn % Math.max(1, plain.length)] ??
    ranges.map(([from, to]) => Math.max(from, Math.min(to, 0x20))).find(isPrintable);
  return code === undefined ? undefined : String.fromCodePoint(code);
}

function isPrintable(code: number): boolean {
  return code >= 0x20 && code !== 0x7f && !(code >= 0xd800 && code <= 0xdfff);
}
