import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { addUser, signIn } from './support/people.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
const path = '/api/entities/orders/records';
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

async function fresh(): Promise<TestTenant> {
  tenant = await service.tenant();
  const fields = [
    { key: 'n', type: 'integer' },
    { key: 'code', type: 'text', unique: true },
  ];
  expect((await tenant.post('/api/entities', { name: 'orders', fields })).status).toBe(201);
  return tenant;
}

const total = async (client = tenant): Promise<number> => (await client.get(path)).body.data.total;
const key = (name: string) => ({ 'idempotency-key': name });

describe('Idempotency-Key', () => {
  test('the same key and body replay the first response', async () => {
    await fresh();
    const first = await tenant.post(path, { n: 1 }, key('a'));
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([201, null]);
    await tenant.patch(`${path}/${first.body.data.id}`, { n: 2 });
    const again = await tenant.post(path, { n: 1 }, key('a'));
    expect([again.status, again.text, again.headers.get('idempotent-replayed')]).toEqual([201, first.text, 'true']);
    expect(again.headers.get('etag')).toBe(first.headers.get('etag'));
    expect(await total()).toBe(1);
    expect((await tenant.post(path, { n: 1 }, key('b'))).status).toBe(201);
    expect((await tenant.post(path, { n: 1 })).status).toBe(201);
    expect(await total()).toBe(3);
  });

  test('another body under the same key is 422', async () => {
    await fresh();
    await tenant.post(path, { n: 1 }, key('a'));
    const other = await tenant.post(path, { n: 2 }, key('a'));
    expect([other.status, other.body.error.code]).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
    expect(await total()).toBe(1);
  });

  test('concurrent requests create one record: the others get its response or 409', async () => {
    await fresh();
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post(path, { n: 1 }, key('a'))));
    const made = answers.filter(({ status }) => status === 201);
    expect(made.filter(({ headers }) => headers.get('idempotent-replayed') === null)).toHaveLength(1);
    expect(new Set(made.map(({ text }) => text)).size).toBe(1);
    for (const { status } of answers) expect([201, 409]).toContain(status);
    expect(await total()).toBe(1);
  });

  test('a rejected request is not stored: the key can be used again', async () => {
    await fresh();
    expect((await tenant.post(path, { n: 'x' }, key('a'))).status).toBe(400);
    await tenant.post(path, { code: 'taken' });
    expect((await tenant.post(path, { code: 'taken' }, key('a'))).status).toBe(409);
    expect((await tenant.post(path, { n: 1 }, key('a'))).status).toBe(201);
    expect(await total()).toBe(2);
  });

  test('a key belongs to one tenant, one credential and one path', async () => {
    const first = await fresh();
    await first.post('/api/entities', { name: 'others', fields: [{ key: 'n', type: 'integer' }] });
    const made = await first.post(path, { n: 1 }, key('a'));
    const elsewhere = await first.post('/api/entities/others/records', { n: 1 }, key('a'));
    expect([elsewhere.status, elsewhere.headers.get('idempotent-replayed')]).toEqual([201, null]);
    const { key: value } = (await first.post('/api/keys', { label: 'second' })).body.data;
    const second = await first.with({ 'x-api-key': value }).post(path, { n: 1 }, key('a'));
    expect([second.status, second.headers.get('idempotent-replayed')]).toEqual([201, null]);
    expect(second.body.data.id).not.toBe(made.body.data.id);
    const stranger = await fresh();
    expect((await stranger.post(path, { n: 1 }, key('a'))).headers.get('idempotent-replayed')).toBeNull();
  });

  test('a replay respects the current rights of the credential’s role', async () => {
    await fresh();
    const permissions = { orders: ['read', 'create'] };
    await tenant.post('/api/roles', { name: 'clerk', permissions });
    const { email } = await addUser(tenant, { role: 'clerk' });
    const clerk = await signIn(service.anonymous, tenant, email);
    const one = () => clerk.post(path, { n: 1, code: 'canary' }, key('a'));
    const many = () =>
      clerk.post(`${path}/bulk`, { operations: [{ op: 'create', data: { n: 2, code: 'canary-2' } }] }, key('b'));
    const firsts = [await one(), await many()];
    for (const first of firsts) expect(first.text).toContain('canary');

    await tenant.patch('/api/roles/clerk', { entities: { orders: { excludeFields: ['code'] } } });
    const id = firsts[0]?.body.data.id;
    const again = await one();
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.body.data).toMatchObject({ id, n: 1 });
    expect(again.body.data).not.toHaveProperty('code');
    const bulk = await many();
    expect([bulk.headers.get('idempotent-replayed'), bulk.body.data.results[0].data.n]).toEqual(['true', 2]);
    expect(bulk.text).not.toContain('code');

    await tenant.patch('/api/roles/clerk', { permissions: { orders: ['read'] } });
    for (const refused of [await one(), await many()]) {
      expect([refused.status, refused.body.error.code]).toEqual([403, 'FORBIDDEN']);
    }
    expect(await total()).toBe(2);
  });

  test.each(['renamed', 'dropped'])(
    'a replay shows no value of a %s field under a key that another has by now',
    async (how) => {
      await fresh();
      await tenant.post('/api/roles', { name: 'clerk', permissions: { orders: ['read', 'create'] } });
      const { email } = await addUser(tenant, { role: 'clerk' });
      const clerk = await signIn(service.anonymous, tenant, email);
      const one = () => clerk.post(path, { n: 1, code: 'canary' }, key('a'));
      const many = () =>
        clerk.post(`${path}/bulk`, { operations: [{ op: 'create', data: { n: 2, code: 'canary-2' } }] }, key('b'));
      for (const first of [await one(), await many()]) expect(first.text).toContain('canary');
      const code = '/api/entities/orders/fields/code';
      const gone = how === 'renamed' ? tenant.patch(code, { key: 'old' }) : tenant.delete(`${code}?confirm=code`);
      expect((await gone).status).toBe(200);
      expect((await tenant.post('/api/entities/orders/fields', { key: 'code', type: 'text' })).status).toBe(201);
      await tenant.post('/api/entities/orders/fields', { key: 'spare', type: 'text' });
      const excludeFields = how === 'renamed' ? ['old'] : ['spare'];
      const restricted = await tenant.patch('/api/roles/clerk', { entities: { orders: { excludeFields } } });
      expect(restricted.status).toBe(200);
      const [single, bulk] = [await one(), await many()];
      expect([single.headers.get('idempotent-replayed'), single.body.data.n]).toEqual(['true', 1]);
      expect([bulk.headers.get('idempotent-replayed'), bulk.body.data.results[0].data.n]).toEqual(['true', 2]);
      for (const { text } of [single, bulk]) expect(text).not.toContain('canary');
    },
  );

  test('a replay of a restored record needs the rights of a restoration', async () => {
    await fresh();
    await tenant.post('/api/roles', { name: 'clerk', permissions: { orders: ['read', 'create', 'update'] } });
    const { email } = await addUser(tenant, { role: 'clerk' });
    const clerk = await signIn(service.anonymous, tenant, email);
    const { id } = (await clerk.post(path, { n: 1, code: 'canary' })).body.data;
    await clerk.patch(`${path}/${id}`, { n: 2 });
    const restore = () => clerk.post(`${path}/${id}/restore`, { version: 1 }, key('a'));
    expect((await restore()).body.data).toMatchObject({ n: 1, code: 'canary' });
    expect((await restore()).headers.get('idempotent-replayed')).toBe('true');
    for (const orders of [['create', 'update'], ['read'], []]) {
      await tenant.patch('/api/roles/clerk', { permissions: { orders } });
      const refused = await restore();
      expect([refused.status, refused.body.error.code], orders.join()).toEqual([403, 'FORBIDDEN']);
    }
  });

  test('a replay has only the system fields of a record that has left the caller’s rows', async () => {
    await fresh();
    await tenant.post('/api/roles', { name: 'clerk', permissions: { orders: ['read', 'create', 'update'] } });
    const { email } = await addUser(tenant, { role: 'clerk' });
    const clerk = await signIn(service.anonymous, tenant, email);
    const one = () => clerk.post(path, { n: 1, code: 'canary' }, key('a'));
    const operations = [2, 3].map((n) => ({ op: 'create', data: { n, code: `canary-${n}` } }));
    const many = () => clerk.post(`${path}/bulk`, { operations }, key('b'));
    const { id, createdAt } = (await one()).body.data;
    await many();

    await tenant.patch('/api/roles/clerk', { entities: { orders: { rowFilter: 'n = 3', excludeFields: ['n'] } } });
    const again = await one();
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 'true']);
    expect(again.body.data).toMatchObject({ id, createdAt });
    expect(again.text).not.toContain('canary');
    const [second, third] = (await many()).body.data.results;
    expect([second.success, second.data.id, second.data.code]).toEqual([true, second.id, undefined]);
    expect([third.data.code, third.data.n]).toEqual(['canary-3', undefined]);
  });

  test('a replay has only the system fields for a caller that may no longer read, and what it wrote for one that never might', async () => {
    for (const orders of [
      ['read', 'create', 'update'],
      ['create', 'update'],
    ]) {
      await fresh();
      await tenant.post('/api/roles', { name: 'clerk', permissions: { orders } });
      const { email } = await addUser(tenant, { role: 'clerk' });
      const clerk = await signIn(service.anonymous, tenant, email);
      const one = () => clerk.post(path, { n: 1 }, key('a'));
      const many = () => clerk.post(`${path}/bulk`, { operations: [{ op: 'create', data: { n: 2 } }] }, key('b'));
      const first = [await one(), await many()];
      await tenant.patch('/api/roles/clerk', { permissions: { orders: ['create', 'update'] } });
      const [single, bulk] = [await one(), await many()];
      const isReader = orders.includes('read');
      expect(first.map(({ text }) => /"code"/.test(text))).toEqual([isReader, isReader]);
      const [n, m] = isReader ? [undefined, undefined] : [1, 2];
      expect([single.headers.get('idempotent-replayed'), single.body.data.n]).toEqual(['true', n]);
      expect([bulk.headers.get('idempotent-replayed'), bulk.body.data.results[0].data.n]).toEqual(['true', m]);
      for (const { text } of [single, bulk]) expect(text).not.toContain('"code"');
    }
  });

  test('a key is 1 to 255 visible ASCII characters', async () => {
    await fresh();
    for (const bad of ['', 'a b', 'x'.repeat(256), 'é']) {
      const answer = await tenant.post(path, { n: 1 }, key(bad));
      expect([bad, answer.status]).toEqual([bad, 400]);
    }
    expect((await tenant.post(path, { n: 1 }, key('x'.repeat(255)))).status).toBe(201);
  });

  test('the response is stored for 24 hours', async () => {
    await fresh();
    await tenant.post(path, { n: 1 }, key('a'));
    const age = async (hours: number) =>
      service.app.db.rows(sql`
        update platform.idempotency_keys set created_at = now() - make_interval(mins => ${hours * 60}::int)
        where tenant_id = ${tenant.id}::uuid`);
    await age(23.9);
    expect((await tenant.post(path, { n: 1 }, key('a'))).headers.get('idempotent-replayed')).toBe('true');
    await age(24.1);
    expect((await tenant.post(path, { n: 2 }, key('a'))).status).toBe(201);
    expect((await tenant.post(path, { n: 2 }, key('a'))).headers.get('idempotent-replayed')).toBe('true');
    expect(await total()).toBe(2);
  });

  test('record, event and stored response are committed together or not at all', async () => {
    await fresh();
    await tenant.post(path, { n: 1 }, key('a'));
    const kept = async () =>
      service.app.db.first<{ events: number; answers: number }>(sql`
        select (select count(*) from platform.events where tenant_id = ${tenant.id}::uuid) as events,
          (select count(*) from platform.idempotency_keys where tenant_id = ${tenant.id}::uuid) as answers`);
    expect(await kept()).toEqual({ events: 1, answers: 1 } as never);
    // The response cannot be stored: the whole request is rolled back.
    await service.app.db.exec(`
      create or replace function platform.refuse_answers() returns trigger language plpgsql as $$
      begin if new.key = 'never' then raise exception 'not kept'; end if; return new; end $$;
      create or replace trigger refuse_answers before insert on platform.idempotency_keys
        for each row execute function platform.refuse_answers()`);
    try {
      expect((await tenant.post(path, { n: 2 }, key('never'))).status).toBe(500);
    } finally {
      await service.app.db.exec(`
        drop trigger refuse_answers on platform.idempotency_keys;
        drop function platform.refuse_answers`);
    }
    expect(await kept()).toEqual({ events: 1, answers: 1 } as never);
    expect(await total()).toBe(1);
    expect((await tenant.post(path, { n: 2 }, key('never'))).status).toBe(201);
  });
});
