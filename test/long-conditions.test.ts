// Long conditions: parsing the conditions of many requests that arrive together takes turns with other requests, and the number
// of comparisons, including the row filters of the targets of relations, is limited.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { fields, newEntity } from './support/entities.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';

const terms = (count: number, term: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => term(i)).join(' OR ');
const LONG = terms(48, (i) => `t contains "${'x'.repeat(20)}${i}"`);

let service: TestService;
let tenant: TestTenant;
let path: string;
let name: string;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  const target = await newEntity(tenant, fields('t text'));
  const relations = Array.from({ length: 50 }, (_, i) => ({ key: `r${i}`, type: 'relation', entity: target.name }));
  const entity = await newEntity(tenant, [...fields('t text'), ...relations]);
  ({ path, name } = entity);
  const filterDsl = { validate: Array.from({ length: 20 }, () => ({ condition: LONG })) };
  await tenant.post('/api/views', { entitySlug: entity.name, slug: 'long', name: 'long', filterDsl });
  const entities = Object.fromEntries([target.name, entity.name].map((name) => [name, { rowFilter: LONG }]));
  await tenant.post('/api/roles', { name: 'long', permissions: { '*': ['read'], 'view:long': ['read'] }, entities });
});
afterAll(() => service?.stop());

/** Conditions whose last term is refused, so that only parsing takes time. */
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

describe('conditions that follow relations to records with a long row filter', () => {
  const asRole = { 'x-svc-as-role': 'long' };
  const follow = (count: number, operator: string) =>
    Array.from({ length: count }, (_, i) => `r${i}.t contains "x"`).join(` ${operator} `);

  test('a list of views with such conditions does not hold the event loop', async () => {
    const filterDsl = { validate: Array.from({ length: 20 }, () => ({ condition: follow(50, 'OR') })) };
    const slugs = Array.from({ length: 5 }, (_, i) => `following${i}`);
    for (const slug of slugs) {
      const answer = await tenant.post('/api/views', { entitySlug: name, slug, name: slug, filterDsl });
      expect(answer.status).toBe(201);
    }
    const permissions = { '*': ['read'], ...Object.fromEntries(slugs.map((slug) => [`view:${slug}`, ['read']])) };
    expect((await tenant.patch('/api/roles/long', { permissions })).status).toBe(200);
    const { result, stallMs } = await measureStall(() => tenant.get('/api/views', asRole));
    expect(result.body.data.map(({ filterDsl }: { filterDsl: object }) => filterDsl)).toEqual(
      slugs.map(() => filterDsl),
    );
    expect(stallMs).toBeLessThan(STALL_MAX_MS / 2);
  }, 60_000);

  test('a condition makes at most 1,200 comparisons with these row filters', async () => {
    const list = (count: number) => tenant.get(`${path}?filters=${encodeURIComponent(follow(count, 'OR'))}`, asRole);
    expect((await list(20)).status).toBe(200);
    const refused = await list(40);
    expect([refused.status, refused.body.error.details]).toEqual([
      400,
      [{ path: 'filters', message: expect.stringContaining('at most 1200 comparisons') }],
    ]);
    expect((await tenant.get(`${path}?filters=${encodeURIComponent(follow(40, 'OR'))}`)).status).toBe(200);
  });
});

test.each(['AND', 'OR'])(
  'a condition that follows fifty relations is planned soon: %s',
  async (operator) => {
    const filters = Array.from({ length: 50 }, (_, i) => `r${i}.t contains "x${i}"`).join(` ${operator} `);
    for (const query of ['', '&count=none', '&sort=t&count=none']) {
      const answer = await tenant.get(`${path}?filters=${encodeURIComponent(filters)}${query}`);
      expect([answer.status, answer.body.data?.items]).toEqual([200, []]);
    }
  },
  30_000,
);
