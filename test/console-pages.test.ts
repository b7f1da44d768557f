// Every page of the console in Chromium, in both themes, wide and narrow: with hostile data, which runs nothing and
// breaks no layout; empty; when the service fails; and for a role that may do nothing. Contract: interface#console.
import { afterAll, beforeAll, expect } from 'bun:test';
import type { Locator, Page } from 'playwright-core';
import { browserTest, flaws, type Looks, signedIn, visit } from './support/browser.ts';
import { fillWithHostile, HOSTILE, type Hostile } from './support/hostile.ts';
import { addUser, signIn } from './support/people.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { ADMIN_SECRET, startService, type TestService } from './support/service.ts';

let service: TestService;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  receiver.answer = (_, response) => void response.writeHead(500).end(HOSTILE);
  service = await startService({
    TRUST_PROXY: '1',
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    WEBHOOK_RETRY_BASE_MS: '3600000',
  });
});
afterAll(async () => {
  await service.stop();
  await receiver.stop();
});

type Find = (page: Page) => Locator;
const text =
  (what: string | RegExp): Find =>
  (page) =>
    page.getByText(what).first();
const rows: Find = (page) => page.getByRole('row').nth(1);
const heading =
  (name: string): Find =>
  (page) =>
    page.getByRole('heading', { name }).first();

const mail: Find = (page) => page.getByLabel('mail').first();

interface PageCase {
  path: string;
  /** What is seen with data, without any, and when the service fails; without the last two, the state does not exist. */
  full: Find;
  empty?: Find;
  failed?: Find;
  /** What a role without rights is told; by default, that it may not open the page. */
  forbidden?: Find;
}

const NO_ENTITIES = text(/has no entities yet/);

/** The pages of a tenant, below /app/t/{slug}. */
const PAGES: readonly PageCase[] = [
  {
    path: '',
    full: text('Latest changes'),
    empty: NO_ENTITIES,
    failed: text('Could not load the entities.'),
    forbidden: text(/may not read any entity|has no entities yet/),
  },
  {
    path: '/records',
    full: rows,
    empty: NO_ENTITIES,
    failed: text('Could not load the entities.'),
    forbidden: text(/may not read any entity|has no entities yet/),
  },
  {
    path: '/records/companies',
    full: (page) => page.getByRole('gridcell').nth(1),
    failed: text('Could not load companies.'),
    forbidden: text('may not read companies.'),
  },
  {
    path: '/records/companies/deleted',
    full: text(/^No deleted companies/),
    failed: text('Could not load companies.'),
    forbidden: text('may not read companies.'),
  },
  { path: '/schema', full: rows, empty: NO_ENTITIES, failed: text('Could not load the entities.') },
  { path: '/schema/companies', full: rows, failed: text('Could not load companies.') },
  {
    path: '/views',
    full: rows,
    empty: text(/^A view is a /),
    failed: text('Could not load the views.'),
    forbidden: text(/^A view is a /),
  },
  { path: '/rules', full: rows, empty: text(/^Rules /), failed: text('Could not load the rules.') },
  { path: '/roles', full: rows, empty: text(/^Only the four system roles/), failed: text('Could not load the roles.') },
  {
    path: '/roles/hostile',
    full: (page) => page.getByRole('checkbox', { name: 'read companies' }),
    failed: text('Could not load the role hostile.'),
  },
  {
    path: '/people',
    full: rows,
    empty: text(/^No people yet/),
    failed: text('Could not load the people.'),
  },
  { path: '/keys', full: rows, empty: rows, failed: text('Could not load the keys.') },
  {
    path: '/keys?tab=platform',
    full: text(/^Roles of/),
    empty: text(/^No platform/),
    failed: text('Could not load the APIs.'),
  },
  { path: '/keys?tab=public', full: rows, empty: text(/^No public keys/), failed: text('Could not load the keys.') },
  { path: '/keys?tab=bots', full: rows, empty: text(/^No bots/), failed: text('Could not load the bots.') },
  {
    path: '/webhooks',
    full: rows,
    empty: text(/A subscription posts changes/),
    failed: text('Could not load the subscriptions.'),
  },
  {
    path: '/live',
    full: text('connected'),
    empty: text('connected'),
    failed: text('connection lost'),
    forbidden: text('connected'),
  },
  { path: '/usage', full: heading('By day'), empty: heading('By day'), failed: text('Could not load the usage.') },
  { path: '/settings', full: heading('Custom domain'), failed: text('Could not load the settings.') },
  { path: '/account', full: text('You are signed in with a key.'), forbidden: text('this session') },
];

/** Pages about one record or subscription. */
const pagesOf = ({ record, huge, subscription }: Hostile): PageCase[] => [
  { path: `/records/companies/${record}`, full: mail },
  { path: `/records/companies/${record}?tab=related`, full: heading('Refer to this record') },
  { path: `/records/companies/${record}?tab=history`, full: text('as it is now') },
  { path: `/records/companies/${record}?tab=json`, full: text('"mail"') },
  { path: `/records/companies/${huge}`, full: mail },
  { path: `/records/companies/${huge}?tab=history`, full: text('as it is now') },
  { path: `/records/companies/${huge}?tab=json`, full: text('"mail"') },
  { path: `/records/companies?peek=${record}`, full: (page) => page.getByRole('complementary') },
  { path: '/records/companies?new=1', full: (page) => page.getByRole('dialog') },
  { path: `/webhooks/${subscription}`, full: rows },
  { path: `/webhooks/${subscription}?tab=settings`, full: heading('Secret') },
  { path: `/webhooks/${subscription}?tab=receiver`, full: heading('A receiver') },
];

const PLATFORM: readonly { path: string; full: Find; failed: Find }[] = [
  { path: '', full: heading('Tenants'), failed: text('Could not load the tenants.') },
  { path: '/keys', full: heading('Admin keys'), failed: heading('Admin keys') },
  { path: '/invitations', full: heading('Invitations'), failed: text('Could not load the invitations.') },
  { path: '/health', full: heading('Schema health'), failed: text('Could not check the schemas.') },
  { path: '/usage', full: heading('Usage of the last 30 days'), failed: text('Could not load the usage.') },
];

/** Navigates as a link does, without reloading the console; via a page that does not exist, so that no state stays. */
async function go(page: Page, path: string, find: Find): Promise<void> {
  for (const [to, seen] of [
    ['/app/nowhere', text('There is no page at this address.')],
    [path, find],
  ] as const) {
    await page.evaluate((address) => history.pushState(null, '', address), to);
    await seen(page).waitFor();
  }
  await page.getByRole('status', { name: 'Loading' }).first().waitFor({ state: 'detached' });
}

/** The faults of the page at this path: `find` is missing, a tenant's script runs, or `flaws` reports something. */
async function flawsAt(
  page: Page,
  path: string,
  find: Find,
  widths?: readonly number[],
  looks?: Looks,
): Promise<string[]> {
  const problem = await go(page, path, find).catch((cause: Error) => cause.message);
  if (problem !== undefined) return [`${path}: ${problem} ${await page.locator('main').textContent()}`];
  const found = await flaws(page, widths, looks);
  if ((await page.locator('main img, main script, main iframe').count()) > 0) found.push('markup of a tenant');
  return found.map((flaw) => `${path}: ${flaw}`);
}

async function open(page: Page, key: string, slug: string | null): Promise<void> {
  await signedIn(page, key, slug);
  await page.goto(slug === null ? '/app/platform' : `/app/t/${slug}/account`);
  await page.getByRole('button', { name: /menu$/ }).waitFor();
}

/** Every response of the service, except the person's own rights, is an error. */
const failing = (page: Page): Promise<unknown> =>
  page.route(/\/(api|health)\//, (route) => {
    if (route.request().url().includes('whoami')) return route.continue();
    const error = { code: 'INTERNAL_ERROR', message: 'Internal server error', requestId: 'r-1' };
    return route.fulfill({ status: 500, json: { success: false, error } });
  });

browserTest(
  'with hostile data in every text, each page of a tenant is accessible, keeps its width and runs nothing',
  () =>
    visit(service.url, async (page) => {
      const tenant = await service.tenant();
      const made = await fillWithHostile(tenant, receiver.url);
      await open(page, tenant.key, tenant.slug);
      const found: string[] = [];
      for (const { path, full } of [...PAGES, ...pagesOf(made)]) {
        found.push(...(await flawsAt(page, `/app/t/${tenant.slug}${path}`, full, [360], { alsoFits: [1440] })));
      }
      const file = {
        name: `${HOSTILE}.csv`,
        mimeType: 'text/csv',
        buffer: Buffer.from(`title,${HOSTILE}\n${HOSTILE},1\n`),
      };
      await go(page, `/app/t/${tenant.slug}/records/companies?transfer=import`, (at) => at.getByRole('dialog'));
      await page.getByLabel('File', { exact: true }).setInputFiles(file);
      await page.getByText('CSV, separated by commas').waitFor();
      found.push(...(await flaws(page, [360])));
      expect(found).toEqual([]);
      expect(await page.evaluate(() => 'ran' in window)).toBe(false);
    }),
);

browserTest('without data, each page says what belongs there', () =>
  visit(service.url, async (page) => {
    const tenant = await service.tenant();
    await open(page, tenant.key, tenant.slug);
    const found: string[] = [];
    for (const { path, empty } of PAGES) {
      if (empty !== undefined) found.push(...(await flawsAt(page, `/app/t/${tenant.slug}${path}`, empty, [320])));
    }
    expect(found).toEqual([]);
  }),
);

browserTest('when the service fails, each page says what could not be loaded, and offers to try again', () =>
  visit(
    service.url,
    async (page) => {
      const tenant = await service.tenant();
      await failing(page);
      await open(page, tenant.key, tenant.slug);
      const found: string[] = [];
      for (const { path, failed } of PAGES) {
        if (failed !== undefined) found.push(...(await flawsAt(page, `/app/t/${tenant.slug}${path}`, failed, [320])));
      }
      expect(found).toEqual([]);
    },
    { expected: [/500/] },
  ),
);

browserTest('a role that may do nothing is told so on every page, by the name of the role', () =>
  visit(
    service.url,
    async (page) => {
      const tenant = await service.tenant();
      await tenant.post('/api/entities', { name: 'companies', fields: [{ key: 'title', type: 'text' }] });
      await tenant.post('/api/roles', { name: 'nobody', permissions: {}, entities: {} });
      const { email } = await addUser(tenant, { role: 'nobody' });
      const user = await signIn(service.anonymous, tenant, email);
      await open(page, user.token, tenant.slug);
      const rail = page.getByRole('navigation', { name: 'Main' });
      for (const name of ['Schema', 'Rules', 'Roles', 'People', 'Keys', 'Webhooks', 'Usage', 'Settings', 'Platform']) {
        expect([name, await rail.getByRole('link', { name }).count()]).toEqual([name, 0]);
      }
      const found: string[] = [];
      for (const { path, forbidden = text(/Your role nobody may not open/) } of PAGES) {
        found.push(...(await flawsAt(page, `/app/t/${tenant.slug}${path}`, forbidden, [320])));
      }
      expect(found).toEqual([]);
    },
    { expected: [/403|404/] },
  ),
);

browserTest('each page of the platform is accessible and keeps its width, also when the service fails', () =>
  visit(
    service.url,
    async (page) => {
      const { slug } = await service.tenant({ name: HOSTILE });
      await open(page, ADMIN_SECRET, null);
      const found: string[] = [];
      for (const { path, full } of [...PLATFORM, { path: `?tenant=${slug}`, full: heading('Quotas') }]) {
        found.push(...(await flawsAt(page, `/app/platform${path}`, full)));
      }
      await failing(page);
      await page.reload();
      for (const { path, failed } of PLATFORM) {
        found.push(...(await flawsAt(page, `/app/platform${path}`, failed, [320])));
      }
      expect(found).toEqual([]);
    },
    { expected: [/500/] },
  ),
);

browserTest('the pages without a session are accessible and keep their width', () =>
  visit(service.url, async (page) => {
    const tenant = await service.tenant({ name: HOSTILE });
    const { token } = (await tenant.post('/api/invitations', {}, { 'X-Tenant-ID': tenant.slug })).body.data;
    for (const [path, find] of [
      ['/app', (at: Page) => at.getByRole('button', { name: 'Sign in' })],
      [`/invite/${token}`, (at: Page) => at.getByRole('button', { name: 'Accept' })],
      ['/reset-password?token=svc_rst_0', (at: Page) => at.getByRole('button', { name: 'Set password' })],
    ] as const) {
      await page.goto(path);
      await find(page).waitFor();
      expect([path, await flaws(page)]).toEqual([path, []]);
    }
  }),
);
