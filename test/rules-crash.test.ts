// `after` rules whose process is killed: each acts once per event, and chains end at depth 5. Contract: decisions#rules.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { claimRun } from '../src/rules/runs.ts';
import { runRulesOnce } from '../src/rules/worker.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { endAll, newDataDir, START, startProcess } from './support/started.ts';
import { runInSchema, storedEvents } from './support/tenant-database.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => {
  await service.stop();
  await endAll();
});

const CHANGES = 60;
/** Killing another process needs a shared Postgres; the embedded one serves one process. */
const KILLS = process.env.DATABASE_URL === undefined ? 0 : 3;

async function processEnvironment(): Promise<Record<string, string>> {
  return {
    DATABASE_URL: process.env.DATABASE_URL ?? '',
    DATA_DIR: await newDataDir(),
    DEMO: '0',
    ADMIN_SECRET: 'a-secret-of-the-test-of-crashes',
    JWT_SECRET: 'another-secret-of-the-test-of-crashes',
  };
}

test('after rules act once per event, and chains end at depth 5, even if their process is killed repeatedly', async () => {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'n', type: 'integer' }] });
  await tenant.post('/api/entities', { name: 'log', fields: [{ key: 'cause', type: 'text' }] });
  const note = { type: 'create_record', entity: 'log', values: { cause: '{{id}}' } };
  const again = { type: 'create_record', entity: 'task', values: { n: '{{n}}' } };
  for (const action of [note, again]) {
    const rule = { name: 'r', entity: 'task', trigger: 'after_create', action };
    expect((await tenant.post('/api/rules', rule)).status).toBe(201);
  }
  const operations = Array.from({ length: CHANGES }, (_, n) => ({ op: 'create', data: { n } }));
  expect((await tenant.post('/api/entities/task/records/bulk', { operations })).status).toBe(200);
  const environment = await processEnvironment();
  for (let kill = 0; kill < KILLS; kill++) {
    const worker = startProcess(START, environment);
    await worker.address;
    await delay(100 + 150 * kill);
    await worker.end('SIGKILL');
  }
  // A killed process may hold a lock until Postgres notices.
  const left = sql`select from platform.rule_runs where tenant_id = ${tenant.id}::uuid limit 1`;
  do await runRulesOnce(service.app, new AbortController().signal);
  while ((await service.app.db.first(left)) !== undefined);
  const total = async (entity: string): Promise<number> =>
    (await tenant.get(`/api/entities/${entity}/records?limit=1`)).body.data.total;
  expect(await total('task')).toBe(CHANGES * 6);
  expect(await total('log')).toBe(CHANGES * 5);
  const causes = await tenant.get('/api/entities/log/records/aggregate?metrics=count&groupBy=cause');
  expect(causes.body.data.items).toHaveLength(CHANGES * 5);
  const deepest = await service.app.db.first<{ depth: number }>(sql`
    select max(depth) as depth from platform.events where tenant_id = ${tenant.id}::uuid`);
  expect(deepest?.depth).toBe(5);
}, 180_000);

/** A tenant whose task has a rule that writes to `log`, and one run of it. */
async function withOneRun(): Promise<TestTenant> {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'n', type: 'integer' }] });
  await tenant.post('/api/entities', { name: 'log', fields: [{ key: 'n', type: 'integer' }] });
  const action = { type: 'create_record', entity: 'log', values: { n: '{{n}}' } };
  const rule = { name: 'poison', entity: 'task', trigger: 'after_create', action };
  expect((await tenant.post('/api/rules', rule)).status).toBe(201);
  expect((await tenant.post('/api/entities/task/records', { n: 1 })).status).toBe(201);
  return tenant;
}

interface StoredRun {
  attempts: number;
  /** The time of the next attempt, by the database's clock, in milliseconds. */
  due: number;
}

const runOf = ({ id }: TestTenant): Promise<StoredRun | undefined> =>
  service.app.db.first<StoredRun>(sql`
    select attempts, (extract(epoch from next_at) * 1000)::float8 as due
    from platform.rule_runs where tenant_id = ${id}::uuid`);

const makeDue = ({ id }: TestTenant): Promise<unknown> =>
  service.app.db.rows(sql`update platform.rule_runs set next_at = now() where tenant_id = ${id}::uuid`);

/** By the database's clock, in milliseconds. */
async function databaseTime(): Promise<number> {
  const row = await service.app.db.first<{ now: number }>(sql`
    select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`);
  return row?.now ?? 0;
}

async function errorsOf(tenant: TestTenant): Promise<string[]> {
  return (await storedEvents(service, tenant, 'rule.failed')).map(({ payload }) => payload.data.error);
}

const WAITS_MS = [1_000, 4_000, 16_000, 60_000];

test('a run that fails or breaks its connection is attempted 5 times, after 1, 4, 16 and 60 s, then rule.failed', async () => {
  const tenant = await withOneRun();
  const breaks =
    process.env.DATABASE_URL === undefined ? `raise 'poison'` : 'perform pg_terminate_backend(pg_backend_pid())';
  await runInSchema(
    service,
    tenant,
    `create function poison() returns trigger language plpgsql as $$ begin ${breaks}; return new; end $$;
     create trigger poison before insert on entity_records for each row execute function poison();`,
  );
  for (const [i, waitMs] of WAITS_MS.entries()) {
    const before = await databaseTime();
    await runRulesOnce(service.app, new AbortController().signal);
    const run = await runOf(tenant);
    expect(run?.attempts).toBe(i + 1);
    // However long the attempt took on a busy machine.
    expect(run?.due).toBeGreaterThan(before + waitMs * 0.1);
    expect(run?.due).toBeLessThanOrEqual((await databaseTime()) + waitMs);
    await makeDue(tenant);
  }
  await runRulesOnce(service.app, new AbortController().signal);
  expect(await runOf(tenant)).toBeUndefined();
  expect(await errorsOf(tenant)).toEqual(['gave up after 5 attempts']);
}, 60_000);

test('a run whose process is killed in each attempt ends after 5 of them, without an effect', async () => {
  const tenant = await withOneRun();
  const environment = await processEnvironment();
  for (let attempt = 1; attempt <= 5; attempt++) {
    // The embedded database serves one process: there the claim is made, and nothing after it.
    if (KILLS === 0) await claimRun(service.app.db, tenant.id);
    else await killInAttempt(tenant, attempt, environment);
    expect((await runOf(tenant))?.attempts).toBe(attempt);
    await makeDue(tenant);
  }
  await runRulesOnce(service.app, new AbortController().signal);
  expect(await errorsOf(tenant)).toEqual(['gave up after 5 attempts']);
  expect(await runOf(tenant)).toBeUndefined();
  expect((await tenant.get('/api/entities/log/records')).body.data.total).toBe(0);
}, 180_000);

/** Starts a process, and kills it while the run's transaction is open. */
async function killInAttempt(tenant: TestTenant, attempt: number, environment: Record<string, string>): Promise<void> {
  const held = await holdInserts(tenant);
  const worker = startProcess(START, environment);
  while ((await runOf(tenant))?.attempts !== attempt) await delay(20);
  await worker.end('SIGKILL');
  await held.release();
  // Its transaction may still be open.
  await service.app.db.rows(sql`select from platform.rule_runs where tenant_id = ${tenant.id}::uuid for update`);
}

/** Keeps every insert of a record waiting. */
async function holdInserts(tenant: TestTenant): Promise<{ release: () => Promise<void> }> {
  const locked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const held = service.app.db.slow.begin(async (tx) => {
    await tx.rows(sql`lock table ${identifier(schemaOf(tenant.id), 'entity_records')} in share row exclusive mode`);
    locked.resolve();
    await released.promise;
  });
  await locked.promise;
  return {
    release: async () => {
      released.resolve();
      await held;
    },
  };
}
