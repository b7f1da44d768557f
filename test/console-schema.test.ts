// Schema in Chromium: entities and fields created, changed and deleted. Before a change is confirmed, the service is asked what
// the change breaks, or why it would be refused.
// Contract: interface#console, decisions#field-changes, trying#dry-runs.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import type { Page } from 'playwright-core';
import type { FieldType } from '../console/api/answers.ts';
import { keyFrom, keyProblem, TYPES } from '../console/schema/attributes.ts';
import { FIELD_TYPES } from '../src/entities/field-types.ts';
import { axe, browserTest, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
});

async function companies(): Promise<void> {
  await tenant.post('/api/entities', {
    name: 'companies',
    fields: [
      { key: 'title', type: 'text', required: true },
      { key: 'stage', type: 'select', options: ['open', 'won', 'lost'] },
      { key: 'phone', type: 'text' },
    ],
  });
  for (const [title, stage] of [
    ['Acme', 'open'],
    ['Beta', 'won'],
    ['Ceta', null],
  ])
    await tenant.post('/api/entities/companies/records', { title, stage });
  const condition = 'stage = "open"';
  await tenant.post('/api/views', {
    entitySlug: 'companies',
    slug: 'open-deals',
    name: 'Open',
    filterDsl: { validate: [{ condition }] },
  });
}

async function open(page: Page, path: string): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/schema${path}`);
}

async function fieldOf(key: string) {
  const { body } = await tenant.get('/api/entities/companies');
  return body.data.fields.find((field: { key: string }) => field.key === key);
}

test('the attributes of each type are those that the service accepts', () => {
  for (const [type, spec] of Object.entries(FIELD_TYPES)) {
    const { attributes, canBeUnique, canBeIndexed } = TYPES[type as FieldType];
    expect([type, [...attributes].sort(), canBeUnique, canBeIndexed]).toEqual([
      type,
      [...spec.attributes].sort(),
      spec.canBeUnique,
      spec.index !== null,
    ]);
  }
  expect(keyFrom('Abschluß der Müller GmbH, 2. Teil')).toBe('abschlu_der_muller_gmbh_2_teil');
  expect(keyProblem('name')).toBe('name is taken by the system. Use title.');
});

browserTest('a tenant without entities says what one is; one is made from a label and opens with its fields', () =>
  visit(service.url, async (page) => {
    await open(page, '');
    await page.getByText('has no entities yet. An entity is a kind of record').waitFor();
    await page.getByRole('button', { name: 'New entity' }).click();
    await page.getByLabel('Label').fill('Sales orders');
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('sales_orders');
    await page.getByLabel('First fields').selectOption('orders');
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'sales_orders' }).waitFor();
    await page.getByRole('rowheader', { name: 'amount' }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/app/t/${tenant.slug}/schema/sales_orders`);
  }),
);

browserTest('a field of each type is made, with its options; a reserved key is refused where it is typed', () =>
  visit(
    service.url,
    async (page) => {
      await companies();
      await open(page, '/companies');
      for (const [type, fill] of Object.entries(FIELDS)) {
        await page.getByRole('button', { name: 'New field' }).click();
        await page.getByLabel('Label').fill(`A ${type}`);
        await page.getByLabel('Type').selectOption(type);
        await fill(page);
        await page.getByRole('button', { name: 'Save' }).click();
        await page.getByRole('dialog').waitFor({ state: 'detached' });
        expect((await fieldOf(`a_${type}`)).type).toBe(type);
      }
      expect(await fieldOf('a_decimal')).toMatchObject({ min: '0.01' });
      expect(await fieldOf('a_select')).toMatchObject({ options: ['a b', 'c'], default: 'c' });
      expect(await fieldOf('a_relation')).toMatchObject({ entity: 'companies', onDelete: 'set_null' });
      await page.getByRole('button', { name: 'New field' }).click();
      await page.getByLabel('Key').fill('name');
      await page.getByText('name is taken by the system. Use title.').waitFor();
      await page.getByLabel('Key').fill('title');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('already exists').first().waitFor();
    },
    { expected: [/409/] },
  ),
);

const nothing = async (): Promise<void> => undefined;
const FIELDS: Readonly<Record<FieldType, (page: Page) => Promise<unknown>>> = {
  text: (page) => page.getByLabel('Most characters').fill('20'),
  email: nothing,
  url: nothing,
  uuid: nothing,
  integer: (page) => page.getByLabel('Smallest value').fill('1'),
  number: (page) => page.getByLabel('Default').fill('1.5'),
  decimal: (page) => page.getByLabel('Smallest value').fill('0.01'),
  boolean: (page) => page.getByLabel('Default').selectOption('true'),
  date: nothing,
  datetime: nothing,
  select: async (page) => {
    await page.getByLabel('Options', { exact: true }).fill('a b\nc\n\nc');
    await page.getByLabel('Default').selectOption('c');
  },
  multiselect: (page) => page.getByLabel('Options', { exact: true }).fill('x\ny'),
  json: nothing,
  relation: async (page) => {
    await page.getByRole('combobox', { name: 'Entity that it links to' }).click();
    await page.getByRole('option', { name: 'companies' }).click();
    await page.getByLabel('When the linked record is deleted').selectOption('set_null');
  },
  relations: async (page) => {
    await page.getByRole('combobox', { name: 'Entity that it links to' }).click();
    await page.getByRole('option', { name: 'companies' }).click();
  },
};

browserTest('a change that can break something is tried first, says what it breaks, and is made after Confirm', () =>
  visit(
    service.url,
    async (page) => {
      await companies();
      const values = { stage: 'won' };
      const rule = { name: 'win', entity: 'companies', trigger: 'before_create', action: { type: 'set', values } };
      expect((await tenant.post('/api/rules', rule)).status).toBe(201);
      await open(page, '/companies');
      await page.getByRole('cell', { name: '1 view, 1 rule' }).waitFor();
      const change = async (): Promise<void> => {
        await page.getByRole('button', { name: 'Save' }).click();
      };
      await page.getByRole('button', { name: 'Edit stage' }).click();
      await page.getByLabel('Required').check();
      await page.getByLabel('Options', { exact: true }).fill('open\nlost');
      await change();
      const refused = page.getByRole('alert');
      await refused.getByText('This change would be refused.').waitFor();
      expect(await refused.textContent()).toMatch(
        /required: 1 record\(s\) have no value; options: 1 record\(s\) violate it/,
      );
      expect(await page.getByRole('button', { name: 'Confirm' }).getAttribute('aria-disabled')).toBe('true');
      expect(await axe(page)).toEqual([]);
      await page.getByRole('button', { name: 'Back' }).click();
      await page.getByText(/^required 1 record/).waitFor();
      await page.getByLabel('Required').uncheck();
      await tenant.patch(`/api/entities/companies/records/${await idOf('Beta')}`, { stage: 'open' });
      await change();
      await page.getByText(/^Rule win: action\.values\.stage/).waitFor();
      expect(await axe(page)).toEqual([]);
      expect((await fieldOf('stage')).options).toEqual(['open', 'won', 'lost']);
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('stage was changed.').waitFor();
      expect((await fieldOf('stage')).options).toEqual(['open', 'lost']);
      await page.getByRole('button', { name: 'Edit phone' }).click();
      await page.getByLabel('Key').fill('mobile');
      await change();
      await page.getByText('Programs that read or write phone fail until they use the new key').waitFor();
      await page.getByText('A dry run breaks no view, role or rule').waitFor();
      await page
        .getByRole('button', { name: 'Cancel' })
        .or(page.getByRole('button', { name: 'Back' }))
        .click();
      await page.getByLabel('Key').fill('phone');
      await page.getByLabel('Label').fill('Telephone');
      await change();
      await page.getByText('phone was changed.').waitFor();
      await page.getByRole('button', { name: 'Edit stage' }).click();
      await page.getByLabel('Key').fill('phase');
      await change();
      await page.getByText('Stage is used by view open-deals, rule win; change these first').waitFor();
    },
    { colorScheme: 'dark', expected: [/409/] },
  ),
);

async function idOf(title: string): Promise<string> {
  const { body } = await tenant.get(`/api/entities/companies/records?filters=title%20=%20"${title}"`);
  return body.data.items[0].id;
}

browserTest('Delete asks for a dry run and names what it breaks; the key is typed, then Confirm', () =>
  visit(
    service.url,
    async (page) => {
      await companies();
      await tenant.patch(`/api/entities/companies/records/${await idOf('Acme')}`, { phone: '1' });
      const entities = { companies: { fields: ['title', 'phone'] } };
      await tenant.post('/api/roles', { name: 'clerk', permissions: { companies: ['read'] }, entities });
      await open(page, '/companies');
      await page.getByRole('button', { name: 'Delete stage' }).click();
      await page.getByText('Stage is used by view open-deals; change these first').waitFor();
      expect(await axe(page)).toEqual([]);
      await page.getByLabel('Type stage to confirm').fill('stage');
      expect(await page.getByRole('button', { name: 'Confirm' }).getAttribute('aria-disabled')).toBe('true');
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('button', { name: 'Delete phone' }).click();
      await page.getByText('1 record of companies loses its value of phone.').waitFor();
      await page.getByText('Role clerk: no longer shows phone of companies.').waitFor();
      expect(await fieldOf('phone')).toMatchObject({ type: 'text' });
      expect(await axe(page)).toEqual([]);
      await page.getByLabel('Type phone to confirm').fill('phone');
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('phone was deleted.').waitFor();
      expect(await fieldOf('phone')).toBeUndefined();
      await page.getByRole('button', { name: 'More for companies' }).click();
      await page.getByRole('menuitem', { name: 'Delete entity' }).click();
      await page.getByText('3 records of companies are deleted.').waitFor();
      await page.getByText('View open-deals: goes with companies.').waitFor();
      await page.getByText(/^Role clerk: loses its rights on companies/).waitFor();
      await page.getByLabel('Type companies to confirm').fill('companies');
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('has no entities yet').waitFor();
      expect((await tenant.get('/api/entities/companies')).status).toBe(404);
    },
    { expected: [/409/, /404/] },
  ),
);
