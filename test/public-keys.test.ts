import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import {
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

const ORIGIN = 'https://app.example.com';
const LIST = '/api/entities/orders/records';

let service: TestService;
let tenant: TestTenant;
let roleId: string;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', {
    name: 'orders',
    fields: [
      { key: 'title', type: 'text' },
      { key: 'margin', type: 'text' },
    ],
  });
  await tenant.post('/api/entities', { name: 'invoices' });
  await tenant.post(LIST, { title: 'one', margin: 'canary-of-the-hidden-margin' });
  const role = await tenant.post('/api/roles', {
    name: 'visitor',
    permissions: { orders: ['read', 'create', 'update', 'delete'] },
    entities: { orders: { excludeFields: ['margin'] } },
  });
  roleId = role.body.data.id;
});
afterAll(async () => service.stop());

async function issue(input: Record<string, unknown> = {}): Promise<Json> {
  const body = { label: 'site', roleId, scopes: ['records:read'], ...input };
  const answer = await tenant.post('/api/auth/public-keys', body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

const holder = (key: string, headers: Record<string, string> = {}): Client =>
  clientOf(service.url, { 'x-public-key': key, ...headers });

describe('keys', () => {
  test('the value is shown once, with the defaults: 90 days, 60 a minute, 1000 a day', async () => {
    const { key, ...rest } = await issue();
    expect(key).toMatch(/^svc_pk_[0-9a-f]{48}$/);
    expect(rest).toMatchObject({ rateLimitPerMin: 60, rateLimitPerDay: 1000, allowedOrigins: [], roleId });
    const days = (Date.parse(rest.expiresAt) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(89.9);
    expect(days).toBeLessThanOrEqual(90);
    const list = await tenant.get('/api/auth/public-keys');
    expect(list.body.data[0]).toEqual({ ...rest, lastUsedAt: null });
    expect(list.text).not.toContain(key);
    expect(service.logged.join('\n')).not.toContain(key);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['a TTL of 0 days', { ttlDays: 0 }, 'ttlDays'],
    ['a TTL of 366 days', { ttlDays: 366 }, 'ttlDays'],
    ['an unknown role', { roleId: crypto.randomUUID() }, 'roleId'],
    ['no role', { roleId: undefined }, 'roleId'],
    ['no scopes', { scopes: [] }, 'scopes'],
    ['a write scope', { scopes: ['records:write'] }, 'scopes'],
    ['an origin with a path', { allowedOrigins: [`${ORIGIN}/`] }, 'allowedOrigins'],
    ['the origin null', { allowedOrigins: ['null'] }, 'allowedOrigins'],
    ['any origin', { allowedOrigins: ['*'] }, 'allowedOrigins'],
    ['an origin with its default port', { allowedOrigins: [`${ORIGIN}:443`] }, 'allowedOrigins'],
    ['no requests a minute', { rateLimitPerMin: 0 }, 'rateLimitPerMin'],
    ['too many a day', { rateLimitPerDay: 1e12 }, 'rateLimitPerDay'],
  ])('%s gets a 400 that names the member', async (_, input, path) => {
    const body = { label: 'site', roleId, scopes: ['records:read'], ...input };
    const answer = await tenant.post('/api/auth/public-keys', body);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map((detail: Json) => detail.path)).toEqual([path]);
  });

  test('a key in any of the three headers reads its role’s fields', async () => {
    const { key } = await issue();
    for (const [name, value] of [
      ['x-public-key', key],
      ['x-anon-key', key],
      ['authorization', `Bearer ${key}`],
    ]) {
      const answer = await clientOf(service.url, { [name]: value, 'x-tenant-id': tenant.slug }).get(LIST);
      expect(answer.status).toBe(200);
      expect(answer.body.data.items[0].title).toBe('one');
      expect(answer.text).not.toContain('canary');
    }
    expect((await holder(key).get('/api/entities/invoices/records')).status).toBe(403);
  });

  test('gets 401 for every method that writes, before the body is read', async () => {
    const client = holder((await issue()).key);
    const { items } = (await client.get(LIST)).body.data;
    for (const [method, path] of [
      ['POST', LIST],
      ['PUT', `${LIST}/${items[0].id}`],
      ['PATCH', `${LIST}/${items[0].id}`],
      ['DELETE', `${LIST}/${items[0].id}`],
      ['POST', '/api/entities'],
    ] as const) {
      expect((await client.request(method, path, 'no json', { 'content-type': 'text/plain' })).status, method).toBe(
        401,
      );
    }
  });

  test('reads nothing without the scope records:read', async () => {
    expect((await holder((await issue({ scopes: ['channels:read'] })).key).get(LIST)).status).toBe(403);
  });

  test('a change applies at once; a revoked or expired key gets 401', async () => {
    const { id, key } = await issue();
    const client = holder(key);
    expect((await client.get(LIST)).status).toBe(200);
    const changed = await tenant.patch(`/api/auth/public-keys/${id}`, { scopes: ['channels:read'], label: 'other' });
    expect(changed.body.data).toMatchObject({ id, label: 'other', scopes: ['channels:read'], roleId });
    expect((await client.get(LIST)).status).toBe(403);
    expect((await tenant.delete(`/api/auth/public-keys/${id}`)).body.data).toEqual({ id, revoked: true });
    expect((await client.get(LIST)).status).toBe(401);
    expect((await tenant.delete(`/api/auth/public-keys/${id}`)).status).toBe(404);
    const expired = await issue();
    await service.app.db.rows(
      sql`update platform.public_keys set expires_at = now() - interval '1 second' where id = ${expired.id}::uuid`,
    );
    expect((await holder(expired.key).get(LIST)).status).toBe(401);
  });

  test('a scope that is revoked while another member is changed does not come back', async () => {
    const { id } = await issue();
    for (let round = 0; round < 12; round++) {
      const scopes = round % 2 === 0 ? ['records:read', 'channels:read'] : ['records:read'];
      const label = `site ${round}`;
      const changes = [{ scopes }, { label }].map((change) => tenant.patch(`/api/auth/public-keys/${id}`, change));
      for (const { status } of await Promise.all(changes)) expect(status).toBe(200);
      const listed = (await tenant.get('/api/auth/public-keys')).body.data.find((key: Json) => key.id === id);
      expect(listed).toMatchObject({ label, scopes });
    }
  });

  test('the key of another tenant is 404 for an admin', async () => {
    const other = await service.tenant();
    const { id } = await issue();
    expect((await other.patch(`/api/auth/public-keys/${id}`, { label: 'x' })).status).toBe(404);
    expect((await other.delete(`/api/auth/public-keys/${id}`)).status).toBe(404);
    expect((await other.get('/api/auth/public-keys')).body.data).toEqual([]);
  });
});

describe('origins', () => {
  /** Origins that resemble `https://app.<domain>` but differ from it. */
  const foreignTo = (domain: string): string[] => [
    'null',
    `https://${domain}`,
    `https://app.${domain}.evil.test`,
    `https://evilapp.${domain}`,
    `http://app.${domain}`,
    `https://app.${domain}:8443`,
    `https://APP.${domain}`,
    `https://xn--pp-gla.${domain}`,
    '*',
  ];

  test('a page of an allowed origin may read the response and its exposed headers', async () => {
    const { key } = await issue({ allowedOrigins: [ORIGIN] });
    const { status, headers } = await holder(key, { origin: ORIGIN }).get(LIST);
    expect(status).toBe(200);
    expect(headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(headers.get('vary')).toBe('Origin');
    expect(headers.get('access-control-allow-credentials')).toBeNull();
    const exposed = headers.get('access-control-expose-headers')?.split(', ');
    expect(exposed).toEqual(
      expect.arrayContaining(['ETag', 'RateLimit', 'RateLimit-Policy', 'Retry-After', 'X-Request-Id']),
    );
  });

  test('a request from any other origin gets 403 without CORS headers', async () => {
    const { key } = await issue({ allowedOrigins: [ORIGIN] });
    for (const origin of foreignTo('example.com')) {
      const { status, headers } = await holder(key, { origin }).get(LIST);
      expect(status, origin).toBe(403);
      expect(headers.get('access-control-allow-origin'), origin).toBeNull();
      expect(headers.get('vary')).toBe('Origin');
    }
    expect((await holder(key).get(LIST)).status).toBe(200);
  });

  test('a page of an allowed origin may read errors too', async () => {
    const { key } = await issue({ allowedOrigins: [ORIGIN] });
    const { status, headers } = await holder(key, { origin: ORIGIN }).get('/api/entities/invoices/records');
    expect(status).toBe(403);
    expect(headers.get('access-control-allow-origin')).toBe(ORIGIN);
  });

  test('a key without origins works, but its responses have no CORS headers', async () => {
    const { status, headers } = await holder((await issue()).key, { origin: ORIGIN }).get(LIST);
    expect(status).toBe(200);
    expect(headers.get('access-control-allow-origin')).toBeNull();
  });

  test('a preflight gets CORS headers for origins that keys name, and for no others', async () => {
    // A preflight names no tenant: the origins of all tenants count, also those that other tests have left.
    const domain = `${crypto.randomUUID()}.test`;
    const own = `https://app.${domain}`;
    await issue({ allowedOrigins: [own] });
    const ask = (origin: string) =>
      service.anonymous.request('OPTIONS', LIST, undefined, {
        origin,
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'x-public-key,x-tenant-id',
      });
    const { status, headers, text } = await ask(own);
    expect([status, text]).toEqual([204, '']);
    expect(headers.get('access-control-allow-origin')).toBe(own);
    expect(headers.get('access-control-allow-methods')).toContain('GET');
    expect(headers.get('access-control-allow-headers')).toContain('X-Public-Key');
    expect(headers.get('access-control-max-age')).toBe('600');
    expect(headers.get('vary')).toContain('Origin');
    for (const origin of foreignTo(domain)) {
      expect((await ask(origin)).headers.get('access-control-allow-origin'), origin).toBeNull();
    }
  });

  test('responses to other credentials have no CORS headers', async () => {
    const { headers } = await tenant.get(LIST, { origin: ORIGIN });
    expect(headers.get('access-control-allow-origin')).toBeNull();
  });
});
