// Liveness and readiness, and retention: event partitions by day, responses under an Idempotency-Key, admin
// sessions. Workers run one round at a time.
// Contract: decisions#operations, decisions#retention.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../src/app.ts';
import { buildRecordIndexes } from '../src/events/record-indexes.ts';
import { cleanUpOnce, ensurePartitions } from '../src/events/retention.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const NEVER = new AbortController().signal;
const DAY_MS = 86_400_000;

describe('health', () => {
  test('/health and /ready answer in the envelope without a credential', async () => {
    for (const path of ['/health', '/ready']) {
      const answer = await service.anonymous.get(path);
      expect([answer.status, answer.body]).toEqual([200, { success: true, data: { status: 'ok' } }]);
    }
  });

  test('/ready answers 503 while starting or shutting down, /health does not', async () => {
    service.app.isReady = false;
    const ready = await service.anonymous.get('/ready');
    const health = await service.anonymous.get('/health');
    service.app.isReady = true;
    expect([ready.status, ready.body.error.code, health.status]).toEqual([503, 'SERVICE_UNAVAILABLE', 200]);
    expect(ready.headers.get('retry-after')).toMatch(/^\d+$/);
  });
});

describe('partitions of events', () => {
  // Autovacuum may lock the table for longer than the creation of a partition waits.
  beforeAll(() => service.app.db.exec('alter table platform.events_default set (autovacuum_enabled = false)'));
  afterAll(() => service.app.db.exec('alter table platform.events_default reset (autovacuum_enabled)'));

  // Days in the future, which no other test uses; each test gets its own.
  let today = new Date('2031-03-01T12:00:00Z');
  beforeEach(() => {
    today = new Date(today.getTime() + 100 * DAY_MS);
  });

  async function partitions(): Promise<string[]> {
    const rows = await service.app.db.rows<{ name: string }>(sql`
      select inhrelid::regclass::text as name from pg_inherits where inhparent = 'platform.events'::regclass`);
    return rows.map(({ name }) => name.replace('platform.', ''));
  }

  function dayOf(offset: number): string {
    return `events_${new Date(today.getTime() + offset * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '')}`;
  }

  async function drop(...names: string[]): Promise<void> {
    for (const name of names) await service.app.db.rows(sql`drop table if exists ${identifier('platform', name)}`);
  }

  async function insertEvent(at: string): Promise<string> {
    const row = await service.app.db.first<{ id: string; partition: string }>(sql`
      insert into platform.events (id, at, tenant_id, entity_id, entity, record_id, type, version, data, created_at,
        updated_at, triggered_by)
      values (platform.uuidv7(), ${at}::timestamptz, platform.uuidv7(), platform.uuidv7(), 'e', platform.uuidv7(),
        'record.created', 1, '{}', now(), now(), 'api')
      returning id, tableoid::regclass::text as partition`);
    return row?.partition ?? '';
  }

  test('today and the next three days each have one, created once even if several processes try concurrently', async () => {
    const made = await Promise.all([1, 2, 3].map(() => ensurePartitions(service.app, today)));
    expect(made.reduce((sum, count) => sum + count)).toBe(4);
    expect(await partitions()).toEqual(expect.arrayContaining([0, 1, 2, 3].map(dayOf)));
    expect(await insertEvent(today.toISOString())).toBe(`platform.${dayOf(0)}`);
    expect(await ensurePartitions(service.app, today)).toBe(0);
    await drop(...[0, 1, 2, 3].map(dayOf));
  });

  // The embedded database has one session, so nothing waits there.
  if (process.env.DATABASE_URL) {
    test('their creation waits until another process has finished creating them', async () => {
      const { made } = await service.app.db.slow.begin(async (tx) => {
        await tx.rows(sql`select pg_advisory_xact_lock(hashtext('platform.events partitions'))`);
        const made = ensurePartitions(service.app, today);
        await Promise.race([made, delay(1_500)]);
        return { made };
      });
      expect(await made).toBe(4);
      await drop(...[0, 1, 2, 3].map(dayOf));
    });
  }

  test('a day with events in the default partition gets none, and the other days get theirs', async () => {
    const at = new Date(today.getTime() + DAY_MS).toISOString();
    expect(await insertEvent(at)).toBe('platform.events_default');
    expect(await ensurePartitions(service.app, today)).toBe(3);
    expect(await partitions()).not.toContain(dayOf(1));
    await service.app.db.rows(sql`delete from platform.events_default where at = ${at}::timestamptz`);
    await drop(...[0, 2, 3].map(dayOf));
  });

  test('have indexes by record from the start, and get missing ones', async () => {
    const indexesOf = async (offset: number): Promise<string[]> => {
      const rows = await service.app.db.rows<{ name: string }>(sql`
        select replace(c.relname, ${`${dayOf(offset)}_`}, '') as name
        from pg_index as i join pg_class as c on c.oid = i.indexrelid
        where i.indrelid = ${`platform.${dayOf(offset)}`}::regclass and i.indisvalid
          and c.relname like '%\\_idx' and c.relname !~ 'seq'
        order by name`);
      return rows.map(({ name }) => name);
    };
    await ensurePartitions(service.app, today);
    expect(await indexesOf(0)).toEqual(['deleted_idx', 'history_idx', 'restored_idx']);
    // As if a process of an older version had made it.
    await service.app.db.rows(sql`drop index ${identifier('platform', `${dayOf(2)}_history_idx`)}`);
    while ((await buildRecordIndexes(service.app, NEVER)) > 0);
    for (const day of [0, 1, 2, 3])
      expect(await indexesOf(day)).toEqual(['deleted_idx', 'history_idx', 'restored_idx']);
    await drop(...[0, 1, 2, 3].map(dayOf));
  });

  test.each([30, 7])(
    'events are kept EVENT_RETENTION_DAYS, such as %d, in any partition, and then dropped',
    async (keptDays) => {
      // A year back: everything that other tests write is newer.
      const now = new Date(Date.now() - 365 * DAY_MS);
      const app = { ...service.app, config: { ...service.app.config, eventRetentionDays: keptDays } } as App;
      const daysBefore = (days: number): Date => new Date(now.getTime() - days * DAY_MS);
      await ensurePartitions(service.app, daysBefore(keptDays + 3));
      const kept = `events_${daysBefore(keptDays).toISOString().slice(0, 10).replaceAll('-', '')}`;
      await insertEvent(daysBefore(keptDays + 2).toISOString());
      await insertEvent(daysBefore(keptDays + 10).toISOString());
      await insertEvent(daysBefore(keptDays - 1).toISOString());
      let rounds = 0;
      while ((await cleanUpOnce(app, NEVER, now)) > 0) rounds++;
      expect(rounds).toBe(1);
      const left = await service.app.db.rows<{ at: string }>(sql`
      select at from platform.events where at < ${now.toISOString()}::timestamptz`);
      expect(left.map(({ at }) => at)).toEqual([daysBefore(keptDays - 1).toISOString()]);
      const old = (await partitions()).filter((name) => /^events_\d{8}$/.test(name) && name <= kept);
      expect(old).toEqual([kept]);
      await service.app.db.rows(sql`delete from platform.events where at < ${now.toISOString()}::timestamptz`);
      await drop(
        kept,
        ...[0, 1, 2, 3].map((d) => `events_${daysBefore(-d).toISOString().slice(0, 10).replaceAll('-', '')}`),
      );
    },
  );
});

describe('retention', () => {
  let tenant: TestTenant;
  beforeAll(async () => {
    tenant = await service.tenant();
    await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text' }] });
  });

  async function count(table: string): Promise<number> {
    const row = await service.app.db.first<{ n: number }>(sql`
      select count(*) as n from ${identifier('platform', table)} where tenant_id = ${tenant.id}::uuid`);
    return row?.n ?? 0;
  }

  test('a response under an Idempotency-Key is kept 24 hours', async () => {
    for (const key of ['old', 'young']) {
      await tenant.post('/api/entities/notes/records', { title: key }, { 'idempotency-key': key });
    }
    await service.app.db.rows(sql`
      update platform.idempotency_keys set created_at = now() - interval '24 hours 1 second'
      where tenant_id = ${tenant.id}::uuid and key = 'old'`);
    await cleanUpOnce(service.app, NEVER);
    expect(await count('idempotency_keys')).toBe(1);
    const again = await tenant.post('/api/entities/notes/records', { title: 'young' }, { 'idempotency-key': 'young' });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
  });

  test('an admin session is removed once it has expired', async () => {
    for (let i = 0; i < 2; i++) await service.admin.post('/api/admin/sessions', { tenantSlug: tenant.slug });
    await service.app.db.rows(sql`
      update platform.admin_sessions set expires_at = now() - interval '1 second'
      where id = (select min(id::text)::uuid from platform.admin_sessions where tenant_id = ${tenant.id}::uuid)`);
    await cleanUpOnce(service.app, NEVER);
    expect(await count('admin_sessions')).toBe(1);
  });
});
