// Origins: which pages of other origins may call the API and read its responses, errors included, and which may not.
// Contract: browsers#origins.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import process from 'node:process';
import { LIMITS } from '../src/limits.ts';
import { sql } from '../src/runtime/sql.ts';
import { newAddress } from './support/addresses.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession, everyKind, invalidationsReceived } from './support/credentials.ts';
import { addUser, createPublicKey, invite, PASSWORD } from './support/people.ts';
import {
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { openSocket } from './support/streams.ts';

let service: TestService;
let tenant: TestTenant;
/** Listed only by the tenant. */
const ORIGIN = `https://${crypto.randomUUID()}.example.com`;
const UNLISTED = `https://${crypto.randomUUID()}.example.com`;
const LIST = '/api/entities/orders/records';
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1', MAX_BODY_BYTES: '20000', MAX_CONNECTIONS: '40' });
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'orders' });
  await listOrigins(tenant, [ORIGIN]);
});
afterAll(async () => service.stop());
const keep = closeAfterEach();

async function listOrigins(of: Client, allowedOrigins: unknown): Promise<Answer> {
  return of.patch('/api/tenant', { settings: { allowedOrigins } });
}

const from = (client: Client, origin: string): Client => client.with({ origin });
const allowed = ({ headers }: Answer): string | null => headers.get('access-control-allow-origin');

function preflight(origin: string, path = LIST): Promise<Answer> {
  return service.anonymous.request('OPTIONS', path, undefined, {
    origin,
    'access-control-request-method': 'PATCH',
    'access-control-request-headers': 'authorization,content-type,if-match',
  });
}

describe('the setting allowedOrigins', () => {
  test('is empty at first, is replaced as a whole, and is shown to the tenant’s admins and to operators', async () => {
    const own = await service.tenant();
    expect((await own.get('/api/tenant')).body.data.settings.allowedOrigins).toEqual([]);
    const origins = ['http://localhost:8000', 'https://a.example.com:8443'];
    expect((await listOrigins(own, origins)).body.data.settings.allowedOrigins).toEqual(origins);
    await own.patch('/api/tenant', { settings: { selfRegistration: true } });
    const shown = await service.admin.get(`/api/admin/platform/tenants/${own.slug}`);
    expect(shown.body.data.settings.allowedOrigins).toEqual(origins);
    expect((await listOrigins(own, [])).body.data.settings.allowedOrigins).toEqual([]);
  });

  test.each<[string, unknown]>([
    ['a path', ['https://app.example.com/']],
    ['a wildcard', ['*']],
    ['a wildcard in a host', ['https://*.example.com']],
    ['null', ['null']],
    ['a default port', ['https://app.example.com:443']],
    ['capitals', ['https://App.example.com']],
    ['another scheme', ['ftp://app.example.com']],
    ['no scheme', ['app.example.com']],
    ['credentials', ['https://user@app.example.com']],
    ['the same one twice', [ORIGIN, ORIGIN]],
    ['no list', ORIGIN],
    ['a number', [1]],
    ['a very long one', [`https://${'a'.repeat(300)}.com`]],
    ['too many', Array.from({ length: LIMITS.origins.perTenant + 1 }, (_, i) => `https://a${i}.example.com`)],
  ])('with %s is 400 and changes nothing', async (_, origins) => {
    const answer = await listOrigins(tenant, origins);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details[0].path).toStartWith('settings.allowedOrigins');
    expect((await tenant.get('/api/tenant')).body.data.settings.allowedOrigins).toEqual([ORIGIN]);
  });

  test('takes 50 origins', async () => {
    const own = await service.tenant();
    const origins = Array.from({ length: LIMITS.origins.perTenant }, (_, i) => `https://a${i}.example.com`);
    expect((await listOrigins(own, origins)).status).toBe(200);
  });
});

describe('a preflight', () => {
  test('passes for a listed origin, with the methods and headers of the API, and without credentials', async () => {
    for (const path of [LIST, '/mcp', '/api/auth/tenant/login', '/api/nowhere', '/auth/invite/accept']) {
      const { status, headers, text } = await preflight(ORIGIN, path);
      expect([path, status, text]).toEqual([path, 204, '']);
      expect(headers.get('access-control-allow-origin')).toBe(ORIGIN);
      expect(headers.get('access-control-allow-credentials')).toBeNull();
      expect(headers.get('access-control-allow-methods')).toBe('GET, POST, PUT, PATCH, DELETE');
      const names = (headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ');
      for (const name of ['authorization', 'content-type', 'if-match', 'idempotency-key', 'x-tenant-id', 'x-api-key']) {
        expect(names).toContain(name);
      }
      expect(names).not.toContain('x-admin-secret');
      expect(headers.get('access-control-max-age')).toBe('600');
      expect(headers.get('vary')).toContain('Origin');
    }
  });

  test('has no CORS headers for any other origin, and none outside of the API', async () => {
    const host = ORIGIN.slice('https://'.length);
    const others = [UNLISTED, 'null', '*', `http://${host}`, `${ORIGIN}:8443`, `${ORIGIN}.evil.test`, `${ORIGIN}/`];
    for (const origin of [...others, ORIGIN.toUpperCase(), `https://x.${host}`, `https://${'a'.repeat(9_000)}.com`]) {
      expect(allowed(await preflight(origin)), origin.slice(0, 80)).toBeNull();
    }
    for (const path of ['/health', '/ready', '/metrics', '/swagger', '/swagger/json', '/', '/apix']) {
      expect(allowed(await preflight(ORIGIN, path)), path).toBeNull();
      expect(allowed(await from(service.anonymous, ORIGIN).get(path)), path).toBeNull();
    }
  });

  test('passes or not for each of many that ask at once', async () => {
    const tenants = await Promise.all([1, 2, 3].map(() => service.tenant()));
    const listed = tenants.map(() => `https://${crypto.randomUUID()}.example.com`);
    await Promise.all(tenants.map((one, at) => listOrigins(one, [listed[at]])));
    const unlisted = Array.from({ length: 100 }, () => `https://${crypto.randomUUID()}.example.com`);
    const asked = unlisted.flatMap((origin, at) => [origin, ...listed.slice(at, at + 1)]);
    // The process has room for 20 requests of a client.
    const passed: (string | null)[] = [];
    for (let at = 0; at < asked.length; at += 16) {
      const part = asked.slice(at, at + 16);
      passed.push(...(await Promise.all(part.map(async (origin) => allowed(await preflight(origin))))));
    }
    expect(passed).toEqual(asked.map((origin) => (listed.includes(origin) ? origin : null)));
  });

  test('follows the lists at once: changed, suspended, deleted, revoked, expired', async () => {
    const own = await service.tenant();
    const mine = `https://${crypto.randomUUID()}.example.com`;
    const passes = async (): Promise<boolean> => allowed(await preflight(mine)) === mine;
    expect(await passes()).toBe(false);
    await listOrigins(own, [mine]);
    expect(await passes()).toBe(true);
    await listOrigins(own, []);
    expect(await passes()).toBe(false);
    const { id } = await createPublicKey(own, { allowedOrigins: [mine] });
    expect(await passes()).toBe(true);
    await own.patch(`/api/auth/public-keys/${id}`, { allowedOrigins: [] });
    expect(await passes()).toBe(false);
    await own.patch(`/api/auth/public-keys/${id}`, { allowedOrigins: [mine] });
    await own.delete(`/api/auth/public-keys/${id}`);
    expect(await passes()).toBe(false);
    await listOrigins(own, [mine]);
    const slug = `/api/admin/platform/tenants/${own.slug}`;
    await service.admin.patch(slug, { status: 'suspended' });
    expect(await passes()).toBe(false);
    await service.admin.patch(slug, { status: 'active' });
    expect(await passes()).toBe(true);
    await service.admin.delete(`${slug}?confirm=${own.slug}`);
    expect(await passes()).toBe(false);
  });

  test('passes for a public key’s origin until the key expires', async () => {
    const mine = `https://${crypto.randomUUID()}.example.com`;
    const { id } = await createPublicKey(tenant, { allowedOrigins: [mine] });
    await service.app.db.rows(sql`
      update platform.public_keys set expires_at = now() + interval '1500 milliseconds' where id = ${id}::uuid`);
    expect(allowed(await preflight(mine))).toBe(mine);
    for (let passes = true; passes; ) passes = allowed(await preflight(mine)) === mine;
  });
});

describe('a response', () => {
  test('to every credential of the tenant may be read by its pages: header values too, credentials never', async () => {
    const kinds = await everyKind(service, tenant);
    for (const kind of ['owner_key', 'platform_key', 'user', 'developer', 'bot', 'admin_session']) {
      const answer = await from(service.anonymous.with(kinds[kind] as Record<string, string>), ORIGIN).get(
        '/api/entities',
      );
      expect([kind, answer.status, allowed(answer)]).toEqual([kind, 200, ORIGIN]);
      expect(answer.headers.get('vary')).toContain('Origin');
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
      const exposed = answer.headers.get('access-control-expose-headers')?.split(', ');
      const names = ['ETag', 'Retry-After', 'RateLimit', 'RateLimit-Policy', 'X-Request-Id', 'Idempotent-Replayed'];
      expect(exposed).toEqual(expect.arrayContaining([...names, 'Changes-Cursor']));
    }
  });

  test('from any other origin, also one that another tenant lists, has no CORS headers but says that it varies', async () => {
    const other = await service.tenant();
    const foreign = `https://${crypto.randomUUID()}.example.com`;
    await listOrigins(other, [foreign]);
    for (const origin of [foreign, UNLISTED, 'null']) {
      const answer = await from(tenant, origin).get(LIST);
      expect([origin, answer.status, allowed(answer)]).toEqual([origin, 200, null]);
      expect(answer.headers.get('vary')).toContain('Origin');
      expect(allowed(await from(tenant, origin).get('/api/entities/nothing'))).toBeNull();
    }
    expect((await tenant.get(LIST)).headers.get('vary')).toContain('Origin');
  });

  test('that is an error can be read too: 400, 401, 403, 404, 405, 409, 412, 413, 415, 429', async () => {
    const page = from(tenant, ORIGIN);
    const unknown = from(service.anonymous, ORIGIN);
    const { email } = await addUser(tenant, { role: 'viewer' });
    const headers = { 'x-tenant-id': tenant.slug, ...newAddress() };
    const login = await service.anonymous.post('/api/auth/tenant/login', { email, password: PASSWORD }, headers);
    const viewer = unknown.with({ authorization: `Bearer ${login.body.data.token}` });
    const attempt = { email, password: 'wrong' };
    const guesses: Answer[] = [];
    for (let i = 0; i < 21; i++) guesses.push(await unknown.post('/api/auth/tenant/login', attempt, headers));
    const record = `${LIST}/${(await tenant.post(LIST, {})).body.data.id}`;
    const answers: [number, Answer][] = [
      [400, await page.get(`${LIST}?limit=0`)],
      [400, await page.request('POST', LIST, '{"text":', { 'content-type': 'application/json' })],
      [400, await page.post(LIST, {}, { 'idempotency-key': 'x'.repeat(300) })],
      [400, await page.get('/api/changes?since=nonsense')],
      [400, await page.get(`${LIST}?unknown=1`)],
      [401, await unknown.get(LIST)],
      [401, await unknown.with({ authorization: 'Bearer nonsense' }).get(LIST)],
      [401, await unknown.get(`/api/v1/tenants/${tenant.slug}/events/stream?ticket=used`)],
      [403, await viewer.post(LIST, {})],
      [404, await page.get('/api/entities/nothing')],
      [404, await page.get('/api/nowhere')],
      [404, await page.get('/api//entities')],
      [404, await unknown.get('/api/nowhere')],
      [405, await page.put('/api/keys', {})],
      [409, await page.post('/api/entities', { name: 'orders' })],
      [412, await page.patch(record, {}, { 'if-match': '"7"' })],
      [413, await page.post(LIST, { text: 'x'.repeat(30_000) })],
      [413, await unknown.post('/api/auth/tenant/login', { text: 'x'.repeat(30_000) })],
      [415, await page.request('POST', LIST, 'x', { 'content-type': 'text/plain' })],
      [429, guesses.at(-1) as Answer],
    ];
    for (const [status, answer] of answers) {
      expect([status, answer.status, allowed(answer)], answer.text).toEqual([status, status, ORIGIN]);
      expect(answer.headers.get('access-control-expose-headers')).toContain('X-Request-Id');
    }
    for (const { status, headers: given } of guesses) {
      expect([status === 401 || status === 429, given.get('access-control-allow-origin')]).toEqual([true, ORIGIN]);
    }
    expect(allowed(await from(service.anonymous, UNLISTED).get(LIST))).toBeNull();
  });

  test('to a path with a doubled slash is a 404 that can be read, also after its preflight', async () => {
    for (const [method, status] of [
      ['OPTIONS', 204],
      ['GET', 404],
    ] as const) {
      const { port } = new URL(service.url);
      const sent = request({ port, method, path: `/${LIST}`, headers: { origin: ORIGIN } }).end();
      const [answer] = (await once(sent, 'response')) as [IncomingMessage];
      expect([answer.statusCode, answer.headers['access-control-allow-origin']]).toEqual([status, ORIGIN]);
      answer.resume();
    }
  });

  test('to login, register, forgot and reset follows the tenant in the header', async () => {
    const other = await service.tenant();
    const theirs = `https://${crypto.randomUUID()}.example.com`;
    await listOrigins(other, [theirs]);
    await tenant.patch('/api/tenant', { settings: { selfRegistration: true, passwordReset: true } });
    const { email } = await addUser(tenant);
    const bodies: [string, Json, number][] = [
      ['login', { email, password: PASSWORD }, 200],
      ['login', { email, password: 'wrong' }, 401],
      ['register', { email: `r${Date.now()}@example.com`, password: PASSWORD, name: 'R' }, 201],
      ['register', { email: 'nonsense' }, 400],
      ['forgot-password', { email }, 200],
      ['reset-password', { token: 'svc_rst_unknown', password: PASSWORD }, 400],
    ];
    for (const [path, body, status] of bodies) {
      const headers = { 'x-tenant-id': tenant.slug, ...newAddress() };
      const own = await from(service.anonymous, ORIGIN).post(`/api/auth/tenant/${path}`, body, headers);
      // Registering twice is a conflict, which the page can read as well.
      expect([path, own.status, allowed(own)]).toEqual([path, status, ORIGIN]);
      const foreign = await from(service.anonymous, theirs).post(`/api/auth/tenant/${path}`, body, headers);
      expect([path, allowed(foreign)]).toEqual([path, null]);
    }
  });

  test('to an invitation, whose token names the tenant, can be read by every listed origin', async () => {
    const token = await invite(tenant);
    expect(allowed(await from(service.anonymous, ORIGIN).get(`/auth/invite/${token}`))).toBe(ORIGIN);
    expect(allowed(await from(service.anonymous, UNLISTED).get(`/auth/invite/${token}`))).toBeNull();
  });

  test('to a public key follows the key’s own list alone', async () => {
    const mine = `https://${crypto.randomUUID()}.example.com`;
    const { key } = await createPublicKey(tenant, { allowedOrigins: [mine] });
    const holder = service.anonymous.with({ 'x-public-key': key });
    const [own, theTenants] = [await from(holder, mine).get(LIST), await from(holder, ORIGIN).get(LIST)];
    expect([own.status, allowed(own), theTenants.status, allowed(theTenants)]).toEqual([200, mine, 403, null]);
    const { key: everywhere } = await createPublicKey(tenant);
    const answer = await from(service.anonymous.with({ 'x-public-key': everywhere }), ORIGIN).get(LIST);
    expect([answer.status, allowed(answer)]).toEqual([200, null]);
  });

  test('to a request that waits for changes follows the list as it is when the response is sent', async () => {
    const own = await service.tenant();
    await own.post('/api/entities', { name: 'orders' });
    await listOrigins(own, [ORIGIN]);
    const { id, key } = await createPublicKey(own, { allowedOrigins: [ORIGIN], scopes: ['channels:read'] });
    const followers = [own, service.anonymous.with({ 'x-public-key': key })].map((client) => from(client, ORIGIN));
    const waiting = followers.map(async (client) => {
      const since = (await client.get('/api/changes')).body.data.nextCursor;
      return client.get(`/api/changes?since=${since}&wait=20`);
    });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await listOrigins(own, [UNLISTED]);
    const moved = await own.patch(`/api/auth/public-keys/${id}`, { allowedOrigins: [UNLISTED] });
    expect(moved.status).toBe(200);
    await invalidationsReceived(service, own.id);
    expect((await own.post(LIST, {})).status).toBe(201);
    const answers = await Promise.all(waiting);
    expect(answers.map((answer) => [answer.status, allowed(answer)])).toEqual([
      [200, null],
      [403, null],
    ]);
  });

  test('to an operator cannot be read by a tenant’s pages, unless it acts in that tenant', async () => {
    const page = from(service.admin, ORIGIN);
    expect(allowed(await page.get('/api/admin/platform/tenants'))).toBeNull();
    expect(allowed(await page.get('/api/tenant', { 'x-tenant-id': tenant.slug }))).toBe(ORIGIN);
  });

  test('that says 503, because the process has no room for the tenant or the client, can be read', async () => {
    const page = from(tenant.with(newAddress()), ORIGIN);
    const address = newAddress();
    const stranger = from(service.anonymous.with(address), ORIGIN);
    const json = { 'content-type': 'application/json', 'x-tenant-id': tenant.slug, ...address };
    const ended = new AbortController();
    const held = (path: string, { method, headers }: Pick<RequestInit, 'method' | 'headers'>) => {
      const body = method === 'POST' ? new ReadableStream({ start: (body) => body.enqueue(Buffer.from('{')) }) : null;
      const { url } = service;
      void fetch(url + path, { method, headers, body, signal: ended.signal }).catch(() => undefined);
    };
    try {
      const since = (await tenant.get('/api/changes')).body.data.nextCursor;
      for (const [client, hold] of [
        [page, () => held(`/api/changes?wait=30&since=${since}`, { headers: { 'x-api-key': tenant.key } })],
        [stranger, () => held('/api/auth/tenant/login', { method: 'POST', headers: json })],
      ] as const) {
        let answer = await client.get(LIST);
        for (let i = 0; i < 100 && answer.status !== 503; i++) {
          hold();
          answer = await client.get(LIST);
        }
        expect([answer.status, allowed(answer)]).toEqual([503, ORIGIN]);
        expect(answer.headers.get('access-control-expose-headers')).toContain('Retry-After');
      }
    } finally {
      ended.abort();
    }
  });

  test('to a preflight succeeds while the database is unavailable', async () => {
    if (process.env.SERVICE_RUNTIME === 'deno') return;
    await tenant.get(LIST);
    await preflight(ORIGIN);
    const { db } = service.app;
    const first = db.first;
    const failing = (): Promise<never> => Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }));
    Object.assign(db, { first: failing });
    try {
      expect(allowed(await preflight(ORIGIN))).toBe(ORIGIN);
    } finally {
      Object.assign(db, { first });
    }
  });
});

describe('MCP', () => {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };

  test('takes pages of the origins that the caller’s tenant lists, and refuses all others', async () => {
    const other = await service.tenant();
    const post = async (client: Client, origin: string) => client.with({ ...headers, origin }).post('/mcp', message);
    const own = await post(tenant, ORIGIN);
    expect([own.status, allowed(own)]).toEqual([200, ORIGIN]);
    const anonymous = await post(service.anonymous, ORIGIN);
    expect([anonymous.status, allowed(anonymous)]).toEqual([200, ORIGIN]);
    const foreign = await post(other, ORIGIN);
    expect([foreign.status, allowed(foreign)]).toEqual([403, null]);
    for (const origin of [UNLISTED, 'null']) expect((await post(tenant, origin)).status).toBe(403);
    expect((await post(service.admin, ORIGIN)).status).toBe(403);
  });
});

describe('a WebSocket', () => {
  const answerTo = async (token: string, origin: string): Promise<string> =>
    (await keep(await openSocket(service.url, { origin })).ask({ type: 'auth', token })).type;

  test('takes tokens from listed origins and its own pages, once the tenant lists origins', async () => {
    const own = await service.tenant();
    const token = await adminSession(service, own);
    expect(await answerTo(token, UNLISTED), 'no list yet').toBe('auth_ok');
    await listOrigins(own, [ORIGIN]);
    expect(await answerTo(token, ORIGIN)).toBe('auth_ok');
    expect(await answerTo(token, service.url)).toBe('auth_ok');
    for (const origin of [UNLISTED, 'null', `${ORIGIN}.evil.test`])
      expect(await answerTo(token, origin)).toBe('auth_error');
    const program = keep(await openSocket(service.url));
    expect((await program.ask({ type: 'auth', token })).type).toBe('auth_ok');
  });

  test('of a page is closed when its origin is removed from the list', async () => {
    const own = await service.tenant();
    await listOrigins(own, [ORIGIN]);
    const socket = keep(await openSocket(service.url, { origin: ORIGIN }));
    await socket.ask({ type: 'auth', token: await adminSession(service, own) });
    await listOrigins(own, [UNLISTED]);
    await invalidationsReceived(service, own.id);
    expect(await socket.ended()).toBe(4401);
  });
});
