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
const LATER_TABLE = 'business_rules';

/** The app with other tenant migrations: the first `count` of the current ones, then `more`. */
function appWith(count: number, ...more: string[]): App {
  const { migrations, ...others } = service.app.tenantSchema;
  const added = more.map((text, i) => ({ name: `${1_000 + i}_added.sql`, text }));
  return { ...service.app, tenantSchema: { ...others, migrations: [...migrations.slice(0, count), ...added] } };
}

const latest = (): number => service.app.tenantSchema.migrations.length;

/** The version before rules and views, and before storage was counted; and the last one with counters and views of its own. */
const OLDER = 3;
const WITH_OWN_COUNTERS = 5;
const older = (): number => OLDER;

/** Undoes migration 0006. */
const OWN_COUNTERS = `
  create table entity_counts (
    entity_id uuid not null constraint entity_counts_entity_id_fkey references entity_definitions (id) on delete cascade,
    slot int not null, n bigint not null default 0, v bigint not null default 0, bytes bigint not null default 0,
    is_measured boolean not null default true,
    constraint entity_counts_pkey primary key (entity_id, slot));
  insert into entity_counts
  select entity_id, slot, n, v, bytes, is_measured from platform.entity_counts
  where tenant_id = substr(current_schema(), 3)::uuid;
  delete from platform.entity_counts where tenant_id = substr(current_schema(), 3)::uuid;
  create table views (
    id uuid constraint views_pkey primary key, slug text not null constraint views_slug_key unique,
    entity_id uuid not null constraint views_entity_id_fkey references entity_definitions (id) on delete cascade,
    name text not null, description text, filter_dsl jsonb not null default '{"validate": []}',
    created_at timestamptz(3) not null default now(), updated_at timestamptz(3) not null default now());
  insert into views
  select id, slug, entity_id, name, description, filter_dsl, created_at, updated_at from platform.views
  where tenant_id = substr(current_schema(), 3)::uuid;
  delete from platform.views where tenant_id = substr(current_schema(), 3)::uuid;
  alter table field_definitions drop constraint field_definitions_pkey;
  alter table field_definitions add constraint field_definitions_pkey primary key (id);
  create unique index field_definitions_key_key on field_definitions (entity_id, key);
  create unique index field_definitions_slot_key on field_definitions (entity_id, slot);
  create index field_definitions_target_idx on field_definitions (target_id);
  alter table roles drop constraint roles_pkey;
  alter table roles add constraint roles_pkey primary key (id), add constraint roles_name_key unique (name);
  alter table chunks drop constraint chunks_pkey;
  alter table chunks add constraint chunks_pkey primary key (id);
  create index chunks_document_idx on chunks (document_id, position);
  alter table users drop column search;`;

/** A tenant with a record, whose schema is of an older version. */
async function olderTenant(version = OLDER): Promise<TestTenant> {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text', unique: true }] });
  await tenant.post('/api/entities/notes/records', { title: 'kept' });
  if (version === WITH_OWN_COUNTERS) {
    const view = {
      entitySlug: 'notes',
      slug: 'kept',
      name: 'Kept',
      filterDsl: { validate: [{ condition: 'title == kept' }] },
    };
    await tenant.post('/api/views', view);
  }
  await runInSchema(service, tenant, OWN_COUNTERS);
  if (version === OLDER) {
    await runInSchema(service, tenant, 'drop table views; drop table business_rules');
    await runInSchema(service, tenant, 'alter table entity_counts drop column bytes, drop column is_measured');
  }
  await service.app.db.rows(sql`
    update platform.tenants set schema_version = ${version}::int where id = ${tenant.id}::uuid`);
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
  expect(await columns({ id })).not.toContain(`${LATER_TABLE}.id`);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await columns({ id })).toEqual(await required());
  await service.app.db.rows(sql`delete from platform.tenants where id = ${id}::uuid`);
});

test('an older tenant gets the columns and tables it lacks, keeps its records, and works as before', async () => {
  const tenant = await olderTenant();
  expect((await tenant.get('/api/rules')).status).not.toBe(200);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  expect(await columns(tenant)).toEqual(await required());
  const list = await tenant.get('/api/entities/notes/records');
  expect(list.body.data.items.map(({ title }: { title: string }) => title)).toEqual(['kept']);
  expect((await tenant.get('/api/rules')).status).toBe(200);
  expect((await tenant.post('/api/entities/notes/records', { title: 'kept' })).status).toBe(409);
  expect(await upgradeTenants(service.app, NEVER)).toBe(0);
});

test('counters and views of an older tenant are kept where all tenants have theirs', async () => {
  const tenant = await olderTenant(WITH_OWN_COUNTERS);
  expect((await tenant.get('/api/entities/notes/records')).body.data.total).toBe(0);
  expect(await upgradeTenants(service.app, NEVER)).toBe(1);
  await service.app.invalidations.publish('catalog', tenant.id);
  expect((await tenant.get('/api/entities/notes/records')).body.data.total).toBe(1);
  expect((await tenant.get('/api/views/kept/records')).body.data.total).toBe(1);
  expect((await tenant.get('/api/tenant/usage')).body.data.now.storageBytes).toBeGreaterThan(0);
  expect((await tenant.post('/api/entities/notes/records', { title: 'second' })).status).toBe(201);
  expect((await tenant.get('/api/entities/notes/records')).body.data.total).toBe(2);
  expect((await tenant.delete('/api/entities/notes?confirm=notes')).status).toBe(200);
  expect((await tenant.get('/api/views')).body.data).toEqual([]);
  const left = sql`
    select from platform.entity_counts where tenant_id = ${tenant.id}::uuid
    union all select from platform.views where tenant_id = ${tenant.id}::uuid`;
  expect(await service.app.db.rows(left)).toEqual([]);
});

test('an idle tenant has at most 30 relations', async () => {
  const tenant = await service.tenant();
  const found = await service.app.db.first<{ n: number }>(sql`
    select count(*)::int as n from pg_class as c
    where c.relnamespace = ${schemaOf(tenant.id)}::regnamespace
      or c.oid in (
        select unnest(array[t.reltoastrelid, i.indexrelid]) from pg_class as t
        left join pg_index as i on i.indrelid = t.reltoastrelid
        where t.relnamespace = ${schemaOf(tenant.id)}::regnamespace and t.reltoastrelid <> 0)`);
  expect(found?.n).toBeLessThanOrEqual(30);
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
  // Other files of this process may have left tenants with faults, which count too.
  await repairSchemas(app);
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
  const keys = new Set(['id', 'entity_records.entity_id']);
  for (const [table = '', name = ''] of before.map((column) => column.split('.'))) {
    await service.app.db.rows(sql`truncate ${identifier(schemaOf(tenant.id), table)} cascade`);
    if (keys.has(name) || keys.has(`${table}.${name}`)) continue;
    const where = identifier(schemaOf(tenant.id), table);
    await service.app.db.rows(sql`alter table ${where} drop column if exists ${identifier(name)} cascade`);
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
