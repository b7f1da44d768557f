// Tenants share the connections to Postgres. A tenant whose statements never end does not slow the others or operators; the
// statements of clients that have gone are cancelled; a transaction has one deadline. On a real server, if one is installed, a
// lock makes the statements of the heavy tenant wait; on the embedded database they are short.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import postgres from 'postgres';

import { LIMITS } from '../src/limits.ts';
import { createLog } from '../src/runtime/log.ts';
import { LockRoom } from '../src/runtime/postgres/lock-room.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { sql } from '../src/runtime/sql.ts';
import { forClient, forTenant } from '../src/runtime/work.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { type AnyPostgres, anyPostgres } from './support/any-postgres.ts';
import { type Answer, startService, type TestService, type TestTenant } from './support/service.ts';
import { asTenant } from './support/work.ts';

const log = createLog({ level: 'error' });
const PATH = '/api/entities/notes/records';
const METRICS_TOKEN = 'metrics-token-of-this-test';
const HEAVY_FILTER = encodeURIComponent(Array.from({ length: 40 }, (_, i) => `text contains "x${i}y"`).join(' or '));

let database: AnyPostgres;
let server: AnyPostgres['server'];
let url: string;
let service: TestService;
let heavy: TestTenant;
let victim: TestTenant;

beforeAll(async () => {
  database = await anyPostgres(log);
  server = database.server;
  url = database.url;
  service = await startService({ DATABASE_URL: url, LOG_LEVEL: 'info', METRICS_TOKEN });
  [heavy, victim] = [await service.tenant(), await service.tenant()];
  for (const tenant of [heavy, victim]) {
    await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'text', type: 'text' }] });
    const operations = Array.from({ length: 500 }, (_, i) => ({
      op: 'create',
      data: { text: `note ${i}`.repeat(20) },
    }));
    expect((await tenant.post(`${PATH}/bulk`, { operations })).status).toBe(200);
  }
});

afterAll(async () => {
  await service.stop();
  await database.remove();
});

/** While `work` runs, no statement on the tenant's records ends. */
async function whileLocked(tenant: TestTenant, work: () => Promise<void>): Promise<void> {
  if (server === undefined) return work();
  const locking = postgres(url, { max: 1, onnotice() {} });
  try {
    await locking.begin(async (tx) => {
      await tx.unsafe(`lock table "${schemaOf(tenant.id)}".entity_records in access exclusive mode`);
      await work();
    });
  } finally {
    await locking.end();
  }
}

/** Sends requests whose clients go when the returned function is called. */
function sendMany(tenant: TestTenant, count: number, path: string): { settled: Promise<unknown>; leave(): void } {
  const clients = Array.from({ length: count }, () => new AbortController());
  const headers = { 'x-api-key': tenant.key };
  const calls = clients.map(({ signal }) =>
    fetch(`${service.url}${path}`, { headers, signal }).then((response) => response.arrayBuffer()),
  );
  const leave = (): void => {
    for (const client of clients) client.abort();
  };
  return { settled: Promise.allSettled(calls), leave };
}

/** Statements of the service that the server is running. */
async function runningStatements(like: string): Promise<number> {
  const [row] = await service.app.db.rows<{ n: number }>(sql`
    select count(*) as n from pg_stat_activity
    where state = 'active' and pid <> pg_backend_pid() and query like ${`%${like}%`}`);
  return row?.n ?? 0;
}

/** Resolves once the condition holds; rejects after `ms`. */
async function within(ms: number, condition: () => boolean | Promise<boolean>): Promise<void> {
  const until = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > until) throw new Error(`not within ${ms} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Whether the condition holds within `ms`. */
function holds(ms: number, condition: () => Promise<boolean>): Promise<boolean> {
  return within(ms, condition).then(
    () => true,
    () => false,
  );
}

/** The requests of the victim and of operators while another tenant attacks. */
async function expectUndisturbed(): Promise<void> {
  for (let i = 0; i < 20; i++) {
    const listed = await victim.get(`${PATH}?limit=5`);
    expect([listed.status, listed.body.data?.total]).toEqual([200, 500]);
  }
  const counted = await victim.get(`${PATH}/aggregate?metrics=count`);
  expect(counted.body.data.items).toEqual([{ count: 500 }]);
  const exported = await victim.get(`${PATH}/export?format=ndjson`);
  expect(exported.text.trim().split('\n')).toHaveLength(500);
  const key = `f${Date.now()}`;
  const field = { key, type: 'text', required: true, default: 'x', indexed: true };
  expect((await victim.post('/api/entities/notes/fields', field)).status).toBe(201);
  expect((await victim.delete(`/api/entities/notes/fields/${key}?confirm=${key}`)).status).toBe(200);
  const slug = `t${Date.now().toString(36)}`;
  expect((await service.admin.post('/api/admin/platform/tenants', { slug, name: slug })).status).toBe(201);
  expect((await service.anonymous.get('/ready')).status).toBe(200);
}

describe('fair shares of the connections', () => {
  test.each([
    ['24 lists with 40 terms each', 24, `?filters=${HEAVY_FILTER}`],
    ['20 aggregates', 20, '/aggregate?metrics=count,max:text&groupBy=text'],
    ['20 exports', 20, '/export?format=csv'],
  ] as const)("while one tenant's %s wait, the calls of others and of operators succeed", async (_, count, path) => {
    await whileLocked(heavy, async () => {
      const attack = sendMany(heavy, count, `${PATH}${path}`);
      try {
        if (server !== undefined) await within(5_000, async () => (await runningStatements(schemaOf(heavy.id))) > 0);
        await expectUndisturbed();
      } finally {
        attack.leave();
        await attack.settled;
      }
    });
  });

  test('long reads that a tenant began alone are interrupted when others become active, and run again; its writes continue', async () => {
    const db = openDatabase({ url, log, max: 16, queryTimeoutMs: 60_000 });
    await db.exec('create table if not exists written (n int); truncate written');
    const seconds = server === undefined ? 0.01 : 5;
    const [tenantId, anotherId] = [crypto.randomUUID(), crypto.randomUUID()];
    // Opens the connections, which may take a while.
    const short = () => forTenant(tenantId, () => db.rows(sql`select pg_sleep(${seconds / 10}::float)`));
    await Promise.all(Array.from({ length: 8 }, short));
    const read = (n: number) =>
      forTenant(tenantId, () => db.first<{ n: number }>(sql`select ${n}::int as n, pg_sleep(${seconds}::float)`));
    const write = (n: number) =>
      forTenant(tenantId, () =>
        db.rows(sql`insert into written select ${n}::int from (select pg_sleep(${seconds}::float)) as s`),
      );
    const callOfAnother = () => asTenant(anotherId, async () => undefined);
    let others: ReturnType<typeof setInterval> | undefined;
    /** False if the machine was too busy to tell: a read gives way only in its first seconds. */
    const round = async (): Promise<boolean> => {
      await db.rows(sql`truncate written`);
      const reads = Array.from({ length: 6 }, (_, n) => read(n));
      const writes = Array.from({ length: 2 }, (_, n) => write(n));
      const ended = Promise.all([Promise.all(reads), Promise.all(writes)]);
      let isLate = false;
      try {
        if (server !== undefined) {
          const startedAt = performance.now();
          isLate = !(await holds(4_900, async () => (await runningStatements('pg_sleep')) === 8));
          isLate ||= performance.now() - startedAt > 1_000;
          others = setInterval(callOfAnother, 100);
          const haveGivenWay = await holds(3_500, async () => (await runningStatements('pg_sleep')) <= 4);
          if (!isLate) expect([haveGivenWay, await runningStatements('insert into written')]).toEqual([true, 2]);
        }
      } finally {
        clearInterval(others);
        await ended;
      }
      expect((await ended)[0].map((row) => row?.n)).toEqual([0, 1, 2, 3, 4, 5]);
      expect(await db.rows(sql`select n from written order by n`)).toEqual([{ n: 0 }, { n: 1 }]);
      return !isLate;
    };
    try {
      for (let tries = 1; !(await round()); tries++) if (tries === 4) break;
    } finally {
      await db.close();
    }
  });

  test('the queues and the time of statements are shown', async () => {
    const samples = async (): Promise<Map<string, number>> => {
      const { text } = await service.anonymous.get('/metrics', { authorization: `Bearer ${METRICS_TOKEN}` });
      return new Map(text.split('\n').map((line) => [line.replace(/ [^ ]*$/, ''), Number(line.replace(/.* /, ''))]));
    };
    const seconds = `svc_tenant_statement_seconds_total{tenant="${victim.slug}"}`;
    const before = (await samples()).get(seconds) ?? 0;
    await victim.get(PATH);
    const after = await samples();
    expect(after.get(seconds)).toBeGreaterThan(before);
    for (const queue of ['requests', 'slow', 'streams', 'passwords', 'sign-ins', 'mail']) {
      expect(after.has(`svc_queue_length{queue="${queue}"}`)).toBe(true);
    }
  });
});

describe('calls whose statements lock many tables and indexes', () => {
  const room = (): LockRoom => new LockRoom(1_000);
  const holder = (locks: number) => ({ locks });

  test('run at once as far as they fit together; what takes few locks does not count', () => {
    const locks = room();
    const [first, second] = [holder(600), holder(600)];
    expect(locks.admits(first, 0)).toBe(true);
    locks.take(first);
    expect([locks.admits(second, 0), locks.admits(holder(64), 0)]).toEqual([false, true]);
    locks.give(first);
    expect(locks.admits(second, 0)).toBe(true);
  });

  test('run alone if they need more than all, and do not wait for those that came later', () => {
    const locks = room();
    const [small, large, later] = [holder(100), holder(5_000), holder(100)];
    locks.take(small);
    expect([locks.admits(large, 0), locks.admits(later, 10)]).toEqual([false, false]);
    locks.give(small);
    expect([locks.admits(later, 20), locks.admits(large, 20)]).toEqual([false, true]);
    locks.take(large);
    expect(locks.admits(later, 30)).toBe(false);
    locks.give(large);
    expect(locks.admits(later, 40)).toBe(true);
  });

  test('hold no place when they have stopped waiting', () => {
    const locks = room();
    locks.take(holder(900));
    expect([locks.admits(holder(500), 0), locks.admits(holder(90), 50), locks.admits(holder(90), 101)]).toEqual([
      false,
      false,
      true,
    ]);
  });

  test('are few at once, so that the lock table of Postgres does not fill up for all tenants', async () => {
    if (server === undefined) return;
    const wide = await service.tenant();
    const indexed = Array.from({ length: 20 }, (_, i) => ({ key: `n${i}`, type: 'integer', indexed: true }));
    const names = Array.from({ length: 30 }, (_, i) => `target${i}`);
    const targets = new Map<string, string>();
    for (const name of names) {
      expect((await wide.post('/api/entities', { name, fields: indexed })).status).toBe(201);
      targets.set(name, (await wide.post(`/api/entities/${name}/records`, {})).body.data.id);
    }
    const relations = names.map((name) => ({ key: name, type: 'relation', entity: name, onDelete: 'cascade' }));
    await wide.post('/api/entities', { name: 'hub', fields: relations });
    const records: string[] = [];
    for (let i = 0; i < 12; i++) records.push((await wide.post('/api/entities/hub/records', {})).body.data.id);
    const watching = postgres(url, { max: 1, onnotice() {} });
    const held = async (): Promise<number> => {
      const rows = await watching`
        select count(*)::int as n from pg_locks as l join pg_class as c on c.oid = l.relation
        where l.granted and c.relnamespace = ${schemaOf(wide.id)}::regnamespace`;
      return rows[0]?.n as number;
    };
    const locking = postgres(url, { max: 1, onnotice() {} });
    let changing: Promise<Answer>[] = [];
    try {
      await locking.begin(async (tx) => {
        await tx.unsafe(`select 1 from "${schemaOf(wide.id)}".entity_records where id = $1 for update`, [
          targets.get('target0') as string,
        ]);
        const own = await held();
        changing = records.map((id) => wide.patch(`/api/entities/hub/records/${id}`, Object.fromEntries(targets)));
        await Bun.sleep(700);
        const taken = (await held()) - own;
        expect(taken).toBeGreaterThan(700);
        expect(taken).toBeLessThanOrEqual(LIMITS.locks.calls);
        expect((await victim.get(PATH)).status).toBe(200);
      });
      expect((await Promise.all(changing)).map(({ status }) => status)).toEqual(changing.map(() => 200));
    } finally {
      await Promise.all([watching.end(), locking.end()]);
    }
    expect((await wide.delete(`/api/entities/target0/records/${targets.get('target0')}`)).status).toBe(200);
  }, 60_000);
});

describe('clients that have gone', () => {
  test.each([
    ['lists', `?filters=${HEAVY_FILTER}`, 'requests'],
    ['aggregates', '/aggregate?metrics=count,max:text', 'slow'],
    ['exports', '/export?format=csv', 'streams'],
  ] as const)(
    'their %s end on the server within a second, and are no failure of the service',
    async (_, path, pool) => {
      const { db } = service.app;
      const logged = service.logged.length;
      await whileLocked(heavy, async () => {
        const attack = sendMany(heavy, 20, `${PATH}${path}`);
        if (server !== undefined)
          await within(
            5_000,
            async () => (await runningStatements('entity_records')) + (await runningStatements(schemaOf(heavy.id))) > 0,
          );
        await new Promise((resolve) => setTimeout(resolve, 300));
        attack.leave();
        const leftAt = performance.now();
        await within(5_000, () => db.stats(pool).inUse === 0 && db.stats(pool).waiting === 0);
        await within(5_000, async () => (await runningStatements(schemaOf(heavy.id))) === 0);
        expect(performance.now() - leftAt).toBeLessThan(2_000);
        await attack.settled;
      });
      const lines = service.logged.slice(logged).map((line) => JSON.parse(line));
      expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    },
  );

  test('a transaction whose client has gone rolls back at its next statement, and its connection is not lost', async () => {
    const one = openDatabase({ url, log, max: 1 });
    await one.exec('create table if not exists left_behind (n int); truncate left_behind');
    const client = new AbortController();
    const steps: number[] = [];
    const call = forClient(
      '1.2.3.4',
      () => client.signal,
      null,
      () =>
        one.begin(async (tx) => {
          for (let i = 0; i < 100; i++) {
            await tx.rows(sql`insert into left_behind values (${i})`);
            steps.push(i);
            if (i === 3) client.abort();
            await tx.rows(sql`select pg_sleep(0.05)`);
          }
        }),
    );
    expect(await call.catch((error) => error)).toMatchObject({ ecode: 'CLIENT_GONE' });
    expect(steps.length).toBeLessThan(50);
    expect(await one.rows(sql`select n from left_behind`)).toHaveLength(0);
    expect(one.stats().size).toBe(1);
    await one.close();
  });

  test('a cancellation never hits the statement of another call', async () => {
    const one = openDatabase({ url, log, max: 1 });
    await one.ping();
    let cancelled = 0;
    for (let i = 0; i < 30; i++) {
      const client = new AbortController();
      const seconds = 0.08 + (i % 10) * 0.008;
      const gone = forClient(
        '1.2.3.4',
        () => client.signal,
        null,
        () => one.rows(sql`select pg_sleep(${seconds}::float)`),
      );
      setTimeout(() => client.abort(), 60);
      const others = Array.from({ length: 3 }, (_, n) => one.first<{ n: number }>(sql`select ${n}::int as n`));
      cancelled += (await gone.then(() => 0).catch(() => 1)) as number;
      expect(await Promise.all(others)).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
    }
    if (server !== undefined) expect(cancelled).toBeGreaterThan(0);
    await one.close();
  });
});

describe('transactions', () => {
  let db: Database;
  beforeAll(async () => {
    db = openDatabase({ url, log, max: 2, transactionTimeoutMs: 400 });
    await db.exec('create table if not exists overdue (n int); truncate overdue');
  });
  afterAll(async () => db.close());

  const failureOf = (call: Promise<unknown>): Promise<unknown> => call.then(() => 'success').catch((error) => error);

  test('one deadline applies to all statements together, and the error says what to do', async () => {
    const call = db.begin(async (tx) => {
      for (let i = 0; i < 100; i++) {
        await tx.rows(sql`insert into overdue values (${i})`);
        await tx.rows(sql`select pg_sleep(0.05)`);
      }
    });
    const failure = (await failureOf(call)) as Error;
    expect(failure).toMatchObject({ status: 503 });
    expect(failure.message).toContain('split it into smaller calls');
    expect(await db.rows(sql`select n from overdue`)).toHaveLength(0);
  });

  test('time without a statement counts, and a running statement is cancelled', async () => {
    const idle = db.begin(async (tx) => {
      await tx.rows(sql`insert into overdue values (1)`);
      await new Promise((resolve) => setTimeout(resolve, 600));
      await tx.rows(sql`select 1`);
    });
    const running = db.begin(async (tx) => {
      await tx.rows(sql`insert into overdue values (2)`);
      await tx.rows(sql`select pg_sleep(2)`);
    });
    const failures = await Promise.all([
      forTenant('a', () => failureOf(idle)),
      forTenant('b', () => failureOf(running)),
    ]);
    for (const failure of failures) expect(failure).toMatchObject({ status: 503 });
    expect(await db.rows(sql`select n from overdue`)).toHaveLength(0);
  });
});
