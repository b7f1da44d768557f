// Erasing a record continues after the death of the process that began it. Contract: history#erase.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { Erasures } from '../src/records/erase/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { placesOf } from './support/stored-text.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

/** A deleted record with hundreds of versions, which takes several parts. */
async function recordOf(tenant: TestTenant, text: string): Promise<string> {
  const path = await createEntity(tenant, 'task', fields('title text', 'body text'));
  const { id } = await createRecord(tenant, path, { title: text });
  for (let i = 0; i < 450; i += 50) {
    const operations = Array.from({ length: 50 }, (_, n) => ({ op: 'update', id, data: { body: `${text} ${i + n}` } }));
    expect((await tenant.post(`${path}/bulk`, { operations })).status).toBe(200);
  }
  await tenant.delete(`${path}/${id}`);
  return id;
}

/** Acts as another process. */
async function eraseAll(): Promise<void> {
  const erasures = new Erasures(service.app);
  while ((await erasures.once(new AbortController().signal)) > 0);
}

test('when a process is killed, another one completes its erasures', async () => {
  const tenant = await service.tenant();
  const canary = `canaryofcrash${Date.now().toString(36)}`;
  const places = (): Promise<string[]> => placesOf(service, tenant, canary);
  const id = await recordOf(tenant, canary);
  await service.app.db.rows(sql`
    insert into platform.erasures (tenant_id, record_id, due_at) values (${tenant.id}::uuid, ${id}::uuid, now())`);
  const left = sql`select is_swept from platform.erasures where tenant_id = ${tenant.id}::uuid`;
  // Erasures left by other files, which use the same database, have their turn first.
  await service.app.db.rows(sql`delete from platform.erasures where tenant_id <> ${tenant.id}::uuid`);
  const stop = new AbortController();
  stop.abort();
  // Killed after its first part.
  expect(await new Erasures(service.app).once(stop.signal)).toBe(1);
  expect(await places()).toContain('platform.events');
  const due = sql`update platform.erasures set due_at = now(), at = at - interval '1 hour' where tenant_id = ${tenant.id}::uuid`;
  await service.app.db.rows(due);
  await eraseAll();
  expect(await places()).toEqual([]);
  // Once more, for work in progress elsewhere.
  expect(await service.app.db.rows<Json>(left)).toEqual([{ is_swept: true }]);
  await service.app.db.rows(due);
  await eraseAll();
  expect(await service.app.db.rows<Json>(left)).toEqual([]);
}, 60_000);

test('tenants take turns: however much one tenant has to erase, another tenant’s erasure runs after a slice', async () => {
  // A service that is another process may take them first.
  if (process.env.SERVICE_RUNTIME !== undefined) return;
  const [large, small] = [await service.tenant(), await service.tenant()];
  const record = await recordOf(large, 'anything');
  const { db } = service.app;
  const { begin } = db;
  // Each part takes longer than a slice.
  db.begin = async (run) => {
    await delay(60);
    return begin(run);
  };
  const isSwept = async ({ id }: TestTenant): Promise<boolean | undefined> =>
    (await db.first<Json>(sql`select is_swept from platform.erasures where tenant_id = ${id}::uuid`))?.is_swept;
  try {
    await db.rows(sql`delete from platform.erasures`);
    await db.rows(sql`
      insert into platform.erasures (tenant_id, record_id, due_at)
      values (${large.id}::uuid, ${record}::uuid, now()), (${small.id}::uuid, gen_random_uuid(), now())`);
    const erasures = new Erasures(service.app);
    expect(await erasures.once(new AbortController().signal)).toBe(2);
    expect([await isSwept(large), await isSwept(small)]).toEqual([false, true]);
    while ((await erasures.once(new AbortController().signal)) > 0);
    expect(await isSwept(large)).toBe(true);
  } finally {
    db.begin = begin;
  }
}, 60_000);
