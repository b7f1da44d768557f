// How much clients without a verified credential can use: places, memory for bodies, attempts, and the queues of a tenant that
// they name. Clients are counted by network: an IPv6 address by its /64.
// Contract: neighbours#connections, neighbours#fair-shares, decisions#lockout.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { networkOf } from '../src/access/request-context.ts';
import { LIMITS } from '../src/limits.ts';
import { RequestPlaces, takenInOf } from '../src/runtime/request-places.ts';
import { currentWork } from '../src/runtime/work.ts';
import { newAddress } from './support/addresses.ts';
import { createEntity, fields } from './support/entities.ts';
import { mailsTo } from './support/mailbox.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const PLACES = 40;
const LOGIN = '/api/auth/tenant/login';
const RECORDS = '/api/entities/task/records';
const isOnDeno = process.env.SERVICE_RUNTIME === 'deno';
let service: TestService;
let tenant: TestTenant;
let other: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1', MAX_CONNECTIONS: String(PLACES) });
  [tenant, other] = [await service.tenant(), await service.tenant()];
  for (const each of [tenant, other]) await createEntity(each, 'task', fields('title text'));
});
afterAll(() => service?.stop());

/** The first half of an IPv6 address. */
const newNetwork = (): string => `fd00:${randomBytes(6).toString('hex').match(/.{4}/g)?.join(':')}`;
/** The X-Forwarded-For header of an address in a network. */
const inNetwork = (network: string) => ({ 'x-forwarded-for': `${network}:${randomBytes(2).toString('hex')}::1` });

interface Upload {
  socket: Socket;
  /** The first line of the response; undefined without one. */
  readonly status: string | undefined;
  readonly isClosed: boolean;
}

/** Sends a request whose body never ends. */
function upload(path: string, headers: Record<string, string>): Upload {
  const { port, hostname } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  const all = { Host: hostname, 'Content-Type': 'application/json', 'Content-Length': '300', ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n{`);
  const state = { received: '', isClosed: false };
  socket.on('data', (data) => {
    state.received += data;
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    state.isClosed = true;
  });
  return {
    socket,
    get status() {
      return /^HTTP\/1.1 (\d+)/.exec(state.received)?.[1];
    },
    get isClosed() {
      return state.isClosed;
    },
  };
}

async function until(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const endsAt = performance.now() + 60_000; !(await isTrue()); await delay(10)) {
    if (performance.now() > endsAt) throw new Error(`not in time: ${what}`);
  }
}

async function inFlight(): Promise<number> {
  const { text } = await service.admin.get('/metrics');
  // Not counting the asking request.
  return Number(/^svc_requests_in_flight (\d+)/m.exec(text)?.[1]) - 1;
}

/** Opens uploads until the service refuses one, and closes them after `work`. Resolves to the refused one. */
async function whileFull(open: () => Upload, work: (refused: Upload) => Promise<void>): Promise<void> {
  const uploads: Upload[] = [];
  try {
    for (;;) {
      const last = open();
      uploads.push(last);
      const held = uploads.length;
      await until(async () => last.status !== undefined || (await inFlight()) >= held, `${held} uploads`);
      if (last.status === undefined) continue;
      await work(last);
      return;
    }
  } finally {
    for (const { socket } of uploads) socket.destroy();
    await until(async () => (await inFlight()) === 0, 'uploads still count');
  }
}

describe('requests at once', () => {
  test('a client’s network has at most half of the places, whichever of its addresses it uses, and others find one', async () => {
    const network = newNetwork();
    await whileFull(
      () => upload(LOGIN, inNetwork(network)),
      async (refused) => {
        expect(refused.status).toBe('503');
        if (!isOnDeno) await until(() => refused.isClosed, 'the connection is open');
        const { status, headers, body } = await service.anonymous.get(RECORDS, inNetwork(network));
        expect([status, body.error.code, headers.get('retry-after')]).toEqual([503, 'SERVICE_UNAVAILABLE', '2']);
        expect((await service.anonymous.get('/health', newAddress())).status).toBe(200);
        expect((await other.get(RECORDS, newAddress())).status).toBe(200);
      },
    );
  });

  test('requests with a verified credential count for their tenant, from whichever addresses they come', async () => {
    await whileFull(
      () => upload(RECORDS, { 'X-API-Key': tenant.key, ...newAddress() }),
      async (refused) => {
        expect(refused.status).toBe('503');
        expect((await tenant.get(RECORDS, newAddress())).status).toBe(503);
        expect((await other.get(RECORDS, newAddress())).status).toBe(200);
        expect((await service.anonymous.get('/health', newAddress())).status).toBe(200);
      },
    );
    expect((await tenant.get(RECORDS, newAddress())).status).toBe(200);
  });
});

describe('bodies', () => {
  test.each([
    ['login', LOGIN],
    ['registration', '/api/auth/tenant/register'],
    ['forgotten password', '/api/auth/tenant/forgot-password'],
    ['reset', '/api/auth/tenant/reset-password'],
    ['invitation', '/auth/invite/accept'],
    ['MCP', '/mcp'],
  ])('of a request that needs no credential have at most 16 KiB: %s', async (_, path) => {
    const { openMax } = LIMITS.body;
    const sized = (bytes: number) => ({ token: 'x'.repeat(bytes - '{"token":""}'.length) });
    const send = (bytes: number) =>
      service.anonymous.post(path, sized(bytes), { 'x-tenant-id': tenant.slug, ...newAddress() });
    expect((await send(openMax)).status).not.toBe(413);
    expect((await send(openMax + 1)).status).toBe(413);
  });

  test('with a credential may be larger', async () => {
    const title = 'x'.repeat(2 * LIMITS.body.openMax);
    expect((await tenant.post(RECORDS, { title }, newAddress())).status).toBe(201);
  });

  test('that are incomplete share a budget of bytes; those without a verified credential have their own', () => {
    const places = new RequestPlaces({ maxConnections: 1_000, maxBodyBytes: 1_048_576 });
    const { strangersBytes, tenantsBytes } = LIMITS.body;
    const fill = (bytes: number, share: (n: number) => { add(bytes: number): void }): number => {
      for (let count = 0; ; count++) {
        try {
          share(count).add(bytes);
        } catch (error) {
          expect(error).toMatchObject({ status: 503, headers: { 'retry-after': '2', connection: 'close' } });
          return count * bytes;
        }
      }
    };
    const stranger = () => places.enter('192.0.2.1')?.receiving() as { add(bytes: number): void };
    expect(fill(1_048_576, stranger)).toBe(strangersBytes / 2);
    const ofTenant = (n: number) => {
      const place = places.enter(`198.51.100.${n}`);
      place?.moveTo('a tenant');
      return place?.receiving() as { add(bytes: number): void };
    };
    expect(fill(1_048_576, ofTenant)).toBe(tenantsBytes / 2);
    const last = places.enter('2001:db8::1');
    const arriving = last?.receiving();
    arriving?.add(1_048_576);
    expect(places.bodyBytes).toBe(strangersBytes / 2 + tenantsBytes / 2 + 1_048_576);
    arriving?.end();
    last?.leave();
    expect(places.bodyBytes).toBe(strangersBytes / 2 + tenantsBytes / 2);
  });
});

test('bytes of a tenant’s bodies that the runtime has received count until their requests are answered', () => {
  const places = new RequestPlaces({ maxConnections: 1_000, maxBodyBytes: 1_048_576 });
  const { tenantsBytes, takenIn } = LIMITS.body;
  const post = (headers: Record<string, string>) => {
    const place = places.enter('192.0.2.1', takenInOf(new Request('http://localhost', { method: 'POST', headers })));
    place?.moveTo('a tenant');
    return place;
  };
  const declared = () => post({ 'content-length': String(10 * takenIn.declared) });
  const held = Array.from({ length: tenantsBytes / 2 / takenIn.declared }, declared);
  expect(places.bodyBytes).toBe(tenantsBytes / 2);
  expect(declared).toThrow('too many request bodies');
  const body = held[0]?.receiving();
  body?.add(takenIn.declared);
  expect(() => body?.add(1)).toThrow('too many request bodies');
  body?.end();
  expect(places.bodyBytes).toBe(tenantsBytes / 2);
  held[0]?.leave();
  expect(places.bodyBytes).toBe(tenantsBytes / 2 - takenIn.declared);
  post({ 'transfer-encoding': 'chunked' });
  expect(places.bodyBytes).toBe(tenantsBytes / 2 - takenIn.declared + takenIn.undeclared);
  expect(post({})).toBeDefined();
});

describe('networks', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['192.0.2.7:1234', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::'],
    ['2001:DB8:1:2::9', '2001:db8:1:2::'],
    ['[2001:db8:1:2::9]:443', '2001:db8:1:2::'],
    ['2001:db8:1:3::9', '2001:db8:1:3::'],
    ['::1', '::'],
    ['unknown', 'unknown'],
    [`_${'x'.repeat(100)}`, `_${'x'.repeat(63)}`],
    ['', ''],
  ])('%j belongs to %j', (address, network) => expect(networkOf(address)).toBe(network));

  test('the addresses of an IPv6 /64 share the attempts of a minute; another /64 has its own', async () => {
    const network = newNetwork();
    const attempt = (from: Record<string, string>) =>
      service.anonymous.post(
        LOGIN,
        { email: 'nobody@example.com', password: 'x' },
        { 'x-tenant-id': 'no-such-tenant', ...from },
      );
    const inOne = { ...inNetwork(network) };
    const prefix = inOne['x-forwarded-for'].replace('::1', '');
    const statuses: number[] = [];
    for (let i = 0; i <= LIMITS.attempts.perAddress; i++) {
      statuses.push((await attempt({ 'x-forwarded-for': `${prefix}::${i.toString(16)}` })).status);
    }
    expect(statuses.slice(0, -1).every((status) => status === 404)).toBe(true);
    expect(statuses.at(-1)).toBe(429);
    expect((await attempt(newAddress())).status).toBe(404);
  });
});

describe('a tenant that strangers name', () => {
  test('keeps its own quota of requests', async () => {
    const { slug } = tenant;
    const path = `/api/admin/platform/tenants/${slug}`;
    await service.admin.patch(path, { quotas: { requestsPerMin: 2 } }, newAddress());
    const wrong = { email: 'nobody@example.com', password: 'x' };
    for (let i = 0; i < 5; i++) {
      const answer = await service.anonymous.post(LOGIN, wrong, { 'x-tenant-id': slug, ...newAddress() });
      expect(answer.status).toBe(401);
      expect(answer.headers.get('ratelimit-policy')).not.toContain('tenant');
    }
    for (const status of [200, 200, 429]) expect((await tenant.get(RECORDS, newAddress())).status).toBe(status);
    await service.admin.patch(path, { quotas: { requestsPerMin: null } }, newAddress());
  });

  test('keeps its places in queues: work that strangers start waits in a separate queue', async () => {
    if (isOnDeno) return;
    await other.patch('/api/tenant', { settings: { passwordReset: true } }, newAddress());
    const { mail } = service.app;
    const send = mail.send.bind(mail);
    const shares: string[] = [];
    mail.send = (message) => {
      shares.push(currentWork().share);
      return send(message);
    };
    const body = { email: 'nobody@example.com' };
    const forgot = (from: Record<string, string>) =>
      service.anonymous.post('/api/auth/tenant/forgot-password', body, { 'x-tenant-id': other.slug, ...from });
    expect((await forgot(newAddress())).status).toBe(200);
    expect((await other.post('/api/invitations', { email: 'ada@example.com' }, newAddress())).status).toBe(201);
    expect(shares).toEqual([`strangers:${other.id}`, other.id]);
    const network = newAddress();
    const statuses = new Set<number>();
    for (let i = 0; i < LIMITS.attempts.perAddress + 5; i++) statuses.add((await forgot(network)).status);
    expect(statuses).toEqual(new Set([200]));
    expect(shares).toHaveLength(2 + LIMITS.attempts.perAddress);
    expect(await mailsTo(service, 'ada@example.com')).toHaveLength(1);
  });
});
