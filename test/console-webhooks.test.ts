// The console's Webhooks pages in Chromium, against receivers that really fail and are mended: a subscription with its
// secret shown once, tests, failures in the receiver's words, redelivery, switching off, deletion, what axe finds.
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
  // A failed delivery stays so while a test looks at it.
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
    await page.getByRole('link', { name: '/fails' }).click();
    await page.getByText(/has failed since .* It said: 500/).waitFor();
    await page.getByRole('row').getByText('retrying').waitFor();
    expect(await flaws(page)).toEqual([]);
    receiver.answer = (_, response) => void response.writeHead(204).end();
    await page.getByRole('button', { name: /^Redeliver evt_/ }).click();
    await page.getByRole('row').getByText('delivered').waitFor();
    await page.getByText(/has failed since/).waitFor({ state: 'detached' });
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
    await page.getByLabel('Show').selectOption('failing');
    await page.waitForURL(/status=failing/);
    for (const at of [0, 1])
      await page
        .getByRole('checkbox', { name: /^Select evt_/ })
        .nth(at)
        .check();
    receiver.answer = (_, response) => void response.writeHead(200).end();
    await page.getByRole('button', { name: 'Redeliver 2 selected' }).click();
    await receiver.waitFor(5);
    await page.getByText('2 deliveries sent again.').waitFor();
    await page.getByLabel('Show').selectOption('delivered');
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
