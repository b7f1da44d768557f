import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newAddress } from './support/addresses.ts';
import { createEntity, fields, tenantWithEntities } from './support/entities.ts';
import { callTool } from './support/mcp-calls.ts';
import {
  type Answer,
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
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

describe('limits', () => {
  const PATH = '/api/entities/orders/records';
  const ALL = {
    entities: { orders: ['read', 'create', 'update', 'delete'], lines: ['read', 'create'], 'view:all': ['read'] },
  };

  /** A tenant with orders, lines that go with their order, and a bot with limits. */
  async function limited(limits: Json): Promise<{ tenant: TestTenant; bot: Client; id: string; token: string }> {
    const tenant = await tenantWithEntities(service, ['orders'], fields('title text'));
    await createEntity(tenant, 'lines', [{ key: 'of', type: 'relation', entity: 'orders', onDelete: 'cascade' }]);
    await tenant.post('/api/views', { entitySlug: 'orders', slug: 'all', name: 'All' });
    const { id, name, secret } = await register(tenant, { limits, permissions: ALL });
    const { token } = (await identify(tenant, name, secret)).body.data;
    return { tenant, id, token, bot: clientOf(service.url, { authorization: `Bearer ${token}` }) };
  }

  const change = (tenant: TestTenant, id: string, body: Json) => tenant.patch(`/api/auth/bots/${id}`, body);
  const bulk = (n: number, more: Json = {}): Json => ({
    operations: Array.from({ length: n }, (_, i) => ({ op: 'create', data: { title: `o${i}` } })),
    ...more,
  });
  const outcome = ({ status, body, headers }: Answer): Json => {
    const { quota, limit, used } = body.error?.details?.[0] ?? {};
    const retryAfter = Number(headers.get('retry-after') ?? 0);
    if (status === 429) expect([retryAfter > 3_000, retryAfter <= 3_600]).toEqual([true, true]);
    return [status, quota, limit, used];
  };

  test('are shown, changed and cleared, and everything wrong with them is named', async () => {
    const limits = { writesPerHour: 5, maxRowsPerCall: 2 };
    const { tenant, bot, id } = await limited(limits);
    const shown = async (): Promise<Json> => [
      (await bot.get('/api/auth/whoami')).body.data.limits,
      (await tenant.get('/api/auth/bots')).body.data[0].limits,
    ];
    expect(await shown()).toEqual([limits, limits]);
    const changed = await change(tenant, id, { limits: { maxRowsPerCall: 3 } });
    expect([changed.status, changed.body.data.limits, changed.body.data.permissions]).toEqual([
      200,
      { maxRowsPerCall: 3 },
      ALL,
    ]);
    await change(tenant, id, { permissions: { entities: { orders: ['read'] } } });
    expect((await bot.post(PATH, {})).status).toBe(403);
    expect(await shown()).toEqual([{ maxRowsPerCall: 3 }, { maxRowsPerCall: 3 }]);
    await change(tenant, id, { limits: null });
    expect(await shown()).toEqual([{}, {}]);
    const wrong = {
      limits: { writesPerHour: 0, maxRowsPerCall: 1.5, other: 1 },
      permissions: { entities: { no: ['read'] } },
    };
    const refused = await change(tenant, id, wrong);
    expect([refused.status, refused.body.error.details.map(({ path }: Json) => path).sort()]).toEqual([
      400,
      ['limits.maxRowsPerCall', 'limits.other', 'limits.writesPerHour', 'permissions.entities.no'],
    ]);
    const other = await service.tenant();
    expect((await change(other, id, { limits: null })).status).toBe(404);
    await tenant.post(`/api/auth/bots/${id}/revoke`);
    expect((await change(tenant, id, { limits: null })).status).toBe(409);
  });

  test('writesPerHour counts each record, however it is written, and nothing else', async () => {
    const { tenant, bot, id, token } = await limited({ writesPerHour: 15 });
    const made = await bot.post(PATH, { title: 'a' }, { 'idempotency-key': 'one' });
    for (let i = 0; i < 3; i++) await bot.post(PATH, { title: 'a' }, { 'idempotency-key': 'one' });
    const { id: order } = made.body.data;
    // Refused writes and the owner's do not count.
    expect((await bot.post(PATH, { nothing: 1 })).status).toBe(400);
    expect((await bot.patch(`${PATH}/${tenant.id}`, { title: 'x' })).status).toBe(404);
    expect((await bot.patch(`${PATH}/${order}`, { title: 'x' }, { 'if-match': '"9"' })).status).toBe(412);
    expect(
      (
        await bot.post(
          `${PATH}/bulk`,
          bulk(3, {
            atomic: true,
            operations: [
              { op: 'create', data: {} },
              { op: 'delete', id: tenant.id },
            ],
          }),
        )
      ).status,
    ).not.toBe(500);
    expect((await bot.post(`${PATH}?dryRun=true`, { title: 'dry' })).status).toBe(201);
    expect((await bot.post(`${PATH}/bulk?dryRun=true`, bulk(9))).status).toBe(200);
    await tenant.post(PATH, { title: 'owner' });
    expect((await bot.post(`${PATH}/bulk`, bulk(4, { atomic: true }))).status).toBe(200);
    const csv = await bot.post(`${PATH}/import`, 'title\na\nb\n', { 'content-type': 'text/csv' });
    expect([csv.status, csv.text]).toEqual([200, expect.stringContaining('"created":2')]);
    const tool = await callTool(
      service.url,
      'create_record',
      { entity_name: 'orders', data: {} },
      { authorization: `Bearer ${token}` },
    );
    expect(tool.text).not.toContain('isError":true');
    expect((await bot.patch(`${PATH}/${order}`, { title: 'b' })).status).toBe(200);
    for (let i = 0; i < 2; i++) await tenant.post('/api/entities/lines/records', { of: order });
    // The order and its two lines.
    expect((await bot.delete(`${PATH}/${order}`)).status).toBe(200);
    expect((await bot.post(`${PATH}/${order}/restore`, { version: 1 })).status).toBeLessThan(300);
    expect(outcome(await bot.post(`${PATH}/bulk`, bulk(3, { atomic: true })))).toEqual([429, 'writesPerHour', 15, 13]);
    const some = await bot.post(`${PATH}/bulk`, bulk(3, { atomic: false }));
    expect(some.body.data.results.map(({ error }: Json) => error?.code)).toEqual([
      undefined,
      undefined,
      'QUOTA_EXCEEDED',
    ]);
    expect(outcome(await bot.post(PATH, { title: 'more' }))).toEqual([429, 'writesPerHour', 15, 15]);
    expect(outcome(await bot.post(PATH, { title: 'more' }))).toEqual([429, 'writesPerHour', 15, 15]);
    const refused = await callTool(
      service.url,
      'create_record',
      { entity_name: 'orders', data: {} },
      { authorization: `Bearer ${token}` },
    );
    expect(refused.text).toContain('QUOTA_EXCEEDED');
    await change(tenant, id, { limits: { writesPerHour: 16 } });
    expect((await bot.post(PATH, { title: 'one more' })).status).toBe(201);
    expect((await bot.post(PATH, { title: 'no more' })).status).toBe(429);
  });

  test('writesPerHour is exact when writes race, with several tokens', async () => {
    const { tenant, bot, id } = await limited({ writesPerHour: 25 });
    const { name } = (await tenant.get('/api/auth/bots')).body.data[0];
    const { secret } = (await tenant.post(`/api/auth/bots/${id}/reset-secret`)).body.data;
    const { token } = (await identify(tenant, name, secret)).body.data;
    const other = clientOf(service.url, { authorization: `Bearer ${token}` });
    const calls = Array.from({ length: 40 }, (_, i) => {
      const client = i % 2 === 0 ? bot : other;
      return i % 5 === 0 ? client.post(`${PATH}/bulk`, bulk(3, { atomic: true })) : client.post(PATH, { title: 'x' });
    });
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.filter((status) => ![200, 201, 429].includes(status))).toEqual([]);
    while ((await bot.post(PATH, { title: 'y' })).status === 201);
    expect((await tenant.get(`${PATH}?limit=1`)).body.data.total).toBe(25);
  });

  test('maxRowsPerCall bounds every call that reads, and a page without a limit', async () => {
    const { tenant, bot, token } = await limited({ maxRowsPerCall: 3 });
    const made = await tenant.post(`${PATH}/bulk`, bulk(6));
    const ids: string[] = made.body.data.results.map(({ record, id }: Json) => record?.id ?? id);
    for (const of of ids) await tenant.post('/api/entities/lines/records', { of });
    const pages = [
      PATH,
      '/api/views/all/records',
      `${PATH}/deleted`,
      `${PATH}/${ids[0]}/history`,
      '/api/changes?since=earliest',
    ];
    await tenant.delete(`${PATH}/${ids[5]}`);
    for (const path of pages) {
      const at = (limit: string) => bot.get(`${path}${path.includes('?') ? '&' : '?'}${limit}`);
      const tooMany = await at('limit=4');
      expect([path, tooMany.status, tooMany.body.error?.details?.[0]?.path]).toEqual([path, 400, 'limit']);
      expect([path, (await at('limit=3')).status]).toEqual([path, 200]);
      expect([path, (await at('')).body.data?.items?.length <= 3]).toEqual([path, true]);
    }
    expect((await bot.get(PATH)).body.data).toMatchObject({ limit: 3, total: 5, totalPages: 2 });
    const grouped = await bot.get(`${PATH}/aggregate?groupBy=title`);
    expect([grouped.status, grouped.body.error?.message]).toEqual([400, expect.stringContaining('more than 3 groups')]);
    expect((await bot.get(`${PATH}/aggregate`)).body.data.items).toEqual([{ count: 5 }]);
    expect((await bot.get(`${PATH}/export`)).status).toBe(400);
    const lines = '/api/entities/lines/records?resolve=true';
    expect((await bot.get(`${lines}&limit=1`)).status).toBe(200);
    expect((await bot.get(`${lines}&limit=2`)).status).toBe(400);
    const query = { entity_name: 'orders', limit: 4 };
    expect((await callTool(service.url, 'query_records', query, { authorization: `Bearer ${token}` })).text).toContain(
      'VALIDATION_ERROR',
    );
    expect((await tenant.get(`${PATH}?limit=100`)).status).toBe(200);
  });
});
