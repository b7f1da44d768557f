// The console's Live page in Chromium: events as they come by ticket, pause that keeps counting, filters, the search, a
// list of thousands, a lost connection that heals with a new ticket, what axe finds. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { cuttingProxy } from './support/cutting-proxy.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  for (const name of ['deals', 'tasks']) {
    await tenant.post('/api/entities', { name, fields: [{ key: 'title', type: 'text', required: true }] });
  }
});

const add = (entity: string, title: string) => tenant.post(`/api/entities/${entity}/records`, { title });

async function open(page: Page, query = ''): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/live${query}`);
  await page.getByText('connected', { exact: true }).waitFor();
}

const row = (page: Page, name: string | RegExp) => page.getByRole('listitem').filter({ hasText: name });

browserTest('events appear as they happen, and one opens as it came', () =>
  visit(service.url, async (page) => {
    await open(page);
    await page.getByText('Connected. Waiting for the first change.').waitFor();
    expect(await axe(page)).toEqual([]);
    await add('deals', 'Acme deal');
    await row(page, 'Acme deal').getByRole('button').click();
    const panel = page.getByRole('complementary', { name: 'record.created' });
    await panel.getByText('"entity": "deals"').waitFor();
    expect(page.url()).not.toContain('svc_tkt_');
    expect(await flaws(page)).toEqual([]);
  }),
);

browserTest('pause holds the list still and counts on; resume shows what came meanwhile', () =>
  visit(service.url, async (page) => {
    await open(page);
    await add('deals', 'Before');
    await row(page, 'Before').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    for (const title of ['First', 'Second', 'Third']) await add('deals', title);
    await page.getByText('3 new').waitFor();
    expect(await row(page, /First|Second|Third/).count()).toBe(0);
    await page.getByRole('button', { name: 'Resume' }).click();
    await row(page, 'Third').waitFor();
    expect(await row(page, /First|Second|Third/).count()).toBe(3);
  }),
);

browserTest('the list is narrowed by entity, event and text, and the link keeps how', () =>
  visit(service.url, async (page) => {
    await open(page);
    const { id } = (await add('deals', 'Oak')).body.data;
    await add('tasks', 'Call about the oak');
    await tenant.patch(`/api/entities/deals/records/${id}`, { title: 'Oak and ash' });
    await row(page, 'Oak and ash').waitFor();
    await page.getByLabel('Entity').selectOption('deals');
    await row(page, 'Call about').waitFor({ state: 'detached' });
    await page.getByLabel('Event', { exact: true }).selectOption('record.updated');
    await row(page, 'created').waitFor({ state: 'detached' });
    await page.getByLabel('Search').fill('beech');
    await page.getByText(/None of the 3 events matches/).waitFor();
    await page.getByLabel('Search').fill('ASH');
    await row(page, 'Oak and ash').waitFor();
    expect(new URL(page.url()).search).toBe('?entity=deals&event=record.updated&search=ASH');
  }),
);

browserTest('of thousands of events only those in sight are in the document', () =>
  visit(service.url, async (page) => {
    await open(page);
    const lines = Array.from({ length: 2_000 }, (_, at) => JSON.stringify({ title: `Deal ${at + 1}` })).join('\n');
    await tenant.post('/api/entities/deals/records/import', lines, { 'content-type': 'application/x-ndjson' });
    await row(page, 'Deal 2000').waitFor();
    expect(await page.getByRole('listitem').count()).toBeLessThan(80);
    expect(await axe(page)).toEqual([]);
  }),
);

browserTest('a lost connection is said and heals with a new ticket', async () => {
  const proxy = await cuttingProxy(Number(new URL(service.url).port));
  try {
    await visit(
      proxy.address(service.url),
      async (page) => {
        await open(page);
        proxy.refuse(true);
        await page.getByText(/connection lost, reconnecting in/).waitFor();
        expect(await axe(page)).toEqual([]);
        proxy.refuse(false);
        await page.getByText('connected', { exact: true }).waitFor();
        await add('deals', 'After the loss');
        await row(page, 'After the loss').waitFor();
      },
      { expected: [/Failed to load resource|ERR_/] },
    );
  } finally {
    proxy.close();
  }
});
