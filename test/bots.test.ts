import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newAddress } from './support/addresses.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { clientOf, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { retryWhenDelayed } from './support/timing.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(async () => service.stop());

const newTenant = () => tenantWithEntities(service, ['orders', 'invoices'], fields('title text'));

async function register(tenant: TestTenant, input: Record<string, unknown> = {}): Promise<Json> {
  const answer = await tenant.post('/api/auth/bots/register', { name: 'agent', tenantSlug: tenant.slug, ...input });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

const identify = (tenant: TestTenant, name: string, secret: string) =>
  tenant.post('/api/auth/bots/identify', { name, secret }, newAddress());

describe('registration', () => {
  test('register returns id, name, secret and tenantSlug; the secret is not shown again', async () => {
    const tenant = await newTenant();
    const bot = await register(tenant);
    expect(Object.keys(bot).sort()).toEqual(['id', 'name', 'secret', 'tenantSlug']);
    const list = await tenant.get('/api/auth/bots');
    expect(list.body.data).toHaveLength(1);
    expect(list.body.data[0]).toMatchObject({
      id: bot.id,
      name: 'agent',
      isActive: true,
      permissions: { entities: {} },
    });
    expect(list.text).not.toContain(bot.secret);
    expect(list.text).not.toContain('secret');
    expect(service.logged.join('\n')).not.toContain(bot.secret);
  });

  test('a bot name is unique within its tenant', async () => {
    const [one, other] = [await service.tenant(), await service.tenant()];
    await register(one);
    const again = await one.post('/api/auth/bots/register', { name: 'agent', tenantSlug: one.slug });
    expect(again.status).toBe(409);
    await register(other);
    expect((await other.get('/api/auth/bots')).body.data).toHaveLength(1);
  });

  test.each<[string, Record<string, unknown>, string[]]>([
    ['a name with capitals', { name: 'Agent' }, ['name']],
    ['a name of two characters', { name: 'ab' }, ['name']],
    ['a name of 51 characters', { name: 'a'.repeat(51) }, ['name']],
    ['no tenantSlug', { tenantSlug: undefined }, ['tenantSlug']],
    ['a wildcard', { permissions: { entities: { '*': ['read'] } } }, ['permissions.entities.*']],
    ['a wildcard of views', { permissions: { entities: { 'view:*': ['read'] } } }, ['permissions.entities.view:*']],
    ['an unknown entity', { permissions: { entities: { nowhere: ['read'] } } }, ['permissions.entities.nowhere']],
    ['an unknown operation', { permissions: { entities: { orders: ['own'] } } }, ['permissions.entities.orders']],
    [
      'an operation twice',
      { permissions: { entities: { orders: ['read', 'read'] } } },
      ['permissions.entities.orders'],
    ],
    ['several faults at once', { name: 1, permissions: { entities: [] } }, ['name', 'permissions.entities']],
  ])('%s gets a 400 that names the fault', async (_, input, paths) => {
    const tenant = await newTenant();
    const answer = await tenant.post('/api/auth/bots/register', { name: 'agent', tenantSlug: tenant.slug, ...input });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual(paths);
  });

  test('the tenant in the body must be the caller’s, even for the super-admin', async () => {
    const [one, other] = [await service.tenant(), await service.tenant()];
    const body = { name: 'agent', tenantSlug: other.slug };
    expect((await one.post('/api/auth/bots/register', body)).status).toBe(403);
    const admin = service.admin.with({ 'x-tenant-id': one.slug });
    expect((await admin.post('/api/auth/bots/register', body)).status).toBe(403);
    expect((await admin.post('/api/auth/bots/register', { ...body, tenantSlug: one.slug })).status).toBe(201);
    expect((await service.admin.post('/api/auth/bots/register', body)).status).toBe(400);
  });
});

describe('identification', () => {
  test('the token has the permissions of the registration and no others', async () => {
    const tenant = await newTenant();
    const { secret, id } = await register(tenant, { permissions: { entities: { orders: ['read', 'create'] } } });
    const answer = await identify(tenant, 'agent', secret);
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({
      id,
      name: 'agent',
      tenantSlug: tenant.slug,
      tenantId: tenant.id,
      permissions: { entities: { orders: ['read', 'create'] } },
      expiresIn: 3600,
    });
    const bot = clientOf(service.url, { authorization: `Bearer ${answer.body.data.token}` });
    const me = await bot.get('/api/auth/whoami');
    expect(me.body.data).toMatchObject({ kind: 'bot', id, permissions: { orders: ['read', 'create'] } });
    const made = await bot.post('/api/entities/orders/records', { title: 'one' });
    expect(made.status).toBe(201);
    const path = `/api/entities/orders/records/${made.body.data.id}`;
    expect((await bot.get(path)).status).toBe(200);
    expect((await bot.patch(path, { title: 'two' })).status).toBe(403);
    expect((await bot.delete(path)).status).toBe(403);
    expect((await bot.get('/api/entities/invoices/records')).status).toBe(403);
    expect((await bot.get('/api/auth/bots')).status).toBe(403);
    expect((await bot.post('/api/auth/bots/identify', { name: 'agent', secret })).status).toBe(403);
  });

  test('identify needs an admin credential as well as the secret', async () => {
    const tenant = await service.tenant();
    const { secret } = await register(tenant);
    const body = { name: 'agent', secret };
    expect((await service.anonymous.post('/api/auth/bots/identify', body, newAddress())).status).toBe(401);
  });

  test('a wrong secret and an unknown name get the same 401', async () => {
    const tenant = await service.tenant();
    const { secret } = await register(tenant);
    const wrong = await identify(tenant, 'agent', `${secret}x`);
    const unknown = await identify(tenant, 'nobody', secret);
    expect([wrong.status, unknown.status]).toEqual([401, 401]);
    expect(wrong.body.error.message).toBe(unknown.body.error.message);
  });

  test('five failures lock the bot: 401 even with the right secret', async () => {
    const tenant = await service.tenant();
    const { secret } = await register(tenant);
    for (let i = 0; i < 5; i++) expect((await identify(tenant, 'agent', 'wrong')).status).toBe(401);
    expect((await identify(tenant, 'agent', secret)).status).toBe(401);
  });

  test('the twenty-first attempt from an address within a minute gets 429 with Retry-After', async () => {
    const tenant = await service.tenant();
    const { secret } = await register(tenant);
    await retryWhenDelayed(60_000, async () => {
      const here = newAddress();
      const attempt = () => tenant.post('/api/auth/bots/identify', { name: 'agent', secret }, here);
      for (let i = 0; i < 20; i++) expect((await attempt()).status).toBe(200);
      const refused = await attempt();
      expect(refused.status).toBe(429);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(refused.headers.get('ratelimit')).toMatch(/^"attempts";r=0;t=\d+$/);
    });
  });

  test('the addresses of an IPv6 network count as one', async () => {
    const tenant = await service.tenant();
    const { secret } = await register(tenant);
    await retryWhenDelayed(60_000, async () => {
      const network = String(newAddress()['x-forwarded-for']).split(':').slice(0, 4).join(':');
      const attempt = (host: string) =>
        tenant.post('/api/auth/bots/identify', { name: 'agent', secret }, { 'x-forwarded-for': `${network}::${host}` });
      for (let i = 0; i < 20; i++) expect((await attempt(i.toString(16))).status).toBe(200);
      expect((await attempt('ffff:1:2')).status).toBe(429);
    });
  });
});

describe('revocation and reset', () => {
  test('a revoked bot gets 403 on identify, while its token stays valid', async () => {
    const tenant = await newTenant();
    const { id, secret } = await register(tenant, { permissions: { entities: { orders: ['read'] } } });
    const { token } = (await identify(tenant, 'agent', secret)).body.data;
    const revoked = await tenant.post(`/api/auth/bots/${id}/revoke`);
    expect(revoked.status).toBe(200);
    expect(revoked.body.data).toEqual({ id, revoked: true });
    expect((await identify(tenant, 'agent', secret)).status).toBe(403);
    expect((await identify(tenant, 'agent', 'wrong')).status).toBe(401);
    const bot = clientOf(service.url, { authorization: `Bearer ${token}` });
    expect((await bot.get('/api/entities/orders/records')).status).toBe(200);
    expect((await tenant.get('/api/auth/bots')).body.data[0]).toMatchObject({ isActive: false });
    expect((await tenant.post(`/api/auth/bots/${id}/reset-secret`)).status).toBe(409);
  });

  test('a reset makes the old secret invalid at once', async () => {
    const tenant = await service.tenant();
    const { id, secret } = await register(tenant);
    const reset = await tenant.post(`/api/auth/bots/${id}/reset-secret`);
    expect(reset.status).toBe(200);
    expect(reset.body.data).toEqual({ id, name: 'agent', secret: expect.any(String) });
    expect((await identify(tenant, 'agent', secret)).status).toBe(401);
    expect((await identify(tenant, 'agent', reset.body.data.secret)).status).toBe(200);
  });

  test('a bot of another tenant is a 404', async () => {
    const [one, other] = [await service.tenant(), await service.tenant()];
    const { id } = await register(one);
    for (const action of ['revoke', 'reset-secret']) {
      expect((await other.post(`/api/auth/bots/${id}/${action}`)).status).toBe(404);
      expect((await other.post(`/api/auth/bots/nonsense/${action}`)).status).toBe(404);
    }
    expect((await other.get('/api/auth/bots')).body.data).toEqual([]);
  });
});
