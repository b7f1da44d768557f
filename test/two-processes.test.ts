// Two processes of the service on one Postgres and one Redis: a write in one reaches streams in both, once; connection
// limits hold across both; a right revoked in one is revoked in the other; if one is killed, the other continues and
// the connection leases of the killed one expire. Contract: decisions#events, interface#limits.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { Redis } from 'ioredis';
import { closeAfterEach } from './support/connections.ts';
import { createEntity, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type RawConnection, rawStream } from './support/raw.ts';
import { ADMIN_SECRET, type Client, clientOf, createTenant } from './support/service.ts';
import { endAll } from './support/started.ts';
import { connectEvents, type EventStream, subscribeSocket, type TestSocket } from './support/streams.ts';
import { durationOf, fastest } from './support/timing.ts';

/** The contract's limit is 500; a lower one makes the test faster. */
const CAP = Number(process.env.STREAM_CAP ?? 20);
const OPENS = CAP * 0.6;
const RECORDS = '/api/entities/articles/records';
const ENVIRONMENT = { SSE_MAX_CONNECTIONS_PER_TENANT: String(CAP), SSE_HEARTBEAT_INTERVAL_MS: '1000' };

let stores: SharedStores;
let processes: ServiceProcess[] = [];
beforeAll(async () => {
  stores = await sharedStores();
  if (stores.redisUrl === undefined) return;
  const environment = { ...stores.environment, ...ENVIRONMENT };
  processes = [await startServiceProcess(environment), await startServiceProcess(environment)];
});
afterAll(async () => {
  await endAll();
  await stores.remove();
});

const keep = closeAfterEach();

interface Tenant {
  id: string;
  slug: string;
  key: string;
  /** Clients with the owner key, one at each process. */
  at: readonly [Client, Client];
  /** The token of an admin session, for sockets. */
  session: string;
}

async function newTenant(): Promise<Tenant> {
  const [first, second] = processes as [ServiceProcess, ServiceProcess];
  const admin = clientOf(first.url, { 'x-admin-secret': ADMIN_SECRET });
  const owner = await createTenant(first.url);
  const { id, slug, key } = owner;
  const at = [owner, clientOf(second.url, { 'x-api-key': key })] as const;
  await createEntity(owner, 'articles', fields('n integer'));
  const session = (await admin.post('/api/admin/sessions', { tenantSlug: slug })).body.data.token;
  return { id, slug, key, at, session };
}

/** A stream and a socket at each process. */
async function connectAll({ slug, key, session }: Tenant): Promise<{ streams: EventStream[]; sockets: TestSocket[] }> {
  const streams = await Promise.all(processes.map(({ url }) => connectEvents(url, slug, key)));
  const sockets = await Promise.all(processes.map(({ url }) => subscribeSocket(url, session, 'articles')));
  for (const connection of [...streams, ...sockets]) keep(connection);
  return { streams, sockets };
}

/** Opens `count` streams at once; resolves to those that were accepted. */
async function openMany(url: string, { slug, key }: Tenant, count: number): Promise<RawConnection[]> {
  const opened = await Promise.all(Array.from({ length: count }, () => rawStream(url, slug, key)));
  expect(opened.filter(({ status }) => ![200, 429].includes(status))).toEqual([]);
  return opened.filter(({ status }) => status === 200).map(keep);
}

/** The next `count` results of `next`, in order. */
async function take<T>(count: number, next: () => Promise<T>): Promise<T[]> {
  const taken: T[] = [];
  while (taken.length < count) taken.push(await next());
  return taken;
}

/** A test with two processes, which need Redis: without it the test only asserts that there is none. */
const several = (title: string, work: () => Promise<void>, withinMs?: number): void =>
  test(title, async () => (processes.length === 0 ? expect(stores.redisUrl).toBeUndefined() : work()), withinMs);

several(
  'a write in either process reaches the streams and sockets of both, each change once and in order',
  async () => {
    const tenant = await newTenant();
    const { streams, sockets } = await connectAll(tenant);
    const numbers = Array.from({ length: 40 }, (_, n) => n);
    for (const n of numbers) {
      const { status } = await (tenant.at[n % 2] as Client).post(RECORDS, { n });
      expect(status).toBe(201);
    }
    for (const stream of streams) {
      const shown = await take(40, () => stream.next());
      expect(shown.map(({ data }) => data.data.fields.n)).toEqual(numbers);
      expect(new Set(shown.map(({ data }) => data.id)).size).toBe(40);
    }
    for (const socket of sockets) {
      expect((await take(40, () => socket.next())).map(({ data }) => data.n)).toEqual(numbers);
    }
    await tenant.at[0].post(RECORDS, { n: 99 });
    for (const stream of streams) expect((await stream.next()).data.data.fields.n).toBe(99);
    for (const socket of sockets) expect((await socket.next()).data.n).toBe(99);
  },
);

several('of streams opened in two processes at once, exactly as many as the limit are accepted', async () => {
  const tenant = await newTenant();
  const opened = await Promise.all(processes.map(({ url }) => openMany(url, tenant, OPENS)));
  expect(opened.flat()).toHaveLength(CAP);
});

several('a right revoked in one process ends connections of the other within a second', async () => {
  const [first, second] = processes as [ServiceProcess, ServiceProcess];
  const keyRevoked = async (): Promise<number> => {
    const tenant = await newTenant();
    const { body } = await tenant.at[0].post('/api/keys', { label: 'second' });
    const stream = keep(await connectEvents(second.url, tenant.slug, body.data.key));
    expect((await tenant.at[0].delete(`/api/keys/${body.data.id}`)).status).toBe(200);
    return durationOf(() => stream.ended());
  };
  expect(await fastest(1_000, keyRevoked)).toBeLessThan(1_000);
  const tenantSuspended = async (): Promise<number> => {
    const tenant = await newTenant();
    const { sockets } = await connectAll(tenant);
    const admin = clientOf(first.url, { 'x-admin-secret': ADMIN_SECRET });
    await admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { status: 'suspended' });
    return durationOf(async () => {
      for (const socket of sockets) expect(await socket.ended()).toBe(4401);
    });
  };
  expect(await fastest(1_000, tenantSuspended)).toBeLessThan(1_000);
});

several(
  'if a process is killed, the other continues without a gap, and the leases of the killed one expire',
  async () => {
    const tenant = await newTenant();
    const [survivor, victim] = processes as [ServiceProcess, ServiceProcess];
    // The process with the first stream is the relay of both.
    expect(await openMany(victim.url, tenant, CAP - 1)).toHaveLength(CAP - 1);
    const redis = new Redis(stores.redisUrl ?? '');
    const leases = `svc:sse:${tenant.id}`;
    const members = await redis.zrange(leases, '0', '-1');
    const stream = keep(await connectEvents(survivor.url, tenant.slug, tenant.key));
    for (let n = 0; n < 10; n++) await tenant.at[1].post(RECORDS, { n });
    await victim.kill();
    for (let n = 10; n < 20; n++) await tenant.at[0].post(RECORDS, { n });
    const shown = await take(20, () => stream.next());
    expect(shown.map(({ data }) => data.data.fields.n)).toEqual(Array.from({ length: 20 }, (_, n) => n));
    // Extends the leases of the killed process, however long the test has taken: they still count.
    for (const member of members) await redis.zadd(leases, 'XX', Date.now() + 600_000, member);
    expect(await openMany(survivor.url, tenant, 1)).toEqual([]);
    // Expires the leases, as if the process had not renewed them in time.
    for (const member of members) await redis.zadd(leases, 0, member);
    expect(await openMany(survivor.url, tenant, CAP)).toHaveLength(CAP - 1);
    redis.disconnect();
  },
);
