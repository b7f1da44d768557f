// The console's Usage and Settings in Chromium: plots with the same numbers as a table, quotas as bars, settings saved
// section by section, the record that verifies a domain, what axe finds. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'deals', fields: [{ key: 'title', type: 'text', required: true }] });
  for (const title of ['One', 'Two']) await tenant.post('/api/entities/deals/records', { title });
});

async function open(page: Page, name: string): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/${name}`);
}

browserTest('usage is plotted by day, with the same numbers as a table; the link keeps the range', () =>
  visit(service.url, async (page) => {
    await open(page, 'usage');
    const table = page.getByRole('table', { name: 'Usage by day' });
    await table.waitFor();
    expect(await table.getByRole('row').count()).toBe(31);
    const { days } = (await tenant.get('/api/tenant/usage')).body.data;
    await table.getByRole('rowheader', { name: days[0].day }).waitFor();
    expect(await page.locator('canvas').count()).toBe(4);
    expect(await flaws(page)).toEqual([]);
    await page.getByLabel('Show').selectOption('7');
    await page.waitForURL(/days=7/);
    await table.getByRole('rowheader', { name: days[0].day }).waitFor({ state: 'detached' });
    expect(await table.getByRole('row').count()).toBe(8);
  }),
);

browserTest('quotas are bars that say in words when they are nearly used up and when they are', () =>
  visit(service.url, async (page) => {
    const quotas = { records: 2, users: 10, requestsPerMin: 50_000 };
    await service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { quotas });
    await open(page, 'usage');
    await page.getByText('100 % of 2, used up').waitFor();
    await page.getByText('0 % of 10').waitFor();
    await page.getByText('At most 50,000 requests a minute.').waitFor();
  }),
);

browserTest('each section of the settings saves by itself, and a refusal keeps what was typed', () =>
  visit(
    service.url,
    async (page) => {
      const read = async () => (await tenant.get('/api/tenant')).body.data;
      await open(page, 'settings');
      await page.getByLabel('Tenant name').fill('');
      await page.getByRole('button', { name: 'Save name' }).click();
      await page.getByLabel('Tenant name').and(page.locator('[aria-invalid]')).waitFor();
      await page.getByLabel('Tenant name').fill('Acme Ltd');
      await page.getByLabel('People can reset a forgotten password by e-mail').check();
      await page.getByRole('button', { name: 'Save name' }).click();
      await page.getByText('Name saved.').waitFor();
      expect(await read()).toMatchObject({ name: 'Acme Ltd', settings: { passwordReset: false } });
      await page.getByRole('button', { name: 'Save sign-in' }).click();
      await page.getByText('Sign-in saved.').waitFor();
      expect((await read()).settings).toMatchObject({ passwordReset: true, selfRegistration: false });
    },
    { expected: [/400/] },
  ),
);

browserTest('origins are saved one a line; one that is none is named', () =>
  visit(
    service.url,
    async (page) => {
      await open(page, 'settings');
      await page.getByLabel('Allowed origins').fill('https://app.example.com\nhttps://app.example.com/path');
      await page.getByRole('button', { name: 'Save origins' }).click();
      await page.getByText('https://app.example.com/path must be an origin').waitFor();
      await page.getByLabel('Allowed origins').fill('https://app.example.com\nhttp://localhost:5173');
      await page.getByRole('button', { name: 'Save origins' }).click();
      await page.getByText('Origins saved.').waitFor();
      const { settings } = (await tenant.get('/api/tenant')).body.data;
      expect(settings.allowedOrigins.sort()).toEqual(['http://localhost:5173', 'https://app.example.com']);
    },
    { expected: [/400/] },
  ),
);

browserTest('a custom domain shows the record that verifies it, and is given up', () =>
  visit(
    service.url,
    async (page) => {
      const domain = `${tenant.slug}.example`;
      await open(page, 'settings');
      await page.getByRole('textbox', { name: 'Domain' }).fill('not a domain');
      await page.getByRole('button', { name: 'Save custom domain' }).click();
      await page.getByText('must be a host name, or null').waitFor();
      await page.getByRole('textbox', { name: 'Domain' }).fill(`https://${domain}/`);
      await page.getByRole('button', { name: 'Save custom domain' }).click();
      await page.getByText(`_svc-verify.${domain}`).waitFor();
      const { customDomainToken } = (await tenant.get('/api/tenant')).body.data;
      await page.getByText(customDomainToken).waitFor();
      await page.getByRole('button', { name: 'Check now' }).click();
      expect(await flaws(page)).toEqual([]);
      await page.getByRole('textbox', { name: 'Domain' }).fill('');
      await page.getByRole('button', { name: 'Save custom domain' }).click();
      await page.getByText(`_svc-verify.${domain}`).waitFor({ state: 'detached' });
      expect((await tenant.get('/api/tenant')).body.data.settings.customDomain).toBeNull();
    },
    { expected: [/400/] },
  ),
);
