// The records grid in Chromium: rows by cursor, sort, filter and search in the link, edits with If-Match, lost races,
// refusals, undo, selection, keyboard alone, what axe finds. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/companies/records';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  const fields = [
    { key: 'title', type: 'text', required: true },
    { key: 'stage', type: 'select', options: ['open', 'won', 'lost'] },
    { key: 'amount', type: 'decimal', min: 0 },
    { key: 'score', type: 'number' },
    { key: 'day', type: 'date' },
  ];
  await tenant.post('/api/entities', { name: 'companies', fields });
});

/** `count` companies, numbered from 1; the last is the newest. */
async function companies(count: number): Promise<void> {
  const lines = Array.from({ length: count }, (_, at) =>
    JSON.stringify({ title: `Company ${at + 1}`, stage: 'open', amount: String(at + 1) }),
  );
  const answer = await tenant.post(`${RECORDS}/import`, lines.join('\n'), { 'content-type': 'application/x-ndjson' });
  expect(answer.body.data.created).toBe(count);
}

async function open(page: Page, query = ''): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/records/companies${query}`);
}

const cell = (page: Page, row: number, column: number) =>
  page.locator(`[role=row][aria-rowindex="${row + 1}"] > [aria-colindex="${column + 1}"]`);

async function stored(title: string): Promise<Record<string, unknown>> {
  const { body } = await tenant.get(`${RECORDS}?filters=${encodeURIComponent(`title = "${title}"`)}`);
  return body.data.items[0];
}

/** The row that has the focus, from 1. */
const focusedRow = (page: Page): Promise<number> =>
  page.evaluate(() => Number(document.activeElement?.closest('[role=row]')?.getAttribute('aria-rowindex')) - 1);

browserTest('every row of a long list can be reached, by wheel, by the thumb and by keys, each at its place', () =>
  visit(service.url, async (page) => {
    await companies(1_200);
    await open(page, '?sort=amount');
    const grid = page.getByRole('grid', { name: 'companies' });
    await page.getByText('1,200 records').waitFor();
    expect(await grid.getAttribute('aria-rowcount')).toBe('1201');
    await page.getByRole('gridcell', { name: 'Company 1', exact: true }).waitFor();
    await cell(page, 1, 1).click({ position: { x: 200, y: 10 } });
    await page.keyboard.press('Control+End');
    await page.getByRole('gridcell', { name: 'Company 1200', exact: true }).waitFor();
    expect(await focusedRow(page)).toBe(1_200);
    await page.keyboard.press('Control+Home');
    await page.getByRole('gridcell', { name: 'Company 1', exact: true }).waitFor();
    await grid.evaluate((element) => {
      element.scrollTop = 600 * 36;
    });
    await page.getByRole('gridcell', { name: 'Company 606', exact: true }).waitFor();
    const places = await page.$$eval('.grid-body [role=row]', (rows) =>
      rows
        .filter((row) => !row.hasAttribute('aria-busy'))
        .map((row) => [
          Number(row.getAttribute('aria-rowindex')) - 1,
          row.querySelector('[aria-colindex="2"]')?.textContent,
        ]),
    );
    for (const [place, title] of places) expect(title).toBe(`Company ${place}`);
    // The focus stays on its cell while that is scrolled away, and the keys continue from there.
    expect(await focusedRow(page)).toBe(1);
    await page.keyboard.press('ArrowDown');
    await page.getByRole('gridcell', { name: 'Company 2', exact: true }).waitFor();
    expect(await focusedRow(page)).toBe(2);
  }),
);

browserTest('a header sorts, Filter and Search narrow, and the link carries all of it', () =>
  visit(
    service.url,
    async (page) => {
      await companies(30);
      await open(page);
      await page.getByRole('button', { name: 'title' }).click();
      await page.waitForURL(/sort=title/);
      expect(await page.getByRole('columnheader', { name: 'title' }).getAttribute('aria-sort')).toBe('ascending');
      await page.getByLabel('Filter', { exact: true }).fill('amount > 28');
      await page.keyboard.press('Enter');
      await page.getByText('2 records').waitFor();
      expect(await flaws(page)).toEqual([]);
      await page.reload();
      await page.getByText('2 records').waitFor();
      expect(await page.getByLabel('Filter', { exact: true }).inputValue()).toBe('amount > 28');
      await page.getByLabel('Filter', { exact: true }).fill('stge = 1');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').first().waitFor();
      expect(await axe(page)).toEqual([]);
      await page.goBack();
      await page.getByText('2 records').waitFor();
      await page.getByRole('searchbox', { name: 'Search' }).fill('nothing like it');
      await page.getByText('No companies match this filter.').waitFor();
      await page.getByRole('button', { name: 'Clear filter' }).last().click();
      await page.getByText('30 records').waitFor();
    },
    { expected: [/400/] },
  ),
);

browserTest('a cell is edited by keyboard alone, saved with If-Match, and undone', () =>
  visit(service.url, async (page) => {
    await companies(3);
    await open(page, '?sort=amount');
    await cell(page, 1, 3).waitFor();
    await page.getByText('3 records').waitFor();
    await cell(page, 1, 3).focus();
    const sent = page.waitForRequest((request) => request.method() === 'PATCH');
    await page.keyboard.press('7');
    await page.keyboard.type('50.25');
    await page.keyboard.press('Enter');
    expect((await sent).headers()['if-match']).toBeDefined();
    await page.getByText('Saved.').waitFor();
    expect((await stored('Company 1')).amount).toBe('750.25');
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('Undone.').waitFor();
    expect((await stored('Company 1')).amount).toBe('1');
    await cell(page, 1, 4).waitFor();
  }),
);

browserTest('a refused value stays in its cell with the message; Esc brings the old one back', () =>
  visit(
    service.url,
    async (page) => {
      await companies(1);
      await open(page);
      await cell(page, 1, 3).dblclick();
      await page.keyboard.type('-5');
      await page.keyboard.press('Enter');
      const refused = page.locator('[role=gridcell][aria-invalid]');
      await refused.waitFor();
      expect(await refused.textContent()).toContain('-5');
      expect(await axe(page)).toEqual([]);
      await refused.focus();
      await page.keyboard.press('Escape');
      await refused.waitFor({ state: 'detached' });
      expect((await stored('Company 1')).amount).toBe('1');
    },
    { expected: [/400/] },
  ),
);

browserTest('who is overtaken on the same field sees both values and chooses; on another field both changes stay', () =>
  visit(
    service.url,
    async (page) => {
      await companies(1);
      const { id } = (await stored('Company 1')) as { id: string };
      await open(page);
      await cell(page, 1, 1).waitFor();
      await cell(page, 1, 3).dblclick();
      await page.locator('.cell-input').waitFor();
      await tenant.patch(`${RECORDS}/${id}`, { amount: '99' });
      await page.keyboard.press('Control+a');
      await page.keyboard.type('500');
      await page.keyboard.press('Enter');
      const choice = page.getByRole('region', { name: 'amount was changed by someone else' });
      await choice.waitFor();
      expect(await choice.textContent()).toContain('99');
      expect(await axe(page)).toEqual([]);
      expect((await stored('Company 1')).amount).toBe('99');
      await choice.getByRole('button', { name: 'Use mine' }).click();
      await page.getByText('Saved.').waitFor();
      expect((await stored('Company 1')).amount).toBe('500');
      await cell(page, 1, 3).dblclick();
      await page.locator('.cell-input').waitFor();
      await tenant.patch(`${RECORDS}/${id}`, { stage: 'won' });
      await page.keyboard.press('Control+a');
      await page.keyboard.type('501');
      await page.keyboard.press('Enter');
      await page.getByText('Saved. Someone else changed another field meanwhile.').waitFor();
      const now = await stored('Company 1');
      expect([now.amount, now.stage]).toEqual(['501', 'won']);
    },
    { expected: [/412/] },
  ),
);

browserTest('a record is added by a form that shows each problem at its field; selected rows are deleted', () =>
  visit(
    service.url,
    async (page) => {
      await open(page);
      await page.getByText('No companies yet.').waitFor();
      expect(await axe(page)).toEqual([]);
      await page.getByRole('button', { name: 'New record' }).first().click();
      await page.getByRole('dialog').getByLabel('amount').fill('-1');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('is required').waitFor();
      await page.getByRole('dialog').getByLabel('title').fill('Acme');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('[role=dialog] [aria-invalid]').waitFor();
      expect(await axe(page)).toEqual([]);
      await page.getByRole('dialog').getByLabel('amount').fill('10');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Acme was added.').waitFor();
      await page.getByRole('checkbox', { name: 'Select Acme' }).click();
      await page.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('heading', { name: 'Delete 1 record of companies?' }).waitFor();
      await page.locator(':focus', { hasText: /^Cancel$/ }).waitFor();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('No companies yet.').waitFor();
    },
    { expected: [/400/] },
  ),
);

browserTest('a relation is chosen by searching for the title of the other record', () =>
  visit(service.url, async (page) => {
    await companies(3);
    const fields = [
      { key: 'title', type: 'text', required: true },
      { key: 'company', type: 'relation', entity: 'companies' },
    ];
    await tenant.post('/api/entities', { name: 'deals', fields });
    await signedIn(page, tenant.key, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}/records/deals?new=1`);
    await page.getByRole('dialog').getByLabel('title').fill('Big one');
    await page.getByRole('combobox', { name: 'company' }).fill('Company 2');
    await page.getByRole('option', { name: 'Company 2' }).click();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Big one was added.').waitFor();
    const { body } = await tenant.get('/api/entities/deals/records');
    expect(body.data.items[0].company).toBe((await stored('Company 2')).id);
  }),
);

browserTest(
  'of records too long for one response fewer are read at once; numbers and days are shown by their type',
  () =>
    visit(
      service.url,
      async (page) => {
        const long = Array.from({ length: 19 }, (_, at) => JSON.stringify({ title: `${at}`.padEnd(900_000, 'x') }));
        await tenant.post(`${RECORDS}/import`, long.join('\n'), { 'content-type': 'application/x-ndjson' });
        await tenant.post(RECORDS, { title: 'Typed', score: 256.4099999, day: '2026-03-05' });
        await open(page, '?cols=title:100,score,day');
        await page.getByText('20 records').waitFor();
        await page.getByRole('gridcell', { name: '256.41', exact: true }).waitFor();
        await page.getByRole('gridcell', { name: 'Mar 5, 2026', exact: true }).waitFor();
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      },
      { viewport: { width: 360, height: 760 }, expected: [/400/] },
    ),
);
