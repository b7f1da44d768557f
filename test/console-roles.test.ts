// The console's Roles in Chromium: a role made and edited in the matrix, by keyboard too, what changes said in words
// before saving, row filters checked while typing, and a tenant seen as a role, compared with what the API answers to a
// user of that role. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { addUser, createPublicKey, signIn } from './support/people.ts';
import { seededRandom } from './support/random.ts';
import { type Answer, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
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
  await tenant.post('/api/entities', { name: 'deals', fields });
  await tenant.post('/api/entities', { name: 'tasks', fields: [{ key: 'title', type: 'text' }] });
  for (const [title, stage] of [
    ['Alpha', 'open'],
    ['Beta', 'won'],
    ['Gamma', 'won'],
  ]) {
    await tenant.post('/api/entities/deals/records', { title, stage, amount: 5 });
  }
});

const sales = { name: 'sales', permissions: { deals: ['read', 'update'], tasks: ['read'] }, entities: {} };

const rowFilter = (page: Page) => page.getByRole('textbox', { name: 'Row filter', exact: true });

async function openRole(page: Page, name: string): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/roles/${name}`);
  await page.getByRole('checkbox', { name: 'read deals' }).waitFor();
}

browserTest('a role is made from another, edited in the matrix, and saved with its changes in words', () =>
  visit(service.url, async (page) => {
    await signedIn(page, tenant.key, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}/roles`);
    await page
      .getByText('Only the four system roles so far. Create a role to limit entities, fields or rows.')
      .waitFor();
    await page.getByRole('button', { name: 'New role' }).click();
    const dialog = page.getByRole('dialog', { name: 'New role' });
    await dialog.getByLabel('Name').fill('sales');
    await dialog.getByRole('combobox', { name: 'Copy the permissions of' }).fill('view');
    await dialog.getByRole('option', { name: 'viewer' }).click();
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Create role' }).click();
    const read = page.getByRole('checkbox', { name: 'read deals' });
    await read.waitFor();
    expect(await read.getAttribute('aria-checked')).toBe('mixed');
    await page.getByRole('checkbox', { name: 'delete deals' }).click();
    await page.getByText('sales may now delete deals.').waitFor();
    await page.getByRole('button', { name: /^fields of deals: all/ }).click();
    await page.getByLabel('amount').uncheck();
    await page.getByText('sales loses amount in deals.').waitFor();
    await page.getByRole('button', { name: 'Add condition' }).click();
    await page.getByLabel('Field of condition 1').selectOption('stage');
    await page.getByLabel('Value of condition 1').selectOption('won');
    expect(await rowFilter(page).inputValue()).toBe('stage = "won"');
    await page.getByText('sales sees 2 of 3 records.').waitFor();
    await page.getByText('sales sees only records of deals where stage = "won".').waitFor();
    expect(await axe(page)).toEqual([]);
    expect((await tenant.get('/api/roles/sales')).body.data.entities).toEqual({});
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved. It takes effect within a second').waitFor();
    expect((await tenant.get('/api/roles/sales')).body.data).toMatchObject({
      permissions: { '*': ['read'], deals: ['delete'] },
      entities: { deals: { excludeFields: ['amount'], rowFilter: 'stage = "won"' } },
    });
    await page.getByRole('button', { name: 'fields of deals: 2/3' }).waitFor();
    expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0);
  }),
);

browserTest('the matrix is a grid with one tab stop: arrows move, Space grants and takes', () =>
  visit(
    service.url,
    async (page) => {
      await tenant.post('/api/roles', sales);
      await openRole(page, 'sales');
      const grid = page.getByRole('grid', { name: 'What sales may do' });
      expect(await grid.locator('[data-cell][tabindex="0"]').count()).toBe(1);
      await page.getByRole('checkbox', { name: 'read all entities' }).focus();
      for (const key of ['ArrowDown', 'ArrowRight', 'Space']) await page.keyboard.press(key);
      const create = page.getByRole('checkbox', { name: 'create deals' });
      expect([await create.isChecked(), await create.evaluate((box) => box === document.activeElement)]).toEqual([
        true,
        true,
      ]);
      await page.getByText('sales may now create deals.').waitFor();
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('Space');
      await page.getByText('sales may no longer update deals.').waitFor();
      await page.keyboard.press('End');
      await page.keyboard.press('Enter');
      await rowFilter(page).fill('x');
      await page.getByRole('button', { name: 'Discard' }).click();
      expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0);
      expect(await grid.getByRole('gridcell').count()).toBeGreaterThan(15);
    },
    { expected: [/400/] },
  ),
);

browserTest('a row filter that is wrong says why beside its field, and nothing is saved', () =>
  visit(
    service.url,
    async (page) => {
      await tenant.post('/api/roles', sales);
      const { email } = await addUser(tenant, { role: 'sales' });
      await tenant.post('/api/entities/deals/records', { title: email });
      await openRole(page, 'sales');
      await page.getByRole('button', { name: 'rows of deals: all' }).click();
      const filter = rowFilter(page);
      await filter.fill('stge = "won"');
      await page.locator('.field-error').filter({ hasText: 'stge' }).waitFor();
      expect(await axe(page)).toEqual([]);
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Nothing was saved.').waitFor();
      expect((await tenant.get('/api/roles/sales')).body.data.entities).toEqual({});
      await filter.fill('title = $currentUser.email');
      await page.getByText('Without a person, as in “See as this role”, sales sees 0 of 4 records.').waitFor();
      await page.getByRole('combobox', { name: 'Count for a person' }).fill(email.slice(0, 8));
      await page.getByRole('option', { name: email }).click();
      await page.getByText(`${email} as sales sees 1 of 4 records.`).waitFor();
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Saved. It takes effect').waitFor();
    },
    { expected: [/400/] },
  ),
);

browserTest(
  'a tenant is seen as a role: the same records and fields as its users get, and nothing can be changed',
  () =>
    visit(service.url, async (page) => {
      const entities = { deals: { excludeFields: ['amount'], rowFilter: 'stage = "won"' } };
      await tenant.post('/api/roles', { ...sales, permissions: { deals: ['read', 'update'] }, entities });
      const { email } = await addUser(tenant, { role: 'sales' });
      const user = await signIn(service.anonymous, tenant, email);
      const titles = (await user.get('/api/entities/deals/records')).body.data.items.map(
        ({ title }: { title: string }) => title,
      );
      await openRole(page, 'sales');
      await page.getByRole('link', { name: 'See as this role' }).click();
      await page.getByText('You are viewing this tenant as sales. Nothing can be changed.').waitFor();
      await page.getByRole('rowheader', { name: 'deals' }).waitFor();
      await page.getByRole('rowheader', { name: 'tasks' }).waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'deals', exact: true }).last().click();
      await page.getByRole('gridcell', { name: /Beta/ }).first().waitFor();
      expect(page.url()).toContain('as=sales');
      for (const title of titles) expect(await page.getByText(title, { exact: true }).count()).toBeGreaterThan(0);
      expect(titles.toSorted()).toEqual(['Beta', 'Gamma']);
      expect(await page.getByText('Alpha').count()).toBe(0);
      expect(await page.getByRole('columnheader', { name: /amount/ }).count()).toBe(0);
      await page.getByRole('button', { name: 'Stop' }).click();
      await page.getByText('Alpha').first().waitFor();
      expect(page.url()).not.toContain('as=');
    }),
);

browserTest('as any role, the console and the API show what a key of that role gets: records, fields, counts', () =>
  visit(
    service.url,
    async (page) => {
      const random = seededRandom(17);
      await signedIn(page, tenant.key, tenant.slug);
      for (let at = 0; at < 12; at += 1) {
        const role = randomRole(`role-${at}`, random);
        const { id } = (await tenant.post('/api/roles', role)).body.data;
        const { key } = await createPublicKey(tenant, { roleId: id });
        const holder = service.anonymous.with({ 'x-public-key': key, 'x-tenant-id': tenant.slug });
        const admin = tenant.with({ 'x-svc-as-role': role.name });
        for (const entity of ['deals', 'tasks']) {
          const records = `/api/entities/${entity}/records`;
          const listed = await holder.get(records);
          for (const path of [records, `${records}/aggregate?metrics=count`, `${records}?search=Beta&limit=1`]) {
            const [own, seen] = [await holder.get(path), await admin.get(path)];
            expect([seen.status, seen.body.data]).toEqual([own.status, own.body.data]);
          }
          if (at < 4) await sameInConsole(page, role.name, entity, listed);
        }
      }
    },
    { expected: [/403/] },
  ),
);

/** Compares the grid's columns, rows and count for a role with the list that a key of the role got. */
async function sameInConsole(page: Page, role: string, entity: string, { status, body }: Answer): Promise<void> {
  await page.goto(`/app/t/${tenant.slug}/records/${entity}?as=${role}`);
  if (status === 403) return page.getByText(`Your role ${role} may not read ${entity}.`).waitFor();
  const { items, total } = body.data as { items: Record<string, unknown>[]; total: number };
  const grid = page.getByRole('grid', { name: entity });
  if (total === 0) await page.getByText(`No ${entity} yet.`).waitFor();
  else {
    await grid.and(page.locator(`[aria-rowcount="${total + 1}"]`)).waitFor();
    const shown = await grid.getByRole('columnheader').allInnerTexts();
    const keys = ['title', 'stage', 'amount'];
    expect(keys.filter((key) => shown.some((text) => text.trim() === key))).toEqual(
      keys.filter((key) => key in (items[0] as object)),
    );
    for (const { title } of items) if (title != null) await grid.getByText(String(title), { exact: true }).waitFor();
    expect(await grid.getByRole('row').count()).toBe(total + 1);
  }
}

function randomRole(name: string, random: () => number) {
  const some = <T>(list: readonly T[], share: number): T[] => list.filter(() => random() < share);
  const keys = ['title', 'stage', 'amount'];
  const filters = ['stage = "won"', 'amount > 4 OR title = "Alpha"', 'stage != "won"', 'createdBy = $currentUser.id'];
  const limited = random() < 0.5 ? { fields: some(keys, 0.6) } : { excludeFields: some(keys, 0.4) };
  const rowFilter = filters[Math.floor(random() * (filters.length + 1))];
  return {
    name,
    permissions:
      random() < 0.3
        ? { '*': ['read'] }
        : Object.fromEntries(some(['deals', 'tasks'], 0.7).map((entity) => [entity, ['read']])),
    entities: { deals: { ...limited, ...(rowFilter === undefined ? {} : { rowFilter }) } },
  };
}

browserTest(
  'Explain says of a role or credential what decides, which fields it sees, and which part hides a record',
  () =>
    visit(service.url, async (page) => {
      const limits = { excludeFields: ['amount'], rowFilter: 'amount > 4 AND stage = "won"' };
      const mine = { rowFilter: 'title = $currentUser.email' };
      const entities = { deals: limits, tasks: mine };
      const permissions = { '*': ['read'], deals: ['read', 'create'] };
      const { id: roleId } = (await tenant.post('/api/roles', { name: 'sales', permissions, entities })).body.data;
      const { email } = await addUser(tenant, { role: 'sales' });
      await tenant.post('/api/entities/tasks/records', { title: email });
      await createPublicKey(tenant, { roleId, label: 'website' });
      await signedIn(page, tenant.key, tenant.slug);
      await page.goto(`/app/t/${tenant.slug}/roles`);
      await page.getByRole('button', { name: 'Explain' }).click();
      const dialog = page.getByRole('dialog', { name: 'Explain access' });
      const choose = async (label: string, text: string): Promise<void> => {
        await dialog.getByRole('combobox', { name: label }).fill(text);
        await dialog.getByRole('option', { name: text }).click();
      };
      const parts = dialog.getByRole('list', { name: 'Row filter' }).getByRole('listitem');

      await choose('Role', 'sales');
      await choose('Entity', 'deals');
      await dialog.getByText('The role sales grants read on deals, for the rows that match').waitFor();
      await dialog.getByText('Decided by the role sales.').waitFor();
      await dialog.getByText('Visible fields: title, stage. Hidden: amount.').waitFor();
      await choose('Record', 'Alpha');
      await dialog.getByText('The row filter of the role sales on deals hides this record').waitFor();
      expect(await parts.allInnerTexts()).toEqual(['met amount > 4', 'not met stage = "won"']);
      expect(await axe(page)).toEqual([]);
      await choose('Record', 'Beta');
      await dialog.getByText('The record is one of the visible rows.').waitFor();
      await dialog.getByLabel('Channel').selectOption('sse');
      await dialog.getByText('A plain sse stream shows nothing of deals').waitFor();
      await dialog.getByLabel('Channel').selectOption('rest');
      await dialog.getByLabel('Operation').selectOption('delete');
      await dialog.getByText('The role sales does not grant delete on deals').waitFor();
      await dialog.getByLabel('Operation').selectOption('read');
      await dialog.getByRole('button', { name: 'Clear Record' }).click();
      await dialog.getByText('The role sales grants read on deals, for the rows that match').waitFor();

      await dialog.getByLabel('Who').selectOption('Public key');
      await dialog.getByText('allowed', { exact: true }).waitFor({ state: 'detached' });
      await choose('Public key', 'website');
      await dialog.getByLabel('Operation').selectOption('create');
      await dialog.getByText('A public key only reads').waitFor();
      await dialog.getByText('Decided by the credential website.').waitFor();

      await dialog.getByLabel('Operation').selectOption('read');
      await dialog.getByLabel('Who').selectOption('Person');
      await choose('Person', email);
      await choose('Entity', 'tasks');
      await choose('Record', email);
      await dialog.getByText('The record is one of the visible rows.').waitFor();
      expect(await parts.allInnerTexts()).toEqual(['met title = $currentUser.email']);
      expect(await flaws(page)).toEqual([]);
    }),
);

browserTest('Explain on the page of a role begins with that role, for which $currentUser has no value', () =>
  visit(service.url, async (page) => {
    await tenant.post('/api/roles', { ...sales, entities: { tasks: { rowFilter: 'title = $currentUser.email' } } });
    await tenant.post('/api/entities/tasks/records', { title: 'somebody' });
    await openRole(page, 'sales');
    await page.getByRole('button', { name: 'Explain' }).click();
    const dialog = page.getByRole('dialog', { name: 'Explain access' });
    for (const [label, text] of [
      ['Entity', 'tasks'],
      ['Record', 'somebody'],
    ] as const) {
      await dialog.getByRole('combobox', { name: label }).fill(text);
      await dialog.getByRole('option', { name: text }).click();
    }
    await dialog.getByText('The row filter of the role sales on tasks hides this record').waitFor();
    await dialog.getByText('not met title = $currentUser.email').waitFor();
  }),
);

browserTest('a role in use is not deleted, and the refusal names its uses; owner and admin stay as they are', () =>
  visit(
    service.url,
    async (page) => {
      await tenant.post('/api/roles', sales);
      const { id } = await addUser(tenant, { role: 'sales' });
      await openRole(page, 'sales');
      await page.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page
        .getByRole('dialog')
        .getByText(/in use: users: 1/)
        .waitFor();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await tenant.patch(`/api/users/${id}`, { role: 'viewer' });
      await page.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.waitForURL(`${service.url}/app/t/${tenant.slug}/roles`);
      await openRole(page, 'admin');
      await page.getByText('The role admin can do everything. It cannot be changed or deleted.').waitFor();
      await page.getByRole('checkbox', { name: 'read deals' }).click();
      expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0);
    },
    { expected: [/409|404/] },
  ),
);

browserTest('Roles are accessible and keep their width', () =>
  visit(service.url, async (page) => {
    await tenant.post('/api/roles', sales);
    await openRole(page, 'sales');
    await page.getByRole('button', { name: 'rows of deals: all' }).click();
    await rowFilter(page).waitFor();
    await page.getByRole('checkbox', { name: 'delete deals' }).click();
    expect(await flaws(page)).toEqual([]);
    await page.goto(`/app/t/${tenant.slug}/roles`);
    await page.getByRole('rowheader', { name: 'sales' }).waitFor();
    expect(await flaws(page)).toEqual([]);
  }),
);
