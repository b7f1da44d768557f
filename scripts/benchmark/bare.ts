// The baseline: `Bun.serve` and postgres.js with eight connections, one prepared statement per request on a JSONB table
// with hand-written expression indexes; no authentication, no validation, no events. It runs in its own process.
// Answers have the service's shapes, so both sides pass the same checks.

import postgres from 'postgres';
import { flat, type Handler, one, page, type Row } from './bare-answers.ts';
import { mixedHandlers } from './bare-mixed.ts';
import { PAGE } from './dataset.ts';

const sql = postgres(process.env.DATABASE_URL as string, { max: 8, onnotice: () => {} });

const columns = sql`i.id, i.data, i.created_at, i.updated_at`;
const newest = sql`order by i.id desc limit ${PAGE}`;
const counted = sql`(select count(*)::int from items) as total`;
const counter = sql`(select records::int from counters where table_name = 'items') as total`;
const due = sql`i.data->>'due'`;
const status = sql`i.data->>'status'`;
const integer = sql`(i.data->>'amount')::bigint`;
const vector = sql`to_tsvector('simple', (i.data->>'title') || ' ' || (i.data->>'notes'))`;

/** By the service's `sort`; all but `price` have an index. */
const orders: Record<string, postgres.PendingQuery<Row[]>> = {
  createdAt: sql`order by i.created_at, i.id`,
  updatedAt: sql`order by i.updated_at, i.id`,
  amount: sql`order by ${integer}, i.id`,
  'status,amount': sql`order by ${status}, ${integer}, i.id`,
  price: sql`order by (i.data->>'price')::float8, i.id`,
};

const handlers: Record<string, Handler> = {
  get: async (id) => flat(await one(sql`select ${columns} from items i where i.id = ${id}`)),
  'list-counter': async () => page(await sql`select ${columns}, ${counter} from items i ${newest}`),
  'list-count': async () => page(await sql`select ${columns}, ${counted} from items i ${newest}`),
  'list-no-total': async () => page(await sql`select ${columns} from items i ${newest}`),
  filter: async (status) =>
    page(await sql`select ${columns} from items i where i.data->>'status' = ${status} ${newest}`),
  'filter-count': async (_, __, url) => rangeCounted(url),
  'filter-sorted': async (from) => filterSorted(from),
  sorted: async (sort) => page(await sql`select ${columns}, ${counter} from items i ${orderOf(sort)} limit ${PAGE}`),
  'page-by-id': async (number) => pageById(offset(number)),
  'page-naive': async (number) =>
    page(
      await sql`select ${columns}, ${counted} from items i order by i.id desc limit ${PAGE} offset ${offset(number)}`,
    ),
  search: async (_, __, url) => search(url.searchParams.get('search') ?? ''),
  related: async () => related(),
  create: async (_, request) => created(await request.text()),
  update: async (id, request) => updated(id, await request.text()),
  delete: async (id) => ({ id: (await one(sql`delete from items_w where id = ${id} returning id`)).id, deleted: true }),
  ...mixedHandlers(sql),
};

const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const url = new URL(request.url);
    const [, name = '', argument = ''] = url.pathname.split('/');
    const handler = handlers[name];
    if (!handler) return new Response(null, { status: 404 });
    return Response.json({ success: true, data: await handler(argument, request, url) }, { status: statusOf(request) });
  },
});
console.log(`listening on http://127.0.0.1:${server.port}`);

function statusOf({ method }: Request): number {
  return method === 'POST' ? 201 : 200;
}

function offset(number: string): number {
  return (Number(number) - 1) * PAGE;
}

async function rangeCounted(url: URL) {
  const from = url.searchParams.get('from') as string;
  const below = url.searchParams.get('below') as string;
  const within = sql`(i.data->>'amount')::bigint >= ${from} and (i.data->>'amount')::bigint < ${below}`;
  return page(
    await sql`
    select ${columns}, (select count(*)::int from items i where ${within}) as total from items i where ${within} ${newest}`,
  );
}

function orderOf(sort: string) {
  const order = orders[decodeURIComponent(sort)];
  if (!order) throw new Error(`no order by ${sort}`);
  return order;
}

async function filterSorted(from: string) {
  const met = sql`${status} = 'open' and ${integer} >= ${from}`;
  return page(
    await sql`
    select ${columns}, (select count(*)::int from items i where ${met}) as total
    from items i where ${met} order by ${due}, i.id limit ${PAGE}`,
  );
}

async function pageById(skipped: number) {
  return page(
    await sql`
    with page as (select id from items order by id desc limit ${PAGE} offset ${skipped})
    select ${columns}, ${counted} from page join items i using (id) order by i.id desc`,
  );
}

/** All words must occur, whole or as the beginning of a word, as in the service. `materialized` finds the matches once for
 *  page and total: otherwise the planner walks the newest records and parses the text of each. */
async function search(text: string) {
  const query = text
    .split(' ')
    .map((word) => `${word}:*`)
    .join(' & ');
  return page(
    await sql`
    with hits as materialized (select i.id from items i where ${vector} @@ to_tsquery('simple', ${query})),
         page as (select id from hits order by id desc limit ${PAGE})
    select ${columns}, (select count(*)::int from hits) as total from page join items i using (id) order by i.id desc`,
  );
}

async function related() {
  const rows = await sql`
    select ${columns}, ${counter}, p.id as owner_id, p.data as owner
    from items i left join people p on p.id = (i.data->>'owner')::uuid ${newest}`;
  return page(rows.map((row) => ({ ...row, data: { ...row.data, owner: { id: row.owner_id, ...row.owner } } })));
}

async function created(body: string) {
  return flat(
    await one(sql`
    insert into items_w as i (id, data) values (${Bun.randomUUIDv7()}, ${body}::text::jsonb) returning ${columns}`),
  );
}

async function updated(id: string, body: string) {
  return flat(
    await one(sql`
    update items_w as i set data = i.data || ${body}::text::jsonb, updated_at = now() where i.id = ${id} returning ${columns}`),
  );
}
