// Patterns of text fields, on RE2. A definition limits the number of instructions of a pattern's program, and their product
// with the characters of the longest value. Parsers match synchronously. Slow matches run before the parser, in steps or in the
// pattern thread, and the parser finds their results (`withMatches`).
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { runInThread } from '../runtime/pattern-thread.ts';
import { expandedSize, isSimple, Programs } from '../runtime/patterns/program.ts';
import { isLongerThan } from '../runtime/text.ts';
import type { Entity, Field } from './field.ts';

const { instructionsMax, stepsMax, lengthDefault } = LIMITS.pattern;
/** The most that a pattern may expand to: compiling a longer one would itself take long. */
const EXPANDED_MAX = 10_000;
const COMPILED_MAX = 400;
const SIZES_MAX = 4_000;
/**
 * Limits of instructions times characters: what a parser may match by itself (0.1 ms), and what the event loop's thread may (3
 * ms).
 */
const STEPS = { inParser: 2_000, inThisThread: 100_000 };

type Limited = Pick<Field, 'pattern' | 'maxLength'>;

/** A value, and the pattern that it will be matched against. */
export interface PatternValue extends Limited {
  value: unknown;
}

/** Why the values do not match, by value and then by pattern; undefined where one does. */
export type Matches = ReadonlyMap<string, ReadonlyMap<string, string | undefined>>;

const NONE: Matches = new Map();
/** The matches that are known to the parsers that run now. */
let current = NONE;

/** Why a definition cannot have this pattern; undefined when it can. */
export function patternProblem({ pattern, maxLength }: Limited): string | undefined {
  if (pattern === undefined) return undefined;
  const size = sizeOf(pattern);
  return typeof size === 'string' ? size : budgetProblem(size, maxLength ?? lengthDefault);
}

function budgetProblem(size: number, longest: number): string | undefined {
  if (size > instructionsMax) return tooLarge(`${size}`);
  if (size * longest <= stepsMax) return undefined;
  return (
    `has ${size} instructions, which times the longest value of ${longest} characters is more than ${stepsMax}; ` +
    `set maxLength to at most ${Math.floor(stepsMax / size)}, or simplify the pattern`
  );
}

function tooLarge(size: string): string {
  return `has ${size} instructions, more than ${instructionsMax}; use smaller repeat counts or a simpler pattern`;
}

/** Why a value does not match the field's pattern; undefined when it does, or there is none. */
export function mismatch({ pattern, maxLength }: Limited, value: string): string | undefined {
  if (pattern === undefined) return undefined;
  const longest = maxLength ?? lengthDefault;
  if (isLongerThan(value, longest)) return `must have at most ${longest} characters, since the field has a pattern`;
  const known = current.get(value);
  if (known?.has(pattern) === true) return known.get(pattern);
  const beyond = patternProblem({ pattern, maxLength });
  if (beyond !== undefined) return `cannot be checked: the pattern of the field ${beyond}`;
  return problemOf(pattern, programs.get(pattern)?.test(value) === true);
}

function problemOf(pattern: string, matches: boolean): string | undefined {
  return matches ? undefined : `must match the pattern ${pattern}`;
}

/** Runs `parse`, which parses these values or definitions with these patterns. Slow matches run before it. */
export function withMatches<T>(values: readonly PatternValue[], parse: () => T): T | Promise<T> {
  return values.every(isQuick) ? parse() : matchAhead(values).then((matches) => withKnownMatches(matches, parse));
}

/** Runs parsers of values that `matchAhead` has matched. */
export function withKnownMatches<T>(matches: Matches, parse: () => T): T {
  current = matches;
  try {
    return parse();
  } finally {
    current = NONE;
  }
}

/** Compiles the patterns and matches the values that would take a parser long; others are served meanwhile. */
export async function matchAhead(values: readonly PatternValue[]): Promise<Matches> {
  const matches = new Map<string, Map<string, string | undefined>>();
  for (const given of values) {
    if (isQuick(given)) continue;
    await giveWay();
    const { pattern = '', value } = given;
    const size = await learnSize(pattern);
    if (typeof value !== 'string' || typeof size === 'string' || isRefused(given, value, size)) continue;
    const known = matches.get(value) ?? new Map<string, string | undefined>();
    if (!known.has(pattern)) known.set(pattern, problemOf(pattern, await doesMatch(pattern, size, value)));
    matches.set(value, known);
  }
  return matches;
}

/** Whether a parser refuses the value without matching it. */
function isRefused({ maxLength }: Limited, value: string, size: number): boolean {
  const longest = maxLength ?? lengthDefault;
  return isLongerThan(value, longest) || budgetProblem(size, longest) !== undefined;
}

async function doesMatch(pattern: string, size: number, value: string): Promise<boolean> {
  if (size * value.length <= STEPS.inThisThread && isSimple(pattern))
    return programs.get(pattern)?.test(value) === true;
  return (await runInThread(pattern, value)).matches === true;
}

/** Whether a parser may compile the pattern and match the value by itself. */
function isQuick({ pattern, value }: PatternValue): boolean {
  if (pattern === undefined) return true;
  const size = sizes.get(pattern);
  if (size === undefined || typeof value !== 'string' || typeof size === 'string') return size !== undefined;
  return size * value.length <= STEPS.inParser && programs.has(pattern);
}

const fieldsWithPattern = new WeakMap<Entity, readonly Field[]>();

/** The values of a body that its fields' patterns apply to. */
export function patternValues(entity: Entity, input: Readonly<Record<string, unknown>>): PatternValue[] {
  let fields = fieldsWithPattern.get(entity);
  if (fields === undefined) {
    fields = entity.fields.filter(({ pattern, next }) => pattern !== undefined || next?.pattern !== undefined);
    fieldsWithPattern.set(entity, fields);
  }
  return fields.flatMap((field) => {
    const value = Object.hasOwn(input, field.key) ? input[field.key] : undefined;
    if (value === undefined || value === null) return [];
    return field.next === undefined ? [{ ...patternOf(field), value }] : bothDefinitions(field, field.next, value);
  });
}

function bothDefinitions(field: Limited, next: Limited, value: unknown): PatternValue[] {
  return [field, next].map((definition) => ({ ...patternOf(definition), value }));
}

function patternOf({ pattern, maxLength }: Limited): Limited {
  return { pattern, maxLength };
}

/** Sizes of programs in instructions, or the reason why a pattern has no program. */
const sizes = new Map<string, number | string>();
const programs = new Programs(COMPILED_MAX);

/** The size of a pattern's program, from the pattern thread unless it is known or compiles quickly. */
async function learnSize(source: string): Promise<number | string> {
  const known = sizes.get(source) ?? estimatedProblem(source);
  if (known !== undefined || isSimple(source)) return sizeOf(source);
  const { size } = await runInThread(source, null);
  return keepSize(source, size);
}

function sizeOf(source: string): number | string {
  const known = sizes.get(source) ?? estimatedProblem(source);
  return known ?? keepSize(source, programs.get(source)?.size ?? null);
}

/** Why the pattern will have too many instructions. */
function estimatedProblem(source: string): string | undefined {
  const isShort = source.length <= LIMITS.pattern.sourceMax;
  return isShort && expandedSize(source) <= EXPANDED_MAX ? undefined : tooLarge(`more than ${EXPANDED_MAX}`);
}

function keepSize(source: string, size: number | null): number | string {
  const kept = size ?? 'is not a valid pattern (RE2 syntax)';
  sizes.set(source, kept);
  const oldest = sizes.size > SIZES_MAX ? sizes.keys().next().value : undefined;
  if (oldest !== undefined) sizes.delete(oldest);
  return kept;
}
