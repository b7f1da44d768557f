// Reads the text of a `filters` parameter, a view's condition, a role's row filter or a rule's
// condition into a tree in which every name is resolved and every value has its field's type.
// Recursive descent; OR binds loosest, then AND, then NOT. A field the caller may not see is answered
// exactly like one that does not exist, so that filters are no oracle.
// Failures: 400 VALIDATION_ERROR at `path`, with the position. Contract: decisions#expressions.

import { invalidField } from '../errors.ts';
import {
  EXPRESSION_MAX_CHARACTERS,
  EXPRESSION_MAX_LEVELS,
  EXPRESSION_MAX_TERMS,
  type Expression,
  type FieldRef,
  type Names,
  type Operator,
  type Subject,
  type Value,
} from './ast.ts';
import { parseRelativeTime } from './date-time.ts';
import { Scanner, type Written } from './scan.ts';
import { expectedValue, readValue, takesOperator } from './value.ts';

const WORD_OPERATORS = {
  contains: 'contains',
  startswith: 'startsWith',
  endswith: 'endsWith',
} as const satisfies Record<string, Operator>;

/** The value of a variable that the caller has none for, such as the e-mail of a key: no comparison with it holds. */
const ABSENT = Symbol('absent');

/**
 * Reads an expression.
 * @param path names the text in the error: a parameter's name or a JSON path
 * @throws ServiceError VALIDATION_ERROR for any text that does not parse with these names
 */
export function parseExpression(text: string, names: Names, path = 'filters'): Expression {
  return new Parser(text, names, path).expression();
}

/**
 * The legacy `filter.{key}={value}`: the same as `key = "value"`.
 * @throws ServiceError VALIDATION_ERROR for an unknown or hidden field, or a value that does not fit it
 */
export function equals(key: string, value: string, names: Names, path = `filter.${key}`): Expression {
  return new Parser(key, names, path).equality(value);
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
    if (!this.scanner.done) this.scanner.fail('expected AND, OR or the end');
    return expression;
  }

  equality(text: string): Expression {
    const subject = this.subject();
    if (!this.scanner.done) this.scanner.fail('expected a field and nothing else');
    if (isLongerThan(text, EXPRESSION_MAX_CHARACTERS))
      this.scanner.refuse(`a value has at most ${EXPRESSION_MAX_CHARACTERS} characters`);
    this.allow(subject.field, '=');
    return test(subject, '=', [this.typed(subject.field, { text, quoted: true, at: 0 })]);
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
      this.scanner.fail(`an expression has at most ${EXPRESSION_MAX_LEVELS} levels; one more begins`);
    const expression = read();
    this.levels--;
    return expression;
  }

  private closed<T>(inner: T): T {
    if (!this.scanner.symbol(')')) this.scanner.fail('expected )');
    return inner;
  }

  private comparison(): Expression {
    if (++this.terms > EXPRESSION_MAX_TERMS)
      this.scanner.fail(`an expression has at most ${EXPRESSION_MAX_TERMS} terms; one more begins`);
    const subject = this.subject();
    const at = this.scanner.at;
    const symbol = this.scanner.comparison();
    if (symbol !== undefined) return this.compared(subject, symbol === '==' ? '=' : (symbol as Operator), at);
    const word = this.scanner.keyword('contains', 'startswith', 'endswith', 'in', 'is');
    if (word === 'is') return this.nullTest(subject);
    if (word === 'in') return this.listed(subject, at);
    if (word !== undefined) return this.compared(subject, WORD_OPERATORS[word], at);
    if (subject.state === 'changed') return test(subject, '=', [true]);
    return this.scanner.fail('expected an operator');
  }

  private compared(subject: Subject, operator: Operator, at: number): Expression {
    const value = this.value(subject.field);
    if (value !== null || !isEquality(operator)) this.allow(subject.field, operator, at);
    if (value === ABSENT) return test(subject, 'in', []);
    return value === null ? comparedWithNull(subject, operator) : test(subject, operator, [value]);
  }

  private nullTest(subject: Subject): Expression {
    const operator = this.scanner.keyword('not') ? 'not null' : 'null';
    if (!this.scanner.keyword('null')) this.scanner.fail('expected null');
    return test(subject, operator, []);
  }

  /** `x in (a, null)` is `x = a OR x = null`. */
  private listed(subject: Subject, at: number): Expression {
    this.allow(subject.field, 'in', at);
    if (!this.scanner.symbol('(')) this.scanner.fail('expected (');
    const values: (Value | null | typeof ABSENT)[] = [];
    do values.push(this.value(subject.field));
    while (this.scanner.symbol(','));
    this.closed(values);
    const present = values.filter((value) => value !== null && value !== ABSENT);
    const membership = test(subject, 'in', present);
    if (!values.includes(null)) return membership;
    return { kind: 'or', parts: [membership, test(subject, 'null', [])] };
  }

  private subject(): Subject {
    const at = this.scanner.at;
    const name = this.scanner.name() ?? this.scanner.fail('expected a field');
    const [prefix, ...rest] = name.split('.');
    const state = prefix === '$old' ? 'old' : prefix === '$changed' ? 'changed' : 'now';
    if (state === 'now') return this.field(name, at);
    const [key, ...more] = rest;
    const field = this.names.allowOld && key !== undefined && more.length === 0 ? this.names.field(key) : undefined;
    if (!field) return this.unknown(name);
    return { field: state === 'old' ? field : { ...field, type: 'boolean' }, state, through: null };
  }

  private field(name: string, at: number): Subject {
    const [key = '', target, ...more] = name.split('.');
    if (more.length > 0) this.scanner.fail('a relation is followed one step only', at);
    const field = this.names.field(key) ?? this.unknown(name);
    if (target === undefined) return { field, state: 'now', through: null };
    const related = field.type === 'relation' ? this.names.related(key) : undefined;
    const reached = related?.names.field(target);
    if (!related || !reached) return this.unknown(name);
    return { field: reached, state: 'now', through: { field, related } };
  }

  private unknown(name: string): never {
    return this.scanner.refuse(`unknown field "${name}"`);
  }

  private allow(field: FieldRef, operator: Operator, at?: number): void {
    if (!takesOperator(field.type, operator))
      this.scanner.fail(`a ${field.type} field cannot be compared with ${operator}`, at);
  }

  private value(field: FieldRef): Value | null | typeof ABSENT {
    const written = this.scanner.value();
    if (written.quoted) return this.typed(field, written);
    if (written.text.toLowerCase() === 'null') return null;
    if (!written.text.startsWith('$')) return this.typed(field, written);
    const text = this.variable(field, written);
    return text === null ? ABSENT : this.typed(field, { ...written, text });
  }

  private typed(field: FieldRef, written: Written): Value {
    const value = readValue(field.type, written.text);
    return value ?? this.scanner.fail(`expected ${expectedValue(field.type)}`, written.at);
  }

  private variable(field: FieldRef, { text, at }: Written): string | null {
    const { user, now } = this.names;
    if (text === '$currentUser' || text === '$currentUser.id') return user.id;
    if (text === '$currentUser.email') return user.email;
    if (text === '$currentUser.role') return user.role;
    if (text === '$currentUser.kind') return user.kind;
    const time =
      parseRelativeTime(text, now) ?? this.scanner.fail('unknown variable (quote the value if it is text)', at);
    return field.type === 'date' ? time.slice(0, 10) : time;
  }
}

function test(subject: Subject, operator: Operator, values: readonly Value[]): Expression {
  return { kind: 'test', subject, operator, values };
}

function isEquality(operator: Operator): boolean {
  return operator === '=' || operator === '!=';
}

/** `= null` and `!= null` are the null tests; any other comparison with a null never holds. */
function comparedWithNull(subject: Subject, operator: Operator): Expression {
  if (operator === '=') return test(subject, 'null', []);
  if (operator === '!=') return test(subject, 'not null', []);
  return test(subject, 'in', []);
}

/** Counts code points, but never those of a text that is too long in any case. */
function isLongerThan(text: string, characters: number): boolean {
  if (text.length <= characters) return false;
  return text.length > 2 * characters || [...text].length > characters;
}
