// A pattern compiled by RE2: matching takes at most the instructions of its program times the characters of the value, 8 to
// 30 ns each (80 ns with classes of Unicode). Compiling takes up to 250 ms for a pattern of 1,000 characters, so the size
// is estimated first, in linear time.
// Contract: neighbours#byte-budgets.
import { RE2JS } from 're2js';

/** A program's cache of states, in bytes. Beyond it RE2 matches without one. */
const STATES_BYTES = 262_144;
/** A simple pattern expands to at most this many instructions: it compiles within 3 ms. */
const SIMPLE_MAX = 200;
/** Large classes take long to build, most of all when they disregard case. */
const IGNORES_CASE = /\(\?[a-zA-Z-]*i/;
const LARGE_CLASS = /\\[pPx]|[^\0-\x7f]/g;
const LARGE_CLASSES_MAX = 10;

export interface Program {
  /** The number of instructions. */
  size: number;
  test(value: string): boolean;
}

/** The compiled pattern; null when it is not valid. */
function compileProgram(source: string): Program | null {
  try {
    const program = RE2JS.compile(source);
    const { dfa } = program.re2Input;
    dfa.maxMem = dfa.stateBudget = dfa.memBudget = STATES_BYTES;
    return { size: program.programSize(), test: (value) => program.test(value) };
  } catch {
    return null;
  }
}

/** Programs by their patterns; the ones used last are kept. */
export class Programs {
  readonly #programs = new Map<string, Program | null>();

  constructor(private readonly max: number) {}

  has(source: string): boolean {
    return this.#programs.has(source);
  }

  /** The program, compiled unless it is known; null when the pattern is not valid. */
  get(source: string): Program | null {
    const known = this.#programs.get(source);
    const program = known === undefined ? compileProgram(source) : known;
    this.#programs.delete(source);
    this.#programs.set(source, program);
    const oldest = this.#programs.size > this.max ? this.#programs.keys().next().value : undefined;
    if (oldest !== undefined) this.#programs.delete(oldest);
    return program;
  }
}

/** Whether the pattern compiles within a few milliseconds. */
export function isSimple(source: string): boolean {
  const classes = source.match(LARGE_CLASS)?.length ?? 0;
  const isBuiltQuickly = IGNORES_CASE.test(source) ? classes === 0 : classes <= LARGE_CLASSES_MAX;
  return isBuiltQuickly && expandedSize(source) <= SIMPLE_MAX;
}

const LITERAL = /\\Q[\s\S]*?(?:\\E|$)/y;
const ESCAPE = /\\(?:x\{[^}]*\}|[pP]\{[^}]*\}|[pP]?[\s\S]?)/y;
const CLASS = /\[\^?\]?(?:\[:\^?[a-z]*:\]|\\[\s\S]|[^\]\\])*\]?/y;
const COUNT = /\{(\d{1,8})(?:,(\d{0,8}))?\}/y;

/** About how many instructions a pattern compiles to, with every counted repeat written out. Linear time. */
export function expandedSize(source: string): number {
  /** The sizes of the open groups without their last atom, and that atom. */
  const open: number[] = [0];
  let atom = 0;
  const begin = (size: number): void => {
    open.push((open.pop() ?? 0) + atom);
    atom = size;
  };
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(source);
    if (found !== null) at += found[0].length;
    return found;
  };
  while (at < source.length) {
    const literal = take(LITERAL);
    const count = literal === null && source[at] === '{' ? take(COUNT) : null;
    if (literal !== null) begin(literal[0].length);
    else if (count !== null)
      atom *= Math.max(Number(count[1]), Number(count[2] ?? 0), 1) * (count[2] === undefined ? 1 : 2);
    else if (take(ESCAPE) !== null || take(CLASS) !== null) begin(1);
    else {
      const symbol = source[at++];
      if (symbol === '(') {
        begin(0);
        open.push(2);
      } else if (symbol === ')' && open.length > 1) {
        atom += open.pop() ?? 0;
      } else if (symbol === '*' || symbol === '+' || symbol === '?') atom += 1;
      else begin(1);
    }
  }
  return open.reduce((sum, size) => sum + size, atom);
}
