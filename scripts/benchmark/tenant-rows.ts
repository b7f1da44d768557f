// Whether cost grows with the number of tenants: the same requests to one tenant and spread over all of them. Every
// tenant has the same small entity, so that only the number of tenants differs.

import { Api } from './api.ts';
import { item } from './dataset.ts';
import type { Target } from './generator.ts';
import type { Shot } from './measure.ts';
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

/** Makes `count` tenants with an entity each and compares one with all. */
export async function tenantComparisons(bench: Bench, count: number): Promise<Comparison[]> {
  bench.say(`making ${count} tenants`);
  const all = await makeTenants(bench, count);
  await bench.scratch.settle();
  const one = all.slice(0, 1);
  const rows = [
    ['get', (tenants: SmallTenant[]) => getShot(bench, tenants)],
    ['create', (tenants: SmallTenant[]) => createShot(bench, tenants)],
  ] as const;
  return rows.map(([name, shot]) => ({
    id: `tenants-${name}`,
    label: `${name}, ${count.toLocaleString('en-US')} tenants`,
    against: '1 tenant',
    baseline: shot(one),
    subject: shot(all),
    must: 1.2,
    goal: 1.1,
  }));
}

async function makeTenants(bench: Bench, count: number): Promise<SmallTenant[]> {
  const made: SmallTenant[] = [];
  let next = 0;
  const worker = async () => {
    while (next < count) made.push(await makeTenant(bench, `bench-${next++}`));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return made;
}

async function makeTenant({ world, env }: Bench, slug: string): Promise<SmallTenant> {
  const key = await createTenant(world.server.port, env.ADMIN_SECRET, slug);
  const api = new Api(world.server.port, { key });
  const people = await createPeople(api, 1);
  await createItems(api, 'items');
  const records = Array.from({ length: RECORDS }, (_, at) => item(at, RECORDS, people));
  return { key, people, ids: await api.createMany('items', records) };
}

/** Goes round the tenants, so that neighbouring requests are of different ones. */
function getShot({ world }: Bench, tenants: readonly SmallTenant[]): Shot {
  const rounds = Array.from({ length: RECORDS }, (_, at) => at);
  const targets = rounds.flatMap((at) =>
    tenants.map(({ key, ids }): Target => ({ method: 'GET', path: `${PATH}/${ids[at]}`, key })),
  );
  const wrong: Shot['wrong'] = (data, { path }) =>
    path.endsWith((data as { id: string }).id) ? null : 'another record than the one asked for';
  return { server: world.server, targets: () => targets, wrong };
}

function createShot({ world }: Bench, tenants: readonly SmallTenant[]): Shot {
  const targets = tenants.map(({ key, people }, at): Target => {
    return { method: 'POST', path: PATH, key, body: JSON.stringify(item(at, tenants.length, people)) };
  });
  const wrong: Shot['wrong'] = (data) => ((data as { title?: string }).title ? null : 'not the record created');
  return { server: world.server, targets: () => targets, wrong };
}
