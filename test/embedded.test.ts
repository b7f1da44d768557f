// The embedded database through the usual client: the features of a real server that the service relies on,
// network faults, and data that survives the process.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { type Embedded, startEmbedded } from '../src/runtime/embedded.ts';
import { createLog } from '../src/runtime/log.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { raw, sql } from '../src/runtime/sql.ts';
import { type CuttingProxy, cuttingProxy } from './support/cutting-proxy.ts';
import { burst, sleep, writeWhile } from './support/database-faults.ts';
import { copyEmbedded } from './support/stores.ts';
import { durationOf, fastest } from './support/timing.ts';

const log = createLog({ level: 'error' });
const CHILD = new URL('./support/embedded-child.ts', import.meta.url).pathname;
let directory: string;
let embedded: Embedded;
let proxy: CuttingProxy;
let db: Database;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'embedded-test-'));
  await copyEmbedded(directory);
  embedded = await startEmbedded(directory, log);
  proxy = await cuttingProxy(Number(new URL(embedded.url).port));
  db = openDatabase({ url: embedded.url, log });
});

afterAll(async () => {
  await db.close();
  proxy.close();
  await embedded.stop();
  await rm(directory, { recursive: true, force: true });
});

test('concurrent connections get their own results, in and out of transactions, long and short', async () => {
  await db.exec('create table own_answers (n int primary key)');
  let wrong = 0;
  const ask = async (n: number, i: number): Promise<{ n: number } | undefined> => {
    if (n % 3 !== 0)
      return db.first(sql`select ${n}::int as n, ${raw(String(i % 20))} as k, ${'x'.repeat((i % 9) ** 5)}::text`);
    return db.begin(async (tx) => {
      await tx.rows(sql`insert into own_answers values (${n})`);
      await sleep(1);
      return tx.first(sql`select n from own_answers where n = ${n}`);
    });
  };
  const callers = Array.from({ length: 8 }, async (_, caller) => {
    for (let i = 0; i < 60; i++) if ((await ask(caller + i * 8, i))?.n !== caller + i * 8) wrong++;
  });
  await Promise.all(callers);
  expect(wrong).toBe(0);
  expect(await db.first(sql`select count(*) as n from own_answers`)).toMatchObject({ n: 160 });
});

test('vectors with HNSW, partitions, concurrent index builds and text search work', async () => {
  await db.exec(`
    create extension if not exists vector;
    create table notes (id int, at timestamptz, embedding vector(3)) partition by range (at);
    create table notes_2026 partition of notes for values from ('2026-01-01') to ('2027-01-01');
    insert into notes select n, '2026-05-05', array[n, 1, 0]::vector from generate_series(1, 200) n;
    create index on notes_2026 using hnsw (embedding vector_cosine_ops);
  `);
  await db.exec('create index concurrently notes_at on notes_2026 (at)');
  const nearest = await db.first(sql`select id from notes order by embedding <=> ${'[1,1,0]'}::text::vector limit 1`);
  expect(nearest).toMatchObject({ id: 1 });
  const text = await db.first(
    sql`select to_tsvector('simple', 'Äpfel und Birnen') @@ to_tsquery('simple', 'äpfel') as found`,
  );
  expect(text).toMatchObject({ found: true });
});

test('case folding covers non-ASCII letters, and text sorts by code point', async () => {
  const row = await db.first(
    sql`select lower('ÄÉ') as low, upper('äé') as up, 'Ä' ilike 'ä' as alike, 'z' < 'ä' as sorts`,
  );
  expect(row).toMatchObject({ low: 'äé', up: 'ÄÉ', alike: true, sorts: true });
});

test('a stream blocks no other connection', async () => {
  let rows = 0;
  for await (const batch of db.stream(sql`select n from generate_series(1, 3000) n`, 1000)) {
    rows += batch.length;
    await db.ping();
  }
  expect(rows).toBe(3000);
});

test('slow work in the database does not block the thread that serves requests', async () => {
  const slow = sql`select count(*) from generate_series(1, 700000) n where n::text like '%7%'`;
  // The longest stall of this thread, relative to the duration of the work.
  const stalled = async (): Promise<number> => {
    let longest = 0;
    let tickedAt = performance.now();
    const tick = (): void => {
      longest = Math.max(longest, performance.now() - tickedAt);
      tickedAt = performance.now();
    };
    const ticks = setInterval(tick, 10);
    const tookMs = await durationOf(() => db.slow.rows(slow));
    clearInterval(ticks);
    tick();
    return longest / tookMs;
  };
  expect(await fastest(0.5, stalled)).toBeLessThan(0.5);
});

test('a wrong password is rejected', async () => {
  const stranger = openDatabase({ url: embedded.url.replace(/:[^:@]+@/, ':guess@'), log });
  expect(await stranger.ping().catch((error) => error)).toMatchObject({ code: '28P01' });
  await stranger.close();
});

test('broken connections are rolled back, lose no acknowledged write and leave no session state', async () => {
  const before = await preparedStatements();
  const through = openDatabase({ url: proxy.address(embedded.url), log });
  await writeWhile(through, async (written) => {
    for (let i = 0; i < 40; i++) {
      await written(10);
      proxy.cutOne();
    }
  });
  await through.close();
  // The remaining connections have prepared a few statements.
  while ((await preparedStatements()) - before >= 10) await sleep(10);
});

test('an outage under load loses nothing, and service recovers within 10 s', async () => {
  const through = openDatabase({ url: proxy.address(embedded.url), log });
  await writeWhile(through, async (written) => {
    await written(50);
    proxy.refuse(true);
    await sleep(500);
    proxy.refuse(false);
  });
  await through.close();
});

test('a burst of calls behind slow ones loses no write of the embedded database', async () => {
  // One engine processes the whole queue, which on a slow machine takes longer than a request may.
  const small = openDatabase({ url: embedded.url, log, max: 3, queryTimeoutMs: 60_000 });
  await burst(small, () => sleep(50));
  await small.close();
});

test('kill -9 loses no acknowledged write, and the stale lock does not prevent the next start', async () => {
  const home = await mkdtemp(join(tmpdir(), 'embedded-kill-'));
  await copyEmbedded(home);
  const acknowledged: number[] = [];
  for (let round = 0; round < 2; round++) acknowledged.push(...(await killedWhileWriting(home, 500)));
  const again = await startEmbedded(home, log);
  const survivor = openDatabase({ url: again.url, log });
  const rows = await survivor.rows<{ n: number }>(sql`select n from survivors`);
  const stored = new Set(rows.map(({ n }) => n));
  expect(acknowledged.filter((n) => !stored.has(n))).toEqual([]);
  await survivor.close();
  await again.stop();
  await rm(home, { recursive: true, force: true });
});

test('a failure of the engine is reported, and calls do not hang', async () => {
  const { Multiplexer } = await import('../src/runtime/embedded/multiplexer.ts');
  const run = (): Promise<void> => Promise.reject(new Error('the engine aborted'));
  const reported = Promise.withResolvers<unknown>();
  const gateway = new Multiplexer(
    { serverVersion: '18', run, isInTransaction: () => false },
    'secret',
    reported.resolve,
  );
  const port = await gateway.listen(0);
  const quiet = createLog({ level: 'error', write: () => {} });
  const through = openDatabase({ url: `postgres://postgres:secret@127.0.0.1:${port}/postgres`, log: quiet });
  const call = through.ping().catch((error) => error);
  expect(await reported.promise).toMatchObject({ message: 'the engine aborted' });
  await gateway.close();
  expect(await call).toMatchObject({ status: 503 });
  await through.close();
});

test('a second process on the same directory is rejected with the reason', async () => {
  const refusal = await startEmbedded(directory, log).catch((error: Error) => error.message);
  expect(refusal).toContain(`process ${process.pid} already uses this data directory`);
});

test('a lock whose owner has died is taken over, even when its process id is in use', async () => {
  const home = await mkdtemp(join(tmpdir(), 'embedded-lock-'));
  const { lockFile } = await import('../src/runtime/embedded/lock-file.ts');
  const path = join(home, 'lock');
  await writeFile(path, JSON.stringify({ pid: process.pid, port: 9, token: 'gone' }));
  const release = await lockFile(path);
  expect(JSON.parse(await readFile(path, 'utf8')).token).not.toBe('gone');
  const racers = await Promise.allSettled([lockFile(path), lockFile(path)]);
  expect(racers.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await release();
  await rm(home, { recursive: true, force: true });
});

test('a lock whose owner is too busy to answer is kept while that process exists', async () => {
  const home = await mkdtemp(join(tmpdir(), 'embedded-lock-'));
  const { lockFile } = await import('../src/runtime/embedded/lock-file.ts');
  const path = join(home, 'lock');
  const silent = createServer();
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const { port } = silent.address() as AddressInfo;
  await writeFile(path, JSON.stringify({ pid: process.pid, port, token: 'busy' }));
  const refusal = await lockFile(path).catch((error: Error) => error.message);
  expect(refusal).toContain(`process ${process.pid} already uses this data directory`);
  const ended = spawn(process.execPath, ['--version'], { stdio: 'ignore' });
  await once(ended, 'exit');
  await writeFile(path, JSON.stringify({ pid: ended.pid, port, token: 'gone' }));
  await (await lockFile(path))();
  silent.close();
  await rm(home, { recursive: true, force: true });
});

async function preparedStatements(): Promise<number> {
  return (await db.first<{ n: number }>(sql`select count(*) as n from pg_prepared_statements`))?.n ?? 0;
}

/** Starts the writing process, kills it after `count` acknowledgements, and resolves to the acknowledged values. */
async function killedWhileWriting(home: string, count: number): Promise<number[]> {
  const child = spawn(process.execPath, [CHILD, home], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  await new Promise<void>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the writer ended early')));
    child.stdout.on('data', (text) => {
      said += text;
      if (said.split('\n').length > count) resolve();
    });
  });
  const gone = new Promise((resolve) => child.once('close', resolve));
  child.removeAllListeners('exit');
  child.kill('SIGKILL');
  await gone;
  return said.slice(0, said.lastIndexOf('\n')).split('\n').map(Number);
}
