// The past of records in the console, in Chromium: the history of a record and the way back to a version, deleted records,
// and "Undo" after a deletion, which keeps their ids. Contract: interface#console, history#history, history#restore.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page, Route } from 'playwright-core';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { addUser, signIn } from './support/people.ts';
import { type Client, startService, type TestService, type TestTenant } from './support/service.ts';

const COMPANIES = '/api/entities/companies/records';
const DEALS = '/api/entities/deals/records';
const LONG = 'The customer wrote that the parcel came late. '.repeat(20);

let service: TestService;
let tenant: TestTenant;
let acme: string;
let beta: string;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  const title = { key: 'title', type: 'text', required: true };
  await tenant.post('/api/entities', { name: 'companies', fields: [title] });
  const fields = [
    { ...title, label: 'Title' },
    { key: 'note', type: 'text' },
    { key: 'amount', type: 'decimal' },
    { key: 'code', type: 'text', unique: true },
    { key: 'company', type: 'relation', entity: 'companies', onDelete: 'set_null' },
  ];
  await tenant.post('/api/entities', { name: 'deals', fields });
  acme = (await tenant.post(COMPANIES, { title: 'Acme GmbH' })).body.data.id;
  beta = (await tenant.post(COMPANIES, { title: 'Beta AG' })).body.data.id;
});

async function create(data: object): Promise<string> {
  return (await tenant.post(DEALS, data)).body.data.id;
}

async function open(page: Page, path: string, key = tenant.key): Promise<void> {
  await signedIn(page, key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/records/${path}`);
}

/** A client who is a user of the tenant. */
async function person(input: object): Promise<Client & { token: string }> {
  const { email } = await addUser(tenant, { ...input });
  return signIn(service.anonymous, tenant, email);
}

const stored = async (id: string) => (await tenant.get(`${DEALS}/${id}`)).body.data;

browserTest(
  'the history of a record says who changed what and when, follows changes, and leads back to a version',
  () =>
    visit(service.url, async (page) => {
      const id = await create({ title: 'Big one', note: LONG, amount: '10', company: acme });
      const ada = await person({ name: 'Ada Lovelace', role: 'admin' });
      await ada.patch(`${DEALS}/${id}`, { note: LONG.replace('late', 'on time'), amount: null, company: beta });
      await open(page, `deals/${id}`);
      await page.getByRole('tab', { name: 'History' }).click();
      const versions = page.getByRole('region', { name: 'History' }).locator('ol > li');
      await versions.getByText('Acme GmbH').first().waitFor();
      expect(await versions.count()).toBe(2);
      const second = versions.first();
      expect(await second.textContent()).toMatch(/^Ada Lovelace changed note, amount and company/);
      expect(await second.textContent()).toContain('…');
      expect((await second.locator('time').getAttribute('title')) ?? '').toContain('T');
      await second.getByRole('button', { name: 'Show all 923 characters' }).click();
      await second.getByText(LONG.trim()).waitFor();
      await ada.patch(`${DEALS}/${id}`, { title: 'Bigger one' });
      await page.getByText('changed Title').waitFor();
      expect(await flaws(page, [1440, 360])).toEqual([]);
      await page.getByRole('button', { name: 'Restore this version: 1' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText(/^4 fields would change back to what they were on/).waitFor();
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Cancel');
      expect(await axe(page)).toEqual([]);
      await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
      await page.getByText('Version 1 was restored.').waitFor();
      expect(await stored(id)).toMatchObject({ title: 'Big one', note: LONG, amount: '10', company: acme });
      await versions.nth(3).waitFor();
      await page.getByRole('button', { name: 'Undo' }).click();
      await page.getByText('Undone.').waitFor();
      expect(await stored(id)).toMatchObject({ title: 'Bigger one', amount: null, company: beta });
    }),
);

browserTest('a race that was lost and what is in the way of a version are shown as the API says it', () =>
  visit(
    service.url,
    async (page) => {
      const id = await create({ title: 'First', code: 'A', company: acme });
      await tenant.patch(`${DEALS}/${id}`, { title: 'Second', code: 'B', company: beta });
      await tenant.delete(`${COMPANIES}/${acme}`);
      await create({ title: 'Other', code: 'A' });
      await open(page, `deals/${id}?tab=history`);
      await page.getByRole('button', { name: 'Restore this version: 1' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText(/3 fields would change/).waitFor();
      const overtaken = async (route: Route): Promise<void> => {
        await tenant.patch(`${DEALS}/${id}`, { amount: '5' });
        await route.continue();
      };
      await page.route('**/restore', overtaken, { times: 1 });
      await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
      await dialog.getByText('Nothing was restored: somebody changed the record meanwhile.').waitFor();
      await dialog.getByText(/4 fields would change/).waitFor();
      await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
      const list = dialog.getByRole('list', { name: 'In the way' });
      await list.getByText('another record has this value').waitFor();
      await list.getByText(/no such record/).waitFor();
      expect(await axe(page)).toEqual([]);
      expect(await stored(id)).toMatchObject({ title: 'Second', amount: '5' });
    },
    { expected: [/409|412/] },
  ),
);

browserTest('deleted records are listed, filtered, sorted, and restored under their ids', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'deals/deleted');
      await page.getByText(/^No deleted deals. A deleted record stays here, to be restored, for 30 days/).waitFor();
      const ada = await person({ name: 'Ada Lovelace', role: 'admin' });
      const ids: string[] = [];
      for (const [title, amount] of [
        ['Anna', '2'],
        ['Bert', '3'],
        ['Carl', '1'],
      ]) {
        const id = await create({ title, amount, company: acme });
        await ada.delete(`${DEALS}/${id}`);
        ids.push(id);
      }
      const titles = page.getByRole('rowheader');
      // It follows deletions by others.
      await titles.nth(2).waitFor();
      await page.getByRole('cell', { name: 'Ada Lovelace' }).first().waitFor();
      expect(await titles.allTextContents()).toEqual(['Carl', 'Bert', 'Anna']);
      await page.getByRole('button', { name: 'amount' }).click();
      await page.waitForURL(/sort=amount/);
      await page.waitForFunction(() => {
        const rows = [...document.querySelectorAll('tbody th')];
        return rows.map((cell) => cell.textContent).join() === 'Carl,Anna,Bert';
      });
      expect(await flaws(page, [1440, 320])).toEqual([]);
      await page.getByLabel('Filter', { exact: true }).fill('deletedAt > "2020-01-01T00:00:00Z" AND amount > 1');
      await page.keyboard.press('Enter');
      await page.getByText('2 deleted records').waitFor();
      await page.getByRole('button', { name: 'Restore Anna' }).focus();
      await page.keyboard.press('Enter');
      await page.getByText('Anna is back.').waitFor();
      await page.getByText('1 deleted record', { exact: true }).waitFor();
      await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Restore Bert');
      expect((await stored(ids[0] as string)).title).toBe('Anna');
      await page.getByRole('link', { name: 'Bert' }).click();
      await page.getByText('This record was deleted').waitFor();
      await page.getByText('2 versions, from its creation on.').waitFor();
      expect(await flaws(page, [1440, 320])).toEqual([]);
      await page.getByRole('button', { name: 'Restore', exact: true }).click();
      await page.getByLabel('Title').waitFor();
      expect((await stored(ids[1] as string)).amount).toBe('3');
    },
    { expected: [/404/] },
  ),
);

browserTest('Undo brings deleted records back under their ids, from the grid and from a record', () =>
  visit(
    service.url,
    async (page) => {
      const ids = [await create({ title: 'One' }), await create({ title: 'Two' }), await create({ title: 'Three' })];
      await open(page, 'deals?sort=title');
      for (const name of ['One', 'Two']) await page.getByRole('checkbox', { name: `Select ${name}` }).click();
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('2 records deleted.').waitFor();
      await page.getByText('1 record', { exact: false }).first().waitFor();
      // By the keyboard, like any other change.
      await page.getByRole('gridcell', { name: 'Three', exact: true }).focus();
      await page.keyboard.press('Control+z');
      await page.getByText('2 records are back.').waitFor();
      await page.getByRole('gridcell', { name: 'Two', exact: true }).waitFor();
      expect((await stored(ids[0] as string)).title).toBe('One');
      await page.getByRole('gridcell', { name: 'Three', exact: true }).getByRole('link').click();
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByText('It can be brought back from “Deleted”').waitFor();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('Three was deleted.').waitFor();
      await page.getByRole('button', { name: 'Undo' }).last().click();
      await page.getByText('Three is back.').waitFor();
      expect((await stored(ids[2] as string)).title).toBe('Three');
    },
    { expected: [/404/] },
  ),
);

browserTest('a version that was erased, or whose fields the role does not see, says so', () =>
  visit(
    service.url,
    async (page) => {
      const id = await create({ title: 'Seen', note: 'hidden' });
      await tenant.patch(`${DEALS}/${id}`, { note: 'hidden too' });
      const entities = { deals: { fields: ['title'] } };
      await tenant.post('/api/roles', { name: 'clerk', permissions: { deals: ['read'] }, entities });
      const clerk = await person({ role: 'clerk' });
      await open(page, `deals/${id}?tab=history`, clerk.token);
      await page.getByText('It changed only fields that your role clerk does not see').waitFor();
      expect(await page.getByText('hidden').count()).toBe(0);
      expect(await page.getByRole('button', { name: /Restore/ }).count()).toBe(0);
      await page.route('**/history?*', (route) =>
        route.fulfill({
          status: 500,
          json: { success: false, error: { code: 'INTERNAL_ERROR', message: 'Internal server error' } },
        }),
      );
      await page.reload();
      await page.getByText('Could not load the history.').waitFor();
      await page.unroute('**/history?*');
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('It changed only fields that your role clerk does not see').waitFor();
      await tenant.delete(`${DEALS}/${id}?erase=true`);
      await page.reload();
      await page.getByText('This record was erased').waitFor();
      await page
        .getByText(/^Its values were erased .* Nobody can bring them back/)
        .first()
        .waitFor();
      expect(await axe(page)).toEqual([]);
    },
    { expected: [/404|500/] },
  ),
);

browserTest('a cell that is scrolled out of view while it is edited keeps what was typed', () =>
  visit(service.url, async (page) => {
    const operations = Array.from({ length: 100 }, (_, at) => ({ op: 'create', data: { title: `Deal ${at + 100}` } }));
    await tenant.post(`${DEALS}/bulk`, { operations });
    await open(page, 'deals?sort=title');
    await page.getByRole('gridcell', { name: 'Deal 102', exact: true }).dblclick();
    const editor = page.getByRole('textbox', { name: 'Title' });
    await editor.fill('Half of what');
    const grid = page.getByRole('grid');
    await grid.evaluate((element) => element.scrollTo(0, 3_000));
    await page.getByRole('gridcell', { name: 'Deal 185', exact: true }).waitFor();
    await grid.evaluate((element) => element.scrollTo(0, 0));
    await page.getByRole('gridcell', { name: 'Deal 101', exact: true }).waitFor();
    expect(await editor.inputValue()).toBe('Half of what');
    await grid.evaluate((element) => element.scrollTo(0, 3_000));
    await page.getByRole('gridcell', { name: 'Deal 185', exact: true }).waitFor();
    // Typing continues at the former position, which becomes visible.
    await page.keyboard.press('End');
    await page.keyboard.type(' I typed');
    await page.getByRole('gridcell', { name: 'Deal 101', exact: true }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByText('Saved.').waitFor();
    expect((await tenant.get(`${DEALS}?filters=title contains "Half"`)).body.data.items[0].title).toBe(
      'Half of what I typed',
    );
  }),
);
