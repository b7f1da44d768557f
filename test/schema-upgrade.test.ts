// Tenants of an older version: at a start their schema gets what this version's files have and it lacks,
// once, however many processes start together, and nothing in it is lost.
// Contract: decisions#configuration, decisions#operations.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { type App, createApp } from '../src/app.ts';
import { forEachConcurrently } from '../src/runtime/concurrency.ts';
import { identifier, raw, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { upgradeTenants } from '../src/tenants/upgrade.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await upgradeTenants(service.app, NEVER);
});
afterAll(async () => service.stop());

const NEVER = new AbortController().signal;

/** A tenant with a record, whose schema is then made one of an older version. */
async function olderTenant(): Promise<TestTenant> {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text', unique: true }] });
  await tenant.post('/api/entities/notes/records', { title: 'kept' });
  for (const change of [
    'alter table field_definitions drop column next',
    'alter table documents drop column content_text',
    'drop table views',
  ]) {
    await service.app.db.begin(async (tx) => {
      await tx.rows(sql`select set_config('search_path', ${schemaOf(tenant.id)}, true)`);
      await tx.exec(change);
    });
  }
  await service.app.db.rows(sql`update platform.tenants set schema_digest = null where id = ${tenant.id}::uuid`);
  return tenant;
}

/** Every column of the tenant's own tables, `table.column`. */
async function columns(tenant: TestTenant): Promise<string[]> {
  const rows = await service.app.db.rows<{ name: string }>(sql`
    select table_name || '.' || column_name as name from information_schema.columns
    where table_schema = ${schemaOf(tenant.id)} and table_name !~ '^r_[0-9a-f]{32}'`);
  return rows.map(({ name }) => name).sort();
}

function required(app: App): string[] {
  return [...app.tenantSchema.columns].flatMap(([table, names]) => names.map((name) => `${table}.${name}`)).sort();
}

test('a new tenant has exactly the columns that the schema files are read to require', async () => {
  expect(await columns(await service.tenant())).toEqual(required(service.app));
});

test('an older tenant gets the columns and tables it lacks, keeps its records, and is used as before', async () => {
  const tenant = await olderTenant();
  expect((await tenant.get('/api/views')).status).not.toBe(200);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await columns(tenant)).toEqual(required(service.app));
  const list = await tenant.get('/api/entities/notes/records');
  expect(list.body.data.items.map(({ title }: { title: string }) => title)).toEqual(['kept']);
  expect((await tenant.get('/api/views')).status).toBe(200);
  expect((await tenant.post('/api/entities/notes/records', { title: 'kept' })).status).toBe(409);
  expect(await upgradeTenants(service.app, NEVER)).toBe(0);
});

test('every column that a schema lacks is added where its table is empty', async () => {
  const tenant = await service.tenant();
  const all = [...service.app.tenantSchema.columns];
  const keys = new Set(['id', 'entity_counts.entity_id', 'entity_counts.slot', 'entity_records.entity_id']);
  for (const [table, names] of all) {
    await service.app.db.rows(sql`truncate ${identifier(schemaOf(tenant.id), table)} cascade`);
    for (const name of names.filter((column) => !keys.has(column) && !keys.has(`${table}.${column}`))) {
      const where = identifier(schemaOf(tenant.id), table);
      await service.app.db.rows(sql`alter table ${where} drop column ${identifier(name)} cascade`);
    }
  }
  expect((await columns(tenant)).length).toBeLessThan(20);
  await service.app.db.rows(sql`update platform.tenants set schema_digest = null where id = ${tenant.id}::uuid`);
  await upgradeTenants(service.app, NEVER);
  expect(await columns(tenant)).toEqual(required(service.app));
  await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text' }] });
  expect((await tenant.post('/api/entities/notes/records', { title: 'new' })).status).toBe(201);
});

test('applying the files again makes no index and no constraint a second time', async () => {
  const tenant = await service.tenant();
  const made = async (): Promise<string[]> => {
    const rows = await service.app.db.rows<{ name: string }>(sql`
      select indexrelid::regclass::text as name from pg_index i
      join pg_class c on c.oid = i.indrelid where c.relnamespace = ${schemaOf(tenant.id)}::regnamespace
      union all select conrelid::regclass::text || conname from pg_constraint
      where connamespace = ${schemaOf(tenant.id)}::regnamespace order by 1`);
    return rows.map(({ name }) => name);
  };
  const before = await made();
  await service.app.db.rows(sql`update platform.tenants set schema_digest = 'other' where id = ${tenant.id}::uuid`);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await made()).toEqual(before);
});

test('two processes that start together upgrade each tenant once', async () => {
  const tenants = [await olderTenant(), await olderTenant(), await olderTenant()];
  const other = await createApp(service.app.config, service.databaseUrl, service.app.log);
  const upgraded = await Promise.all([service.app, other].map((app) => upgradeTenants(app, NEVER)));
  await other.broker.close();
  await other.db.close();
  expect(upgraded.reduce((sum, count) => sum + count)).toBe(3);
  for (const tenant of tenants) expect(await columns(tenant)).toEqual(required(service.app));
});

test('a tenant that cannot be upgraded is logged, and the others are', async () => {
  const broken = await olderTenant();
  const fine = await olderTenant();
  const schema = raw(schemaOf(broken.id));
  await service.app.db.rows(sql`create view ${schema}.views as select 1 as id`);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await columns(fine)).toEqual(required(service.app));
  const lines = service.logged.filter((text) => text.includes('could not be brought up to date'));
  expect(lines.some((line) => line.includes(`"tenant":"${broken.slug}"`))).toBe(true);
  await service.app.db.rows(sql`drop view ${schema}.views`);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
});

test('a start that is called off stops between two tenants', async () => {
  const tenant = await olderTenant();
  await expect(upgradeTenants(service.app, AbortSignal.abort(new Error('called off')))).rejects.toThrow('called off');
  expect(await columns(tenant)).not.toEqual(required(service.app));
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
});

test('work is done for each item, never more at a time than allowed', async () => {
  let running = 0;
  const peaks: number[] = [];
  await forEachConcurrently([1, 2, 3, 4, 5], 2, async () => {
    peaks.push(++running);
    await Promise.resolve();
    running--;
  });
  expect([peaks.length, Math.max(...peaks)]).toEqual([5, 2]);
});
