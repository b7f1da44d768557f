// Streams of rows whose readers are slow, on fewer connections than there are streams: nobody waits for a slow reader, and
// every reader gets each row of its snapshot. On a real server if one is installed, otherwise on the embedded one.
// Contract: neighbours#fair-shares, decisions#export.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';

import { createLog } from '../src/runtime/log.ts';
import { type Database, openDatabase, type RawRow } from '../src/runtime/postgres.ts';
import { sql } from '../src/runtime/sql.ts';
import { type AnyPostgres, anyPostgres } from './support/any-postgres.ts';
import { type CuttingProxy, cuttingProxy } from './support/cutting-proxy.ts';
import { durationOf } from './support/timing.ts';
import { asOperator, asTenant } from './support/work.ts';

const ROWS = 3_000;
const LINES = sql`select n::text, line from lines as l order by l.n`;
const log = createLog({ level: 'error', write: () => undefined });
let database: AnyPostgres;
let server: AnyPostgres['server'];
let proxy: CuttingProxy;
let db: Database;

beforeAll(async () => {
  database = await anyPostgres(log);
  server = database.server;
  const { url } = database;
  proxy = await cuttingProxy(Number(new URL(url).port));
  db = openDatabase({ url: proxy.address(url), log, streamMax: 2, isEmbedded: server === undefined });
});

afterAll(async () => {
  await db.close();
  proxy.close();
  await database.remove();
});

beforeEach(async () => {
  await db.exec('drop table if exists lines; create table lines (n int primary key, line text)');
  await db.rows(sql`insert into lines select n, repeat('x', 500) from generate_series(1, ${ROWS}::int) n`);
});

/** The reader of a tenant, or an operator's, which has read its first rows and asks for no more until `rest` is called. */
class Reader {
  readonly numbers: number[] = [];
  readonly #batches: AsyncIterator<RawRow[]>;

  constructor(
    readonly tenant: string | null,
    query = LINES,
    from = db,
  ) {
    this.#batches = from.stream(query, 1_000)[Symbol.asyncIterator]();
  }

  /** Reads one batch; false at the end. */
  async read(): Promise<boolean> {
    const next = () => this.#batches.next();
    const { value, done } = await (this.tenant === null ? asOperator(next) : asTenant(this.tenant, next));
    for (const [number] of (value as RawRow[] | undefined) ?? []) this.numbers.push(Number(number));
    return done !== true;
  }

  async rest(): Promise<number[]> {
    while (await this.read());
    return this.numbers;
  }

  async leave(): Promise<void> {
    await this.#batches.return?.();
  }
}

async function slowReaders(count: number, from = db): Promise<Reader[]> {
  const readers = Array.from({ length: count }, (_, i) => new Reader(`slow ${i}`, LINES, from));
  await Promise.all(readers.map((reader) => reader.read()));
  return readers;
}

const all = Array.from({ length: ROWS }, (_, i) => i + 1);

test('eight tenants that read their exports slowly do not delay the start of another one by two seconds', async () => {
  const slow = await slowReaders(8);
  const quick = new Reader('quick');
  expect(await durationOf(() => quick.read())).toBeLessThan(2_000);
  expect(await quick.rest()).toEqual(all);
  // They read on in any order, and get the rows as they were when each of them began.
  await db.rows(sql`delete from lines where n % 2 = 0`);
  await Promise.all(slow.slice(0, 4).map((reader) => reader.read()));
  expect(await Promise.all(slow.toReversed().map((reader) => reader.rest()))).toEqual(Array(8).fill(all));
  expect(db.stats('streams')).toMatchObject({ inUse: 0, waiting: 0 });
});

test('fast readers of more exports than there are connections take turns', async () => {
  const many = sql`select n::text, repeat('y', 20) from generate_series(1, 1000000) n`;
  const long = ['a', 'b'].map((tenant) => new Reader(tenant, many));
  await Promise.all(long.map((reader) => reader.read()));
  let hasLateEnded = false;
  const reading = long.map(async (reader) => {
    while (!hasLateEnded && (await reader.read())) await Bun.sleep(2);
  });
  const late = new Reader('late');
  expect(await late.rest()).toEqual(all);
  hasLateEnded = true;
  await Promise.all(reading);
  for (const { numbers } of long) {
    expect(numbers.length).toBeLessThan(1_000_000);
    expect(numbers).toEqual(Array.from(numbers, (_, i) => i + 1));
  }
  await Promise.all(long.map((reader) => reader.leave()));
});

describe('a fetch that has not ended when its reader has enough', () => {
  // After 1,000 small rows the next fetch is for as many rows, which are too large for one batch.
  const growing = sql`
    select n::text, repeat('z', case when n > 1500 then 100000 else 10 end) from generate_series(1, 2500) n`;
  const readSome = async (reader: Reader): Promise<void> => {
    while (reader.numbers.length < 1_501) await reader.read();
  };

  test('ends when the reader leaves, and those who share its connection read on', async () => {
    const others = await slowReaders(6);
    const leaving = [new Reader('leaving 1', growing), new Reader('leaving 2', growing)];
    await Promise.all(leaving.map(readSome));
    await Promise.all(leaving.map((reader) => reader.leave()));
    expect(await Promise.all(others.map((reader) => reader.rest()))).toEqual(Array(6).fill(all));
  });

  test('is cut when it is read slowly while others wait for the connection', async () => {
    const others = await slowReaders(2);
    const holding = ['holding 1', 'holding 2'].map((tenant) => new Reader(tenant, growing));
    await Promise.all(holding.map(readSome));
    const quick = new Reader('quick');
    expect(await quick.rest()).toEqual(all);
    expect(await Promise.all(others.map((reader) => reader.rest()))).toEqual([all, all]);
    const ends = await Promise.allSettled(holding.map((reader) => reader.rest()));
    const cut = ends.filter((end) => end.status === 'rejected');
    expect(cut.map(({ reason }) => reason)).toContainEqual(expect.objectContaining({ status: 429 }));
  });
});

test("operators' slow exports keep their connections, and others wait for them or have the rest", async () => {
  const operators = [new Reader(null), new Reader(null)];
  await Promise.all(operators.map((reader) => reader.read()));
  const [slow, quick] = [new Reader('slow'), new Reader('quick')];
  await slow.read();
  expect(await quick.rest()).toEqual(all);
  expect(await Promise.all([...operators, slow].map((reader) => reader.rest()))).toEqual([all, all, all]);
});

test('when a connection breaks, its streams fail with 503, including those that have lent it, and the next stream runs', async () => {
  // Connections of its own, which all have streams: an idle one that breaks is noticed only when its socket tells.
  const own = openDatabase({ url: proxy.address(database.url), log, streamMax: 2, isEmbedded: server === undefined });
  const slow = await slowReaders(6, own);
  proxy.cutAll();
  const ends = await Promise.allSettled(slow.map((reader) => reader.rest()));
  const reasons = ends.map((end) => (end.status === 'rejected' ? end.reason : 'read to the end'));
  expect(reasons).toEqual(Array(6).fill(expect.objectContaining({ status: 503 })));
  const next = new Reader('next', LINES, own);
  expect(await next.rest()).toEqual(all);
  await own.close();
});

test('a stream that ends while its connection is lent leaves no cursor behind', async () => {
  // The session of the asking stream, which the embedded database shares among all.
  const cursors = async (): Promise<number> => {
    const query = sql`select count(*)::text from pg_cursors where name like 'rows\\_%'`;
    for await (const [row] of db.stream(query, 10)) return Number(row?.[0]);
    return 0;
  };
  const before = await cursors();
  const slow = await slowReaders(6);
  await Promise.all(slow.map((reader) => reader.leave()));
  expect(await cursors()).toBe(before);
  expect(db.stats('streams').inUse).toBe(0);
});
