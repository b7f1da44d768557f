// The advice on indexes: which slow lists count, what it shows of them, which index would serve each, and the limits of the
// counting.
// Contract: decisions#advice.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { FULL_RIGHTS } from '../src/access/rights.ts';
import { accessScopeOf } from '../src/entities/access-scope.ts';
import { catalogOf } from '../src/entities/catalog.ts';
import type { Entity } from '../src/entities/field.ts';
import { cleanUpOnce } from '../src/events/retention.ts';
import { LIMITS } from '../src/limits.ts';
import { select } from '../src/records/read/list.ts';
import { planList } from '../src/records/read/list-plan.ts';
import { orderBy, readSort } from '../src/records/read/order.ts';
import { countSlowList, flushSlowLists } from '../src/records/read/slow-lists.ts';
import { sql } from '../src/runtime/sql.ts';
import { type Tenant, tenantById } from '../src/tenants/tenants.ts';
import { userCaller } from './support/callers.ts';
import { withRole } from './support/credentials.ts';
import { callTool } from './support/mcp-calls.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { runInSchema } from './support/tenant-database.ts';

let service: TestService;
let tenant: TestTenant;
let next = 0;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const { keptHours, perEntity, perTenant, waiting } = LIMITS.advice;
const { ms: slowMs, records: recordsFrom } = LIMITS.slowList;
const HOUR_MS = 3_600_000;
const FIELDS = [
  { key: 'stage', type: 'select', options: ['open', 'won', 'lost'] },
  { key: 'amount', type: 'integer' },
  { key: 'title', type: 'text' },
  { key: 'isPaid', type: 'boolean' },
  { key: 'owner', type: 'text' },
  { key: 'due', type: 'date' },
  { key: 'code', type: 'text', unique: true },
  { key: 'tags', type: 'multiselect', options: ['a', 'b'] },
];

async function newEntity(of: TestTenant = tenant, more: Json[] = [], indexes: Json[] = []): Promise<string> {
  const name = `deals${++next}`;
  const made = await of.post('/api/entities', { name, fields: [...FIELDS, ...more], indexes });
  if (made.status !== 201) throw new Error(made.text);
  return name;
}

async function entityOf(name: string, { id }: { id: string } = tenant): Promise<Entity> {
  const found = (await tenantById(service.app, id)) as Tenant;
  return (await catalogOf(service.app, found)).byName.get(name) as Entity;
}

/** Makes the counters of an entity claim this many records. */
async function pretend(name: string, records: number): Promise<void> {
  const { id } = await entityOf(name);
  await service.app.db.rows(sql`
    update platform.entity_counts set n = ${records}::bigint where entity_id = ${id}::uuid and slot = 0`);
}

const adviceOn = async (name: string, of: TestTenant = tenant): Promise<Json[]> => {
  const { status, body, text } = await of.get(`/api/entities/${name}/advice`);
  if (status !== 200) throw new Error(text);
  return body.data;
};

/** Makes each statement on the entity's records take `ms` while requests run: a view that sleeps replaces its table. */
async function slowly<T>(
  name: string,
  run: () => Promise<T>,
  ms = slowMs * 2,
  records: number = recordsFrom,
): Promise<T> {
  await pretend(name, records);
  const { tableName } = await entityOf(name);
  const kept = `alter table ${tableName} rename to kept`;
  const view = `create view ${tableName} as select * from kept where (select pg_sleep(${ms / 1_000}) is not null)`;
  await runInSchema(service, tenant, `${kept}; ${view}`);
  try {
    return await run();
  } finally {
    await runInSchema(service, tenant, `drop view ${tableName}; alter table kept rename to ${tableName}`);
  }
}

/** The counted slow lists, by their queries. */
async function listSlowly(name: string, ...queries: Record<string, string>[]): Promise<void> {
  await slowly(name, async () => {
    for (const query of queries) {
      const answer = await tenant.get(`/api/entities/${name}/records?${new URLSearchParams(query)}`);
      expect(answer.status, answer.text).toBe(200);
    }
  });
}

interface Parsed {
  entity: Entity;
  selection: ReturnType<typeof select>;
  keys: ReturnType<typeof readSort>;
}

async function parsed(name: string, { filters, sort }: Json, of: TestTenant = tenant): Promise<Parsed> {
  const caller = await userCaller(service, of, FULL_RIGHTS, { isTenantAdmin: true });
  const catalog = await catalogOf(service.app, caller.tenant);
  const scope = accessScopeOf(catalog, caller, catalog.byName.get(name) as Entity);
  return { entity: scope.entity, selection: select(scope, { filters }), keys: readSort(sort, undefined, scope.names) };
}

/** Counts a list as slow, without running it. */
async function count(name: string, query: Json, ms = 100, of: TestTenant = tenant): Promise<void> {
  const { entity, selection, keys } = await parsed(name, query, of);
  const serving = planList(entity, selection.condition, keys);
  countSlowList(service.app, entity, selection.condition, serving, ms);
}

async function countAndStore(name: string, query: Json, ms?: number): Promise<void> {
  await count(name, query, ms);
  await flushSlowLists(service.app);
}

const storedRows = async (column: 'tenant_id' | 'entity_id', id: string): Promise<Json[]> =>
  service.app.db.rows(
    sql`select combination, seen, total_ms from platform.slow_lists where ${column === 'tenant_id' ? sql`tenant_id` : sql`entity_id`} = ${id}::uuid`,
  );

describe('a slow list', () => {
  test('that no index serves is shown without its values, with the index that would serve it, until that is declared', async () => {
    const name = await newEntity();
    await tenant.post(`/api/entities/${name}/records`, { stage: 'open', amount: 5 });
    const alike = ['stage = open AND amount > 4', 'amount > 77 AND stage = "won"'];
    await listSlowly(name, ...alike.map((filters) => ({ filters, sort: '-amount' })));
    const [advice, ...others] = await adviceOn(name);
    expect(others).toEqual([]);
    expect(advice).toEqual({
      filters: 'stage = ? AND amount > ?',
      sort: '-amount',
      seen: 2,
      p50Ms: expect.any(Number),
      index: { fields: ['stage', '-amount'], state: 'possible' },
    });
    expect(advice.p50Ms).toBeGreaterThanOrEqual(slowMs);
    await flushSlowLists(service.app);
    const [{ combination }] = (await storedRows('entity_id', (await entityOf(name)).id)) as [Json];
    expect(combination).not.toMatch(/open|won|77/);
    const declared = await tenant.patch(`/api/entities/${name}`, { indexes: [advice.index] });
    expect(declared.body.data.indexes).toEqual([{ fields: ['stage', '-amount'], state: 'ready' }]);
    expect(await adviceOn(name)).toEqual([]);
    await listSlowly(name, { filters: 'stage = open AND amount > 4', sort: '-amount' });
    expect(await adviceOn(name)).toEqual([]);
  });

  test('counts if a view or MCP asks for it, with the filters of the view and of the role', async () => {
    const name = await newEntity();
    const dsl = { validate: [{ condition: 'stage = "open"' }] };
    await tenant.post('/api/views', { entitySlug: name, slug: `${name}-open`, name: 'Open', filterDsl: dsl });
    const entities = { [name]: { rowFilter: 'owner = $currentUser.id' } };
    const clerk = await withRole(service, tenant, { permissions: { [name]: ['read'] }, entities });
    const input = { entity_name: name, sort: 'amount' };
    const answers = await slowly(name, async () => [
      await tenant.get(`/api/views/${name}-open/records?sort=title`),
      await clerk.get(`/api/entities/${name}/records?filters=isPaid%20=%20true`),
      await callTool(service.url, 'query_records', input, { 'x-api-key': tenant.key }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const shown = (await adviceOn(name)).map(({ filters, sort, index }: Json) => [filters, sort, index.fields]);
    expect(shown.toSorted()).toEqual(
      [
        [null, 'amount', ['amount']],
        ['isPaid = ? AND owner = ?', '-createdAt', ['owner', 'isPaid']],
        ['stage = ?', 'title', ['stage', 'title']],
      ].toSorted() as Json,
    );
  });

  test('does not count if an index serves it, if it is a search, or if there are few records', async () => {
    const name = await newEntity();
    const path = `/api/entities/${name}/records?filters=stage=open&sort=amount`;
    for (const query of ['', '&count=none', '&cursor=']) {
      await slowly(name, () => tenant.get(path + query), slowMs * 2, recordsFrom - 1);
    }
    await listSlowly(name, {}, { search: 'word' }, { search: 'word', filters: 'stage = open', sort: 'amount' });
    expect(await adviceOn(name)).toEqual([]);
  });

  test('counts too when its client has gone before it ended', async () => {
    const name = await newEntity();
    const url = `${service.url}/api/entities/${name}/records?sort=title`;
    const request = () => fetch(url, { headers: { 'x-api-key': tenant.key }, signal: AbortSignal.timeout(slowMs * 4) });
    await slowly(
      name,
      async () => {
        await expect(request()).rejects.toThrow();
        for (const until = Date.now() + 5_000; (await adviceOn(name)).length === 0 && Date.now() < until; );
      },
      1_000,
    );
    expect((await adviceOn(name)).map(({ sort }) => sort)).toEqual(['title']);
  });

  test('keeps its advice when fields are renamed, and loses it when one is dropped', async () => {
    const name = await newEntity();
    await countAndStore(name, { filters: 'stage = open', sort: 'title' });
    await countAndStore(name, { filters: 'owner = x', sort: 'title' });
    await tenant.patch(`/api/entities/${name}/fields/title`, { key: 'heading' });
    await tenant.delete(`/api/entities/${name}/fields/owner`);
    expect((await adviceOn(name)).map(({ filters, sort, index }) => [filters, sort, index.fields])).toEqual([
      ['stage = ?', 'heading', ['stage', 'heading']],
    ]);
  });

  test('is forgotten with its entity, which another of the same name does not bring back', async () => {
    const name = await newEntity();
    const { id } = await entityOf(name);
    await countAndStore(name, { sort: 'title' });
    await count(name, { sort: 'amount' });
    expect((await tenant.delete(`/api/entities/${name}`)).status).toBe(200);
    expect((await tenant.get(`/api/entities/${name}/advice`)).status).toBe(404);
    await tenant.post('/api/entities', { name, fields: FIELDS });
    expect(await adviceOn(name)).toEqual([]);
    await flushSlowLists(service.app);
    expect(await storedRows('entity_id', id)).toEqual([]);
  });

  test(`is forgotten after ${keptHours} hours; until then the counts of the hours add up`, async () => {
    const name = await newEntity();
    const { id } = await entityOf(name);
    for (const ms of [60, 60, 100, 100, 100]) await count(name, { sort: 'title' }, ms);
    await flushSlowLists(service.app);
    const age = (hours: number) =>
      service.app.db.rows(
        sql`update platform.slow_lists set hour = hour - ${hours}::int * interval '1 hour' where entity_id = ${id}::uuid`,
      );
    await age(keptHours - 2);
    for (const ms of [5_000, 5_000]) await countAndStore(name, { sort: 'title' }, ms);
    const [{ seen, p50Ms }] = (await adviceOn(name)) as [Json];
    expect(seen).toBe(7);
    expect(Math.abs(p50Ms - 100)).toBeLessThanOrEqual(10);
    await age(2);
    expect((await adviceOn(name)).map((advice) => advice.seen)).toEqual([2]);
    const signal = new AbortController().signal;
    while ((await cleanUpOnce(service.app, signal)) > 0);
    expect((await storedRows('entity_id', id)).map((row) => row.seen)).toEqual([2]);
    while ((await cleanUpOnce(service.app, signal, new Date(Date.now() + (keptHours + 1) * HOUR_MS))) > 0);
    expect(await storedRows('entity_id', id)).toEqual([]);
  });
});

describe('an advised index', () => {
  const cases: [
    filters: string | undefined,
    sort: string | undefined,
    shown: string | null,
    fields: string[] | null,
  ][] = [
    ['stage = open', undefined, 'stage = ?', ['stage']],
    [undefined, 'title,-amount', null, ['title', '-amount']],
    ['stage = open', 'title', 'stage = ?', ['stage', 'title']],
    ['stage = open', 'stage,title', 'stage = ?', ['stage', 'title']],
    ['owner = a AND stage = open', '-amount', 'stage = ? AND owner = ?', ['stage', 'owner', '-amount']],
    [
      'owner = a AND isPaid = true AND stage = open',
      '-due',
      'stage = ? AND isPaid = ? AND owner = ?',
      ['stage', 'owner', '-due'],
    ],
    ['due > 2026-01-01', 'due', 'due > ?', ['due']],
    ['stage = open AND due > 2026-01-01', '-due', 'stage = ? AND due > ?', ['stage', '-due']],
    ['stage = open', 'amount,-createdAt', 'stage = ?', ['stage', 'amount', '-createdAt']],
    ['createdBy = me', '-updatedAt', 'createdBy = ?', ['createdBy', '-updatedAt']],
    ['stage = open AND tags contains a', 'amount', 'stage = ? AND tags contains ?', ['stage', 'amount']],
    [
      'stage = open AND (amount > 5 OR title is null)',
      'due',
      'stage = ? AND (amount > ? OR title is null)',
      ['stage', 'due'],
    ],
    // These can be read in order only by sorting, or by indexes that exist already.
    [
      'stage in (open, won) AND NOT (amount > 1 AND due = 2026-01-01)',
      undefined,
      'stage in (?) AND NOT (amount > ? AND due = ?)',
      null,
    ],
    [undefined, 'stage,amount,title,due', null, null],
    [undefined, 'amount,id', null, ['amount']],
    ['amount > 5', undefined, 'amount > ?', null],
    ['id = 01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f', 'title', 'id = ?', null],
    ['code = 7 AND stage = open', 'title', 'stage = ? AND code = ?', null],
  ];
  test.each(cases)(
    '%p sorted by %p is %p and needs %p, with which it is read without sorting',
    async (filters, sort, shown, fields) => {
      const name = await newEntity();
      await countAndStore(name, { filters, sort });
      const [advice] = (await adviceOn(name)) as [Json];
      expect([advice.filters, advice.sort]).toEqual([shown, sort ?? '-createdAt']);
      expect(advice.index).toEqual(fields && { fields, state: 'possible' });
      if (fields === null) return;
      const declared = await tenant.patch(`/api/entities/${name}`, { indexes: [advice.index] });
      expect(declared.status, declared.text).toBe(200);
      expect(await adviceOn(name)).toEqual([]);
      const { entity, selection, keys } = await parsed(name, { filters, sort });
      const { scan, order } = planList(entity, selection.condition, keys);
      expect(scan).toMatch(/^(forward|backward)$/);
      await countAndStore(name, { filters, sort });
      // Still slow with the index: there is no better one.
      expect((await adviceOn(name)).map(({ index }) => index)).toEqual([null]);
      const plan = await service.app.db.begin(async (tx) => {
        await tx.exec('set local enable_sort = off; set local enable_seqscan = off; set local enable_bitmapscan = off');
        const { where } = selection;
        return tx.rows<Json>(
          sql`explain select r.id from ${entity.table} as r where ${where} order by ${orderBy(order)}`,
        );
      });
      expect(JSON.stringify(plan)).toContain('Index');
      expect(JSON.stringify(plan)).not.toContain('Sort');
    },
  );

  test('follows a relation in filters, and names the fields of its target as they are now', async () => {
    const target = await newEntity();
    const name = await newEntity(tenant, [{ key: 'deal', type: 'relation', entity: target }]);
    await countAndStore(name, { filters: 'deal.title = x AND deal = null', sort: 'amount' });
    await tenant.patch(`/api/entities/${target}/fields/title`, { key: 'heading' });
    const [{ filters, index }] = (await adviceOn(name)) as [Json];
    expect(filters).toBe('deal is null AND deal.heading = ?');
    expect(index.fields).toEqual(['amount']);
  });

  test('is one for all combinations that it serves', async () => {
    const name = await newEntity();
    await countAndStore(name, { filters: 'stage = open', sort: 'amount' }, 500);
    await countAndStore(name, { filters: 'stage = open', sort: '-amount' }, 100);
    const shown = (await adviceOn(name)).map(({ sort, index }) => [sort, index.fields]);
    expect(shown).toEqual([
      ['amount', ['stage', 'amount']],
      ['-amount', ['stage', 'amount']],
    ]);
  });

  test('says whether the entity may have another one, or is having it built', async () => {
    const indexes = ['title', '-title', 'owner', '-owner', 'due', '-due', 'isPaid'].map((field) => ({
      fields: [field],
    }));
    const name = await newEntity(tenant, [], indexes);
    await countAndStore(name, { filters: 'stage = open', sort: 'amount' }, 500);
    await countAndStore(name, { filters: 'owner = a', sort: 'amount' }, 100);
    const states = async (): Promise<Json[]> => (await adviceOn(name)).map(({ index }) => index?.state);
    expect(await states()).toEqual(['possible', 'full']);
    const { id } = await entityOf(name);
    const stage = (await tenant.get(`/api/entities/${name}/fields`)).body.data[0].id;
    const amount = (await tenant.get(`/api/entities/${name}/fields`)).body.data[1].id;
    const building = { columns: [stage, amount].map((field) => ({ field, isDescending: false })), isBuilding: true };
    await runInSchema(
      service,
      tenant,
      `update entity_definitions set indexes = indexes || '${JSON.stringify([building])}'::jsonb where id = '${id}'`,
    );
    await service.app.invalidations.publish('catalog', tenant.id);
    for (const until = Date.now() + 5_000; (await states())[0] !== 'building' && Date.now() < until; ) await delay(20);
    expect(await states()).toEqual(['building', 'full']);
  });
});

describe('the advice', () => {
  test('is for tenant admins: 403 for others, 404 for an unknown entity, 400 for an unknown parameter', async () => {
    const name = await newEntity();
    const permissions: Json = { [name]: ['read', 'create', 'update', 'delete'] };
    const reader = await withRole(service, tenant, { permissions });
    expect((await reader.get(`/api/entities/${name}/advice`)).status).toBe(403);
    expect((await service.anonymous.get(`/api/entities/${name}/advice`)).status).toBe(401);
    expect((await tenant.get('/api/entities/nothing/advice')).status).toBe(404);
    expect((await tenant.get(`/api/entities/${name}/advice?days=3`)).status).toBe(400);
    expect((await (await service.tenant()).get(`/api/entities/${name}/advice`)).status).toBe(404);
  });
});

describe('a tenant whose lists are of many combinations', () => {
  /** Makes `n` different queries. */
  function manyQueries(n: number): Json[] {
    const keys = ['stage', 'amount', 'title', 'isPaid', 'owner', 'due'];
    return Array.from({ length: n }, (_, i) => {
      const states = keys.map(
        (key, k) => [undefined, `${key} is null`, `${key} is not null`][Math.floor(i / 3 ** k) % 3],
      );
      const filters = states.filter((state) => state !== undefined).join(' AND ');
      return { filters, sort: keys[i % keys.length] };
    });
  }

  test(`fills neither a process nor the table: the costliest ${perEntity} of an entity and ${perTenant} of the tenant are kept per hour`, async () => {
    const hostile = await service.tenant();
    const victim = await newEntity();
    const names: string[] = [];
    for (let i = 0; i < 6; i++) names.push(await newEntity(hostile));
    for (const name of names) {
      for (let n = 0; n < 3; n++) await count(name, { filters: 'amount > 5', sort: 'title' }, 20_000, hostile);
      await flushSlowLists(service.app);
      for (const query of manyQueries(perTenant + 100)) await count(name, query, slowMs, hostile);
      await count(victim, { sort: 'title' });
      await flushSlowLists(service.app);
      expect((await storedRows('entity_id', (await entityOf(name, hostile)).id)).length).toBeLessThanOrEqual(perEntity);
    }
    expect(await storedRows('tenant_id', hostile.id)).toHaveLength(perTenant);
    for (const name of names) {
      const advice = await adviceOn(name, hostile);
      expect(advice.length).toBeLessThanOrEqual(perEntity);
      expect(advice[0]).toMatchObject({ sort: 'title', seen: 3 });
    }
    expect((await adviceOn(victim)).map(({ sort, seen }) => [sort, seen])).toEqual([['title', names.length]]);
  });

  test('drops its own between two flushes, before a process drops those of all tenants', async () => {
    const hostile = await service.tenant();
    const { entity, keys } = await parsed(await newEntity(hostile), { sort: 'title' }, hostile);
    const serving = planList(entity, null, keys);
    const flood = (n: number, tenantId: () => string): void => {
      for (let i = 0; i < n; i++) {
        countSlowList(service.app, { ...entity, id: crypto.randomUUID(), tenantId: tenantId() }, null, serving, slowMs);
      }
    };
    const victim = await newEntity();
    const seen = async (): Promise<number> => {
      await count(victim, { sort: 'title' });
      await flushSlowLists(service.app);
      return (await adviceOn(victim)).reduce((sum, advice) => sum + advice.seen, 0);
    };
    flood(waiting, () => hostile.id);
    expect(await seen()).toBe(1);
    flood(waiting, () => crypto.randomUUID());
    expect(await seen()).toBe(1);
    expect(await seen()).toBe(2);
  });

  test('is not counted for a combination that is too long', async () => {
    const keys = Array.from({ length: 50 }, (_, i) => `k${i}`);
    const more = keys.map((key) => ({ key, type: 'text' }));
    const name = await newEntity(tenant, more);
    const filters = (n: number): string =>
      keys
        .slice(0, n)
        .map((key) => `!!${key}=x`)
        .join(' && ');
    await count(name, { filters: filters(keys.length) });
    await countAndStore(name, { filters: filters(1) });
    expect((await adviceOn(name)).map((advice) => advice.filters)).toEqual(['NOT (NOT k0 = ?)']);
  });

  test('that constantly asks for advice does not cause the counts of all tenants to be stored', async () => {
    const victim = await newEntity();
    const { entity, keys } = await parsed(await newEntity(), { sort: 'title' });
    const name = await newEntity();
    await countAndStore(name, { sort: 'title' });
    const rowsOfOther = (): Promise<Json[]> => storedRows('entity_id', entity.id);
    countSlowList(service.app, entity, null, planList(entity, null, keys), slowMs);
    await count(name, { sort: 'title' });
    await count(victim, { sort: 'title' });
    for (let i = 0; i < 5; i++) expect((await adviceOn(name)).map(({ seen }) => seen)).toEqual([2]);
    expect(await rowsOfOther()).toEqual([]);
    expect((await adviceOn(victim)).map(({ seen }) => seen)).toEqual([1]);
    await flushSlowLists(service.app);
    expect((await adviceOn(name)).map(({ seen }) => seen)).toEqual([2]);
    expect(await rowsOfOther()).toHaveLength(1);
  });

  test('that is deleted while lists are being stored is skipped, and the others are stored', async () => {
    const leaving = await service.tenant();
    const name = await newEntity(leaving);
    const staying = await newEntity();
    await count(name, { sort: 'title' }, 100, leaving);
    await count(staying, { sort: 'title' });
    let flushed: Promise<void> | undefined;
    await service.app.db.slow.begin(async (tx) => {
      await tx.rows(sql`delete from platform.tenants where id = ${leaving.id}::uuid`);
      flushed = flushSlowLists(service.app);
      // The embedded database runs one transaction at a time, so a long deletion would delay others.
      if (process.env.DATABASE_URL) await flushed;
      else await tx.rows(sql`select pg_sleep(0.2)`);
    });
    await flushed;
    expect(await storedRows('tenant_id', leaving.id)).toEqual([]);
    expect((await adviceOn(staying)).map(({ sort }) => sort)).toEqual(['title']);
  });
});
