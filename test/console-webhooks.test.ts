// The console's Webhooks pages in Chromium, against receivers that really fail and recover: a subscription with its secret shown
// once, tests, failures in the receiver's words, deliveries page by page and one by itself, redelivery and replay, secrets that
// overlap, what a subscription for somebody else shows, switching off by the service, deletion, what axe finds.
// Contract: interface#console.
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'bun:test';
import type { Page } from 'playwright-core';
import { Webhook } from 'standardwebhooks';
import { axe, browserTest, flaws, signedIn, visit } from './support/browser.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const SUBSCRIPTIONS = '/api/webhooks/subscriptions';
const ALL = ['record.created', 'record.updated', 'record.deleted'];

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;
beforeAll(async () => {
  // A failed delivery stays failed while a test looks at it.
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8', WEBHOOK_RETRY_BASE_MS: '3600000' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  receiver = await startReceiver();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'deals', fields: [{ key: 'title', type: 'text', required: true }] });
});
afterEach(() => receiver.stop());

async function subscribe(path = '/hook'): Promise<string> {
  const body = { entity_name: 'deals', event_types: ALL, url: receiver.url + path, secret: 'a shared secret' };
  return (await tenant.post(SUBSCRIPTIONS, body)).body.data.id;
}

async function open(page: Page, rest = ''): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/webhooks${rest}`);
}

browserTest('a subscription is made, its secret is shown once with code, and signs what is sent', () =>
  visit(service.url, async (page) => {
    await open(page);
    await page.getByText('No subscriptions yet.').waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'New subscription' }).click();
    const form = page.getByRole('dialog', { name: 'New subscription' });
    await form.getByRole('combobox', { name: 'Entity' }).fill('deals');
    await form.getByRole('option', { name: 'deals' }).click();
    await form.getByLabel('Address').fill(`${receiver.url}/hook`);
    await form.getByLabel('record.deleted').uncheck();
    expect(await axe(page)).toEqual([]);
    await form.getByRole('button', { name: 'Create' }).click();
    const shown = page.getByRole('dialog', { name: 'The subscription is ready' });
    const secret = (await shown.getByText(/^whsec_/).textContent()) as string;
    for (const language of ['Node', 'Python', 'Go']) {
      await shown.getByRole('tab', { name: language }).click();
      await shown.getByText(`A receiver in ${language}`).waitFor();
    }
    expect(await axe(page)).toEqual([]);
    await shown.getByLabel('I have stored it').check();
    await shown.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Send test' }).click();
    const [request] = await receiver.waitFor(1);
    expect(new Webhook(secret).verify(request?.text ?? '', request?.headers ?? {})).toMatchObject({ entity: 'deals' });
    await page.getByRole('row').getByText('delivered').waitFor();
    expect(await page.content()).not.toContain(secret);
    const [made] = (await tenant.get(SUBSCRIPTIONS)).body.data;
    expect(made.event_types).toEqual(['record.created', 'record.updated']);
  }),
);

browserTest('a refused address is said at its field, and nothing typed is lost', () =>
  visit(
    service.url,
    async (page) => {
      await open(page);
      await page.getByRole('button', { name: 'New subscription' }).click();
      const form = page.getByRole('dialog', { name: 'New subscription' });
      await form.getByRole('combobox', { name: 'Entity' }).fill('deals');
      await form.getByRole('option', { name: 'deals' }).click();
      await form.getByLabel('Address').fill('http://10.0.0.1/hook');
      await form.getByRole('button', { name: 'Create' }).click();
      await form.getByLabel('Address').and(page.locator('[aria-invalid]')).waitFor();
      expect(await form.getByLabel('Address').inputValue()).toBe('http://10.0.0.1/hook');
    },
    { expected: [/400/] },
  ),
);

browserTest('a failing receiver comes first and in its words; mended, what failed is redelivered', () =>
  visit(service.url, async (page) => {
    const failing = await subscribe('/fails');
    await subscribe('/works');
    receiver.answer = ({ path }, response) => void response.writeHead(path === '/fails' ? 500 : 200).end('db down');
    await tenant.post('/api/entities/deals/records', { title: 'One' });
    await receiver.waitFor(2);
    await open(page);
    await page.getByRole('row').nth(1).getByText('failing').waitFor();
    await page.getByRole('row').nth(2).getByText('ok', { exact: true }).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.getByText('status 500', { exact: false }).waitFor();
    await page.getByRole('link', { name: '/fails' }).click();
    await page.getByText(/Failing: status 500. 1 delivery waits for it/).waitFor();
    await page.getByRole('row').getByText('retrying').waitFor();
    expect(await flaws(page)).toEqual([]);
    receiver.answer = (_, response) => void response.writeHead(204).end();
    await page.getByRole('button', { name: /^Redeliver evt_/ }).click();
    await page.getByRole('row').getByText('delivered').waitFor();
    await page.getByText(/Failing: /).waitFor({ state: 'detached' });
    const [delivery] = (await tenant.get(`${SUBSCRIPTIONS}/${failing}/deliveries`)).body.data;
    expect(delivery).toMatchObject({ status: 'delivered', attempt_count: 2 });
  }),
);

browserTest('several deliveries are chosen and sent again, and the link keeps which are shown', () =>
  visit(service.url, async (page) => {
    const id = await subscribe();
    receiver.answer = (_, response) => void response.writeHead(503).end();
    for (const title of ['One', 'Two', 'Three']) await tenant.post('/api/entities/deals/records', { title });
    await receiver.waitFor(3);
    await open(page, `/${id}`);
    await page.getByRole('row').getByText('retrying').nth(2).waitFor();
    await page.getByLabel('Status').selectOption('pending');
    await page.waitForURL(/status=pending/);
    for (const at of [0, 1])
      await page
        .getByRole('checkbox', { name: /^Select evt_/ })
        .nth(at)
        .check();
    receiver.answer = (_, response) => void response.writeHead(200).end();
    await page.getByRole('button', { name: 'Redeliver 2 selected' }).click();
    await receiver.waitFor(5);
    await page.getByText('2 deliveries sent again.').waitFor();
    await page.getByLabel('Status').selectOption('delivered');
    await page.getByRole('row').getByText('delivered').nth(1).waitFor();
  }),
);

browserTest('a subscription is switched off and on, its address mended, its secret replaced, and it is deleted', () =>
  visit(service.url, async (page) => {
    const id = await subscribe('/old');
    const read = async () => (await tenant.get(SUBSCRIPTIONS)).body.data[0];
    await open(page, `/${id}`);
    await page.getByRole('button', { name: 'Switch off' }).click();
    await page.getByText('Its deliveries wait until it is switched on.').waitFor();
    expect((await read()).is_active).toBe(false);
    await page.getByRole('button', { name: 'Switch on' }).click();
    await page.getByRole('button', { name: 'Switch off' }).waitFor();
    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByLabel('Address').fill(`${receiver.url}/new`);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The address was saved.').waitFor();
    expect((await read()).url).toBe(`${receiver.url}/new`);
    await page.getByRole('button', { name: 'New secret' }).click();
    await page.getByRole('button', { name: 'Confirm' }).click();
    const secret = (await page.getByText(/^whsec_/).textContent()) as string;
    await page.getByLabel('I have stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Send test' }).click();
    const [request] = await receiver.waitFor(1);
    new Webhook(secret).verify(request?.text ?? '', request?.headers ?? {});
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('No subscriptions yet.').waitFor();
    expect(await read()).toBeUndefined();
  }),
);

browserTest('a delivery shows each attempt with what the receiver said, and its body, by keyboard alone', () =>
  visit(service.url, async (page) => {
    const id = await subscribe();
    receiver.answer = (_, response) => void response.writeHead(503).end('the shop is <b>closed</b>');
    await tenant.post('/api/entities/deals/records', { title: 'One' });
    await receiver.waitFor(1);
    await open(page, `/${id}`);
    await page.getByRole('row').getByText('retrying').waitFor();
    await page.getByRole('row').nth(1).getByRole('link').focus();
    await page.keyboard.press('Enter');
    const panel = page.getByRole('complementary', { name: 'record.created' });
    await panel.getByText('the shop is <b>closed</b>').waitFor();
    await panel.getByText(/^503/).waitFor();
    await panel.getByText('"title": "One"').waitFor();
    expect(await flaws(page)).toEqual([]);
    receiver.answer = (_, response) => void response.writeHead(200).end('thanks');
    await panel.getByRole('button', { name: 'Redeliver' }).click();
    await panel.getByText('2 attempts').waitFor();
    await panel.getByText('thanks', { exact: true }).waitFor();
    // The link alone shows it too.
    await page.reload();
    await panel.getByText('2 attempts').waitFor();
    await panel.press('Escape');
    await panel.waitFor({ state: 'detached' });
    expect(page.url()).not.toContain('delivery=');
  }),
);

browserTest('deliveries are shown by status and event, page by page', () =>
  visit(service.url, async (page) => {
    const id = await subscribe();
    const operations = Array.from({ length: 60 }, (_, i) => ({ op: 'create', data: { title: `${i}` } }));
    await tenant.post('/api/entities/deals/records/bulk', { operations });
    const [record] = (await tenant.get('/api/entities/deals/records?limit=1')).body.data.items;
    await tenant.patch(`/api/entities/deals/records/${record.id}`, { title: 'changed' });
    await receiver.waitFor(61);
    await open(page, `/${id}`);
    const body = page.getByRole('table', { name: 'Deliveries, newest first' }).getByRole('rowheader');
    await page.getByRole('cell', { name: 'updated' }).waitFor();
    expect(await body.count()).toBe(50);
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByRole('button', { name: 'Newest' }).waitFor();
    await page.getByRole('button', { name: 'Older' }).waitFor({ state: 'detached' });
    await body.nth(10).waitFor();
    expect(await body.count()).toBe(11);
    await page.goBack();
    await body.nth(49).waitFor();
    await page.getByLabel('Event').selectOption('record.updated');
    await page.waitForURL(/event=record.updated/);
    await page.getByRole('cell', { name: 'created', exact: true }).first().waitFor({ state: 'detached' });
    await body.waitFor();
    expect(await body.count()).toBe(1);
    await page.getByLabel('Status').selectOption('failed');
    await page.getByText('No such delivery.', { exact: false }).waitFor();
    expect(await flaws(page)).toEqual([]);
  }),
);

browserTest('a replay says how many deliveries it sends again', () =>
  visit(service.url, async (page) => {
    const id = await subscribe();
    for (const title of ['One', 'Two']) await tenant.post('/api/entities/deals/records', { title });
    await receiver.waitFor(2);
    await open(page, `/${id}`);
    await page.getByRole('row').getByText('delivered').nth(1).waitFor();
    await page.getByRole('button', { name: 'Replay' }).click();
    const dialog = page.getByRole('dialog', { name: 'Replay' });
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Send again' }).click();
    await dialog.getByText('No delivery has failed since then.').waitFor();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Replay' }).click();
    await dialog.getByLabel('Which').selectOption('all');
    await dialog.getByRole('button', { name: 'Send again' }).click();
    await dialog.getByText(/^2 deliveries are sent again/).waitFor();
    const sent = await receiver.waitFor(4);
    expect(new Set(sent.map(({ body }) => body.id)).size).toBe(2);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  }),
);

browserTest('a new secret overlaps with the one before for as long as is chosen', () =>
  visit(service.url, async (page) => {
    const id = await subscribe();
    await open(page, `/${id}?tab=settings`);
    await page.getByRole('button', { name: 'New secret' }).click();
    const dialog = page.getByRole('dialog', { name: 'Replace the secret?' });
    await dialog.getByLabel('The secret before signs too').selectOption('for 8 hours');
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Confirm' }).click();
    const secret = (await page.getByText(/^whsec_/).textContent()) as string;
    await page.getByLabel('I have stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByText(/The secret before signs too, until in 8 hours/).waitFor();
    expect(await page.content()).not.toContain(secret);
    await page.getByRole('button', { name: 'Send test' }).click();
    const [request] = await receiver.waitFor(1);
    expect(request?.headers['webhook-signature']?.split(' ')).toHaveLength(2);
    for (const one of [secret, Buffer.from('a shared secret').toString('base64')]) {
      new Webhook(one).verify(request?.text ?? '', request?.headers ?? {});
    }
  }),
);

browserTest(
  'a subscription for somebody else shows a role’s records, filtered, with some fields and what is included',
  () =>
    visit(service.url, async (page) => {
      await tenant.post('/api/roles', { name: 'partner', permissions: { deals: ['read'] } });
      await open(page);
      await page.getByRole('button', { name: 'New subscription' }).click();
      const form = page.getByRole('dialog', { name: 'New subscription' });
      await form.getByLabel('Address').fill(`${receiver.url}/partner`);
      await form.getByRole('combobox', { name: 'Entity' }).fill('deals');
      await form.getByRole('option', { name: 'deals' }).click();
      await form.getByText('For somebody else').click();
      await form.getByLabel('Role').selectOption('partner');
      await form.getByRole('textbox', { name: 'Filter' }).fill('title != "secret"');
      await form.getByRole('combobox', { name: 'Fields' }).fill('title');
      await form.getByRole('listbox').getByRole('option', { name: 'title' }).click();
      await form.getByLabel('previous: the record before an update').check();
      expect(await flaws(page)).toEqual([]);
      await form.getByRole('button', { name: 'Create' }).click();
      await page.getByLabel('I have stored it').check();
      await page.getByRole('button', { name: 'Done' }).click();
      await page.getByText('as partner sees them', { exact: false }).waitFor();
      const [made] = (await tenant.get(SUBSCRIPTIONS)).body.data;
      expect(made).toMatchObject({
        role: 'partner',
        filters: 'title != "secret"',
        fields: ['title'],
        include: ['previous'],
      });
      await page.getByRole('tab', { name: 'Settings' }).click();
      await page.getByLabel('cursor: where to go on in the feed of changes').check();
      await page.getByLabel('Role').selectOption('none: whole records');
      expect(await flaws(page)).toEqual([]);
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('The subscription was saved.').waitFor();
      const [saved] = (await tenant.get(SUBSCRIPTIONS)).body.data;
      expect([saved.role, saved.include, saved.fields]).toEqual([undefined, ['previous', 'cursor'], ['title']]);
    }),
);

browserTest('a subscription that the service has switched off says why, and is switched on again', () =>
  visit(service.url, async (page) => {
    const id = await subscribe('/gone');
    receiver.answer = (_, response) => void response.writeHead(410).end();
    await tenant.post('/api/entities/deals/records', { title: 'One' });
    await open(page);
    await page.getByRole('row').getByText('disabled').waitFor();
    await page.goto(`/app/t/${tenant.slug}/webhooks/${id}`);
    await page.getByText(/The service switched it off: the receiver answered 410 Gone/).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.getByRole('button', { name: 'Switch on again' }).click();
    await page.getByText(/The service switched it off/).waitFor({ state: 'detached' });
    expect((await tenant.get(SUBSCRIPTIONS)).body.data[0].is_active).toBe(true);
  }),
);

browserTest('a subscription, a delivery or a right that is not there is said in words', () =>
  visit(
    service.url,
    async (page) => {
      const id = await subscribe();
      const nothing = '00000000-0000-4000-8000-000000000000';
      await open(page, `/${nothing}`);
      await page.getByText('There is no subscription with this id.', { exact: false }).waitFor();
      await page.goto(`/app/t/${tenant.slug}/webhooks/${id}?delivery=${nothing}`);
      await page.getByText('There is no delivery with this id.', { exact: false }).waitFor();
      expect(await flaws(page)).toEqual([]);
      await page.route('**/deliveries?**', (route) => route.fulfill({ status: 500, json: { success: false } }));
      await page.goto(`/app/t/${tenant.slug}/webhooks/${id}`);
      await page.getByText('Could not load the deliveries.', { exact: false }).waitFor();
      expect(await flaws(page)).toEqual([]);
    },
    { expected: [/404/, /500/] },
  ),
);
