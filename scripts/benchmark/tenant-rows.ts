// How cost grows with the number of tenants: the same requests to one tenant and spread over all tenants. Every tenant
// has the same small entity, so only the number of tenants differs.
// All counts are numbers of tenants.

import { Api } from './api.ts';
import { item } from './dataset.ts';
import type { Target } from './generator.ts';
import type { Workload } from './measure.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';
import { createItems, createPeople, createTenant } from './service.ts';

const RECORDS = 10;
const AT_ONCE = 4;
const PATH = '/api/entities/items/records';

interface SmallTenant {
  key: string;
  people: string[];
  ids: string[];
}

/** Creates `count` tenants with one entity each, and compares requests to one tenant with requests to all of them. */
export async function tenantComparisons(bench: Bench, count: number): Promise<Comparison[]> {
  bench.log(`creating ${count} tenants`);
  const all = await createSmallTenants(bench, count);
  await bench.scratch.vacuum();
  const one = all.slice(0, 1);
  const rows = [
    ['get', (tenants: SmallTenant[]) => getWorkload(bench, tenants)],
    ['create', (tenants: SmallTenant[]) => createWorkload(bench, tenants)],
  ] as const;
  return rows.map(([name, workload]) => ({
    id: `tenants-${name}`,
    label: `${name}, ${count.toLocaleString('en-US')} tenants`,
    against: '1 tenant',
    baseline: workload(one),
    subject: workload(all),
    must: 1.2,
    goal: 1.1,
  }));
}

async function createSmallTenants(bench: Bench, count: number): Promise<SmallTenant[]> {
  const made: SmallTenant[] = [];
  let next = 0;
  const worker = async () => {
    while (next < count) made.push(await createSmallTenant(bench, `bench-${next++}`));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return made;
}

async function createSmallTenant({ fixture, env }: Bench, slug: string): Promise<SmallTenant> {
  const key = await createTenant(fixture.server.port, env.ADMIN_SECRET, slug);
  const api = new Api(fixture.server.port, { key });
  const people = await createPeople(api, 1);
  await createItems(api, 'items');
  const records = Array.from({ length: RECORDS }, (_, at) => item(at, RECORDS, people));
  return { key, people, ids: await api.createMany('items', records) };
}

/** Cycles through the tenants: consecutive requests belong to different ones. */
function getWorkload({ fixture }: Bench, tenants: readonly SmallTenant[]): Workload {
  const rounds = Array.from({ length: RECORDS }, (_, at) => at);
  const targets = rounds.flatMap((at) =>
    tenants.map(({ key, ids }): Target => ({ method: 'GET', path: `${PATH}/${ids[at]}`, key })),
  );
  const problem: Workload['problem'] = (data, { path }) =>
    path.endsWith((data as { id: string }).id) ? null : 'another record than the one asked for';
  return { server: fixture.server, targets: () => targets, problem };
}

function createWorkload({ fixture }: Bench, tenants: readonly SmallTenant[]): Workload {
  const targets = tenants.map(({ key, people }, at): Target => {
    return { method: 'POST', path: PATH, key, body: JSON.stringify(item(at, tenants.length, people)) };
  });
  const problem: Workload['problem'] = (data) => ((data as { title?: string }).title ? null : 'not the record created');
  return { server: fixture.server, targets: () => targets, problem };
}
