import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded } from '../src/runtime/embedded.ts';
import { createLog } from '../src/runtime/log.ts';
import { createPublicKey } from './support/people.ts';
import { privateRedis } from './support/private-servers.ts';
import { type Client, clientOf, startService, type TestService, type TestTenant } from './support/service.ts';
import { givenDatabaseUrl } from './support/stores.ts';

const LIST = '/api/entities/orders/records';
const redis = await privateRedis();
const dataDir = await mkdtemp(join(tmpdir(), 'rate-limit-'));
const log = createLog({ level: 'error', readable: false, write: () => undefined });
const given = givenDatabaseUrl();
const embedded = given ? undefined : await startEmbedded(dataDir, log);
const stores = { DATABASE_URL: given || (embedded?.url as string), ...(redis ? { REDIS_URL: redis.url } : {}) };

const one = await startService(stores);

afterAll(async () => {
  await one.stop();
  await embedded?.stop();
  await redis?.remove();
  await rm(dataDir, { recursive: true, force: true });
});

async function withOrders(service: TestService): Promise<TestTenant> {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'orders' });
  return tenant;
}

const at = (service: TestService, key: string): Client => clientOf(service.url, { 'x-public-key': key });

describe('public keys', () => {
  test('every response has the limits and the remaining quota in its headers', async () => {
    const { key } = await createPublicKey(await withOrders(one));
    const before = Math.floor(Date.now() / 1_000);
    const { headers } = await at(one, key).get(LIST);
    const after = Math.ceil(Date.now() / 1_000);
    expect(headers.get('ratelimit-policy')).toBe('"permin";q=60;w=60, "perday";q=1000;w=86400');
    expect(headers.get('ratelimit')).toMatch(/^"permin";r=59;t=60, "perday";r=999;t=86400$/);
    expect(headers.get('x-ratelimit-limit')).toBe('60');
    expect(headers.get('x-ratelimit-remaining')).toBe('59');
    const reset = Number(headers.get('x-ratelimit-reset'));
    expect(reset).toBeGreaterThanOrEqual(before + 60);
    expect(reset).toBeLessThanOrEqual(after + 60);
  });

  test('a request over the limit per minute gets 429 with Retry-After, and does not count towards the day', async () => {
    const { key } = await createPublicKey(await withOrders(one), { rateLimitPerMin: 2, rateLimitPerDay: 3 });
    for (let i = 0; i < 2; i++) expect((await at(one, key).get(LIST)).status).toBe(200);
    const { status, headers, body } = await at(one, key).get(LIST);
    expect([status, body.error.code]).toEqual([429, 'RATE_LIMITED']);
    const wait = Number(headers.get('retry-after'));
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(60);
    expect(headers.get('ratelimit')).toBe(`"permin";r=0;t=${wait}`);
    expect(headers.get('ratelimit-policy')).toBe('"permin";q=2;w=60, "perday";q=3;w=86400');
  });

  test('a request over the limit per day gets 429 until the day is over', async () => {
    const { key } = await createPublicKey(await withOrders(one), { rateLimitPerDay: 1 });
    expect((await at(one, key).get(LIST)).status).toBe(200);
    const { status, headers } = await at(one, key).get(LIST);
    expect(status).toBe(429);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(86_000);
  });
});

describe('the general limit', () => {
  test('is off by default, and counts each credential separately when it is on', async () => {
    expect((await (await one.tenant()).get('/api/keys')).headers.get('ratelimit')).toBeNull();
    const limited = await startService({ ...stores, RATE_LIMIT_PER_MIN: '3' });
    const [first, second] = [await one.tenant(), await one.tenant()];
    const read = (tenant: TestTenant) => clientOf(limited.url, { 'x-api-key': tenant.key }).get('/api/keys');
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await read(first)).status);
    expect(statuses).toEqual([200, 200, 200, 429]);
    expect((await read(second)).headers.get('ratelimit')).toMatch(/^"general";r=2;t=60$/);
    await limited.stop();
  });
});

if (redis !== undefined) {
  test('without Redis, credentials with a limit get 503; others are not affected', async () => {
    const tenant = await withOrders(one);
    const { key } = await createPublicKey(tenant);
    await redis.kill();
    const refused = await at(one, key).get(LIST);
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).not.toBeNull();
    expect((await tenant.get(LIST)).status).toBe(200);
    await redis.start();
  });
}
