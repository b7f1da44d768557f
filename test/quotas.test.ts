// Quotas: the last use that fits succeeds and the next is refused, in any order and with any number at once; the effects of a
// refused request are undone.
// Contract: neighbours#usage-and-quotas.
import { afterAll, describe, expect, test } from 'bun:test';
import { updateTenant } from '../src/admin/tenants.ts';
import type { App } from '../src/app.ts';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { releaseOnce } from '../src/webhooks/dispatch/quota-release.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession } from './support/credentials.ts';
import { subscribe } from './support/deliveries.ts';
import { createEntity, fields } from './support/entities.ts';
import { addUser, invite, newEmail, PASSWORD, signIn } from './support/people.ts';
import { startReceiver } from './support/receiver.ts';
import { type Answer, type Client, type Json, startService, type TestTenant } from './support/service.ts';
import { connectEvents, openEvents, openSocket } from './support/streams.ts';
import { runInSchema } from './support/tenant-database.ts';

const service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
afterAll(() => service.stop());
const keep = closeAfterEach();

const NOTES = '/api/entities/notes/records';
const SIGNAL = new AbortController().signal;

async function limited(quotas: Json): Promise<TestTenant> {
  const tenant = await service.tenant();
  await createEntity(tenant, 'notes', fields('title text', 'body text'));
  await setQuotas(tenant, quotas);
  return tenant;
}

async function setQuotas({ slug }: { slug: string }, quotas: Json): Promise<Json> {
  const answer = await service.admin.patch(`/api/admin/platform/tenants/${slug}`, { quotas });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.data.quotas;
}

const creations = (count: number): Json =>
  Array.from({ length: count }, (_, i) => ({ op: 'create', data: { title: `${i}` } }));
const bulk = (client: Client, count: number, atomic = true): Promise<Answer> =>
  client.post(`${NOTES}/bulk`, { operations: creations(count), atomic });
const recordsIn = async (tenant: TestTenant): Promise<number> => (await tenant.get(`${NOTES}?limit=1`)).body.data.total;

function expectRefused(answer: Answer, status: number, use: Json): void {
  expect([answer.status, answer.body.error?.code], answer.text).toEqual([status, 'QUOTA_EXCEEDED']);
  expect(answer.body.error.details[0]).toMatchObject(use);
  if (status === 429) expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
}

describe('setting quotas', () => {
  const none = {
    records: null,
    storageBytes: null,
    requestsPerMin: null,
    writesPerMin: null,
    deliveriesPerDay: null,
    streams: null,
    sockets: null,
    users: null,
  };

  test('members keep their values unless given; null lifts one; operators and admins see all', async () => {
    const tenant = await limited({ records: 5, users: 3 });
    expect(await setQuotas(tenant, { users: null, streams: 0 })).toEqual({ ...none, records: 5, streams: 0 });
    expect((await tenant.get('/api/tenant')).body.data.quotas).toEqual({ ...none, records: 5, streams: 0 });
    const { body } = await service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { name: 'renamed' });
    expect(body.data.quotas).toEqual({ ...none, records: 5, streams: 0 });
  });

  test('only whole numbers of 0 or more are accepted, only known members, and only from operators', async () => {
    const tenant = await limited({});
    for (const quotas of [{ records: -1 }, { records: 1.5 }, { records: '5' }, { record: 5 }, null, 5]) {
      const { status } = await service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { quotas });
      expect([quotas, status]).toEqual([quotas, 400]);
    }
    expect((await tenant.patch('/api/tenant', { quotas: { records: 5 } })).status).toBe(400);
  });
});

describe('records', () => {
  test('of fifty at once, exactly those that fit are created', async () => {
    const tenant = await limited({ records: 20 });
    expect((await bulk(tenant, 10)).status).toBe(200);
    const user = await addUser(tenant);
    const member = await signIn(service.anonymous, tenant, user.email);
    const answers = await Promise.all(Array.from({ length: 50 }, () => member.post(NOTES, { title: 'one' })));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    const refused = answers.filter(({ status }) => status !== 201);
    for (const answer of refused)
      expectRefused(answer, 403, { path: 'records', quota: 'records', limit: 20, used: 20 });
    expect(await recordsIn(tenant)).toBe(20);
  });

  test('from far below a large quota up to it, every creation that fits succeeds and the next is refused', async () => {
    const tenant = await limited({ records: 250_000, storageBytes: 1_000_000_000, writesPerMin: 1_000_000 });
    const counted = async (records: number): Promise<void> => {
      const entity = `(select id from entity_definitions where name = 'notes')`;
      await runInSchema(
        service,
        tenant,
        `update platform.entity_counts set n = case slot when 0 then ${records} else 0 end where entity_id = ${entity}`,
      );
    };
    // Far from it, where a write checks it in its own statement; across the border to where a transaction does; at the end.
    for (const [from, fits] of [
      [0, 12],
      [149_990, 12],
      [199_994, 12],
      [249_988, 12],
    ] as const) {
      await counted(from);
      const answers = await Promise.all(Array.from({ length: fits }, () => tenant.post(NOTES, { title: 'one' })));
      expect([from, answers.map(({ status }) => status)]).toEqual([from, Array(fits).fill(201)]);
      expect(await recordsIn(tenant)).toBe(from + fits);
    }
    expectRefused(await tenant.post(NOTES, { title: 'one' }), 403, { quota: 'records', limit: 250_000, used: 250_000 });
  });

  test('bulk requests and imports at once never exceed it together', async () => {
    const tenant = await limited({ records: 25 });
    const lines = creations(10)
      .map(({ data }: Json) => JSON.stringify(data))
      .join('\n');
    await Promise.all([
      ...Array.from({ length: 4 }, () => bulk(tenant, 7)),
      ...Array.from({ length: 3 }, () => bulk(tenant, 5, false)),
      tenant.post(`${NOTES}/import`, lines, { 'content-type': 'application/x-ndjson' }),
    ]);
    expect(await recordsIn(tenant)).toBe(25);
  });

  test('a bulk request that is all or nothing leaves nothing; otherwise the operations that fit are kept', async () => {
    const tenant = await limited({ records: 5 });
    expectRefused(await bulk(tenant, 6), 403, { quota: 'records', limit: 5, used: 0 });
    expect(await recordsIn(tenant)).toBe(0);
    const { body } = await bulk(tenant, 8, false);
    expect(body.data).toMatchObject({ succeeded: 5, failed: 3 });
    expect(body.data.results.map(({ success }: Json) => success)).toEqual([
      true,
      true,
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(body.data.results[7].error.code).toBe('QUOTA_EXCEEDED');
  });

  test('an import keeps the lines that fit and refuses the rest', async () => {
    const tenant = await limited({ records: 700 });
    const lines = creations(1_200)
      .map(({ data }: Json) => JSON.stringify(data))
      .join('\n');
    const answer = await tenant.post(`${NOTES}/import`, lines, { 'content-type': 'application/x-ndjson' });
    expectRefused(answer, 403, { quota: 'records', limit: 700 });
    expect(answer.body.error.message).toContain('700 records were imported before and are kept');
    expect(await recordsIn(tenant)).toBe(700);
  });

  test('a quota that is set while an import runs holds for the rest of it', async () => {
    const tenant = await limited({});
    const { readable, writable } = new TransformStream<Uint8Array>();
    const writer = writable.getWriter();
    const line = new TextEncoder().encode(`${JSON.stringify({ title: 'one' })}\n`.repeat(2_000));
    const importing = tenant.post(`${NOTES}/import`, readable, { 'content-type': 'application/x-ndjson' });
    await writer.write(line);
    while ((await recordsIn(tenant)) === 0);
    await setQuotas(tenant, { records: 2_100 });
    await writer.write(line);
    await writer.close();
    expectRefused(await importing, 403, { quota: 'records', limit: 2_100 });
    expect(await recordsIn(tenant)).toBe(2_100);
  });

  test('records of rules count, and a rule beyond the quota fails', async () => {
    const tenant = await limited({ records: 3 });
    await createEntity(tenant, 'copies', fields('title text'));
    const action = { type: 'create_record', entity: 'copies', values: { title: '{{title}}' } };
    await tenant.post('/api/rules', { name: 'copy', entity: 'notes', trigger: 'after_create', action });
    const stream = keep(await connectEvents(service.url, tenant.slug, tenant.key, '?events=rule.executed,rule.failed'));
    for (let i = 0; i < 2; i++) {
      expect((await tenant.post(NOTES, { title: `${i}` })).status).toBe(201);
      while ((await runRulesOnce(service.app, SIGNAL)) > 0);
    }
    expect([(await stream.next()).event, (await stream.next()).event]).toEqual(['rule.executed', 'rule.failed']);
    expect((await tenant.get('/api/entities/copies/records')).body.data.total).toBe(1);
  });

  test('below the use, deletions and changes work and creations do not; null lifts it', async () => {
    const tenant = await limited({});
    const ids = (await bulk(tenant, 6)).body.data.results.map(({ id }: Json) => id);
    await setQuotas(tenant, { records: 3 });
    expectRefused(await tenant.post(NOTES, { title: 'one' }), 403, { quota: 'records', limit: 3, used: 6 });
    expect((await tenant.patch(`${NOTES}/${ids[0]}`, { title: 'changed' })).status).toBe(200);
    const operations = [
      { op: 'delete', id: ids[0] },
      { op: 'delete', id: ids[1] },
      { op: 'create', data: { title: 'new' } },
    ];
    expect((await tenant.post(`${NOTES}/bulk`, { operations })).status).toBe(200);
    expect((await tenant.delete(`${NOTES}/${ids[2]}`)).status).toBe(200);
    await setQuotas(tenant, { records: null });
    expect((await tenant.post(NOTES, { title: 'one' })).status).toBe(201);
  });
});

describe('storageBytes', () => {
  test('creations and changes that grow are refused beyond it; changes that do not grow and deletions work', async () => {
    const tenant = await limited({ storageBytes: 10_000 });
    const { id } = (await tenant.post(NOTES, { title: 't', body: 'x'.repeat(9_000) })).body.data;
    expectRefused(await tenant.post(NOTES, { title: 'y'.repeat(1_000) }), 403, {
      quota: 'storageBytes',
      limit: 10_000,
    });
    expectRefused(await tenant.patch(`${NOTES}/${id}`, { title: 'z'.repeat(2_000) }), 403, { quota: 'storageBytes' });
    await setQuotas(tenant, { storageBytes: 100 });
    expect((await tenant.patch(`${NOTES}/${id}`, { title: 'u' })).status).toBe(200);
    expect((await tenant.patch(`${NOTES}/${id}`, { body: 'short' })).status).toBe(200);
    expect((await tenant.delete(`${NOTES}/${id}`)).status).toBe(200);
  });

  test('of fifty at once, those that fit within 1 % are created', async () => {
    const tenant = await limited({ storageBytes: 100_000 });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => tenant.post(NOTES, { title: 'x'.repeat(5_000) })),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(19);
    expect((await bulk(tenant, 1_000)).status).toBe(403);
    const { body } = await bulk(tenant, 1_000, false);
    const { storageBytes } = (await tenant.get('/api/tenant/usage')).body.data.now;
    expect(storageBytes).toBeLessThanOrEqual(100_000);
    expect(storageBytes).toBeGreaterThan(99_000);
    expect(body.data.failed).toBeGreaterThan(0);
  });
});

describe('rates', () => {
  test('requestsPerMin counts the requests of all credentials of the tenant; operators are not counted', async () => {
    const tenant = await limited({ requestsPerMin: 10 });
    const session = (await service.admin.post('/api/admin/sessions', { tenantSlug: tenant.slug })).body.data.token;
    const other = service.anonymous.with({ authorization: `Bearer ${session}` });
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => (i % 2 === 0 ? tenant : other).get(NOTES)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    const refused = answers.find(({ status }) => status !== 200) as Answer;
    expectRefused(refused, 429, { quota: 'requestsPerMin', limit: 10, used: 10 });
    const operator = service.admin.with({ 'x-tenant-id': tenant.slug });
    expect((await operator.get(NOTES)).status).toBe(200);
    await setQuotas(tenant, { requestsPerMin: null });
    expect((await tenant.get(NOTES)).status).toBe(200);
  });

  test('writesPerMin counts each record; a write that does not fit is not half done', async () => {
    const tenant = await limited({ writesPerMin: 20 });
    expect((await bulk(tenant, 12)).status).toBe(200);
    expectRefused(await bulk(tenant, 9), 429, { quota: 'writesPerMin', limit: 20, used: 12 });
    expect(await recordsIn(tenant)).toBe(12);
    const answers = await Promise.all(Array.from({ length: 12 }, () => tenant.post(NOTES, { title: 'one' })));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(8);
    expectRefused(await tenant.post(NOTES, { title: 'one' }), 429, { quota: 'writesPerMin', limit: 20, used: 20 });
    expect((await tenant.get(NOTES)).status).toBe(200);
    await setQuotas(tenant, { writesPerMin: null });
    expect((await tenant.post(NOTES, { title: 'one' })).status).toBe(201);
  });

  test('writes whose commit fails are given back', async () => {
    const tenant = await limited({ writesPerMin: 3 });
    await runInSchema(
      service,
      tenant,
      `create function refuse() returns trigger language plpgsql as $$ begin raise 'refused at commit'; end $$;
       create constraint trigger refused after insert on entity_records deferrable initially deferred
         for each row execute function refuse()`,
    );
    for (let i = 0; i < 4; i++) expect((await bulk(tenant, 3)).status).toBe(500);
    await runInSchema(service, tenant, 'drop function refuse cascade');
    expect((await bulk(tenant, 3)).status).toBe(200);
    expectRefused(await bulk(tenant, 1), 429, { quota: 'writesPerMin', limit: 3, used: 3 });
  });

  test('while the minute is known to be exhausted, a refused request does no work', async () => {
    const tenant = await limited({ writesPerMin: 3 });
    expect((await bulk(tenant, 3)).status).toBe(200);
    expectRefused(await bulk(tenant, 1), 429, { quota: 'writesPerMin', limit: 3, used: 3 });
    const { begin } = service.app.db;
    let transactions = 0;
    service.app.db.begin = (work) => {
      transactions += 1;
      return begin(work);
    };
    try {
      expectRefused(await bulk(tenant, 500), 429, { quota: 'writesPerMin', limit: 3, used: 3 });
      expectRefused(await tenant.post(NOTES, { title: 'one' }), 429, { quota: 'writesPerMin', limit: 3, used: 3 });
    } finally {
      service.app.db.begin = begin;
    }
    expect(transactions).toBe(0);
    await setQuotas(tenant, { writesPerMin: 5 });
    expect((await bulk(tenant, 2)).status).toBe(200);
  });

  test('the records that a cascade deletes count as writes; an invalid write does not count', async () => {
    const tenant = await limited({});
    await createEntity(tenant, 'parts', [{ key: 'note', type: 'relation', entity: 'notes', onDelete: 'cascade' }]);
    const { id } = (await tenant.post(NOTES, { title: 'one' })).body.data;
    for (let i = 0; i < 3; i++) await tenant.post('/api/entities/parts/records', { note: id });
    await setQuotas(tenant, { writesPerMin: 4 });
    expect((await tenant.post(NOTES, { title: 5 })).status).toBe(400);
    await setQuotas(tenant, { writesPerMin: 3 });
    expectRefused(await tenant.delete(`${NOTES}/${id}`), 429, { quota: 'writesPerMin', limit: 3, used: 0 });
    expect((await tenant.get('/api/entities/parts/records')).body.data.total).toBe(3);
    await setQuotas(tenant, { writesPerMin: 4 });
    expect((await tenant.delete(`${NOTES}/${id}`)).status).toBe(200);
  });
});

describe('users', () => {
  test('of ten at once, exactly those that fit are added; removing one makes room', async () => {
    const tenant = await limited({ users: 3 });
    const one = (): Promise<Answer> =>
      tenant.post('/api/users', { email: newEmail(), name: 'Ada', role: 'member', password: PASSWORD });
    const answers = await Promise.all(Array.from({ length: 10 }, one));
    const added = answers.filter(({ status }) => status === 201);
    expect(added).toHaveLength(3);
    expectRefused(await one(), 403, { quota: 'users', limit: 3, used: 3 });
    await tenant.delete(`/api/users/${added[0]?.body.data.id}`);
    expect((await one()).status).toBe(201);
  });

  test('an accepted invitation is a user, and can be accepted once there is room', async () => {
    const tenant = await limited({ users: 1 });
    const email = newEmail();
    const token = await invite(tenant, { email });
    const user = await addUser(tenant);
    const accept = (): Promise<Answer> =>
      service.anonymous.post('/auth/invite/accept', { token, email, name: 'Bo', password: PASSWORD });
    expectRefused(await accept(), 403, { quota: 'users', limit: 1, used: 1 });
    await tenant.delete(`/api/users/${user.id}`);
    expect((await accept()).status).toBeLessThan(300);
  });
});

describe('connections and warnings', () => {
  test('streams beyond the quota are refused like those beyond the limit of the service', async () => {
    const tenant = await limited({ streams: 2 });
    for (let i = 0; i < 2; i++) keep(await connectEvents(service.url, tenant.slug, tenant.key));
    const refused = await openEvents(service.url, tenant.slug, tenant.key);
    expect(refused.status).toBe(429);
    const { error } = JSON.parse(refused.text);
    expect(error).toMatchObject({ code: 'RATE_LIMITED', details: [{ quota: 'streams', limit: 2, used: 2 }] });
  });

  test('WebSockets beyond the quota are closed like those beyond the limit of the service', async () => {
    const tenant = await limited({ sockets: 2 });
    const token = await adminSession(service, tenant);
    const ask = async (): Promise<Json> => {
      const socket = keep(await openSocket(service.url));
      return { socket, reply: await socket.ask({ type: 'auth', token }) };
    };
    const [first] = [await ask(), await ask()];
    const { socket, reply } = await ask();
    expect(reply.code).toBe('limit_exceeded');
    expect(await socket.ended()).toBe(1013);
    first.socket.close();
    while ((await ask()).reply.type !== 'auth_ok');
  });

  test('at 80 % of a quota, one warning a day is sent on the stream to admins', async () => {
    const tenant = await limited({ records: 10 });
    const stream = keep(await connectEvents(service.url, tenant.slug, tenant.key, '?events=quota.warning'));
    await bulk(tenant, 7);
    await tenant.post(NOTES, { title: 'the eighth' });
    const { event, data } = await stream.next();
    expect([event, data]).toMatchObject(['quota.warning', { quota: 'records', limit: 10, used: 8 }]);
    await tenant.post(NOTES, { title: 'the ninth' });
    await setQuotas(tenant, { users: 1 });
    await addUser(tenant);
    expect((await stream.next()).data).toMatchObject({ quota: 'users', limit: 1, used: 1 });
    const sent = await service.app.db.rows(sql`
      select from platform.events where tenant_id = ${tenant.id}::uuid and type = 'quota.warning'`);
    expect(sent).toHaveLength(2);
  });
});

test('a quota of deliveries that is raised by a little releases about as many, and one that leaves no room releases none', async () => {
  const receiver = await startReceiver();
  const tenant = await limited({ deliveriesPerDay: 1 });
  const { id } = await subscribe(tenant, receiver.url, { entity_name: 'notes', event_types: ['record.created'] });
  await bulk(tenant, 1);
  await receiver.waitFor(1);
  for (let i = 0; i < 6; i++) await bulk(tenant, 1_000);
  const { db } = service.app;
  const made = sql`
    select from platform.webhook_deliveries where subscription_id = ${id}::uuid and status = 'pending' offset 5999`;
  while ((await db.first(made)) === undefined) await Bun.sleep(50);
  // As claims leave a backlog: only a few deliveries are due at the same time.
  await db.slow.begin(async (tx) => {
    // Postgres expects only one delivery of a new subscription, and would compare each with each.
    await tx.exec('set local enable_nestloop to off');
    await tx.rows(sql`
      update platform.webhook_deliveries as d
      set next_at = now() + interval '1 h' + n.number / 10 * interval '1 ms', error = 'quota_exceeded', claim_id = null
      from (
        select id, row_number() over (order by id)::int as number from platform.webhook_deliveries
        where subscription_id = ${id}::uuid and status = 'pending'
      ) as n
      where d.subscription_id = ${id}::uuid and d.id = n.id`);
  });
  const waiting = async (): Promise<number> => {
    const row = await db.first<{ n: number }>(sql`
      select count(*)::int as n from platform.webhook_deliveries
      where subscription_id = ${id}::uuid and status = 'pending' and next_at > now() and error = 'quota_exceeded'`);
    return row?.n ?? 0;
  };
  expect(await waiting()).toBe(6_000);
  await setQuotas(tenant, { deliveriesPerDay: 1 });
  expect(await waiting()).toBe(6_000);
  await setQuotas(tenant, { deliveriesPerDay: 11 });
  await receiver.waitFor(11);
  expect(await waiting()).toBeGreaterThan(2_000);
  expect(receiver.received).toHaveLength(11);
  await receiver.stop();
});

test('deliveries beyond the daily quota wait, in order, until the next day or a higher quota', async () => {
  const receiver = await startReceiver();
  const tenant = await limited({ deliveriesPerDay: 5 });
  await subscribe(tenant, receiver.url, { entity_name: 'notes', event_types: ['record.created', 'record.updated'] });
  const { id } = (await tenant.post(NOTES, { title: '0' })).body.data;
  for (let i = 1; i < 12; i++) await tenant.patch(`${NOTES}/${id}`, { title: `${i}` });
  await receiver.waitFor(5);
  const list = async (): Promise<Json[]> => (await tenant.get('/api/webhooks/subscriptions')).body.data;
  expect((await list())[0].health).toEqual({ state: 'quota_exceeded' });
  await setQuotas(tenant, { deliveriesPerDay: 6 });
  await receiver.waitFor(6);
  expect((await list())[0].health).toEqual({ state: 'quota_exceeded' });
  expect(receiver.received).toHaveLength(6);
  await setQuotas(tenant, { deliveriesPerDay: null });
  await receiver.waitFor(12);
  expect((await list())[0].health).toEqual({ state: 'ok' });
  expect(receiver.received.map(({ body }) => body.data.title)).toEqual(Array.from({ length: 12 }, (_, i) => `${i}`));
  await receiver.stop();
});

test('a delivery counts once, although the process that sent it first has died', async () => {
  const receiver = await startReceiver();
  const tenant = await limited({ deliveriesPerDay: 3 });
  const { id } = await subscribe(tenant, receiver.url, { entity_name: 'notes', event_types: ['record.created'] });
  const isHanging = Promise.withResolvers<void>();
  let requests = 0;
  receiver.answer = async (_, response) => {
    // The requests of the process that dies are never answered.
    if (++requests <= 3) await isHanging.promise;
    response.writeHead(200).end();
  };
  await bulk(tenant, 3);
  while (requests < 3) await Bun.sleep(10);
  // As another process does when it finds that the first one has died.
  await service.app.db.rows(sql`
    update platform.webhook_deliveries set claim_id = null, next_at = now() where subscription_id = ${id}::uuid`);
  await service.app.invalidations.publish('webhook', tenant.id);
  await receiver.waitFor(3);
  await bulk(tenant, 1);
  const list = async (): Promise<Json[]> => (await tenant.get('/api/webhooks/subscriptions')).body.data;
  while ((await list())[0].health.state !== 'quota_exceeded') await Bun.sleep(20);
  expect(requests).toBe(6);
  isHanging.resolve();
  await receiver.stop();
});

test('a higher quota releases waiting deliveries even if the process dies between the change and the release', async () => {
  const receiver = await startReceiver();
  const tenant = await limited({ deliveriesPerDay: 1 });
  await subscribe(tenant, receiver.url, { entity_name: 'notes', event_types: ['record.created'] });
  await bulk(tenant, 4);
  await receiver.waitFor(1);
  const { app } = service;
  const isOwn = sql`tenant_id = ${tenant.id}::uuid`;
  const underway = (): Promise<Json[]> => app.db.rows(sql`select from platform.delivery_releases where ${isOwn}`);
  // The process dies when it is about to publish the change.
  const dead = { ...app, invalidations: { ...app.invalidations, publish: () => Promise.reject(new Error('dead')) } };
  await expect(
    updateTenant(dead as unknown as App, tenant.slug, { quotas: { deliveriesPerDay: 10 } }),
  ).rejects.toThrow();
  // It may still be running.
  await releaseOnce(app);
  expect(await underway()).toHaveLength(1);
  expect(receiver.received).toHaveLength(1);
  await app.db.rows(sql`update platform.delivery_releases set due_at = now() where ${isOwn}`);
  while ((await underway()).length > 0) await releaseOnce(app);
  await receiver.waitFor(4);
  await receiver.stop();
});
