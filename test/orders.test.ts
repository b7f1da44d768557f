// The order of lists: newest first by `createdAt`, even where ids are in another order, without sorting the table.
// Contract: decisions#order.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { catalogOf } from '../src/entities/catalog.ts';
import type { Entity } from '../src/entities/field.ts';
import { timeOf } from '../src/runtime/ids.ts';
import { type Tenant, tenantById } from '../src/tenants/tenants.ts';
import { newEntity } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const CSV = { 'content-type': 'text/csv' };
const FIELDS = [{ key: 'n', type: 'integer' }];

async function entityNamed(name: string, at = tenant): Promise<Entity> {
  const found = await tenantById(service.app, at.id);
  return (await catalogOf(service.app, found as Tenant)).byName.get(name) as Entity;
}

async function all(path: string, query: Record<string, string>, isPaged: boolean): Promise<Json[]> {
  const items: Json[] = [];
  let cursor = '';
  for (let page = 1; ; page++) {
    const position: Record<string, string> = isPaged ? { page: String(page) } : { cursor };
    const answer = await tenant.get(`${path}?${new URLSearchParams({ ...query, ...position, limit: '3' })}`);
    expect(answer.status).toBe(200);
    items.push(...answer.body.data.items);
    cursor = answer.body.data.nextCursor ?? '';
    if (isPaged ? answer.body.data.items.length < 3 : cursor === '') return items;
  }
}

const byTime = (a: Json, b: Json): number =>
  a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.id < b.id ? -1 : 1;

describe('newest first', () => {
  test('a record is created when its id says, one by one and in batches', async () => {
    const { path } = await newEntity(tenant, FIELDS, [{ n: 1 }, { n: 2 }]);
    const operations = Array.from({ length: 300 }, (_, n) => ({ op: 'create', data: { n } }));
    await tenant.post(`${path}/bulk`, { operations });
    const items = await all(path, { sort: 'createdAt' }, false);
    expect(items).toHaveLength(302);
    for (const { id, createdAt, updatedAt } of items) {
      expect(Date.parse(createdAt)).toBe(timeOf(id));
      expect(updatedAt).toBe(createdAt);
    }
    expect(items).toEqual([...items].sort(byTime));
    expect(await all(path, { sort: '-createdAt' }, false)).toEqual(items.toReversed());
    expect(await all(path, {}, true)).toEqual(items.toReversed());
  });

  test('records that bring their ids come in the order of createdAt, ties by id, on every page', async () => {
    const { path, name } = await newEntity(tenant, FIELDS, [{ n: 1 }, { n: 2 }]);
    expect((await entityNamed(name)).isInIdOrder).toBe(true);
    const ids = Array.from({ length: 8 }, () => crypto.randomUUID());
    const file = `id,n\n${ids.map((id, n) => `${id},${n}`).join('\n')}\n`;
    const imported = await tenant.post(`${path}/import?ids=keep`, file, CSV);
    expect(imported.body.data).toMatchObject({ created: 8, refused: 0 });
    await tenant.post(path, { n: 3 });
    expect((await entityNamed(name)).isInIdOrder).toBe(false);
    const expected = (await all(path, { sort: 'n' }, true)).sort(byTime);
    expect(expected).toHaveLength(11);
    expect(expected.at(-1)?.n).toBe(3);
    for (const isPaged of [true, false]) {
      expect(await all(path, { sort: 'createdAt' }, isPaged)).toEqual(expected);
      expect(await all(path, { sort: '-createdAt' }, isPaged)).toEqual(expected.toReversed());
      expect(await all(path, {}, isPaged)).toEqual(expected.toReversed());
      expect(await all(path, { filters: 'n >= 2' }, isPaged)).toEqual(expected.filter(({ n }) => n >= 2).toReversed());
    }
    const exported = await tenant.get(`${path}/export?format=ndjson`);
    const lines = exported.text.trim().split('\n');
    expect(lines.map((line: string) => JSON.parse(line).id)).toEqual(expected.toReversed().map(({ id }) => id));
  });

  test('an import that only changes records leaves the ids in their order, and so does a dry run', async () => {
    const { path, name } = await newEntity(tenant, FIELDS, [{ n: 1 }]);
    const [{ id }] = await all(path, {}, true);
    await tenant.post(`${path}/import?ids=keep&upsert=id`, `id,n\n${id},5\n`, CSV);
    await tenant.post(`${path}/import?ids=keep&dryRun=true`, `id,n\n${crypto.randomUUID()},5\n`, CSV);
    expect((await entityNamed(name)).isInIdOrder).toBe(true);
  });

  test('a cursor stays valid while the entity begins to accept ids from files', async () => {
    const records = Array.from({ length: 9 }, (_, n) => ({ n }));
    const { path } = await newEntity(tenant, FIELDS, records);
    const first = await tenant.get(`${path}?cursor=&limit=4`);
    const ids = ['00000000-0000-4000-8000-000000000000', 'ffffffff-0000-4000-8000-000000000000'];
    await tenant.post(`${path}/import?ids=keep`, `id,n\n${ids[0]},100\n${ids[1]},101\n`, CSV);
    const rest = await tenant.get(`${path}?cursor=${first.body.data.nextCursor}&limit=10`);
    const seen = [...first.body.data.items, ...rest.body.data.items].map(({ n }: Json) => n);
    expect(seen).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0]);
  });
});
