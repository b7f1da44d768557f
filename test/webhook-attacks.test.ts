// Attacks by receivers and tenants on webhooks: huge responses, redirects, secrets that change meanwhile, concurrent replays,
// replays of deleted records and across the death of a process, many subscriptions with costly filters.
// Contract: decisions#webhook-requests, decisions#replay, neighbours#fair-shares.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import process from 'node:process';
import { sql } from '../src/runtime/sql.ts';
import { judgedChanges, SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type Received, type Receiver, startReceiver } from './support/receiver.ts';
import {
  type Client,
  createTenant,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

const RECORDS = '/api/entities/task/records';
const LONG_AGO = '2001-01-01T00:00:00Z';

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32', WEBHOOK_MAX_RETRIES: '0' });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await createEntity(tenant, 'task', fields('title text', 'stage text'));
});
afterEach(() => receiver.stop());

async function createMany(client: Client, count: number, values: Json = {}): Promise<void> {
  const operations = Array.from({ length: count }, (_, i) => ({ op: 'create', data: { title: `${i}`, ...values } }));
  expect((await client.post(`${RECORDS}/bulk`, { operations })).status).toBe(200);
}

const replay = (client: Client, id: string) =>
  client.post(`${SUBSCRIPTIONS}/${id}/replay`, { from: LONG_AGO, status: 'all' });
const idsOf = (received: readonly Received[]): Set<string> => new Set(received.map(({ body }) => body.id));

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await Bun.sleep(10);
}

describe('a receiver', () => {
  test('that announces 900 MB is read up to 64 KiB, and its status counts', async () => {
    let written = 0;
    receiver.answer = (_, response) => {
      response.writeHead(200, { 'content-length': String(900 * 1_048_576) });
      const pour = (): void => {
        written += 65_536;
        if (!response.destroyed) response.write('z'.repeat(65_536), () => setImmediate(pour));
      };
      pour();
    };
    const { id } = await subscribe(tenant, receiver.url);
    await createRecord(tenant, RECORDS, { title: 'a' });
    expect((await settledDeliveries(tenant, id))[0]).toMatchObject({ status: 'delivered', http_status: 200 });
    // Including the kernel's buffers.
    expect(written).toBeLessThan(64 * 1_048_576);
  });

  test.each(['/circle', 'http://169.254.169.254/latest', 'http://[::1]:22/', 'file:///etc/passwd'])(
    'that redirects to %s gets one request, and nothing else does',
    async (location) => {
      receiver.answer = (_, response) => void response.writeHead(307, { location }).end();
      const { id } = await subscribe(tenant, `${receiver.url}/circle`);
      await createRecord(tenant, RECORDS, { title: 'a' });
      expect((await settledDeliveries(tenant, id))[0]).toMatchObject({ status: 'failed', error: 'status 307' });
      expect(receiver.received).toHaveLength(1);
    },
  );
});

test('while secrets change, each request is signed by one and the one before it, the same in all its headers', async () => {
  const secrets = Array.from({ length: 12 }, (_, i) => `secret ${i}`);
  const { id } = await subscribe(tenant, receiver.url, { secret: secrets[0] });
  let isRotating = true;
  const writing = (async () => {
    for (let i = 0; isRotating || i < 40; i++) await createRecord(tenant, RECORDS, { title: `${i}` });
  })();
  for (const secret of secrets.slice(1)) {
    const answer = await tenant.put(`${SUBSCRIPTIONS}/${id}`, { secret, keepPreviousForHours: 1 });
    expect(answer.status).toBe(200);
  }
  isRotating = false;
  await writing;
  const { total } = (await tenant.get(`${RECORDS}?limit=1`)).body.data;
  await receiver.waitFor(total);
  const hmac = (secret: string, text: string, encoding: 'hex' | 'base64'): string =>
    createHmac('sha256', secret).update(text).digest(encoding);
  for (const { headers, text } of receiver.received) {
    const at = secrets.findIndex((secret) => hmac(secret, text, 'hex') === headers['x-svc-signature']);
    expect(at).toBeGreaterThanOrEqual(0);
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`;
    const valid = [secrets[at], secrets[at - 1]].filter((secret) => secret !== undefined);
    const expected = valid.map((secret) => `v1,${hmac(secret, signed, 'base64')}`).join(' ');
    expect(headers['webhook-signature']).toBe(expected);
  }
});

describe('a replay', () => {
  test('of two at once, one is refused, and nothing is sent twice', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    await createMany(tenant, 300);
    await receiver.waitFor(300);
    await settledDeliveries(tenant, id, 300);
    const answered = Promise.withResolvers<void>();
    receiver.answer = async (_, response) => {
      await answered.promise;
      response.writeHead(200).end();
    };
    const answers = await Promise.all([replay(tenant, id), replay(tenant, id), replay(tenant, id)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    answered.resolve();
    await receiver.waitFor(600);
    await settledDeliveries(tenant, id, 300);
    expect(receiver.received).toHaveLength(600);
    expect(idsOf(receiver.received.slice(300)).size).toBe(300);
  });

  test('ends with its subscription, and waits for one that is switched off', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    await createMany(tenant, 300);
    await settledDeliveries(tenant, id, 300);
    const answered = Promise.withResolvers<void>();
    receiver.answer = async (_, response) => {
      await answered.promise;
      response.writeHead(200).end();
    };
    expect((await replay(tenant, id)).body.data).toEqual({ queued: 300 });
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false });
    expect((await replay(tenant, id)).body.error.message).toBe('the subscription is inactive');
    answered.resolve();
    await until(() => receiver.received.length >= 300);
    expect((await tenant.delete(`${SUBSCRIPTIONS}/${id}`)).status).toBe(200);
    expect((await replay(tenant, id)).status).toBe(404);
    const left = await service.app.db.rows(sql`
      select subscription_id from platform.webhook_replays where subscription_id = ${id}::uuid
      union all
      select subscription_id from platform.webhook_deliveries where subscription_id = ${id}::uuid`);
    expect(left).toHaveLength(0);
    // The service continues to serve others.
    await subscribe(tenant, `${receiver.url}/other`);
    await createRecord(tenant, RECORDS, { title: 'later' });
    await until(() => receiver.received.some(({ path }) => path === '/other'));
  });

  test('of records that a role may no longer see sends nothing of them', async () => {
    await tenant.post('/api/roles', { name: 'partner', permissions: { task: ['read'] } });
    const { id } = await subscribe(tenant, receiver.url, { role: 'partner' });
    for (const stage of ['open', 'secret']) await createMany(tenant, 20, { stage });
    await judgedChanges(service.app.db, tenant.id);
    await settledDeliveries(tenant, id, 40);
    await tenant.patch('/api/roles/partner', { entities: { task: { rowFilter: 'stage = "open"' } } });
    expect((await replay(tenant, id)).body.data).toEqual({ queued: 40 });
    await receiver.waitFor(60);
    const failed = (await settledDeliveries(tenant, id, 40)).filter(({ status }) => status === 'failed');
    expect(failed).toHaveLength(20);
    expect(receiver.received).toHaveLength(60);
    for (const { body } of receiver.received.slice(40)) expect(body.data.stage).toBe('open');
  });
});

test('a hundred subscriptions with costly filters do not delay another tenant’s delivery', async () => {
  const terms = Array.from({ length: 40 }, (_, i) => `title CONTAINS "x${i}y"`).join(' OR ');
  const many = Array.from({ length: 100 }, (_, i) => i);
  for (const i of many) {
    const filters = `${terms} OR title = "never ${i}"`;
    await subscribe(tenant, `${receiver.url}/${i}`, { filters, event_types: ['record.created'] });
  }
  const other = await service.tenant();
  await createEntity(other, 'task', fields('title text', 'stage text'));
  const theirs = await startReceiver();
  await subscribe(other, theirs.url);
  await createRecord(other, RECORDS, { title: 'before' });
  await theirs.waitFor(1);
  await createMany(tenant, 300, { title: 'z'.repeat(2_000) });
  await createRecord(other, RECORDS, { title: 'theirs' });
  const others = theirs.waitFor(2).then(() => 'theirs');
  const own = judgedChanges(service.app.db, tenant.id).then(() => 'own');
  // 300 changes are judged 100 times each: the other tenant's delivery does not wait for that.
  expect(await Promise.race([others, own])).toBe('theirs');
  await own;
  expect(receiver.received).toHaveLength(0);
  await theirs.stop();
});

if (process.env.DATABASE_URL) {
  describe('after kill -9 of a process', () => {
    let stores: SharedStores;
    let processes: ServiceProcess[] = [];
    beforeAll(async () => {
      stores = await sharedStores();
      if (stores.redisUrl === undefined) return;
      const environment = { ...stores.environment, WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' };
      processes = [await startServiceProcess(environment), await startServiceProcess(environment)];
    });
    afterAll(async () => {
      await Promise.all(processes.map((one) => one.kill()));
      await stores.remove();
    });

    test('a replay continues in another process, and everything is sent', async () => {
      const [first, second] = processes;
      if (first === undefined || second === undefined) return;
      const owner = await createTenant(first.url);
      await owner.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
      const { id } = await subscribe(owner, receiver.url);
      await createMany(owner, 600);
      await receiver.waitFor(600);
      receiver.answer = async (_, response) => {
        await Bun.sleep(10);
        response.writeHead(200).end();
      };
      await until(async () => {
        const pending = await owner.get(`${SUBSCRIPTIONS}/${id}/deliveries?status=pending&limit=1`);
        return pending.body.data.length === 0;
      });
      expect((await replay(owner, id)).body.data).toEqual({ queued: 600 });
      await receiver.waitFor(700);
      await first.kill();
      await until(() => idsOf(receiver.received.slice(600)).size === 600);
    });
  });
}
