// Indexes of several fields: what a definition may declare, that lists use their order in either direction, and what happens to
// them when fields and tenants change.
// Contract: decisions#indexes.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { catalogOf } from '../src/entities/catalog.ts';
import { sql } from '../src/runtime/sql.ts';
import { type Tenant, tenantById } from '../src/tenants/tenants.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
let next = 0;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const NDJSON = { 'content-type': 'application/x-ndjson' };
const FIELDS = [
  { key: 'stage', type: 'select', options: ['open', 'won', 'lost'] },
  { key: 'amount', type: 'integer' },
  { key: 'title', type: 'text' },
  { key: 'tags', type: 'multiselect', options: ['a', 'b'] },
];

async function newEntity(indexes?: Json, fields: Json[] = FIELDS): Promise<string> {
  const name = `deals${++next}`;
  const made = await tenant.post('/api/entities', { name, fields, ...(indexes === undefined ? {} : { indexes }) });
  if (made.status !== 201) throw new Error(made.text);
  return name;
}

const shownIndexes = async (name: string): Promise<Json> =>
  (await tenant.get(`/api/entities/${name}`)).body.data.indexes;

/** The names of the indexes in the database that definitions declare. */
async function builtIndexes(name: string): Promise<string[]> {
  const found = (await tenantById(service.app, tenant.id)) as Tenant;
  const entity = (await catalogOf(service.app, found)).byName.get(name);
  const rows = await service.app.db.rows<{ name: string }>(sql`
    select indexname::text as name from pg_indexes where tablename = ${entity?.tableName ?? ''} and indexname ~ '_x[fcu]'
    order by indexname`);
  return rows.map(({ name: index }) => index.replace(/^.*_x/, ''));
}

describe('a definition', () => {
  test('declares indexes when it is created, and shows them as ready', async () => {
    const name = await newEntity([{ fields: ['stage', '-amount'] }, { fields: ['updatedAt'] }]);
    expect(await shownIndexes(name)).toEqual([
      { fields: ['stage', '-amount'], state: 'ready' },
      { fields: ['updatedAt'], state: 'ready' },
    ]);
    expect(await builtIndexes(name)).toEqual(['f1f2d', 'ua']);
  });

  test('has none unless it says so', async () => {
    const name = await newEntity();
    expect(await shownIndexes(name)).toEqual([]);
  });

  test('takes at most 8 indexes of at most 3 fields, and each problem is named', async () => {
    const answer = await tenant.post('/api/entities', {
      name: 'faulty',
      fields: FIELDS,
      indexes: [
        { fields: ['stage', 'nothing'] },
        { fields: ['tags'] },
        { fields: ['id'] },
        { fields: ['amount', '-amount'] },
        { fields: ['title', '-createdAt'] },
        { fields: ['title', '-createdAt'] },
      ],
    });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details).toEqual([
      {
        path: 'indexes.0.fields.1',
        message: 'unknown field "nothing"; an index takes fields and createdAt, updatedAt, createdBy, updatedBy',
      },
      { path: 'indexes.1.fields.0', message: 'records cannot be sorted by "tags"' },
      { path: 'indexes.2.fields.0', message: '"id" needs no index' },
      { path: 'indexes.3.fields.1', message: '"amount" is named twice' },
      { path: 'indexes.5', message: 'is the same as indexes.4' },
    ]);
    const columns = ['stage', 'amount', 'title', 'createdAt'];
    const nine = columns.flatMap((one) => [[one], [`-${one}`], [one, 'updatedAt']]).slice(0, 9);
    const refused = async (indexes: Json) => {
      const { status, body } = await tenant.patch(`/api/entities/${name}`, { indexes });
      return { status, path: body.error?.details?.[0]?.path };
    };
    const name = await newEntity();
    expect(await refused(nine.map((fields) => ({ fields })))).toEqual({ status: 400, path: 'indexes' });
    expect(await refused([{ fields: columns }])).toEqual({ status: 400, path: 'indexes.0.fields' });
    expect(await refused([{ fields: [] }])).toEqual({ status: 400, path: 'indexes.0.fields' });
    expect(await shownIndexes(name)).toEqual([]);
    const eight = nine.slice(0, 8).map((fields) => ({ fields }));
    expect((await tenant.patch(`/api/entities/${name}`, { indexes: eight })).status).toBe(200);
    expect(await builtIndexes(name)).toHaveLength(8);
  });

  test('is changed as a whole: new indexes are built, missing ones are dropped; the form in responses is accepted too', async () => {
    const name = await newEntity([{ fields: ['stage', 'amount'] }]);
    await tenant.post(`/api/entities/${name}/records`, { stage: 'open', amount: 1 });
    const indexes = [...(await shownIndexes(name)), { fields: ['-title'] }];
    const changed = await tenant.patch(`/api/entities/${name}`, { indexes });
    expect(changed.body.data.indexes.map(({ state }: Json) => state)).toEqual(['ready', 'ready']);
    expect(await builtIndexes(name)).toEqual(['f1f2', 'f3d']);
    await tenant.patch(`/api/entities/${name}`, { indexes: [{ fields: ['-title'] }] });
    expect(await builtIndexes(name)).toEqual(['f3d']);
    await tenant.patch(`/api/entities/${name}`, { label: 'Deals' });
    expect(await shownIndexes(name)).toEqual([{ fields: ['-title'], state: 'ready' }]);
    await tenant.patch(`/api/entities/${name}`, { indexes: [] });
    expect(await builtIndexes(name)).toEqual([]);
  });

  test('cannot change its indexes while another change lasts', async () => {
    const name = await newEntity();
    const lock = sql`
      insert into platform.definition_locks (tenant_id, holder, expires_at)
      values (${tenant.id}::uuid, ${tenant.id}::uuid, now() + interval '1 minute')`;
    await service.app.db.rows(lock);
    const answer = await tenant.patch(`/api/entities/${name}`, { indexes: [{ fields: ['amount'] }] });
    await service.app.db.rows(sql`delete from platform.definition_locks where tenant_id = ${tenant.id}::uuid`);
    expect(answer.status).toBe(409);
    expect(await builtIndexes(name)).toEqual([]);
  }, 15_000);

  test('can be tried without building an index; an index that stored values do not fit leaves everything unchanged', async () => {
    const name = await newEntity([{ fields: ['amount'] }]);
    const path = `/api/entities/${name}/records`;
    // Random, since Postgres compresses what is alike.
    const bytes = crypto.getRandomValues(new Uint8Array(6_000));
    const title = Buffer.from(bytes).toString('base64');
    expect((await tenant.post(path, { title })).status).toBe(201);
    const indexes = [{ fields: ['title', 'amount'] }];
    const tried = await tenant.patch(`/api/entities/${name}?dryRun=true`, { indexes });
    expect(tried.status).toBe(200);
    expect(await builtIndexes(name)).toEqual(['f2']);
    const change = { indexes, label: 'Deals', searchFolding: false };
    const refused = await tenant.patch(`/api/entities/${name}`, change);
    expect(refused.status).toBe(409);
    expect(refused.body.error.message).toBe('stored values are too large for an index');
    const kept = { indexes: [{ fields: ['amount'], state: 'ready' }], label: null, searchFolding: true };
    expect((await tenant.get(`/api/entities/${name}`)).body.data).toMatchObject(kept);
    expect(await builtIndexes(name)).toEqual(['f2']);
  });

  test('shows no index on a field that is hidden from the caller', async () => {
    const name = await newEntity([{ fields: ['stage', 'amount'] }, { fields: ['title'] }]);
    await tenant.post('/api/roles', {
      name: `reader${next}`,
      permissions: { [name]: ['read'] },
      entities: { [name]: { excludeFields: ['amount'] } },
    });
    const api = (
      await tenant.post('/api/apis', {
        name: 'A',
        slug: `a${next}`,
        roles: [`reader${next}`],
        permissions: { [name]: { [`reader${next}`]: ['read'] } },
      })
    ).body.data;
    const { key } = (await tenant.post(`/api/apis/${api.id}/keys`, { role: `reader${next}`, label: 'k' })).body.data;
    const shown = await service.anonymous.get(`/api/entities/${name}`, { authorization: `Bearer ${key}` });
    expect(shown.body.data.indexes).toEqual([{ fields: ['title'], state: 'ready' }]);
  });
});

describe('lists', () => {
  test('are the same with an index as without, forward and backward, by page and by cursor', async () => {
    const indexed = await newEntity([{ fields: ['stage', '-amount', 'title'] }, { fields: ['-amount', '-updatedAt'] }]);
    const plain = await newEntity();
    const records = Array.from({ length: 60 }, (_, n) => ({
      ...(n % 7 === 0 ? {} : { stage: ['open', 'won', 'lost'][n % 3] }),
      ...(n % 5 === 0 ? {} : { amount: n % 4 }),
      ...(n % 6 === 0 ? {} : { title: `t${n % 8}` }),
    }));
    for (const name of [indexed, plain]) {
      const operations = records.map((data) => ({ op: 'create', data }));
      expect((await tenant.post(`/api/entities/${name}/records/bulk`, { operations })).status).toBe(200);
    }
    const all = async (name: string, query: Record<string, string>, isPaged: boolean): Promise<Json[]> => {
      const items: Json[] = [];
      let cursor = '';
      for (let page = 1; ; page++) {
        const position: Record<string, string> = isPaged ? { page: String(page) } : { cursor };
        const search = new URLSearchParams({ ...query, ...position, limit: '7' });
        const { body } = await tenant.get(`/api/entities/${name}/records?${search}`);
        items.push(...body.data.items);
        cursor = body.data.nextCursor ?? '';
        if (isPaged ? body.data.items.length < 7 : cursor === '') break;
      }
      return items.map(({ stage, amount, title }) => ({ stage, amount, title }));
    };
    const queries: Record<string, string>[] = [
      { filters: 'stage = open', sort: '-amount,title' },
      { filters: 'stage = open', sort: 'amount,-title' },
      { sort: 'stage,-amount,title' },
      { sort: '-stage,amount,-title' },
      { filters: 'stage = won AND amount = 2', sort: 'title' },
      { filters: 'stage = won AND amount = 2', sort: '-title' },
      { filters: 'amount > 1', sort: '-amount,-createdAt' },
    ];
    for (const query of queries) {
      const expected = await all(plain, query, true);
      expect(expected.length).toBeGreaterThan(0);
      expect(await all(indexed, query, true)).toEqual(expected);
      expect(await all(indexed, query, false)).toEqual(expected);
    }
  });
});

describe('a change of fields', () => {
  test('renames them in the indexes, and drops the indexes of a dropped field', async () => {
    const name = await newEntity([{ fields: ['stage', 'amount'] }, { fields: ['amount'] }]);
    await tenant.patch(`/api/entities/${name}/fields/amount`, { key: 'value' });
    expect(await shownIndexes(name)).toEqual([
      { fields: ['stage', 'value'], state: 'ready' },
      { fields: ['value'], state: 'ready' },
    ]);
    await tenant.delete(`/api/entities/${name}/fields/stage`);
    expect(await shownIndexes(name)).toEqual([{ fields: ['value'], state: 'ready' }]);
    expect(await builtIndexes(name)).toEqual(['f2']);
  });
});

test('an exported tenant keeps its indexes', async () => {
  const other = await service.tenant();
  const indexes = [{ fields: ['stage', '-amount'] }, { fields: ['-updatedAt', 'title'] }];
  await other.post('/api/entities', { name: 'deals', fields: FIELDS, indexes });
  const document = (await other.get('/api/tenant/export')).text;
  for (const ids of ['keep', 'new']) {
    const slug = `copy-${ids}-${other.slug}`.slice(0, 40);
    const answer = await service.admin.post(
      `/api/admin/platform/tenants/import?slug=${slug}&ids=${ids}`,
      document,
      NDJSON,
    );
    expect(answer.status).toBe(201);
    const copy = await service.anonymous.get('/api/entities/deals', { 'x-api-key': answer.body.data.apiKey });
    expect(copy.body.data.indexes).toEqual(indexes.map((index) => ({ ...index, state: 'ready' })));
  }
});
