// The pages that links in mails open, in Chromium: an invitation to a tenant and a platform code are accepted, a forgotten
// password is replaced, from the sign-in page through the mail to being signed in; and each link that cannot be used.
// Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { axe, browserTest, flaws, visit } from './support/browser.ts';
import { mailedToken, mailsTo } from './support/mailbox.ts';
import { newEmail } from './support/people.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

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
  await tenant.patch('/api/tenant', { settings: { passwordReset: true } });
});

const invite = async (body: object = {}): Promise<string> =>
  (await tenant.post('/api/invitations', body, { 'X-Tenant-ID': tenant.slug })).body.data.token;

async function fill(page: Page, values: Record<string, string>): Promise<void> {
  for (const [label, value] of Object.entries(values)) await page.getByLabel(label, { exact: true }).fill(value);
}

const accept = (page: Page): Promise<void> => page.getByRole('button', { name: 'Accept' }).click();

browserTest('an invited person opens the link of the mail, accepts, and is signed in', () =>
  visit(service.url, async (page) => {
    const email = newEmail();
    await invite({ email });
    const [mail] = await mailsTo(service, email);
    const link = /https?:\/\/\S+\/invite\/[\w-]+/.exec(mail?.text ?? '')?.[0] ?? '';
    await page.goto(new URL(link).pathname);
    await page.getByRole('heading', { name: `Join ${tenant.slug}` }).waitFor();
    const address = page.getByLabel('E-mail');
    expect([await address.inputValue(), await address.isEditable()]).toEqual([email, false]);
    await accept(page);
    expect(await page.getByText('This field is required.').count()).toBe(1);
    await page.getByText('Use at least 10 characters.').waitFor();
    expect(await flaws(page, [320])).toEqual([]);
    await fill(page, { Name: 'Eve', Password: PASSWORD });
    await accept(page);
    await page.waitForURL(`${service.url}/app/t/${tenant.slug}`);
    await page.getByRole('button', { name: 'Eve, menu' }).waitFor();
  }),
);

browserTest('a platform code makes a tenant and its owner', () =>
  visit(service.url, async (page) => {
    const { token } = (await service.admin.post('/api/invitations', {})).body.data;
    const email = newEmail();
    await page.goto(`/app/invite/${token}`);
    await page.getByRole('heading', { name: 'Create your tenant' }).waitFor();
    const slug = `acme-${crypto.randomUUID().slice(0, 8)}`;
    await fill(page, { 'Tenant name': slug.replace('acme-', 'Acmé '), Name: 'Grace', Password: PASSWORD });
    await fill(page, { 'E-mail': email });
    expect(await page.getByLabel('Tenant', { exact: true }).inputValue()).toBe(slug);
    await accept(page);
    await page.waitForURL(`${service.url}/app/t/${slug}`);
    await page.getByRole('link', { name: 'Settings' }).waitFor();
  }),
);

browserTest('an invitation that was used, withdrawn or is unknown says what to do', () =>
  visit(service.url, async (page) => {
    const used = await invite();
    const body = { email: newEmail(), name: 'Eve', password: PASSWORD };
    await service.anonymous.post('/auth/invite/accept', { ...body, token: used });
    const revoked = await invite();
    await tenant.delete(`/api/invitations/${revoked}`);
    for (const token of [used, revoked, 'unknown', '%00']) {
      await page.goto(`/invite/${token}`);
      await page.getByText('This invitation cannot be used.').waitFor();
      expect(await page.getByRole('button', { name: 'Accept' }).count()).toBe(0);
      expect(await page.getByRole('link', { name: 'Sign in' }).getAttribute('href')).toBe('/app');
    }
    expect(await axe(page)).toEqual([]);
  }),
);

browserTest('an invitation that ends while its page is open, and an address that is taken, are said at once', () =>
  visit(
    service.url,
    async (page) => {
      const taken = newEmail();
      await tenant.post('/api/users', { email: taken, name: 'Ada', role: 'member', password: PASSWORD });
      const token = await invite();
      await page.goto(`/invite/${token}`);
      await fill(page, { 'E-mail': taken, Name: 'Eve', Password: PASSWORD });
      await accept(page);
      await page
        .getByText(/is taken|already has an account/)
        .first()
        .waitFor();
      await fill(page, { 'E-mail': newEmail() });
      await service.anonymous.post('/auth/invite/accept', {
        token,
        email: newEmail(),
        name: 'Other',
        password: PASSWORD,
      });
      await accept(page);
      await page.getByText('This invitation was accepted before. Sign in instead.').waitFor();
      const withdrawn = await invite();
      await page.goto(`/invite/${withdrawn}`);
      await fill(page, { 'E-mail': newEmail(), Name: 'Eve', Password: PASSWORD });
      await tenant.delete(`/api/invitations/${withdrawn}`);
      await accept(page);
      await page.getByText('This invitation was withdrawn. Ask for a new one.').waitFor();
      expect(await axe(page)).toEqual([]);
    },
    { expected: [/409/] },
  ),
);

browserTest(
  'a forgotten password: from sign-in to the mail, a new password, and signed in; the link is good once',
  () =>
    visit(
      service.url,
      async (page) => {
        const email = newEmail();
        await tenant.post('/api/users', { email, name: 'Ada', role: 'admin', password: PASSWORD });
        await page.goto('/app');
        await page.getByRole('tab', { name: 'Password' }).click();
        await fill(page, { Tenant: tenant.slug, 'E-mail': email });
        await page.getByRole('button', { name: 'Forgot password?' }).click();
        await page.getByText('If this address has an account, a link to set a new password is on its way.').waitFor();
        const token = await mailedToken(service, email);
        await page.goto(`/reset-password?token=${token}`);
        await fill(page, { 'New password': 'short' });
        await page.getByRole('button', { name: 'Set password' }).click();
        await page.getByText('Use at least 10 characters.').waitFor();
        expect(await flaws(page, [320])).toEqual([]);
        await fill(page, { 'New password': NEW_PASSWORD });
        await page.getByRole('button', { name: 'Set password' }).click();
        await page.getByText('Your new password is set. All your earlier sessions have ended.').waitFor();
        expect(await page.getByLabel('Tenant').inputValue()).toBe(tenant.slug);
        await fill(page, { 'E-mail': email, Password: NEW_PASSWORD });
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.waitForURL(`${service.url}/app/t/${tenant.slug}`);
        await page.getByRole('button', { name: 'Ada, menu' }).waitFor();
        await page.goto(`/app/reset-password?token=${token}`);
        await fill(page, { 'New password': NEW_PASSWORD });
        await page.getByRole('button', { name: 'Set password' }).click();
        await page.getByText('This link cannot be used.').waitFor();
        await page.goto('/reset-password');
        await page.getByText('This link cannot be used.').waitFor();
        expect(await axe(page)).toEqual([]);
      },
      { expected: [/400/] },
    ),
);

browserTest('a tenant that resets no passwords says whom to ask', () =>
  visit(
    service.url,
    async (page) => {
      await tenant.patch('/api/tenant', { settings: { passwordReset: false } });
      await page.goto('/app');
      await page.getByRole('tab', { name: 'Password' }).click();
      await fill(page, { Tenant: tenant.slug, 'E-mail': newEmail() });
      await page.getByRole('button', { name: 'Forgot password?' }).click();
      await page.getByText('This tenant does not send password links.').waitFor();
    },
    { expected: [/403/] },
  ),
);
