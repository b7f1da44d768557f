import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { type Client, clientOf, type Json, startService, type TestService } from './support/service.ts';

const PATH = '/api/admin/platform/keys';
const ALL = ['platform:read', 'platform:write', 'tenants:manage'];

let service: TestService;
let first: Json;
let both: Client;
/** Responses to ten concurrent requests for the first key. */
let firsts: Json[];

beforeAll(async () => {
  service = await startService();
  await service.app.db.rows(sql`delete from platform.admin_keys`);
  const attempts = Array.from({ length: 10 }, () => service.admin.post(PATH, { name: 'first', scopes: ALL }));
  firsts = await Promise.all(attempts);
  first = firsts.find(({ status }) => status === 201)?.body.data;
  both = service.admin.with({ 'x-admin-key': first.key });
});
afterAll(async () => {
  await service.app.db.rows(sql`delete from platform.admin_keys`);
  await service.stop();
});

async function create(scopes: string[], input: Record<string, unknown> = {}): Promise<Json> {
  const answer = await both.post(PATH, { name: 'key', scopes, ...input });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

describe('credentials', () => {
  test('of several concurrent requests for the first key, with the secret alone, one succeeds', () => {
    expect(firsts.map(({ status }) => status).sort()).toEqual([201, ...Array(9).fill(401)]);
    expect(first.key).toMatch(/^svc_adm_[0-9a-f]{48}$/);
    expect(Object.keys(first).sort()).toEqual(['createdAt', 'expiresAt', 'id', 'key', 'keyPrefix', 'name', 'scopes']);
  });

  test('after the first key, a missing or invalid credential gets 401, a missing scope 403', async () => {
    const reader = await create(['platform:read']);
    const writer = await create(['platform:write']);
    const tenant = await service.tenant();
    const secret = service.admin;
    const key = (value: string): Client => clientOf(service.url, { 'x-admin-key': value });
    const callers: [string, Client, number, number][] = [
      ['nothing', service.anonymous, 401, 401],
      ['the secret alone', secret, 401, 401],
      ['a key alone', key(first.key), 401, 401],
      ['a bad key', secret.with({ 'x-admin-key': `svc_adm_${'0'.repeat(48)}` }), 401, 401],
      ['a bad secret', key(first.key).with({ 'x-admin-secret': 'wrong' }), 401, 401],
      ['a key that may only read', secret.with({ 'x-admin-key': reader.key }), 200, 403],
      ['a key that may only write', secret.with({ 'x-admin-key': writer.key }), 403, 201],
      ['both', both, 200, 201],
      ['both, the key as AdminKey', secret.with({ authorization: `AdminKey ${first.key}` }), 200, 201],
      ['a tenant’s owner key', tenant, 403, 403],
    ];
    for (const [name, client, read, write] of callers) {
      expect((await client.get(PATH)).status, `list with ${name}`).toBe(read);
      expect((await client.get(`${PATH}/${first.id}/audit`)).status, `audit with ${name}`).toBe(read);
      const made = await client.post(PATH, { name: 'x', scopes: ['tenants:manage'] });
      expect(made.status, `create with ${name}`).toBe(write);
      const revoked = await client.delete(`${PATH}/${crypto.randomUUID()}`);
      expect(revoked.status, `revoke with ${name}`).toBe(write === 201 ? 404 : write);
    }
  });

  test('credentials are checked before the body', async () => {
    expect((await service.admin.post(PATH, 'no json')).status).toBe(401);
  });

  test('an admin key may use the platform endpoints of its scopes, but no tenant', async () => {
    const reader = clientOf(service.url, { 'x-admin-key': (await create(['platform:read'])).key });
    const manager = clientOf(service.url, { 'x-admin-key': (await create(['tenants:manage'])).key });
    const tenant = await service.tenant();
    expect((await reader.get('/api/admin/platform/tenants')).status).toBe(200);
    expect((await manager.get('/api/admin/platform/tenants')).status).toBe(403);
    const path = `/api/admin/platform/tenants/${tenant.slug}`;
    expect((await reader.patch(path, { name: 'x' })).status).toBe(403);
    expect((await manager.patch(path, { name: 'x' })).status).toBe(200);
    expect((await manager.get('/api/entities', { 'x-tenant-id': tenant.slug })).status).toBeGreaterThanOrEqual(400);
  });
});

describe('keys', () => {
  test('values are never listed, only prefixes; revoked keys stay in the list', async () => {
    const { id, key } = await create(['platform:read']);
    expect((await both.delete(`${PATH}/${id}`)).body.data).toEqual({ id, revoked: true });
    const list = await both.get(PATH);
    const entry = list.body.data.find((listed: Json) => listed.id === id);
    expect(entry).toMatchObject({ isActive: false, keyPrefix: key.slice(0, 'svc_adm_'.length + 9), lastUsedAt: null });
    expect(list.text).not.toContain(key);
    expect(service.logged.join('\n')).not.toContain(key);
    expect((await both.delete(`${PATH}/${id}`)).status).toBe(404);
  });

  test('a revoked key gets 401 at once, and so does an expired key that is marked active', async () => {
    const { id, key } = await create(['platform:read']);
    const expiring = await create(['platform:read'], { expiresAt: new Date(Date.now() + 60_000).toISOString() });
    const read = async (value: string) =>
      (await clientOf(service.url, { 'x-admin-key': value }).get('/api/admin/platform/tenants')).status;
    expect([await read(key), await read(expiring.key)]).toEqual([200, 200]);
    await both.delete(`${PATH}/${id}`);
    await service.app.db.rows(
      sql`update platform.admin_keys set expires_at = now() - interval '1 second' where id = ${expiring.id}::uuid`,
    );
    expect([await read(key), await read(expiring.key)]).toEqual([401, 401]);
  });

  test.each<[string, Record<string, unknown>, string[]]>([
    ['an empty body', {}, ['name', 'scopes']],
    ['no scopes', { name: 'x', scopes: [] }, ['scopes']],
    ['an unknown scope', { name: 'x', scopes: ['platform:own'] }, ['scopes']],
    ['a time in the past', { name: 'x', scopes: ['platform:read'], expiresAt: '2020-01-01T00:00:00Z' }, ['expiresAt']],
    ['an invalid time', { name: 'x', scopes: ['platform:read'], expiresAt: 'soon' }, ['expiresAt']],
  ])('creation with %s gets a 400 that names the fault', async (_, body, paths) => {
    const answer = await both.post(PATH, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual(paths);
  });
});

describe('audit', () => {
  test('creation, every use and revocation are recorded, newest first', async () => {
    const { id, key } = await create(['platform:read']);
    const client = clientOf(service.url, { 'x-admin-key': key });
    for (let i = 0; i < 2; i++) await client.get('/api/admin/platform/tenants');
    await both.delete(`${PATH}/${id}`);
    const { body, text } = await both.get(`${PATH}/${id}/audit`);
    expect(body.data.map(({ action }: Json) => action)).toEqual(['revoked', 'used', 'used', 'created']);
    expect(body.data[3]).toMatchObject({ actorId: first.id, endpoint: null });
    expect(body.data[1]).toMatchObject({ endpoint: 'GET /api/admin/platform/tenants', ip: '127.0.0.1' });
    expect(text).not.toContain(key);
    const bootstrap = await both.get(`${PATH}/${first.id}/audit?limit=500`);
    expect(bootstrap.body.data.at(-1)).toMatchObject({ action: 'created', actorId: 'super_admin' });
  });

  test('limit is 1 to 500, else 400; an unknown key is 404', async () => {
    expect((await both.get(`${PATH}/${first.id}/audit?limit=1`)).body.data).toHaveLength(1);
    for (const limit of ['0', '501', 'x']) {
      expect((await both.get(`${PATH}/${first.id}/audit?limit=${limit}`)).status, limit).toBe(400);
    }
    for (const id of [crypto.randomUUID(), 'nonsense']) {
      expect((await both.get(`${PATH}/${id}/audit`)).status).toBe(404);
    }
  });
});
