// The page of a record in Chromium: its form by field types, If-Match with both versions after a lost race, unsaved edits,
// deletion that says what refers to the record, related records, neighbours, JSON. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const COMPANIES = '/api/entities/companies/records';
const DEALS = '/api/entities/deals/records';

let service: TestService;
let tenant: TestTenant;
let acme: string;
let beta: string;
let deal: string;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', {
    name: 'companies',
    fields: [{ key: 'title', type: 'text', required: true }],
  });
  await tenant.post('/api/entities', {
    name: 'deals',
    fields: [
      { key: 'title', type: 'text', required: true },
      { key: 'stage', type: 'select', options: ['open', 'won', 'lost'] },
      { key: 'amount', type: 'decimal', min: 0 },
      { key: 'closes', type: 'date' },
      { key: 'called', type: 'datetime' },
      { key: 'tags', type: 'multiselect', options: ['big', 'late, very', 'new'] },
      { key: 'hot', type: 'boolean' },
      { key: 'more', type: 'json' },
      { key: 'company', type: 'relation', entity: 'companies', onDelete: 'set_null' },
    ],
  });
  acme = (await tenant.post(COMPANIES, { title: 'Acme GmbH' })).body.data.id;
  beta = (await tenant.post(COMPANIES, { title: 'Beta AG' })).body.data.id;
  const data = { title: 'Big one', stage: 'open', amount: '10', called: '2026-05-01T10:00:00.123Z', company: acme };
  deal = (await tenant.post(DEALS, data)).body.data.id;
});

async function open(page: Page, entity: string, id: string, query = ''): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/records/${entity}/${id}${query}`);
}

const stored = async (id = deal) => (await tenant.get(`${DEALS}/${id}`)).body.data;

browserTest('a record is changed by a form of its fields; only what was changed is sent, with its ETag', () =>
  visit(service.url, async (page) => {
    await open(page, 'deals', deal);
    await page.getByRole('heading', { name: 'Big one', level: 1 }).waitFor();
    expect(await flaws(page)).toEqual([]);
    const save = page.getByRole('button', { name: 'Save' });
    expect(await save.getAttribute('aria-disabled')).toBe('true');
    await page.getByLabel('amount').fill('12.50');
    await page.getByLabel('stage').selectOption('won');
    await page.getByLabel('closes').fill('2026-12-24');
    await page.getByLabel('more').fill('{"a": [1]}');
    // Last: when its list closes, the combobox takes the focus back a frame later.
    await page.getByRole('combobox', { name: 'tags' }).click();
    await page.getByRole('option', { name: 'late, very' }).click();
    await page.getByRole('option', { name: 'big' }).click();
    await page.keyboard.press('Escape');
    expect(await page.title()).toStartWith('•');
    const sent = page.waitForRequest((request) => request.method() === 'PATCH');
    await save.click();
    const request = await sent;
    expect(request.headers()['if-match']).toBeDefined();
    expect(request.postDataJSON()).toEqual({
      amount: '12.50',
      stage: 'won',
      closes: '2026-12-24',
      tags: ['late, very', 'big'],
      more: { a: [1] },
    });
    await page.getByText('Saved.').waitFor();
    const now = await stored();
    expect([now.amount, now.called, now.company]).toEqual(['12.50', '2026-05-01T10:00:00.123Z', acme]);
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('Undone.').waitFor();
    expect((await stored()).stage).toBe('open');
    await page.waitForFunction(() => document.querySelector('select')?.value === 'open');
  }),
);

browserTest('a refused value is shown at its field and nothing typed is lost', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'deals', deal);
      await page.getByLabel('amount').fill('-3');
      await page.getByLabel('title').fill('Renamed');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('.field-error').waitFor();
      expect(await page.getByLabel('amount').getAttribute('aria-invalid')).toBe('true');
      expect(await page.getByLabel('title').inputValue()).toBe('Renamed');
      expect(await axe(page)).toEqual([]);
      await page.getByLabel('title').fill('');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('is required').waitFor();
      await page.getByRole('button', { name: 'Discard' }).click();
      expect(await page.getByLabel('title').inputValue()).toBe('Big one');
      expect((await stored()).title).toBe('Big one');
    },
    { expected: [/400/] },
  ),
);

browserTest('who is overtaken sees both versions and chooses by field; other fields are kept beside each other', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'deals', deal);
      await page.getByLabel('amount').fill('99');
      await page.getByLabel('title').fill('Mine');
      await tenant.patch(`${DEALS}/${deal}`, { amount: '50', title: 'Theirs', stage: 'lost' });
      await page.getByRole('button', { name: 'Save' }).click();
      const panel = page.getByRole('region', { name: 'Changed by someone else' });
      await panel.waitFor();
      expect(await axe(page)).toEqual([]);
      expect((await stored()).amount).toBe('50');
      const amount = panel.getByRole('group', { name: 'amount' });
      expect(await amount.textContent()).toMatch(/yours99theirs50before10/);
      await amount.getByRole('button', { name: 'Use mine' }).click();
      await panel.getByRole('group', { name: 'title' }).getByRole('button', { name: 'Use theirs' }).click();
      await page.getByText('Saved.').waitFor();
      const now = await stored();
      expect([now.amount, now.title, now.stage]).toEqual(['99', 'Theirs', 'lost']);
      await page.getByLabel('amount').fill('100');
      await tenant.patch(`${DEALS}/${deal}`, { hot: true });
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Saved. Someone else changed hot meanwhile.').waitFor();
      expect((await stored()).amount).toBe('100');
    },
    { expected: [/412/] },
  ),
);

browserTest('leaving with unsaved edits asks first', () =>
  visit(service.url, async (page) => {
    await open(page, 'deals', deal);
    await page.getByLabel('title').fill('Not yet');
    await page.getByRole('tab', { name: 'JSON' }).click();
    await page.getByText('"title": "Big one"').waitFor();
    await page.getByRole('tab', { name: 'Form' }).click();
    expect(await page.getByLabel('title').inputValue()).toBe('Not yet');
    const crumb = page.getByRole('navigation', { name: 'Breadcrumbs' }).getByRole('link', { name: 'deals' });
    await crumb.click();
    await page.getByRole('heading', { name: 'Leave without saving?' }).waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Keep editing' }).click();
    expect(await page.getByLabel('title').inputValue()).toBe('Not yet');
    await crumb.click();
    await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
    await page.getByRole('grid').waitFor();
    expect((await stored()).title).toBe('Big one');
  }),
);

browserTest('Related lists what refers to the record and what it refers to, by title', () =>
  visit(service.url, async (page) => {
    await open(page, 'companies', acme, '?tab=related');
    await page.getByRole('link', { name: 'Big one' }).click();
    await page.getByRole('heading', { name: 'Big one', level: 1 }).waitFor();
    await page.getByRole('tab', { name: 'Related' }).click();
    await page.getByText('Nothing refers to Big one.').waitFor();
    await page.getByRole('link', { name: 'Acme GmbH' }).waitFor();
    expect(await flaws(page)).toEqual([]);
  }),
);

browserTest('Delete says what refers to the record and what becomes of it', () =>
  visit(service.url, async (page) => {
    await open(page, 'companies', acme);
    await page.getByLabel('title').fill('Changed before');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('1 record of deals refers to it by company and will lose the link.').waitFor();
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Cancel');
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('Acme GmbH was deleted.').waitFor();
    await page.getByRole('gridcell', { name: 'Beta AG', exact: true }).waitFor();
    expect((await stored()).company).toBeNull();
  }),
);

browserTest('from a list one goes to the next and the previous record in its order', () =>
  visit(service.url, async (page) => {
    await signedIn(page, tenant.key, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}/records/companies?sort=title`);
    await page.getByRole('gridcell', { name: 'Acme GmbH', exact: true }).getByRole('link').click();
    await page.getByText('1 of 2').waitFor();
    expect(await page.getByRole('link', { name: 'Previous record' }).count()).toBe(0);
    await page.getByRole('link', { name: 'Next record' }).click();
    await page.getByRole('heading', { name: 'Beta AG', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Previous record' }).click();
    await page.getByRole('heading', { name: 'Acme GmbH', level: 1 }).waitFor();
  }),
);

browserTest('a record that is not there is said to be missing', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'deals', beta);
      await page.getByText('There is no record with this id, or your role may not see it.').waitFor();
      await page.goto(`/app/t/${tenant.slug}/records/deals/nonsense`);
      await page.getByText('There is no record with this id, or your role may not see it.').waitFor();
      expect(await axe(page)).toEqual([]);
    },
    { expected: [/404/, /400/] },
  ),
);

browserTest('relations in the grid show titles, and their editor is a search', () =>
  visit(service.url, async (page) => {
    await signedIn(page, tenant.key, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}/records/deals?cols=title,company`);
    const cell = page.getByRole('gridcell', { name: 'Acme GmbH' });
    await cell.waitFor();
    await cell.focus();
    await page.keyboard.press('B');
    await page.keyboard.type('eta');
    await page.getByRole('option', { name: /Beta AG/ }).waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('option', { name: /Beta AG/ }).click();
    await page.getByText('Saved.').waitFor();
    await page.getByRole('gridcell', { name: 'Beta AG' }).waitFor();
    expect((await stored()).company).toBe(beta);
    await page.getByRole('gridcell', { name: 'Beta AG' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('combobox').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('gridcell', { name: 'Beta AG' }).waitFor();
    expect((await stored()).company).toBe(beta);
  }),
);
