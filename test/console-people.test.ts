// The console's People and Account in Chromium: 10,000 users by page and search, three ways to invite, roles changed, users
// switched off and removed, the person's own password. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { newAddress } from './support/addresses.ts';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { runInSchema } from './support/tenant-database.ts';

const PASSWORD = 'correct horse battery';
const NEW_PASSWORD = 'battery staple horse';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/users', { email: 'ada@example.com', name: 'Ada', role: 'admin', password: PASSWORD });
  await tenant.post('/api/users', { email: 'ben@example.com', name: 'Ben', role: 'member', password: PASSWORD });
});

const open = async (page: Page, path = 'people'): Promise<void> => {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/${path}`);
};

const token = async (email: string, password = PASSWORD): Promise<string | undefined> => {
  const headers = { 'X-Tenant-ID': tenant.slug, ...newAddress() };
  return (await service.anonymous.post('/api/auth/tenant/login', { email, password }, headers)).body.data?.token;
};

async function act(page: Page, name: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${name}` }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

browserTest('people are found by search and by page, and the link carries both', () =>
  visit(service.url, async (page) => {
    // Written directly: hashing sixty passwords takes longer than the visit. The list has the last ids first.
    const sixty = `
      insert into users (id, email, name, role, created_at)
      select ('ffffffff-0000-7000-8000-0000000000' || n)::uuid, format('person.%s@example.com', n), format('Person %s', n), 'viewer', at
      from (select lpad(i::text, 2, '0'), now() + i * interval '1 s' from generate_series(0, 59) as i) as people (n, at)`;
    await runInSchema(service, tenant, sixty);
    await open(page);
    await page.getByRole('rowheader', { name: 'Person 59' }).waitFor();
    await page.getByText('62 people').waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByRole('rowheader', { name: 'Ada' }).waitFor();
    expect(page.url()).toEndWith('?page=2');
    await page.getByRole('searchbox', { name: 'Search' }).fill('person.07@');
    await page.getByText('1 person matches').waitFor();
    await page.getByRole('rowheader', { name: 'Person 07' }).waitFor();
    await page.reload();
    await page.getByText('1 person matches').waitFor();
    await page.getByRole('searchbox', { name: 'Search' }).fill('nobody at all');
    await page.getByText('No person matches “nobody at all”.').waitFor();
    await page.getByRole('button', { name: 'Clear search' }).click();
    await page.getByText('Page 1 of 2').waitFor();
  }),
);

browserTest('without a mail server an invitation says so and shows its link; the person waits until accepted', () =>
  visit(
    service.url,
    async (page) => {
      await open(page);
      await page.getByRole('rowheader', { name: 'Ben' }).waitFor();
      await page.keyboard.press('n');
      const dialog = page.getByRole('dialog', { name: 'Invite' });
      await dialog.getByLabel('E-mail').fill('eve@example');
      await dialog.getByRole('button', { name: 'Send invitation' }).click();
      await dialog.locator('.field-error').first().waitFor();
      expect(await axe(page)).toEqual([]);
      await dialog.getByLabel('E-mail').fill('eve@example.com');
      await dialog.getByLabel('Name').fill('Eve');
      await dialog.getByLabel('Role').selectOption('viewer');
      await dialog.getByRole('button', { name: 'Send invitation' }).click();
      const ready = page.getByRole('dialog', { name: 'The link is ready' });
      await ready.getByText('No e-mail was sent: this service has no mail server.').waitFor();
      const invitation = /\/invite\/([\w-]+)$/.exec((await ready.getByText(/\/invite\//).textContent()) ?? '')?.[1];
      await ready.getByRole('button', { name: 'Done' }).click();
      await page.getByRole('rowheader', { name: 'eve@example.com' }).waitFor();
      expect(await flaws(page)).toEqual([]);
      const body = { token: invitation, email: 'eve@example.com', name: 'Eve', password: PASSWORD };
      expect((await service.anonymous.post('/auth/invite/accept', body)).body.data.role).toBe('viewer');
      await page.reload();
      await page.getByRole('rowheader', { name: 'Eve eve@example.com' }).waitFor();
      expect(await page.getByRole('heading', { name: 'Invited' }).count()).toBe(0);
    },
    { expected: [/400/] },
  ),
);

browserTest('with a mail server an invitation is sent, and no link is shown', () =>
  visit(service.url, async (page) => {
    await open(page);
    await page.route('**/api/users', async (route) => {
      const { data, ...answer } = await (await route.fetch()).json();
      await route.fulfill({ status: 201, json: { ...answer, data: { ...data, mailed: true, inviteUrl: null } } });
    });
    await page.getByRole('button', { name: 'Invite' }).click();
    const dialog = page.getByRole('dialog', { name: 'Invite' });
    await dialog.getByLabel('E-mail').fill('eve@example.com');
    await dialog.getByLabel('Name').fill('Eve');
    await dialog.getByRole('button', { name: 'Send invitation' }).click();
    await page.getByText('An invitation goes to eve@example.com.').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
  }),
);

browserTest('a link to pass on is shown once, and can be withdrawn', () =>
  visit(service.url, async (page) => {
    await open(page);
    await page.getByRole('button', { name: 'Invite' }).click();
    await page.getByLabel('How').selectOption('link');
    await page.getByRole('button', { name: 'Create link' }).click();
    const dialog = page.getByRole('dialog', { name: 'The link is ready' });
    const link = (await dialog.getByText(/\/invite\//).textContent()) ?? '';
    const invited = /\/invite\/([\w-]+)$/.exec(link)?.[1] ?? '';
    expect((await service.anonymous.get(`/auth/invite/${invited}`)).body.data.valid).toBe(true);
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Done' }).click();
    expect(await page.content()).not.toContain(invited);
    await page.getByRole('button', { name: 'Withdraw the invitation of anyone with the link' }).click();
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('The invitation was withdrawn.').waitFor();
    expect((await service.anonymous.get(`/auth/invite/${invited}`)).body.data.valid).toBe(false);
  }),
);

browserTest('a role is changed, a person is switched off, on and removed, each with its consequence said', () =>
  visit(service.url, async (page) => {
    await open(page);
    await act(page, 'Ben', 'Change');
    await page.getByRole('dialog').getByLabel('Role').selectOption('viewer');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Ben is viewer now.').waitFor();
    await page.getByRole('row', { name: /Ben/ }).getByText('viewer').waitFor();
    await act(page, 'Ben', 'Deactivate');
    await page.getByText('ben@example.com is signed out everywhere within a second').waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByRole('row', { name: /Ben/ }).getByText('off').waitFor();
    expect(await token('ben@example.com')).toBeUndefined();
    await act(page, 'Ben', 'Activate');
    await page.getByRole('row', { name: /Ben/ }).getByText('active').waitFor();
    expect(await token('ben@example.com')).toBeString();
    await act(page, 'Ben', 'Remove');
    await page.getByLabel('Type ben@example.com to confirm').fill('ben@example.com');
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('Ben was removed.').waitFor();
    await page.getByRole('rowheader', { name: 'Ben' }).waitFor({ state: 'detached' });
  }),
);

browserTest('the last owner stays, and the refusal says why', () =>
  visit(
    service.url,
    async (page) => {
      await tenant.post('/api/users', { email: 'own@example.com', name: 'Olga', role: 'owner', password: PASSWORD });
      await open(page);
      await act(page, 'Olga', 'Deactivate');
      await page.getByRole('button', { name: 'Confirm' }).click();
      await page
        .getByRole('dialog')
        .getByText(/last .*owner/i)
        .waitFor();
      expect(await axe(page)).toEqual([]);
    },
    { expected: [/409/] },
  ),
);

browserTest('a person changes the own password and stays signed in', () =>
  visit(
    service.url,
    async (page) => {
      await page.goto('/app');
      await page.getByRole('tab', { name: 'Password' }).click();
      await page.getByLabel('Tenant').fill(tenant.slug);
      await page.getByLabel('E-mail').fill('ada@example.com');
      await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'Ada, menu' }).click();
      await page.getByRole('menuitem', { name: 'Account and sessions' }).click();
      await page.getByLabel('Current password').fill('wrong one, certainly');
      await page.getByLabel('New password').fill(NEW_PASSWORD);
      await page.getByRole('button', { name: 'Change password' }).click();
      await page.getByText('This is not your current password.').waitFor();
      await page.getByLabel('Current password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Change password' }).click();
      await page.getByText('Your new password is set. All your other sessions have ended.').waitFor();
      expect(await token('ada@example.com', NEW_PASSWORD)).toBeString();
      await page.getByRole('link', { name: 'People' }).first().click();
      await page.getByRole('rowheader', { name: 'Ben' }).waitFor();
    },
    { expected: [/401|404/] },
  ),
);

browserTest('a person sees the own sessions, ends another one, and signs out everywhere', () =>
  visit(
    service.url,
    async (page) => {
      const other = await token('ada@example.com');
      const phone = service.anonymous.with({ authorization: `Bearer ${other}` });
      expect((await phone.get('/api/auth/whoami')).status).toBe(200);
      await signedIn(page, (await token('ada@example.com')) ?? '', tenant.slug);
      await page.goto(`/app/t/${tenant.slug}/account`);
      await page.getByText('this session').waitFor();
      expect(await axe(page)).toEqual([]);
      await page.getByRole('button', { name: /^End the session/ }).click();
      await page.getByText('The session has ended.').waitFor();
      expect((await phone.get('/api/auth/whoami')).status).toBe(401);
      await page.getByRole('button', { name: 'Sign out everywhere' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere' }).click();
      await page.getByRole('button', { name: 'Sign in' }).waitFor();
    },
    { expected: [/401/] },
  ),
);
