// Reads a request body member by member, so that an operation names every problem at once. Members
// that nobody reads are ignored, unless they are refused with `refuseOthers` or `strangers`. Rules say in
// words what they accept; `done` throws the 400.
// Contract: decisions#answers.
import { invalid, type Problem } from '../errors.ts';
import type { JsonObject } from '../runtime/text.ts';

/** What a member may hold; `words` complete "<name> ...". */
export interface Rule<T> {
  accepts(value: unknown): value is T;
  words: string;
}

export class Input {
  readonly #problems: Problem[] = [];
  readonly #read: string[] = [];

  constructor(private readonly body: JsonObject) {}

  /** The member's value; a problem when it is missing or wrong. Trust it only after `done`. */
  required<T>(name: string, rule: Rule<T>): T {
    const value = this.#own(name);
    if (!rule.accepts(value)) this.problem(name, value === undefined ? `is required: ${rule.words}` : rule.words);
    return value as T;
  }

  /** The same where the member may be left out, or null. */
  optional<T>(name: string, rule: Rule<T>): T | undefined {
    const value = this.#own(name);
    return value === undefined || value === null ? undefined : this.required(name, rule);
  }

  problem(path: string, message: string): void {
    this.#problems.push({ path, message });
  }

  /** A problem for each member that has neither been read nor may be sent without meaning anything. */
  refuseOthers(idle: readonly string[] = []): void {
    this.#problems.push(...strangers(this.body, [...this.#read, ...idle]));
  }

  /** Throws 400 with all problems found so far. */
  done(): void {
    if (this.#problems.length > 0) throw invalid(this.#problems);
  }

  #own(name: string): unknown {
    this.#read.push(name);
    return Object.hasOwn(this.body, name) ? this.body[name] : undefined;
  }
}

/** A problem for each member that is none of the known ones, where one misspelt must not pass for one left out. */
export function strangers(
  object: JsonObject,
  known: readonly string[],
  words = 'is not accepted here',
  prefix = '',
): Problem[] {
  const strange = Object.keys(object).filter((name) => !known.includes(name));
  return strange.map((name) => ({ path: prefix + name.slice(0, 200), message: words }));
}

/** A text of 1 to `max` characters that is not blank. */
export function text(max: number): Rule<string> {
  return {
    accepts: (value): value is string => typeof value === 'string' && value.trim() !== '' && value.length <= max,
    words: `must be a text of 1 to ${max} characters`,
  };
}

export function matching(pattern: RegExp): Rule<string> {
  return {
    accepts: (value): value is string => typeof value === 'string' && pattern.test(value),
    words: `must match ${pattern.source}`,
  };
}

export function wholeNumber(min: number, max: number): Rule<number> {
  return {
    accepts: (value): value is number => Number.isInteger(value) && Number(value) >= min && Number(value) <= max,
    words: `must be a whole number from ${min} to ${max}`,
  };
}

/** A list of different texts, each of which the test lets through; `min` to `max` of them. */
export function texts(min: number, max: number, isFit: (text: string) => boolean, words: string): Rule<string[]> {
  return {
    accepts: (value): value is string[] =>
      Array.isArray(value) &&
      value.length >= min &&
      value.length <= max &&
      value.every((item) => typeof item === 'string' && isFit(item)) &&
      new Set(value).size === value.length,
    words,
  };
}

/** A list of words out of a closed set, at least one. */
export function someOf<T extends string>(allowed: readonly T[]): Rule<T[]> {
  const isAllowed = (word: string): boolean => (allowed as readonly string[]).includes(word);
  return texts(1, allowed.length, isAllowed, `must be a list of one or more of ${allowed.join(', ')}`) as Rule<T[]>;
}

export const OBJECT: Rule<JsonObject> = {
  accepts: (value): value is JsonObject => value !== null && typeof value === 'object' && !Array.isArray(value),
  words: 'must be an object',
};

/** One word out of a closed set. */
export function oneOf<T extends string>(allowed: readonly T[]): Rule<T> {
  return {
    accepts: (value): value is T => (allowed as readonly unknown[]).includes(value),
    words: `must be one of ${allowed.join(', ')}`,
  };
}

/** An ISO 8601 time to come. */
export const FUTURE: Rule<string> = {
  accepts: (value): value is string =>
    typeof value === 'string' && /^\d{4}-\d{2}-\d{2}/.test(value) && Date.parse(value) > Date.now(),
  words: 'must be an ISO 8601 timestamp in the future',
};
