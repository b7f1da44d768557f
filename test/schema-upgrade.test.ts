// Upgrades of tenant schemas: at start, tenants of an older version get the pending migrations, once even if several
// processes start together, and lose nothing. Contract: decisions#configuration, decisions#operations.
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { type App, createApp } from '../src/app.ts';
import { requiredColumns } from '../src/health/schema-check.ts';
import { repairSchemas } from '../src/health/schema-repair.ts';
import { forEachConcurrently } from '../src/runtime/concurrency.ts';
import { newId } from '../src/runtime/ids.ts';
import { identifier, raw, sql } from '../src/runtime/sql.ts';
import { createTenantSchema } from '../src/tenants/provision.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { upgradeTenants } from '../src/tenants/upgrade.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { runInSchema } from './support/tenant-database.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await upgradeTenants(service.app, NEVER);
});
afterAll(async () => service.stop());

const NEVER = new AbortController().signal;
const LATEST_TABLE = 'views';

/** The app with other tenant migrations: the first `count` of the current ones, then `more`. */
function appWith(count: number, ...more: string[]): App {
  const { migrations, seed } = service.app.tenantSchema;
  const added = more.map((text, i) => ({ name: `${1_000 + i}_added.sql`, text }));
  return { ...service.app, tenantSchema: { migrations: [...migrations.slice(0, count), ...added], seed } };
}

const latest = (): number => service.app.tenantSchema.migrations.length;

/** The version before rules and views, and before storage was counted. */
const older = (): number => latest() - 2;

/** A tenant with a record, whose schema is of the older version. */
async function olderTenant(): Promise<TestTenant> {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text', unique: true }] });
  await tenant.post('/api/entities/notes/records', { title: 'kept' });
  await runInSchema(service, tenant, 'drop table views; drop table business_rules');
  await runInSchema(service, tenant, 'alter table entity_counts drop column bytes, drop column is_measured');
  await service.app.db.rows(sql`
    update platform.tenants set schema_version = ${older()}::int where id = ${tenant.id}::uuid`);
  return tenant;
}

/** Every column of the tenant's own tables, `table.column`. */
async function columns(tenant: { id: string }): Promise<string[]> {
  const rows = await service.app.db.rows<{ name: string }>(sql`
    select table_name || '.' || column_name as name from information_schema.columns
    where table_schema = ${schemaOf(tenant.id)} and table_name !~ '^r_[0-9a-f]{32}'`);
  return rows.map(({ name }) => name).sort();
}

async function required(app = service.app): Promise<string[]> {
  const found = await app.db.slow.begin((tx) => requiredColumns(app, tx));
  return found.map(({ table, name }) => `${table}.${name}`).sort();
}

test('a new tenant has exactly the columns that the health check requires', async () => {
  expect(await columns(await service.tenant())).toEqual(await required());
});

test('a tenant provisioned by an older version is upgraded to the schema of a new one', async () => {
  const id = newId();
  await service.app.db.slow.begin(async (tx) => {
    await tx.rows(sql`insert into platform.tenants (id, slug, name) values (${id}::uuid, ${`old-${id}`}, 'old')`);
    await createTenantSchema(appWith(older()), tx, id);
  });
  expect(await columns({ id })).not.toContain(`${LATEST_TABLE}.id`);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await columns({ id })).toEqual(await required());
  await service.app.db.rows(sql`delete from platform.tenants where id = ${id}::uuid`);
});

test('an older tenant gets the columns and tables it lacks, keeps its records, and works as before', async () => {
  const tenant = await olderTenant();
  expect((await tenant.get('/api/views')).status).not.toBe(200);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await columns(tenant)).toEqual(await required());
  const list = await tenant.get('/api/entities/notes/records');
  expect(list.body.data.items.map(({ title }: { title: string }) => title)).toEqual(['kept']);
  expect((await tenant.get('/api/views')).status).toBe(200);
  expect((await tenant.post('/api/entities/notes/records', { title: 'kept' })).status).toBe(409);
  expect(await upgradeTenants(service.app, NEVER)).toBe(0);
});

/** Tenants of newer versions would be errors of every later repair. */
afterEach(async () => {
  await service.app.db.rows(sql`delete from platform.tenants where schema_version > ${latest()}::int`);
});

test('migrations rename, retype and drop columns in order, keep the values, and define what a repair restores', async () => {
  const tenant = await service.tenant();
  await runInSchema(
    service,
    tenant,
    `insert into documents (id, title, content_text) values (platform.uuidv7(), 'kept', 'gone')`,
  );
  const app = appWith(
    latest(),
    'alter table documents rename column title to heading',
    `alter table documents drop column content_text;
      alter table documents alter column heading type jsonb using to_jsonb(heading)`,
  );
  await expect(upgradeTenants(app, NEVER)).resolves.toBeGreaterThan(0);
  const [row] = await service.app.db.rows(sql`
    select heading, t.schema_version
    from ${identifier(schemaOf(tenant.id), 'documents')}, platform.tenants as t
    where t.id = ${tenant.id}::uuid`);
  expect(row).toEqual({ heading: 'kept', schema_version: latest() + 2 });
  expect(await columns(tenant)).toEqual(await required(app));
  await runInSchema(service, tenant, 'alter table documents drop column heading; drop table users');
  expect(await repairSchemas(app)).toEqual({ fixed: 1, errors: [] });
  expect(await columns(tenant)).toEqual(await required(app));
  // A process of the older version neither repairs nor upgrades what a newer one has changed.
  expect(await upgradeTenants(service.app, NEVER)).toBe(0);
  const { errors } = await repairSchemas(service.app);
  expect(errors.find(({ tenant: slug }) => slug === tenant.slug)?.message).toContain('newer than this process');
});

test('a damaged tenant of an older version is repaired to its own version, then upgraded', async () => {
  const tenant = await service.tenant();
  await runInSchema(service, tenant, 'drop table documents cascade');
  const app = appWith(latest(), 'alter table documents rename column title to heading');
  expect((await repairSchemas(app)).errors).toEqual([]);
  expect(await columns(tenant)).toEqual(await required(app));
});

test('every missing column is added if its table is empty', async () => {
  const tenant = await service.tenant();
  const before = await columns(tenant);
  const keys = new Set(['id', 'entity_counts.entity_id', 'entity_counts.slot', 'entity_records.entity_id']);
  for (const [table = '', name = ''] of before.map((column) => column.split('.'))) {
    await service.app.db.rows(sql`truncate ${identifier(schemaOf(tenant.id), table)} cascade`);
    if (keys.has(name) || keys.has(`${table}.${name}`)) continue;
    const where = identifier(schemaOf(tenant.id), table);
    await service.app.db.rows(sql`alter table ${where} drop column ${identifier(name)} cascade`);
  }
  expect((await columns(tenant)).length).toBeLessThan(20);
  expect(await repairSchemas(service.app)).toEqual({ fixed: 1, errors: [] });
  expect(await columns(tenant)).toEqual(before);
  await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text' }] });
  expect((await tenant.post('/api/entities/notes/records', { title: 'new' })).status).toBe(201);
});

test('a repair creates no index and no constraint a second time', async () => {
  const tenant = await service.tenant();
  const objects = async (): Promise<string[]> => {
    const rows = await service.app.db.rows<{ name: string }>(sql`
      select indexrelid::regclass::text as name from pg_index i
      join pg_class c on c.oid = i.indrelid where c.relnamespace = ${schemaOf(tenant.id)}::regnamespace
      union all select conrelid::regclass::text || conname from pg_constraint
      where connamespace = ${schemaOf(tenant.id)}::regnamespace order by 1`);
    return rows.map(({ name }) => name);
  };
  const before = await objects();
  await runInSchema(service, tenant, 'alter table documents drop column title');
  expect(await repairSchemas(service.app)).toEqual({ fixed: 1, errors: [] });
  expect(await objects()).toEqual(before);
});

test('two processes that start together upgrade each tenant once', async () => {
  const tenants = [await olderTenant(), await olderTenant(), await olderTenant()];
  const other = await createApp(service.app.config, service.databaseUrl, service.app.log);
  const upgraded = await Promise.all([service.app, other].map((app) => upgradeTenants(app, NEVER)));
  await other.broker.close();
  await other.db.close();
  expect(upgraded.reduce((sum, count) => sum + count)).toBe(3);
  for (const tenant of tenants) expect(await columns(tenant)).toEqual(await required());
});

test('a tenant that cannot be upgraded is logged, and the others are upgraded', async () => {
  const broken = await olderTenant();
  const fine = await olderTenant();
  const schema = raw(schemaOf(broken.id));
  await service.app.db.rows(sql`create view ${schema}.views as select 1 as id`);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await columns(fine)).toEqual(await required());
  const lines = service.logged.filter((text) => text.includes('a tenant schema could not be upgraded'));
  expect(lines.some((line) => line.includes(`"tenant":"${broken.slug}"`))).toBe(true);
  await service.app.db.rows(sql`drop view ${schema}.views`);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
});

test('an aborted start stops between two tenants', async () => {
  const tenant = await olderTenant();
  await expect(upgradeTenants(service.app, AbortSignal.abort(new Error('aborted')))).rejects.toThrow('aborted');
  expect(await columns(tenant)).not.toEqual(await required());
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
});

test('a task runs for each item, never more at once than allowed', async () => {
  let running = 0;
  const peaks: number[] = [];
  await forEachConcurrently([1, 2, 3, 4, 5], 2, async () => {
    peaks.push(++running);
    await Promise.resolve();
    running--;
  });
  expect([peaks.length, Math.max(...peaks)]).toEqual([5, 2]);
});
