// Rights and limits across two processes on one Postgres and one Redis: a right revoked in one is refused by the
// other, and limits count the requests of both. Without Redis, one process is used for both.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import postgres from 'postgres';
import { newAddress } from './support/addresses.ts';
import { createEntity } from './support/entities.ts';
import { addUser, createPublicKey, PASSWORD, signIn } from './support/people.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { ADMIN_SECRET, type Client, clientOf, createTenant } from './support/service.ts';
import { endAll } from './support/started.ts';
import { durationOf, fastest, retryWhenDelayed } from './support/timing.ts';

const LIST = '/api/entities/orders/records';
/** Gives every attempt its own address. */
const ENVIRONMENT = { TRUST_PROXY: '1' };

let stores: SharedStores;
let one: ServiceProcess;
let other: ServiceProcess;
beforeAll(async () => {
  stores = await sharedStores();
  const environment = { ...stores.environment, ...ENVIRONMENT };
  one = await startServiceProcess(environment);
  other = stores.redisUrl === undefined ? one : await startServiceProcess(environment);
});
afterAll(async () => {
  await endAll();
  await stores.remove();
});

interface Tenant {
  slug: string;
  /** The owner, at the first process. */
  owner: Client;
}

async function newTenant(): Promise<Tenant> {
  const owner = await createTenant(one.url);
  await createEntity(owner, 'orders');
  return { slug: owner.slug, owner };
}

function superAdmin(headers: Record<string, string> = {}): Client {
  return clientOf(one.url, { 'x-admin-secret': ADMIN_SECRET, ...headers });
}

/** A client at the other process. */
function bearer(token: string): Client {
  return clientOf(other.url, { authorization: `Bearer ${token}` });
}

async function userToken({ slug, owner }: Tenant, email: string): Promise<{ id: string; token: string }> {
  const { id } = await addUser(owner, { email, role: 'viewer' });
  const { token } = await signIn(clientOf(one.url, {}), { slug }, email);
  return { id, token };
}

/** A credential in use at the other process, and how the first process revokes it. */
type Case = [string, (tenant: Tenant) => Promise<{ holder: Client; revoke: () => Promise<unknown> }>];

const CASES: Case[] = [
  [
    'an owner key',
    async ({ owner }) => {
      const { id, key } = (await owner.post('/api/keys', { label: 'second' })).body.data;
      return { holder: bearer(key), revoke: () => owner.delete(`/api/keys/${id}`) };
    },
  ],
  [
    'a platform key',
    async ({ owner }) => {
      const permissions = { orders: { reader: ['read'] } };
      const api = { name: 'Shop', slug: 'shop', roles: ['reader'], permissions };
      const { id: apiId } = (await owner.post('/api/apis', api)).body.data;
      const { id, key } = (await owner.post(`/api/apis/${apiId}/keys`, { role: 'reader' })).body.data;
      return { holder: bearer(key), revoke: () => owner.delete(`/api/apis/${apiId}/keys/${id}`) };
    },
  ],
  [
    'a public key',
    async (tenant) => {
      const { id, key } = await createPublicKey(tenant.owner, {
        rateLimitPerMin: 1_000_000,
        rateLimitPerDay: 1_000_000,
      });
      return { holder: bearer(key), revoke: () => tenant.owner.delete(`/api/auth/public-keys/${id}`) };
    },
  ],
  [
    'the token of a user who is deactivated',
    async (tenant) => {
      const { id, token } = await userToken(tenant, 'ada@a.test');
      return { holder: bearer(token), revoke: () => tenant.owner.patch(`/api/users/${id}`, { isActive: false }) };
    },
  ],
  [
    'the token of a user who is deleted',
    async (tenant) => {
      const { id, token } = await userToken(tenant, 'eve@a.test');
      return { holder: bearer(token), revoke: () => tenant.owner.delete(`/api/users/${id}`) };
    },
  ],
  [
    'an admin session',
    async ({ slug }) => {
      const { token } = (await superAdmin().post('/api/admin/sessions', { tenantSlug: slug })).body.data;
      const session = clientOf(one.url, { authorization: `Bearer ${token}` });
      return { holder: bearer(token), revoke: () => session.delete('/api/admin/sessions/current') };
    },
  ],
];

test.each(CASES)('%s revoked in one process is refused by the other within a second', async (_, make) => {
  const refusedAfter = async (): Promise<number> => {
    const { holder, revoke } = await make(await newTenant());
    expect((await holder.get(LIST)).status).toBe(200);
    await revoke();
    return durationOf(async () => {
      let status = 200;
      while (status === 200) status = (await holder.get(LIST)).status;
      expect(status).toBe(401);
    });
  };
  expect(await fastest(1_000, refusedAfter)).toBeLessThan(1_000);
});

test('of 5,000 requests with a 60-per-minute key over both processes, exactly 60 pass', async () => {
  await retryWhenDelayed(60_000, async () => {
    const { key } = await createPublicKey((await newTenant()).owner);
    const counts = new Map<number, number>();
    const send = async (url: string, requests: number): Promise<void> => {
      for (let i = 0; i < requests; i++) {
        const answer = await fetch(url + LIST, { headers: { 'x-public-key': key } });
        await answer.arrayBuffer();
        counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, i) => send((i % 2 === 0 ? one : other).url, 250)));
    expect(Object.fromEntries(counts)).toEqual({ 200: 60, 429: 4_940 });
  });
});

test('of 50 accepts of one invitation over both processes, one succeeds and one user is created', async () => {
  const { slug, owner } = await newTenant();
  const { token } = (await owner.post('/api/invitations', {}, { 'x-tenant-id': slug })).body.data;
  const accept = (i: number) => {
    const person = { token, email: `person${i}@a.test`, name: 'Person', password: PASSWORD };
    return clientOf((i % 2 === 0 ? one : other).url, {}).post('/auth/invite/accept', person);
  };
  const statuses = (await Promise.all(Array.from({ length: 50 }, (_, i) => accept(i)))).map(({ status }) => status);
  expect(statuses.sort()).toEqual([201, ...Array.from({ length: 49 }, () => 409)]);
  expect((await owner.get('/api/users')).body.data.total).toBe(1);
});

test('of 100 wrong bot secrets over both processes, five are checked, and then the right one gets 401 too', async () => {
  const { slug, owner } = await newTenant();
  const { key } = (await owner.post('/api/keys', { label: 'agents' })).body.data;
  const bot = { name: 'guessed-bot', tenantSlug: slug };
  const { secret } = (await owner.post('/api/auth/bots/register', bot)).body.data;
  const identify = (i: number, guess: string) =>
    clientOf((i % 2 === 0 ? one : other).url, { 'x-api-key': key, ...newAddress() }).post('/api/auth/bots/identify', {
      name: bot.name,
      secret: guess,
    });
  // Four failures do not lock the bot; the next success resets the count.
  for (let i = 0; i < 4; i++) expect((await identify(i, 'wrong')).status).toBe(401);
  expect((await identify(4, secret)).status).toBe(200);
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => identify(10 + i, 'wrong')));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
  for (const i of [200, 201]) expect((await identify(i, secret)).status).toBe(401);
  const sql = postgres(stores.databaseUrl, { max: 1 });
  const rows = await sql`
    select failures from platform.lockouts
    where account = sha256(convert_to(concat('bot ', (select id from platform.tenants where slug = ${slug}), ' ', ${bot.name}::text), 'UTF8'))`;
  await sql.end();
  expect(rows.map(({ failures }) => failures)).toEqual([5]);
});
