// Metrics by tenant: bounded series that never decrease while tenants come, go and change places, their sum, labels that
// cannot be forged, ten thousand tenants, and scrapes without a database.
// Contract: neighbours#who-does-what, decisions#metrics.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import type { App } from '../src/app.ts';
import { registerTenantMetrics } from '../src/health/tenant-metrics.ts';
import { newId } from '../src/runtime/ids.ts';
import { Metrics } from '../src/runtime/metrics.ts';
import { sql } from '../src/runtime/sql.ts';
import { TenantCounters } from '../src/runtime/tenant-counters.ts';
import { seededRandom } from './support/random.ts';
import { startService, type TestService } from './support/service.ts';
import { fastest } from './support/timing.ts';

const TENANTS = 10_000;
const FIRST = `m${newId().slice(0, 8)}`;
const ids = Array.from({ length: TENANTS }, () => newId());
const slugOf = (n: number): string => (n === TENANTS - 1 ? 'other' : `${FIRST}-${n}`);
let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.app.db.slow.begin((tx) =>
    tx.rows(sql`
      insert into platform.tenants (id, slug, name)
      select * from unnest(${ids}::uuid[], ${ids.map((_, n) => slugOf(n))}::text[], ${ids}::text[])
      on conflict do nothing`),
  );
});
afterAll(async () => {
  await service.app.db.slow.begin((tx) => tx.rows(sql`delete from platform.tenants where id = any(${ids}::uuid[])`));
  await service.stop();
});

let app: App;
const withPlaces = (metricsTenants: number, parts: Partial<App> = {}): App => {
  const made = { ...service.app, metrics: new Metrics(), counters: new TenantCounters(), ...parts };
  const configured = { ...made, config: { ...service.app.config, metricsTenants } };
  registerTenantMetrics(configured);
  return configured;
};
beforeEach(() => {
  app = withPlaces(2);
});

const use = (n: number, requests: number): void => {
  app.counters.of(ids[n] as string).requests += requests;
};

/** Requests by label. */
async function requests(): Promise<Record<string, number>> {
  const lines = (await app.metrics.render()).split('\n');
  const samples = lines.map((line) => /^svc_tenant_requests_total\{tenant="(.*)"\} (\S+)$/.exec(line));
  return Object.fromEntries(samples.flatMap((each) => (each === null ? [] : [[each[1], Number(each[2])]])));
}

test('the busiest tenants have series, the others share one', async () => {
  expect(await requests()).toEqual({ other: 0 });
  for (const [n, count] of [5, 10, 1, 20].entries()) use(n, count);
  expect(await requests()).toEqual({ [slugOf(3)]: 20, [slugOf(1)]: 10, other: 6 });
});

test('a place goes to a tenant that is twice as busy; no series decreases, and their sum is the total use', async () => {
  use(0, 10);
  use(1, 10);
  use(2, 3);
  expect(await requests()).toEqual({ [slugOf(0)]: 10, [slugOf(1)]: 10, other: 3 });
  use(2, 12);
  expect(await requests()).toEqual({ [slugOf(0)]: 10, [slugOf(1)]: 10, other: 15 });
  use(2, 30);
  use(1, 1);
  expect(await requests()).toEqual({ [slugOf(2)]: 30, [slugOf(1)]: 11, other: 15 });
  use(0, 200);
  expect(await requests()).toEqual({ [slugOf(2)]: 30, [slugOf(0)]: 210, other: 15 });
});

test('no series decreases when busy tenants change places', async () => {
  const random = seededRandom(20_261_122);
  let before: Record<string, number> = {};
  let used = 0;
  const ended: Record<string, number> = {};
  for (let round = 0; round < 40; round++) {
    for (let n = 0; n < 8; n++) {
      const count = Math.floor(random() ** 6 * 1_000);
      use(n, count);
      used += count;
    }
    const now = await requests();
    for (const [label, value] of Object.entries(now)) expect(value, label).toBeGreaterThanOrEqual(ended[label] ?? 0);
    Object.assign(ended, before, now);
    expect(Object.values(ended).reduce((sum, value) => sum + value, 0)).toBe(used);
    expect(Object.keys(now).length).toBeLessThanOrEqual(3);
    before = now;
  }
});

test('a deleted tenant gives up its place', async () => {
  const gone = newId();
  await app.db.rows(sql`insert into platform.tenants (id, slug, name) values (${gone}::uuid, ${`${FIRST}-gone`}, 'x')`);
  app.counters.of(gone).requests += 50;
  use(0, 20);
  use(1, 10);
  expect(Object.keys(await requests()).toSorted()).toEqual([`${FIRST}-0`, `${FIRST}-gone`, 'other'].toSorted());
  await app.db.rows(sql`delete from platform.tenants where id = ${gone}::uuid`);
  await app.invalidations.publish('tenant', gone);
  await requests();
  expect(await requests()).toEqual({ [slugOf(0)]: 20, [slugOf(1)]: 0, other: 10 });
  expect([...app.counters.entries()].map(([id]) => id)).not.toContain(gone);
});

test('a tenant whose slug is `other` is not mixed up with the others', async () => {
  use(TENANTS - 1, 7);
  const found = await requests();
  // A tenant of that name may exist already in a shared database.
  expect([found['slug:other'], found.other].filter((value) => value === 7 || value === 0)).toHaveLength(2);
});

test('ten thousand tenants have a bounded scrape that does not stall the process', async () => {
  app = withPlaces(50);
  for (let n = 0; n < TENANTS; n++) use(n, 1 + (n % 977));
  await requests();
  const text = await app.metrics.render();
  expect(text.match(/^svc_tenant_requests_total/gm)).toHaveLength(51);
  expect(text.length).toBeLessThan(64_000);
  expect(
    await fastest(250, async () => {
      for (let n = 0; n < TENANTS; n++) use(n, n % 13);
      const startedAt = performance.now();
      await app.metrics.render();
      return performance.now() - startedAt;
    }),
  ).toBeLessThan(250);
});

test('without a database all tenants without a name are among the others, until it is back', async () => {
  let isDown = true;
  const rows = <T>(...args: Parameters<App['db']['rows']>): Promise<T[]> =>
    isDown ? Promise.reject(new Error('no database')) : service.app.db.rows<T>(...args);
  app = withPlaces(2, { db: { ...service.app.db, rows } as App['db'] });
  use(0, 5);
  expect(await requests()).toEqual({ other: 5 });
  isDown = false;
  use(0, 2);
  expect(await requests()).toEqual({ [slugOf(0)]: 2, other: 5 });
});
