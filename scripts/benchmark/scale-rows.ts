// How cost grows with the size of the entity: the same requests on an entity of 1,000 records and on a large one, both
// in the tenant of the run. Reads come before writes, because writes change the number of records.
// Sizes are numbers of records.

import { Api } from './api.ts';
import { SAMPLE } from './dataset.ts';
import type { ServiceFixture } from './fixture.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';
import { createItems, importItems } from './service.ts';
import { serviceWorkloads } from './service-workloads.ts';

const SMALL = 1_000;
const COMPARED = ['get', 'list', 'sortCreated', 'sortIndexed', 'filter', 'create', 'update', 'delete'] as const;

/** Fills both entities (the large one takes minutes) and compares them. */
export async function scaleComparisons(bench: Bench, large: number): Promise<Comparison[]> {
  const { options, scratch, log } = bench;
  log(`filling an entity with ${large} records`);
  const [few, many] = [await fillEntity(bench, 'few', SMALL), await fillEntity(bench, 'many', large)];
  await scratch.vacuum();
  const baseline = serviceWorkloads(few, options.seconds, 'few', 'few');
  const subject = serviceWorkloads(many, options.seconds, 'many', 'many');
  return COMPARED.map((name) => ({
    id: `scale-${name}`,
    label: `${name}, ${large.toLocaleString('en-US')} records`,
    against: '1,000 records',
    baseline: baseline[name],
    subject: subject[name],
    must: 1.3,
    goal: 1.15,
  }));
}

async function fillEntity({ fixture }: Bench, entity: string, records: number): Promise<ServiceFixture> {
  const api = new Api(fixture.server.port, { key: fixture.key });
  await createItems(api, entity);
  await importItems(api, entity, records, fixture.people);
  const ids = await api.sampleIds(entity, records, SAMPLE);
  return { ...fixture, records, ids: { items: ids, items_w: ids } };
}
