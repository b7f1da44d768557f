// Views and Rules in Chromium: made and changed with the builder, tried, switched, deleted, opened in the grid.
// Contract: interface#console, decisions#rules.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { runRulesOnce } from '../src/rules/worker.ts';
import { axe, browserTest, signedIn, visit } from './support/browser.ts';
import { addUser, signIn } from './support/people.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const REFUSE = { type: 'reject', message: 'not now' };

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', {
    name: 'deals',
    fields: [
      { key: 'title', type: 'text', required: true },
      { key: 'stage', type: 'select', options: ['open', 'won', 'closed'] },
    ],
  });
  for (const [title, stage] of [
    ['Acme', 'open'],
    ['Beta', 'closed'],
  ])
    await tenant.post('/api/entities/deals/records', { title, stage });
});

async function open(page: Page, path: string): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/${path}`);
}

browserTest('a view is made with the builder, counted, opened in the grid, changed and deleted', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'views');
      await page.getByText('A view is a named filter that roles can be allowed to read.').waitFor();
      await page.getByRole('button', { name: 'New view' }).click();
      await page.getByLabel('Name', { exact: true }).fill('Open deals');
      expect(await page.getByLabel('Name in the API').inputValue()).toBe('open-deals');
      await page.getByRole('combobox', { name: 'Entity' }).click();
      await page.getByRole('option', { name: 'deals' }).click();
      await page.getByRole('button', { name: 'Add condition' }).click();
      await page.getByLabel('Field of condition 1').selectOption('stage');
      expect(await page.getByLabel('Condition', { exact: true }).inputValue()).toBe('stage = "open"');
      expect(await axe(page)).toEqual([]);
      await page.getByRole('button', { name: 'Save' }).click();
      await page
        .getByRole('row', { name: /Open deals/ })
        .getByRole('cell', { name: '1', exact: true })
        .waitFor();
      await page.getByRole('button', { name: 'Edit Open deals' }).click();
      const condition = page.getByLabel('Condition', { exact: true });
      await condition.fill('sta');
      await page.getByRole('option', { name: 'stage' }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('option', { name: 'stage' }).waitFor({ state: 'detached' });
      await condition.fill('stage = nothing AND');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('.field-error').waitFor();
      await page.getByLabel('Condition', { exact: true }).fill('stage in (open, closed)');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('cell', { name: '2', exact: true }).waitFor();
      await page.getByRole('link', { name: 'Open deals' }).click();
      await page.waitForURL(/view=open-deals/);
      await page.getByText('2 records').waitFor();
      await page.goBack();
      await page.getByRole('button', { name: 'Delete Open deals' }).click();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('A view is a named filter').waitFor();
      expect((await tenant.get('/api/views')).body.data).toEqual([]);
    },
    { expected: [/400/] },
  ),
);

browserTest('a role that may read a view alone finds it in the navigation and sees its records, and no others', () =>
  visit(
    service.url,
    async (page) => {
      const filterDsl = { validate: [{ condition: 'stage = "open"' }] };
      await tenant.post('/api/views', { name: 'Open deals', slug: 'open-deals', entitySlug: 'deals', filterDsl });
      await tenant.post('/api/roles', { name: 'guest', permissions: { 'view:open-deals': ['read'] } });
      const { email } = await addUser(tenant, { role: 'guest' });
      await signedIn(page, (await signIn(service.anonymous, tenant, email)).token, tenant.slug);
      await page.goto(`/app/t/${tenant.slug}`);
      await page.getByText('Your role guest reads records through this view.').waitFor();
      expect(await axe(page)).toEqual([]);
      await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Open deals' }).click();
      await page.getByText('1 record').waitFor();
      expect(await page.getByRole('gridcell', { name: 'Beta' }).count()).toBe(0);
      expect(await page.getByRole('button', { name: /^(New record|Import|Export)$/ }).count()).toBe(0);
      await page.getByRole('link', { name: 'Acme' }).click();
      const peek = page.getByRole('complementary', { name: 'Acme' });
      await peek.getByText('open', { exact: true }).waitFor();
      expect(await peek.getByRole('link', { name: 'Open' }).count()).toBe(0);
      expect(await axe(page)).toEqual([]);
      await page.goto(`/app/t/${tenant.slug}/records/deals`);
      await page.getByText('Your role guest may not read deals.').waitFor();
      await page.getByText('It may read this view: Open deals').waitFor();
    },
    { expected: [/403/] },
  ),
);

browserTest('a rule is made, tried on a record, switched on, and then holds', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'rules');
      await page.getByText('Rules refuse changes, set values, or follow up on changes automatically.').waitFor();
      await page.getByRole('button', { name: 'New rule' }).click();
      await page.getByLabel('Name', { exact: true }).fill('closed is closed');
      await page.getByRole('button', { name: 'Add condition' }).click();
      await page.getByLabel('Field of condition 1').selectOption('$old.stage');
      await page.getByLabel('Value of condition 1').selectOption('closed');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('.field-error').waitFor();
      await page.getByLabel('Message').fill('a closed deal stays closed');
      expect(await axe(page)).toEqual([]);
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('row', { name: /closed is closed/ }).waitFor();
      await page.getByRole('button', { name: 'Try closed is closed' }).click();
      for (const [title, said] of [
        ['Beta', 'The condition is met. The rule would refuse: a closed deal stays closed'],
        ['Acme', 'The condition is not met'],
      ] as const) {
        await page.getByRole('combobox', { name: 'Record' }).fill(title);
        await page.getByRole('option', { name: title }).click();
        await page.getByRole('button', { name: 'Try', exact: true }).click();
        await page.getByText(said).waitFor();
      }
      expect(await axe(page)).toEqual([]);
      await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
      await page.getByRole('checkbox', { name: 'closed is closed is on' }).click();
      await page.getByText('closed is closed is on.').waitFor();
      const { body } = await tenant.get('/api/entities/deals/records?filters=stage%3Dclosed');
      const refused = await tenant.patch(`/api/entities/deals/records/${body.data.items[0].id}`, { stage: 'open' });
      expect(refused.status).toBe(400);
      await page.getByRole('button', { name: 'Edit closed is closed' }).click();
      await page.getByLabel('When').selectOption('before_create');
      await page.getByLabel('Condition', { exact: true }).fill('');
      await page.getByLabel('Then').selectOption('set');
      await page.getByLabel('Add a value').selectOption('stage');
      await page.getByLabel('stage', { exact: true }).fill('open');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('cell', { name: 'set stage = "open"' }).waitFor();
      await page.getByRole('button', { name: 'Delete closed is closed' }).click();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('Rules refuse changes, set values').waitFor();
    },
    { colorScheme: 'dark', expected: [/400/] },
  ),
);

browserTest('the list of rules shows live what each rule did last, and why one failed', () =>
  visit(service.url, async (page) => {
    const rule = {
      entity: 'deals',
      trigger: 'after_update',
      condition: null as string | null,
      priority: 0,
      isActive: true,
    };
    const values = { title: '{{title}} again', stage: 'open' };
    await tenant.post('/api/entities', { name: 'logs', fields: [{ key: 'code', type: 'text', unique: true }] });
    await tenant.post('/api/entities/logs/records', { code: 'same' });
    for (const [name, action] of [
      ['copies', { type: 'create_record', entity: 'deals', values }],
      ['breaks', { type: 'create_record', entity: 'logs', values: { code: 'same' } }],
    ] as const)
      expect((await tenant.post('/api/rules', { ...rule, name, action })).status).toBe(201);
    await tenant.post('/api/rules', {
      ...rule,
      name: 'guards',
      trigger: 'before_update',
      condition: 'stage = "closed"',
      action: REFUSE,
    });
    await open(page, 'rules');
    const rowOf = (name: string) => page.getByRole('row', { name: new RegExp(`^${name}`) });
    await rowOf('guards').getByText('acts within the change').waitFor();
    for (const name of ['copies', 'breaks']) await rowOf(name).getByText('waiting').waitFor();
    const { items } = (await tenant.get('/api/entities/deals/records?filters=title%3DAcme')).body.data;
    await tenant.patch(`/api/entities/deals/records/${items[0].id}`, { title: 'Acme Ltd' });
    while ((await runRulesOnce(service.app, new AbortController().signal)) > 0);
    await rowOf('copies').getByText('ran', { exact: true }).waitFor();
    await rowOf('breaks').getByText('failed', { exact: true }).waitFor();
    await rowOf('breaks').locator('.field-error').filter({ hasText: 'code' }).waitFor();
    expect(await axe(page)).toEqual([]);
    await rowOf('breaks').getByRole('link', { name: 'just now' }).click();
    await page.getByRole('textbox', { name: /title/i }).waitFor();
    expect(new URL(page.url()).pathname).toEndWith(`/records/deals/${items[0].id}`);
  }),
);

browserTest(
  'of many views the first are shown, more on demand, and the search finds any; only shown ones are counted',
  () =>
    visit(service.url, async (page) => {
      const filterDsl = { validate: [{ condition: 'stage = "open"' }] };
      const names = Array.from({ length: 60 }, (_, at) => `view-${at}`);
      await Promise.all(
        names.map((slug) => tenant.post('/api/views', { name: slug, slug, entitySlug: 'deals', filterDsl })),
      );
      await open(page, 'views');
      await page.getByText('50 of 60 views').waitFor();
      expect(await page.getByRole('rowheader').count()).toBe(50);
      await page.getByRole('button', { name: 'Show 10 more' }).click();
      await page.getByText('50 of 60 views').waitFor({ state: 'detached' });
      expect(await page.getByRole('rowheader').count()).toBe(60);
      await page.getByLabel('Search').fill('VIEW-7');
      await page.getByRole('rowheader', { name: 'view-8', exact: true }).waitFor({ state: 'detached' });
      expect(await page.getByRole('rowheader').allInnerTexts()).toEqual(['view-7']);
      await page.getByRole('cell', { name: '1', exact: true }).waitFor();
      await page.getByLabel('Search').fill('nothing');
      await page.getByText('No views match “nothing”.').waitFor();
      expect(await axe(page)).toEqual([]);
    }),
);
