// Whether cost grows with the entity: the same requests on a fresh entity of 1,000 records and on a large one, both
// in the tenant of the run. Reads come before writes, which change the number of records.

import { Api } from './api.ts';
import { SAMPLE } from './dataset.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';
import { createItems, importItems } from './service.ts';
import { serviceShots } from './service-shots.ts';
import type { ServiceWorld } from './world.ts';

const SMALL = 1_000;
const COMPARED = ['get', 'list', 'filter', 'create', 'update', 'delete'] as const;

/** Makes both entities (the large one takes minutes) and compares them. */
export async function scaleComparisons(bench: Bench, large: number): Promise<Comparison[]> {
  const { options, scratch, say } = bench;
  say(`filling an entity with ${large} records`);
  const [few, many] = [await fillEntity(bench, 'few', SMALL), await fillEntity(bench, 'many', large)];
  await scratch.settle();
  const baseline = serviceShots(few, options.seconds, 'few', 'few');
  const subject = serviceShots(many, options.seconds, 'many', 'many');
  return COMPARED.map((name) => ({
    id: `scale-${name}`,
    label: `${name}, ${large.toLocaleString('en-US')} records`,
    against: '1,000 records',
    baseline: baseline[name],
    subject: subject[name],
    must: 1.5,
    goal: 1.3,
  }));
}

async function fillEntity({ world }: Bench, entity: string, records: number): Promise<ServiceWorld> {
  const api = new Api(world.server.port, { key: world.key });
  await createItems(api, entity);
  await importItems(api, entity, records, world.people);
  const ids = await api.sampleIds(entity, records, SAMPLE);
  return { ...world, records, ids: { items: ids, items_w: ids } };
}
