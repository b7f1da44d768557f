// Tenants that are deleted while they are busy: their running work ends, and no other tenant notices.
// Contract: decisions#tenants, neighbours#fair-shares.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { deleteTenant, restoreLeft } from '../src/admin/tenant-deletion.ts';
import { tableNameOf } from '../src/entities/field.ts';
import type { ServiceError } from '../src/errors.ts';
import { streamOf } from '../src/events/relay.ts';
import { runRulesOnce } from '../src/rules/worker.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { createEntity, fields } from './support/entities.ts';
import { startServiceProcess } from './support/processes.ts';
import {
  ADMIN_SECRET,
  type Answer,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { connectEvents } from './support/streams.ts';

const NOTES = '/api/entities/notes/records';
/** Postgres detects a deadlock after a second. */
const DEADLOCK_MS = 1_000;
const ROUNDS = 3;

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

async function withNotes(): Promise<TestTenant> {
  const tenant = await service.tenant();
  await createEntity(tenant, 'notes', fields('title text', 'body text'));
  await createEntity(tenant, 'copies', fields('title text'));
  return tenant;
}

const platformPath = ({ slug }: TestTenant): string => `/api/admin/platform/tenants/${slug}`;
const remove = (tenant: TestTenant): Promise<Answer> =>
  service.admin.delete(`${platformPath(tenant)}?confirm=${tenant.slug}`);
const statusOf = async (tenant: TestTenant): Promise<string> =>
  (await service.admin.get(platformPath(tenant))).body.data.status;
const schema = ({ id }: TestTenant, name: string) => identifier(schemaOf(id), name);

test('a tenant that cannot be deleted is as it was before', async () => {
  const tenant = await withNotes();
  const { db } = service.app;
  const settings = { customDomain: `${tenant.slug}.example.com`, customDomainVerified: true };
  expect((await service.admin.patch(platformPath(tenant), { settings })).status).toBe(200);
  await db.rows(sql`create table platform.holds_a_tenant (id uuid references platform.tenants (id))`);
  try {
    await db.rows(sql`insert into platform.holds_a_tenant values (${tenant.id}::uuid)`);
    expect((await remove(tenant)).status).not.toBe(200);
    const { status, customDomainStatus } = (await service.admin.get(platformPath(tenant))).body.data;
    expect([status, customDomainStatus]).toEqual(['active', 'verified']);
    expect((await tenant.post(NOTES, { title: 'still here' })).status).toBe(201);
  } finally {
    await db.rows(sql`drop table platform.holds_a_tenant`);
  }
  expect((await remove(tenant)).status).toBe(200);
  expect((await tenant.get(NOTES)).status).toBe(401);
});

test('the rule runs of a tenant are deleted with it, those of others are not', async () => {
  const [deleted, other] = [await service.tenant(), await service.tenant()];
  const { db } = service.app;
  // Runs of the other tenant wait; otherwise a worker would end them.
  for (const { id, next } of [
    { ...deleted, next: '0' },
    { ...other, next: '1 day' },
  ]) {
    await db.rows(sql`
      insert into platform.rule_runs (event_id, rule_id, tenant_id, entity_id, record_id, version, created_at, updated_at, depth,
        root_event_id, next_at, is_blocked)
      select gen_random_uuid(), gen_random_uuid(), ${id}::uuid, gen_random_uuid(), ${id}::uuid, n, now(), now(), 0,
        gen_random_uuid(), now() + ${next}::interval, n > 1
      from generate_series(1, 2500) as n`);
    await db.rows(sql`
      insert into platform.rule_images (event_id, tenant_id, data, bytes)
      select event_id, tenant_id, '{}', 2 from platform.rule_runs where tenant_id = ${id}::uuid`);
  }
  expect((await remove(deleted)).status).toBe(200);
  for (const [{ id }, left] of [
    [deleted, 0],
    [other, 2_500],
  ] as const) {
    const isOwn = sql`tenant_id = ${id}::uuid`;
    const counted = await db.first<Json>(sql`
      select (select count(*) from platform.rule_runs where ${isOwn}) as runs, (select count(*) from platform.rule_images where ${isOwn}) as images`);
    expect(counted).toEqual({ runs: left, images: left });
  }
  expect((await remove(other)).status).toBe(200);
});

// The embedded database has one session.
if (process.env.DATABASE_URL) {
  /** Holds the table of the notes for a while as a write does, then does something else in the same transaction. */
  async function hold(tenant: TestTenant, ms: number, then: Json = sql`select`): Promise<{ ended: Promise<number> }> {
    const { id } = (await tenant.get('/api/entities/notes')).body.data;
    const begun = Promise.withResolvers<void>();
    const ended = service.app.db.begin(async (tx) => {
      await tx.rows(sql`lock table ${schema(tenant, tableNameOf(id))} in row exclusive mode`);
      begun.resolve();
      await Bun.sleep(ms);
      const startedAt = performance.now();
      await tx.rows(then);
      return performance.now() - startedAt;
    });
    await begun.promise;
    return { ended };
  }

  test('a tenant is deleted without a deadlock with its writes, which lock their tables in an order of their own', async () => {
    const tenant = await withNotes();
    const definitions = sql`select from ${schema(tenant, 'entity_definitions')}`;
    const { ended } = await hold(tenant, 300, definitions);
    expect((await remove(tenant)).status).toBe(200);
    expect(await ended).toBeLessThan(DEADLOCK_MS / 2);
  });

  test('a deletion that waits in vain for other work of the tenant reports it, and the tenant stays as it was', async () => {
    const { app } = service;
    for (const before of ['active', 'suspended']) {
      const tenant = await withNotes();
      const { ended } = await hold(tenant, 1_500);
      expect((await service.admin.patch(platformPath(tenant), { status: before })).status).toBe(200);
      const refused = await deleteTenant(app, tenant.slug, tenant.slug, 200).catch((error: unknown) => error);
      const { status, message } = refused as ServiceError;
      expect([status, message]).toEqual([503, 'other work of this tenant does not end']);
      expect(await statusOf(tenant)).toBe(before);
      await ended;
      expect((await remove(tenant)).status).toBe(200);
    }
  });

  test('an operator’s change of a tenant during its deletion holds when the deletion fails', async () => {
    const tenant = await withNotes();
    const { ended } = await hold(tenant, 1_500);
    const refused = deleteTenant(service.app, tenant.slug, tenant.slug, 600).catch((error: unknown) => error);
    while ((await statusOf(tenant)) !== 'suspended') await Bun.sleep(10);
    await service.admin.patch(platformPath(tenant), { status: 'suspended' });
    expect(await refused).toMatchObject({ status: 503 });
    expect(await statusOf(tenant)).toBe('suspended');
    await ended;
    expect((await remove(tenant)).status).toBe(200);
  });

  test('a tenant whose deletion dies with its process is active again, and can be deleted', async () => {
    const tenant = await withNotes();
    const other = await startServiceProcess({
      DATABASE_URL: process.env.DATABASE_URL ?? '',
      REDIS_URL: process.env.REDIS_URL ?? '',
    });
    const { ended } = await hold(tenant, 3_000);
    try {
      const cut = clientOf(other.url, { 'x-admin-secret': ADMIN_SECRET })
        .delete(`${platformPath(tenant)}?confirm=${tenant.slug}`)
        .catch(() => undefined);
      while ((await tenant.get(NOTES)).status !== 403) await Bun.sleep(10);
      // A deletion in progress is left alone.
      await restoreLeft(service.app);
      expect(await statusOf(tenant)).toBe('suspended');
      await other.kill();
      expect(await cut).toBeUndefined();
    } finally {
      await other.kill();
    }
    while ((await statusOf(tenant)) !== 'active') {
      await restoreLeft(service.app);
      await Bun.sleep(20);
    }
    while ((await tenant.get(NOTES)).status !== 200) await Bun.sleep(10);
    await ended;
    expect((await remove(tenant)).status).toBe(200);
  }, 30_000);
}

test('the work of a tenant that is deleted meanwhile ends, and is no failure in the log', async () => {
  const signal = new AbortController().signal;
  for (let round = 0; round < ROUNDS; round++) {
    const tenant = await withNotes();
    const action = { type: 'create_record', entity: 'copies', values: { title: '{{title}}' } };
    const rule = { name: 'a copy', entity: 'notes', trigger: 'after_create', action };
    expect((await tenant.post('/api/rules', rule)).status).toBe(201);
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    const before = service.logged.length;
    let isDeleted = false;
    const writing = Array.from({ length: 4 }, async () => {
      while (!isDeleted) await tenant.post(NOTES, { title: 'x', body: 'y' });
    });
    const defining = (async () => {
      while (!isDeleted) {
        await tenant.delete('/api/entities/notes/fields/body?confirm=body');
        await tenant.post('/api/entities/notes/fields', { key: 'body', type: 'text' });
      }
    })();
    const ruling = (async () => {
      while (!isDeleted) if ((await runRulesOnce(service.app, signal)) === 0) await Bun.sleep(5);
    })();
    await Bun.sleep(300);
    expect((await remove(tenant)).status).toBe(200);
    await Bun.sleep(50);
    isDeleted = true;
    await Promise.all([...writing, defining, ruling]);
    await stream.ended();
    await Bun.sleep(100);
    const failures = service.logged.slice(before).filter((line) => /"level":"(warn|error)"/.test(line));
    expect(failures).toEqual([]);
  }
}, 30_000);

// The broker is looked into from the service's own process.
if (!process.env.SERVICE_RUNTIME) {
  test('the events of a tenant’s live stream are deleted with it', async () => {
    const tenant = await withNotes();
    const { broker } = service.app;
    const held = async (): Promise<number> => {
      let count = 0;
      await broker.remove(streamOf(tenant.id), () => {
        count++;
        return false;
      });
      return count;
    };
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    expect((await tenant.post(NOTES, { title: 'kept for streams' })).status).toBe(201);
    expect((await stream.next()).data.data.fields.title).toBe('kept for streams');
    expect(await held()).toBeGreaterThan(0);
    expect((await remove(tenant)).status).toBe(200);
    expect(await held()).toBe(0);
    stream.close();
  });
}
