// Conditions on the rows of a write: the related rows that they need are read for many rows at once, within a byte budget.
// Contract: decisions#expressions, neighbours#byte-budgets.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { systemCaller } from '../src/access/caller.ts';
import { allNames } from '../src/entities/access-scope.ts';
import { type Catalog, loadCatalog } from '../src/entities/catalog.ts';
import type { Entity } from '../src/entities/field.ts';
import { parseExpression } from '../src/expression/parse.ts';
import { Evaluator } from '../src/records/read/evaluator.ts';
import { newRow } from '../src/records/write/prepare.ts';
import type { Queries } from '../src/runtime/sql.ts';
import { forClient } from '../src/runtime/work.ts';
import { schemaOf, type Tenant } from '../src/tenants/tenants.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const PARENTS = '/api/entities/parent/records';

/** Children with two relations, one for each of `count` parents, whose `n` is their number. */
async function family(count: number, text: string) {
  const tenant = await service.tenant();
  const define = (name: string, fields: Json[]) => tenant.post('/api/entities', { name, fields });
  await define('parent', [
    { key: 'n', type: 'integer' },
    { key: 'text', type: 'text' },
  ]);
  const relations = ['mother', 'father'].map((key) => ({ key, type: 'relation', entity: 'parent' }));
  expect((await define('child', relations)).status).toBe(201);
  const ids: string[] = [];
  const part = text === '' ? 100 : 2;
  for (let n = 0; n < count; n += part) {
    const operations = Array.from({ length: Math.min(part, count - n) }, (_, i) => ({
      op: 'create',
      data: { n: n + i, text },
    }));
    const created = await tenant.post(`${PARENTS}/bulk`, { operations });
    expect(created.status, created.text).toBe(200);
    ids.push(...created.body.data.results.map(({ id }: Json) => id));
  }
  return { ids, ...(await evaluatorOf(tenant)) };
}

/** An evaluator whose statements are counted, with the bytes that they return. */
async function evaluatorOf({ id, slug }: TestTenant) {
  const tenant = { id, slug, schema: schemaOf(id) } as Tenant;
  const catalog: Catalog = await loadCatalog(service.app.db, tenant);
  const child = catalog.byName.get('child') as Entity;
  const seen = { statements: 0, bytesMax: 0 };
  const rows = async <T>(...[query]: Parameters<Queries['rows']>): Promise<T[]> => {
    const result = await service.app.db.rows<T>(query);
    seen.statements += 1;
    seen.bytesMax = Math.max(seen.bytesMax, JSON.stringify(result).length);
    return result;
  };
  const first = async <T>(...[query]: Parameters<Queries['first']>): Promise<T | undefined> =>
    (await rows<T>(query))[0];
  const caller = systemCaller(tenant, { triggeredBy: 'system' });
  const names = allNames(catalog, caller, child, new Date());
  const condition = (text: string) => parseExpression(text, names, 'condition');
  const slots = { mother: child.byKey.get('mother')?.slot ?? '', father: child.byKey.get('father')?.slot ?? '' };
  return { evaluator: new Evaluator({ rows, first }, catalog), child, caller, condition, slots, seen };
}

test('1,000 rows and many conditions over two relations cost a few statements', async () => {
  const { ids, evaluator, child, caller, condition, slots, seen } = await family(1_000, '');
  const conditions = Array.from({ length: 20 }, (_, i) => condition(`mother.n = ${i} AND father.n != ${i}`));
  for (const each of conditions) evaluator.include(child, each);
  const rows = ids.map((id, i) => newRow(caller, { [slots.mother]: id, [slots.father]: ids.at(-1 - i) }));
  evaluator.expect(child, ({ slot }) => rows.map(({ data }) => data[slot]));
  const held: number[] = [];
  for (const row of rows) {
    for (const [i, each] of conditions.entries()) if (await evaluator.meets(child, each, row)) held.push(i);
  }
  expect(held).toEqual([...conditions.keys()]);
  expect(seen.statements).toBeLessThanOrEqual(8);
}, 60_000);

test('related rows are read in parts within the budget, and without the fields that no condition names', async () => {
  const { ids, evaluator, child, caller, condition, slots, seen } = await family(24, 'x'.repeat(400_000));
  const rows = [...ids, crypto.randomUUID()].map((id) => newRow(caller, { [slots.mother]: id }));
  evaluator.expect(child, ({ slot }) => rows.map(({ data }) => data[slot]));
  const count = async (text: string): Promise<number> => {
    const parsed = condition(text);
    let found = 0;
    for (const row of rows) if (await evaluator.meets(child, parsed, row)) found += 1;
    return found;
  };
  expect(await count('mother.n >= 0')).toBe(24);
  expect([seen.statements, seen.bytesMax < 100_000]).toEqual([1, true]);
  expect(await count('mother.text startsWith x')).toBe(24);
  expect(seen.bytesMax).toBeLessThan(5_000_000);
}, 60_000);

test('a write whose client has gone ends, and lets other work run meanwhile', async () => {
  const { evaluator, child, caller, condition, slots } = await family(1, '');
  const rows = Array.from({ length: 1_000 }, () => newRow(caller, { [slots.mother]: null }));
  const each = condition('mother.n = 1');
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const evaluateForever = async (): Promise<never> => {
    for (;;) for (const row of rows) await evaluator.meets(child, each, row);
  };
  const signal = AbortSignal.timeout(100);
  await expect(forClient('client', () => signal, null, evaluateForever)).rejects.toThrow('the client has gone');
  clearInterval(timer);
  expect(turns).toBeGreaterThan(1);
}, 60_000);
