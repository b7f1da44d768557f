// A role is changed in one process while it, another process, or both cannot hear each other through Redis: within a second the
// other process refuses what the role has lost, and does not grant it again later. A list that the other process makes with former
// definitions meanwhile has a cursor that leads to a request to read again, and what it shows of a change has the values of new fields.
// Contract: decisions#changes-of-rights, feed#cursors, feed#items.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type CuttingProxy, cuttingProxy } from './support/cutting-proxy.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { addUser, signIn } from './support/people.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type Client, clientOf, createTenant, type Json } from './support/service.ts';
import { endAll } from './support/started.ts';
import { fastest } from './support/timing.ts';

const LIST = '/api/entities/orders/records';
const LIMIT_MS = 1_000;
const ALL = { entitySlug: 'orders', slug: 'all', name: 'All' };

let stores: SharedStores;
/** The process that changes rights, and the one at which they are used, each behind a proxy to Redis. */
let changing: ServiceProcess;
let honouring: ServiceProcess;
let ofChanging: CuttingProxy;
let ofHonouring: CuttingProxy;

beforeAll(async () => {
  stores = await sharedStores();
  if (stores.redisUrl === undefined) return;
  const { port, pathname } = new URL(stores.redisUrl);
  [ofChanging, ofHonouring] = [await cuttingProxy(Number(port || 6_379)), await cuttingProxy(Number(port || 6_379))];
  const at = (proxy: CuttingProxy) =>
    startServiceProcess({ ...stores.environment, REDIS_URL: `redis://127.0.0.1:${proxy.port}${pathname}` });
  [changing, honouring] = [await at(ofChanging), await at(ofHonouring)];
}, 60_000);
afterAll(async () => {
  await endAll();
  ofChanging?.close();
  ofHonouring?.close();
  await stores.remove();
});

interface Held {
  owner: Client;
  holder: Client;
  role: string;
}

/** A user who reads with a role, at the other process, where everything about it is in caches. */
async function readerAtOther(): Promise<Held> {
  for (const { url } of [changing, honouring]) while ((await fetch(`${url}/ready`)).status !== 200) await delay(20);
  const owner = await createTenant(changing.url);
  await createEntity(owner, 'orders');
  const role = 'reader';
  const permissions = { orders: ['read'] };
  expect((await owner.post('/api/roles', { name: role, permissions })).status).toBe(201);
  await addUser(owner, { email: 'ada@a.test', role });
  const { token } = await signIn(clientOf(changing.url, {}), owner, 'ada@a.test');
  const holder = clientOf(honouring.url, { authorization: `Bearer ${token}` });
  expect((await holder.get(LIST)).status).toBe(200);
  return { owner, holder, role };
}

/** How long the other process continues to admit requests after the right was revoked. */
async function honouredMs({ owner, holder, role }: Held): Promise<number> {
  const changed = await owner.patch(`/api/roles/${role}`, { permissions: {} });
  expect(changed.status, changed.text).toBe(200);
  const changedAt = performance.now();
  while (performance.now() - changedAt < 10 * LIMIT_MS) {
    const { status } = await holder.get(LIST);
    if (status === 403) return performance.now() - changedAt;
    expect(status).toBe(200);
    await delay(10);
  }
  return Number.POSITIVE_INFINITY;
}

const FAULTS: [string, () => CuttingProxy[], (proxy: CuttingProxy, isFaulty: boolean) => void][] = [
  ['the process that changes it is refused by Redis', () => [ofChanging], (proxy, is) => proxy.refuse(is)],
  ['Redis says nothing to the process that changes it', () => [ofChanging], (proxy, is) => proxy.silence(is)],
  ['the other process is refused by Redis', () => [ofHonouring], (proxy, is) => proxy.refuse(is)],
  ['Redis says nothing to the other process', () => [ofHonouring], (proxy, is) => proxy.silence(is)],
  ['Redis refuses both', () => [ofChanging, ofHonouring], (proxy, is) => proxy.refuse(is)],
  ['Redis says nothing to either', () => [ofChanging, ofHonouring], (proxy, is) => proxy.silence(is)],
];

describe('a right that a role has lost is refused by another process within a second', () => {
  test.each(FAULTS)(
    'while %s, and it stays so',
    async (_, proxies, set) => {
      if (stores.redisUrl === undefined) return;
      const measure = async (): Promise<number> => {
        const held = await readerAtOther();
        for (const proxy of proxies()) set(proxy, true);
        try {
          return await honouredMs(held);
        } finally {
          for (const proxy of proxies()) set(proxy, false);
          const until = performance.now() + 1_500;
          while (performance.now() < until) {
            expect((await held.holder.get(LIST)).status).not.toBe(200);
            await delay(2);
          }
        }
      };
      expect(await fastest(LIMIT_MS, measure, 3)).toBeLessThan(LIMIT_MS);
    },
    120_000,
  );
});

/** What a follower gets that begins at the cursor of a list. */
async function followed(client: Client, cursor: string): Promise<string[]> {
  const { items } = (await client.get(`/api/changes?since=${cursor}`)).body.data;
  return items.map(({ event }: Json) => event);
}

interface Listing {
  list(): ReturnType<Client['get']>;
  isOver(record: Json): boolean;
}

/** The cursors of the lists that the other process makes, while it hears of no change, until it shows the change. */
async function listedDuring(change: () => ReturnType<Client['patch']>, { list, isOver }: Listing): Promise<string[]> {
  const former: string[] = [];
  const read = async (): Promise<boolean> => {
    const { body, headers } = await list();
    if (isOver(body.data.items[0])) return true;
    former.push(headers.get('changes-cursor') ?? '');
    return false;
  };
  await read();
  ofHonouring.silence(true);
  try {
    let hasEnded = false;
    const changing = change().finally(() => {
      hasEnded = true;
    });
    while (!(await read())) await delay(5);
    expect(hasEnded).toBe(true);
    expect((await changing).status).toBe(200);
  } finally {
    ofHonouring.silence(false);
  }
  return former;
}

describe('a list that another process has made with former definitions', () => {
  test.each([
    ['list', LIST, () => undefined],
    ['view', '/api/views/all/records', (owner: Client) => owner.post('/api/views', ALL)],
  ])(
    'is followed by a request to read again (%s)',
    async (_, path, prepare) => {
      if (stores.redisUrl === undefined) return;
      for (const { url } of [changing, honouring]) while ((await fetch(`${url}/ready`)).status !== 200) await delay(20);
      const owner = await createTenant(changing.url);
      const other = clientOf(honouring.url, { 'x-api-key': owner.key });
      await createRecord(owner, await createEntity(owner, 'orders', fields('title text')), { title: 'tea' });
      await prepare(owner);
      const told = new Set<string>();
      // Until a list began after the change itself.
      for (let at = 1; at <= 5 && !told.has('rights.changed'); at++) {
        const [from, to] = [at === 1 ? 'title' : `title_${at - 1}`, `title_${at}`];
        const former = await listedDuring(() => owner.patch(`/api/entities/orders/fields/${from}`, { key: to }), {
          list: () => other.get(path),
          isOver: (record) => record[to] !== undefined,
        });
        for (const events of await Promise.all(former.slice(-20).map((cursor) => followed(owner, cursor)))) {
          expect(events).toHaveLength(1);
          told.add(events[0] as string);
        }
      }
      expect([...told].filter((event) => event !== 'definition.changed')).toEqual(['rights.changed']);
    },
    60_000,
  );
});

test('a value of a field that another process has just added is not missing from a page of the feed', async () => {
  if (stores.redisUrl === undefined) return;
  for (const { url } of [changing, honouring]) while ((await fetch(`${url}/ready`)).status !== 200) await delay(20);
  const owner = await createTenant(changing.url);
  const other = clientOf(honouring.url, { 'x-api-key': owner.key });
  await createRecord(owner, await createEntity(owner, 'orders', fields('title text')), { title: 'tea' });
  const since = (await other.get(LIST)).headers.get('changes-cursor') ?? '';
  expect((await other.get('/api/changes')).status).toBe(200);
  ofHonouring.silence(true);
  try {
    expect((await owner.post('/api/entities/orders/fields', { key: 'price', type: 'integer' })).status).toBe(201);
    await createRecord(owner, LIST, { title: 'cake', price: 3 });
    const { items } = (await other.get(`/api/changes?since=${since}`)).body.data;
    expect(items.at(-1).data).toMatchObject({ title: 'cake', price: 3 });
  } finally {
    ofHonouring.silence(false);
  }
}, 60_000);
