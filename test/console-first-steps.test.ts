// The first steps of a person who has never seen the product, in Chromium: from the address and a key to an entity, 5,000
// records from a file, a colleague who sees half of them, and changes that arrive; and Home's warnings against real states.
// Contract: interface#console.
import { afterAll, beforeAll, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { newAddress } from './support/addresses.ts';
import { axe, browserTest, openPage, signedIn, visit } from './support/browser.ts';
import { startReceiver } from './support/receiver.ts';
import { ADMIN_SECRET, startService, type TestService, type TestTenant } from './support/service.ts';
import { runInSchema } from './support/tenant-database.ts';

const PASSWORD = 'correct horse battery';
const COUNTRIES = ['Germany', 'France'];

let service: TestService;
beforeAll(async () => {
  service = await startService({
    TRUST_PROXY: '1',
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    WEBHOOK_RETRY_BASE_MS: '3600000',
  });
});
afterAll(() => service.stop());

async function signInWith(page: Page, fields: Record<string, string>, tab: 'Key' | 'Password'): Promise<void> {
  await page.goto('/app');
  await page.getByRole('tab', { name: tab }).click();
  for (const [label, text] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(text);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Entities' }).waitFor();
}

async function makeEntity(page: Page): Promise<void> {
  await page.getByRole('heading', { name: 'Four steps' }).waitFor();
  await page.getByRole('link', { name: 'New entity: Create an entity' }).click();
  await page.getByLabel('Label').fill('Customers');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('customers has no records yet.').waitFor();
}

async function importFile(page: Page): Promise<void> {
  const lines = Array.from({ length: 5_000 }, (_, at) => `Kunde Nº ${at + 1};${COUNTRIES[at % 2]};${at},50;31.12.2025`);
  const buffer = Buffer.from(`Customer;Country;Revenue;Since\n${lines.join('\n')}\n`, 'latin1');
  await page.getByRole('link', { name: 'Import a file' }).click();
  await page.getByLabel('File', { exact: true }).setInputFiles({ name: 'customers.csv', mimeType: 'text/csv', buffer });
  expect(await page.getByLabel('Field of Customer').inputValue()).toBe('title');
  await page.getByRole('button', { name: 'Create fields for 3 columns' }).click();
  expect(await page.getByLabel('Field of Since').inputValue()).toBe('+date');
  await page.getByRole('dialog').getByRole('button', { name: 'Import', exact: true }).click();
  await page.getByText('5,000 records imported.').waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByText('5,000 records').waitFor();
}

async function makeRole(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Roles', exact: true }).click();
  await page.getByRole('button', { name: 'New role' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('sales');
  await page.getByRole('button', { name: 'Create role' }).click();
  await page.getByRole('checkbox', { name: 'read customers' }).click();
  await page.getByRole('button', { name: /^fields of customers/ }).click();
  await page.getByLabel('Row filter').fill('country = "Germany"');
  await page.getByText('sales sees 2,500 of 5,000 records.').waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved. It takes effect within a second').waitFor();
}

async function inviteColleague(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'People', exact: true }).click();
  await page.getByRole('button', { name: 'Invite' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('How').selectOption({ label: 'With a password that I set' });
  await dialog.getByLabel('E-mail').fill('ada@example.com');
  await dialog.getByLabel('Name').fill('Ada');
  await dialog.getByLabel('Role').selectOption('sales');
  await dialog.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await dialog.getByRole('button').last().click();
  await page.getByRole('rowheader', { name: 'Ada' }).waitFor();
}

browserTest(
  'from the address and a key: an entity, 5,000 records from a file, a colleague who sees half, changes live',
  async () => {
    const tenant = await service.tenant();
    const add = (title: string, country: string) =>
      tenant.post('/api/entities/customers/records', { title, country, revenue: '1' });
    await visit(service.url, async (page) => {
      await page.goto('/');
      await page.waitForURL(/\/app/);
      await signInWith(page, { Key: tenant.key }, 'Key');
      await makeEntity(page);
      await importFile(page);
      await makeRole(page);
      await inviteColleague(page);
      await page.getByRole('link', { name: 'Home', exact: true }).click();
      await page.getByText('live', { exact: true }).waitFor();
      expect(await axe(page)).toEqual([]);
      const { page: colleague, problems } = await openPage(service.url, { extraHTTPHeaders: newAddress() });
      try {
        await signInWith(
          colleague,
          { Tenant: tenant.slug, 'E-mail': 'ada@example.com', Password: PASSWORD },
          'Password',
        );
        await colleague
          .getByRole('link', { name: /^customers/ })
          .first()
          .click();
        await colleague.getByText('2,500 records').waitFor();
      } finally {
        await colleague.context().close();
      }
      expect(problems).toEqual([]);
      await add('Watched from Home', 'France');
      await page.getByRole('link', { name: 'Watched from Home' }).waitFor();
      await page.getByRole('link', { name: 'Live', exact: true }).click();
      await page.getByText('connected', { exact: true }).waitFor();
      await add('Watched', 'France');
      await page.getByText('Watched').first().waitFor();
    });
  },
);

async function home(page: Page, tenant: TestTenant, key = tenant.key): Promise<void> {
  await signedIn(page, key, key === tenant.key ? tenant.slug : null);
  await page.goto(`/app/t/${tenant.slug}`);
  await page.getByRole('heading', { name: 'Entities' }).waitFor();
}

browserTest('Home warns of a failing webhook and of quotas from 80 %, and follows changes and deletions', async () => {
  const tenant = await service.tenant();
  const receiver = await startReceiver();
  try {
    await tenant.post('/api/entities', { name: 'deals', fields: [{ key: 'title', type: 'text', required: true }] });
    const url = `${receiver.url}/hook`;
    const subscription = { entity_name: 'deals', event_types: ['record.created'], url, secret: 'a shared secret' };
    const { id: hook } = (await tenant.post('/api/webhooks/subscriptions', subscription)).body.data;
    receiver.answer = (_, response) => void response.writeHead(500).end('db down');
    const made: string[] = [];
    for (const title of ['One', 'Two', 'Three', 'Four']) {
      made.push((await tenant.post('/api/entities/deals/records', { title })).body.data.id);
    }
    await receiver.waitFor(1);
    await service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { quotas: { records: 5, users: 100 } });
    await visit(service.url, async (page) => {
      await home(page, tenant);
      await page.getByText('1 webhook is failing: ').waitFor();
      await page.getByText(`${tenant.slug} has used 4 of 5 records.`).waitFor();
      expect(await page.getByText(/of 100 people/).count()).toBe(0);
      expect(await axe(page)).toEqual([]);
      await page.getByText('live', { exact: true }).waitFor();
      expect((await tenant.delete(`/api/entities/deals/records/${made[0]}`)).status).toBe(200);
      await page.getByRole('link', { name: 'One', exact: true }).waitFor({ state: 'detached' });
      await page.getByText(/has used/).waitFor({ state: 'detached' });
      await page.getByRole('link', { name: /^See: 1 webhook is failing/ }).click();
      await page.waitForURL(new RegExp(`webhooks/${hook}$`));
    });
  } finally {
    receiver.stop();
  }
});

browserTest('Home tells an operator of a defect in the schema of the tenant', async () => {
  const tenant = await service.tenant();
  await runInSchema(service, tenant, 'drop trigger trg_enforce_svc_system on entity_definitions');
  try {
    await visit(service.url, async (page) => {
      await home(page, tenant, ADMIN_SECRET);
      await page.getByText(`The database schema of ${tenant.slug} has 1 defect.`).waitFor();
    });
  } finally {
    await service.admin.post('/health/schema/fix');
  }
});
