// Reads the project's sources for test/house.test.ts: imports, function lengths, header comments.
// A scanner, not a parser: it blanks strings, comments and regular expressions, keeps line numbers, and
// finds function bodies by their braces. Lengths are in lines, signature and closing brace included.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

export const ROOT = new URL('../..', import.meta.url).pathname;

export interface Source {
  /** From the project's root, with forward slashes. */
  path: string;
  text: string;
  lines: number;
  /** The text with strings, comments and regular expressions blanked. */
  code: string;
  /** As written. */
  imports: string[];
}

/** All TypeScript sources under a folder of the project. */
export function sourcesIn(folder: string): Source[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .sort()
    .map((name) => read(join(folder, name)));
}

function read(path: string): Source {
  const text = readFileSync(join(ROOT, path), 'utf8');
  const lines = text.split('\n').length - 1;
  return { path, text, lines, code: blanked(text), imports: importsOf(text) };
}

function importsOf(text: string): string[] {
  const from = [...text.matchAll(/^(?:import|export)\b[^'";]*?\bfrom '([^']+)'/gm)];
  const bare = [...text.matchAll(/^import '([^']+)'/gm), ...text.matchAll(/\bimport\('([^']+)'\)/g)];
  return [...from, ...bare].map((match) => match[1] as string);
}

/** The path, from the project's root, of a relative import. */
export function resolved(source: Source, specifier: string): string {
  return relative(ROOT, join(ROOT, dirname(source.path), specifier));
}

const TOKENS = [
  /\/\/[^\n]*/y,
  /\/\*[\s\S]*?\*\//y,
  /'(?:[^'\\\n]|\\.)*'/y,
  /"(?:[^"\\\n]|\\.)*"/y,
  /(?<=(?:[(,=:[!&|?{};]|=>|return)\s*)\/(?![*/])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y,
];

/** The text with strings, comments and regular expressions replaced by spaces. */
export function blanked(text: string): string {
  let out = '';
  for (let at = 0; at < text.length; ) {
    const length = text[at] === '`' ? templateLength(text, at) : tokenLength(text, at);
    out += length === 0 ? text[at] : text.slice(at, at + length).replace(/[^\n]/g, ' ');
    at += length || 1;
  }
  return out;
}

function tokenLength(text: string, at: number): number {
  for (const token of TOKENS) {
    token.lastIndex = at;
    const match = token.exec(text);
    if (match) return match[0].length;
  }
  return 0;
}

function templateLength(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '`') {
    if (text[at] === '\\') at += 2;
    else if (text.startsWith('${', at)) at = endOfSubstitution(text, at + 2);
    else at++;
  }
  return at + 1 - start;
}

function endOfSubstitution(text: string, start: number): number {
  let depth = 1;
  let at = start;
  while (at < text.length && depth > 0) {
    const length = text[at] === '`' ? templateLength(text, at) : tokenLength(text, at);
    if (length === 0) depth += text[at] === '{' ? 1 : text[at] === '}' ? -1 : 0;
    at += length || 1;
  }
  return at;
}

export interface FunctionSize {
  where: string;
  lines: number;
}

/** Every function with a body in braces. */
export function functionsOf(source: Source): FunctionSize[] {
  const { code } = source;
  const found: FunctionSize[] = [];
  const open: (number | undefined)[] = [];
  for (let at = 0; at < code.length; at++) {
    if (code[at] === '{') open.push(startOfFunction(code, at));
    if (code[at] !== '}') continue;
    const start = open.pop();
    if (start === undefined) continue;
    const line = lineOf(code, start);
    found.push({ where: `${source.path}:${line}`, lines: lineOf(code, at) - line + 1 });
  }
  return found;
}

function lineOf(code: string, at: number): number {
  return code.slice(0, at).split('\n').length;
}

/** The start of the function whose body opens at `brace`; undefined if it is not a function. */
function startOfFunction(code: string, brace: number): number | undefined {
  const before = code.slice(0, brace).trimEnd();
  if (before.endsWith('=>')) return before.length;
  const close = endOfParameters(code, before.length);
  if (close === undefined) return undefined;
  const start = opening(code, close);
  const word = /(\w+)\s*$/.exec(code.slice(0, start))?.[1] ?? '';
  return ['if', 'for', 'while', 'switch', 'catch', 'await'].includes(word) ? undefined : start;
}

/** The `)` before a body; skips a return type. */
function endOfParameters(code: string, end: number): number | undefined {
  let at = end - 1;
  if (code[at] === ')') return at;
  if (/[|&:]/.test(code[at] as string)) return undefined;
  for (; at >= 0 && code[at] !== ')'; at--) {
    if (/[;=(,{[<]/.test(code[at] as string) && !code.startsWith('=>', at)) return undefined;
    if (/[}\]]/.test(code[at] as string)) at = opening(code, at);
    else if (code[at] === '>' && code[at - 1] !== '=') at = openingAngle(code, at);
  }
  const between = code.slice(at, end);
  // A class or a block after another function's body is not a return type.
  if (/\b(class|interface|enum|try|else|finally|do|static)\b/.test(between)) return undefined;
  return /^\)\s*:\s*\S/.test(between) ? at : undefined;
}

function opening(code: string, close: number): number {
  let depth = 0;
  for (let at = close; at >= 0; at--) {
    if (')]}'.includes(code[at] as string)) depth++;
    if ('([{'.includes(code[at] as string) && --depth === 0) return at;
  }
  return 0;
}

function openingAngle(code: string, close: number): number {
  let depth = 0;
  for (let at = close; at >= 0; at--) {
    if (code[at] === '>' && code[at - 1] !== '=') depth++;
    if (code[at] === '<' && --depth === 0) return at;
  }
  return 0;
}
