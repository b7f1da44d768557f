// `after` rules whose process is killed: each acts once per event, and chains end at depth 5. Contract: decisions#rules.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { startService, type TestService } from './support/service.ts';
import { endAll, newDataDir, START, startProcess } from './support/started.ts';

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
  const environment = {
    DATABASE_URL: process.env.DATABASE_URL ?? '',
    DATA_DIR: await newDataDir(),
    DEMO: '0',
    ADMIN_SECRET: 'a-secret-of-the-test-of-crashes',
    JWT_SECRET: 'another-secret-of-the-test-of-crashes',
  };
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
