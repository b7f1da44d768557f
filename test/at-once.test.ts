// Concurrent calls: some share a statement, and each has the response that it would have alone.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { catalogOf } from '../src/entities/catalog.ts';
import type { Entity } from '../src/entities/field.ts';
import { readShared } from '../src/records/read/shared-read.ts';
import { SharedStatements } from '../src/runtime/shared-statements.ts';
import { identifier, type Queries, sql } from '../src/runtime/sql.ts';
import { currentWork, forClient, isGone } from '../src/runtime/work.ts';
import { type Tenant, tenantById } from '../src/tenants/tenants.ts';
import { withRole } from './support/credentials.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8' });
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

const dataOf = ({ status, body, text }: { status: number; body: Json; text: string }): Json => {
  if (status !== 201) throw new Error(text);
  return body.data;
};

interface StoredEvent {
  recordId: string;
  xid: string;
  version: number;
  createdAt: string;
  updatedAt: string;
  old: Json;
}

async function eventsOf(entity: string, type = 'record.created'): Promise<StoredEvent[]> {
  return service.app.db.rows<StoredEvent>(sql`
    select record_id as "recordId", xid::text, version, created_at as "createdAt", updated_at as "updatedAt", old
    from platform.events
    where tenant_id = ${tenant.id}::uuid and entity = ${entity} and type = ${type}`);
}

/** An entity with records `{ n }`, n from 0. */
async function entityWith(name: string, count: number, more: Json = {}): Promise<{ path: string; records: Json[] }> {
  const path = await createEntity(tenant, name, fields('n integer', 'm integer', 'title text', 'text text'));
  const records = await Promise.all(times(count, (n) => createRecord(tenant, path, { n, ...more })));
  return { path, records: records.sort((a, b) => a.n - b.n) };
}

const transactionsOf = (events: readonly StoredEvent[]): number => new Set(events.map(({ xid }) => xid)).size;

describe('creations at once', () => {
  test('each is answered with its own values and stored so, counted once, with one event; some share a transaction', async () => {
    const path = await createEntity(tenant, 'together', fields('n integer', 'text text', 'more json'));
    const values = times(60, (n) => ({
      n,
      text: `é \u2028 "${n}" 日本語 😀`,
      more: { big: 1e300, list: [n, null, true] },
    }));
    const created = (await Promise.all(values.map((body) => tenant.post(path, body)))).map(dataOf);
    expect(created.map(({ n, text, more }) => ({ n, text, more }))).toEqual(values);
    for (const record of created) expect((await tenant.get(`${path}/${record.id}`)).body.data).toEqual(record);
    expect((await tenant.get(path)).body.data.total).toBe(60);
    const events = await eventsOf('together');
    expect(events.map(({ recordId }) => recordId).sort()).toEqual(created.map(({ id }) => id).sort());
    expect(new Set(events.map(({ xid }) => xid)).size).toBeLessThan(60);
    for (const { recordId, createdAt } of events)
      expect(created.find(({ id }) => id === recordId)?.createdAt).toBe(createdAt);
    expect((await tenant.get(`${path}?search=日本語`)).body.data.total).toBe(60);
  });

  test('with webhook subscriptions, each has one delivery for every one of them, and some share a transaction', async () => {
    const path = await createEntity(tenant, 'hooked', fields('n integer'));
    const types = { entity_name: 'hooked', event_types: ['record.created'] };
    const receiver = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
    const ids: string[] = [];
    for (const i of [1, 2, 3]) {
      const url = `${receiver.url.href}${i}`;
      ids.push(dataOf(await tenant.post('/api/webhooks/subscriptions', { ...types, url })).id);
    }
    const created = (await Promise.all(times(60, (n) => tenant.post(path, { n })))).map(dataOf);
    const recordIds = created.map(({ id }) => id).sort();
    for (const id of ids) {
      const made = await service.app.db.rows<{ recordId: string }>(sql`
        select record_id as "recordId" from platform.webhook_deliveries where subscription_id = ${id}::uuid`);
      expect(made.map(({ recordId }) => recordId).sort()).toEqual(recordIds);
    }
    expect(new Set((await eventsOf('hooked')).map(({ xid }) => xid)).size).toBeLessThan(60);
    await receiver.stop(true);
  });

  test('one that is refused, for its values or for a record that it points at, fails alone', async () => {
    const target = await createEntity(tenant, 'pointed_at', fields('n integer'));
    const { id } = await createRecord(tenant, target, { n: 1 });
    const path = await createEntity(tenant, 'pointing', [
      { key: 'n', type: 'integer', required: true },
      { key: 'to', type: 'relation', entity: 'pointed_at', onDelete: 'set_null' },
    ]);
    const missing = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';
    const body = (n: number): object => (n % 7 === 1 ? { n, to: missing } : n % 7 === 2 ? { n: 'x' } : { n, to: id });
    const answers = await Promise.all(times(42, (n) => tenant.post(path, body(n))));
    expect(answers.map(({ status }) => status)).toEqual(times(42, (n) => (n % 7 === 1 || n % 7 === 2 ? 400 : 201)));
    expect(answers[1]?.body.error.details).toEqual([{ path: 'to', message: `no such record: ${missing}` }]);
    expect(answers[2]?.body.error.details).toEqual([
      { path: 'n', message: 'must be a whole number of at most 2^53 - 1' },
    ]);
    expect((await tenant.get(path)).body.data.total).toBe(30);
  });

  test('large records of many fields are stored as they were sent', async () => {
    const path = await createEntity(
      tenant,
      'large',
      times(150, (i) => ({ key: `f${i}`, type: i === 0 ? 'text' : 'decimal' })),
    );
    const values = times(5, (n) => ({ f0: `${n} ${'ü"\\ x'.repeat(110_000)}`, f149: `9007199254740993.${n}1` }));
    const created = (await Promise.all(values.map((body) => tenant.post(path, body)))).map(dataOf);
    expect(created.every(({ f0, f149 }, n) => f0 === values[n]?.f0 && f149 === values[n]?.f149)).toBe(true);
    for (const { id, f0 } of created)
      expect((await tenant.get(`${path}/${id}?fields=f0`)).body.data.f0 === f0).toBe(true);
  });

  test('while a field is added, none is lost and none is refused', async () => {
    const path = await createEntity(tenant, 'growing', fields('n integer'));
    const writes = times(40, (n) => tenant.post(path, { n }));
    const added = tenant.post('/api/entities/growing/fields', { key: 'm', type: 'text', default: 'x' });
    const created = (await Promise.all(writes)).map(dataOf);
    expect((await added).status).toBe(201);
    expect(new Set(created.map(({ n }) => n)).size).toBe(40);
    expect((await tenant.get(path)).body.data.total).toBe(40);
  });

  test('creations by two keys each have the createdBy of their key', async () => {
    const path = await createEntity(tenant, 'by_whom', fields('n integer'));
    const { key } = (await tenant.post('/api/keys', { label: 'other' })).body.data;
    const headers = (n: number): Record<string, string> => (n % 2 === 0 ? {} : { 'x-api-key': key });
    const created = (await Promise.all(times(40, (n) => tenant.post(path, { n }, headers(n))))).map(dataOf);
    const [first, second] = created.map(({ createdBy }) => createdBy);
    expect(first).not.toBe(second);
    expect(created.map(({ createdBy }) => createdBy)).toEqual(times(40, (n) => (n % 2 === 0 ? first : second)));
  });
});

describe('changes at once', () => {
  test('each record is answered and stored with its own values, and has one event with its former values; some share a transaction', async () => {
    const { path, records } = await entityWith('changing', 60, { m: 7, title: 'a', text: 'b' });
    const bodyOf = (n: number): Json =>
      n % 3 === 0 ? { m: n } : n % 3 === 1 ? { m: null } : { m: n, title: `é "${n}" \\ 日本語`, text: null };
    const answers = await Promise.all(records.map(({ id }, n) => tenant.patch(`${path}/${id}`, bodyOf(n))));
    expect(answers.map(({ status }) => status)).toEqual(times(60, () => 200));
    for (const [n, { body }] of answers.entries()) {
      expect(body.data).toEqual({ ...records[n], ...bodyOf(n), updatedAt: body.data.updatedAt });
      expect((await tenant.get(`${path}/${body.data.id}`)).body.data).toEqual(body.data);
    }
    const events = await eventsOf('changing', 'record.updated');
    expect(events.map(({ recordId }) => recordId).sort()).toEqual(records.map(({ id }) => id).sort());
    expect(transactionsOf(events)).toBeLessThan(60);
    for (const { recordId, version, updatedAt, old } of events) {
      const n = records.findIndex(({ id }) => id === recordId);
      expect({ version, updatedAt }).toEqual({ version: 2, updatedAt: answers[n]?.body.data.updatedAt });
      expect(old).toMatchObject({ f2: 7 });
    }
    expect((await tenant.get(`${path}?search=日本語`)).body.data.total).toBe(20);
  });

  test('of one record, none is lost', async () => {
    const { path, records } = await entityWith('changed_often', 2);
    const [first, second] = records.map(({ id }) => `${path}/${id}`);
    const answers = await Promise.all(times(40, (m) => tenant.patch(m % 4 === 3 ? `${second}` : `${first}`, { m })));
    expect(answers.map(({ body }) => body.data.m)).toEqual(times(40, (m) => m));
    expect(new Set(answers.map(({ headers }, m) => `${m % 4 === 3} ${headers.get('etag')}`)).size).toBe(40);
    expect([
      (await tenant.get(`${first}`)).headers.get('etag'),
      (await tenant.get(`${second}`)).headers.get('etag'),
    ]).toEqual(['"31"', '"11"']);
  });

  test('one that is refused, for its values, its version or its record, fails alone', async () => {
    const { path, records } = await entityWith('changed_wrongly', 40);
    const missing = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';
    const answers = await Promise.all(
      records.map(({ id }, n) => {
        if (n % 4 === 1) return tenant.patch(`${path}/${missing}`, { m: n });
        if (n % 4 === 2) return tenant.patch(`${path}/${id}`, { m: 'x' });
        return tenant.patch(`${path}/${id}`, { m: n }, n % 4 === 3 ? { 'if-match': '"9"' } : {});
      }),
    );
    expect(answers.map(({ status }) => status)).toEqual(times(40, (n) => [200, 404, 400, 412][n % 4] ?? 0));
    expect((await tenant.get(`${path}?filters=m != null`)).body.data.total).toBe(10);
  });

  test('with a webhook subscription, each change has one delivery, and those of one record are in order', async () => {
    const path = await createEntity(tenant, 'hooked_changes', fields('n integer'));
    const created = (await Promise.all(times(20, (n) => tenant.post(path, { n })))).map(dataOf);
    const receiver = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
    const { id } = dataOf(
      await tenant.post('/api/webhooks/subscriptions', {
        entity_name: 'hooked_changes',
        event_types: ['record.updated', 'record.deleted'],
        url: receiver.url.href,
      }),
    );
    const change = ({ id: recordId }: Json, n: number) => tenant.patch(`${path}/${recordId}`, { n: n + 100 });
    const changed = await Promise.all([...created, ...created].map(change));
    expect(changed.every(({ status }) => status === 200)).toBe(true);
    await Promise.all(created.map(({ id: recordId }) => tenant.delete(`${path}/${recordId}`)));
    const made = await service.app.db.rows<{ recordId: string; types: string[] }>(sql`
      select record_id as "recordId", array_agg(type order by event_seq) as types
      from platform.webhook_deliveries where subscription_id = ${id}::uuid group by record_id`);
    expect(made).toHaveLength(20);
    for (const { types } of made) expect(types).toEqual(['record.updated', 'record.updated', 'record.deleted']);
    await receiver.stop(true);
  });

  test('a record that another transaction has locked makes no other one wait', async () => {
    // The connections of the embedded database share one session.
    if (!process.env.DATABASE_URL) return;
    const { path, records } = await entityWith('locked', 30);
    const [locked, ...others] = records;
    const { schema, tableName } = (await service.app.db.first<{ schema: string; tableName: string }>(sql`
      select schemaname as schema, relname as "tableName" from pg_stat_user_tables
      where relname = ${`r_${String(locked?.entityId).replaceAll('-', '')}`}`)) ?? { schema: '', tableName: '' };
    const change = (record: Json | undefined, m: number) => tenant.patch(`${path}/${record?.id}`, { m });
    const { promise, resolve } = Promise.withResolvers<void>();
    const isLocked = Promise.withResolvers<void>();
    const holding = service.app.db.begin(async (tx) => {
      await tx.rows(sql`select from ${identifier(schema, tableName)} where id = ${locked?.id}::uuid for update`);
      isLocked.resolve();
      await promise;
    });
    await isLocked.promise;
    let isAnyDone = false;
    const waiting = times(5, (m) => change(locked, m).finally(() => (isAnyDone = true)));
    const statuses = await Promise.all(
      [...others, ...others].map(async (record, m) => (await change(record, m)).status),
    );
    expect(statuses).toEqual(times(58, () => 200));
    expect(isAnyDone).toBe(false);
    resolve();
    await holding;
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(times(5, () => 200));
  });
});

describe('deletions at once', () => {
  test('each record is deleted once, with one event, and counted; some share a transaction', async () => {
    const { path, records } = await entityWith('leaving', 60);
    const answers = await Promise.all(
      [...records, ...records.slice(0, 20)].map(({ id }) => tenant.delete(`${path}/${id}`)),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(60);
    expect(statuses.filter((status) => status === 404)).toHaveLength(20);
    for (const { id } of records) expect((await tenant.get(`${path}/${id}`)).status).toBe(404);
    const events = await eventsOf('leaving', 'record.deleted');
    expect(events.map(({ recordId }) => recordId).sort()).toEqual(records.map(({ id }) => id).sort());
    expect(transactionsOf(events)).toBeLessThan(60);
    expect((await tenant.get(path)).body.data.total).toBe(0);
  });
});

describe('reads at once', () => {
  test('each response shows what its caller may see of its record, however large the record is', async () => {
    const path = await createEntity(tenant, 'read', fields('n integer', 'text text', 'secret text'));
    const textOf = (n: number): string => (n % 10 === 0 ? `${n} ${'x'.repeat(200_000)}` : `${n}`);
    const records = await Promise.all(
      times(40, (n) => createRecord(tenant, path, { n, text: textOf(n), secret: `secret ${n}` })),
    );
    const readers = (restriction: { excludeFields?: string[]; rowFilter?: string }) =>
      withRole(service, tenant, { permissions: { read: ['read'] }, entities: { read: restriction } });
    const limited = await readers({ excludeFields: ['secret'] });
    const filtered = await readers({ rowFilter: 'n < 20' });
    const missing = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';
    const clients: Client[] = [tenant, limited, filtered];
    const asked = [...records, ...records, ...records].map((record, i) => ({
      record,
      client: clients[i % 3] as Client,
    }));
    const answers = await Promise.all(
      asked.flatMap(({ record, client }) => [
        client.get(`${path}/${record.id}`),
        client.get(`${path}/${missing}`),
        client.get(`${path}/${records[1]?.id}`),
      ]),
    );
    for (const [i, { record, client }] of asked.entries()) {
      const [own, none, same] = answers.slice(3 * i, 3 * i + 3);
      const { secret, ...visible } = record;
      const seen = client === limited ? visible : record;
      const isHidden = client === filtered && record.n >= 20;
      expect(own?.status).toBe(isHidden ? 404 : 200);
      if (!isHidden) expect(own?.body.data).toEqual(seen);
      expect([none?.status, same?.status, same?.body.data.n]).toEqual([404, 200, 1]);
    }
  });
});

describe('lists at once', () => {
  test('the same statement runs a few times for all who ask, of whom each gets its rows', async () => {
    const { path, records } = await entityWith('listed', 30);
    const found = await tenantById(service.app, tenant.id);
    const catalog = await catalogOf(service.app, found as Tenant);
    let statements = 0;
    const counting: Queries = {
      rows: (query, budget) => {
        statements++;
        return service.app.db.rows(query, budget);
      },
      first: (query) => service.app.db.first(query),
    };
    const entity = catalog.byName.get('listed') as Entity;
    const idsFrom = (n: number) =>
      sql`select r.id from ${entity.table} as r where (r.data->>'f1')::int >= ${n}::int order by 1`;
    const lists = await Promise.all(times(300, (i) => readShared<{ id: string }>(counting, entity, idsFrom(i % 3))));
    const ids = records.map(({ id }) => id);
    for (const [i, rows] of lists.entries()) expect(rows.map(({ id }) => id)).toEqual(ids.slice(i % 3).sort());
    expect(statements).toBeLessThan(15);
    expect((await tenant.get(path)).body.data.total).toBe(30);
  });

  test('a caller that asks after a change sees it, however many ask', async () => {
    const { path } = await entityWith('followed', 0);
    const lists = times(8, async () => {
      for (let round = 0; round < 10; round++) await tenant.get(`${path}?filters=n >= 0`);
    });
    const followers = times(6, async (n) => {
      for (let round = 0; round < 8; round++) {
        const { id } = await createRecord(tenant, path, { n });
        const { items, total } = (await tenant.get(`${path}?filters=n >= 0&limit=100`)).body.data;
        expect(items.some((item: Json) => item.id === id)).toBe(true);
        expect(total).toBeGreaterThanOrEqual(items.length);
      }
    });
    await Promise.all([...lists, ...followers]);
    expect((await tenant.get(`${path}?filters=n >= 0`)).body.data.total).toBe(48);
  });

  test('each caller gets the rows and fields that it may see', async () => {
    const { path } = await entityWith('shown', 20, { m: 3 });
    const limited = await withRole(service, tenant, {
      permissions: { shown: ['read'] },
      entities: { shown: { excludeFields: ['m'], rowFilter: 'n < 5' } },
    });
    const answers = await Promise.all(times(60, (i) => (i % 2 === 0 ? tenant : limited).get(`${path}?sort=n`)));
    for (const [i, { body }] of answers.entries()) {
      const { items, total } = body.data;
      expect(total).toBe(i % 2 === 0 ? 20 : 5);
      expect(items.map(({ n, m }: Json) => [n, m])).toEqual(times(total, (n) => [n, i % 2 === 0 ? 3 : undefined]));
    }
  });
});

test('a shared statement continues while one of its clients is connected, and ends when all have gone', async () => {
  const shared = new SharedStatements<number, { isWanted: boolean }>({ itemsMax: 10 });
  const owner = {};
  const statement = async (items: readonly number[]) => {
    await delay(20);
    return items.map(() => ({ isWanted: !isGone(currentWork()) }));
  };
  const here = new AbortController().signal;
  const gone = AbortSignal.abort();
  const ask = (key: string, signal: AbortSignal) =>
    forClient(
      'network',
      () => signal,
      null,
      () => shared.run(owner, key, 0, statement),
    );
  // The first two each have their own statement.
  const wanted = await Promise.all([here, here, gone, here, gone].map((signal) => ask('wanted', signal)));
  expect(wanted.map((result) => result?.isWanted)).toEqual([true, true, true, true, true]);
  const left = await Promise.all([here, here, gone, gone, gone].map((signal) => ask('left', signal)));
  expect(left.map((result) => result?.isWanted)).toEqual([true, true, false, false, false]);
});
