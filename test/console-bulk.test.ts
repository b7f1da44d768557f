// Many cells at once in the grid, in Chromium: selection, bulk edit and delete, blocks of cells from and to a spreadsheet,
// undo and redo, saved views, and edits without a connection. Contract: interface#console, decisions#bulk.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, signedIn, visit } from './support/browser.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

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
    { key: 'amount', type: 'integer', min: 0 },
    { key: 'parent', type: 'relation', entity: 'companies', onDelete: 'restrict' },
  ];
  await tenant.post('/api/entities', { name: 'companies', fields });
});

/** `count` companies, numbered from 1. */
async function companies(count: number): Promise<Json[]> {
  const operations = Array.from({ length: count }, (_, at) => ({
    op: 'create',
    data: { title: `Company ${at + 1}`, stage: 'open', amount: at + 1 },
  }));
  return (await tenant.post(`${RECORDS}/bulk`, { operations })).body.data.results.map(({ data }: Json) => data);
}

async function open(page: Page, query = '?sort=amount'): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/records/companies${query}`);
  await cell(page, 1, 1).waitFor();
}

const cell = (page: Page, row: number, column: number) =>
  page.locator(`[role=row][aria-rowindex="${row + 1}"] > [aria-colindex="${column + 1}"]`);

const values = async (key: string): Promise<Json[]> =>
  (await tenant.get(`${RECORDS}?sort=amount,title&limit=100`)).body.data.items.map((row: Json) => row[key]);

const focused = (page: Page): Promise<string | undefined> =>
  page.evaluate(() => document.activeElement?.closest('[role=row]')?.getAttribute('aria-rowindex') ?? undefined);

browserTest(
  'all that match are selected by Ctrl+A, one field of them is changed, refusals are named, and it is undone',
  () =>
    visit(service.url, async (page) => {
      const rows = await companies(130);
      await open(page);
      await page.getByText('130 records').waitFor();
      await cell(page, 1, 2).focus();
      await page.keyboard.press('Space');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Shift+Space');
      await page.getByText('3 rows selected').waitFor();
      await page.keyboard.press('Control+a');
      await page.getByText('130 rows selected').waitFor();
      await page.getByRole('checkbox', { name: 'Select Company 1', exact: true }).click();
      await page.getByText('129 rows selected').waitFor();
      // Someone else changes a record between the reading and the writing.
      let isRaced = false;
      await page.route(/\/bulk$/, async (route) => {
        if (!isRaced) await tenant.patch(`${RECORDS}/${rows[7].id}`, { stage: 'won' });
        isRaced = true;
        await route.continue();
      });
      await page.getByRole('button', { name: 'Edit', exact: true }).click();
      const dialog = page.getByRole('dialog');
      const change = dialog.getByRole('button', { name: /129 records$/ });
      expect([await change.textContent(), await change.getAttribute('aria-disabled')]).toEqual([
        'Change 129 records',
        'true',
      ]);
      await dialog.getByLabel('Field', { exact: true }).selectOption('stage');
      await dialog.getByLabel('Empty the field instead').check();
      await dialog.getByRole('button', { name: 'Empty 129 records' }).waitFor();
      await dialog.getByLabel('Empty the field instead').uncheck();
      await dialog.getByLabel('New value').selectOption('lost');
      expect(await axe(page)).toEqual([]);
      await dialog.getByRole('button', { name: 'Change 129 records' }).click();
      await dialog.getByText('128 records changed. 1 record refused.').waitFor();
      expect(await dialog.getByRole('row', { name: /Company 8/ }).textContent()).toContain(
        'Someone changed it meanwhile',
      );
      expect(await axe(page)).toEqual([]);
      await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
      await cell(page, 3, 2).getByText('lost').waitFor();
      expect((await values('stage')).slice(0, 9)).toEqual(['open', ...Array(6).fill('lost'), 'won', 'lost']);
      await cell(page, 1, 3).click();
      await page.keyboard.press('Control+z');
      await page.getByText('Undone.').waitFor();
      expect((await values('stage')).slice(0, 9)).toEqual([...Array(7).fill('open'), 'won', 'open']);
      await page.keyboard.press('Control+Shift+z');
      await page.getByText('Done again.').waitFor();
      expect((await values('stage')).filter((stage) => stage === 'lost')).toHaveLength(98);
    }),
);

browserTest(
  'selected rows are deleted each by itself; what refers to one keeps it, with the reason; the focus stays',
  () =>
    visit(service.url, async (page) => {
      const [first] = await companies(4);
      await tenant.post(RECORDS, { title: 'Child', amount: 9, parent: first.id });
      await open(page);
      await page.getByText('5 records').waitFor();
      await cell(page, 2, 2).focus();
      await page.keyboard.press('Space');
      await page.keyboard.press('ArrowUp');
      await page.keyboard.press('Space');
      await page.keyboard.press('Delete');
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('heading', { name: 'Delete 2 records of companies?' }).waitFor();
      await dialog.getByText('You can bring them back from “Deleted”').waitFor();
      await dialog.getByRole('button', { name: 'Confirm' }).click();
      await dialog.getByText('1 record deleted. 1 record not deleted.').waitFor();
      await dialog.getByRole('row', { name: /Company 1/ }).waitFor();
      await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
      await page.getByText('4 records').waitFor();
      expect(await values('title')).toEqual(['Company 1', 'Company 3', 'Company 4', 'Child']);
      await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'gridcell');
      expect(await focused(page)).toBe('2');
      await page.keyboard.press('End');
      await page.keyboard.press('Control+End');
      await page.keyboard.press('Space');
      await page.keyboard.press('Delete');
      await dialog.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('3 records').waitFor();
      await page.waitForFunction(() => document.activeElement?.closest('[aria-rowindex="4"]') !== null);
    }),
);

browserTest(
  'a block of cells is copied and pasted as tab-separated text, by the type of each field; what cannot is shown first',
  () =>
    visit(
      service.url,
      async (page) => {
        const rows = await companies(5);
        await open(page);
        await page.getByText('5 records').waitFor();
        await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
        await cell(page, 1, 2).click();
        await page.keyboard.press('Shift+ArrowRight');
        await page.keyboard.press('Shift+ArrowDown');
        await page.keyboard.press('Control+c');
        await page.getByText('4 cells copied.').waitFor();
        expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('open\t1\nopen\t2');
        const paste = async (text: string): Promise<void> => {
          await page.evaluate((copied) => navigator.clipboard.writeText(copied), text);
          await page.keyboard.press('Control+v');
        };
        await cell(page, 3, 2).click();
        await paste('Won\t1,030\tCompany 1\r\nlost\t40\t\r\n');
        await page.getByText('5 cells saved.').waitFor();
        expect(await values('stage')).toEqual(['open', 'open', 'open', 'lost', 'won']);
        expect((await tenant.get(`${RECORDS}/${rows[2].id}`)).body.data).toMatchObject({
          amount: 1_030,
          parent: rows[0].id,
        });
        await page.keyboard.press('Control+z');
        await page.getByText('Undone.').waitFor();
        expect(await values('stage')).toEqual(Array(5).fill('open'));
        await cell(page, 4, 2).click();
        await paste('maybe\t=1+1\nwon\t7\nwon\t8');
        const dialog = page.getByRole('dialog');
        await dialog.getByRole('heading', { name: 'Change 3 rows × 2 columns?' }).waitFor();
        await dialog.getByText('Skipped: 1 row beyond the list').waitFor();
        expect(await dialog.getByRole('row', { name: /Company 4/ }).allTextContents()).toEqual([
          'Company 4stagemaybeis none of open, won, lost',
          'Company 4amount=1+1is not a number',
        ]);
        expect(await axe(page)).toEqual([]);
        await dialog.getByRole('button', { name: 'Change 2 cells' }).click();
        await page.getByText('2 cells saved.').waitFor();
        await cell(page, 2, 3).click();
        await paste('-5\n-6');
        await page.getByText('2 cells refused.').waitFor();
        expect(await cell(page, 2, 3).textContent()).toContain('-5');
        expect(await values('amount')).toEqual([1, 2, 3, 4, 7]);
      },
      { expected: [/400/] },
    ),
);

browserTest('a saved view is chosen, kept in the link, narrowed further, saved anew and brought up to date', () =>
  visit(service.url, async (page) => {
    await companies(6);
    await open(page, `?sort=-amount&filters=${encodeURIComponent('amount > 2')}`);
    await page.getByText('4 records').waitFor();
    await page.getByRole('button', { name: 'All records' }).click();
    await page.getByRole('menuitem', { name: 'Save as a view…' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('Large ones');
    expect(await axe(page)).toEqual([]);
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.waitForURL(/view=large-ones/);
    await page.getByText('4 records').waitFor();
    expect(new URL(page.url()).searchParams.get('filters')).toBeNull();
    await page.getByLabel('Filter', { exact: true }).fill('amount < 5');
    await page.keyboard.press('Enter');
    await page.getByText('2 records').waitFor();
    await page.getByRole('button', { name: /Large ones/ }).click();
    await page.getByRole('menuitem', { name: 'Add the filter to Large ones' }).click();
    await page.getByText('Large ones was updated.').waitFor();
    const [view] = (await tenant.get('/api/views')).body.data;
    expect(view.filterDsl.validate).toEqual([{ condition: 'amount > 2' }, { condition: 'amount < 5' }]);
    await page.getByRole('button', { name: /Large ones/ }).click();
    await page.getByRole('menuitem', { name: 'All records' }).click();
    await page.getByText('6 records').waitFor();
    expect(new URL(page.url()).searchParams.get('sort')).toBeNull();
    await page.getByRole('button', { name: 'All records' }).click();
    await page.getByRole('menuitem', { name: 'Large ones' }).click();
    await page.getByText('2 records').waitFor();
    expect(new URL(page.url()).searchParams.get('sort')).toBe('-amount');
  }),
);

browserTest(
  'edits without a connection stay, marked, and are sent when it is back; one that was overtaken shows both values',
  () =>
    visit(
      service.url,
      async (page) => {
        const rows = await companies(3);
        await open(page);
        await page.getByText('3 records').waitFor();
        let isDown = true;
        await page.route('**/api/**', (route) => (isDown ? route.abort() : route.continue()));
        const type = async (row: number, text: string): Promise<void> => {
          await cell(page, row, 3).dblclick();
          await page.keyboard.press('Control+a');
          await page.keyboard.type(text);
          await page.keyboard.press('Enter');
        };
        await type(1, '100');
        await type(2, '200');
        await page.getByText('2 changes not sent').waitFor();
        await page.getByText('No connection. You can look around; changes wait until it is back.').waitFor();
        expect(await cell(page, 1, 3).textContent()).toContain('100');
        expect(await axe(page)).toEqual([]);
        await tenant.patch(`${RECORDS}/${rows[1].id}`, { amount: 250 });
        isDown = false;
        await page.getByText('Connected again. 1 change saved.').waitFor();
        const choice = page.getByRole('region', { name: 'amount was changed by someone else' });
        expect(await choice.textContent()).toContain('250');
        expect(await values('amount')).toEqual([3, 100, 250]);
        await choice.getByRole('button', { name: 'Use mine' }).click();
        await choice.waitFor({ state: 'detached' });
        await page.getByText('Saved.', { exact: true }).waitFor();
        expect(await values('amount')).toEqual([3, 100, 200]);
      },
      { expected: [/ERR_FAILED/, /412/] },
    ),
);
