// The database pool, on a real server if one is installed, otherwise on the embedded one: values, transactions,
// streams, deadlines, and lost connections.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import postgres from 'postgres';

import { createLog } from '../src/runtime/log.ts';
import { isoTimestamp, parseArray } from '../src/runtime/postgres/values.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { sql } from '../src/runtime/sql.ts';
import { isJsonLarger, jsonBytes } from '../src/runtime/text.ts';
import { forTenant } from '../src/runtime/work.ts';
import { type AnyPostgres, anyPostgres } from './support/any-postgres.ts';
import { type CuttingProxy, cuttingProxy } from './support/cutting-proxy.ts';
import { answersWithin, burst, sleep, writeWhile } from './support/database-faults.ts';
import { durationOf, fastest } from './support/timing.ts';
import { asTenant } from './support/work.ts';

const log = createLog({ level: 'error' });
let database: AnyPostgres;
let server: AnyPostgres['server'];
let url: string;
let proxy: CuttingProxy;
let db: Database;

beforeAll(async () => {
  database = await anyPostgres(log);
  server = database.server;
  url = database.url;
  proxy = await cuttingProxy(Number(new URL(url).port));
  db = openDatabase({ url, log });
});

afterAll(async () => {
  await db.close();
  proxy.close();
  await database.remove();
});

async function failure(call: Promise<unknown>): Promise<Error & { status?: number; code?: string }> {
  return call.then(
    () => Promise.reject(new Error('the call succeeded')),
    (error) => error,
  );
}

describe('values', () => {
  test('numbers, decimals, dates, times, JSON and arrays arrive in the formats of the contract', async () => {
    const row = await db.first(sql`
      select 9007199254740991::int8 as big, 1.50::numeric as decimal, '2026-02-03'::date as day, true as yes,
        '2026-02-03 04:05:06.7+00'::timestamptz as at, '2026-02-03 04:05:06.123456+02'::timestamptz as fine,
        '{"a":[1]}'::jsonb as json, array['a,', 'b"\\', null, '']::text[] as texts, '{}'::int8[] as none,
        array[1, 2]::int8[] as bigs, null::text as nothing`);
    expect({ ...(row as object) }).toEqual({
      big: 9007199254740991,
      decimal: '1.50',
      day: '2026-02-03',
      yes: true,
      at: '2026-02-03T04:05:06.700Z',
      fine: '2026-02-03T02:05:06.123Z',
      json: { a: [1] },
      texts: ['a,', 'b"\\', null, ''],
      none: [],
      bigs: [1, 2],
      nothing: null,
    });
  });

  test('text, numbers, booleans, JSON text and arrays can be bound', async () => {
    const row = await db.first(sql`
      select ${['a,', 'b"\\', 'ä']}::text[] as texts, ${[1, 2]}::int[] as ints, ${[]}::text[] as none,
        ${false}::boolean as no, ${5}::int8 as five, ${'{"a":"\\u0041"}'}::text::jsonb as json,
        ${'2026-02-03T04:05:06.007Z'}::timestamptz as at`);
    expect({ ...(row as object) }).toEqual({
      texts: ['a,', 'b"\\', 'ä'],
      ints: [1, 2],
      none: [],
      no: false,
      five: 5,
      json: { a: 'A' },
      at: '2026-02-03T04:05:06.007Z',
    });
  });

  test('an undefined value is rejected before anything is sent', async () => {
    expect((await failure(db.rows(sql`select ${undefined}::text`))).message).toContain('$1');
    expect((await failure(db.rows(sql`select ${['a', undefined]}::text[]`))).message).toContain('undefined');
  });

  test.each([
    ['2026-01-02 03:04:05+00', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02 03:04:05.1+00', '2026-01-02T03:04:05.100Z'],
    ['2026-01-02 03:04:05.999999+00', '2026-01-02T03:04:05.999Z'],
    ['2026-01-02 03:04:05.5+05:30', '2026-01-01T21:34:05.500Z'],
    ['infinity', 'infinity'],
  ])('the timestamp %s is written %s', (text, iso) => {
    expect(isoTimestamp(text)).toBe(iso);
  });

  test('array literals are read with nesting, quotes and bounds', () => {
    const asIs = (item: string) => item;
    expect(parseArray('{{a,"b,}"},{NULL,"NULL"}}', asIs)).toEqual([
      ['a', 'b,}'],
      [null, 'NULL'],
    ]);
    expect(parseArray('[0:1]={1,2}', Number)).toEqual([1, 2]);
  });

  test('long texts are bound in arrays as short ones are, with everything that needs an escape', async () => {
    const long = 'x'.repeat(20_000);
    const texts = ['"\\', `${long}"\\ж😀`, `a\n\t\u0001"\\${long}`, JSON.stringify({ a: `"\\\n${long}` })];
    expect(await db.rows(sql`select t from unnest(${texts}::text[]) as t`)).toEqual(texts.map((t) => ({ t })) as never);
  });

  test('the bytes of a value as JSON are counted exactly', () => {
    const long = 'ж😀x'.repeat(9_000);
    const values = [long, `${long}"`, `${long}\ud800`, { a: long, b: undefined, c: [1, { x: '"' }], d: null }];
    for (const value of [
      ...values,
      { 'k"': `${long}\n`, n: 999_999_999_999_999_900_000 },
      { a: undefined, b: long },
      { a: { b: long } },
      [long],
      5,
    ]) {
      expect(jsonBytes(value)).toBe(Buffer.byteLength(JSON.stringify(value)));
    }
  });

  test('numbers in JSON count with the digits that Postgres writes', async () => {
    const numbers = [1e21, -1.5e21, 1.7976931348623157e308, 1e-7, -1.25e-7, 5e-324, 0.000001, 1e20, 0, 12.5];
    const rows = await db.rows<{ bytes: number }>(
      sql`select octet_length(v::jsonb::text) as bytes from unnest(${numbers.map(String)}::text[]) as v`,
    );
    const bytes = rows.map((row) => row.bytes);
    expect(numbers.map(jsonBytes)).toEqual(bytes);
    const sum = bytes.reduce((all, each) => all + each, 0);
    const value = { a: numbers, b: ['2e-9 is no number', null] };
    expect(jsonBytes(value)).toBe(sum + '{"a":[,,,,,,,,,],"b":["2e-9 is no number",null]}'.length);
    expect([isJsonLarger(value, sum + 47), isJsonLarger(value, sum + 48)]).toEqual([true, false]);
  });
});

describe('errors and transactions', () => {
  test('large values are compressed with lz4 where the server has it, in every pool', async () => {
    const used = sql`select pg_column_compression(value) as used,
      (select 'lz4' = any(enumvals) from pg_settings where name = 'default_toast_compression') as has from large_values`;
    for (const queries of [db, db.slow]) {
      const row = await queries.begin(async (tx) => {
        await tx.rows(sql`create temporary table large_values (value text) on commit drop`);
        await tx.rows(sql`insert into large_values select repeat('a', 100000)`);
        return tx.first<{ used: string; has: boolean }>(used);
      });
      expect(row?.used).toBe(row?.has ? 'lz4' : 'pglz');
    }
  });

  test('errors of Postgres pass through with their code and constraint', async () => {
    await db.exec('create table if not exists unique_rows (n int constraint only_once unique); truncate unique_rows');
    await db.rows(sql`insert into unique_rows values (1)`);
    const error = await failure(db.rows(sql`insert into unique_rows values (1)`));
    expect(error).toBeInstanceOf(postgres.PostgresError);
    expect(error).toMatchObject({ code: '23505', constraint_name: 'only_once' });
  });

  test('after a statement that fails or is cancelled among its rows, the next ones have their rows and nothing else', async () => {
    const one = openDatabase({ url, log, max: 1 });
    const text = 'x'.repeat(1_000);
    const failing = sql`select ${text} as text, 1 / (50 - n) as n from generate_series(1, 100) as n`;
    for (const queries of [one, one.slow]) {
      expect(await failure(queries.rows(failing))).toMatchObject({ code: '22012' });
      expect(await queries.first(sql`select 1 as n`)).toEqual({ n: 1 });
      await failure(queries.begin((tx) => tx.rows(failing)));
      const rows = await queries.rows<{ n: number }>(sql`select n::int from generate_series(1, 3) as n`);
      expect(Object.keys(rows)).toEqual(['0', '1', '2']);
      expect(rows.map(({ n }) => n)).toEqual([1, 2, 3]);
    }
    await one.close();
    if (server === undefined) return;
    const cut = openDatabase({ url, log, max: 1, queryTimeoutMs: 20_000 });
    await cut.ping();
    const cancelled = failure(
      cut.rows(sql`select pg_backend_pid() as pid, ${text} as text, pg_sleep(0.01) from generate_series(1, 500)`),
    );
    await sleep(1_000);
    await db.rows(sql`
      select pg_cancel_backend(pid) from pg_stat_activity where query like '%pg_sleep(0.01)%' and pid <> pg_backend_pid()`);
    expect(await cancelled).toMatchObject({ status: 503 });
    expect(Object.keys(await cut.rows(sql`select 1 as n`))).toEqual(['0']);
    await cut.close();
  });

  test('a transaction commits as a whole or not at all', async () => {
    await db.exec('create table if not exists steps (n int); truncate steps');
    expect(await db.begin(async (tx) => (await tx.rows(sql`insert into steps values (1) returning n`)).length)).toBe(1);
    const thrown = db.begin(async (tx) => {
      await tx.rows(sql`insert into steps values (2)`);
      throw new Error('aborted by the caller');
    });
    expect((await failure(thrown)).message).toBe('aborted by the caller');
    expect(await db.rows(sql`select n from steps`)).toHaveLength(1);
  });

  test('a transaction that swallowed a failure is reported as failed, not as committed', async () => {
    await db.exec('create table if not exists swallowed (n int); truncate swallowed');
    const call = db.begin(async (tx) => {
      await tx.rows(sql`insert into swallowed values (1)`);
      await tx.rows(sql`select 1 / 0`).catch(() => 'swallowed');
      return 'done';
    });
    expect(await failure(call)).toMatchObject({ code: '22012' });
    expect(await db.rows(sql`select n from swallowed`)).toHaveLength(0);
  });

  test('concurrent queries in one transaction run one after another', async () => {
    await db.exec('create table if not exists at_once (n int); truncate at_once');
    await db.begin(async (tx) => {
      await Promise.all(Array.from({ length: 40 }, (_, n) => tx.rows(sql`insert into at_once values (${n})`)));
    });
    expect(await db.first(sql`select count(*) as n from at_once`)).toMatchObject({ n: 40 });
  });
});

describe('streams', () => {
  test('a stream yields every row in batches of at most the given size', async () => {
    const batches: number[][] = [];
    for await (const batch of db.stream(sql`select n from generate_series(1, ${25}::int) n`, 10))
      batches.push(batch.map(([n]) => Number(n)));
    expect(batches.flat()).toEqual(Array.from({ length: 25 }, (_, i) => i + 1));
    expect(Math.max(...batches.map(({ length }) => length))).toBe(10);
  });

  test('stalled stream readers do not block slow work', async () => {
    const query = sql`select n from generate_series(1, 100) n`;
    const stalled = Array.from({ length: 4 }, () => db.stream(query, 10)[Symbol.asyncIterator]());
    await Promise.all(stalled.map((stream, i) => forTenant(`tenant ${i % 2}`, () => stream.next())));
    expect(await db.slow.first(sql`select 1 as n`)).toMatchObject({ n: 1 });
    await Promise.all(stalled.map((stream) => stream.return?.()));
  });

  test('a tenant may read two exports at once, also while one is stalled and other tenants are active', async () => {
    const query = sql`select n from generate_series(1, 100) n`;
    const [stalled, second] = [0, 1].map(() => db.stream(query, 10)[Symbol.asyncIterator]());
    expect((await asTenant('exporting', async () => stalled?.next()))?.value).not.toBeEmpty();
    // Until it counts as long.
    await sleep(1_000);
    const othersCall = async (): Promise<'too late'> => {
      for (let i = 0; i < 15; i++) {
        await asTenant('other', () => db.first(sql`select 1`));
        await sleep(200);
      }
      return 'too late';
    };
    const calling = othersCall();
    const first = asTenant('exporting', async () => (await second?.next())?.done);
    expect(await Promise.race([first, calling])).toBe(false);
    await calling;
    await Promise.all([stalled?.return?.(), second?.return?.()]);
  });

  test('a stream that ends early or fails releases its connection', async () => {
    for (let i = 0; i < 4; i++) {
      for await (const batch of db.stream(sql`select n from generate_series(1, 100) n`, 10)) {
        expect(batch).not.toBeEmpty();
        break;
      }
      const failing = db.stream(sql`select 1 / (5 - n) from generate_series(1, 10) n`, 2)[Symbol.asyncIterator]();
      expect(await failure(failing.next())).toMatchObject({ code: '22012' });
    }
    expect(await db.slow.first(sql`select count(*) as n from pg_cursors where name like 'rows\\_%'`)).toMatchObject({
      n: 0,
    });
  });
});

describe('losing the database', () => {
  test('a burst of calls behind slow ones loses no write', async () => {
    const small = openDatabase({ url, log, max: 3 });
    const cut = (): Promise<unknown> =>
      db.rows(sql`select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction'`);
    await burst(small, async () => {
      if (server) await cut();
      await sleep(100);
    });
    await small.close();
  });

  test('random terminations of connections lose no acknowledged write and leave no call unsettled', async () => {
    const through = openDatabase({ url: proxy.address(url), log });
    const kill = (): Promise<unknown> =>
      db.rows(sql`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()
        and backend_type = 'client backend' and state <> 'idle' order by random() limit 1`);
    await writeWhile(through, async (written) => {
      for (let i = 0; i < 40; i++) {
        await written(10);
        if (server && i % 2 === 0) await kill();
        else proxy.cutOne();
      }
    });
    await through.close();
  });

  test('an immediate restart under load loses nothing, and service recovers within 10 s', async () => {
    const through = server ? db : openDatabase({ url: proxy.address(url), log });
    await writeWhile(through, async (written) => {
      await written(100);
      if (server) await server.stop('immediate');
      else proxy.refuse(true);
      await sleep(500);
      if (server) await server.start();
      else proxy.refuse(false);
    });
    if (through !== db) await through.close();
  });

  const fails = async (db: Database): Promise<void> => expect(await failure(db.ping())).toMatchObject({ status: 503 });

  test('while the database refuses connections, calls fail with 503, the first within 5 s, later ones at once; then they succeed', async () => {
    const outage = async (): Promise<number> => {
      const through = openDatabase({ url: proxy.address(url), log });
      await through.ping();
      proxy.refuse(true);
      await sleep(50);
      const ms = await durationOf(() => fails(through));
      expect(await fastest(1_000, () => durationOf(() => fails(through)))).toBeLessThan(1_000);
      proxy.refuse(false);
      await answersWithin(through, 10_000);
      await through.close();
      return ms;
    };
    expect(await fastest(5_000, outage)).toBeLessThan(5_000);
  });

  test('when the database stops responding, calls fail with 503 within 5 s, inside and outside transactions', async () => {
    const silence = async (): Promise<number> => {
      const through = openDatabase({ url: proxy.address(url), log, max: 3 });
      await through.ping();
      const silent = Promise.withResolvers<void>();
      const inside = through.begin(async (tx) => {
        await tx.rows(sql`select 1`);
        proxy.silence(true);
        silent.resolve();
        await tx.rows(sql`select 2`);
      });
      await silent.promise;
      const ms = await durationOf(async () => {
        const calls = [inside, ...Array.from({ length: 20 }, () => through.ping())].map(failure);
        const all503 = Array(21).fill(expect.objectContaining({ status: 503 }));
        expect(await Promise.all(calls)).toEqual(all503);
      });
      proxy.silence(false);
      await answersWithin(through, 10_000);
      await through.close();
      return ms;
    };
    expect(await fastest(5_000, silence)).toBeLessThan(5_000);
  });

  test('a statement past its deadline fails with 503 and its connection keeps working', async () => {
    const short = openDatabase({ url, log, queryTimeoutMs: 1_200, max: 1 });
    expect(await failure(short.rows(sql`select pg_sleep(3)`))).toMatchObject({ status: 503 });
    await answersWithin(short, 5_000);
    expect(await short.slow.rows(sql`select pg_sleep(1.5)`)).toHaveLength(1);
    await short.close();
  });

  test('a closed pool rejects calls instead of queueing them', async () => {
    const closed = openDatabase({ url, log });
    await closed.ping();
    await closed.close();
    expect(await failure(closed.ping())).toMatchObject({ status: 503 });
    expect(closed.stats()).toEqual({ size: 0, inUse: 0, waiting: 0 });
  });

  test('connections are replaced before their prepared statements grow without bound', async () => {
    const one = openDatabase({ url, log, max: 1 });
    const counts: number[] = [];
    for (let i = 0; i < 2_100; i++) {
      await one.rows({ strings: [`select ${i} as n where 1 = `, ''], values: [1] } as never as ReturnType<typeof sql>);
      if (i % 500 === 99)
        counts.push((await one.first<{ n: number }>(sql`select count(*) as n from pg_prepared_statements`))?.n ?? 0);
    }
    expect(counts.at(-1)).toBeLessThan(counts.at(-2) ?? 0);
    await one.close();
  });
});
