// Migrations: in order, once even when processes start together, and immutable once applied.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createLog } from '../src/runtime/log.ts';
import { migrate } from '../src/runtime/migrate.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { sql } from '../src/runtime/sql.ts';
import { type AnyPostgres, anyPostgres } from './support/any-postgres.ts';

const log = createLog({ level: 'error' });
let home: string;
let directory: string;
let database: AnyPostgres;
let server: AnyPostgres['server'];
let db: Database;
let other: Database;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'migrate-test-'));
  database = await anyPostgres(log);
  server = database.server;
  const { url } = database;
  db = openDatabase({ url, log });
  other = openDatabase({ url, log });
});

afterAll(async () => {
  await db.close();
  await other.close();
  await database.remove();
  await rm(home, { recursive: true, force: true });
});

beforeEach(async () => {
  await db.exec('drop schema if exists platform cascade');
  directory = await mkdtemp(join(home, 'sql-'));
  await write('0002_second.sql', `insert into platform.runs (name) values ('second'); select 1;`);
  await write('0001_first.sql', `create table platform.runs (name text); insert into platform.runs values ('first');`);
  await write('notes.txt', 'not a migration');
});

const write = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text);
const runs = async (): Promise<string[]> =>
  (await db.rows<{ name: string }>(sql`select name from platform.runs`)).map(({ name }) => name);

test('migrations run in the order of their numbers, and a second start runs none', async () => {
  expect(await migrate(db, directory)).toEqual(['0001_first.sql', '0002_second.sql']);
  expect(await migrate(db, directory)).toEqual([]);
  expect(await runs()).toEqual(['first', 'second']);
});

test('two processes that start together run each migration once', async () => {
  await write('0003_slow.sql', `select pg_sleep(0.2); insert into platform.runs values ('third');`);
  const applied = await Promise.all([migrate(db, directory), migrate(other, directory), migrate(db, directory)]);
  expect(applied.flat().sort()).toEqual(['0001_first.sql', '0002_second.sql', '0003_slow.sql']);
  expect(await runs()).toEqual(['first', 'second', 'third']);
});

test('a failed migration is rolled back, and runs once it has been fixed', async () => {
  await write('0003_broken.sql', `insert into platform.runs values ('half'); select 1 / 0;`);
  const error = await migrate(db, directory).catch((thrown: Error) => thrown);
  expect(error).toMatchObject({ message: 'migration 0003_broken.sql failed', cause: { code: '22012' } });
  expect(await runs()).toEqual(['first', 'second']);
  await write('0003_broken.sql', `insert into platform.runs values ('whole');`);
  expect(await migrate(db, directory)).toEqual(['0003_broken.sql']);
});

test('a migration that meets a process in a deadlock is run again', async () => {
  // The connections of the embedded database share one session, so that none waits for another.
  if (server === undefined) return;
  await migrate(db, directory);
  await db.exec('create table platform.one (); create table platform.two ()');
  await write('0003_locking.sql', 'lock platform.one; select pg_sleep(0.3); lock platform.two;');
  const isLocked = Promise.withResolvers<void>();
  const running = other.begin(async (tx) => {
    await tx.exec('lock platform.two');
    isLocked.resolve();
    // The one that has waited longer is ended.
    await tx.exec('select pg_sleep(0.6); lock platform.one');
  });
  await isLocked.promise;
  expect(await migrate(db, directory)).toEqual(['0003_locking.sql']);
  await running;
});

test('a migration changed after it was applied prevents the start', async () => {
  await migrate(db, directory);
  await write('0001_first.sql', 'select 1;');
  await expect(migrate(db, directory)).rejects.toThrow(
    'migration 0001_first.sql was changed after it had been applied',
  );
});

test('the comments of an applied migration may change', async () => {
  await write('0003_commented.sql', '-- One.\nselect 1;\n');
  await migrate(db, directory);
  await write('0003_commented.sql', '-- Two,\n-- in more detail.\n\nselect 1;\n');
  expect(await migrate(db, directory)).toEqual([]);
});

test('two migrations with the same number prevent the start', async () => {
  await write('0002_again.sql', 'select 1;');
  await expect(migrate(db, directory)).rejects.toThrow('two migrations are numbered 0002');
});

test('a gap in the numbers prevents the start', async () => {
  await write('0004_later.sql', 'select 1;');
  await expect(migrate(db, directory)).rejects.toThrow('migration 3 is missing');
});
