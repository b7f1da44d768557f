// The console's frame in Chromium: sign-in in all ways, refusals, an expired session, navigation by keyboard, themes,
// widths, and what axe finds. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import { newAddress } from './support/addresses.ts';
import { axe, browserTest, flaws, openPage, signedIn, visit } from './support/browser.ts';
import { ADMIN_SECRET, startService, type TestService, type TestTenant } from './support/service.ts';

const PASSWORD = 'correct horse battery';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'companies', fields: [{ key: 'title', type: 'text', required: true }] });
  await tenant.post('/api/users', { email: 'ada@example.com', name: 'Ada', role: 'admin', password: PASSWORD });
  await tenant.post('/api/users', { email: 'vic@example.com', name: 'Vic', role: 'viewer', password: PASSWORD });
});

browserTest('a person signs in with tenant, e-mail and password, and out again', () =>
  visit(
    service.url,
    async (page) => {
      await page.goto('/app');
      await page.getByRole('tab', { name: 'Password' }).click();
      await page.getByLabel('Tenant').fill(tenant.slug);
      await page.getByLabel('E-mail').fill('ada@example.com');
      await page.getByLabel('Password', { exact: true }).fill('wrong one, certainly');
      await page.getByRole('button', { name: 'Sign in' }).click();
      const refusal = page.getByText('The e-mail address or password is wrong, or the account is temporarily locked.');
      await refusal.waitFor();
      await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Entities' }).waitFor();
      expect(await page.evaluate(() => Object.values(localStorage).join())).not.toContain('eyJ');
      expect(page.url()).toBe(`${service.url}/app/t/${tenant.slug}`);
      await page.getByRole('button', { name: 'Ada, menu' }).click();
      await page.getByRole('menuitem', { name: 'Sign out' }).click();
      await page.getByRole('tab', { name: 'Password' }).waitFor();
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
      expect(await page.getByLabel('Tenant').inputValue()).toBe(tenant.slug);
      const other = await service.tenant();
      await page.goto(`/app/t/${tenant.slug}/records`);
      await page.getByRole('tab', { name: 'Key' }).click();
      await page.getByLabel('Key', { exact: true }).fill(other.key);
      await page.keyboard.press('Enter');
      await page.waitForURL(`${service.url}/app/t/${other.slug}`);
    },
    { expected: [/401|404/] },
  ),
);

browserTest('a key opens its tenant, the super-admin secret the platform; a pasted line is understood', () =>
  visit(
    service.url,
    async (page) => {
      await page.goto('/app');
      await page.getByRole('tab', { name: 'Key' }).click();
      await page.getByLabel('Key', { exact: true }).fill('svc_ak_000000000000000000000000000000000000000000000000');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('This key is unknown or has expired.').waitFor();
      await page.getByLabel('Key', { exact: true }).fill(`  TDS_KEY="${tenant.key}"\n`);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: tenant.slug }).waitFor();
      expect(await page.getByRole('link', { name: 'Platform' }).count()).toBe(0);
      await page.evaluate(() => sessionStorage.clear());
      await page.goto('/app');
      await page.getByRole('tab', { name: 'Key' }).click();
      await page.getByLabel('Key', { exact: true }).fill(ADMIN_SECRET);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('link', { name: 'Platform' }).first().waitFor();
      await page.goto(`/app/t/${tenant.slug}`);
      await page.getByText('You are acting as super-admin in').waitFor();
    },
    { expected: [/401/] },
  ),
);

browserTest('after an expired session the person signs in over the page, and what was open goes on', () =>
  visit(
    service.url,
    async (page) => {
      const login = { email: 'ada@example.com', password: PASSWORD };
      const headers = { 'X-Tenant-ID': tenant.slug, ...newAddress() };
      const { token } = (await service.anonymous.post('/api/auth/tenant/login', login, headers)).body.data;
      await signedIn(page, token, tenant.slug);
      const me = (await tenant.get('/api/users')).body.data;
      const { id } = (me.items ?? me).find(({ email }: { email: string }) => email === 'ada@example.com');
      await tenant.patch(`/api/users/${id}`, { isActive: false });
      await tenant.patch(`/api/users/${id}`, { isActive: true });
      await page.goto(`/app/t/${tenant.slug}/records`);
      const dialog = page.getByRole('dialog', { name: 'You were signed out' });
      await dialog.waitFor();
      expect(await axe(page)).toEqual([]);
      await dialog.getByLabel('E-mail').fill('ada@example.com');
      await dialog.getByLabel('Password', { exact: true }).fill(PASSWORD);
      await dialog.getByRole('button', { name: 'Sign in' }).click();
      await dialog.waitFor({ state: 'detached' });
      await page.getByRole('rowheader', { name: 'companies' }).waitFor();
    },
    { expected: [/401/] },
  ),
);

browserTest('a viewer sees no link to what the role may not use, and a link says which role decided', () =>
  visit(service.url, async (page) => {
    const login = { email: 'vic@example.com', password: PASSWORD };
    const headers = { 'X-Tenant-ID': tenant.slug, ...newAddress() };
    const { token } = (await service.anonymous.post('/api/auth/tenant/login', login, headers)).body.data;
    await signedIn(page, token, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}`);
    await page.getByRole('link', { name: 'companies' }).first().waitFor();
    const rail = page.getByRole('navigation', { name: 'Main' });
    expect(await rail.getByRole('link', { name: 'Records' }).count()).toBe(1);
    for (const name of ['Roles', 'Keys', 'Webhooks', 'Settings', 'Platform']) {
      expect([name, await rail.getByRole('link', { name }).count()]).toEqual([name, 0]);
    }
    expect(await page.getByRole('link', { name: 'New entity' }).count()).toBe(0);
    await page.goto(`/app/t/${tenant.slug}/keys`);
    await page.getByText('Your role viewer may not open Keys. An admin can change that under Roles.').waitFor();
    expect(await axe(page)).toEqual([]);
  }),
);

browserTest('the palette goes to pages, entities and records by keyboard alone', () =>
  visit(service.url, async (page) => {
    await tenant.post('/api/entities/companies/records', { title: 'Nordlicht' });
    await signedIn(page, tenant.key, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}`);
    await page.getByRole('heading', { name: 'Entities' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search or go to' }).waitFor();
    await page.keyboard.type('nordl');
    await page.getByRole('option', { name: 'Nordlicht companies' }).waitFor();
    expect(await axe(page)).toEqual([]);
    await page.keyboard.press('Enter');
    await page.waitForURL(/records\/companies\/[0-9a-f-]{36}$/);
    await page.keyboard.press('g');
    await page.keyboard.press('h');
    await page.waitForURL(`${service.url}/app/t/${tenant.slug}`);
  }),
);

browserTest('sign-in, Home and Records are accessible and keep their width', () =>
  visit(service.url, async (page) => {
    await page.goto('/app');
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    expect(await flaws(page)).toEqual([]);
    await signedIn(page, tenant.key, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}`);
    await page.getByRole('link', { name: 'companies' }).last().waitFor();
    expect(await flaws(page, [1440, 768, 320])).toEqual([]);
    await page.goto(`/app/t/${tenant.slug}/records`);
    await page.getByRole('rowheader', { name: 'companies' }).waitFor();
    expect(await flaws(page)).toEqual([]);
  }),
);

browserTest('little is loaded before the sign-in page and the first grid can be used', async () => {
  const { page, problems } = await openPage(service.url);
  try {
    const loaded = { scripts: 0, all: 0 };
    page.on('response', (response) => {
      const bytes = Number(response.headers()['content-length'] ?? 0);
      loaded.all += bytes;
      if (response.url().endsWith('.js')) loaded.scripts += bytes;
    });
    await page.goto('/app');
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    expect(loaded.scripts / 1_024).toBeGreaterThan(20);
    expect(loaded.scripts / 1_024).toBeLessThan(150);
    await signedIn(page, tenant.key, tenant.slug);
    await page.goto(`/app/t/${tenant.slug}/records/companies`);
    await page.getByText('No companies yet.').waitFor();
    expect(loaded.all / 1_024).toBeLessThan(350);
    expect(problems).toEqual([]);
  } finally {
    await page.context().close();
  }
});
