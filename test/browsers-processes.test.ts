// Tickets, sessions and origins across two processes on one Postgres and one Redis: of two concurrent uses of a ticket, one gets
// the stream; what one process ends or changes takes effect in the other within a second. Without Redis, one process is used for
// both.
// Contract: browsers#tickets, browsers#sessions, browsers#origins.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { Redis } from 'ioredis';
import { closeAfterEach } from './support/connections.ts';
import { createEntity } from './support/entities.ts';
import { addUser, signIn } from './support/people.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type Client, clientOf, createTenant, type TestTenant } from './support/service.ts';
import { endAll } from './support/started.ts';
import { connectEvents, openEvents, openSocket } from './support/streams.ts';
import { durationOf, fastest } from './support/timing.ts';

const ENVIRONMENT = { TRUST_PROXY: '1' };

let stores: SharedStores;
let one: ServiceProcess;
let other: ServiceProcess;
let owner: TestTenant;
beforeAll(async () => {
  stores = await sharedStores();
  const environment = { ...stores.environment, ...ENVIRONMENT };
  one = await startServiceProcess(environment);
  other = stores.redisUrl === undefined ? one : await startServiceProcess(environment);
  owner = await createTenant(one.url);
  await createEntity(owner, 'orders');
});
afterAll(async () => {
  await endAll();
  await stores.remove();
});
const keep = closeAfterEach();

async function ticketOf(client: Client): Promise<string> {
  const answer = await client.post(`/api/v1/tenants/${owner.slug}/events/tickets`, {});
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data.ticket;
}

async function openAt({ url }: ServiceProcess, ticket: string): Promise<number> {
  return keep(await openEvents(url, owner.slug, '', `?ticket=${ticket}`)).status;
}

async function authAt({ url }: ServiceProcess, token: string): Promise<number> {
  const { type } = await keep(await openSocket(url)).ask({ type: 'auth', token });
  return type === 'auth_ok' ? 200 : 401;
}

test('a ticket made in one process is valid in the other, and of concurrent uses in both exactly one wins', async () => {
  for (let round = 0; round < 20; round++) {
    const ticket = await ticketOf(owner);
    const uses = [openAt(one, ticket), openAt(other, ticket), authAt(one, ticket), authAt(other, ticket)];
    const statuses = await Promise.all(round % 2 === 0 ? uses : uses.toReversed());
    expect(statuses.sort()).toEqual([200, 401, 401, 401]);
  }
});

test('a ticket survives an emptied Redis, and is still consumed by its use', async () => {
  const [kept, used] = [await ticketOf(owner), await ticketOf(owner)];
  expect(await openAt(one, used)).toBe(200);
  if (stores.redisUrl !== undefined) {
    const redis = new Redis(stores.redisUrl);
    await redis.flushdb();
    redis.disconnect();
  }
  expect([await openAt(other, kept), await openAt(other, used)]).toEqual([200, 401]);
});

test('a session ended in one process is refused by the other within a second, and its stream there ends', async () => {
  const refusedAfter = async (): Promise<number> => {
    const { email } = await addUser(owner);
    const here = await signIn(clientOf(one.url, {}), owner, email);
    const there = clientOf(other.url, { authorization: `Bearer ${here.token}` });
    expect((await there.get('/api/auth/whoami')).status).toBe(200);
    const query = `?ticket=${await ticketOf(here)}`;
    const stream = keep(await connectEvents(other.url, owner.slug, '', query));
    expect((await here.post('/api/auth/tenant/logout')).status).toBe(200);
    return durationOf(async () => {
      let status = 200;
      while (status === 200) ({ status } = await there.get('/api/auth/whoami'));
      expect(status).toBe(401);
      await stream.ended();
    });
  };
  expect(await fastest(1_000, refusedAfter)).toBeLessThan(1_000);
});

test('a token refreshed in one process works in the other at once', async () => {
  const { email } = await addUser(owner);
  let client: Client = await signIn(clientOf(one.url, {}), owner, email);
  for (let i = 0; i < 20; i++) {
    const { status, body, text } = await client.post('/api/auth/tenant/refresh');
    expect([i, status], text).toEqual([i, 200]);
    const { url } = i % 2 === 0 ? other : one;
    client = clientOf(url, { authorization: `Bearer ${body.data.token}` });
  }
});

test('an origin that is listed or unlisted in one process is so in the other within a second', async () => {
  const origin = `https://${crypto.randomUUID()}.example.com`;
  const passes = async (): Promise<boolean> => {
    const asked = { origin, 'access-control-request-method': 'GET' };
    const { headers } = await clientOf(other.url, {}).request('OPTIONS', '/api/entities', undefined, asked);
    return headers.get('access-control-allow-origin') === origin;
  };
  const changedAfter = async (): Promise<number> => {
    expect(await passes()).toBe(false);
    await owner.patch('/api/tenant', { settings: { allowedOrigins: [origin] } });
    const listedMs = await durationOf(async () => {
      while (!(await passes()));
    });
    await owner.patch('/api/tenant', { settings: { allowedOrigins: [] } });
    const unlistedMs = await durationOf(async () => {
      while (await passes());
    });
    return Math.max(listedMs, unlistedMs);
  };
  expect(await fastest(1_000, changedAfter)).toBeLessThan(1_000);
});
