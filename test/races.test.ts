// Concurrent writers: nothing is lost, nothing is counted twice.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import process from 'node:process';
import { sql } from '../src/runtime/sql.ts';
import { createEntity } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { sentWhileLocked } from './support/tenant-database.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

describe('concurrent writers', () => {
  test('50 changes of different fields of one record all survive', async () => {
    const path = await createEntity(
      tenant,
      'wide',
      times(50, (i) => ({ key: `f${i}`, type: 'integer' })),
    );
    const { id } = (await tenant.post(path, {})).body.data;
    const answers = await Promise.all(times(50, (i) => tenant.patch(`${path}/${id}`, { [`f${i}`]: i })));
    expect(answers.map(({ status }) => status)).toEqual(times(50, () => 200));
    const record = await tenant.get(`${path}/${id}`);
    for (let i = 0; i < 50; i++) expect(record.body.data[`f${i}`]).toBe(i);
    expect(record.headers.get('etag')).toBe('"51"');
    expect(new Set(answers.map(({ headers }) => headers.get('etag'))).size).toBe(50);
  });

  test('a counter incremented under If-Match grows by exactly one for each 200', async () => {
    const path = await createEntity(tenant, 'counters', [{ key: 'n', type: 'integer' }]);
    const { id } = (await tenant.post(path, { n: 0 })).body.data;
    const increment = async (): Promise<number> => {
      const before = await tenant.get(`${path}/${id}`);
      const etag = before.headers.get('etag') ?? '';
      return (await tenant.patch(`${path}/${id}`, { n: before.body.data.n + 1 }, { 'if-match': etag })).status;
    };
    const statuses: number[] = [];
    for (let round = 0; round < 5; round++) statuses.push(...(await Promise.all(times(10, increment))));
    expect(new Set(statuses)).toEqual(new Set([200, 412]));
    const increments = statuses.filter((status) => status === 200).length;
    expect((await tenant.get(`${path}/${id}`)).body.data.n).toBe(increments);
  });

  test('of many concurrent writers of the same unique value, one succeeds and the others get 409', async () => {
    const path = await createEntity(tenant, 'claims', [{ key: 'code', type: 'text', unique: true }]);
    const statuses = (await Promise.all(times(30, () => tenant.post(path, { code: 'x' })))).map(({ status }) => status);
    expect(statuses.sort()).toEqual([201, ...times(29, () => 409)]);
    const others = await Promise.all(times(10, (i) => tenant.post(path, { code: `y${i}` })));
    const moved = await Promise.all(others.map(({ body }) => tenant.patch(`${path}/${body.data.id}`, { code: 'z' })));
    expect(moved.filter(({ status }) => status === 200)).toHaveLength(1);
    expect((await tenant.get(path)).body.data.total).toBe(11);
  });

  test('totals are exact after concurrent creates, deletes and rejected writes', async () => {
    const path = await createEntity(tenant, 'counted', [
      { key: 'code', type: 'text', unique: true },
      { key: 'kind', type: 'text' },
    ]);
    const old = await Promise.all(
      times(30, (i) => tenant.post(path, { code: `old${i}`, kind: i % 2 === 0 ? 'even' : 'odd' })),
    );
    const totals: number[] = [];
    await Promise.all([
      ...times(40, (i) => tenant.post(path, { code: `new${i % 20}`, kind: 'even' })),
      ...times(20, () => tenant.post(path, { code: 1 })),
      ...old
        .slice(0, 10)
        .flatMap(({ body }) => [tenant.delete(`${path}/${body.data.id}`), tenant.delete(`${path}/${body.data.id}`)]),
      ...times(10, async () => {
        const { items, total } = (await tenant.get(`${path}?limit=100`)).body.data;
        expect(items).toHaveLength(total);
        totals.push(total);
      }),
      ...times(10, async () => {
        const { items, total } = (await tenant.get(`${path}?limit=100&filters=kind%20%3D%20even`)).body.data;
        expect(items).toHaveLength(total);
      }),
    ]);
    expect(totals).toHaveLength(10);
    const count = async (query: string): Promise<Json> => (await tenant.get(`${path}?${query}`)).body.data.total;
    expect(await count('limit=1')).toBe(40);
    expect(await count('limit=1&filters=kind%20%3D%20even')).toBe(30);
    expect(await count('limit=1&filters=kind%20%3D%20odd')).toBe(10);
    const [odd] = (await tenant.get(`${path}?filters=kind%20%3D%20odd`)).body.data.items;
    await tenant.patch(`${path}/${odd.id}`, { kind: 'even' });
    expect(await count('limit=1&filters=kind%20%3D%20even')).toBe(31);
    expect(await count('limit=1&filters=kind%20%3D%20odd')).toBe(9);
  });

  test('of two concurrent deletions of a record, one succeeds', async () => {
    const path = await createEntity(tenant, 'victims', [{ key: 'n', type: 'integer' }]);
    for (let round = 0; round < 5; round++) {
      const { id } = (await tenant.post(path, { n: 1 })).body.data;
      const answers = await Promise.all(times(4, () => tenant.delete(`${path}/${id}`)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404]);
    }
    expect((await tenant.get(path)).body.data.total).toBe(0);
  });
});

test('creating a view while its entity is deleted either succeeds first or gets 404', async () => {
  for (let round = 0; round < 12; round++) {
    const name = `brief${round}`;
    await createEntity(tenant, name, []);
    const view = { entitySlug: name, slug: `view-${round}`, name };
    const [deleted, made] = await Promise.all([
      tenant.delete(`/api/entities/${name}`),
      tenant.post('/api/views', view),
    ]);
    expect(deleted.status).toBe(200);
    expect([201, 404]).toContain(made.status);
    expect((await tenant.get(`/api/views/${view.slug}/records`)).status).toBe(404);
  }
});

describe('a tenant that is deleted while it is in use', () => {
  test('is gone, and each concurrent request either succeeds first or fails', async () => {
    for (let round = 0; round < 4; round++) {
      const doomed = await service.tenant();
      const made = times(8, (i) => doomed.post('/api/entities', { name: `e${i}` }));
      await Bun.sleep(10 + round * 15);
      const dropped = await service.admin.delete(`/api/admin/platform/tenants/${doomed.slug}?confirm=${doomed.slug}`);
      expect(dropped.status).toBe(200);
      for (const { status } of await Promise.all(made)) expect([201, 401, 403, 404, 409]).toContain(status);
      expect((await doomed.get('/api/entities')).status).toBe(401);
      expect((await service.admin.get(`/api/admin/platform/tenants/${doomed.slug}`)).status).toBe(404);
    }
  });

  test('is gone also while 16 writers change records that rules change again', async () => {
    const doomed = await service.tenant();
    for (const name of ['orders', 'log']) await createEntity(doomed, name, [{ key: 'title', type: 'text' }]);
    const action = { type: 'create_record', entity: 'log', values: { title: '{{title}}' } };
    const rule = await doomed.post('/api/rules', { name: 'logged', entity: 'orders', trigger: 'after_create', action });
    expect(rule.status, rule.text).toBe(201);
    let isOver = false;
    const write = async (): Promise<number> => {
      while (!isOver) {
        const { status } = await doomed.post('/api/entities/orders/records', { title: 'x' });
        if (status !== 201) return status;
      }
      return 201;
    };
    const writing = times(16, write);
    await Bun.sleep(100);
    const dropped = await service.admin.delete(`/api/admin/platform/tenants/${doomed.slug}?confirm=${doomed.slug}`);
    isOver = true;
    expect(dropped.status).toBe(200);
    for (const status of await Promise.all(writing)) expect([201, 401, 403, 404, 409]).toContain(status);
  });

  // The embedded database has one session, so nothing runs concurrently.
  if (process.env.DATABASE_URL) {
    test('is deleted after concurrent definition changes, and holds no lock that they need while it waits', async () => {
      const doomed = await service.tenant();
      const { db } = service.app;
      const path = `/api/admin/platform/tenants/${doomed.slug}?confirm=${doomed.slug}`;
      const dropped = await sentWhileLocked(
        service,
        doomed,
        () => service.admin.delete(path),
        async () => {
          const free = sql`select from platform.tenants where id = ${doomed.id}::uuid for key share skip locked`;
          expect(await db.rows(free)).toHaveLength(1);
        },
      );
      expect(dropped.status).toBe(200);
    });
  }
});
