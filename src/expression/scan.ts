// Scans an expression for the parser. Tokens depend on context (`and` is a valid value, `a=b` has no spaces),
// so the parser asks for the token that it expects next. Every pattern is anchored at the current position and
// does not backtrack: linear time. Failures: 400 with the position, counted from 1. Contract: decisions#expressions.

import { invalidField } from '../errors.ts';

const SPACE = /[ \t\r\n]*/y;
const NAME = /\$?[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*/y;
const WORD = /[A-Za-z]+/y;
const COMPARISON = /==|=|!=|<=|>=|<|>/y;
const BARE = /[^ \t\r\n(),'"=<>!&|][^ \t\r\n),]*/y;
const QUOTED = /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'/y;
const ESCAPE = /\\(u[0-9a-fA-F]{4}|[\s\S])/g;
const ESCAPED: Readonly<Record<string, string>> = {
  '"': '"',
  "'": "'",
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/** A value as written: its text without quotes and escapes, and where it begins. */
export interface Written {
  text: string;
  quoted: boolean;
  at: number;
}

export class Scanner {
  at = 0;

  constructor(
    private readonly text: string,
    private readonly path: string,
  ) {
    this.skip();
  }

  get done(): boolean {
    return this.at === this.text.length;
  }

  failAt(message: string, at = this.at): never {
    throw invalidField(this.path, `${message} at character ${at + 1}`);
  }

  fail(message: string): never {
    throw invalidField(this.path, message);
  }

  /** The name of a field, which may contain dots. */
  name(): string | undefined {
    return this.take(NAME);
  }

  /** `=`, `==`, `!=`, `<`, `>`, `<=` or `>=`. */
  comparisonOperator(): string | undefined {
    return this.take(COMPARISON);
  }

  /** Consumes this symbol if it is next. */
  symbol(symbol: string): boolean {
    if (!this.text.startsWith(symbol, this.at)) return false;
    this.advance(symbol.length);
    return true;
  }

  /** Consumes one of these lower-case keywords, in any case, if it is next. */
  keyword<K extends string>(...keywords: readonly K[]): K | undefined {
    const word = this.match(WORD)?.toLowerCase();
    const keyword = keywords.find((candidate) => candidate === word);
    if (keyword !== undefined && this.isWord(keyword.length)) {
      this.advance(keyword.length);
      return keyword;
    }
    return undefined;
  }

  /** Consumes `not` or `!`, unless `not` is the name of a field: `not = 1`. */
  not(): boolean {
    const start = this.at;
    if (this.text[start] === '!') return this.symbol('!');
    if (this.keyword('not') === undefined) return false;
    if (this.match(COMPARISON) === undefined) return true;
    this.at = start;
    return false;
  }

  /** A quoted string or a bare word; a bare word ends at a space, a `)` or a comma. */
  value(): Written {
    const at = this.at;
    const bare = this.take(BARE);
    if (bare !== undefined) return { text: bare, quoted: false, at };
    const quoted = this.take(QUOTED);
    if (quoted === undefined)
      this.failAt(/['"]/y.test(this.text[at] ?? '') ? 'unclosed string' : 'expected a value', at);
    return { text: this.unescape(quoted.slice(1, -1), at), quoted: true, at };
  }

  private unescape(body: string, at: number): string {
    return body.replace(ESCAPE, (whole, code: string) => {
      if (code.length === 5) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
      return ESCAPED[code] ?? this.failAt(`unknown escape ${whole} in the string`, at);
    });
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text)?.[0];
  }

  private take(pattern: RegExp): string | undefined {
    const found = this.match(pattern);
    if (found !== undefined) this.advance(found.length);
    return found;
  }

  private isWord(length: number): boolean {
    return !/[A-Za-z0-9_.$]/.test(this.text[this.at + length] ?? '');
  }

  private advance(length: number): void {
    this.at += length;
    this.skip();
  }

  private skip(): void {
    this.at += this.match(SPACE)?.length ?? 0;
  }
}
