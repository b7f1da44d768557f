// Erasing a record goes on after the death of the process that began it. Contract: history#erase.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { eraseOnce } from '../src/records/erase/values.ts';
import { sql } from '../src/runtime/sql.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Json, startService, type TestService } from './support/service.ts';
import { placesOf } from './support/stored-text.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

test('what a process leaves when it is killed is erased by another one', async () => {
  const tenant = await service.tenant();
  const RECORDS = await createEntity(tenant, 'task', fields('title text', 'body text'));
  const canary = `canaryofcrash${Date.now().toString(36)}`;
  const places = (): Promise<string[]> => placesOf(service, tenant, canary);
  const { id } = await createRecord(tenant, RECORDS, { title: canary });
  for (let i = 0; i < 450; i += 50) {
    const operations = Array.from({ length: 50 }, (_, n) => ({
      op: 'update',
      id,
      data: { body: `${canary} ${i + n}` },
    }));
    expect((await tenant.post(`${RECORDS}/bulk`, { operations })).status).toBe(200);
  }
  await tenant.delete(`${RECORDS}/${id}`);
  await service.app.db.rows(sql`
    insert into platform.erasures (tenant_id, record_id, due_at) values (${tenant.id}::uuid, ${id}::uuid, now())`);
  const left = sql`select is_swept from platform.erasures where tenant_id = ${tenant.id}::uuid`;
  // What other files have left, which use the same database, has its turn first.
  await service.app.db.rows(sql`delete from platform.erasures where tenant_id <> ${tenant.id}::uuid`);
  const stop = new AbortController();
  stop.abort();
  // Killed after its first part.
  expect(await eraseOnce(service.app, stop.signal)).toBe(tenant.id);
  expect(await places()).toContain('platform.events');
  const due = sql`update platform.erasures set due_at = now(), at = at - interval '1 hour' where tenant_id = ${tenant.id}::uuid`;
  const { signal } = new AbortController();
  await service.app.db.rows(due);
  while ((await eraseOnce(service.app, signal)) !== null);
  expect(await places()).toEqual([]);
  // Once more, for what was under way elsewhere.
  expect(await service.app.db.rows<Json>(left)).toEqual([{ is_swept: true }]);
  await service.app.db.rows(due);
  while ((await eraseOnce(service.app, signal)) !== null);
  expect(await service.app.db.rows<Json>(left)).toEqual([]);
}, 60_000);

test('tenants take turns: however many erasures of one are due, that of another is the next', async () => {
  const { signal } = new AbortController();
  while ((await eraseOnce(service.app, signal)) !== null);
  const [many, one] = [await service.tenant(), await service.tenant()];
  const due = (tenantId: string) => sql`
    insert into platform.erasures (tenant_id, record_id, due_at)
    values (${tenantId}::uuid, gen_random_uuid(), now() - interval '1 hour')`;
  for (let i = 0; i < 3; i++) await service.app.db.rows(due(many.id));
  await service.app.db.rows(due(one.id));
  const first = await eraseOnce(service.app, signal, many.id);
  expect([first, await eraseOnce(service.app, signal, first as string)]).toEqual([one.id, many.id]);
});
