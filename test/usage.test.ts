// What a tenant uses: each request, write and byte is counted once, by UTC day; what it uses now is exact. Each test
// compares the counts with a model of what it did. Contract: neighbours#usage-and-quotas.
import { afterAll, describe, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../src/errors.ts';
import { cleanUpOnce } from '../src/events/retention.ts';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { currentWork } from '../src/runtime/work.ts';
import { measureStorageOnce } from '../src/usage/storage.ts';
import { flushUsage } from '../src/usage/usage-writer.ts';
import { closeAfterEach } from './support/connections.ts';
import { createEntity, fields } from './support/entities.ts';
import { type Json, startService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';

const service = await startService();
afterAll(() => service.stop());
const keep = closeAfterEach();

const DAY_MS = 86_400_000;
const NOTES = '/api/entities/notes/records';
const SIGNAL = new AbortController().signal;
const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

async function withNotes(): Promise<TestTenant> {
  const tenant = await service.tenant();
  await createEntity(tenant, 'notes', fields('title text', 'body text'));
  return tenant;
}

const usageOf = async (tenant: TestTenant, query = ''): Promise<Json> =>
  (await tenant.get(`/api/tenant/usage${query}`)).body.data;
const today = async (tenant: TestTenant): Promise<Json> => (await usageOf(tenant)).days.at(-1);

/** The bytes of the values of all records, as JSON by field key. */
async function bytesOfValues(tenant: TestTenant, path = NOTES): Promise<number> {
  const { items } = (await tenant.get(`${path}?limit=100`)).body.data;
  const values = items.map(
    ({ id: _, entityId: _e, createdAt: _c, updatedAt: _u, createdBy: _cb, updatedBy: _ub, ...rest }: Json) =>
      Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null)),
  );
  return values.reduce((sum: number, value: object) => sum + Buffer.byteLength(JSON.stringify(value)), 0);
}

async function expectBytes(tenant: TestTenant): Promise<void> {
  const { storageBytes } = (await usageOf(tenant)).now;
  const expected = await bytesOfValues(tenant);
  expect(Math.abs(storageBytes - expected)).toBeLessThanOrEqual(expected * 0.01);
}

describe('writes', () => {
  test('each record created, changed or deleted is a write, each of a bulk request and import too', async () => {
    const tenant = await withNotes();
    const { id } = (await tenant.post(NOTES, { title: 'one' })).body.data;
    await tenant.patch(`${NOTES}/${id}`, { title: 'two' });
    const operations = Array.from({ length: 7 }, (_, i) => ({ op: 'create', data: { title: `bulk ${i}` } }));
    await tenant.post('/api/entities/notes/records/bulk', { operations });
    const lines = Array.from({ length: 5 }, (_, i) => JSON.stringify({ title: `line ${i}` })).join('\n');
    await tenant.post('/api/entities/notes/records/import', lines, { 'content-type': 'application/x-ndjson' });
    await tenant.delete(`${NOTES}/${id}`);
    expect(await today(tenant)).toMatchObject({ writes: 15, events: 15 });
    expect((await usageOf(tenant)).now).toMatchObject({ records: { notes: 12 }, users: 0 });
  });

  test('a write that fails or is rolled back is not counted', async () => {
    const tenant = await withNotes();
    await tenant.post(NOTES, { title: 5 });
    const operations = [
      { op: 'create', data: { title: 'fits' } },
      { op: 'create', data: { title: 5 } },
    ];
    expect((await tenant.post('/api/entities/notes/records/bulk', { operations })).status).toBe(400);
    await tenant.patch(`${NOTES}/${crypto.randomUUID()}`, { title: 'none' });
    expect(await today(tenant)).toMatchObject({ writes: 0, events: 0 });
  });

  test('writes of rules and cascades are counted', async () => {
    const tenant = await withNotes();
    await createEntity(tenant, 'parts', [
      { key: 'note', type: 'relation', entity: 'notes', onDelete: 'cascade' },
    ] as Json);
    const rule = {
      name: 'copy',
      entity: 'notes',
      trigger: 'after_create',
      action: { type: 'create_record', entity: 'parts', values: { note: '{{id}}' } },
    };
    const made = await tenant.post('/api/rules', rule);
    expect(made.status, made.text).toBe(201);
    const { id } = (await tenant.post(NOTES, { title: 'one' })).body.data;
    while ((await runRulesOnce(service.app, SIGNAL)) > 0);
    expect(await today(tenant)).toMatchObject({ writes: 2, events: 3 });
    await tenant.delete(`${NOTES}/${id}`);
    expect(await today(tenant)).toMatchObject({ writes: 4, events: 5 });
    expect((await usageOf(tenant)).now).toMatchObject({ records: { notes: 0, parts: 0 }, storageBytes: 0 });
  });
});

test('a read is a request that reads records', async () => {
  const tenant = await withNotes();
  const { id } = (await tenant.post(NOTES, { title: 'one' })).body.data;
  await tenant.get(`${NOTES}/${id}`);
  await tenant.get(`${NOTES}?search=one`);
  await tenant.get('/api/entities/notes/records/aggregate');
  await tenant.get('/api/entities/notes/records/export?format=csv');
  await tenant.get('/api/entities');
  expect(await today(tenant)).toMatchObject({ reads: 4 });
});

describe('storageBytes', () => {
  const long = 'x'.repeat(2_000);

  test('follows every kind of change within 1 %', async () => {
    const tenant = await withNotes();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++)
      ids.push((await tenant.post(NOTES, { title: long, body: 'ü'.repeat(100 * i) })).body.data.id);
    await expectBytes(tenant);
    await tenant.patch(`${NOTES}/${ids[0]}`, { body: long.repeat(3) });
    await tenant.patch(`${NOTES}/${ids[1]}`, { body: null });
    const operations = [
      { op: 'update', id: ids[2], data: { title: 'short', body: 'b' } },
      { op: 'delete', id: ids[3] },
      { op: 'create', data: { title: long } },
    ];
    await tenant.post('/api/entities/notes/records/bulk', { operations });
    await expectBytes(tenant);
    for (const id of ids) await tenant.delete(`${NOTES}/${id}`);
    await expectBytes(tenant);
  });

  test('stays right when many change one record at once', async () => {
    const tenant = await withNotes();
    const { id } = (await tenant.post(NOTES, { title: 'one' })).body.data;
    await Promise.all(
      Array.from({ length: 40 }, (_, i) => tenant.patch(`${NOTES}/${id}`, { body: 'y'.repeat(137 * (i % 7)) })),
    );
    await tenant.patch(`${NOTES}/${id}`, { body: long });
    await expectBytes(tenant);
  });

  test('follows dropped and converted fields', async () => {
    const tenant = await withNotes();
    for (let i = 0; i < 3; i++) await tenant.post(NOTES, { title: long, body: long });
    const dropped = await tenant.delete('/api/entities/notes/fields/body?confirm=body');
    expect(dropped.status, dropped.text).toBe(200);
    await expectBytes(tenant);
  });

  test('records that are older than their counters are measured, once', async () => {
    const tenant = await withNotes();
    for (let i = 0; i < 3; i++) await tenant.post(NOTES, { title: long });
    await service.app.db.rows(sql`
      update platform.entity_counts set bytes = 0, is_measured = false where tenant_id = ${tenant.id}::uuid`);
    await service.app.db.rows(sql`
      update platform.tenants set is_storage_measured = false where id = ${tenant.id}::uuid`);
    await tenant.post(NOTES, { title: long });
    while ((await measureStorageOnce(service.app, SIGNAL)) > 0);
    await expectBytes(tenant);
  });
});

describe('days', () => {
  test('without a range the last 30 days are listed, and days without use are zeros', async () => {
    const { days, tenant } = await usageOf(await withNotes());
    expect(typeof tenant).toBe('string');
    expect(days.map(({ day }: Json) => day)).toEqual(
      Array.from({ length: 30 }, (_, i) => dayOf(Date.now() - (29 - i) * DAY_MS)),
    );
    const unused = {
      requests: 0,
      reads: 0,
      writes: 0,
      events: 0,
      deliveries: 0,
      streamHours: 0,
      socketHours: 0,
      sentBytes: 0,
    };
    expect(days[0]).toEqual({ day: dayOf(Date.now() - 29 * DAY_MS), ...unused });
  });

  test('both ends are included; 400 days are kept', async () => {
    const tenant = await withNotes();
    const [from, to] = [dayOf(Date.now() - 399 * DAY_MS), dayOf(Date.now())];
    expect((await usageOf(tenant, `?from=${from}&to=${to}`)).days).toHaveLength(400);
    expect((await usageOf(tenant, `?from=${to}&to=${to}`)).days).toHaveLength(1);
    const before = dayOf(Date.now() - 400 * DAY_MS);
    for (const query of [
      `from=${before}`,
      `from=${to}&to=${from}`,
      'from=2026-02-30',
      'to=yesterday',
      'to=9999-01-01&from=2026-01-01',
    ]) {
      const { status, body } = await tenant.get(`/api/tenant/usage?${query}`);
      expect([query, status, body.error?.code]).toEqual([query, 400, 'VALIDATION_ERROR']);
    }
    for (const day of [before, from]) {
      await service.app.db.rows(sql`
        insert into platform.usage_days (tenant_id, day, reads) values (${tenant.id}::uuid, ${day}::date, 3)`);
    }
    await cleanUpOnce(service.app, SIGNAL);
    const left = await service.app.db.rows<{ day: string }>(sql`
      select to_char(day, 'YYYY-MM-DD') as day from platform.usage_days where tenant_id = ${tenant.id}::uuid and reads = 3`);
    expect(left).toEqual([{ day: from }]);
  });

  test('use counted before midnight belongs to the day before', async () => {
    const tenant = await withNotes();
    const midnight = Math.ceil(Date.now() / DAY_MS) * DAY_MS;
    await tenant.post(NOTES, { title: 'before' });
    await flushUsage(service.app, midnight + 5);
    await tenant.post(NOTES, { title: 'after' });
    await tenant.post(NOTES, { title: 'after' });
    await flushUsage(service.app, Date.now());
    const { days } = await usageOf(tenant, `?from=${dayOf(Date.now())}&to=${dayOf(midnight)}`);
    expect(days.map(({ writes }: Json) => writes)).toEqual([1, 2]);
  });
});

test('a flush that was stored, but lost its confirmation with its connection, is counted once', async () => {
  const tenant = await withNotes();
  await flushUsage(service.app);
  await tenant.post(NOTES, { title: 'one' });
  const { db } = service.app;
  const begin = db.begin;
  const lost = new ServiceError('SERVICE_UNAVAILABLE', 'the connection to the database was lost');
  const failures = [
    // Committed, and rolled back.
    async (work: Parameters<typeof begin>[0]) => {
      await begin(work);
      throw lost;
    },
    (work: Parameters<typeof begin>[0]) =>
      begin(async (tx) => {
        await work(tx);
        throw lost;
      }),
  ];
  for (const [i, failing] of failures.entries()) {
    db.begin = failing as typeof begin;
    try {
      await expect(flushUsage(service.app)).rejects.toThrow('was lost');
    } finally {
      db.begin = begin;
    }
    await tenant.post(NOTES, { title: 'later' });
    expect(await today(tenant)).toMatchObject({ writes: i + 2, events: i + 2 });
  }
});

test('calls at the same time share a flush, so a tenant that reads its usage in loops delays no other tenant', async () => {
  const tenant = await withNotes();
  const { db } = service.app;
  const begin = db.begin;
  const shares: string[] = [];
  db.begin = (async (work: Parameters<typeof begin>[0]) => {
    shares.push(currentWork().share);
    await delay(10);
    return begin(work);
  }) as typeof begin;
  const [loops, rounds] = [20, 5];
  const readInLoop = async (): Promise<void> => {
    for (let n = 0; n < rounds; n++) expect((await usageOf(tenant)).tenant).toBe(tenant.slug);
  };
  try {
    await Promise.all(Array.from({ length: loops }, readInLoop));
    await tenant.post(NOTES, { title: 'one' });
    expect(await today(tenant)).toMatchObject({ writes: 1 });
  } finally {
    db.begin = begin;
  }
  expect(shares.length).toBeLessThan((loops * rounds) / 2);
  expect(shares).not.toContain(tenant.id);
});

test('a stream counts while it is open, and so do the bytes that it sends', async () => {
  const tenant = await withNotes();
  const stream = keep(await connectEvents(service.url, tenant.slug, tenant.key));
  await tenant.post(NOTES, { title: 'one' });
  await stream.next();
  const first = await today(tenant);
  expect(first.streamHours).toBeGreaterThan(0);
  expect(first.sentBytes).toBeGreaterThanOrEqual(Buffer.byteLength(stream.text));
  const second = await today(tenant);
  expect(second.streamHours).toBeGreaterThan(first.streamHours);
});

describe('who may see it', () => {
  test('tenant admins see their own tenant only; operators see one or all', async () => {
    const [tenant, other] = [await withNotes(), await withNotes()];
    await tenant.post(NOTES, { title: 'one' });
    const own = await usageOf(tenant);
    expect(own.tenant).toBe(tenant.slug);
    const one = await service.admin.get(`/api/admin/platform/usage?tenant=${tenant.slug}`);
    expect(one.body.data).toMatchObject({ tenant: tenant.slug, now: { records: { notes: 1 } } });
    const page = (await service.admin.get('/api/admin/platform/usage?limit=2')).body.data;
    expect(page.items.map((item: Json) => item.tenant)).toEqual([other.slug, tenant.slug]);
    expect((await service.admin.get('/api/admin/platform/usage?tenant=no-such')).status).toBe(404);
    expect((await tenant.get('/api/admin/platform/usage')).status).toBe(403);
    expect((await service.anonymous.get('/api/tenant/usage')).status).toBe(401);
  });

  test('the usage of a deleted tenant goes with it, and the others are still counted', async () => {
    const [tenant, other] = [await withNotes(), await withNotes()];
    await today(tenant);
    await tenant.post(NOTES, { title: 'one' });
    await service.admin.delete(`/api/admin/platform/tenants/${tenant.slug}?confirm=${tenant.slug}`);
    await other.post(NOTES, { title: 'one' });
    expect(await today(other)).toMatchObject({ writes: 1 });
    const rows = await service.app.db.rows(sql`select from platform.usage_days where tenant_id = ${tenant.id}::uuid`);
    expect(rows).toEqual([]);
  });

  // The embedded database has one session.
  if (process.env.DATABASE_URL) {
    test('usage is stored while a tenant is being deleted, and only that tenant has none', async () => {
      const [leaving, staying] = [await withNotes(), await withNotes()];
      const deleted = Promise.withResolvers<void>();
      const deletion = service.app.db.begin(async (tx) => {
        await tx.rows(sql`delete from platform.usage_days where tenant_id = ${leaving.id}::uuid`);
        await tx.rows(sql`delete from platform.tenants where id = ${leaving.id}::uuid`);
        deleted.resolve();
        await Bun.sleep(300);
      });
      await deleted.promise;
      await flushUsage(service.app);
      await deletion;
      expect((await today(staying)).requests).toBeGreaterThan(0);
      const left = sql`select from platform.usage_days where tenant_id = ${leaving.id}::uuid`;
      expect(await service.app.db.rows(left)).toEqual([]);
    });
  }
});
