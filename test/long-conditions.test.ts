// Long conditions of many requests that arrive together: reading them takes turns with other requests.
// Contract: neighbours#fair-shares.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { fields, newEntity } from './support/entities.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';

const terms = (count: number, term: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => term(i)).join(' OR ');
const LONG = terms(48, (i) => `t contains "${'x'.repeat(20)}${i}"`);

let service: TestService;
let tenant: TestTenant;
let path: string;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  const target = await newEntity(tenant, fields('t text'));
  const relations = Array.from({ length: 40 }, (_, i) => ({ key: `r${i}`, type: 'relation', entity: target.name }));
  const entity = await newEntity(tenant, [...fields('t text'), ...relations]);
  path = entity.path;
  const filterDsl = { validate: Array.from({ length: 20 }, () => ({ condition: LONG })) };
  await tenant.post('/api/views', { entitySlug: entity.name, slug: 'long', name: 'long', filterDsl });
  const entities = Object.fromEntries([target.name, entity.name].map((name) => [name, { rowFilter: LONG }]));
  await tenant.post('/api/roles', { name: 'long', permissions: { '*': ['read'], 'view:long': ['read'] }, entities });
});
afterAll(() => service?.stop());

/** Of which the last term is refused: only the reading of the conditions takes time. */
const REFUSED = encodeURIComponent(`${terms(40, (i) => `r${i}.t = x`)} OR nothing = 1`);

test.each([
  ['lists', () => `${path}?filters=${REFUSED}`],
  ['aggregates', () => `${path}/aggregate?filters=${REFUSED}`],
  ['lists of a view', () => `/api/views/long/records?filters=${REFUSED}`],
  ['changes', () => `/api/changes?view=long&filters=${REFUSED}`],
])(
  'conditions of a hundred requests that arrive together do not hold the event loop: %s',
  async (_, url) => {
    const get = () => tenant.get(url(), { 'x-svc-as-role': 'long' });
    const { result, stallMs } = await measureStall(() => Promise.all(Array.from({ length: 100 }, get)));
    expect(new Set(result.map(({ status }) => status))).toEqual(new Set([400]));
    expect(stallMs).toBeLessThan(STALL_MAX_MS / 2);
  },
  60_000,
);
