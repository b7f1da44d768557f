// Erasing a record: its values are removed everywhere for good, and only the time and the author of the erasure remain.
// Contract: history#erase.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import process from 'node:process';
import type { Operation } from '../src/access/rights.ts';
import { compile, type Sql, sql, type Tx } from '../src/runtime/sql.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, bearer, everyKind, userToken, withRole } from './support/credentials.ts';
import { deliveriesOf, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import {
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { placesOf } from './support/stored-text.ts';
import { connectEvents, subscribeSocket } from './support/streams.ts';

const RECORDS = '/api/entities/task/records';
const IDEMPOTENT = { 'idempotency-key': 'once' };

let service: TestService;
let tenant: TestTenant;
let receiver: Receiver;
let canary: string;
let canaries = 0;

beforeAll(async () => {
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_RETRY_BASE_MS: '100',
    WEBHOOK_RETRY_FACTOR: '1',
  });
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  receiver = await startReceiver();
  canary = `canary${++canaries}x${Date.now().toString(36)}`;
  await createEntity(tenant, 'task', fields('title text', 'stage text', 'notes json', 'body text'));
});
afterEach(() => receiver.stop());
const keep = closeAfterEach();

const places = (): Promise<string[]> => placesOf(service, tenant, canary);

async function changes(client: Client, query: Record<string, string>): Promise<Json[]> {
  const answer = await client.get(`/api/changes?${new URLSearchParams(query)}`);
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body.data.items;
}

const now = async (client: Client): Promise<string> => (await client.get('/api/changes')).body.data.nextCursor;

async function erase(id: string, client: Client = tenant): Promise<void> {
  const { status, body, text } = await client.delete(`${RECORDS}/${id}?erase=true`);
  expect([status, text]).toEqual([200, text]);
  expect(body.data).toEqual({ id, deleted: true, erased: true });
}

describe('erasing', () => {
  test('leaves the values in no table, in no key of the broker and in no answer, whatever had copied them', async () => {
    const rule = { type: 'send_message', to_agent: 'nobody', subject: 'x', body: 'y' };
    for (const trigger of ['after_create', 'after_update', 'after_delete']) {
      const made = await tenant.post('/api/rules', { name: trigger, entity: 'task', trigger, action: rule });
      expect(made.status).toBe(201);
    }
    receiver.answer = (request, response) => void response.writeHead(503).end(request.text.slice(0, 900));
    const all = await subscribe(tenant, receiver.url);
    const since = await now(tenant);
    const stream = keep(await connectEvents(service.url, tenant.slug, tenant.key));
    const first = await tenant.post(RECORDS, { title: canary, notes: { about: canary } }, IDEMPOTENT);
    const { id } = first.body.data;
    const other = await createRecord(tenant, RECORDS, { title: 'other' });
    const operations = [
      { op: 'update', id, data: { body: `${canary} again` } },
      { op: 'update', id: other.id, data: { body: 'kept' } },
    ];
    const bulk = await tenant.post(`${RECORDS}/bulk`, { operations }, IDEMPOTENT);
    expect(bulk.status).toBe(200);
    await receiver.waitFor(2);
    expect((await stream.next()).data.data.fields.title).toBe(canary);
    const before = await places();
    expect(before).toContain('platform.events');
    expect(before).toContain('platform.idempotency_keys');
    expect(before).toContain('platform.webhook_deliveries');
    // Under Deno the rules have run already.
    if (process.env.SERVICE_RUNTIME !== 'deno') expect(before).toContain('platform.rule_images');
    expect(before).toContain('tenant.entity_records');
    expect(before).toContain('the live stream');

    await erase(id);
    expect(await places()).toEqual([]);

    const items = await changes(tenant, { since, entities: 'task' });
    const erased = { at: expect.any(String), by: expect.any(String) };
    expect(
      items.filter(({ record_id }) => record_id === id).map(({ event, data, erased: e }) => ({ event, data, e })),
    ).toEqual([
      { event: 'record.created', data: { id }, e: erased },
      { event: 'record.updated', data: { id }, e: erased },
      { event: 'record.deleted', data: { id }, e: erased },
    ]);
    const history = await tenant.get(`${RECORDS}/${id}/history`);
    expect(history.body.data.items).toMatchObject([
      { event: 'record.deleted', changes: {}, erased },
      { event: 'record.updated', changes: {}, erased },
      { event: 'record.created', changes: {}, erased },
    ]);
    expect((await tenant.post(`${RECORDS}/${id}/restore`, { version: 2 })).status).toBe(409);
    expect((await tenant.get(`${RECORDS}/${id}?asOf=${first.body.data.createdAt}`)).status).toBe(410);
    const again = await tenant.post(RECORDS, { title: canary, notes: { about: canary } }, IDEMPOTENT);
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 'true']);
    const { entityId, createdAt, updatedAt, createdBy, updatedBy } = first.body.data;
    expect(again.body.data).toEqual({ id, entityId, createdAt, updatedAt, createdBy, updatedBy });
    const bulkAgain = await tenant.post(`${RECORDS}/bulk`, { operations }, IDEMPOTENT);
    expect(bulkAgain.text).not.toContain(canary);
    expect(bulkAgain.body.data.results[1]).toEqual(bulk.body.data.results[1]);
    const answers = [
      history,
      await tenant.get(RECORDS),
      await tenant.get(`${RECORDS}?search=${canary}`),
      await tenant.get('/api/changes?since=earliest'),
      ...(await Promise.all(
        (await deliveriesOf(tenant, all.id)).map((d) => tenant.get(`/api/webhooks/deliveries/${d.id}`)),
      )),
    ];
    for (const answer of answers) expect(answer.text).not.toContain(canary);
    const [deletion] = stream.events.filter(({ event }) => event === 'record.deleted');
    expect(JSON.stringify(deletion)).not.toContain(canary);
    expect((await tenant.get(`${RECORDS}/${other.id}`)).body.data.body).toBe('kept');
    expect(await placesOf(service, tenant, 'kept')).toContain('platform.events');
  });

  test('a delivery in flight stores none of the values afterwards, and receivers get the deletion without them', async () => {
    const reached = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    receiver.answer = async (request, response) => {
      if (request.body.event === 'record.created') {
        reached.resolve();
        await released.promise;
      }
      response.writeHead(200).end(request.text);
    };
    const { id: subscriptionId } = await subscribe(tenant, receiver.url, {
      event_types: ['record.created', 'record.updated'],
    });
    const deletions = await subscribe(tenant, `${receiver.url}/deleted`, { event_types: ['record.deleted'] });
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    await reached.promise;
    await tenant.patch(`${RECORDS}/${id}`, { body: canary });
    await erase(id);
    released.resolve();
    await settledDeliveries(tenant, deletions.id);
    const [deleted] = receiver.received.filter(({ path }) => path === '/deleted');
    expect(deleted?.body).toMatchObject({ event: 'record.deleted', data: { id }, erased: { at: expect.any(String) } });
    expect(deleted?.text).not.toContain(canary);
    await service.app.db.rows(sql`
      update platform.webhook_deliveries set next_at = now() where subscription_id = ${subscriptionId}::uuid`);
    const all = await settledDeliveries(tenant, subscriptionId, 2);
    expect(all.map(({ event, status, error }) => [event, status, error])).toEqual([
      ['record.updated', 'failed', 'event no longer kept'],
      ['record.created', 'failed', 'event no longer kept'],
    ]);
    expect(receiver.received.map(({ body }) => body.event).toSorted()).toEqual(['record.created', 'record.deleted']);
    expect(await places()).toEqual([]);
    const redelivered = await tenant.post(`/api/webhooks/deliveries/${all[1].id}/redeliver`);
    expect(redelivered.status).toBe(200);
    await settledDeliveries(tenant, subscriptionId, 2);
    expect(await places()).toEqual([]);
  }, 60_000);

  // Statements of one session, as on the embedded database, do not come between those of a transaction.
  if (process.env.DATABASE_URL !== undefined && process.env.SERVICE_RUNTIME !== 'deno') {
    test('nothing is sent, and no response kept, of a delivery that was being claimed', async () => {
      receiver.answer = (request, response) => void response.writeHead(503).end(request.text.slice(0, 900));
      const { id: subscriptionId } = await subscribe(tenant, receiver.url, { event_types: ['record.updated'] });
      const { id } = await createRecord(tenant, RECORDS, { title: canary });
      const { db } = service.app;
      const { begin } = db;
      let hasErased = false;
      const hooked = (tx: Tx): Tx => {
        const rows = async <T>(query: Sql): Promise<T[]> => {
          if (!hasErased && compile(query).text.includes('set claim_id = ')) {
            hasErased = true;
            await erase(id);
          }
          return tx.rows<T>(query);
        };
        return Object.assign(Object.create(tx), { rows }) as Tx;
      };
      db.begin = ((work: (tx: Tx) => Promise<unknown>) =>
        begin.call(db, (tx) => work(hooked(tx)))) as unknown as typeof begin;
      await tenant.patch(`${RECORDS}/${id}`, { body: canary });
      // The first attempt needs no claim, its retry does.
      while (!hasErased) await Bun.sleep(20);
      const [delivery] = await settledDeliveries(tenant, subscriptionId);
      db.begin = begin;
      expect(delivery).toMatchObject({ status: 'failed', error: 'event no longer kept' });
      expect(await places()).toEqual([]);
    });
  }

  test('of a record deleted before, for as long as events of it are kept', async () => {
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    await tenant.patch(`${RECORDS}/${id}`, { title: `${canary} 2` });
    const since = await now(tenant);
    await tenant.delete(`${RECORDS}/${id}`);
    expect(await places()).toContain('platform.events');
    const ada = bearer(service, await userToken(service, tenant, 'admin'));
    await erase(id, ada);
    expect(await places()).toEqual([]);
    const whoami = (await ada.get('/api/auth/whoami')).body.data;
    // The deletion has already been shown, and is not shown again.
    expect(await changes(tenant, { since })).toMatchObject([
      { event: 'record.deleted', data: { id }, erased: { by: whoami.id } },
    ]);
    await erase(id);
    expect(await changes(tenant, { since })).toMatchObject([{ erased: { by: whoami.id } }]);
    await service.app.db.rows(sql`delete from platform.events where tenant_id = ${tenant.id}::uuid`);
    expect((await tenant.delete(`${RECORDS}/${id}?erase=true`)).status).toBe(404);
  });

  test('of a record whose id a file brought, which may be of the future, leaves nothing in its deliveries', async () => {
    const { id: subscriptionId } = await subscribe(tenant, receiver.url, {
      event_types: ['record.created', 'record.updated'],
    });
    const id = 'fffffffe-0000-7000-8000-000000000001';
    const file = JSON.stringify({ id, title: canary });
    const imported = await tenant.post(`${RECORDS}/import?ids=keep`, file, { 'content-type': 'application/x-ndjson' });
    expect(imported.body.data.created, imported.text).toBe(1);
    await tenant.patch(`${RECORDS}/${id}`, { body: canary });
    await settledDeliveries(tenant, subscriptionId, 2);
    expect(await places()).toContain('platform.webhook_deliveries');
    await erase(id);
    expect(await places()).toEqual([]);
  });

  test('needs a tenant admin, before it is known whether there is such a record', async () => {
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    const outcomes: Record<string, number[]> = {};
    for (const [kind, headers] of Object.entries(await everyKind(service, tenant))) {
      if (['owner_key', 'admin_user', 'admin_session', 'super_admin'].includes(kind)) continue;
      const client = clientOf(service.url, headers);
      const never = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';
      const answers = [id, never].map((record) => client.delete(`${RECORDS}/${record}?erase=true`));
      outcomes[kind] = (await Promise.all(answers)).map(({ status }) => status);
    }
    expect(outcomes).toEqual({
      platform_key: [403, 403],
      public_key: [401, 401],
      legacy_public_key: [401, 401],
      user: [403, 403],
      developer: [403, 403],
      bot: [403, 403],
      admin_key: [403, 403],
    });
    expect(await places()).toContain('tenant.entity_records');
    const admins = await everyKind(service, tenant);
    for (const kind of ['owner_key', 'admin_user', 'admin_session']) {
      const record = await createRecord(tenant, RECORDS, { title: canary });
      await erase(record.id, clientOf(service.url, admins[kind] as Record<string, string>));
    }
    await erase(id, service.admin.with({ 'x-tenant-id': tenant.slug }));
    expect(await places()).toEqual([]);
  });

  test('404 for a record that never existed, or of another entity or tenant; 400 for an invalid flag', async () => {
    await createEntity(tenant, 'note', fields('title text'));
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    const other = await service.tenant();
    await createEntity(other, 'task', fields('title text'));
    for (const [client, path] of [
      [tenant, `${RECORDS}/01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f`],
      [tenant, `${RECORDS}/nonsense`],
      [tenant, `/api/entities/note/records/${id}`],
      [tenant, `/api/entities/none/records/${id}`],
      [other, `${RECORDS}/${id}`],
    ] as const) {
      expect([path, (await client.delete(`${path}?erase=true`)).status]).toEqual([path, 404]);
    }
    expect((await tenant.delete(`${RECORDS}/${id}?erase=1x`)).status).toBe(400);
    expect((await tenant.get(`${RECORDS}/${id}`)).status).toBe(200);
    const plain = await tenant.delete(`${RECORDS}/${id}?erase=false`);
    expect(plain.body.data).toEqual({ id, deleted: true });
    expect(await places()).toContain('platform.events');
  });

  test('references to the record, rules and If-Match are treated as by a plain deletion', async () => {
    const relation = (onDelete: string) => ({ key: 'of', type: 'relation', entity: 'task', onDelete });
    const kept = await createEntity(tenant, 'kept', [relation('set_null')]);
    const gone = await createEntity(tenant, 'gone', [relation('cascade')]);
    const barrier = await createEntity(tenant, 'barrier', [relation('restrict')]);
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    const [a, b, c] = [
      await createRecord(tenant, kept, { of: id }),
      await createRecord(tenant, gone, { of: id }),
      await createRecord(tenant, barrier, { of: id }),
    ];
    expect((await tenant.delete(`${RECORDS}/${id}?erase=true`)).status).toBe(409);
    expect((await tenant.get(`${RECORDS}/${id}`)).body.data.title).toBe(canary);
    await tenant.delete(`${barrier}/${c.id}`);
    expect((await tenant.delete(`${RECORDS}/${id}?erase=true`, { 'if-match': '"7"' })).status).toBe(412);
    const action = { type: 'reject', message: 'not this one' };
    const rule = await tenant.post('/api/rules', { name: 'no', entity: 'task', trigger: 'before_delete', action });
    expect((await tenant.delete(`${RECORDS}/${id}?erase=true`)).status).toBe(400);
    await tenant.delete(`/api/rules/${rule.body.data.id}`);
    await erase(id);
    expect((await tenant.get(`${kept}/${a.id}`)).body.data.of).toBeNull();
    expect((await tenant.get(`${gone}/${b.id}`)).status).toBe(404);
    expect(await places()).toEqual([]);
  });

  test('two at once erase the record once, and a change at the same time leaves nothing behind', async () => {
    const since = await now(tenant);
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    const path = `${RECORDS}/${id}`;
    const answers = await Promise.all([
      ...[1, 2, 3].map(() => tenant.delete(`${path}?erase=true`)),
      ...[1, 2, 3, 4, 5].map((i) => tenant.patch(path, { body: `${canary} ${i}` })),
    ]);
    expect(answers.slice(0, 3).map(({ status }) => status)).toEqual([200, 200, 200]);
    for (const { status } of answers.slice(3)) expect([200, 404]).toContain(status);
    const events = (await changes(tenant, { since })).map(({ event }) => event);
    expect(events.filter((event) => event === 'record.deleted')).toEqual(['record.deleted']);
    expect(await places()).toEqual([]);
  });

  test('a record that is brought back at the same time is erased, or does not come back', async () => {
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    const key = { 'idempotency-key': 'back' };
    for (let i = 0; i < 5; i++) {
      await tenant.delete(`${RECORDS}/${id}`);
      const back = await tenant.post(`${RECORDS}/${id}/restore`, { version: 1 }, i === 0 ? key : {});
      expect([back.status, back.text]).toEqual([200, back.text]);
    }
    await tenant.delete(`${RECORDS}/${id}`);
    const [erased, back] = await Promise.all([
      tenant.delete(`${RECORDS}/${id}?erase=true`),
      tenant.post(`${RECORDS}/${id}/restore`, { version: 1 }),
    ]);
    expect(erased.status).toBe(200);
    expect([200, 409]).toContain(back.status);
    expect((await tenant.get(`${RECORDS}/${id}`)).status).toBe(404);
    expect(await places()).toEqual([]);
    expect((await tenant.post(`${RECORDS}/${id}/restore`, { version: 1 })).status).toBe(409);
  });

  test('a caller with a row filter is not told that a record was erased, whatever its filter says about records without values', async () => {
    const { id } = await createRecord(tenant, RECORDS, { title: canary, stage: 'secret' });
    await erase(id);
    const attempts = async (client: Client, of: string): Promise<unknown[]> => {
      const restored = await client.post(`${RECORDS}/${of}/restore`, { version: 1 });
      const file = JSON.stringify({ id: of, title: 'x', stage: 'open' });
      const type = { 'content-type': 'application/x-ndjson' };
      const imported = await client.post(`${RECORDS}/import?ids=keep`, file, type);
      return [restored.status, restored.body.error.message, imported.body.data.errors[0].message];
    };
    const permissions = { task: ['read', 'create', 'update'] as Operation[] };
    const all = await withRole(service, tenant, { permissions });
    const told = 'the values of this record have been erased';
    expect(await attempts(all, id)).toEqual([409, told, told]);
    const { id: hidden } = await createRecord(tenant, RECORDS, { title: canary, stage: 'secret' });
    for (const rowFilter of ['stage != "secret"', 'NOT (stage = "secret")', 'stage = "open"']) {
      const some = await withRole(service, tenant, { permissions, entities: { task: { rowFilter } } });
      const refused = await attempts(some, id);
      expect(refused).toEqual([404, 'record not found', 'id: already exists']);
      expect(refused).toEqual(await attempts(some, hidden));
    }
  });

  test('many versions of a record of the largest size go in parts', async () => {
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    for (let i = 0; i < 12; i++) {
      const body = `${canary} ${i} `.repeat(40_000).slice(0, 1_000_000);
      expect((await tenant.patch(`${RECORDS}/${id}`, { body })).status).toBe(200);
    }
    await erase(id);
    expect(await places()).toEqual([]);
  }, 60_000);
});

describe('followers', () => {
  test('are shown the deletion, with conditions or without; a follower with a row filter reads again', async () => {
    const rowFilter = 'stage = "open"';
    const permissions = { task: ['read' as const] };
    const some = await withRole(service, tenant, { permissions, entities: { task: { rowFilter } } });
    const member = await withRole(service, tenant, { permissions });
    const since = Object.fromEntries(
      await Promise.all(
        Object.entries({ some, member, tenant }).map(async ([name, client]) => [name, await now(client)]),
      ),
    );
    const { id } = await createRecord(tenant, RECORDS, { title: canary, stage: 'closed' });
    await erase(id);
    const seen = async (client: Client, from: string, query = {}): Promise<Json[]> =>
      (await changes(client, { since: from, ...query })).map(({ event, record_id, data }) => [event, record_id, data]);
    expect(await seen(member, since.member)).toEqual([
      ['record.created', id, { id }],
      ['record.deleted', id, { id }],
    ]);
    const filtered = { entities: 'task', filters: 'title = "x"', transitions: 'true' };
    expect(await seen(tenant, since.tenant, filtered)).toEqual([['record.deleted', id, { id }]]);
    expect((await some.get(`${RECORDS}/${id}/history`)).status).toBe(404);
    expect((await member.get(`${RECORDS}/${id}/history`)).text).not.toContain(canary);
    for (const query of [{}, { transitions: 'true' }]) {
      expect(await seen(some, since.some, query)).toEqual([['rights.changed', null, {}]]);
    }
  });

  test('open streams, WebSockets and replays show the deletion without values', async () => {
    const since = await now(tenant);
    const { id } = await createRecord(tenant, RECORDS, { title: canary });
    const live = keep(await connectEvents(service.url, tenant.slug, tenant.key));
    const socket = keep(
      await subscribeSocket(service.url, (await everyKind(service, tenant)).bot?.authorization?.slice(7) ?? '', 'task'),
    );
    await erase(id);
    const deletion = await live.next();
    expect([deletion.event, deletion.data.record_id]).toEqual(['record.deleted', id]);
    expect(await socket.next()).toEqual({ type: 'record.deleted', entity: 'task', data: { id } });
    const replay = keep(await connectEvents(service.url, tenant.slug, tenant.key, `?since=${since}`));
    const shown = [await replay.next(), await replay.next()];
    expect(shown.map(({ event, data }) => [event, data.record_id, data.data])).toEqual([
      ['record.created', id, { fields: {}, triggered_by: 'api' }],
      ['record.deleted', id, { fields: {}, triggered_by: 'api' }],
    ]);
    expect(live.text + replay.text + JSON.stringify(socket.messages)).not.toContain(canary);
  });

  test('a subscription with a condition gets the deletion, one whose role sees some rows only does not', async () => {
    const role = await addRole(service, tenant, {
      permissions: { task: ['read'] },
      entities: { task: { rowFilter: 'stage = "open"' } },
    });
    const filtered = await subscribe(tenant, `${receiver.url}/filtered`, { filters: 'title = "x"' });
    await subscribe(tenant, `${receiver.url}/role`, { role: role.name });
    const { id } = await createRecord(tenant, RECORDS, { title: canary, stage: 'draft' });
    await erase(id);
    await settledDeliveries(tenant, filtered.id);
    await createRecord(tenant, RECORDS, { title: 'x', stage: 'open' });
    const sent = await receiver.waitFor(3);
    expect(sent.map(({ path, body }) => [path, body.event, body.data.title ?? body.data.id]).toSorted()).toEqual([
      ['/filtered', 'record.created', 'x'],
      ['/filtered', 'record.deleted', id],
      ['/role', 'record.created', 'x'],
    ]);
  });
});
