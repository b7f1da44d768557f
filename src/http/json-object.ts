// Parses a JSON object, and refuses what JSON.parse accepts but the service does not: deep nesting, duplicate or dangerous
// names, strings that Postgres cannot store, numbers out of range. The text is scanned before it is parsed, since parsing many
// different names or deep nesting takes long. Takes linear time: each of the three steps takes up to 15 ms for 1 MiB.
// Contract: decisions#responses, neighbours#fair-shares.
import { randomInt } from 'node:crypto';
import type { Problem } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { type JsonObject, textProblem } from '../runtime/text.ts';

const { depthMax, namesMax } = LIMITS.json;
const PROBLEMS_MAX = 20;
/** Allowances for levels of nesting and for different names: none. */
const NOTHING = { levels: 0, names: 0 };

type Parsed = { value: JsonObject } | { problems: readonly Problem[] };

/** A text of this many characters takes long enough to parse that it takes turns. */
const LONG = 16_384;

/**
 * The object, or its problems. The path `body` stands for the whole text; `around` is what does not count towards the limits.
 * While a long text is parsed, the event loop runs between the steps.
 */
export async function parseObject(text: string, around = NOTHING): Promise<Parsed> {
  const steps = parsing(text, around);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (text.length >= LONG) await giveWay();
  }
}

/** Yields between its steps. */
function* parsing(text: string, around: typeof NOTHING): Generator<void, Parsed> {
  const shape = scan(text, around);
  if ('problem' in shape) return problem(shape.problem);
  yield;
  const value = parse(text);
  if (value === undefined) return problem('is not valid JSON');
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return problem('must be a JSON object');
  yield;
  const inspection = new Inspection();
  inspection.object(value);
  const { problems, members } = inspection;
  if (problems.length > 0) return { problems };
  return members === shape.members ? { value: value as JsonObject } : problem('has a duplicate member');
}

/** Any JSON value, with the same limits of depth and names; undefined if the text is not JSON. */
export function parseValue(text: string): unknown {
  return 'problem' in scan(text) ? undefined : parse(text);
}

function problem(message: string): Parsed {
  return { problems: [{ path: 'body', message }] };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

class Inspection {
  readonly problems: Problem[] = [];
  members = 0;
  /** The names and indexes that lead to the current value. */
  readonly #path: (string | number)[] = [];

  object(value: object): void {
    if (Array.isArray(value)) for (let i = 0; i < value.length; i++) this.#member(i, value[i]);
    else {
      for (const name of Object.keys(value)) {
        this.members += 1;
        const unfit = name === '__proto__' ? 'is not allowed as a name' : textProblem(name);
        if (unfit !== undefined) this.#report(name, unfit);
        else this.#member(name, (value as JsonObject)[name]);
      }
    }
  }

  #member(name: string | number, value: unknown): void {
    if (typeof value === 'string') {
      const unfit = textProblem(value);
      if (unfit !== undefined) this.#report(name, unfit);
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value)) this.#report(name, 'is a number out of range');
    } else if (value !== null && typeof value === 'object' && this.problems.length < PROBLEMS_MAX) {
      this.#path.push(name);
      this.object(value);
      this.#path.pop();
    }
  }

  #report(name: string | number, message: string): void {
    if (this.problems.length >= PROBLEMS_MAX) return;
    this.problems.push({ path: printable([...this.#path, name].join('.')), message });
  }
}

function printable(path: string): string {
  return path.slice(0, 400).toWellFormed().replaceAll('\0', '\\0').slice(0, 200);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** The number of members in the text: colons outside strings. If parsing finds fewer, a name is duplicated. */
function scan(text: string, around = NOTHING): { members: number } | { problem: string } {
  let members = 0;
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = endOfString(text, i);
    else if (code === COLON) members += 1;
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > depthMax + around.levels) return { problem: `is nested deeper than ${depthMax} levels` };
    } else if (code === 0x7d || code === 0x5d) depth -= 1;
  }
  if (members <= namesMax || differentNames(text) <= namesMax + around.names) return { members };
  return { problem: `has more than ${namesMax} different names; send it in parts` };
}

/** The index of the closing quote; the end of the text without one. */
function endOfString(text: string, start: number): number {
  let i = start + 1;
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) return i;
    if (code === BACKSLASH) i += 1;
  }
  return i;
}

/** A secret, so that nobody can write a text whose names all have the same hash. */
const FACTOR = randomInt(0x4000_0000) * 2 + 1;
const HASH_BITS = 22;

/** The approximate number of different names, by their hashes: never too high. */
function differentNames(text: string): number {
  const seen = new Uint8Array(1 << (HASH_BITS - 3));
  let count = 0;
  let hash = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const end = endOfString(text, i);
      hash = 0;
      for (let at = i + 1; at < end; at++) hash = (Math.imul(hash, FACTOR) + text.charCodeAt(at)) | 0;
      i = end;
    } else if (code === COLON) {
      const bit = Math.imul(hash ^ (hash >>> 15), 0x9e37_79b1) >>> (32 - HASH_BITS);
      const mask = 1 << (bit & 7);
      if (((seen[bit >> 3] as number) & mask) === 0) count += 1;
      seen[bit >> 3] = (seen[bit >> 3] as number) | mask;
    }
  }
  return count;
}
