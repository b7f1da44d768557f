// Schema health: each fault of a tenant's schema is found by its check, with severity and fix, and repaired
// without data loss. Uses its own Postgres if one with pgvector is installed, because an extension belongs
// to the whole database; otherwise its own embedded database.
// Contract: interface#schema-health, decisions#operations.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { checkSchemas } from '../src/health/schema-check.ts';
import { repairSchemas } from '../src/health/schema-repair.ts';
import { connectionLost } from '../src/runtime/postgres/failures.ts';
import { compile, identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { measureStorageOnce } from '../src/usage/storage.ts';
import { callTool } from './support/mcp-calls.ts';
import { type PrivatePostgres, privatePostgres } from './support/private-servers.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { runInSchema } from './support/tenant-database.ts';

let server: PrivatePostgres | undefined;
let service: TestService;
let tenant: TestTenant;
let bystander: TestTenant;

beforeAll(async () => {
  server = await privatePostgres({ extension: 'vector' });
  service = await startService({ DATABASE_URL: server?.url ?? '' });
  bystander = await service.tenant();
});
afterAll(async () => {
  await service.stop();
  await server?.remove();
});
beforeEach(async () => {
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text', unique: true }] });
  for (const title of ['one', 'two']) await tenant.post('/api/entities/notes/records', { title });
});

/** The log line of a request that the fault affected. */
const DAMAGED = 'the schema of a tenant is damaged';

const health = async (): Promise<Json> => (await service.admin.get('/health/schema')).body.data;
const fix = async (): Promise<Json> => (await service.admin.post('/health/schema/fix')).body.data;

/** `check severity table.column` of every issue of the tenant. */
async function issues(on = tenant): Promise<string[]> {
  const { issues: all } = await health();
  return all
    .filter((issue: Json) => issue.tenant === on.slug)
    .map(({ check, severity, table, column }: Json) =>
      [check, severity, [table, column].filter(Boolean).join('.')].filter(Boolean).join(' '),
    );
}

async function titles(): Promise<string[]> {
  const list = await tenant.get('/api/entities/notes/records?sort=title');
  return list.body.data.items.map(({ title }: Json) => title);
}

test('healthy tenants are counted, and there are no issues', async () => {
  const answer = await service.admin.get('/health/schema');
  const { checked_at: at, tenants_checked: checked, ...rest } = answer.body.data;
  expect(rest).toEqual({ status: 'healthy', tenants_healthy: checked, tenants_degraded: 0, issues: [] });
  expect(checked).toBeGreaterThan(1);
  expect(Math.abs(Date.parse(at) - Date.now())).toBeLessThan(60_000);
  expect(await fix()).toEqual({ fixed: 0, errors: [] });
});

test('both routes are only for the super-admin', async () => {
  for (const [method, path] of [
    ['GET', '/health/schema'],
    ['POST', '/health/schema/fix'],
  ] as const) {
    expect((await service.anonymous.request(method, path)).status).toBe(401);
    expect((await tenant.request(method, path)).status).toBe(403);
  }
});

const REQUIRED = 'entity_definitions field_definitions entity_records business_rules documents chunks roles users';

const TABLES = REQUIRED.split(' ');

describe('each fault is found and repaired', () => {
  for (const table of REQUIRED.split(' ')) {
    test(`table_exists: ${table} is missing`, async () => {
      await runInSchema(service, tenant, `drop table ${table} cascade`);
      expect((await issues()).filter((issue) => !issue.endsWith(' entity_records'))).toEqual(
        table === 'entity_records' ? [] : [`table_exists critical ${table}`],
      );
      const found = (await health()).issues.find((issue: Json) => issue.table === table);
      expect(found).toMatchObject({ tenant: tenant.slug, check: 'table_exists', column: null, severity: 'critical' });
      expect(found.fix).toContain('/health/schema/fix');
      expect(await fix()).toEqual({ fixed: 1, errors: [] });
      expect(await health()).toMatchObject({ status: 'healthy', issues: [] });
      const made = await tenant.post('/api/entities', { name: 'after', fields: [{ key: 'title', type: 'text' }] });
      expect(made.status).toBe(201);
      expect((await tenant.post('/api/entities/after/records', { title: 'new' })).status).toBe(201);
    });
  }

  const columns = [
    'documents.content_text',
    'documents.metadata',
    'field_definitions.is_system',
    'field_definitions.next',
    'field_definitions.on_delete',
    'entity_definitions.is_system',
    'entity_definitions.version',
    'entity_records.updated_by',
    'business_rules.priority',
    'chunks.content',
    'roles.entities',
    'users.token_version',
    'users.search',
  ];
  for (const name of columns) {
    test(`column_exists: ${name} is missing`, async () => {
      const [table, column] = name.split('.');
      await runInSchema(service, tenant, `alter table ${table} drop column ${column} cascade`);
      expect(await issues()).toEqual([`column_exists critical ${name}`]);
      expect((await health()).issues[0].fix).toContain(column);
      expect(await fix()).toEqual({ fixed: 1, errors: [] });
      expect(await issues()).toEqual([]);
      expect(await titles()).toEqual(['one', 'two']);
      expect((await tenant.post('/api/entities/notes/records', { title: 'one' })).status).toBe(409);
      expect((await tenant.post('/api/entities/notes/records', { title: 'three' })).status).toBe(201);
    });
  }

  test.each(['entity_definitions.version', 'field_definitions.next'])(
    'until %s is repaired, requests that need it get a 503 that says so, and other tenants none',
    async (name) => {
      const [table, column] = name.split('.');
      await runInSchema(service, tenant, `alter table ${table} drop column ${column} cascade`);
      await service.app.invalidations.publish('catalog', tenant.id);
      const body = { name: 'more', fields: [{ key: 'f', type: 'text' }] };
      const logged = (): number => service.logged.filter((line) => line.includes(DAMAGED)).length;
      const before = logged();
      const refused = await tenant.post('/api/entities', body);
      expect(refused).toMatchObject({ status: 503, body: { error: { code: 'SERVICE_UNAVAILABLE' } } });
      expect(refused.body.error.message).toContain('POST /health/schema/fix');
      expect(logged()).toBe(before + 1);
      const { text } = await callTool(service.url, 'list_entities', {}, { 'x-api-key': tenant.key });
      expect(text).toContain('"isError":true');
      expect(text).toContain('POST /health/schema/fix');
      expect(logged()).toBe(before + 2);
      expect((await bystander.get('/api/entities')).status).toBe(200);
      expect(await fix()).toEqual({ fixed: 1, errors: [] });
      expect((await tenant.get('/api/entities/notes/records')).status).toBe(200);
    },
  );

  test('system_entity_flag: a system entity without its flag, which the trigger normally prevents', async () => {
    await runInSchema(
      service,
      tenant,
      `
      alter table entity_definitions disable trigger trg_enforce_svc_system;
      insert into entity_definitions (id, name) values (platform.uuidv7(), '_svc_audit'), (platform.uuidv7(), 'xsvc_a');
      alter table entity_definitions enable trigger trg_enforce_svc_system;`,
    );
    const found = (await health()).issues;
    expect(await issues()).toEqual([
      'system_entity_flag warning entity_definitions.is_system',
      'table_exists critical entity_records',
    ]);
    expect(found[0]).toMatchObject({ tenant: tenant.slug, table: 'entity_definitions', severity: 'warning' });
    expect(found[0].fix).toContain('_svc_audit');
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
    expect(await issues()).toEqual([]);
    const entities = (await tenant.get('/api/entities')).body.data;
    const flags = entities.map(({ name, isSystem }: Json) => `${name} ${isSystem}`);
    expect(flags).toEqual(['_svc_audit true', 'notes false', 'xsvc_a false']);
  });

  for (const [how, statement] of [
    ['missing', 'drop trigger trg_enforce_svc_system on entity_definitions'],
    ['disabled', 'alter table entity_definitions disable trigger trg_enforce_svc_system'],
    ['missing together with its function', 'drop function enforce_svc_system cascade'],
  ] as const) {
    test(`trigger_exists: trg_enforce_svc_system is ${how}`, async () => {
      await runInSchema(service, tenant, statement);
      expect(await issues()).toEqual(['trigger_exists warning entity_definitions']);
      expect((await health()).issues[0].fix).toContain('trg_enforce_svc_system');
      expect(await fix()).toEqual({ fixed: 1, errors: [] });
      expect(await issues()).toEqual([]);
      await runInSchema(
        service,
        tenant,
        `insert into entity_definitions (id, name, is_system) values (platform.uuidv7(), '_svc_x', false)`,
      );
      expect(await health()).toMatchObject({ issues: [{ check: 'table_exists', table: 'entity_records' }] });
      expect(await fix()).toEqual({ fixed: 1, errors: [] });
    });
  }

  for (const [how, statement] of [
    ['missing', 'drop index chunks_embedding_hnsw'],
    ['of another kind', 'drop index chunks_embedding_hnsw; create index chunks_embedding_hnsw on chunks (content)'],
  ] as const) {
    test(`hnsw_index_exists: the index is ${how}`, async () => {
      await runInSchema(service, tenant, statement);
      expect(await issues()).toEqual(['hnsw_index_exists warning chunks.embedding']);
      expect(await fix()).toEqual({ fixed: 1, errors: [] });
      expect(await issues()).toEqual([]);
    });
  }

  test('extension_exists: without the extension every tenant lacks the column and the index', async () => {
    await runInSchema(service, tenant, 'drop extension vector cascade');
    const expected = [
      'extension_exists critical',
      'column_exists critical chunks.embedding',
      'hnsw_index_exists warning chunks.embedding',
    ];
    expect(await issues()).toEqual(expected);
    expect(await issues(bystander)).toEqual(expected);
    const { tenants_checked: checked, tenants_degraded: degraded, issues: all } = await health();
    expect(degraded).toBe(checked);
    expect(all[0]).toMatchObject({ check: 'extension_exists', table: null, column: null });
    expect(all[0].fix).toContain('create extension vector');
    expect(await fix()).toEqual({ fixed: checked, errors: [] });
    expect(await health()).toMatchObject({ status: 'healthy', tenants_degraded: 0 });
  });

  test('a missing schema is created again', async () => {
    await service.app.db.slow.rows(sql`drop schema ${identifier(schemaOf(tenant.id))} cascade`);
    expect(await issues()).toHaveLength(TABLES.length);
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
    expect((await tenant.get('/api/entities')).body.data).toEqual([]);
  });
});

describe('the repair', () => {
  test('touches degraded tenants only', async () => {
    await runInSchema(service, tenant, 'alter table documents drop column content_text');
    await service.app.db.rows(sql`update platform.tenants set schema_version = 0 where id = ${bystander.id}::uuid`);
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
    const row = await service.app.db.first(sql`
      update platform.tenants as t set schema_version = ${service.app.tenantSchema.migrations.length}::int
      from platform.tenants as b where b.id = t.id and t.id = ${bystander.id}::uuid
      returning b.schema_version`);
    expect(row).toEqual({ schema_version: 0 });
  });

  test('creates an entity’s missing record table, with its indexes and its count', async () => {
    await runInSchema(
      service,
      tenant,
      `do $$ begin execute (select 'drop table ' || relname from pg_class
      where relnamespace = current_schema()::regnamespace and relname ~ '^r_[0-9a-f]{32}$'); end $$`,
    );
    expect(await issues()).toEqual(['table_exists critical entity_records']);
    expect((await health()).issues[0].fix).toContain('notes');
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
    expect((await tenant.get('/api/entities/notes/records')).body.data.total).toBe(0);
    expect((await tenant.post('/api/entities/notes/records', { title: 'a' })).status).toBe(201);
    expect((await tenant.post('/api/entities/notes/records', { title: 'a' })).status).toBe(409);
    expect((await tenant.get('/api/entities/notes/records')).body.data.total).toBe(1);
  });

  test('recounts the records when the counters are missing', async () => {
    await service.app.db.rows(sql`delete from platform.entity_counts where tenant_id = ${tenant.id}::uuid`);
    await runInSchema(service, tenant, 'drop table documents cascade');
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
    await tenant.post('/api/entities/notes/records', { title: 'three' });
    expect((await tenant.get('/api/entities/notes/records')).body.data.total).toBe(3);
  });

  test('measures the bytes of the records again', async () => {
    const storageBytes = async (): Promise<number> =>
      (await tenant.get('/api/tenant/usage')).body.data.now.storageBytes;
    const before = await storageBytes();
    expect(before).toBeGreaterThan(0);
    await service.app.db.rows(sql`update platform.entity_counts set bytes = 0 where tenant_id = ${tenant.id}::uuid`);
    await runInSchema(service, tenant, 'drop table documents cascade');
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
    while ((await measureStorageOnce(service.app, new AbortController().signal)) > 0);
    expect(await storageBytes()).toBe(before);
  });

  test('reports per tenant the faults that it cannot repair, and repairs the others', async () => {
    const other = await service.tenant();
    await runInSchema(
      service,
      tenant,
      'drop table documents cascade; create view documents as select 1 as id; alter table users drop column search',
    );
    await runInSchema(service, other, 'alter table documents drop column content_text');
    const { fixed, errors } = await fix();
    expect([fixed, errors.map(({ tenant: slug }: Json) => slug)]).toEqual([1, [tenant.slug]]);
    expect(errors[0].message).toContain('documents');
    expect(await issues(other)).toEqual([]);
    expect(await issues()).toContain('table_exists critical documents');
    await runInSchema(service, tenant, 'drop view documents');
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
    expect(await titles()).toEqual(['one', 'two']);
  });

  test('does not touch tenants that lack only objects that need pgvector, on a server without it', async () => {
    const other = await service.tenant();
    await runInSchema(service, tenant, 'drop extension vector cascade; alter table documents drop column content_text');
    const { db } = service.app;
    const first: typeof db.slow.first = async (query) =>
      compile(query).text.includes('pg_available_extensions') ? undefined : db.slow.first(query);
    let locked = 0;
    const begin: typeof db.slow.begin = (work) =>
      db.slow.begin(async (tx) => {
        const rows: typeof tx.rows = tx.rows.bind(tx);
        const counting = Object.assign(Object.create(tx), {
          rows,
          first: (query: Parameters<typeof tx.first>[0]) => {
            if (compile(query).text.includes('schema_version as version')) locked++;
            return tx.first(query);
          },
        });
        return work(counting);
      });
    const { fixed, errors } = await repairSchemas({
      ...service.app,
      db: { ...db, slow: { ...db.slow, first, begin } },
    });
    expect([fixed, locked]).toEqual([0, 1]);
    const missing = 'extension_exists, column_exists chunks.embedding, hnsw_index_exists chunks.embedding';
    expect(errors).toContainEqual({ tenant: other.slug, message: `still missing: ${missing}` });
    expect(errors).toContainEqual({ tenant: tenant.slug, message: `still missing: ${missing}` });
    const { tenants_checked: checked } = await health();
    expect(errors).toHaveLength(checked);
    expect(await fix()).toEqual({ fixed: checked, errors: [] });
    expect(await health()).toMatchObject({ status: 'healthy' });
  });

  test('concurrent repairs do not collide, and count each tenant once', async () => {
    const tenants = [tenant, ...(await Promise.all([1, 2, 3].map(() => service.tenant())))];
    for (const one of tenants)
      await runInSchema(service, one, 'drop table users; alter table documents drop column content_text');
    const repairs = await Promise.all([1, 2, 3].map(() => repairSchemas(service.app)));
    expect(repairs.flatMap(({ errors }) => errors)).toEqual([]);
    expect(repairs.reduce((sum, { fixed }) => sum + fixed, 0)).toBe(tenants.length);
    expect(await health()).toMatchObject({ status: 'healthy' });
  });

  test('neither check nor repair fails when tenants are dropped concurrently', async () => {
    const doomed = await Promise.all([1, 2, 3, 4].map(() => service.tenant()));
    for (const one of doomed) await runInSchema(service, one, 'alter table documents drop column content_text');
    const drops = doomed.map((one) =>
      service.admin.delete(`/api/admin/platform/tenants/${one.slug}?confirm=${one.slug}`),
    );
    const [checked, repaired] = await Promise.all([checkSchemas(service.app), repairSchemas(service.app), ...drops]);
    expect(checked.length).toBeGreaterThan(0);
    expect(repaired.errors).toEqual([]);
  });
});

// A lock needs a second session: its own Postgres, with or without pgvector.
describe('a tenant that another session locks delays and fails no other tenant', () => {
  let shared: PrivatePostgres | undefined;
  let apart: TestService;
  beforeAll(async () => {
    shared = await privatePostgres();
    if (shared !== undefined) apart = await startService({ DATABASE_URL: shared.url });
  });
  afterAll(async () => {
    await apart?.stop();
    await shared?.remove();
  });

  /** Holds the locks of a statement while `work` runs. */
  async function whileLocked(statement: string, work: () => Promise<void>): Promise<void> {
    const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = apart.app.db.slow.begin(async (tx) => {
      await tx.exec(statement);
      locked.resolve();
      await released.promise;
    });
    await locked.promise;
    await work().finally(released.resolve);
    await holding;
  }

  for (const [what, statement] of [
    ['row', (id: string) => `select from platform.tenants where id = '${id}' for update`],
    ['definitions', (id: string) => `lock table ${schemaOf(id)}.entity_definitions in access exclusive mode`],
    ['documents', (id: string) => `lock table ${schemaOf(id)}.documents in access exclusive mode`],
  ] as const) {
    test(`a tenant’s ${what} stay locked: it is in errors, and the others are repaired`, async () => {
      if (shared === undefined) return;
      const tenants = await Promise.all([1, 2, 3, 4].map(() => apart.tenant()));
      const [held, ...others] = tenants as [TestTenant, ...TestTenant[]];
      for (const one of tenants) await runInSchema(apart, one, 'alter table documents drop column content_text');
      const check = async (): Promise<Json[]> => (await apart.admin.get('/health/schema')).body.data.issues;
      const lacking = (all: Json[]): string[] =>
        all.filter(({ column }) => column === 'content_text').map(({ tenant: slug }) => slug);
      await whileLocked(statement(held.id), async () => {
        const before = await check();
        expect(lacking(before).sort()).toEqual(tenants.map(({ slug }) => slug).sort());
        const locked = before.filter(({ fix: text }) => text.includes('Another session locks'));
        const issue = { tenant: held.slug, check: 'table_exists', table: 'entity_definitions', severity: 'critical' };
        expect(locked).toEqual(what === 'definitions' ? [expect.objectContaining(issue)] : []);
        const repair = await apart.admin.post('/health/schema/fix');
        expect(repair.status).toBe(200);
        const message = 'another session locks the tenant or one of its tables; try again later';
        expect(repair.body.data.errors).toContainEqual({ tenant: held.slug, message });
        const { errors } = repair.body.data;
        for (const { slug } of others) expect(errors).not.toContainEqual({ tenant: slug, message });
        expect(lacking(await check())).toEqual([held.slug]);
      });
      await apart.admin.post('/health/schema/fix');
      expect(lacking(await check())).toEqual([]);
    }, 40_000);
  }

  test('the connection of one repair is lost: its tenant is in errors, and the others are repaired', async () => {
    const other = await service.tenant();
    for (const one of [tenant, other])
      await runInSchema(service, one, 'alter table documents drop column content_text');
    const { db } = service.app;
    const begin: typeof db.slow.begin = (work) =>
      db.slow.begin(async (tx) => {
        const first: typeof tx.first = (query) => {
          const { text, parameters } = compile(query);
          const isRepair = text.includes('schema_version as version') && parameters.includes(tenant.id);
          return isRepair ? Promise.reject(connectionLost()) : tx.first(query);
        };
        return work(Object.assign(Object.create(tx), { rows: tx.rows.bind(tx), first }));
      });
    const { fixed, errors } = await repairSchemas({ ...service.app, db: { ...db, slow: { ...db.slow, begin } } });
    expect([fixed, errors.map(({ tenant: slug }) => slug)]).toEqual([1, [tenant.slug]]);
    expect(await fix()).toEqual({ fixed: 1, errors: [] });
  });
});

test('a check succeeds although tenants are dropped, each just before it is read', async () => {
  const { db } = service.app;
  const doomed = await Promise.all([1, 2, 3, 4].map(() => service.tenant()));
  // The first transaction reads the reference, the others read definitions.
  let transactions = 0;
  const begin: typeof db.slow.begin = async (work) => {
    const one = transactions++ > 0 ? doomed.pop() : undefined;
    if (one !== undefined) await service.admin.delete(`/api/admin/platform/tenants/${one.slug}?confirm=${one.slug}`);
    return db.slow.begin(work);
  };
  const checked = await checkSchemas({ ...service.app, db: { ...db, slow: { ...db.slow, begin } } });
  expect([checked.some(({ id }) => id === tenant.id), doomed.length]).toEqual([true, 0]);
});

test('a check of all tenants takes at most five statements', async () => {
  const { db } = service.app;
  let statements = 0;
  const rows: typeof db.slow.rows = (query) => {
    statements++;
    return db.slow.rows(query);
  };
  const first: typeof db.slow.first = async (query) => (await rows(query))[0] as never;
  // The first transaction reads the reference; in the others, the limit of the wait for locks is no statement of the check.
  let transactions = 0;
  const begin: typeof db.slow.begin = (work) =>
    db.slow.begin((tx) => {
      if (transactions++ === 0) return work(tx);
      const counted: typeof tx.rows = (query) => {
        if (!compile(query).text.includes('set_config')) statements++;
        return tx.rows(query);
      };
      return work(Object.assign(Object.create(tx), { rows: counted, first: tx.first.bind(tx) }));
    });
  await checkSchemas({ ...service.app, db: { ...db, slow: { ...db.slow, rows, first, begin } } });
  expect(statements).toBeLessThanOrEqual(5);
});
