// Parses expressions: the `filters` parameter, conditions of views and rules, row filters of roles. Names are
// resolved and values converted to their field's type while parsing. Recursive descent; OR binds loosest,
// then AND, then NOT. A hidden field fails like one that does not exist, so that filters reveal nothing.
// Failures: 400 VALIDATION_ERROR at `path`, with the position. Contract: decisions#expressions.

import { invalidField, type Problem, ServiceError } from '../errors.ts';
import { isLongerThan } from '../runtime/text.ts';
import {
  EXPRESSION_MAX_CHARACTERS,
  EXPRESSION_MAX_LEVELS,
  EXPRESSION_MAX_TERMS,
  type Expression,
  type FieldRef,
  type Names,
  type Subject,
} from './ast.ts';
import { parseRelativeTime } from './date-time.ts';
import { Scanner, type Written } from './scan.ts';
import { BOOLEAN, DATE, type Operator, UUID, type Value } from './value-types.ts';

const WORD_OPERATORS = {
  contains: 'contains',
  startswith: 'startsWith',
  endswith: 'endsWith',
} as const satisfies Record<string, Operator>;

/** The value of a variable that the caller lacks, such as the e-mail of an API key: no comparison with it matches. */
const ABSENT = Symbol('absent');

/**
 * @param path names the expression in errors: a parameter or a JSON path
 * @throws ServiceError VALIDATION_ERROR for a text that does not parse with these names
 */
export function parseExpression(text: string, names: Names, path = 'filters'): Expression {
  return new Parser(text, names, path).expression();
}

/** The problems of an expression; none when it parses. */
export function expressionProblems(text: string, names: Names, path: string): readonly Problem[] {
  try {
    parseExpression(text, names, path);
    return [];
  } catch (error) {
    if (error instanceof ServiceError && error.details !== undefined) return error.details;
    throw error;
  }
}

/**
 * The legacy parameter `filter.{key}={value}`, equivalent to `key = "value"`.
 * @throws ServiceError VALIDATION_ERROR for an unknown or hidden field, or an invalid value
 */
export function equals(key: string, value: string, names: Names): Expression {
  return new Parser(key, names, `filter.${key}`).equality(value);
}

class Parser {
  private readonly scanner: Scanner;
  private terms = 0;
  private levels = 0;

  constructor(
    text: string,
    private readonly names: Names,
    path: string,
  ) {
    if (isLongerThan(text, EXPRESSION_MAX_CHARACTERS))
      throw invalidField(path, `an expression has at most ${EXPRESSION_MAX_CHARACTERS} characters`);
    this.scanner = new Scanner(text, path);
  }

  expression(): Expression {
    const expression = this.disjunction();
    if (!this.scanner.done) this.scanner.failAt('expected AND, OR or the end');
    return expression;
  }

  equality(text: string): Expression {
    const subject = this.subject();
    if (!this.scanner.done) this.scanner.failAt('expected a field and nothing else');
    if (isLongerThan(text, EXPRESSION_MAX_CHARACTERS))
      this.scanner.fail(`a value has at most ${EXPRESSION_MAX_CHARACTERS} characters`);
    this.allow(subject.field, '=');
    return comparisonOf(subject, '=', [this.typed(subject.field, { text, quoted: true, at: 0 })]);
  }

  private disjunction(): Expression {
    return this.chain('or', '||', () => this.conjunction());
  }

  private conjunction(): Expression {
    return this.chain('and', '&&', () => this.negation());
  }

  private chain(kind: 'and' | 'or', symbol: string, next: () => Expression): Expression {
    const first = next();
    const parts = [first];
    while (this.scanner.symbol(symbol) || this.scanner.keyword(kind)) parts.push(next());
    return parts.length > 1 ? { kind, parts } : first;
  }

  private negation(): Expression {
    if (this.scanner.not()) return this.nested(() => ({ kind: 'not', part: this.negation() }));
    if (this.scanner.symbol('(')) return this.nested(() => this.closed(this.disjunction()));
    return this.comparison();
  }

  private nested(read: () => Expression): Expression {
    if (++this.levels > EXPRESSION_MAX_LEVELS)
      this.scanner.failAt(`an expression has at most ${EXPRESSION_MAX_LEVELS} levels; one more begins`);
    const expression = read();
    this.levels--;
    return expression;
  }

  private closed<T>(inner: T): T {
    if (!this.scanner.symbol(')')) this.scanner.failAt('expected )');
    return inner;
  }

  private comparison(): Expression {
    if (++this.terms > EXPRESSION_MAX_TERMS)
      this.scanner.failAt(`an expression has at most ${EXPRESSION_MAX_TERMS} terms; one more begins`);
    const subject = this.subject();
    const at = this.scanner.at;
    const symbol = this.scanner.comparisonOperator();
    if (symbol !== undefined) return this.compareTo(subject, symbol === '==' ? '=' : (symbol as Operator), at);
    const word = this.scanner.keyword('contains', 'startswith', 'endswith', 'in', 'is');
    if (word === 'is') return this.nullTest(subject);
    if (word === 'in') return this.membership(subject, at);
    if (word !== undefined) return this.compareTo(subject, WORD_OPERATORS[word], at);
    if (subject.state === 'changed') return comparisonOf(subject, '=', [true]);
    return this.scanner.failAt('expected an operator');
  }

  private compareTo(subject: Subject, operator: Operator, at: number): Expression {
    const value = this.value(subject.field);
    if (value !== null || !isEquality(operator)) this.allow(subject.field, operator, at);
    if (value === ABSENT) return comparisonOf(subject, 'in', []);
    return value === null ? comparedWithNull(subject, operator) : comparisonOf(subject, operator, [value]);
  }

  private nullTest(subject: Subject): Expression {
    const operator = this.scanner.keyword('not') ? 'not null' : 'null';
    if (!this.scanner.keyword('null')) this.scanner.failAt('expected null');
    return comparisonOf(subject, operator, []);
  }

  /** `x in (a, null)` is `x = a OR x = null`. */
  private membership(subject: Subject, at: number): Expression {
    this.allow(subject.field, 'in', at);
    if (!this.scanner.symbol('(')) this.scanner.failAt('expected (');
    const values: (Value | null | typeof ABSENT)[] = [];
    do values.push(this.value(subject.field));
    while (this.scanner.symbol(','));
    this.closed(values);
    const present = values.filter((value) => value !== null && value !== ABSENT);
    const isMember = comparisonOf(subject, 'in', present);
    return values.includes(null) ? { kind: 'or', parts: [isMember, comparisonOf(subject, 'null', [])] } : isMember;
  }

  private subject(): Subject {
    const at = this.scanner.at;
    const name = this.scanner.name() ?? this.scanner.failAt('expected a field');
    const [prefix, ...rest] = name.split('.');
    const state = prefix === '$old' ? 'old' : prefix === '$changed' ? 'changed' : 'now';
    if (state === 'now') return this.field(name, at);
    const [key, ...more] = rest;
    const field = this.names.allowOld && key !== undefined && more.length === 0 ? this.names.field(key) : undefined;
    if (!field) return this.unknown(name);
    return { field: state === 'old' ? field : { ...field, type: 'boolean', value: BOOLEAN }, state, through: null };
  }

  private field(name: string, at: number): Subject {
    const [key = '', target, ...more] = name.split('.');
    if (more.length > 0) this.scanner.failAt('a relation is followed one step only', at);
    const field = this.names.field(key) ?? this.unknown(name);
    if (target === undefined) return { field, state: 'now', through: null };
    const related = field.value === UUID ? this.names.related(key) : undefined;
    const reached = related?.names.field(target);
    if (!related || !reached) return this.unknown(name);
    return { field: reached, state: 'now', through: { field, related } };
  }

  private unknown(name: string): never {
    return this.scanner.fail(`unknown field "${name}"`);
  }

  private allow(field: FieldRef, operator: Operator, at?: number): void {
    if (!field.value.operators.includes(operator))
      this.scanner.failAt(`a ${field.type} field cannot be compared with ${operator}`, at);
  }

  private value(field: FieldRef): Value | null | typeof ABSENT {
    const written = this.scanner.value();
    if (written.quoted) return this.typed(field, written);
    if (written.text.toLowerCase() === 'null') return null;
    if (!written.text.startsWith('$')) return this.typed(field, written);
    const text = this.variable(field, written);
    if (text === null) return ABSENT;
    const value = this.typed(field, { ...written, text });
    return this.names.keepVariable?.(written.text) ?? value;
  }

  private typed(field: FieldRef, written: Written): Value {
    const { parse, expected } = field.value;
    return parse(written.text) ?? this.scanner.failAt(`expected ${expected}`, written.at);
  }

  private variable(field: FieldRef, { text, at }: Written): string | null {
    const { user, now } = this.names;
    if (text === '$currentUser' || text === '$currentUser.id') return user.id;
    if (text === '$currentUser.email') return user.email;
    if (text === '$currentUser.role') return user.role;
    if (text === '$currentUser.kind') return user.kind;
    const time =
      parseRelativeTime(text, now) ?? this.scanner.failAt('unknown variable (quote the value if it is text)', at);
    return field.value === DATE ? time.slice(0, 10) : time;
  }
}

function comparisonOf(subject: Subject, operator: Operator, values: readonly Value[]): Expression {
  return { kind: 'comparison', subject, operator, values };
}

function isEquality(operator: Operator): boolean {
  return operator === '=' || operator === '!=';
}

/** `= null` and `!= null` test for null; any other comparison with null never matches. */
function comparedWithNull(subject: Subject, operator: Operator): Expression {
  if (operator === '=') return comparisonOf(subject, 'null', []);
  if (operator === '!=') return comparisonOf(subject, 'not null', []);
  return comparisonOf(subject, 'in', []);
}
