// The client with a service, or a proxy in between, that sends nonsense: the client opens a new stream and continues where it
// was, and nothing grows or waits without an end. The server of these tests answers each connection with its next prepared
// response.
import { afterEach, expect, test } from 'bun:test';
import { createClient } from '../client/src/client.ts';
import { backOffMs } from '../client/src/waiting.ts';

const stops: (() => unknown)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const EVENT = { id: '1', type: 'record.deleted', entity: 'deals', record_id: 'a', cursor: 'after a' };
const good = `event: record.deleted\ndata: ${JSON.stringify(EVENT)}\n\n`;

/** Streams, one per connection; resolves to the first event and to the requested cursors. */
async function firstEvent(
  streams: (string | ReadableStream)[],
): Promise<{ record: unknown; since: string[]; failures: string[] }> {
  const since: string[] = [];
  const failures: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const url = new URL(request.url);
      if (url.pathname === '/api/changes')
        return Response.json({ success: true, data: { items: [], nextCursor: 'begin' } });
      since.push(url.searchParams.get('since') ?? '');
      return new Response(streams.shift() ?? good, { headers: { 'content-type': 'text/event-stream' } });
    },
  });
  stops.push(() => server.stop(true));
  const client = createClient({ url: server.url.origin, tenant: 't', credential: 'svc_ak_1' });
  const events = client.live({ onRetry: ({ error }) => void failures.push(error.message) });
  const { value } = await events.next();
  await events.return();
  return { record: value?.record_id, since, failures };
}

test('a stream of nonsense is dropped, and the next one continues from the same cursor', async () => {
  const nonsense = [
    'event: record.created\ndata: {"half\n\n',
    'event: record.created\ndata: null\n\n',
    'data\n\n: \n\n',
  ];
  const { record, since, failures } = await firstEvent([...nonsense]);
  expect(record).toBe('a');
  expect(since).toEqual(['begin', 'begin', 'begin', 'begin']);
  expect(failures).toHaveLength(3);
}, 20_000);

test('a message without an end is given up instead of kept', async () => {
  const piece = new TextEncoder().encode('x'.repeat(1_000_000));
  let sent = 0;
  const endless = new ReadableStream({
    async pull(controller) {
      sent += 1;
      if (sent % 4 === 0) await Bun.sleep(1);
      controller.enqueue(piece);
    },
  });
  const { record, failures } = await firstEvent([endless]);
  expect(record).toBe('a');
  expect(failures[0]).toContain('without an end');
  expect(sent).toBeLessThan(100);
}, 20_000);

test('a WebSocket that sends nonsense is lost, not the program', async () => {
  const failures: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request, own) => {
      if (own.upgrade(request)) return;
      const isFeed = new URL(request.url).pathname === '/api/changes';
      return Response.json({
        success: true,
        data: isFeed ? { items: [], nextCursor: 'begin' } : { ticket: 'svc_tkt_1' },
      });
    },
    websocket: {
      message: () => undefined,
      open: (socket) => void socket.send(failures.length === 0 ? '{"half' : 'null'),
    },
  });
  stops.push(() => server.stop(true));
  const ended = new AbortController();
  const events = createClient({ url: server.url.origin, tenant: 't', credential: 'svc_ak_1' }).live({
    transport: 'websocket',
    entities: ['deals'],
    signal: ended.signal,
    onRetry: ({ error }) => {
      failures.push(error.message);
      if (failures.length === 2) ended.abort(new Error('seen enough'));
    },
  });
  await expect(events.next()).rejects.toThrow('seen enough');
  for (const message of failures) expect(message).toContain('something else than an object');
}, 20_000);

test('a service that asks for a wait of years gets a new request after an hour: no timer takes more than 24 days', () => {
  expect(backOffMs(0, 3_000_000_000)).toBeLessThan(3_601_000);
  expect(backOffMs(0, 20_000)).toBeGreaterThanOrEqual(20_000);
});
