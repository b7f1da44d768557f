// Usage and quotas across two processes: everything is counted once, a killed process loses at most its last seconds, and
// a quota holds for both together. Contract: neighbours#usage-and-quotas.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { newAddress } from './support/addresses.ts';
import { createEntity, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { ADMIN_SECRET, type Client, clientOf, createTenant, type Json, type TestTenant } from './support/service.ts';
import { endAll } from './support/started.ts';

const NOTES = '/api/entities/notes/records';
let stores: SharedStores;
let processes: ServiceProcess[] = [];
beforeAll(async () => {
  stores = await sharedStores();
  if (stores.redisUrl === undefined) return;
  processes = [await startServiceProcess(stores.environment), await startServiceProcess(stores.environment)];
});
afterAll(async () => {
  await endAll();
  await stores.remove();
});

/** A tenant, and a client with its key at each process. */
async function newTenant(): Promise<{ tenant: TestTenant; at: Client[] }> {
  const tenant = await createTenant(processes[0]?.url as string);
  await createEntity(tenant, 'notes', fields('title text'));
  return { tenant, at: processes.map(({ url }) => clientOf(url, { 'x-api-key': tenant.key })) };
}

async function setQuotas({ slug }: TestTenant, quotas: Json): Promise<void> {
  const admin = clientOf(processes[0]?.url as string, { 'x-admin-secret': ADMIN_SECRET });
  const answer = await admin.patch(`/api/admin/platform/tenants/${slug}`, { quotas });
  expect(answer.status, answer.text).toBe(200);
}

const today = async (client: Client | undefined): Promise<Json> =>
  (await (client as Client).get('/api/tenant/usage')).body.data.days.at(-1);

/** Without Redis there is only one process: nothing to test. */
function testOnTwo(title: string, run: () => Promise<void>): void {
  test(title, async () => {
    if (stores.redisUrl === undefined) expect(processes).toEqual([]);
    else await run();
  });
}

/** Creates records at both processes at once; resolves to the number of those created. */
async function createAtBoth(at: readonly Client[], each: number): Promise<number> {
  const requests = at.flatMap((client) =>
    Array.from({ length: each }, (_, i) => client.post(NOTES, { title: `${i}` })),
  );
  const answers = await Promise.all(requests);
  expect(answers.filter(({ status }) => ![201, 403, 429].includes(status))).toEqual([]);
  return answers.filter(({ status }) => status === 201).length;
}

testOnTwo('quotas of records and of writes in a minute hold for both together', async () => {
  const { tenant, at } = await newTenant();
  await setQuotas(tenant, { records: 30 });
  expect(await createAtBoth(at, 40)).toBe(30);
  await setQuotas(tenant, { records: null, writesPerMin: 25 });
  expect(await createAtBoth(at, 20)).toBe(25);
  await setQuotas(tenant, { writesPerMin: null, requestsPerMin: 15 });
  expect(await createAtBoth(at, 20)).toBe(15);
});

testOnTwo('a write that fails at one process does not count at the other, which has seen it counted', async () => {
  const tenant = await createTenant(processes[0]?.url as string);
  await createEntity(tenant, 'notes', [{ key: 'code', type: 'text', unique: true }]);
  await tenant.post(NOTES, { code: 'taken' });
  const permissions = { entities: { notes: ['create'] } };
  const limited = { name: 'limited', tenantSlug: tenant.slug, permissions, limits: { writesPerHour: 2 } };
  const { name, secret } = (await tenant.post('/api/auth/bots/register', limited)).body.data;
  const { token } = (await tenant.post('/api/auth/bots/identify', { name, secret }, newAddress())).body.data;
  const [first, second] = processes.map(({ url }) => clientOf(url, { authorization: `Bearer ${token}` })) as Client[];
  expect((await first?.post(NOTES, { code: 'a' }))?.status).toBe(201);
  let hasSeen = false;
  const failing = Array.from({ length: 6 }, async () => {
    while (!hasSeen) await first?.post(NOTES, { code: 'taken' });
  });
  while (!hasSeen) hasSeen = (await second?.post(NOTES, { code: 'taken' }))?.status === 429;
  await Promise.all(failing);
  await delay(1_200);
  expect((await second?.post(NOTES, { code: 'b' }))?.status).toBe(201);
  expect((await second?.post(NOTES, { code: 'c' }))?.status).toBe(429);
});

testOnTwo('the writes of a bot in an hour hold for both together, one by one and in bulk', async () => {
  const { tenant } = await newTenant();
  const permissions = { entities: { notes: ['create'] } };
  const bot = { name: 'two-doors', tenantSlug: tenant.slug, permissions, limits: { writesPerHour: 25 } };
  const { name, secret } = (await tenant.post('/api/auth/bots/register', bot)).body.data;
  const { token } = (await tenant.post('/api/auth/bots/identify', { name, secret }, newAddress())).body.data;
  const at = processes.map(({ url }) => clientOf(url, { authorization: `Bearer ${token}` }));
  const operations = [1, 2, 3].map(() => ({ op: 'create', data: { title: 'of three' } }));
  const bulk = at.map((client) => client.post(`${NOTES}/bulk`, { operations, atomic: true }));
  await Promise.all([createAtBoth(at, 20), ...bulk]);
  await createAtBoth(at, 5);
  expect((await tenant.get(`${NOTES}?limit=1`)).body.data.total).toBe(25);
});

testOnTwo('a killed process loses nothing that it has stored, and a stopped one nothing at all', async () => {
  const { tenant, at } = await newTenant();
  const [first, second] = processes as [ServiceProcess, ServiceProcess];
  const stored = await createAtBoth(at, 20);
  expect(stored).toBe(40);
  // When the sum is complete at one process, both have stored their counts.
  while ((await today(at[0])).writes < stored) await delay(50);
  await at[1]?.post(NOTES, { title: 'counted or lost' });
  await second.kill();
  const { writes, events } = await today(at[0]);
  expect([40, 41]).toContain(writes);
  expect(events).toBe(writes);
  const replacement = await startServiceProcess(stores.environment);
  processes[1] = replacement;
  await createAtBoth([at[0] as Client], 10);
  await first.stop();
  const later = clientOf(replacement.url, { 'x-api-key': tenant.key });
  expect((await today(later)).writes).toBe(writes + 10);
  expect((await later.get('/api/tenant/usage')).body.data.now.records).toEqual({ notes: 51 });
  processes = [replacement, await startServiceProcess(stores.environment)];
});
