// The console's files over HTTP: the index page for each of its paths, hashed assets, encodings, headers.
// Contract: interface#console.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { Buffer } from 'node:buffer';
import { get } from 'node:http';
import { startService, type TestService } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

/** Requests a path without the decoding and normalization that `fetch` does. */
function raw(path: string, headers: Record<string, string> = {}, method = 'GET') {
  return new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Buffer }>((resolve, reject) => {
    const { hostname, port } = new URL(service.url);
    get({ hostname, port, path, headers, method }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(parts) }),
      );
    })
      .on('error', reject)
      .end();
  });
}

async function assets(): Promise<string[]> {
  const { body } = await raw('/app');
  return [...body.toString().matchAll(/\/app\/assets\/[^"]+/g)].map(([path]) => path);
}

test('each path of the console is the index page, which no cache keeps', async () => {
  const paths = [
    '/app',
    '/app/',
    '/app/t/acme/records/x?filters=a',
    '/invite/abc',
    '/reset-password?token=1',
    '/app/invite/x',
  ];
  for (const path of paths) {
    const { status, headers, body } = await raw(path);
    expect([path, status, headers['content-type'], headers['cache-control']]).toEqual([
      path,
      200,
      'text/html; charset=utf-8',
      'no-store',
    ]);
    expect(body.toString()).toContain('<div id="root">');
  }
});

test('the policy admits nothing from another host and nothing inline', async () => {
  const { headers, body } = await raw('/app');
  expect(headers['content-security-policy']).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  expect([headers['x-content-type-options'], headers['referrer-policy']]).toEqual(['nosniff', 'no-referrer']);
  expect(body.toString()).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/);
});

test('assets are compressed as the client accepts, immutable, and known by their ETag', async () => {
  const [path = ''] = (await assets()).filter((name) => name.endsWith('.js') && name.includes('main'));
  const plain = await raw(path);
  const codings: [accepted: string, coding: string | undefined][] = [
    ['br, gzip', 'br'],
    ['gzip', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip'],
    ['identity', undefined],
  ];
  for (const [accepted, coding] of codings) {
    const { status, headers, body } = await raw(path, { 'accept-encoding': accepted });
    expect([status, headers['content-encoding'], headers.vary]).toEqual([200, coding, 'Accept-Encoding']);
    expect(body.length < plain.body.length).toBe(coding !== undefined);
    expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
    const again = await raw(path, { 'accept-encoding': accepted, 'if-none-match': String(headers.etag) });
    expect([again.status, again.body.length]).toEqual([304, 0]);
  }
  const head = await raw(path, {}, 'HEAD');
  expect([head.status, head.body.length, head.headers['content-type']]).toEqual([
    200,
    0,
    'text/javascript; charset=utf-8',
  ]);
});

test('no path leads out of the built files', async () => {
  const hostile = [
    '/app/assets/../../package.json',
    '/app/assets/..%2f..%2fpackage.json',
    '/app/assets/%2e%2e/stamp',
    '/app/assets/stamp',
    '/app/assets/index.html',
    '/app/assets/main-00000000.js',
    '/app/assets/%00',
    '/app/assets/__proto__',
  ];
  for (const path of hostile) {
    const { status, body } = await raw(path);
    if (status === 200) expect(body.toString()).toContain('<div id="root">');
    else expect([path, status]).toEqual([path, 404]);
    expect(body.toString()).not.toContain('tenant-data-service"');
  }
});

test('other methods are refused, and the API document leaves the console out', async () => {
  expect((await raw('/app', {}, 'POST')).status).toBe(405);
  const document = await (await fetch(`${service.url}/swagger/json`)).json();
  expect(Object.keys(document.paths).filter((path) => /^\/(app|invite|reset)/.test(path))).toEqual([]);
});
