// The bare handler's part of the mixed load: reads and writes of the same table, `items_w`. A counter keeps the total of
// all records exact, as cheaply as Postgres can: one more update in the statement of a create or delete.
// Totals of filters and searches are counted each time, since every write may change them.

import type postgres from 'postgres';
import { flat, type Handler, one, page } from './bare-answers.ts';
import { PAGE } from './dataset.ts';

export function mixedHandlers(sql: postgres.Sql): Record<string, Handler> {
  const columns = sql`i.id, i.data, i.created_at, i.updated_at`;
  const newest = sql`order by i.id desc limit ${PAGE}`;
  const total = sql`(select records::int from counters where table_name = 'items_w') as total`;
  const open = sql`i.data->>'status' = 'open'`;
  const vector = sql`to_tsvector('simple', (i.data->>'title') || ' ' || (i.data->>'notes'))`;
  return {
    'mixed-get': async (id) => flat(await one(sql`select ${columns} from items_w i where i.id = ${id}`)),
    'mixed-list': async () => page(await sql`select ${columns}, ${total} from items_w i ${newest}`),
    'mixed-filter': async () =>
      page(
        await sql`
        select ${columns}, (select count(*)::int from items_w i where ${open}) as total
        from items_w i where ${open} ${newest}`,
      ),
    'mixed-search': async (word) =>
      page(
        await sql`
        with hits as materialized (select i.id from items_w i where ${vector} @@ to_tsquery('simple', ${`${word}:*`})),
             page as (select id from hits order by id desc limit ${PAGE})
        select ${columns}, (select count(*)::int from hits) as total
        from page join items_w i using (id) order by i.id desc`,
      ),
    'mixed-create': async (_, request) =>
      flat(
        await one(sql`
        with counted as (update counters set records = records + 1 where table_name = 'items_w')
        insert into items_w as i (id, data) values (${Bun.randomUUIDv7()}, ${await request.text()}::text::jsonb)
        returning ${columns}`),
      ),
    'mixed-delete': async (id) => {
      const row = await one(sql`
        with counted as (update counters set records = records - 1 where table_name = 'items_w')
        delete from items_w where id = ${id} returning id`);
      return { id: row.id, deleted: true };
    },
  };
}
