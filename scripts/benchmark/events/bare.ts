// The baseline of the rows about events: insert a record, then write to every client, to a stream once a loop turn with
// the events of that turn, encoded once for all; no key, no check, no outbox, no storage of deliveries. `Bun.serve` and
// postgres.js, in a separate process.
// POST /create[?hook=URL], GET /stream (SSE), /ws, /poll (the next record); POST /fill?count=N and GET /page?after=ID&limit=N
// store and select records; POST /posts?url=URL&count=N&bytes=N sends signed POSTs only.

import { createHmac } from 'node:crypto';
import postgres from 'postgres';

const SECRET = 'a secret of the bare side';
const POSTS_AT_ONCE = 16;

const sql = postgres(process.env.DATABASE_URL as string, { max: 8, onnotice: () => {} });
const encoder = new TextEncoder();
const streams = new Set<ReadableStreamDefaultController<Uint8Array>>();
/** Events of this loop turn that the streams do not have yet. */
let unsent: string[] = [];
/** The number of the last event of every stream; they start again when no stream is open. */
let number = 0;
const sockets = new Set<Bun.ServerWebSocket<undefined>>();
let polls: ((text: string) => void)[] = [];

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
  let stream: ReadableStreamDefaultController<Uint8Array>;
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      stream = controller;
      if (streams.size === 0) number = 1;
      streams.add(stream);
      stream.enqueue(encoder.encode(`event: connected\nid: ${number}\ndata: {}\n\n`));
    },
    cancel: () => void streams.delete(stream),
  });
}

function broadcast(text: string): void {
  if (unsent.length === 0) setImmediate(flush);
  unsent.push(`event: record.created\nid: ${++number}\ndata: ${text}\n\n`);
}

function flush(): void {
  const bytes = encoder.encode(unsent.join(''));
  unsent = [];
  for (const stream of streams) stream.enqueue(bytes);
}

async function create(body: string, url: URL) {
  const id = Bun.randomUUIDv7();
  const [row] = await sql`
    insert into events_w as i (id, data) values (${id}, ${body}::text::jsonb)
    returning i.id, i.data, i.created_at, i.updated_at`;
  if (!row) throw new Error('nothing inserted');
  const record = { id, ...row.data, createdAt: row.created_at, updatedAt: row.updated_at };
  const text = JSON.stringify({ type: 'record.created', timestamp: row.created_at, record_id: id, data: record });
  if (streams.size > 0) broadcast(text);
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
