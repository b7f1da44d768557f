// The console's Platform pages in Chromium: tenants created with their key shown once, changed, suspended and deleted; admin
// keys and their audit; invitations; schema health with its repair; usage; what axe finds. Contract: interface#console.
import { afterAll, beforeAll, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { ADMIN_SECRET, type Json, startService, type TestService } from './support/service.ts';
import { runInSchema } from './support/tenant-database.ts';

const TENANTS = '/api/admin/platform/tenants';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

async function open(page: Page, section = ''): Promise<void> {
  await signedIn(page, ADMIN_SECRET, null);
  await page.goto(`/app/platform${section}`);
}

let made = 0;
function slug(): string {
  made += 1;
  return `p${process.pid.toString(36)}${Date.now().toString(36)}${made}`;
}

browserTest('a tenant is made with a slug from its name, and its key is shown once', () =>
  visit(service.url, async (page) => {
    const name = slug();
    await open(page);
    await page.getByRole('button', { name: 'New tenant' }).click();
    const form = page.getByRole('dialog', { name: 'New tenant' });
    await form.getByLabel('Name', { exact: true }).fill(`${name} GmbH`);
    expect(await form.getByLabel('Slug').inputValue()).toBe(`${name}-gmbh`);
    await form.getByLabel('Slug').fill(name);
    await form.getByRole('button', { name: 'Create' }).click();
    const shown = page.getByRole('dialog', { name: `${name} is ready` });
    await shown.getByText('This is the only time you see this key.').waitFor();
    const key = (await shown.getByText(/^svc_ak_/).textContent()) as string;
    expect((await service.anonymous.get('/api/tenant', { 'x-api-key': key })).status).toBe(200);
    await page.keyboard.press('Escape');
    await shown.getByRole('button', { name: 'Done' }).click({ force: true });
    await shown.waitFor();
    expect(await axe(page)).toEqual([]);
    await shown.getByLabel('I have stored it').check();
    await shown.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('rowheader', { name, exact: true }).waitFor();
    expect(await page.content()).not.toContain(key);
  }),
);

browserTest('a refused tenant keeps what was typed and says why at its field', () =>
  visit(
    service.url,
    async (page) => {
      const { slug: taken } = await service.tenant();
      await open(page);
      await page.getByRole('button', { name: 'New tenant' }).click();
      const form = page.getByRole('dialog', { name: 'New tenant' });
      await form.getByLabel('Name', { exact: true }).fill('Acme');
      await form.getByLabel('Slug').fill('No Slug');
      await form.getByRole('button', { name: 'Create' }).click();
      await form.getByLabel('Slug').and(page.locator('[aria-invalid]')).waitFor();
      await form.getByLabel('Slug').fill(taken);
      await form.getByRole('button', { name: 'Create' }).click();
      await form.getByText(`already exists`).first().waitFor();
      expect(await form.getByLabel('Name', { exact: true }).inputValue()).toBe('Acme');
    },
    { expected: [/400|409/] },
  ),
);

browserTest('a tenant gets quotas, is suspended and active again, and is deleted with its slug typed', () =>
  visit(
    service.url,
    async (page) => {
      const tenant = await service.tenant();
      await open(page);
      await page.getByRole('button', { name: 'switch tenant' }).click();
      const others = page.getByRole('dialog', { name: 'Switch tenant' });
      await others.getByLabel('Search').fill(tenant.slug.toUpperCase());
      await others.getByRole('link', { name: tenant.slug }).waitFor();
      await others.getByRole('link').nth(1).waitFor({ state: 'detached' });
      expect(await others.getByRole('link').count()).toBe(1);
      await others.getByRole('button', { name: 'Close' }).click();
      await others.waitFor({ state: 'detached' });
      await page.getByLabel('Search').fill(tenant.slug);
      await page.getByRole('link', { name: tenant.slug }).click();
      const panel = page.getByRole('complementary', { name: tenant.slug });
      await panel.getByLabel('Records', { exact: true }).fill('many');
      await panel.getByRole('button', { name: 'Save quotas' }).click();
      await panel.getByText('must be a whole number, or empty for no limit').waitFor();
      await panel.getByLabel('Records', { exact: true }).fill('1,000');
      await panel.getByRole('button', { name: 'Save quotas' }).click();
      await page.getByText(`The quotas of ${tenant.slug} were saved.`).waitFor();
      expect((await tenant.get('/api/tenant')).body.data.quotas.records).toBe(1000);
      await panel.getByRole('button', { name: 'Suspend' }).click();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await panel.getByRole('button', { name: 'Activate' }).waitFor();
      expect((await tenant.get('/api/tenant')).status).toBe(403);
      await panel.getByRole('button', { name: 'Activate' }).click();
      await panel.getByRole('button', { name: 'Suspend' }).waitFor();
      expect((await tenant.get('/api/tenant')).status).toBe(200);
      await panel.getByRole('button', { name: 'Delete' }).click();
      const question = page.getByRole('dialog', { name: `Delete ${tenant.slug}?` });
      await question.getByRole('button', { name: 'Confirm' }).click({ force: true });
      await question.getByLabel(`Type ${tenant.slug} to confirm`).fill(tenant.slug);
      expect((await tenant.get('/api/tenant')).status).toBe(200);
      await question.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText(`${tenant.slug} was deleted.`).waitFor();
      expect((await service.admin.get(`${TENANTS}/${tenant.slug}`)).status).toBe(404);
    },
    { expected: [/404/] },
  ),
);

browserTest('an operator marks the custom domain of a tenant as verified', () =>
  visit(service.url, async (page) => {
    const tenant = await service.tenant();
    await tenant.patch('/api/tenant', { settings: { customDomain: `${tenant.slug}.example` } });
    await open(page, `?tenant=${tenant.slug}`);
    const panel = page.getByRole('complementary', { name: tenant.slug });
    await panel.getByRole('button', { name: 'Mark as verified' }).click();
    await panel.getByRole('button', { name: 'Mark as unverified' }).waitFor();
    expect((await service.admin.get(`${TENANTS}/${tenant.slug}`)).body.data.customDomainStatus).toBe('verified');
  }),
);

browserTest(
  'the secret alone makes the first admin key; with a key the keys and their audit are shown, and revoked',
  () =>
    visit(
      service.url,
      async (page) => {
        const names = { write: slug(), read: slug() };
        await open(page, '/keys');
        await page.getByRole('button', { name: 'New key' }).click();
        const form = page.getByRole('dialog', { name: 'New admin key' });
        await form.getByLabel('Name').fill(names.write);
        await form.getByLabel(/platform:write/).check();
        await form.getByRole('button', { name: 'Create' }).click();
        await page.getByLabel('I have stored it').check();
        await page.getByRole('button', { name: 'Done' }).click();
        await page.getByRole('button', { name: 'Show keys' }).click();
        await page.getByRole('rowheader', { name: names.write }).waitFor();
        await page.getByRole('button', { name: 'New key' }).click();
        await form.getByLabel('Name').fill(names.read);
        await form.getByRole('button', { name: 'Create' }).click();
        await page.getByLabel('I have stored it').check();
        await page.getByRole('button', { name: 'Done' }).click();
        await page.getByRole('button', { name: `Audit of ${names.read}` }).click();
        const audit = page.getByRole('dialog', { name: `Audit of ${names.read}` });
        await audit.getByRole('rowheader', { name: 'created' }).waitFor();
        expect(await axe(page)).toEqual([]);
        await audit.getByRole('button', { name: 'Close' }).click();
        await page.getByRole('button', { name: `Delete ${names.read}` }).click();
        await page.getByRole('button', { name: 'Confirm' }).click();
        await page.getByRole('row', { name: names.read }).getByText('revoked').waitFor();
        await page.getByRole('button', { name: `Delete ${names.write}` }).click();
        await page.getByRole('button', { name: 'Confirm' }).click();
        await page
          .getByText('Could not load the admin keys')
          .or(page.getByRole('row', { name: names.write }).getByText('revoked'))
          .first()
          .waitFor();
      },
      { expected: [/401/] },
    ),
);

browserTest('a platform code is shown once as a link and listed as pending', () =>
  visit(service.url, async (page) => {
    const email = `${slug()}@example.com`;
    await open(page, '/invitations');
    await page.getByRole('button', { name: 'New platform code' }).click();
    await page.getByLabel('E-mail').fill(email);
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('This is the only time you see this link.').waitFor();
    await page.getByLabel('I have stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('row', { name: email }).getByText('pending').waitFor();
  }),
);

browserTest('schema health names what is missing and repairs it after saying what it will do', () =>
  visit(service.url, async (page) => {
    const tenant = await service.tenant();
    await runInSchema(service, tenant, 'alter table documents drop column content_text cascade');
    await open(page, '/health');
    // A database without pgvector has an issue of its own with every tenant.
    const broken = page.getByRole('row').filter({ hasText: tenant.slug }).filter({ hasText: 'documents.content_text' });
    await broken.first().waitFor();
    await page.getByRole('button', { name: 'Fix' }).click();
    const question = page.getByRole('dialog');
    await question.getByRole('region', { name: 'What will be done' }).waitFor();
    expect(await axe(page)).toEqual([]);
    await question.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText(/tenants? repaired\./).waitFor();
    await broken.first().waitFor({ state: 'detached' });
    const { issues } = (await service.admin.get('/health/schema')).body.data;
    const left = issues.filter((issue: Json) => issue.tenant === tenant.slug && issue.column === 'content_text');
    expect(left).toEqual([]);
  }),
);

browserTest('every section of Platform is accessible and keeps its width', () =>
  visit(service.url, async (page) => {
    const { slug: name } = await service.tenant();
    for (const [section, heading] of [
      ['', 'Tenants'],
      [`?tenant=${name}`, 'Quotas'],
      ['/keys', 'Admin keys'],
      ['/invitations', 'Invitations'],
      ['/health', 'Schema health'],
      ['/usage', 'Usage of the last 30 days'],
    ] as const) {
      await open(page, section);
      await page.getByRole('heading', { name: heading }).waitFor();
      await page.getByRole('status', { name: 'Loading' }).waitFor({ state: 'detached' });
      expect([section, await flaws(page)]).toEqual([section, []]);
    }
  }),
);
