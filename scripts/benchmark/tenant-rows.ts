// How cost grows with the number of tenants, on a service and a database of their own: the same requests to one tenant
// and spread over all tenants; memory of the backends; time to start and to make a tenant. Every tenant has the same
// small entities, so only the number of tenants differs. Each has been served once before the rows are measured.
// A count is a number of tenants, times are milliseconds unless named.

import postgres from 'postgres';
import { Api } from './api.ts';
import { backendsMemory } from './cpu.ts';
import { item } from './dataset.ts';
import type { Target } from './generator.ts';
import type { Workload } from './measure.ts';
import { median } from './paired.ts';
import { type Comparison, measureRows, type Row } from './rows.ts';
import type { Run } from './run.ts';
import type { ServiceStore } from './scratch.ts';
import { createItems, createPeople, createTenant, type ServiceEnv, serviceEnv, startService } from './service.ts';
import { type Gauge, progressLine } from './verdict.ts';

const RECORDS = 10;
const AT_ONCE = 4;
/** Tenants that are made one after the other, for the time that one takes. */
const TIMED = 20;
const PATH = '/api/entities/items/records';

interface SmallTenant {
  key: string;
  people: string[];
  ids: string[];
}

/** The running service, and the tenants that it has so far. */
interface Fixture {
  env: ServiceEnv;
  store: ServiceStore;
  server: Awaited<ReturnType<typeof startService>>;
  tenants: SmallTenant[];
}

/** Measures with each number of tenants, ascending: rows for more than one, gauges for each. */
export async function measureTenants(run: Run, counts: readonly number[]): Promise<{ rows: Row[]; gauges: Gauge[] }> {
  const store = await run.scratch.openSecondStore();
  const env = serviceEnv(run.directory, { database: store.url, redis: store.redisUrl });
  const fixture: Fixture = { env, store, server: await startService(env, run.cleanup), tenants: [] };
  const rows: Row[] = [];
  const gauges: Gauge[] = [];
  for (const count of counts) {
    run.log(`making tenants, up to ${count}`);
    gauges.push(...(await makeTenants(fixture, count)));
    await run.scratch.vacuum();
    // A service that has just started, so that its backends have cached nothing yet.
    await fixture.server.stop();
    fixture.server = await startService(env, run.cleanup);
    gauges.push(gauge('start', `start to listening, ${named(count)}`, 's', fixture.server.startMs / 1_000, 1));
    run.log('serving each tenant once');
    await serveOnce(fixture);
    const measured = await measureRows(comparisons(fixture), run.options, run.scratch, (row) =>
      run.log(progressLine(row)),
    );
    rows.push(...measured);
    gauges.push(...memoryGauges(run, fixture));
  }
  await fixture.server.stop();
  return { rows, gauges };
}

/** Makes tenants up to `count`, the last ones one after the other. */
async function makeTenants(fixture: Fixture, count: number): Promise<Gauge[]> {
  const { server, env, store, tenants } = fixture;
  const timed = Math.min(TIMED, count - tenants.length);
  let next = tenants.length;
  const make = () => createTenant(server.port, env.ADMIN_SECRET, `bench-${next++}`);
  const worker = async () => {
    while (next < count - timed) tenants.push(await fillTenant(server.port, await make()));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  const before = await relations(store.url);
  const keys: string[] = [];
  const took: number[] = [];
  for (let i = 0; i < timed; i++) {
    const startedAt = performance.now();
    keys.push(await make());
    took.push(performance.now() - startedAt);
  }
  const perTenant = ((await relations(store.url)) - before) / timed;
  for (const key of keys) tenants.push(await fillTenant(server.port, key));
  return [
    gauge('make', `make a tenant, p50 of the last ${timed} of ${count}`, 'ms', median(took), 80, 50),
    gauge('relations', `relations of an idle tenant, ${named(count)}`, '', perTenant, 30),
  ];
}

async function fillTenant(port: number, key: string): Promise<SmallTenant> {
  const api = new Api(port, { key });
  const people = await createPeople(api, 1);
  await createItems(api, 'items');
  const records = Array.from({ length: RECORDS }, (_, at) => item(at, RECORDS, people));
  return { key, people, ids: await api.createMany('items', records) };
}

/** Tables, indexes and sequences of all tenants, with their TOAST tables, each of which has an index. */
async function relations(url: string): Promise<number> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  const [row] = await sql`select (count(*) + 2 * count(nullif(c.reltoastrelid, 0)))::int as n
    from pg_class as c join pg_namespace as s on s.oid = c.relnamespace where s.nspname ~ '^t_[0-9a-f]{32}$'`;
  await sql.end();
  return row?.n;
}

/** Sends each tenant one request of each kind: what a tenant's first requests cost is not the cost of many tenants. */
async function serveOnce({ server, tenants }: Fixture): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < tenants.length; at = next++) {
      const { key, people, ids } = tenants[at] as SmallTenant;
      const api = new Api(server.port, { key });
      await api.call('GET', `${PATH}/${ids[0]}`);
      await api.call('GET', `${PATH}?limit=${RECORDS}`);
      await api.call('POST', PATH, item(at, tenants.length, people));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** Requests to one tenant against requests to all of them. */
function comparisons(fixture: Fixture): Comparison[] {
  const { tenants } = fixture;
  if (tenants.length === 1) return [];
  const workloads = { get: getWorkload, list: listWorkload, create: createWorkload };
  return Object.entries(workloads).map(([name, workload]) => ({
    id: `tenants-${name}`,
    label: `${name}, ${named(tenants.length)}`,
    against: '1 tenant',
    baseline: workload(fixture, tenants.slice(0, 1)),
    subject: workload(fixture, tenants),
    must: 1.2,
    goal: 1.1,
  }));
}

/** Memory of the service's Postgres backends after the rows. */
function memoryGauges({ scratch }: Run, { store, tenants }: Fixture): Gauge[] {
  const backends = backendsMemory(scratch.postmaster, store.database);
  const own = backends.map((memory) => memory.own);
  const sum = own.reduce((total, size) => total + size, 0);
  const after = `after ${named(tenants.length)}`;
  const proportional = Math.max(...backends.map((memory) => memory.proportional));
  return [
    gauge('memory', `private memory of the largest backend, ${after}`, 'MiB', Math.max(...own), 60),
    gauge('memory', `the largest with its part of shared memory (Pss), ${after}`, 'MiB', proportional, 60),
    gauge('memory', `private memory of ${own.length} backends, ${after}`, 'MiB', sum, 60 * own.length),
  ];
}

function gauge(id: string, label: string, unit: string, value: number, must: number, goal = must): Gauge {
  return { id: `tenants-${id}`, label, unit, value, must, goal };
}

function named(count: number): string {
  return count === 1 ? '1 tenant' : `${count.toLocaleString('en-US')} tenants`;
}

/** Cycles through the tenants: consecutive requests belong to different ones. */
function getWorkload({ server, store }: Fixture, tenants: readonly SmallTenant[]): Workload {
  const rounds = Array.from({ length: RECORDS }, (_, at) => at);
  const targets = rounds.flatMap((at) =>
    tenants.map(({ key, ids }): Target => ({ method: 'GET', path: `${PATH}/${ids[at]}`, key })),
  );
  const problem: Workload['problem'] = (data, { path }) =>
    path.endsWith((data as { id: string }).id) ? null : 'another record than the one asked for';
  return { server: metered(server, store), targets: () => targets, problem };
}

function listWorkload({ server, store }: Fixture, tenants: readonly SmallTenant[]): Workload {
  const targets = tenants.map(({ key }): Target => ({ method: 'GET', path: `${PATH}?limit=${RECORDS}`, key }));
  const problem: Workload['problem'] = (data) =>
    (data as { items: unknown[] }).items.length === RECORDS ? null : 'another number of records';
  return { server: metered(server, store), targets: () => targets, problem };
}

function createWorkload({ server, store }: Fixture, tenants: readonly SmallTenant[]): Workload {
  const targets = tenants.map(({ key, people }, at): Target => {
    return { method: 'POST', path: PATH, key, body: JSON.stringify(item(at, tenants.length, people)) };
  });
  const problem: Workload['problem'] = (data) => ((data as { title?: string }).title ? null : 'not the record created');
  return { server: metered(server, store), targets: () => targets, problem };
}

function metered({ pid, port }: Fixture['server'], { database }: ServiceStore): Workload['server'] {
  return { pid, port, database };
}
