import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { sql } from '../src/runtime/sql.ts';
import {
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'orders', fields: [{ key: 'title', type: 'text' }] });
  await tenant.post('/api/entities', { name: 'invoices', fields: [{ key: 'title', type: 'text' }] });
});
afterAll(async () => service.stop());

let apis = 0;
async function define(input: Record<string, unknown> = {}): Promise<Json> {
  const body = {
    name: 'Shop',
    slug: `shop-${++apis}`,
    roles: ['reader'],
    permissions: { orders: { reader: ['read'] } },
    ...input,
  };
  const answer = await tenant.post('/api/apis', body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

async function issue(api: Json, role = 'reader', input: Record<string, unknown> = {}): Promise<Json> {
  const answer = await tenant.post(`/api/apis/${api.id}/keys`, { role, label: 'key', ttlDays: 30, ...input });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

const bearer = (key: string): Client => clientOf(service.url, { authorization: `Bearer ${key}` });

describe('platform APIs', () => {
  test('an API is created, listed, read, changed and deleted', async () => {
    const api = await define();
    expect((await tenant.get('/api/apis')).body.data[0]).toEqual(api);
    const changed = await tenant.patch(`/api/apis/${api.id}`, { name: 'Store' });
    expect(changed.body.data).toMatchObject({ id: api.id, name: 'Store', slug: api.slug, roles: ['reader'] });
    expect((await tenant.get(`/api/apis/${api.id}`)).body.data.name).toBe('Store');
    expect((await tenant.delete(`/api/apis/${api.id}`)).body.data).toEqual({ id: api.id, deleted: true });
    expect((await tenant.get(`/api/apis/${api.id}`)).status).toBe(404);
  });

  test('a slug is unique in the tenant, at creation and on change', async () => {
    const [one, other] = [await define(), await define()];
    const { id: _, createdAt: __, updatedAt: ___, ...body } = one;
    expect((await tenant.post('/api/apis', body)).status).toBe(409);
    expect((await tenant.patch(`/api/apis/${other.id}`, { slug: one.slug })).status).toBe(409);
  });

  test.each<[string, Record<string, unknown>, string[]]>([
    ['an unknown role', { roles: ['reader', 'ghost'] }, ['roles']],
    ['no roles', { roles: [] }, ['roles']],
    ['an unknown operation', { permissions: { orders: { reader: ['peek'] } } }, ['permissions.orders.reader']],
    ['operations without a role', { permissions: { orders: ['read'] } }, ['permissions.orders', 'roles']],
    ['a malformed entity name', { permissions: { 'Or ders': { reader: ['read'] } } }, ['permissions.Or ders']],
    ['permissions that are not an object', { roles: ['ghost'], permissions: 'all' }, ['permissions']],
    ['all agents at once', { permissions: { 'agent:*': { reader: ['read'] } } }, ['permissions.agent:*']],
    ['a malformed slug and no name', { slug: 'A b', name: '' }, ['name', 'slug']],
  ])('%s gets a 400 that names the member', async (_, input, paths) => {
    const body = { name: 'x', slug: `bad-${++apis}`, roles: ['reader'], permissions: { orders: { reader: ['read'] } } };
    const answer = await tenant.post('/api/apis', { ...body, ...input });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual(paths);
  });

  test('role names may be roles of the tenant', async () => {
    expect((await define({ roles: ['viewer'] })).roles).toEqual(['viewer']);
  });

  test('another tenant’s API and keys are 404', async () => {
    const other = await service.tenant();
    const api = await define();
    const key = await issue(api);
    for (const [method, path, body] of [
      ['GET', `/api/apis/${api.id}`],
      ['PATCH', `/api/apis/${api.id}`, { name: 'x' }],
      ['DELETE', `/api/apis/${api.id}`],
      ['GET', `/api/apis/${api.id}/keys`],
      ['POST', `/api/apis/${api.id}/keys`, { role: 'reader' }],
      ['DELETE', `/api/apis/${api.id}/keys/${key.id}`],
    ] as const) {
      expect((await other.request(method, path, body)).status, `${method} ${path}`).toBe(404);
    }
    expect((await other.get('/api/apis')).body.data).toEqual([]);
    expect((await bearer(key.key).get('/api/auth/whoami')).status).toBe(200);
  });
});

describe('platform keys', () => {
  test('the value is shown once; lists show a prefix', async () => {
    const api = await define();
    const { key, ...rest } = await issue(api);
    expect(key).toMatch(/^svc_pkey_[0-9a-f]{48}$/);
    const list = await tenant.get(`/api/apis/${api.id}/keys`);
    expect(list.body.data).toEqual([{ ...rest, lastUsedAt: null }]);
    expect(key.startsWith(rest.keyPrefix)).toBe(true);
    expect(list.text).not.toContain(key);
    expect(service.logged.join('\n')).not.toContain(key);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['a role that is not the API’s', { role: 'viewer' }, 'role'],
    ['no role', { role: undefined }, 'role'],
    ['a TTL of 0 days', { role: 'reader', ttlDays: 0 }, 'ttlDays'],
    ['a fractional TTL', { role: 'reader', ttlDays: 1.5 }, 'ttlDays'],
  ])('%s: 400', async (_, body, path) => {
    const api = await define();
    const answer = await tenant.post(`/api/apis/${api.id}/keys`, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details[0].path).toBe(path);
  });

  test('each method on records needs its own permission; without it 403', async () => {
    const made = await tenant.post('/api/entities/orders/records', { title: 'one' });
    const record = `/api/entities/orders/records/${made.body.data.id}`;
    const list = '/api/entities/orders/records';
    const rows = [
      ['GET', list, undefined, 'read'],
      ['GET', record, undefined, 'read'],
      ['POST', list, { title: 'x' }, 'create'],
      ['PUT', record, { title: 'y' }, 'update'],
      ['PATCH', record, { title: 'z' }, 'update'],
      ['DELETE', `/api/entities/orders/records/${crypto.randomUUID()}`, undefined, 'delete'],
    ] as const;
    const operations = ['read', 'create', 'update', 'delete'];
    const permissions = { orders: Object.fromEntries(operations.map((operation) => [operation, [operation]])) };
    const api = await define({ roles: operations, permissions });
    for (const held of operations) {
      const { key } = await issue(api, held);
      for (const [method, path, body, needed] of rows) {
        const { status } = await bearer(key).request(method, path, body);
        const expected = held !== needed ? 403 : method === 'POST' ? 201 : method === 'DELETE' ? 404 : 200;
        expect(status, `${held}: ${method} ${path}`).toBe(expected);
      }
    }
  });

  test('`*` grants all entities; an entity grants no other', async () => {
    const api = await define({
      roles: ['reader', 'all'],
      permissions: { orders: { reader: ['read'] }, '*': { all: ['read'] } },
    });
    const reader = bearer((await issue(api, 'reader')).key);
    const all = bearer((await issue(api, 'all')).key);
    expect((await reader.get('/api/entities/invoices/records')).status).toBe(403);
    expect((await all.get('/api/entities/invoices/records')).status).toBe(200);
    expect((await all.get('/api/apis')).status).toBe(403);
  });

  test('the tenant’s role of the same name restricts fields and rows', async () => {
    await tenant.post('/api/roles', {
      name: 'narrow',
      permissions: { invoices: ['read'] },
      entities: { invoices: { excludeFields: ['title'] } },
    });
    await tenant.post('/api/entities/invoices/records', { title: 'canary-of-the-hidden-title' });
    const api = await define({ roles: ['narrow'], permissions: { invoices: { narrow: ['read'] } } });
    const answer = await bearer((await issue(api, 'narrow')).key).get('/api/entities/invoices/records');
    expect(answer.body.data.total).toBe(1);
    expect(answer.text).not.toContain('canary');
  });

  test('a change of the API applies to its keys at once', async () => {
    const api = await define();
    const client = bearer((await issue(api)).key);
    const read = async () => (await client.get('/api/entities/orders/records')).status;
    expect(await read()).toBe(200);
    await tenant.patch(`/api/apis/${api.id}`, { permissions: { orders: { reader: ['create'] } } });
    expect(await read()).toBe(403);
    await tenant.patch(`/api/apis/${api.id}`, { permissions: { orders: { reader: ['read'] } } });
    expect(await read()).toBe(200);
    await tenant.patch(`/api/apis/${api.id}`, { roles: ['viewer'] });
    expect(await read()).toBe(403);
    await tenant.delete(`/api/apis/${api.id}`);
    expect(await read()).toBe(401);
  });

  test('permissions that are revoked while another member is changed do not come back', async () => {
    const api = await define({ permissions: { orders: { reader: ['read', 'delete'] } } });
    for (let round = 0; round < 12; round++) {
      const operations = round % 2 === 0 ? ['read'] : ['read', 'delete'];
      const permissions = { orders: { reader: operations } };
      const name = `Shop ${round}`;
      const changes = [{ permissions }, { name }].map((change) => tenant.patch(`/api/apis/${api.id}`, change));
      for (const { status } of await Promise.all(changes)) expect(status).toBe(200);
      expect((await tenant.get(`/api/apis/${api.id}`)).body.data).toMatchObject({ name, permissions });
    }
  });

  test('a revoked or expired key gets 401 at once', async () => {
    const api = await define();
    const [revoked, expired] = [await issue(api), await issue(api)];
    const answer = await tenant.delete(`/api/apis/${api.id}/keys/${revoked.id}`);
    expect(answer.body.data).toEqual({ id: revoked.id, revoked: true });
    expect((await bearer(revoked.key).get('/api/auth/whoami')).status).toBe(401);
    expect((await tenant.delete(`/api/apis/${api.id}/keys/${revoked.id}`)).status).toBe(404);
    await service.app.db.rows(
      sql`update platform.platform_keys set expires_at = now() - interval '1 second' where id = ${expired.id}::uuid`,
    );
    expect((await bearer(expired.key).get('/api/auth/whoami')).status).toBe(401);
    expect((await tenant.get(`/api/apis/${api.id}/keys`)).body.data.map(({ id }: Json) => id)).toEqual([expired.id]);
  });

  test('a key in a header other than Authorization gets 401', async () => {
    const { key } = await issue(await define());
    for (const name of ['x-api-key', 'x-public-key', 'x-anon-key']) {
      const answer = await clientOf(service.url, { [name]: key }).get('/api/auth/whoami');
      expect(answer.status, name).toBe(401);
    }
  });
});

test('permissions are cached up to some bytes, however many keys have them', async () => {
  const views = Array.from({ length: 1_700 }, (_, i) => [`view:v${String(i).padStart(5, '0')}`, { reader: ['read'] }]);
  const api = await define({ permissions: Object.fromEntries(views) });
  const keys: Client[] = [];
  // One more than fit into the limit, as JSON.
  const count = Math.ceil(
    LIMITS.key.cachedBytesMax / JSON.stringify(Object.fromEntries(views.map(([name]) => [name, ['read']]))).length,
  );
  for (let i = 0; i < count; i++) keys.push(bearer((await issue(api)).key));
  for (const key of keys) expect((await key.get('/api/entities')).status).toBe(200);
  const rows = spyOn(service.app.db, 'rows');
  try {
    await keys.at(-1)?.get('/api/entities');
    expect(rows).not.toHaveBeenCalled();
    await keys[0]?.get('/api/entities');
    expect(rows).toHaveBeenCalled();
  } finally {
    rows.mockRestore();
  }
}, 120_000);
