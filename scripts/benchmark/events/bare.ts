// The baseline of the rows about events: insert a record, then write to every client, one write per event and client; no
// key, no check, no outbox, no storage of deliveries. `Bun.serve` and postgres.js, in a separate process.
// POST /create[?hook=URL], GET /stream (SSE), /ws, /poll (the next record); POST /fill?count=N and GET /page?after=ID&limit=N
// store and select records; POST /posts?url=URL&count=N&bytes=N sends signed POSTs only.

import { createHmac } from 'node:crypto';
import postgres from 'postgres';

const SECRET = 'a secret of the bare side';
const POSTS_AT_ONCE = 16;

const sql = postgres(process.env.DATABASE_URL as string, { max: 8, onnotice: () => {} });
const encoder = new TextEncoder();
const streams = new Set<Stream>();
const sockets = new Set<Bun.ServerWebSocket<undefined>>();
let polls: ((text: string) => void)[] = [];

interface Stream {
  controller: ReadableStreamDefaultController<Uint8Array>;
  number: number;
}

const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  async fetch(request, self) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/create':
        return Response.json({ success: true, data: await create(await request.text(), url) }, { status: 201 });
      case '/stream':
        return new Response(openStream(), { headers: { 'content-type': 'text/event-stream' } });
      case '/ws':
        return self.upgrade(request, { data: undefined }) ? undefined : new Response(null, { status: 400 });
      case '/poll':
        return new Response(await new Promise<string>((resolve) => polls.push(resolve)));
      case '/fill':
        return Response.json({ after: await fill(Number(url.searchParams.get('count')), await request.text()) });
      case '/page':
        return Response.json({ data: await pageAfter(url.searchParams) });
      case '/posts':
        return Response.json({ sent: await sendMany(url.searchParams) });
      default:
        return new Response(null, { status: 404 });
    }
  },
  websocket: {
    open: (socket) => void sockets.add(socket),
    message: () => {},
    close: (socket) => void sockets.delete(socket),
  },
});
console.log(`listening on http://127.0.0.1:${server.port}`);

function openStream(): ReadableStream<Uint8Array> {
  let stream: Stream;
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      stream = { controller, number: 0 };
      streams.add(stream);
      write(stream, 'event: connected\nid: ', '\ndata: {}\n\n');
    },
    cancel: () => void streams.delete(stream),
  });
}

async function create(body: string, url: URL) {
  const id = Bun.randomUUIDv7();
  const [row] = await sql`
    insert into events_w as i (id, data) values (${id}, ${body}::text::jsonb)
    returning i.id, i.data, i.created_at, i.updated_at`;
  if (!row) throw new Error('nothing inserted');
  const record = { id, ...row.data, createdAt: row.created_at, updatedAt: row.updated_at };
  const text = JSON.stringify({ type: 'record.created', timestamp: row.created_at, record_id: id, data: record });
  for (const stream of streams) write(stream, 'event: record.created\nid: ', `\ndata: ${text}\n\n`);
  for (const socket of sockets) socket.send(text);
  for (const answer of polls) answer(text);
  polls = [];
  const hook = url.searchParams.get('hook');
  if (hook !== null) await post(hook, text);
  return record;
}

/** Stores records; resolves to the id after which they come. */
async function fill(count: number, body: string): Promise<string> {
  const after = Bun.randomUUIDv7();
  for (let left = count; left > 0; left -= 1_000) {
    const ids = Array.from({ length: Math.min(1_000, left) }, () => Bun.randomUUIDv7());
    await sql`insert into events_w (id, data) select id, ${body}::text::jsonb from unnest(${ids}::uuid[]) as id`;
  }
  return after;
}

async function pageAfter(query: URLSearchParams) {
  const rows = await sql`
    select id, data, created_at, updated_at from events_w
    where id > ${query.get('after')} order by id limit ${Number(query.get('limit'))}`;
  const items = rows.map(({ id, data, created_at, updated_at }) => {
    return { id, ...data, createdAt: created_at, updatedAt: updated_at };
  });
  return { items };
}

function write(stream: Stream, head: string, tail: string): void {
  stream.controller.enqueue(encoder.encode(head + ++stream.number + tail));
}

async function sendMany(query: URLSearchParams): Promise<number> {
  const body = 'x'.repeat(Number(query.get('bytes')));
  let left = Number(query.get('count'));
  const sender = async () => {
    while (left-- > 0) await post(query.get('url') as string, body);
  };
  await Promise.all(Array.from({ length: POSTS_AT_ONCE }, sender));
  return Number(query.get('count'));
}

async function post(url: string, body: string): Promise<void> {
  const signature = createHmac('sha256', SECRET).update(body).digest('hex');
  const headers = { 'content-type': 'application/json', 'x-svc-signature': signature };
  const answer = await fetch(url, { method: 'POST', headers, body });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`the receiver answers ${answer.status}`);
}
