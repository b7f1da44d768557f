// The grid and the page of a record follow changes by others in Chromium: through a ticket, in place, without moving what the
// person looks at; a lost connection shows and heals with a new ticket. Contract: browsers#tickets, interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, before, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { addUser, signIn } from './support/people.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/companies/records';

let service: TestService;
let tenant: TestTenant;
let ids: string[];
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  const fields = [
    { key: 'title', type: 'text', required: true },
    { key: 'stage', type: 'select', options: ['open', 'won'] },
    { key: 'amount', type: 'integer' },
  ];
  await tenant.post('/api/entities', { name: 'companies', fields });
  ids = [];
  for (const amount of [1, 2, 3]) {
    const { body } = await tenant.post(RECORDS, { title: `Company ${amount}`, stage: 'open', amount });
    ids.push(body.data.id);
  }
});

const live = (page: Page) => page.getByText('live', { exact: true });
const cell = (page: Page, row: number, column: number) =>
  page.locator(`[role=row][aria-rowindex="${row + 1}"] > [aria-colindex="${column + 1}"]`);
const change = (at: number, data: object) => tenant.patch(`${RECORDS}/${ids[at]}`, data);

async function open(page: Page, query = '?sort=amount'): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/records/companies${query}`);
  await page.getByText('3 records').waitFor();
  await live(page).waitFor();
}

browserTest('a row that someone else changes takes the new value where it stands; new ones are only counted', () =>
  visit(service.url, async (page) => {
    await open(page);
    await change(1, { stage: 'won' });
    await cell(page, 2, 2).getByText('won').waitFor();
    expect(await cell(page, 2, 2).getAttribute('class')).toContain('live');
    await change(0, { amount: 100 });
    await page.getByRole('button', { name: '1 row moved or gone' }).waitFor();
    expect(await cell(page, 1, 1).textContent()).toContain('Company 1');
    await tenant.post(RECORDS, { title: 'Newcomer', amount: 50 });
    await tenant.delete(`${RECORDS}/${ids[2]}`);
    const news = page.getByRole('button', { name: '1 new, 2 rows moved or gone' });
    await news.waitFor();
    expect(await cell(page, 3, 1).textContent()).toContain('deleted');
    expect(await flaws(page, [360, 1280])).toEqual([]);
    await news.click();
    await page.getByRole('gridcell', { name: 'Newcomer', exact: true }).waitFor();
    expect(await cell(page, 3, 1).textContent()).toContain('Company 1');
    expect(await page.getByRole('button', { name: /moved or gone/ }).count()).toBe(0);
  }),
);

browserTest('a row that no longer matches the filter stays, marked, and what does not match is not counted', () =>
  visit(service.url, async (page) => {
    await open(page, `?filters=${encodeURIComponent('stage = open')}&sort=amount`);
    await change(1, { stage: 'won' });
    await cell(page, 2, 1).getByText('no longer here').waitFor();
    await tenant.post(RECORDS, { title: 'Won at once', stage: 'won' });
    await tenant.post(RECORDS, { title: 'Open', stage: 'open' });
    await page.getByRole('button', { name: '1 new, 1 row moved or gone' }).waitFor();
    expect(await axe(page)).toEqual([]);
  }),
);

browserTest('a cell that is edited keeps what is typed, says what came, and saving shows both', () =>
  visit(
    service.url,
    async (page) => {
      await open(page);
      await cell(page, 1, 3).dblclick();
      await page.keyboard.press('Control+a');
      await page.keyboard.type('7');
      await change(0, { amount: 9 });
      await page.getByText('changed meanwhile: 9').waitFor();
      expect(await page.locator('.cell-input').inputValue()).toBe('7');
      await page.keyboard.press('Enter');
      const choice = page.getByRole('region', { name: 'amount was changed by someone else' });
      await choice.waitFor();
      await choice.getByRole('button', { name: 'Use theirs' }).click();
      expect((await tenant.get(`${RECORDS}/${ids[0]}`)).body.data.amount).toBe(9);
    },
    { expected: [/412/] },
  ),
);

browserTest('a lost connection shows, and heals with a new ticket; what was missed is read again', () =>
  visit(
    service.url,
    async (page) => {
      let isDown = false;
      let tickets = 0;
      await page.route('**/events/tickets', (route) => {
        tickets += 1;
        return isDown ? route.abort() : route.continue();
      });
      // The service ends the stream of a credential that is revoked; here the page's network ends it.
      await before(
        page,
        () => {
          const Real = window.EventSource;
          const opened: EventSource[] = [];
          Object.assign(window, { opened });
          window.EventSource = class extends Real {
            constructor(url: string | URL) {
              super(url);
              opened.push(this);
            }
          };
        },
        undefined,
      );
      await open(page);
      isDown = true;
      await page.evaluate(() => {
        const [stream] = (window as unknown as { opened: EventSource[] }).opened;
        stream?.dispatchEvent(new Event('error'));
      });
      await page.getByText(/not live: connecting again/).waitFor();
      expect(await axe(page)).toEqual([]);
      await change(1, { stage: 'won' });
      await tenant.post(RECORDS, { title: 'While away', amount: 9 });
      isDown = false;
      await live(page).waitFor();
      expect(tickets).toBeGreaterThanOrEqual(2);
      await cell(page, 2, 2).getByText('won').waitFor();
      await page.getByRole('button', { name: '1 new' }).waitFor();
      await change(2, { stage: 'won' });
      await cell(page, 3, 2).getByText('won').waitFor();
    },
    { expected: [/ERR_FAILED/] },
  ),
);

browserTest('without tickets the grid says that it is not live', () =>
  visit(
    service.url,
    async (page) => {
      await page.route('**/events/tickets', (route) =>
        route.fulfill({ status: 403, json: { success: false, error: { code: 'FORBIDDEN', message: 'no' } } }),
      );
      await signedIn(page, tenant.key, tenant.slug);
      await page.goto(`/app/t/${tenant.slug}/records/companies`);
      await page.getByText('not live', { exact: true }).waitFor();
      await page.getByText('3 records').waitFor();
      expect(await axe(page)).toEqual([]);
    },
    { expected: [/403/] },
  ),
);

browserTest('who sees only some rows, of which the service sends no events, sees changes a few seconds later', () =>
  visit(service.url, async (page) => {
    const permissions = { companies: ['read'] };
    await tenant.post('/api/roles', {
      name: 'openers',
      permissions,
      entities: { companies: { rowFilter: 'stage = open' } },
    });
    const { email } = await addUser(tenant, { role: 'openers' });
    const { token } = await signIn(service.anonymous, tenant, email);
    await page.clock.install();
    await signedIn(page, token, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}/records/companies?sort=amount`);
    await page.getByText('3 records').waitFor();
    await live(page).waitFor();
    await change(0, { title: 'Renamed' });
    await change(1, { stage: 'won' });
    await page.clock.fastForward(8_000);
    await cell(page, 1, 1).getByText('Renamed').waitFor();
    await cell(page, 2, 1).getByText('no longer here').waitFor();
  }),
);

browserTest('the page of a record shows what others write, and keeps unsaved edits', () =>
  visit(service.url, async (page) => {
    await signedIn(page, tenant.key, tenant.slug);
    const ticket = page.waitForResponse((response) => response.url().includes('/stream?ticket='));
    await page.goto(`/app/t/${tenant.slug}/records/companies/${ids[0]}`);
    await ticket;
    await page.getByLabel('amount').waitFor();
    await change(0, { amount: 41 });
    await page.waitForFunction(() => [...document.querySelectorAll('input')].some(({ value }) => value === '41'));
    await page.getByLabel('title').fill('Mine');
    await change(0, { amount: 42 });
    await page.getByText(/changed this record. Your edits are kept./).waitFor();
    expect(await page.getByLabel('title').inputValue()).toBe('Mine');
    expect(await axe(page)).toEqual([]);
  }),
);
