// Building indexes of large entities beside long statements of other tenants: changes of definitions do not wait for these
// statements, unique values are checked at once, and queries use an index as soon as no older statement is left. The embedded
// database runs one statement at a time, so that nothing can be older.
// Contract: decisions#field-changes, neighbours#fair-shares.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import postgres from 'postgres';
import { completeIndexesOnce } from '../src/entities/index-completion.ts';
import { LIMITS } from '../src/limits.ts';
import { sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { IS_EMBEDDED } from './support/sizes.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const RECORDS = 20;
const ITEMS = '/api/entities/items/records';
const FIELDS = '/api/entities/items/fields';

/** A tenant with an entity that is too large for a build under a lock, though it has few records. */
async function withLargeEntity(): Promise<TestTenant> {
  const tenant = await service.tenant();
  const fields = ['code', 'kind', 'place'].map((key) => ({ key, type: 'text' }));
  await tenant.post('/api/entities', { name: 'items', fields: [...fields, { key: 'filler', type: 'json' }] });
  const filler = { text: 'x'.repeat(LIMITS.indexBuild.smallBytes / RECORDS) };
  for (let i = 0; i < RECORDS; i++) {
    const created = await tenant.post(ITEMS, { code: `c${i}`, kind: `k${i % 2}`, place: 'here', filler });
    expect(created.status, created.text).toBe(201);
  }
  return tenant;
}

/** Runs `work` while a statement of another tenant is older than everything that it does. */
async function besideOlderStatement(work: () => Promise<void>): Promise<void> {
  const connection = postgres(service.databaseUrl, { max: 1, onnotice: () => {} });
  try {
    await connection.begin('isolation level repeatable read', async (tx) => {
      await tx`select 1`;
      await work();
    });
  } finally {
    await connection.end();
  }
}

/** The validity of the tenant's indexes of fields, by name without the table's. */
async function indexes({ id }: TestTenant): Promise<Record<string, boolean>> {
  const rows = await service.app.db.rows<{ name: string; is_valid: boolean }>(sql`
    select substr(c.relname, 36) as name, i.indisvalid as is_valid
    from pg_index as i join pg_class as c on c.oid = i.indexrelid
    where c.relnamespace = ${schemaOf(id)}::regnamespace and c.relname ~ '_f[0-9]+_'
    order by 1`);
  return Object.fromEntries(rows.map(({ name, is_valid: isValid }) => [name, isValid]));
}

async function untilValid(tenant: TestTenant, names: readonly string[]): Promise<void> {
  const wanted = Object.fromEntries(names.map((name) => [name, true]));
  const until = performance.now() + 20_000;
  for (;;) {
    const found = await indexes(tenant);
    if (Bun.deepEquals(found, wanted) || performance.now() > until) return expect(found).toEqual(wanted);
    await completeIndexesOnce(service.app);
    await Bun.sleep(50);
  }
}

const change = (tenant: TestTenant, key: string, to: Json) => tenant.patch(`${FIELDS}/${key}`, to);

test('a large entity’s field becomes unique, and another indexed, while older statements run', async () => {
  if (IS_EMBEDDED) return;
  const tenant = await withLargeEntity();
  await besideOlderStatement(async () => {
    const unique = await change(tenant, 'code', { unique: true });
    expect([unique.status, unique.body.data.unique], unique.text).toEqual([200, true]);
    expect((await tenant.post(ITEMS, { code: 'c1' })).status).toBe(409);
    expect((await tenant.post(ITEMS, { code: 'new' })).status).toBe(201);
    expect(await indexes(tenant)).toEqual({ f1_unique: false });
    // The second change does not wait for the first one's index either.
    const indexed = await change(tenant, 'kind', { indexed: true });
    expect([indexed.status, indexed.body.data.indexed], indexed.text).toEqual([200, true]);
    expect((await tenant.post(ITEMS, { code: 'new' })).status).toBe(409);
    expect((await tenant.get(`${ITEMS}?filters=kind%20%3D%20k1&fields=code`)).body.data.total).toBe(RECORDS / 2);
  });
  await untilValid(tenant, ['f1_unique', 'f2_value']);
  expect((await tenant.post(ITEMS, { code: 'new' })).status).toBe(409);
});

test('duplicates are refused beside older statements too, and leave no index', async () => {
  if (IS_EMBEDDED) return;
  const tenant = await withLargeEntity();
  await besideOlderStatement(async () => {
    const refused = await change(tenant, 'kind', { unique: true });
    expect([refused.status, refused.text]).toEqual([409, expect.stringContaining('share a value')]);
    expect(await indexes(tenant)).toEqual({});
  });
});

test('an index that waits for older statements keeps neither its field nor its entity from being dropped', async () => {
  if (IS_EMBEDDED) return;
  const tenant = await withLargeEntity();
  await besideOlderStatement(async () => {
    expect((await change(tenant, 'place', { indexed: true })).status).toBe(200);
    expect((await tenant.delete(`${FIELDS}/place?confirm=place`)).status).toBe(200);
    expect(await indexes(tenant)).toEqual({});
    expect((await change(tenant, 'kind', { indexed: true })).status).toBe(200);
    expect((await tenant.delete('/api/entities/items?confirm=items')).status).toBe(200);
  });
});

test('a tenant whose index waits for older statements can be deleted', async () => {
  if (IS_EMBEDDED) return;
  const tenant = await withLargeEntity();
  await besideOlderStatement(async () => {
    expect((await change(tenant, 'kind', { indexed: true })).status).toBe(200);
    const deleted = await service.admin.delete(`/api/admin/platform/tenants/${tenant.slug}?confirm=${tenant.slug}`);
    expect(deleted.status, deleted.text).toBe(200);
  });
});
