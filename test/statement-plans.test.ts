// How connections plan prepared statements: once for any values where the statement says so, else for their values. On a real
// server if one is installed; the connections of the embedded database share one session, whose settings stay unchanged.
// Contract: neighbours#many-tenants.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Entity } from '../src/entities/field.ts';
import { isCurrent } from '../src/records/write/statements.ts';
import { createLog } from '../src/runtime/log.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { compile, plannedOnce, type Queries, raw, type Sql, sql } from '../src/runtime/sql.ts';
import { type AnyPostgres, anyPostgres } from './support/any-postgres.ts';

const log = createLog({ level: 'error' });
let database: AnyPostgres;
let server: AnyPostgres['server'];
let db: Database;
let usual: string;

beforeAll(async () => {
  database = await anyPostgres(log);
  server = database.server;
  const { url } = database;
  // One connection, so that every statement finds what the one before has left.
  db = openDatabase({ url, log, max: 1, isEmbedded: server === undefined });
  usual = await settings();
  await db.exec('create table if not exists planned (id int primary key); truncate planned');
  await db.exec('insert into planned select generate_series(1, 1000)');
});
afterAll(async () => {
  await db.close();
  await database.remove();
});

async function settings(queries: Queries = db): Promise<string> {
  const row = await queries.first<{ settings: string }>(sql`
    select concat_ws(' ', current_setting('plan_cache_mode'), current_setting('enable_seqscan'), current_setting('jit')) as settings`);
  return row?.settings ?? '';
}

const find = (id: number) => sql`select id from planned where id = ${id}::int`;
const findOnce = (id: number) => plannedOnce(sql`select id as once from planned where id = ${id}::int`);

/** Plans made for values, and plans made once, of the statements on the table. */
async function plans(like: string): Promise<{ custom: number; generic: number } | undefined> {
  return db.first(sql`
    select custom_plans as custom, generic_plans as generic from pg_prepared_statements where statement like ${like}`);
}

test('a statement that is marked so is planned once for any values, another one for its values', async () => {
  for (const id of [1, 2, 3]) {
    expect(await db.rows(findOnce(id))).toEqual([{ once: id }]);
    expect(await db.rows(find(id))).toEqual([{ id }]);
  }
  if (server === undefined) return;
  expect(await plans('select id as once from planned%')).toMatchObject({ custom: 0, generic: 3 });
  expect(await plans('select id from planned%')).toMatchObject({ custom: 3, generic: 0 });
});

test('a definition that has changed leaves the statements of its writes as they were', () => {
  const entity = { id: '0198c0de-0000-7000-8000-000000000001', schema: 't', version: 1 } as Entity;
  const [before, after] = [entity, { ...entity, version: 2 }].map((version) => compile(isCurrent(version)));
  expect(after?.text).toBe(before?.text as string);
  expect([before?.parameters, after?.parameters]).toEqual([['1'], ['2']]);
});

test.each([
  ['planned once', plannedOnce],
  ['planned for its values', (query: Sql) => query],
])('a statement that is %s is not compiled, however much it reads', async (_, planned) => {
  const row = await db.first<{ jit: string }>(
    planned(sql`select current_setting('jit') as jit from planned limit ${1}::int`),
  );
  if (server !== undefined) expect(row?.jit).toBe('off');
  expect(await settings()).toBe(usual);
});

test('a statement of more than 8,192 characters is not kept, and a connection keeps at most 1,500,000 characters', async () => {
  const terms = (count: number, from: number) =>
    raw(Array.from({ length: count }, (_, i) => `id > ${from + i}`).join(' or '));
  const long = sql`select 1 as long from planned where ${terms(1_000, 100)} or id = ${1}::int`;
  expect((await db.rows(long)).length).toBeGreaterThan(0);
  const kept = sql`select count(*)::int as n, sum(length(statement))::int as characters from pg_prepared_statements`;
  expect(
    await db.first(sql`select from pg_prepared_statements where statement like 'select 1 as long%'`),
  ).toBeUndefined();
  if (server === undefined) return;
  let most = 0;
  for (let i = 0; i < 300; i++) {
    await db.rows(sql`select id from planned where ${terms(500, 1_000 * (i + 1))} or id = ${i}::int`);
    if (i % 10 === 0) most = Math.max(most, (await db.first<{ characters: number }>(kept))?.characters ?? 0);
  }
  expect(most).toBeGreaterThan(1_000_000);
  expect(most).toBeLessThan(1_600_000);
}, 30_000);

test('sorting takes limited space on disk; the server’s own limit applies if it has one', async () => {
  if (server === undefined) return;
  const limited = openDatabase({ url: server.url, log, temporaryMb: 16 });
  const sorted = (rows: number) => sql`
    select count(*)::int as n from (select repeat(g::text, 100) as t from generate_series(1, ${rows}::int) as g order by t offset 0) as s`;
  for (const queries of [limited, limited.slow]) {
    expect(await queries.first(sorted(20_000))).toEqual({ n: 20_000 });
    await expect(queries.first(sorted(200_000))).rejects.toMatchObject({ status: 400 });
    expect(await queries.first(sorted(20_000))).toEqual({ n: 20_000 });
  }
  await limited.close();
  const parameters = '?options=-c%20temp_file_limit%3D5MB';
  const own = openDatabase({ url: `${server.url}${parameters}`, log, temporaryMb: 16 });
  expect(await own.first(sql`select current_setting('temp_file_limit') as own`)).toEqual({ own: '5MB' });
  await own.close();
}, 30_000);

test('an export of more than this space is read in one transaction, in one snapshot; sorting it is refused', async () => {
  if (server === undefined) return;
  const limited = openDatabase({ url: server.url, log, temporaryMb: 4, streamMax: 2 });
  await db.exec('create table if not exists long_texts (id int primary key, t text, n int)');
  await db.exec(`insert into long_texts select g, repeat(g::text, 5000), -g from generate_series(1, 2000) as g`);
  const spilled = async (): Promise<number> => {
    await db.rows(sql`select pg_sleep(0.1), pg_stat_clear_snapshot()`);
    const row = await db.first<{ bytes: number }>(
      sql`select temp_bytes::float8 as bytes from pg_stat_database where datname = current_database()`,
    );
    return row?.bytes ?? 0;
  };
  const export_ = (order: Sql) => limited.stream(sql`select id::text, t from long_texts as r order by r.${order}`, 100);
  const ids: number[] = [];
  const before = await spilled();
  for await (const batch of export_(raw('id'))) {
    ids.push(...batch.map(([id]) => Number(id)));
    await db.rows(sql`delete from long_texts where id = 1000`);
  }
  expect(ids).toEqual(Array.from({ length: 2_000 }, (_, i) => i + 1));
  expect((await spilled()) - before).toBeLessThan(16 * 1_048_576);
  // Sorted by what has no index, of which the stored texts, which are short, are no part.
  const byNumber = export_(raw('n'))[Symbol.asyncIterator]();
  expect((await byNumber.next()).value?.[0]?.[0]?.toString()).toBe('2000');
  await byNumber.return?.();
  await expect(export_(raw(`t || ''`))[Symbol.asyncIterator]().next()).rejects.toMatchObject({ status: 400 });
  const open = sql`select count(*)::int as n from pg_stat_activity where state like 'idle in transaction%'`;
  expect(await db.first(open)).toEqual({ n: 0 });
  await limited.close();
}, 30_000);

test('a database user without the right to limit this space is served, and the log says once how to give it', async () => {
  if (server === undefined) return;
  await db.exec(`create role plain login password 'plain'`);
  const url = server.url.replace(/\/\/[^@]*@/, '//plain:plain@');
  const lines: string[] = [];
  const open = () => openDatabase({ url, log: createLog({ level: 'warn', write: (line) => void lines.push(line) }) });
  const plain = open();
  for (const queries of [plain, plain.slow, plain])
    expect(await queries.first(sql`select current_user::text as name`)).toEqual({ name: 'plain' });
  await plain.close();
  expect(lines.splice(0)).toEqual([expect.stringContaining('GRANT SET ON PARAMETER temp_file_limit')]);
  await db.exec('grant set on parameter temp_file_limit to plain');
  const granted = open();
  expect(await granted.first(sql`select current_setting('temp_file_limit') as own`)).toEqual({ own: '2GB' });
  await granted.close();
  expect(lines).toEqual([]);
});

test('a transaction plans for values, whichever statement ran before it and however it ends', async () => {
  await db.rows(findOnce(1));
  expect(await db.begin(async (tx) => [await tx.rows(findOnce(2)), await settings(tx)])).toEqual([
    [{ once: 2 }],
    usual,
  ]);
  await db.rows(findOnce(1));
  const failed = db.begin(async (tx) => {
    await tx.rows(find(3));
    throw new Error('rolled back');
  });
  await expect(failed).rejects.toThrow('rolled back');
  expect(await settings()).toBe(usual);
});

test('a failed statement leaves the connection planning as it should', async () => {
  const failing = plannedOnce(sql`select id / (id - ${1}::int) as once from planned where id = 1`);
  for (let i = 0; i < 3; i++) {
    await expect(db.rows(failing)).rejects.toMatchObject({ code: '22012' });
    expect(await settings()).toBe(usual);
  }
  expect(await db.rows(findOnce(5))).toEqual([{ once: 5 }]);
});
