// The console's Keys in Chromium: owner, platform and public keys and bots, each made with its value shown once, used,
// listed with prefix, last use and expiry, and revoked with the consequence said. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'deals', fields: [{ key: 'title', type: 'text' }] });
});

const LIST = '/api/entities/deals/records';

async function open(page: Page, tab = ''): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/keys${tab === '' ? '' : `?tab=${tab}`}`);
}

/** The value that the dialog shows; afterwards it is nowhere in the page. */
async function valueShown(page: Page, form: RegExp): Promise<string> {
  const dialog = page.getByRole('dialog');
  const value = (await dialog.getByText(form).textContent()) ?? '';
  await page.keyboard.press('Escape');
  await dialog.getByRole('button', { name: 'Copy' }).waitFor();
  expect(await dialog.getByRole('button', { name: 'Done' }).getAttribute('aria-disabled')).toBe('true');
  expect(await axe(page)).toEqual([]);
  await dialog.getByLabel('I have stored it').check();
  await dialog.getByRole('button', { name: 'Done' }).click();
  await dialog.waitFor({ state: 'detached' });
  expect(await page.content()).not.toContain(value);
  return value;
}

browserTest('an owner key is made, shown once, used, and deleted with its consequence said', () =>
  visit(
    service.url,
    async (page) => {
      await open(page);
      await page.getByRole('button', { name: 'New key' }).click();
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.locator('.field-error').first().waitFor();
      await page.getByLabel('Label').fill('nightly import');
      await page.getByLabel('Expires').selectOption('in 30 days');
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.getByText('This is the only time you see this key.').waitFor();
      const key = await valueShown(page, /^svc_ak_/);
      const caller = service.anonymous.with({ 'x-api-key': key });
      expect((await caller.get(LIST)).status).toBe(200);
      await page
        .getByRole('row', { name: /nightly import/ })
        .getByText(key.slice(0, 10))
        .waitFor();
      await page.getByRole('button', { name: 'Delete nightly import' }).click();
      await page.getByText('Programs that use it are refused within a second').waitFor();
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page.getByText('The key nightly import was deleted.').waitFor();
      expect((await caller.get(LIST)).status).toBe(401);
    },
    { expected: [/400/] },
  ),
);

browserTest('a platform API with a role is made, then a key of it that may do just that', () =>
  visit(service.url, async (page) => {
    await open(page, 'platform');
    await page.getByText('No platform keys yet. Create an API first').waitFor();
    await page.getByRole('button', { name: 'New API' }).click();
    await page.getByLabel('Name').fill('Web shop');
    await page.getByRole('checkbox', { name: 'read deals' }).click();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Create API' }).click();
    await page.getByText('Roles of Web shop: reader.').waitFor();
    await page.getByRole('button', { name: 'New key' }).click();
    await page.getByLabel('Label').fill('checkout');
    await page.getByRole('button', { name: 'Create key' }).click();
    const key = await valueShown(page, /^svc_pkey_/);
    const caller = service.anonymous.with({ authorization: `Bearer ${key}` });
    expect([(await caller.get(LIST)).status, (await caller.post(LIST, { title: 'x' })).status]).toEqual([200, 403]);
    await page.getByRole('rowheader', { name: 'checkout' }).waitFor();
    await page.getByRole('button', { name: 'Delete API' }).click();
    await page.getByLabel('Type web-shop to confirm').fill('web-shop');
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('No platform keys yet.').waitFor();
    expect((await caller.get(LIST)).status).toBe(401);
  }),
);

browserTest('a public key is made with role, origins and limits', () =>
  visit(service.url, async (page) => {
    await open(page, 'public');
    await page.getByRole('button', { name: 'New key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Label').fill('website');
    await dialog.getByRole('combobox', { name: 'Role' }).fill('view');
    await dialog.getByRole('option', { name: 'viewer' }).click();
    await dialog.getByLabel('Origins').fill('https://www.example.com\nhttps://example.com');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    const key = await valueShown(page, /^svc_pk_/);
    const headers = { 'x-public-key': key, 'x-tenant-id': tenant.slug, origin: 'https://example.com' };
    expect((await service.anonymous.get(LIST, headers)).status).toBe(200);
    await page
      .getByRole('row', { name: /website/ })
      .getByText('viewer')
      .waitFor();
  }),
);

browserTest('a bot is registered, gets a new secret, and is revoked for good', () =>
  visit(service.url, async (page) => {
    await open(page, 'bots');
    await page.getByRole('button', { name: 'New bot' }).click();
    await page.getByLabel('Name').fill('order-agent');
    await page.getByRole('checkbox', { name: 'update deals' }).click();
    await page.getByRole('button', { name: 'Create bot' }).click();
    const first = await valueShown(page, /^svc_bot_/);
    await page.getByRole('button', { name: 'New secret for order-agent' }).click();
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByRole('dialog', { name: 'New secret' }).waitFor();
    const secret = await valueShown(page, /^svc_bot_/);
    const identify = async (value: string): Promise<number> =>
      (await tenant.post('/api/auth/bots/identify', { name: 'order-agent', secret: value })).status;
    expect([await identify(first), await identify(secret)]).toEqual([401, 200]);
    await page.getByRole('button', { name: 'Revoke order-agent' }).click();
    await page.getByText('This cannot be undone.').waitFor();
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page
      .getByRole('row', { name: /order-agent/ })
      .getByText('revoked')
      .waitFor();
    expect(await identify(secret)).toBe(403);
  }),
);

browserTest('every kind of key has a page that is accessible and keeps its width', () =>
  visit(service.url, async (page) => {
    for (const [tab, name] of [
      ['', 'New key'],
      ['platform', 'New API'],
      ['public', 'New key'],
      ['bots', 'New bot'],
    ] as const) {
      await open(page, tab);
      await page.getByRole('button', { name }).waitFor();
      expect([tab, await flaws(page)]).toEqual([tab, []]);
    }
  }),
);
