// The tables of the bare handler, designed for exactly the queries of the bench, and their contents.
// `items` is read and `items_w` is written, so that the counter of `items` stays exact; both start with equal records, and
// only `items` has the indexes of the rows that sort.
// Errors are those of Postgres.

import postgres from 'postgres';
import { item, PEOPLE, person } from './dataset.ts';

const BATCH = 5_000;

const SCHEMA = `
  create table people (id uuid primary key, data jsonb not null);
  create table counters (table_name text primary key, records bigint not null);
  ${itemTable('items')}
  ${itemTable('items_w')}
  create index on items (created_at, id);
  create index on items (updated_at, id);
  create index on items (((data->>'amount')::bigint), id);
  create index on items ((data->>'status'), ((data->>'amount')::bigint), id);
  create index on items ((data->>'status'), (data->>'due'), id);`;

/** The statements that make a table of items. */
export function itemTable(name: string): string {
  return `
  create table ${name} (
    id uuid primary key, data jsonb not null,
    created_at timestamptz not null default now(), updated_at timestamptz not null default now());
  create index on ${name} ((data->>'status'));
  create index on ${name} (((data->>'amount')::bigint));
  create index on ${name} ((data->>'due'));
  create index on ${name} using gin (to_tsvector('simple', (data->>'title') || ' ' || (data->>'notes')));`;
}

/** Creates the tables with `records` records each; resolves to ids spread evenly over each table. */
export async function fillBare(url: string, records: number, sampleSize: number) {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await sql.unsafe(SCHEMA);
  const people = Array.from({ length: PEOPLE }, () => Bun.randomUUIDv7());
  await insert(sql, 'people', people, (at) => person(at));
  const ids: Record<'items' | 'items_w', string[]> = { items: [], items_w: [] };
  for (const table of ['items', 'items_w'] as const) {
    const all = Array.from({ length: records }, () => Bun.randomUUIDv7());
    await insert(sql, table, all, (at) => item(at, records, people));
    ids[table] = spread(all, sampleSize);
  }
  await sql`insert into counters (table_name, records) values ('items', ${records})`;
  await sql.end();
  return { people, ids };
}

/** Adds `count` records to `items_w`, for a round of deletes; resolves to their ids. */
export async function addBare(url: string, count: number, people: readonly string[]): Promise<string[]> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  const ids = Array.from({ length: count }, () => Bun.randomUUIDv7());
  await insert(sql, 'items_w', ids, (at) => item(at, count, people));
  await sql.end();
  return ids;
}

/** The ids of the newest records of `items_w`, whose counter is made exact; before a round of the mixed load. */
export async function newestBare(url: string, count: number): Promise<string[]> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await sql`
    insert into counters (table_name, records) select 'items_w', count(*) from items_w
    on conflict (table_name) do update set records = excluded.records`;
  const rows = await sql<{ id: string }[]>`select id from items_w order by id desc limit ${count}`;
  await sql.end();
  return rows.map(({ id }) => id);
}

/** Every k-th element, at most `size` of them. */
export function spread<T>(all: readonly T[], size: number): T[] {
  const step = Math.max(1, Math.floor(all.length / size));
  return all.filter((_, at) => at % step === 0).slice(0, size);
}

async function insert(sql: postgres.Sql, table: string, ids: readonly string[], value: (index: number) => unknown) {
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH);
    const data = batch.map((_, at) => JSON.stringify(value(from + at)));
    await sql`
      insert into ${sql(table)} (id, data)
      select id, data::jsonb from unnest(${batch}::uuid[], ${data}::text[]) as given (id, data)`;
  }
}
