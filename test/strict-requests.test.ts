// Strict requests: unknown and repeated query parameters are refused, by name, after 401, 403 and 404 and before the body is
// checked.
// Contract: neighbours#strict-requests.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { connect } from 'node:net';
import { nearestName } from '../src/runtime/nearest-name.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'deals', fields: [{ key: 'title', type: 'text' }] });
});
afterAll(async () => service.stop());

const RECORDS = '/api/entities/deals/records';
const UNKNOWN_ID = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';

/** The problems of a 400, as `path: message`. */
async function problems(path: string): Promise<string[]> {
  const { status, body } = await tenant.get(path);
  expect([path, status]).toEqual([path, 400]);
  return body.error.details.map(({ path, message }: { path: string; message: string }) => `${path}: ${message}`);
}

/** The first line of the response to raw bytes. */
async function statusLine(bytes: string): Promise<string> {
  return (await received(bytes)).split('\r\n')[0] ?? '';
}

/** Everything received until the service closes the connection. */
async function received(bytes: string): Promise<string> {
  const { hostname, port } = new URL(service.app.address);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => socket.destroy());
  socket.write(bytes);
  await once(socket, 'close');
  return text;
}

describe('query parameters', () => {
  test('one response names each unknown and repeated one and each invalid value, with the nearest name', async () => {
    expect(await problems(`${RECORDS}?filter=x&limit=0&page=1&page=2&where=y&resolveDepth=2`)).toEqual([
      'filter: unknown; did you mean filters?',
      'page: is given more than once',
      'where: unknown',
      'resolveDepth: unknown; did you mean resolve_depth?',
      'limit: must be a whole number from 1 to 100',
    ]);
  });

  test('credentials in a query, encoded and odd names are unknown like any other', async () => {
    for (const name of ['access_token', 'token', 'apikey', '__proto__', 'constructor', 'toString', 'FILTERS ']) {
      const [first] = await problems(`${RECORDS}?${encodeURIComponent(name)}=x`);
      expect(first).toStartWith(`${name}: unknown`);
    }
    expect(await problems(`${RECORDS}?=x`)).toEqual(['(empty name): unknown']);
    expect(await problems(`${RECORDS}?%ff=x`)).toEqual(['%ff: unknown']);
    expect(await problems(`${RECORDS}?a&a`)).toEqual(['a: unknown']);
    expect(await problems(`${RECORDS}?limit=1;page=2`)).toEqual(['limit: must be a whole number from 1 to 100']);
    expect(await problems(`${RECORDS}?search=%ff`)).toEqual(['search: is not valid UTF-8 in percent-encoding']);
    expect(await problems(`${RECORDS}?search=%00`)).toEqual(['search: contains a NUL character']);
    expect(await problems(`${RECORDS}?${'a=1&'.repeat(3000)}limit=x`)).toHaveLength(2);
  });

  test('names and values may be percent-encoded; empty parts are ignored', async () => {
    await tenant.post(RECORDS, { title: 'a b' });
    for (const query of ['?', '?&', '?&&limit=1&', '?fil%74ers=title%20%3D%20%22a+b%22', '?filter.title=a+b']) {
      const { status, body } = await tenant.get(`${RECORDS}${query}`);
      expect([query, status, body.data?.total]).toEqual([query, 200, 1]);
    }
    expect(await problems(`${RECORDS}?filter.title=a&filter.title=b`)).toEqual([
      'filter.title: is given more than once',
    ]);
  });

  test('routes without parameters refuse every one, except the operational ones', async () => {
    expect(await problems('/api/entities?x=1')).toEqual(['x: unknown; this route takes no parameters']);
    for (const path of ['/health', '/ready', '/swagger', '/swagger/json']) {
      expect([path, (await tenant.get(`${path}?x=1&x=2`)).status]).toEqual([path, 200]);
    }
    expect((await service.admin.get('/metrics?x=1')).status).toBe(200);
  });

  test('an import with an unknown parameter writes nothing', async () => {
    const before = (await tenant.get(RECORDS)).body.data.total;
    const response = await fetch(`${service.app.address}${RECORDS}/import?nothing=1`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tenant.key}`, 'content-type': 'application/x-ndjson' },
      body: '{"title":"x"}\n',
    });
    expect(response.status).toBe(400);
    expect((await tenant.get(RECORDS)).body.data.total).toBe(before);
  });

  test('401, 403 and 404 go first, and the body last', async () => {
    const person = { email: 'reader@acme.test', name: 'R', role: 'viewer', password: 'a-long-password' };
    expect((await tenant.post('/api/users', person)).status).toBe(201);
    const { email, password } = person;
    const login = await service.anonymous.post(
      '/api/auth/tenant/login',
      { email, password },
      { 'x-tenant-slug': tenant.slug },
    );
    const as = { authorization: `Bearer ${login.body.data.token}` };
    const RECORD = `${RECORDS}/${UNKNOWN_ID}`;
    const cases: [number, string, string, Record<string, string>?][] = [
      [401, 'get', RECORDS, { authorization: '' }],
      [401, 'delete', RECORD, { authorization: 'Bearer wrong' }],
      [403, 'post', RECORDS, as],
      [403, 'delete', RECORD, as],
      [403, 'post', '/api/views', as],
      [403, 'get', '/api/admin/platform/tenants'],
      [404, 'get', '/api/nothing'],
      [404, 'get', '/api/entities/nothing/records'],
      [404, 'post', '/api/entities/nothing/records'],
      [404, 'post', '/api/entities/nothing/records/import'],
      [404, 'get', RECORD],
      [404, 'patch', RECORD],
      [404, 'delete', RECORD],
      [404, 'patch', `/api/users/${UNKNOWN_ID}`],
      [404, 'get', '/api/views/nothing/records'],
      [404, 'get', `/api/webhooks/subscriptions/${UNKNOWN_ID}/deliveries`],
      [404, 'patch', '/api/entities/nothing'],
      [404, 'delete', '/api/entities/nothing/fields/x'],
      [400, 'post', RECORDS],
      [400, 'post', '/api/views'],
      [400, 'post', '/api/users'],
      [400, 'post', '/api/auth/tenant/login', { authorization: '' }],
      [405, 'put', RECORDS],
    ];
    for (const [status, method, path, headers = {}] of cases) {
      const response = await fetch(`${service.app.address}${path}?nothing=1`, {
        method: method.toUpperCase(),
        headers: { authorization: `Bearer ${tenant.key}`, 'content-type': 'application/json', ...headers },
        ...(method === 'get' ? {} : { body: '{ not json' }),
      });
      expect([method, path, response.status, await response.clone().text()]).toEqual([
        method,
        path,
        status,
        expect.anything(),
      ]);
      if (status === 400)
        expect(((await response.json()) as { error: { message: string } }).error.message).toStartWith(
          'nothing: unknown',
        );
    }
  });

  test('the nearest name is found for small mistakes only', () => {
    const names = ['filters', 'limit', 'resolve_depth', 'sort'];
    for (const [given, near] of [
      ['filter', 'filters'],
      ['LIMIT', 'limit'],
      ['resolvedepth', 'resolve_depth'],
      ['srot', undefined],
      ['sorts', 'sort'],
      ['where', undefined],
      ['x', undefined],
      ['a'.repeat(10_000), undefined],
    ]) {
      expect([given, nearestName(given as string, names)]).toEqual([given, near]);
    }
  });
});

describe('paths and framing', () => {
  test('only the exact path is served', async () => {
    const get = (path: string) => statusLine(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    expect(await get('/health')).toContain(' 200');
    for (const path of [
      '//health',
      '/health/',
      '/health//',
      '/%68ealth',
      '/Health',
      '/health;x=1',
      '/health%2F',
      '/api/../%2e/health%5c',
      '//api/entities',
      '/api//entities',
      '/api/entities/',
    ]) {
      expect([path, await get(path)]).toEqual([path, expect.stringContaining(' 404')]);
    }
  });

  test('several lengths, or a length beside chunks, are 400', async () => {
    for (const headers of [
      'Content-Length: 2\r\nContent-Length: 2',
      'Content-Length: 2\r\nContent-Length: 3',
      'Transfer-Encoding: chunked\r\nContent-Length: 2',
      'X-A: b\r\n c: d\r\nContent-Length: 2',
    ]) {
      const line = await statusLine(
        `POST /api/auth/tenant/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n${headers}\r\n\r\n{}`,
      );
      expect([headers, line]).toEqual([headers, expect.stringContaining(' 400')]);
    }
  });

  // Bun closes the connection when a second request arrives before the first response: oven-sh/bun#38128. When this
  // fails, Bun has changed: update docs/how-to/behind-a-proxy.md.
  test('a pipelined pair gets either both responses, in order, or none and a closed connection', async () => {
    const request = `GET ${RECORDS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tenant.key}\r\n`;
    const text = await received(`${request}\r\n${request}Connection: close\r\n\r\n`);
    expect(text.match(/HTTP\/1\.1 200/g) ?? []).toHaveLength(process.env.SERVICE_RUNTIME === 'deno' ? 2 : 0);
  });
});
