// Usage and quotas while processes are killed in the middle of writes, against a model of the confirmed writes: nothing is
// counted twice, only the last 10 seconds of a killed process are lost, and a quota of records holds exactly.
// Contract: neighbours#usage-and-quotas.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createEntity, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { ADMIN_SECRET, type Client, clientOf, createTenant, type Json } from './support/service.ts';
import { endAll } from './support/started.ts';

const NOTES = '/api/entities/notes/records';
const BULK = 3;
/** What a killed process may lose, in milliseconds. */
const LOST_MS = 10_000;
const QUOTA = 100_000;

let stores: SharedStores;
beforeAll(async () => {
  stores = await sharedStores();
});
afterAll(async () => {
  await endAll();
  await stores.remove();
});

/** The confirmations of one process: each write with its time, and the records that the quota counts. */
interface Confirmed {
  writes: { at: number; count: number }[];
  records: number;
  /** For unanswered calls: the possible writes, and by how much the number of records may differ. */
  unknown: { writes: number; more: number; fewer: number };
}

/** Creates one by one and in bulk, changes and deletes at a process, until it is stopped or does not answer. */
async function writeAt(client: Client, confirmed: Confirmed, isOver: () => boolean): Promise<void> {
  const counted = async (writes: number, records: number, call: Promise<{ status: number }>): Promise<void> => {
    const { unknown } = confirmed;
    unknown.writes += writes;
    unknown[records > 0 ? 'more' : 'fewer'] += Math.abs(records);
    const { status } = await call;
    unknown.writes -= writes;
    unknown[records > 0 ? 'more' : 'fewer'] -= Math.abs(records);
    expect([200, 201]).toContain(status);
    confirmed.writes.push({ at: performance.now(), count: writes });
    confirmed.records += records;
  };
  const operations = Array.from({ length: BULK }, (_, n) => ({ op: 'create', data: { title: `of ${n}` } }));
  while (!isOver()) {
    const made = client.post(NOTES, { title: 'one' });
    await counted(1, 1, made);
    const path = `${NOTES}/${(await made).body.data.id}`;
    await counted(1, 0, client.patch(path, { title: 'changed' }));
    await counted(BULK, BULK, client.post(`${NOTES}/bulk`, { operations }));
    await counted(1, -1, client.delete(path));
    // Writes at any moment, but not as many as three processes manage.
    await delay(40);
  }
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
const writesOf = ({ writes }: Confirmed, until = Number.POSITIVE_INFINITY): number =>
  sum(writes.filter(({ at }) => at < until).map(({ count }) => count));

test('two of three processes are killed among writes: counts and quotas against a model', async () => {
  if (stores.redisUrl === undefined) return void expect(stores.redisUrl).toBeUndefined();
  const processes = await Promise.all([0, 1, 2].map(() => startServiceProcess(stores.environment)));
  const [survivor, ...killed] = processes as [ServiceProcess, ...ServiceProcess[]];
  const tenant = await createTenant(survivor.url);
  await createEntity(tenant, 'notes', fields('title text'));
  const admin = clientOf(survivor.url, { 'x-admin-secret': ADMIN_SECRET });
  const setQuotas = async (quotas: Json): Promise<void> => {
    expect((await admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { quotas })).status).toBe(200);
  };
  await setQuotas({ records: QUOTA });
  const models: Confirmed[] = processes.map(() => ({
    writes: [],
    records: 0,
    unknown: { writes: 0, more: 0, fewer: 0 },
  }));
  let isOver = false;
  const writers = processes.map(({ url }, n) => {
    const client = clientOf(url, { 'x-api-key': tenant.key });
    return Promise.allSettled([1, 2].map(() => writeAt(client, models[n] as Confirmed, () => isOver)));
  });
  // Waits until each has confirmed something that it must not lose.
  const isEarly = ({ writes }: Confirmed): boolean =>
    !((writes[0]?.at ?? Number.NaN) < performance.now() - LOST_MS - 500);
  while (models.some(isEarly)) await delay(100);
  const killedAt = performance.now();
  await Promise.all(killed.map((one) => one.kill()));
  const broken = (await Promise.all(writers.slice(1))).flat();
  isOver = true;
  const ended = await writers[0];
  expect(broken.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'rejected']);
  expect(ended?.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);

  const report = (await tenant.get('/api/tenant/usage')).body.data;
  const days = report.days as Json[];
  const [writes, events] = [sum(days.map((day) => day.writes)), sum(days.map((day) => day.events))];
  const [alive, ...dead] = models as [Confirmed, ...Confirmed[]];
  const certain = writesOf(alive) + sum(dead.map((one) => writesOf(one, killedAt - LOST_MS)));
  const possible = sum(models.map((one) => writesOf(one) + one.unknown.writes));
  expect(sum(dead.map((one) => writesOf(one, killedAt - LOST_MS)))).toBeGreaterThan(0);
  expect(writes).toBeGreaterThanOrEqual(certain);
  expect(writes).toBeLessThanOrEqual(possible);
  // The entity itself has an event, of the process that survived.
  expect(events - writes).toBeGreaterThanOrEqual(0);
  expect(events - writes).toBeLessThanOrEqual(1);

  const { total } = (await tenant.get(`${NOTES}?limit=1`)).body.data;
  expect(report.now.records).toEqual({ notes: total });
  const confirmed = sum(models.map(({ records }) => records));
  expect(total).toBeGreaterThanOrEqual(confirmed - sum(models.map(({ unknown }) => unknown.fewer)));
  expect(total).toBeLessThanOrEqual(confirmed + sum(models.map(({ unknown }) => unknown.more)));

  const room = 7;
  await setQuotas({ records: total + room });
  const replacement = await startServiceProcess(stores.environment);
  const at = [survivor, replacement].map(({ url }) => clientOf(url, { 'x-api-key': tenant.key }));
  const answers = await Promise.all(
    Array.from({ length: 4 * room }, (_, n) => (at[n % 2] as Client).post(NOTES, { title: 'last' })),
  );
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(room);
  expect(answers.filter(({ status }) => status === 403)).toHaveLength(3 * room);
  expect((await tenant.get('/api/tenant/usage')).body.data.now.records).toEqual({ notes: total + room });
}, 120_000);
