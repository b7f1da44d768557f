// The filter builder: reading what it writes gives the same tree, its types are the service's, and in Chromium the
// builder, the chips and the text are one condition. Contract: interface#console, decisions#expressions.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Page } from 'playwright-core';
import type { Entity, FieldType } from '../console/api/answers.ts';
import { completionAt } from '../console/filter/completion.ts';
import { VALUE_TYPES } from '../console/filter/names.ts';
import { type Operand, printTree, readTree, type Term, type Tree } from '../console/filter/tree.ts';
import { choicesOf, operatorsOf, sayTree } from '../console/filter/words.ts';
import { FIELD_TYPES } from '../src/entities/field-types.ts';
import { axe, browserTest, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const field = (key: string, type: FieldType, entity: string | null = null) => ({
  id: key,
  key,
  type,
  label: null,
  description: null,
  required: false,
  unique: false,
  indexed: false,
  entity,
});
const make = (name: string, fields: Entity['fields']): Entity => ({
  id: name,
  name,
  label: null,
  description: null,
  fields,
});
const PEOPLE = make('people', [field('title', 'text'), field('age', 'integer')]);
const DEALS = make('deals', [
  ...(Object.keys(FIELD_TYPES) as FieldType[])
    .filter((type) => type !== 'relation')
    .map((type) => field(`a_${type}`, type)),
  field('owner', 'relation', 'people'),
  field('and', 'text'),
  field('null', 'number'),
]);
const ENTITIES = [DEALS, PEOPLE];
const CHOICES = choicesOf(DEALS, ENTITIES, true);

const quoted = (text: string): Operand => ({ text, form: 'quoted' });
const bare = (text: string): Operand => ({ text, form: 'bare' });
const relative = fc
  .tuple(fc.constantFrom('+', '-'), fc.nat(9_999), fc.constantFrom(...'smhdw'))
  .map((parts): Operand => ({ text: `$now${parts.join('')}`, form: 'variable' }));
const me: fc.Arbitrary<Operand> = fc.constantFrom({ text: '$currentUser.id', form: 'variable' } as const);
const texts = fc
  .string({ unit: 'grapheme' })
  .filter((text) => !text.includes('\0'))
  .map(quoted);
const days = fc.date({ min: new Date('1000-01-01'), max: new Date('9000-01-01'), noInvalidDate: true });
const uuids = fc.uuid().map(quoted);

const OPERANDS: Readonly<Record<FieldType, fc.Arbitrary<Operand>>> = {
  text: fc.oneof(texts, me),
  email: texts,
  url: texts,
  select: texts,
  multiselect: texts,
  uuid: fc.oneof(uuids, me),
  relation: fc.oneof(uuids, me),
  relations: uuids,
  integer: fc.maxSafeInteger().map((number) => bare(String(number))),
  number: fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => bare(String(number))),
  decimal: fc.tuple(fc.maxSafeNat(), fc.nat(999)).map(([whole, part]) => bare(`${whole}.${part}`)),
  boolean: fc.boolean().map((value) => bare(String(value))),
  date: fc.oneof(
    days.map((day) => quoted(day.toISOString().slice(0, 10))),
    relative,
  ),
  datetime: fc.oneof(
    days.map((day) => quoted(day.toISOString())),
    relative,
  ),
  json: texts,
};

const terms: fc.Arbitrary<Term> = fc.constantFrom(...CHOICES).chain(({ path, field: { type } }) =>
  fc.constantFrom(...VALUE_TYPES[type].operators).chain((operator) => {
    const count = operator === 'in' ? { minLength: 1, maxLength: 3 } : { minLength: 1, maxLength: 1 };
    const operands = operator.endsWith('null') ? fc.constant([]) : fc.array(OPERANDS[type], count);
    return operands.map((list): Term => ({ kind: 'term', path, operator, operands: list }));
  }),
);
const trees = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    terms,
    fc.record({
      kind: fc.constantFrom('and' as const, 'or' as const),
      parts: fc.array(tie('tree'), { minLength: 2, maxLength: 3 }),
    }),
    fc.record({ kind: fc.constant('not' as const), part: tie('tree') }),
  ),
})).tree;

test('reading the text of a tree gives the same tree', () => {
  fc.assert(
    fc.property(trees, (tree) => {
      const text = printTree(tree);
      fc.pre([...text].length <= 2_000);
      expect(readTree(text, DEALS, ENTITIES, true)).toEqual({ tree });
    }),
    { numRuns: 2_000 },
  );
});

test('the types of the builder are those of the service', () => {
  for (const [type, { value }] of Object.entries(FIELD_TYPES)) {
    expect(VALUE_TYPES[type as FieldType]).toBe(value);
    expect(operatorsOf(type as FieldType).length).toBeGreaterThan(0);
  }
});

test('a condition is said in words, and one that is wrong or never matches stays text with its reason', () => {
  const say = (text: string): string => {
    const read = readTree(text, DEALS, ENTITIES, true);
    return 'problem' in read ? read.problem : read.tree === null ? '' : sayTree(read.tree, CHOICES);
  };
  expect(say('a_decimal > 1000 AND (a_boolean = true OR owner.title startswith A)')).toBe(
    'a_decimal is more than 1,000 and (a_boolean is yes or owner → title starts with A)',
  );
  expect(say('a_datetime > $now-1d AND owner = $currentUser.id')).toBe('a_datetime is after 1 day ago and owner is me');
  expect(say('$changed.and AND NOT $old.and is null')).toBe('and changes and not (and before is empty)');
  expect(say('nothing = 1')).toContain('unknown field "nothing"');
  expect(say('a_integer > null')).toBe('This condition never matches.');
});

test('the builder suggests as the next part of a condition a field, an operator of its type, or a known value', () => {
  const choices = choicesOf(DEALS, ENTITIES);
  const next = (text: string): string[] =>
    completionAt(text, text.length, choices)?.options.map((option) => option.text) ?? [];
  expect(next('a_sel')).toEqual(['a_select']);
  expect(next('(a_integer > 1 OR NOT a_dat')).toEqual(['a_date', 'a_datetime']);
  expect(next('a_boolean ')).toEqual(['=', '!=', 'is null', 'is not null']);
  expect(next('a_boolean = ')).toEqual(['true', 'false']);
  expect(next('a_date >= $n')).toEqual(['$now', '$now-7d']);
  expect(next('a_text = "a_sel')).toEqual([]);
  expect(next('a_integer > 1 ')).toEqual([]);
  expect(next('nothing = ')).toEqual([]);
});

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', {
    name: 'companies',
    fields: [
      { key: 'title', type: 'text', required: true },
      { key: 'stage', type: 'select', options: ['open', 'won', 'lost'] },
      { key: 'amount', type: 'decimal' },
    ],
  });
  for (const [title, stage, amount] of [
    ['Acme', 'open', '10'],
    ['Beta', 'won', '2000'],
    ['Ceta', 'lost', '3000'],
  ])
    await tenant.post('/api/entities/companies/records', { title, stage, amount });
});

async function open(page: Page, filters: string): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  const query = filters === '' ? '' : `?filters=${encodeURIComponent(filters)}`;
  await page.goto(`/app/t/${tenant.slug}/records/companies${query}`);
}

const records = (page: Page, text: string) => page.getByRole('status').filter({ hasText: text }).waitFor();

browserTest('conditions built from rows are the text of Filter, narrow the list and stand in the link', () =>
  visit(service.url, async (page) => {
    await open(page, '');
    await records(page, '3 records');
    const filter = page.getByLabel('Filter', { exact: true });
    await filter.pressSequentially('am');
    await page.getByRole('option', { name: 'amount' }).waitFor();
    for (const key of ['ArrowDown', 'Enter', '>', ' ', '2', '5', '0', '0', 'Enter']) await page.keyboard.press(key);
    await records(page, '1 record');
    expect(await filter.inputValue()).toBe('amount > 2500');
    await filter.fill('stage = ');
    await page.getByRole('option', { name: '"won"' }).click();
    expect(await axe(page)).toEqual([]);
    await filter.press('Enter');
    await page.getByRole('button', { name: 'stage is won', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Clear filter' }).click();
    await records(page, '3 records');
    await page.getByRole('button', { name: 'Add filter' }).click();
    await page.getByRole('button', { name: 'Add condition' }).click();
    await page.getByLabel('Field of condition 1').selectOption('amount');
    await page.getByLabel('Operator of condition 1').selectOption('>');
    await page.getByText('The list updates once every condition has a value.').waitFor();
    await page.getByLabel('Value of condition 1').fill('1000');
    await records(page, '2 records');
    expect(await page.getByLabel('Filter', { exact: true }).inputValue()).toBe('amount > 1000');
    await page.getByRole('button', { name: 'Add condition' }).click();
    await page.getByLabel('Field of condition 2').selectOption('stage');
    await page.getByLabel('Operator of condition 2').selectOption('in');
    await page.getByRole('checkbox', { name: 'lost' }).check();
    await records(page, '1 record');
    expect(await page.evaluate(() => new URLSearchParams(location.search).get('filters'))).toBe(
      'amount > 1000 AND stage in ("open", "lost")',
    );
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Close builder' }).click();
    await page.getByRole('button', { name: 'Remove amount is more than 1,000' }).click();
    await records(page, '2 records');
    await page.getByRole('button', { name: 'stage is one of open, lost', exact: true }).waitFor();
  }),
);

browserTest('a filter that was typed opens in the builder, groups and relative times included', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'createdAt > $now-2d AND (stage = open OR NOT amount < 2500)');
      await records(page, '2 records');
      await page.getByRole('button', { name: 'createdAt is after 2 days ago', exact: true }).click();
      expect(await page.getByLabel('Kind of value of condition 1').inputValue()).toBe('past');
      expect(await page.getByLabel('Number of condition 1').inputValue()).toBe('2');
      await page.getByLabel('How the conditions of group 2 are joined').selectOption('and');
      await page.getByText('No companies match this filter.').waitFor();
      expect(await axe(page)).toEqual([]);
    },
    { colorScheme: 'dark' },
  ),
);
