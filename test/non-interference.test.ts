// Hidden data is indistinguishable from data that does not exist. Two tenants are built from one random plan: in the
// first a role hides fields and rows, in the second they never existed. Every request must get the same response in
// both, byte for byte except ids and times; and changing only hidden data changes no response.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import fc from 'fast-check';
import { tableNameOf } from '../src/entities/field.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { withRole } from './support/credentials.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RUNS = Number(process.env.NON_INTERFERENCE_RUNS ?? 6);
const SEED = Number(process.env.NON_INTERFERENCE_SEED ?? 20_260_301);

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const WORDS = ['alpha', 'beta', 'Gamma', 'delta one', 'alphabet', 'één', 'x y', 'canary'];
const FIELDS: readonly Json[] = [
  { key: 'title', type: 'text' },
  { key: 'num', type: 'integer', indexed: true },
  { key: 'kind', type: 'select', options: ['a', 'b', 'c'] },
  { key: 'note', type: 'text' },
  { key: 'rank', type: 'number' },
  { key: 'price', type: 'decimal' },
  { key: 'tags', type: 'multiselect', options: ['a', 'b', 'c'] },
  { key: 'link', type: 'relation', entity: 'other' },
];
const KEYS: readonly string[] = FIELDS.map(({ key }) => key);
const OTHER: readonly Json[] = [
  { key: 'label', type: 'text' },
  { key: 'code', type: 'text' },
];

interface Row {
  values: Record<string, unknown>;
  /** The index of the related row in `others`. */
  link: number | null;
  isShown: boolean;
}

interface Plan {
  hidden: string[];
  isList: boolean;
  hidesCode: boolean;
  readsOther: boolean;
  rows: Row[];
  others: Row[];
  queries: string[];
}

const word = fc.constantFrom(...WORDS);
const values = fc.record(
  {
    title: word,
    num: fc.integer({ min: 0, max: 4 }),
    kind: fc.constantFrom('a', 'b', 'c'),
    note: word,
    rank: fc.constantFrom(0, 1.5, -2),
    price: fc.constantFrom('1.10', '20', '3'),
    tags: fc.subarray(['a', 'b', 'c'], { minLength: 1 }),
  },
  { requiredKeys: [] },
);
const isShown = fc.boolean();
const row = fc.record({ values, link: fc.option(fc.nat(20)), isShown });
const other = fc.record({ values: fc.record({ label: word, code: word }), link: fc.constant(null), isShown });

const key = fc.constantFrom(...KEYS, 'shown', 'nosuch', 'id', 'link.label', 'link.code', 'link.ok');
const literal = fc.oneof(
  word.map((text) => JSON.stringify(text)),
  fc.constantFrom('1', '2', 'a', 'null', 'true', '1.5'),
);
const term = fc
  .tuple(key, fc.constantFrom('=', '!=', '>', '<=', 'contains', 'startsWith', 'is not null'), literal)
  .map(([name, operator, value]) =>
    operator === 'is not null' ? `${name} ${operator}` : `${name} ${operator} ${value}`,
  );
const filters = fc
  .tuple(fc.array(term, { minLength: 1, maxLength: 3 }), fc.constantFrom(' AND ', ' OR ', ' AND NOT '))
  .map(([terms, glue]) => `filters=${encodeURIComponent(terms.join(glue))}`);
const throughLink = fc
  .tuple(fc.constantFrom('', 'NOT '), fc.constantFrom('label', 'code'), fc.constantFrom('=', '!=', 'contains'), word)
  .map(([not, name, operator, text]) => `${not}link.${name} ${operator} ${JSON.stringify(text)}`);
const sort = fc.array(fc.tuple(fc.constantFrom('', '-'), key), { minLength: 1, maxLength: 2 });
const parameter = fc.oneof(
  { weight: 4, arbitrary: filters },
  { weight: 2, arbitrary: throughLink.map((text) => `filters=${encodeURIComponent(text)}`) },
  { weight: 2, arbitrary: sort.map((keys) => `sort=${keys.map((parts) => parts.join('')).join(',')}`) },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom('alp', 'beta', 'canary', 'één', 'y alpha')
      .map((text) => `search=${encodeURIComponent(text)}`),
  },
  fc.tuple(key, fc.constantFrom('1', 'a', 'alpha')).map(([name, value]) => `filter.${name}=${value}`),
  fc.subarray([...KEYS, 'shown', 'nosuch'], { minLength: 1, maxLength: 3 }).map((keys) => `fields=${keys}`),
  fc.constantFrom('limit=3', 'limit=2', 'count=none', 'resolve=true', 'resolve_depth=2', 'order=desc'),
);
const query = fc
  .array(parameter, { maxLength: 3 })
  .map((parts) => [...new Map(parts.map((part) => [part.split('=')[0], part])).values()].join('&'));
const aggregate = fc
  .tuple(
    fc.subarray([...KEYS, 'shown'], { minLength: 1, maxLength: 2 }),
    fc.constantFrom('sum', 'avg', 'min', 'max'),
    query,
  )
  .map(
    ([keys, name, rest]) =>
      `/api/entities/item/records/aggregate?metrics=count,${name}:${keys[0]}&groupBy=${keys.at(-1)}&${rest
        .split('&')
        .filter((part) => /^(filter|search)/.test(part))
        .join('&')}`,
  );
const path = fc.oneof(
  { weight: 5, arbitrary: query.map((text) => `/api/entities/item/records?${text}`) },
  { weight: 2, arbitrary: query.map((text) => `/api/views/picked/records?${text}`) },
  query.map((text) => `/api/entities/other/records?${text}`),
  aggregate,
  fc.tuple(fc.constantFrom('csv', 'ndjson'), query).map(
    ([format, text]) =>
      `/api/entities/item/records/export?format=${format}&${text
        .split('&')
        .filter((part) => !/^(limit|count|resolve)/.test(part))
        .join('&')}`,
  ),
);
const plan: fc.Arbitrary<Plan> = fc.record({
  hidden: fc.subarray([...KEYS], { minLength: 1, maxLength: 6 }),
  isList: fc.boolean(),
  hidesCode: fc.boolean(),
  readsOther: fc.boolean(),
  rows: fc.array(row, { minLength: 6, maxLength: 20 }),
  others: fc.array(other, { minLength: 2, maxLength: 6 }),
  queries: fc.array(path, { minLength: 60, maxLength: 60 }),
});

/** One of the two tenants, with its restricted caller and its owner. */
interface World {
  owner: TestTenant;
  caller: Client;
  /** Ids of the visible rows, in the order of creation. */
  shown: string[];
  /** Ids of the hidden rows; in the second tenant, ids of no rows. */
  hidden: string[];
  /** The ids for `other`. */
  hiddenOthers: string[];
  labels: Map<string, string>;
}

async function build(plan: Plan, isPlain: boolean): Promise<World> {
  const owner = await service.tenant();
  const labels = new Map<string, string>();
  const flag = (name: string): Json[] => (isPlain ? [] : [{ key: name, type: 'boolean' }]);
  const codes = isPlain && plan.hidesCode ? OTHER.slice(0, 1) : OTHER;
  await mustCreate(owner, '/api/entities', { name: 'other', fields: [...codes, ...flag('ok')] });
  const fields = FIELDS.filter(({ key }) => !isPlain || !plan.hidden.includes(key));
  await mustCreate(owner, '/api/entities', { name: 'item', fields: [...flag('shown'), ...fields] });
  const body = (row: Row): Json => pick(row, codes, 'ok', isPlain, []);
  const others = await insert(owner, 'other', plan.others, false, body, labels);
  const targets = others.ids as string[];
  for (const [i, id] of targets.entries()) labels.set(id, `other ${i}`);
  const items = await insert(
    owner,
    'item',
    plan.rows,
    isPlain,
    (row) => pick(row, fields, 'shown', isPlain, targets),
    labels,
  );
  const condition = plan.hidden.includes('num') ? 'createdAt > "2020-01-01T00:00:00Z"' : 'num >= 1';
  const filterDsl = { validate: [{ condition }] };
  await mustCreate(owner, '/api/views', { entitySlug: 'item', slug: 'picked', name: 'Picked', filterDsl });
  if (isPlain) await deleteOthers(owner, others.hidden);
  const caller = await callerOf(plan, owner, isPlain);
  return { owner, caller, shown: items.shown, hidden: items.hidden, hiddenOthers: others.hidden, labels };
}

/** Deletes records of `other`, so that relations to them dangle. */
async function deleteOthers(owner: TestTenant, ids: readonly string[]): Promise<void> {
  const { id: entityId } = (await owner.get('/api/entities/other')).body.data;
  const schema = schemaOf(owner.id);
  await service.app.db.rows(sql`
    delete from ${identifier(schema, tableNameOf(entityId))} where id = any(${[...ids]}::uuid[])`);
  await service.app.db.rows(sql`
    update platform.entity_counts set n = n - ${ids.length}::bigint, v = v + 1
    where entity_id = ${entityId}::uuid and slot = 0`);
}

async function mustCreate(owner: Client, path: string, body: Json): Promise<Json> {
  const answer = await owner.post(path, body);
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.body.data;
}

function pick(row: Row, fields: readonly Json[], flag: string, isPlain: boolean, targets: string[]): Json {
  const picked: Json = {};
  for (const { key } of fields) {
    if (key in row.values) picked[key] = row.values[key];
    if (key === 'link' && row.link !== null && targets.length > 0) picked.link = targets[row.link % targets.length];
  }
  return isPlain ? picked : { ...picked, [flag]: row.isShown };
}

async function insert(
  owner: Client,
  entity: string,
  rows: readonly Row[],
  isPlain: boolean,
  body: (row: Row) => Json,
  labels: Map<string, string>,
) {
  const kept = rows.filter((row) => !isPlain || row.isShown);
  const ids: (string | null)[] = rows.map(() => null);
  if (kept.length > 0) {
    const operations = kept.map((row) => ({ op: 'create', data: body(row) }));
    const answer = await owner.post(`/api/entities/${entity}/records/bulk`, { operations });
    if (answer.body.data?.failed !== 0) throw new Error(answer.text);
    for (const [i, row] of kept.entries()) ids[rows.indexOf(row)] = answer.body.data.results[i].id;
  }
  for (const [i, id] of ids.entries()) if (id !== null && rows[i]?.isShown) labels.set(id, `${entity} ${i}`);
  const shown = rows.flatMap((row, i) => (row.isShown ? [ids[i] as string] : []));
  const hidden = rows.flatMap((row, i) => (row.isShown ? [] : [ids[i] ?? crypto.randomUUID()]));
  return { ids, shown, hidden };
}

function callerOf(plan: Plan, owner: TestTenant, isPlain: boolean): Promise<Client> {
  const operations = ['read', 'create', 'update', 'delete'] as const;
  const permissions = {
    item: [...operations],
    'view:picked': ['read' as const],
    ...(plan.readsOther ? { other: ['read' as const] } : {}),
  };
  if (isPlain) return withRole(service, owner, { permissions });
  const visible = KEYS.filter((key) => !plan.hidden.includes(key));
  const fields = plan.isList ? { fields: visible } : { excludeFields: ['shown', ...plan.hidden] };
  const code = plan.hidesCode ? ['ok', 'code'] : ['ok'];
  const entities = {
    item: { ...fields, rowFilter: 'shown = true' },
    other: { excludeFields: code, rowFilter: 'ok = true' },
  };
  return withRole(service, owner, { permissions, entities });
}

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;

/** A response as text, with ids replaced by labels and without times. */
async function ask(world: World, method: string, path: string, body?: Json): Promise<string> {
  const answer = await world.caller.request(method, path, body, { 'x-request-id': 'same' });
  const text = answer.text
    .replaceAll(UUID, (id) => world.labels.get(id) ?? 'id')
    .replaceAll(TIME, 'time')
    .replaceAll(/"nextCursor":"[^"]*"/g, '"nextCursor":"more"');
  const headers = ['content-type', 'etag', 'allow'].map((name) => `${name}=${answer.headers.get(name)}`);
  return `${answer.status} ${headers.join(' ')} ${text}`;
}

/** Every page of a list, following the cursors of this tenant. */
async function walk(world: World, sortBy: string): Promise<string[]> {
  const pages: string[] = [];
  let cursor = '';
  for (let i = 0; i < 30; i++) {
    const path = `/api/entities/item/records?limit=3&sort=${sortBy}&cursor=${cursor}`;
    pages.push(await ask(world, 'GET', path));
    const { body } = await world.caller.get(path);
    cursor = body.data?.nextCursor ?? '';
    if (cursor === '') return pages;
  }
  return pages;
}

/** The responses to all reads. */
async function answers(world: World, plan: Plan): Promise<[string, string][]> {
  const asked: [string, string][] = [];
  const get = async (name: string, path: string): Promise<void> => {
    asked.push([name, await ask(world, 'GET', path)]);
  };
  for (const path of plan.queries) await get(path, path);
  for (const path of ['entities', 'entities/item', 'entities/item/fields', 'entities/other', 'views'])
    await get(path, `/api/${path}`);
  const idSets: [string, string[]][] = [
    ['shown', world.shown],
    ['hidden', world.hidden],
  ];
  for (const [name, ids] of idSets) {
    for (const [i, id] of ids.entries()) {
      for (const base of ['entities/item', 'views/picked']) {
        await get(`${name} ${i} in ${base}`, `/api/${base}/records/${id}${i % 2 === 0 ? '' : '?resolve_depth=2'}`);
      }
    }
  }
  for (const name of ['title', '-num', 'rank,-price', 'shown']) {
    for (const [i, page] of (await walk(world, name)).entries()) asked.push([`walk ${name} ${i}`, page]);
  }
  return asked;
}

/** The responses to the caller's writes, most of which refer to hidden data. */
async function writes(world: World, plan: Plan): Promise<[string, string][]> {
  const asked: [string, string][] = [];
  const [hidden] = plan.hidden as [string];
  const visible = KEYS.find((key) => !plan.hidden.includes(key) && key !== 'link' && key !== 'tags');
  const [shownId = crypto.randomUUID()] = world.shown;
  const [hiddenId = crypto.randomUUID()] = world.hidden;
  const base = '/api/entities/item/records';
  const requests: [string, string, Json?][] = [
    ['POST', base, { [hidden]: 'a', shown: true }],
    ['PATCH', `${base}/${shownId}`, { [hidden]: 1, nosuch: 1 }],
    ['PUT', `${base}/${hiddenId}`, {}],
    ['PATCH', `${base}/${hiddenId}`, visible === undefined ? {} : { [visible]: null }],
    ['DELETE', `${base}/${hiddenId}`],
    [
      'POST',
      `${base}/bulk`,
      {
        operations: [
          { op: 'update', id: hiddenId, data: {} },
          { op: 'create', data: { shown: true } },
        ],
      },
    ],
    ['POST', `${base}/bulk`, { atomic: false, operations: [{ op: 'delete', id: hiddenId }] }],
    ['PATCH', `${base}/${shownId}`, visible === undefined ? {} : { [visible]: null }],
    ['DELETE', `${base}/${shownId}`],
  ];
  for (const [i, [method, path, body]] of requests.entries()) {
    asked.push([`write ${i}`, await ask(world, method, path, body)]);
  }
  return asked;
}

/** Changes hidden values and rows only. */
async function changeHidden({ owner, shown, hidden, hiddenOthers }: World, plan: Plan): Promise<void> {
  const other: Json = {
    title: 'canary',
    num: 3,
    kind: 'c',
    note: 'canary alpha',
    rank: -2,
    price: '7',
    tags: ['c'],
    link: null,
  };
  const change = Object.fromEntries(plan.hidden.map((key) => [key, other[key]]));
  const operations = [
    ...shown.map((id) => ({ op: 'update', id, data: change })),
    ...hidden.map((id, i) =>
      i % 2 === 0 ? { op: 'delete', id } : { op: 'update', id, data: { ...other, shown: false } },
    ),
    ...[1, 2, 3].map(() => ({ op: 'create', data: { ...other, shown: false } })),
  ];
  const answer = await owner.post('/api/entities/item/records/bulk', { operations });
  expect(answer.body.data?.failed, answer.text).toBe(0);
  const changed = { label: 'canary', code: 'canary', ok: false };
  const elsewhere = [
    { op: 'create', data: changed },
    ...hiddenOthers.map((id) => ({ op: 'update', id, data: changed })),
  ];
  expect((await owner.post('/api/entities/other/records/bulk', { operations: elsewhere })).body.data?.failed).toBe(0);
}

const withoutETag = (asked: [string, string][]): [string, string][] =>
  asked.map(([name, text]) => [name, text.replace(/etag=\S+/, 'etag')]);

test('hidden fields and rows do not exist for the role in any request', async () => {
  let compared = 0;
  await fc.assert(
    fc.asyncProperty(plan, async (drawn) => {
      const hiding = await build(drawn, false);
      const plain = await build(drawn, true);
      const before = await answers(hiding, drawn);
      expect(before).toEqual(await answers(plain, drawn));
      await changeHidden(hiding, drawn);
      expect(withoutETag(await answers(hiding, drawn))).toEqual(withoutETag(before));
      const written = await writes(hiding, drawn);
      // Versions count hidden changes too, as documented.
      expect(withoutETag(written)).toEqual(withoutETag(await writes(plain, drawn)));
      compared += before.length + written.length;
    }),
    { numRuns: RUNS, seed: SEED, endOnFailure: true },
  );
  expect(compared).toBeGreaterThan(60 * RUNS);
}, 600_000);

test('a row filter that no longer fits its entity denies access and reveals no names', async () => {
  const owner = await service.tenant();
  await mustCreate(owner, '/api/entities', { name: 'item', fields: [{ key: 'title', type: 'text' }] });
  await mustCreate(owner, '/api/entities/item/records', { title: 'x' });
  const entities = { item: { rowFilter: 'formerkey = 1' } };
  const caller = await withRole(service, owner, { permissions: { '*': ['read', 'create'] }, entities });
  for (const path of ['', '/aggregate?metrics=count', '/export?format=ndjson', `/${crypto.randomUUID()}`]) {
    const answer = await caller.get(`/api/entities/item/records${path}`);
    expect(answer.status).toBe(403);
    expect(answer.text).not.toContain('formerkey');
  }
  expect((await caller.post('/api/entities/item/records', { title: 'y' })).status).toBe(403);
});

test('a relation to an entity whose row filter no longer fits stays an id', async () => {
  const owner = await service.tenant();
  await mustCreate(owner, '/api/entities', { name: 'company', fields: [{ key: 'title', type: 'text' }] });
  const fields = [
    { key: 'title', type: 'text' },
    { key: 'company', type: 'relation', entity: 'company' },
  ];
  await mustCreate(owner, '/api/entities', { name: 'item', fields });
  const company = await mustCreate(owner, '/api/entities/company/records', { title: 'canary' });
  const item = await mustCreate(owner, '/api/entities/item/records', { title: 'x', company: company.id });
  const caller = await withRole(service, owner, {
    permissions: { '*': ['read'], 'view:*': ['read'] },
    entities: { company: { rowFilter: 'formerkey = 1' } },
  });
  await mustCreate(owner, '/api/views', {
    entitySlug: 'item',
    slug: 'items',
    name: 'Items',
    filterDsl: { validate: [] },
  });
  for (const path of ['/api/entities/item/records', '/api/views/items/records']) {
    const listed = await caller.get(`${path}?resolve_depth=2`);
    expect([listed.status, listed.body.data?.items?.[0]?.company]).toEqual([200, company.id]);
    const read = await caller.get(`${path}/${item.id}?resolve=true`);
    expect([read.status, read.body.data?.company]).toEqual([200, company.id]);
  }
  expect((await caller.get(`/api/entities/company/records/${company.id}`)).status).toBe(403);
});

test('a unique value of a hidden row is reported as taken, and nothing else is revealed', async () => {
  const owner = await service.tenant();
  const fields = [
    { key: 'code', type: 'text', unique: true },
    { key: 'secret', type: 'text' },
  ];
  await mustCreate(owner, '/api/entities', { name: 'item', fields });
  await mustCreate(owner, '/api/entities/item/records', { code: 'taken', secret: 'canary' });
  const entities = { item: { excludeFields: ['secret'], rowFilter: 'secret is null' } };
  const caller = await withRole(service, owner, { permissions: { item: ['read', 'create', 'update'] }, entities });
  const refused = await caller.post('/api/entities/item/records', { code: 'taken' });
  expect(refused.status).toBe(409);
  expect(refused.text).not.toMatch(/canary|secret|r_[0-9a-f]{32}|_key|constraint/);
  const made = await caller.post('/api/entities/item/records', { code: 'free' });
  expect(made.status).toBe(201);
  expect(made.text).not.toContain('secret');
  const changed = await caller.patch(`/api/entities/item/records/${made.body.data.id}`, { code: 'taken' });
  expect(changed.status).toBe(409);
});

test('a caller can neither write hidden fields, nor move a row out of its filter, nor create one outside it', async () => {
  const owner = await service.tenant();
  const fields = ['title', 'team', 'secret'].map((key) => ({ key, type: 'text' }));
  await mustCreate(owner, '/api/entities', { name: 'item', fields });
  const entities = { item: { fields: ['title', 'team'], rowFilter: 'team = "red"' } };
  const caller = await withRole(service, owner, { permissions: { item: ['read', 'create', 'update'] }, entities });
  const base = '/api/entities/item/records';
  const own = await caller.post(base, { title: 'mine', team: 'red' });
  expect(own.status).toBe(201);
  const path = `${base}/${own.body.data.id}`;
  await owner.patch(path, { secret: 'canary' });
  const cases: [Json, number][] = [
    [{ team: 'blue' }, 403],
    [{ team: null }, 403],
    [{ secret: 'mine' }, 400],
    [{ secret: null }, 400],
    [{ title: 'new' }, 200],
    [{}, 200],
  ];
  for (const [body, status] of cases) {
    const answer = await caller.patch(path, body);
    expect(answer.status, JSON.stringify(body)).toBe(status);
    expect(answer.text).not.toContain('canary');
  }
  expect((await caller.post(base, { title: 'theirs', team: 'blue' })).status).toBe(403);
  const { data } = (await owner.get(path)).body;
  expect(data).toMatchObject({ title: 'new', team: 'red', secret: 'canary' });
});
