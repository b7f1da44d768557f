// Compressed responses: which ones are compressed, for which clients, and that their content stays the same.
// Contract: decisions#responses.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { gunzipSync } from 'node:zlib';
import { createEntity } from './support/entities.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
let records: string;

beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  records = await createEntity(tenant, 'notes', [{ key: 'text', type: 'text' }]);
  const operations = Array.from({ length: 50 }, (_, at) => ({
    op: 'create',
    data: { text: `${at} ${'é'.repeat(60)}` },
  }));
  expect((await tenant.post(`${records}/bulk`, { operations })).status).toBe(200);
});
afterAll(async () => service.stop());

/** The response as it was sent. */
async function sent(path: string, acceptEncoding?: string, method = 'GET') {
  const headers = {
    'x-api-key': tenant.key,
    ...(acceptEncoding === undefined ? {} : { 'accept-encoding': acceptEncoding }),
  };
  const response = await fetch(service.url + path, { method, headers, decompress: false } as RequestInit);
  return {
    response,
    coding: response.headers.get('content-encoding'),
    bytes: Buffer.from(await response.arrayBuffer()),
  };
}

test('a list of 1 KiB or more is compressed for a client that accepts gzip, and is the same', async () => {
  const plain = await sent(`${records}?limit=50`, 'identity');
  const packed = await sent(`${records}?limit=50`, 'br;q=0.5, gzip;q=0.8');
  expect([plain.coding, packed.coding]).toEqual([null, 'gzip']);
  expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 5);
  expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true);
  for (const { response } of [plain, packed])
    expect(response.headers.get('vary')?.toLowerCase()).toContain('accept-encoding');
});

test.each([undefined, 'identity', 'deflate', 'gzip;q=0', 'gzip; q=0.00', 'x-gzip2', 'gzip;q=0.4, identity;q=0.5', '*'])(
  'not for Accept-Encoding: %s',
  async (accepted) => {
    const { coding, bytes } = await sent(`${records}?limit=50`, accepted ?? '');
    expect(coding).toBeNull();
    expect(JSON.parse(bytes.toString()).data.items).toHaveLength(50);
  },
);

test('HEAD says that a GET varies by Accept-Encoding, and is about the response that is not compressed', async () => {
  const { bytes } = await sent(records, 'identity');
  for (const accepted of ['identity', 'gzip']) {
    const { response, coding } = await sent(records, accepted, 'HEAD');
    expect([response.status, response.headers.get('vary')]).toEqual([200, expect.stringContaining('Accept-Encoding')]);
    expect([coding, Number(response.headers.get('content-length'))]).toEqual([null, bytes.length]);
  }
});

test('a response of megabytes is compressed in pieces, and is the same', async () => {
  const large = await createEntity(tenant, 'large', [{ key: 'text', type: 'text' }]);
  const text = Array.from({ length: 60_000 }, (_, at) => `${at}`).join(' ');
  for (let at = 0; at < 4; at++) expect((await tenant.post(large, { text })).status).toBe(201);
  const [plain, packed] = [await sent(large, 'identity'), await sent(large, 'gzip')];
  expect(plain.bytes.length).toBeGreaterThan(1_000_000);
  expect(packed.coding).toBe('gzip');
  expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true);
});

test('many at once are all whole, whether compressed or not', async () => {
  const all = await Promise.all(Array.from({ length: 40 }, () => sent(`${records}?limit=50`, 'gzip')));
  for (const { coding, bytes } of all) {
    expect(JSON.parse((coding === 'gzip' ? gunzipSync(bytes) : bytes).toString()).data.items).toHaveLength(50);
  }
});

// Deno compresses by itself what the service leaves as it is.
if (process.env.SERVICE_RUNTIME !== 'deno') {
  test('is not applied to a record, whose ETag names one body, to a response below 1 KiB, or to an export', async () => {
    const created = await tenant.post(records, { text: 'x'.repeat(3_000) });
    for (const path of [
      `${records}/${created.body.data.id}`,
      `${records}?limit=1&fields=id&filters=text%20%3D%20none`,
      `${records}/export`,
    ]) {
      expect((await sent(path, 'gzip')).coding, path).toBeNull();
    }
  });
}
