// Patterns of text fields, on RE2: the time of a match is at most the instructions of the pattern's program times the
// characters of the value, so a definition bounds both. A match takes 8 to 30 ns for each instruction and character;
// writes match ahead of parsing (`matchAhead`), so that the event loop turns between the values of a record.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { RE2JS } from 're2js';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { isLongerThan } from '../runtime/text.ts';
import type { Entity, Field } from './field.ts';

const { instructionsMax, stepsMax, lengthDefault } = LIMITS.pattern;
/** Compiling a pattern that may expand to more would itself take long. */
const EXPANDED_MAX = 10_000;
/** A pattern's cache of states, in bytes. Beyond it RE2 matches without one. */
const STATES_BYTES = 262_144;
const COMPILED_MAX = 400;

type Limited = Pick<Field, 'pattern' | 'maxLength'>;

/** Why a definition cannot have this pattern; undefined when it can. */
export function patternProblem({ pattern, maxLength }: Limited): string | undefined {
  if (pattern === undefined) return undefined;
  const compiled = compile(pattern);
  return typeof compiled === 'string' ? compiled : budgetProblem(compiled, maxLength ?? lengthDefault);
}

function budgetProblem({ size }: Compiled, longest: number): string | undefined {
  if (size > instructionsMax) return tooLarge(`${size}`);
  if (size * longest <= stepsMax) return undefined;
  return (
    `has ${size} instructions, which times the longest value of ${longest} characters is more than ${stepsMax}; ` +
    `set maxLength to at most ${Math.floor(stepsMax / size)}, or simplify the pattern`
  );
}

/** Why a value does not match the field's pattern; undefined when it does, or there is none. */
export function mismatch(field: Field, value: string): string | undefined {
  const { pattern } = field;
  if (pattern === undefined) return undefined;
  const longest = field.maxLength ?? lengthDefault;
  if (isLongerThan(value, longest)) return `must have at most ${longest} characters, since the field has a pattern`;
  const known = lastMatch.get(field);
  if (known !== undefined && known.value === value) return known.problem;
  return match(field, pattern, longest, value);
}

function match(field: Field, pattern: string, longest: number, value: string): string | undefined {
  const compiled = compile(pattern);
  const beyond = typeof compiled === 'string' ? compiled : budgetProblem(compiled, longest);
  if (beyond !== undefined || typeof compiled === 'string') {
    return `cannot be checked: the pattern of the field ${beyond}`;
  }
  const problem = compiled.program.test(value) ? undefined : `must match the pattern ${pattern}`;
  if (compiled.size * value.length > REMEMBERED_STEPS) lastMatch.set(field, { value, problem });
  return problem;
}

/** The last costly match of each field, so that parsing does not repeat what `matchAhead` has done. */
const lastMatch = new WeakMap<Field, { value: string; problem: string | undefined }>();
const REMEMBERED_STEPS = 10_000;

const fieldsWithPattern = new WeakMap<Entity, readonly Field[]>();

/** Matches the values of a body that its fields' patterns apply to; the event loop turns between them. */
export function matchAhead(entity: Entity, input: Readonly<Record<string, unknown>>): Promise<void> | undefined {
  let fields = fieldsWithPattern.get(entity);
  if (fields === undefined) {
    fields = entity.fields.filter(({ pattern, next }) => pattern !== undefined || next?.pattern !== undefined);
    fieldsWithPattern.set(entity, fields);
  }
  return fields.length === 0 ? undefined : matchEach(fields, input);
}

async function matchEach(fields: readonly Field[], input: Readonly<Record<string, unknown>>): Promise<void> {
  for (const field of fields) {
    const value = Object.hasOwn(input, field.key) ? input[field.key] : undefined;
    if (typeof value !== 'string') continue;
    for (const definition of field.next === undefined ? [field] : [field, field.next]) {
      await giveWay();
      mismatch(definition, value);
    }
  }
}

interface Compiled {
  program: RE2JS;
  /** In instructions. */
  size: number;
}

const cache = new Map<string, Compiled | string>();

/** The compiled pattern, or why it does not compile. */
function compile(source: string): Compiled | string {
  const known = cache.get(source);
  if (known !== undefined) {
    cache.delete(source);
    cache.set(source, known);
    return known;
  }
  const compiled = compileNew(source);
  cache.set(source, compiled);
  const oldest = cache.size > COMPILED_MAX ? cache.keys().next().value : undefined;
  if (oldest !== undefined) cache.delete(oldest);
  return compiled;
}

function compileNew(source: string): Compiled | string {
  const expanded = source.length > LIMITS.pattern.sourceMax ? Number.POSITIVE_INFINITY : expandedSize(source);
  if (expanded > EXPANDED_MAX) return tooLarge(`more than ${EXPANDED_MAX}`);
  try {
    const program = RE2JS.compile(source);
    const { dfa } = program.re2Input;
    dfa.maxMem = dfa.stateBudget = dfa.memBudget = STATES_BYTES;
    return { program, size: program.programSize() };
  } catch {
    return 'is not a valid pattern (RE2 syntax)';
  }
}

function tooLarge(size: string): string {
  return `has ${size} instructions, more than ${instructionsMax}; use smaller repeat counts or a simpler pattern`;
}

const LITERAL = /\\Q[\s\S]*?(?:\\E|$)/y;
const ESCAPE = /\\(?:x\{[^}]*\}|[pP]\{[^}]*\}|[pP]?[\s\S]?)/y;
const CLASS = /\[\^?\]?(?:\[:\^?[a-z]*:\]|\\[\s\S]|[^\]\\])*\]?/y;
const COUNT = /\{(\d{1,8})(?:,(\d{0,8}))?\}/y;

/** About how many instructions a pattern compiles to, with every counted repeat written out. Linear time. */
function expandedSize(source: string): number {
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
