// The state of a webhook subscription: its health, the log of attempts, and when the service gives up a delivery or a
// subscription. Contract: decisions#health-of-subscriptions, decisions#deliveries.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import process from 'node:process';
import type { App } from '../src/app.ts';
import { LIMITS } from '../src/limits.ts';
import { newId } from '../src/runtime/ids.ts';
import { newOwnedId } from '../src/runtime/owned-ids.ts';
import { sql } from '../src/runtime/sql.ts';
import type { AttemptResult } from '../src/webhooks/dispatch/attempt-result.ts';
import { ClaimOwners } from '../src/webhooks/dispatch/claim-owners.ts';
import { HealthLog } from '../src/webhooks/dispatch/health.ts';
import { findOverdue } from '../src/webhooks/dispatch/overdue.ts';
import { ResultWriter } from '../src/webhooks/dispatch/results.ts';
import { InFlightWindows } from '../src/webhooks/dispatch/window.ts';
import { disableSubscription } from '../src/webhooks/subscriptions/disable.ts';
import { ResponseStart } from '../src/webhooks/transport/response-start.ts';
import { closeAfterEach } from './support/connections.ts';
import { deliveriesOf, SUBSCRIPTIONS, settledDeliveries, subscribe } from './support/deliveries.ts';
import { tenantWithEntities } from './support/entities.ts';
import { mailsTo } from './support/mailbox.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { createTenant, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';
import { runInSchema } from './support/tenant-database.ts';
import { within } from './support/timing.ts';

const RECORDS = '/api/entities/task/records';
const DELIVERIES = '/api/webhooks/deliveries';
const TITLE = { name: 'task', fields: [{ key: 'title', type: 'text' }] };

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;
const keep = closeAfterEach();

beforeAll(async () => {
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_RETRY_BASE_MS: '20',
    WEBHOOK_RETRY_FACTOR: '1',
    WEBHOOK_MAX_RETRIES: '1',
    WEBHOOK_TIMEOUT_MS: '10000',
  });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  await tenant.post('/api/entities', TITLE);
});
afterEach(() => receiver.stop());

const answerWith = (status: number, text = ''): void => {
  receiver.answer = (_, response) => void response.writeHead(status).end(text);
};

async function read(id: string): Promise<Json> {
  const answer = await tenant.get(`${SUBSCRIPTIONS}/${id}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.data;
}

/** Writes a record and waits until its delivery has ended. Resolves to all deliveries of the subscription. */
async function deliver(id: string, count: number): Promise<Json[]> {
  await tenant.post(RECORDS, { title: String(count) });
  return settledDeliveries(tenant, id, count);
}

describe('health', () => {
  test('a subscription is ok, failing while nothing succeeds, and ok again after a success', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    expect((await read(id)).health).toEqual({
      state: 'ok',
      lastSuccessAt: null,
      lastFailureAt: null,
      lastError: null,
      pending: 0,
      failed24h: 0,
      behindSeconds: 0,
    });
    await deliver(id, 1);
    expect((await read(id)).health).toMatchObject({ state: 'ok', lastSuccessAt: expect.any(String), lastError: null });
    answerWith(503);
    await deliver(id, 2);
    const failing = (await read(id)).health;
    expect(failing).toMatchObject({ state: 'failing', lastError: 'status 503', failed24h: 1, pending: 0 });
    expect(Date.parse(failing.lastFailureAt)).toBeGreaterThan(Date.parse(failing.lastSuccessAt));
    expect((await tenant.get(SUBSCRIPTIONS)).body.data[0].health).toEqual({ state: 'failing' });
    answerWith(200);
    await deliver(id, 3);
    expect((await read(id)).health).toMatchObject({ state: 'ok', lastError: 'status 503', failed24h: 1 });
    expect((await tenant.get(SUBSCRIPTIONS)).body.data[0].health).toEqual({ state: 'ok' });
  });

  test('overdue deliveries show in behindSeconds', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    await deliver(id, 1);
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false });
    await service.app.db.rows(sql`
      update platform.webhook_deliveries set status = 'pending', next_at = now() - interval '90 seconds'
      where subscription_id = ${id}::uuid`);
    const { health } = await read(id);
    expect(health).toMatchObject({ state: 'disabled', pending: 1 });
    expect(health.behindSeconds).toBeGreaterThanOrEqual(90);
  });

  test('a result that comes after the end of its subscription leaves nothing', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    expect((await tenant.delete(`${SUBSCRIPTIONS}/${id}`)).status).toBe(200);
    const { app } = service;
    const result = { delivery: { subscriptionId: id }, state: 'failed', status: 500, error: 'HTTP 500' };
    await app.db.begin((tx) => new HealthLog(app).store(tx, [result as AttemptResult]));
    const left = await app.db.rows(sql`select from platform.webhook_health where subscription_id = ${id}::uuid`);
    expect(left).toHaveLength(0);
  });

  test('another tenant’s subscription is not found', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    const other = await service.tenant();
    expect((await other.get(`${SUBSCRIPTIONS}/${id}`)).status).toBe(404);
    expect((await other.get(`${SUBSCRIPTIONS}/nothing`)).status).toBe(404);
  });
});

describe('disabling', () => {
  /** An admin's address. */
  async function admin(): Promise<string> {
    const email = `admin-${newId()}@example.com`;
    const user = { email, name: 'Ada', role: 'admin', password: 'a long password' };
    expect((await tenant.post('/api/users', user)).status).toBe(201);
    return email;
  }

  test('410 from a receiver disables the subscription, with an event on the stream and a mail to the admins', async () => {
    const email = await admin();
    const { id } = await subscribe(tenant, receiver.url);
    const stream = keep(await connectEvents(service.url, tenant.slug, tenant.key, '?events=webhook.disabled'));
    answerWith(410);
    const [delivery] = await deliver(id, 1);
    expect(delivery).toMatchObject({ status: 'failed', attempt_count: 1, http_status: 410 });
    const { event, data } = await stream.next();
    const reason = 'the receiver answered 410 Gone';
    expect([event, data]).toMatchObject(['webhook.disabled', { subscription_id: id, entity: 'task', reason }]);
    expect(await read(id)).toMatchObject({ is_active: false, disabled_reason: reason, health: { state: 'disabled' } });
    const [mail] = await mailsTo(service, email);
    expect(mail?.text).toContain(id);
    expect(mail?.text).toContain(reason);
    await tenant.post(RECORDS, { title: 'not sent' });
    expect(await deliveriesOf(tenant, id)).toHaveLength(1);
    // Activated again, it works as before.
    answerWith(200);
    const activated = await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
    expect(activated.body.data).toMatchObject({ is_active: true, health: { state: 'ok' } });
    expect(activated.body.data).not.toHaveProperty('disabled_reason');
    await deliver(id, 2);
    expect(receiver.received).toHaveLength(2);
  });

  test('five days of nothing but failures disable it', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    answerWith(500);
    await deliver(id, 1);
    const days = LIMITS.webhook.disabledAfterMs / 86_400_000;
    expect(days).toBe(5);
    const failingFor = (hours: number) =>
      service.app.db.rows(sql`
        update platform.webhook_health set failing_since = now() - ${hours}::int * interval '1 hour'
        where subscription_id = ${id}::uuid`);
    await failingFor(24 * days - 1);
    await deliver(id, 2);
    expect((await read(id)).is_active).toBe(true);
    await failingFor(24 * days);
    await tenant.post(RECORDS, { title: 'the last' });
    while ((await read(id)).is_active) await Bun.sleep(20);
    expect((await read(id)).disabled_reason).toBe('every attempt has failed for 5 days');
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
    await tenant.post(RECORDS, { title: 'after it was activated' });
    await settledDeliveries(tenant, id, 4);
    expect(await read(id)).toMatchObject({ is_active: true, health: { state: 'failing' } });
  });

  // The log and the metrics are those of the service's own process.
  if (process.env.SERVICE_RUNTIME !== 'deno') {
    test('results from before a subscription was activated again do not disable it', async () => {
      const { id } = await subscribe(tenant, receiver.url);
      answerWith(500);
      await deliver(id, 1);
      expect(await disableSubscription(service.app, id, 'failed before', LIMITS.webhook.disabledAfterMs)).toBe(false);
      expect((await read(id)).is_active).toBe(true);
      expect(await disableSubscription(service.app, id, 'gone')).toBe(true);
      expect((await read(id)).is_active).toBe(false);
    });

    test('while a tenant’s subscription is being disabled, the deliveries of others go on', async () => {
      const other = await tenantWithEntities(service, ['task'], TITLE.fields);
      const subscribed = await subscribe(other, `${receiver.url}/other`);
      const { id } = await subscribe(tenant, receiver.url);
      const [disabled, resume] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const { invalidations } = service.app;
      const { publish } = invalidations;
      invalidations.publish = async (...given: Parameters<typeof publish>) => {
        disabled.resolve();
        await resume.promise;
        return publish.apply(invalidations, given);
      };
      receiver.answer = ({ path }, response) => void response.writeHead(path === '/other' ? 200 : 410).end();
      await tenant.post(RECORDS, { title: 'gone' });
      await disabled.promise;
      await other.post(RECORDS, { title: 'goes on' });
      const delivered = await within(20_000, settledDeliveries(other, subscribed.id, 1));
      invalidations.publish = publish;
      resume.resolve();
      expect(delivered).toMatchObject([{ status: 'delivered' }]);
      while ((await read(id)).is_active) await Bun.sleep(20);
    });

    test('at most as many admins get a mail as the tenant may send in a day', async () => {
      const { id } = await subscribe(tenant, receiver.url);
      await runInSchema(
        service,
        tenant,
        `insert into users (id, email, role)
        select gen_random_uuid(), 'admin-' || n || '@example.com', 'admin' from generate_series(1, 3000) as n`,
      );
      const { send } = service.app.mail;
      let sent = 0;
      service.app.mail.send = (message) => {
        sent += 1;
        return send.call(service.app.mail, message);
      };
      expect(await disableSubscription(service.app, id, 'for the test')).toBe(true);
      service.app.mail.send = send;
      expect(sent).toBeLessThanOrEqual(LIMITS.mail.perDay);
    });

    test('a failure counts from the moment that a subscription is activated again', async () => {
      const { id } = await subscribe(tenant, receiver.url);
      answerWith(500);
      await deliver(id, 1);
      expect(await disableSubscription(service.app, id, 'for the test')).toBe(true);
      const failingSince = async (): Promise<Json> =>
        (
          await service.app.db.first<Json>(sql`
            select failing_since from platform.webhook_health where subscription_id = ${id}::uuid`)
        ).failing_since;
      expect(await failingSince()).not.toBeNull();
      // The change is committed when it is announced.
      const { invalidations } = service.app;
      const { publish } = invalidations;
      let announced: Json;
      invalidations.publish = async (...given: Parameters<typeof publish>) => {
        announced ??= await failingSince();
        return publish.apply(invalidations, given);
      };
      const activated = await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: true });
      invalidations.publish = publish;
      expect([activated.status, announced]).toEqual([200, null]);
    });

    test('each turn is logged once and counted', async () => {
      const logging = await startService({
        WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
        WEBHOOK_MAX_RETRIES: '0',
        LOG_LEVEL: 'info',
      });
      tenant = await createTenant(logging.url);
      await tenant.post('/api/entities', TITLE);
      const { id } = await subscribe(tenant, receiver.url);
      for (const [i, status] of [500, 500, 200, 410].entries()) {
        answerWith(status);
        await deliver(id, i + 1);
      }
      while ((await read(id)).is_active) await Bun.sleep(20);
      // It is counted once the mail to the admins is on its way.
      const rendered = () => logging.app.metrics.render();
      while (!(await rendered()).includes('svc_webhook_disabled_total 1')) await Bun.sleep(20);
      const metrics = await rendered();
      const turns = logging.logged.map((line) => JSON.parse(line)).filter((line) => line.subscription === id);
      await logging.stop();
      expect(turns.map(({ level, msg }) => [level, msg])).toEqual([
        ['warn', 'a webhook subscription is failing'],
        ['info', 'a webhook subscription works again'],
        ['warn', 'a webhook subscription is failing'],
        ['warn', 'a webhook subscription was disabled'],
      ]);
      expect(metrics).toContain('svc_webhook_failing_total 2');
      expect(metrics).toContain('svc_webhook_recovered_total 1');
      expect(metrics).toContain('svc_webhook_disabled_total 1');
    });
  }
});

describe('the log of deliveries', () => {
  test('shows each attempt with the start of the response, and the body as sent', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    let count = 0;
    receiver.answer = (_, response) => void response.writeHead(count++ === 0 ? 503 : 200).end(`answer ${count}`);
    const [delivery] = await deliver(id, 1);
    const answer = await tenant.get(`${DELIVERIES}/${delivery?.id}`);
    expect(answer.status, answer.text).toBe(200);
    const { body, attempts, ...rest } = answer.body.data;
    expect(rest).toEqual(delivery);
    expect(body).toBe(receiver.received[1]?.text as string);
    const attempt = { at: expect.any(String), durationMs: expect.any(Number) };
    expect(attempts).toEqual([
      { ...attempt, http_status: 503, error: 'status 503', responseText: 'answer 1' },
      { ...attempt, http_status: 200, error: null, responseText: 'answer 2' },
    ]);
    expect((await (await service.tenant()).get(`${DELIVERIES}/${delivery?.id}`)).status).toBe(404);
    expect((await tenant.get(`${DELIVERIES}/nothing`)).status).toBe(404);
  });

  test('keeps at most 1 KiB of a response, in whole characters, and the latest attempts only', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    answerWith(500, `${'x'.repeat(1_023)}é${'y'.repeat(300_000)}`);
    const [delivery] = await deliver(id, 1);
    const attemptsOf = async (): Promise<Json[]> =>
      (await tenant.get(`${DELIVERIES}/${delivery?.id}`)).body.data.attempts;
    expect((await attemptsOf())[0].responseText).toBe('x'.repeat(1_023));
    for (let i = 0; i < 10; i++) {
      expect((await tenant.post(`${DELIVERIES}/${delivery?.id}/redeliver`)).status).toBe(200);
      await settledDeliveries(tenant, id, 1);
    }
    const { attempt_count } = (await deliveriesOf(tenant, id))[0] as Json;
    expect(attempt_count).toBeGreaterThan(LIMITS.webhook.attemptsKept);
    expect(await attemptsOf()).toHaveLength(LIMITS.webhook.attemptsKept);
  });

  test.each<[string, Uint8Array, string | null]>([
    ['nothing', new Uint8Array(), null],
    ['a NUL', Uint8Array.of(97, 0, 98), 'a\ufffdb'],
    ['a character that is cut off', Uint8Array.of(97, 0xc3), 'a'],
    ['no UTF-8', new Uint8Array(2_000).fill(0xff), '\ufffd'.repeat(341)],
  ])('a response of %s can be stored', (_, bytes, expected) => {
    const start = new ResponseStart();
    for (const byte of bytes) start.add(Uint8Array.of(byte));
    expect(start.text()).toBe(expected);
  });

  test('is filtered by status and event, and paged by before', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    receiver.answer = ({ body }, response) =>
      void response.writeHead(body.event === 'record.deleted' ? 500 : 200).end();
    const created = (await tenant.post(RECORDS, { title: 'x' })).body.data;
    await tenant.patch(`${RECORDS}/${created.id}`, { title: 'y' });
    await tenant.delete(`${RECORDS}/${created.id}`);
    const all = await settledDeliveries(tenant, id, 3);
    const list = async (query: string) => (await tenant.get(`${SUBSCRIPTIONS}/${id}/deliveries?${query}`)).body.data;
    expect(await list('status=failed')).toEqual(all.slice(0, 1));
    expect(await list('status=delivered')).toEqual(all.slice(1));
    expect(await list('status=pending')).toEqual([]);
    expect(await list('event=record.updated')).toEqual(all.slice(1, 2));
    expect(await list(`limit=1&before=${all[0]?.id}`)).toEqual(all.slice(1, 2));
    expect(await list(`before=${all[2]?.id}`)).toEqual([]);
    for (const query of ['status=lost', 'event=quota.warning', 'before=yesterday']) {
      const answer = await tenant.get(`${SUBSCRIPTIONS}/${id}/deliveries?${query}`);
      expect([answer.status, answer.body.error.details?.[0]?.path]).toEqual([400, query.split('=')[0]]);
    }
  });
});

describe('a receiver that fails', () => {
  test('has a window of four at least', () => {
    const windows = new InFlightWindows();
    expect(windows.sizeOf('a')).toBe(4);
    for (let i = 0; i < 10; i++) {
      windows.started('a', 0);
      windows.answered('a', i < 3, false);
    }
    expect(windows.sizeOf('a')).toBe(4);
  });

  test('and hangs still gets four requests at once', async () => {
    const released = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    let inFlight = 0;
    receiver.answer = async (_, response) => {
      if (++inFlight === 4) reached.resolve();
      await released.promise;
      response.writeHead(200).end();
    };
    await subscribe(tenant, receiver.url);
    const operations = Array.from({ length: 10 }, (_, i) => ({ op: 'create', data: { title: String(i) } }));
    await tenant.post(`${RECORDS}/bulk`, { operations });
    await reached.promise;
    released.resolve();
    expect(await receiver.waitFor(10)).toHaveLength(10);
  });

  test('a delivery whose last retry is 24 hours overdue has failed with that reason', async () => {
    const { id } = await subscribe(tenant, receiver.url);
    await deliver(id, 1);
    await tenant.put(`${SUBSCRIPTIONS}/${id}`, { is_active: false });
    const { app } = service;
    const makePending = (hours: number, attempts: number) =>
      app.db.rows(sql`
        update platform.webhook_deliveries
        set status = 'pending', completed_at = null, attempt_count = ${attempts}::int, attempts_before = 0,
          next_at = now() - ${hours}::int * interval '1 hour'
        where subscription_id = ${id}::uuid`);
    const setActive = (hours: number, isActive: boolean) =>
      app.db.rows(sql`
        update platform.webhook_subscriptions
        set is_active = ${isActive}::boolean, updated_at = now() - ${hours}::int * interval '1 hour'
        where id = ${id}::uuid`);
    await app.db.rows(sql`
      update platform.tenants set updated_at = now() - interval '9 days' where id = ${tenant.id}::uuid`);
    const found = async (): Promise<string[]> =>
      (await findOverdue(app)).filter((row) => row.subscriptionId === id).map((row) => row.id);
    await makePending(25, 1);
    await setActive(25, false);
    expect(await found()).toEqual([]);
    // Counted since its activation.
    await setActive(1, true);
    expect(await found()).toEqual([]);
    await makePending(25, 0);
    await setActive(25, true);
    expect(await found()).toEqual([]);
    await makePending(25, 1);
    const [overdue] = await found();
    const writer = new ResultWriter(app, new HealthLog(app), new AbortController().signal, () => undefined);
    await writer.giveUp([{ subscriptionId: id, tenantId: tenant.id, id: overdue as string, claimId: null }]);
    expect((await settledDeliveries(tenant, id, 1))[0]).toMatchObject({
      status: 'failed',
      attempt_count: 1,
      error: 'given up: the last retry was due 24 hours ago',
    });
  });
});

describe('the claims of a dead process', () => {
  /** A process's view of who is connected. */
  function observer(connected: () => string[]) {
    const released: string[][] = [];
    const rows = async (): Promise<never[]> => {
      released.push(connected());
      return [];
    };
    const id = newId();
    const db = { id, connectedIds: async () => [id, ...connected()], rows };
    const owners = new ClaimOwners({ db, config: { databaseUrl: 'postgres://' } } as unknown as App);
    return { released, look: () => owners.releaseDead() };
  }

  test('name their process and are all different', () => {
    const app = { db: { id: newId() } } as App;
    const claims = [newOwnedId(app.db.id), newOwnedId(app.db.id)];
    for (const claim of claims) {
      expect(claim).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/);
      expect(claim.slice(-17)).toBe(app.db.id.slice(-17));
    }
    expect(claims[0]).not.toBe(claims[1] as string);
  });

  test('are looked for only when a process has been missing twice', async () => {
    const [one, two] = [newId(), newId()];
    let connected = [one, two];
    const { released, look } = observer(() => connected);
    await look();
    expect(released).toHaveLength(0);
    for (let i = 0; i < 3; i++) await look();
    expect(released).toHaveLength(1);
    connected = [one];
    await look();
    expect(released).toHaveLength(1);
    await look();
    expect(released).toHaveLength(2);
    connected = [one, newId()];
    for (let i = 0; i < 3; i++) await look();
    expect(released).toHaveLength(2);
  });

  test('are left alone for a while after an outage of the database', async () => {
    const [one, two] = [newId(), newId()];
    let connected = (): string[] => [one, two];
    const { released, look } = observer(() => connected());
    for (let i = 0; i < 3; i++) await look();
    connected = () => {
      throw new Error('the database is away');
    };
    await expect(look()).rejects.toThrow('away');
    connected = () => [one];
    for (let i = 0; i < 3; i++) await look();
    expect(released).toHaveLength(1);
  });
});

// The embedded database serves one process.
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
      // The service of the other tests may run in a process of its own.
      await Promise.all(processes.map((one) => one.kill()));
      await stores.remove();
    });

    test('another process sends its deliveries in flight, long before its leases end', async () => {
      const [first, second] = processes;
      if (first === undefined || second === undefined) return;
      const owner = await createTenant(first.url);
      await owner.post('/api/entities', TITLE);
      await subscribe(owner, receiver.url);
      const reached = Promise.withResolvers<void>();
      let count = 0;
      receiver.answer = async (_, response) => {
        if (++count > 1) return void response.writeHead(200).end();
        reached.resolve();
        await new Promise(() => undefined);
      };
      await owner.post(RECORDS, { title: 'x' });
      await reached.promise;
      await first.kill();
      // A lease lasts 45 seconds.
      expect(await receiver.waitFor(1, 20_000)).toHaveLength(1);
    });
  });
}
