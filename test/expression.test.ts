// The expression language: what parses, what is refused with which message, canonical keys, and the compiled
// SQL. test/agreement.test.ts tests that both back ends agree.
// Contract: decisions#expressions.

import { expect, test } from 'bun:test';
import fc from 'fast-check';
import type { FieldType } from '../src/entities/field.ts';
import { fieldRef } from '../src/entities/field-types.ts';
import { ServiceError } from '../src/errors.ts';
import {
  and,
  canonicalKey,
  type FieldRef,
  type Names,
  relationKeys,
  type StoredRow,
  SYSTEM_FIELDS,
} from '../src/expression/ast.ts';
import { foldCase, foldingTranslation } from '../src/expression/case-folding.ts';
import { compareDecimal, compareText } from '../src/expression/compare.ts';
import { evaluate } from '../src/expression/evaluate.ts';
import { equals, parseExpression } from '../src/expression/parse.ts';
import { columnOf, toSql } from '../src/expression/to-sql.ts';
import { compile, identifier, raw } from '../src/runtime/sql.ts';
import { durationOf, fastest } from './support/timing.ts';

/** The random texts and numbers are the same on every run; another seed gives others. */
const seed = Number(process.env.EXPRESSION_SEED ?? 1);

const ID = '018f0000-0000-7000-8000-00000000000a';
const TYPES: Record<string, FieldType> = {
  ...{ name: 'text', not: 'text', status: 'select', tags: 'multiselect', age: 'integer', score: 'number' },
  ...{ price: 'decimal', active: 'boolean', born: 'date', seen: 'datetime', extra: 'json', code: 'uuid' },
  ...{ owner: 'relation', locked: 'relation', members: 'relations' },
};
const fields = new Map<string, FieldRef>(Object.entries(SYSTEM_FIELDS));
for (const [i, [key, type]] of Object.entries(TYPES).entries())
  fields.set(key, fieldRef({ key, type, slot: `f${i + 1}` }));

const names: Names = {
  field: (key) => (key === 'hidden' ? undefined : fields.get(key)),
  related: (key) => (key === 'locked' ? undefined : { table: identifier('t', 'people'), names, rowFilter: null }),
  user: { id: ID, email: null, role: 'editor', kind: 'user' },
  now: new Date('2026-11-21T05:47:44.000Z'),
};

function record(values: Record<string, unknown> = {}): StoredRow {
  const data = Object.fromEntries(Object.entries(values).map(([key, value]) => [fields.get(key)?.slot ?? key, value]));
  const times = { createdAt: '2026-11-20T00:00:00.000Z', updatedAt: '2026-11-21T00:00:00.000Z' };
  return { id: ID, entityId: ID, ...times, createdBy: null, updatedBy: 'é', data };
}

function holds(text: string, values: Record<string, unknown> = {}): boolean {
  return evaluate(parseExpression(text, names), record(values));
}

function refusal(text: string, within = names): string {
  try {
    parseExpression(text, within);
  } catch (error) {
    if (error instanceof ServiceError && error.ecode === 'VALIDATION_ERROR') return error.details?.[0]?.message ?? '';
    throw error;
  }
  throw new Error(`accepted: ${text}`);
}

test.each<[string, Record<string, unknown>]>([
  ['age = 5', { age: 5 }],
  ['age=="5"', { age: 5 }],
  ['age>4 &&age<=5.0', { age: 5 }],
  ["name = 'it\\'s'", { name: "it's" }],
  ['name = "\\u00e9\\n\\\\"', { name: 'é\n\\' }],
  ['name = 5', { name: '5' }],
  ['name = true', { name: 'true' }],
  ['name = "null"', { name: 'null' }],
  ['name = a-b.c:d@e/f+g_h%', { name: 'a-b.c:d@e/f+g_h%' }],
  ['(name = a)or(name = b)', { name: 'b' }],
  ['name IN (a, "b, c" ,d)', { name: 'b, c' }],
  ['name in (a, null)', {}],
  ['name Contains ÉTÉ', { name: 'un été' }],
  ['name contains istanbul', { name: 'İSTANBUL' }],
  ['name contains "ΟΔΟΣ"', { name: 'η οδος' }],
  ['name startsWith Ab AND NOT name startsWith ab', { name: 'Abc' }],
  ['name endswith "%"', { name: '50%' }],
  ['not = x AND NOT not = y', { not: 'x' }],
  ['!name = a', { name: 'b' }],
  ['!(name = a) and ! active = true', { name: 'b', active: false }],
  ['age = 1 or age = 2 and name = a', { age: 1 }],
  ['NOT age = 1 AND age = 2', { age: 2 }],
  ['tags contains red and tags != null', { tags: ['red'] }],
  ['tags is not null', { tags: [] }],
  ['active = TRUE', { active: true }],
  ['price = 12.5 and price < 1e3 and price > 1.2e-3', { price: '12.500' }],
  ['born = $now and born > $now-1w', { born: '2026-11-21' }],
  ['seen > $now-7d and seen < $now+1s', { seen: '2026-11-21T05:47:44.000Z' }],
  ['seen = 2026-11-21T06:00:00+01:00', { seen: '2026-11-21T05:00:00.000Z' }],
  ['seen = 2026-11-21', { seen: '2026-11-21T00:00:00.000Z' }],
  ['owner = $currentUser and name = $currentUser.role', { owner: ID, name: 'editor' }],
  [`code = ${ID.toUpperCase()}`, { code: ID }],
  ['createdBy is null and updatedBy contains É and createdAt < 2026-11-21', {}],
  ['status = "no such option" or extra is null', {}],
])('%s is true for a matching record', (text, values) => {
  expect(holds(text, values)).toBe(true);
});

test('a comparison of null is false, except != with a value; NOT is plain negation', () => {
  expect(holds('age = 1')).toBe(false);
  expect(holds('age != 1')).toBe(true);
  expect(holds('NOT age < 1')).toBe(true);
  expect(holds('age > null', { age: 1 })).toBe(false);
  expect(holds('NOT age > null', { age: 1 })).toBe(true);
  expect(holds('age != null', { age: 1 })).toBe(true);
});

test('a comparison with a variable without a value is false, so a row filter fails closed', () => {
  for (const operator of ['=', '!=', '<', 'contains']) {
    expect(holds(`name ${operator} $currentUser.email`)).toBe(false);
    expect(holds(`name ${operator} $currentUser.email`, { name: 'a' })).toBe(false);
  }
  expect(holds('name in ($currentUser.email)')).toBe(false);
  expect(holds('name in ($currentUser.email, a)', { name: 'a' })).toBe(true);
});

test('a relation is followed one step; an empty one is null, a hidden target matches nothing', () => {
  const owner = record({ name: 'Ann' });
  const via = (text: string, values: Record<string, unknown>, target?: StoredRow) =>
    evaluate(parseExpression(text, names), record(values), { related: () => target });
  expect(via('owner.name = Ann', { owner: ID }, owner)).toBe(true);
  expect(via('owner.name is null and owner.name != Ann', {})).toBe(true);
  for (const operator of ['= Ann', '!= Ann', 'is null', 'is not null'])
    expect(via(`owner.name ${operator}`, { owner: ID })).toBe(false);
  expect(() => holds('owner.name = Ann', { owner: ID })).toThrow('related rows');
});

test('only rules may use the record before the change and the changed fields', () => {
  const rules = { ...names, allowOld: true };
  const tree = parseExpression('$old.age < 5 and $changed.age and $changed.name = false and age >= 5', rules);
  const changed = (key: string) => key === 'age';
  expect(evaluate(tree, record({ age: 5 }), { old: record({ age: 4 }), changed })).toBe(true);
  expect(evaluate(tree, record({ age: 5 }), { old: null, changed })).toBe(false);
  expect(refusal('$old.hidden = 1', rules)).toBe('unknown field "$old.hidden"');
  expect(refusal('$old.age = 1')).toBe('unknown field "$old.age"');
  expect(() => toSql(tree, raw('r'))).toThrow('$old');
});

test('a hidden field is refused with the message for an unknown one', () => {
  expect(refusal('hidden = 1')).toBe('unknown field "hidden"');
  expect(refusal('nothing = 1')).toBe('unknown field "nothing"');
  for (const name of ['locked.name', 'owner.hidden', 'owner.nothing', 'name.x', 'members.name', 'hidden.x'])
    expect(refusal(`age = 1 and ${name} = 1`)).toBe(`unknown field "${name}"`);
});

test.each([
  ...['', ' ', 'age', 'age =', 'age = 5 6', 'age = abc', 'age = 1e400', 'age = Infinity', 'age = NaN', 'age = 05'],
  ...['age = 0x10', 'age = ""', 'price = 1e1001', 'price = 1.', 'active = yes', 'active > false', 'active contains t'],
  ...['extra = 1', 'extra > null', 'tags = red', 'tags in (red)', 'members contains x', 'age contains 5', 'code = x'],
  ...['owner = x', 'id = 1', 'born = 2026-02-30', 'born = 2026-11-21T00:00:00Z', 'born = 0000-01-01', 'seen = noon'],
  ...['seen = 2026-11-21T10:00:00', 'seen = 2026-11-21T24:00:00Z', 'seen = 2026-11-21T23:59:60Z'],
  ...['seen = 9999-12-31T23:59:59-01:00', 'seen = $now-999999999w', 'seen = $now-7y', 'age = $now', 'name = $nobody'],
  ...['name in ()', 'name in (a,)', 'name in a', 'name in (a', '(age = 1', 'age = 1)', 'age is 5', 'age is not 5'],
  ...[
    'name = "a',
    "name = 'a\\'",
    'name = "\\x"',
    'name = "\\u0000"',
    'name = "\\ud800"',
    'name = a\0',
    'name = a\ud800',
  ],
  ...['name = =a', 'name <> a', 'name like a', 'name search a', 'a.b.c = 1', 'owner.name.x = 1', 'NOT', 'age = 1 AND'],
])('%j is refused', (text) => {
  expect(refusal(text)).not.toBe('');
});

test('an error names its parameter and position', () => {
  expect(() => parseExpression('age = 1 and age = abc', names, 'rowFilter')).toThrow(
    'rowFilter: expected a number at character 19',
  );
});

test('an expression has at most 2,000 characters, 50 terms and 10 levels', () => {
  const terms = (count: number) => Array(count).fill('age = 1').join(' or ');
  const levels = (count: number) => `${'('.repeat(count)}age = 1${')'.repeat(count)}`;
  const characters = (count: number) => `name = ${'😀'.repeat(count - 7)}`;
  for (const fine of [terms(50), levels(10), `${'!'.repeat(10)}age = 1`, characters(2_000)])
    expect(() => parseExpression(fine, names)).not.toThrow();
  expect(refusal(terms(51))).toContain('at most 50 terms');
  for (const deep of [levels(11), `${'!'.repeat(11)}age = 1`, '('.repeat(2_000)])
    expect(refusal(deep)).toContain('10 levels');
  for (const long of [characters(2_001), ' '.repeat(1e6)]) expect(refusal(long)).toContain('2000 characters');
});

test('filter.{key} is key = "value"', () => {
  expect(equals('age', '5', names)).toEqual(parseExpression('age = "5"', names));
  expect(equals('name', 'null', names)).toEqual(parseExpression('name = "null"', names));
  expect(() => equals('hidden', '5', names)).toThrow('filter.hidden: unknown field "hidden"');
  for (const [key, value] of [
    ['age', 'x'],
    ['tags', 'x'],
    ['name', '\0'],
    ['age or age', '5'],
    ['', '5'],
  ] as const)
    expect(() => equals(key, value, names)).toThrow(ServiceError);
});

test('every text either parses or is a VALIDATION_ERROR, within 5 ms', async () => {
  const pieces = [
    'name',
    'age',
    'owner.name',
    '$old.x',
    '(',
    ')',
    '!',
    'not',
    'and',
    '||',
    '=',
    'in',
    'is',
    'null',
    ',',
    '"',
    "'",
  ];
  const soup = fc
    .array(fc.oneof(fc.constantFrom(...pieces, '\\', ' ', '5', '$now'), fc.string({ unit: 'binary' })))
    .map((parts) => parts.join(' '));
  const outcome = (text: string) => {
    try {
      toSql(parseExpression(text, names), raw('r'));
    } catch (error) {
      expect(error).toBeInstanceOf(ServiceError);
    }
  };
  fc.assert(fc.property(fc.oneof(soup, fc.string({ unit: 'binary', maxLength: 2_100 })), outcome), {
    numRuns: 20_000,
    seed,
  });
  const heavy = [
    Array(50).fill('name contains "éÉıK-xyzabcdefg"').join(' or '),
    `name in (${Array(990).fill('a').join(',')})`,
    `name = "${'\\u00e9'.repeat(330)}"`,
    `name = "${'\\"'.repeat(995)}`,
    `price = ${'0.'}${'0'.repeat(1_980)}1`,
    '!'.repeat(2_000),
  ];
  for (const text of heavy) {
    expect(await fastest(5, () => durationOf(() => outcome(text)), 50)).toBeLessThan(5);
  }
});

test('a comparison compiles to bare SQL on the indexed column, with bound values', () => {
  const where = (text: string) => compile(toSql(parseExpression(text, names), raw('r')));
  expect(where('name = "x\' or 1=1"')).toEqual({
    text: `(r.data->>'f1') collate "C" = $1::text`,
    parameters: ["x' or 1=1"],
  });
  expect(where('age >= 5').text).toBe(`(r.data->'f5')::numeric >= $1::numeric`);
  expect(where('name startsWith ab').text).toBe(
    `((r.data->>'f1') collate "C" >= $1::text and (r.data->>'f1') collate "C" < $2::text)`,
  );
  expect(where('NOT (age = 1 OR active = true)').text).toBe(
    `((r.data->'f5')::numeric is distinct from $1::numeric and (r.data->'f8')::boolean is distinct from $2::boolean)`,
  );
  expect(compile(columnOf(fields.get('price') as FieldRef)).text).toBe(`(data->>'f7')::numeric`);
});

test('an expression lists its relations, and its canonical key distinguishes expressions', () => {
  const tree = parseExpression('owner.name = a and age > 1 and not owner.age = 2 and age < 9', names);
  expect(relationKeys(tree)).toEqual(['owner']);
  expect(and(null, null)).toBeNull();
  expect(and(null, tree)).toBe(tree);
  const texts = [
    'name = a',
    'name = "a,b"',
    'name in (a,b)',
    'name in ("a,b")',
    'name != a',
    'NOT name = a',
    'score = 1',
  ];
  const more = [
    'name = 1',
    'owner.name = a',
    'name is null',
    'name > null',
    'age = 1 and age = 2',
    'age = 1 or age = 2',
  ];
  const keys = [...texts, ...more].map((text) => canonicalKey(parseExpression(text, names)));
  expect(new Set(keys).size).toBe(keys.length);
  expect(canonicalKey(parseExpression('name   ==   "a"', names))).toBe(keys[0] ?? '');
});

test('folding is idempotent, and a variant folds to its letter', () => {
  for (let point = 0; point <= 0x10ffff; point++) {
    const letter = String.fromCodePoint(point);
    const folded = foldCase(letter);
    if (foldCase(folded) !== folded) throw new Error(`U+${point.toString(16)} folds twice`);
    if ([...folded].length !== 1) throw new Error(`U+${point.toString(16)} changes length`);
    if (folded !== letter && !foldingTranslation(folded).from.includes(letter))
      throw new Error(`U+${point.toString(16)} is lost`);
  }
});

test('text is ordered by code point and decimals by value', () => {
  const points = fc.string({ unit: 'binary' });
  fc.assert(
    fc.property(points, points, (a, b) => {
      expect(Math.sign(compareText(a, b))).toBe(Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b))));
    }),
    { seed },
  );
  const scaled = (value: bigint) =>
    `${value < 0n ? '-' : ''}${String(value < 0n ? -value : value)
      .padStart(6, '0')
      .replace(/(.{5})$/, '.$1')}`;
  fc.assert(
    fc.property(fc.bigInt(), fc.bigInt(), (a, b) => {
      expect(Math.sign(compareDecimal(scaled(a), scaled(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
      expect(compareDecimal(scaled(a), `${scaled(a)}000`) === 0).toBe(true);
    }),
    { seed },
  );
});
