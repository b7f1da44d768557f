// Hostile readers over real TCP: a client that stops reading is disconnected as the contract says, a client that half-closes or
// drops the connection leaks neither a lease nor memory, and no other client is affected.
// Contract: interface#sse, interface#websocket, decisions#sse, decisions#websocket.
import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { tokensOf } from '../src/access/resolve-caller.ts';
import { notifyCommitted } from '../src/events/publication.ts';
import { asRead } from '../src/http/body-as-read.ts';
import { jsonText } from '../src/http/reply.ts';
import { LIMITS } from '../src/limits.ts';
import { realtimeOf } from '../src/realtime/realtime.ts';
import { socketHandler } from '../src/realtime/websocket-endpoint.ts';
import { waitingIn } from '../src/runtime/concurrency.ts';
import { newId } from '../src/runtime/ids.ts';
import type { SocketHandler, TextSocket } from '../src/runtime/socket.ts';
import { sql } from '../src/runtime/sql.ts';
import { UnreadResponses, unreadResponses } from '../src/runtime/unread-responses.ts';
import { Connection } from '../src/serve/connection.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession } from './support/credentials.ts';
import { createEntity, fields, tenantWithEntities } from './support/entities.ts';
import { callTool } from './support/mcp-calls.ts';
import { closeCode, frame, type RawConnection, rawGet, rawSocket, rawStream } from './support/raw.ts';
import { type Answer, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, subscribeSocket, until } from './support/streams.ts';
import { fastest } from './support/timing.ts';

/** Set DROPS=1000 for a longer run. */
const DROPS = Number(process.env.DROPS ?? 200);
const MEMORY = 32 * 1_048_576;
const RECORDS = '/api/entities/articles/records';

let service: TestService;
beforeAll(async () => {
  service = await startService({ SSE_HEARTBEAT_INTERVAL_MS: '500', SSE_MAX_QUEUED_EVENTS: '20' });
});
afterAll(() => service.stop());

const keep = closeAfterEach(leasesReleased);
const newTenant = () => tenantWithEntities(service, ['articles'], fields('body json'));

/** Inserts events of 100 KB into the outbox: more than the system's buffers hold. */
async function flood(tenant: TestTenant, entityId: string, slot: string, count: number): Promise<void> {
  await service.app.db.rows(sql`
    insert into platform.events (id, tenant_id, type, entity, entity_id, record_id, version, data, created_at, updated_at,
      triggered_by)
    select gen_random_uuid(), ${tenant.id}::uuid, 'record.created', 'articles', ${entityId}::uuid, gen_random_uuid(), 1,
      jsonb_build_object(${slot}::text, repeat('x', 100000)), now(), now(), 'api'
    from generate_series(1, ${count}::int)`);
  notifyCommitted(service.app, { tenantId: tenant.id });
}

/** The slot of the records' only field. */
async function slotOf(tenant: TestTenant): Promise<string> {
  const { id } = (await tenant.post(RECORDS, { body: 'x' })).body.data;
  const row = await service.app.db.first<{ slot: string }>(sql`
    select (select key from jsonb_each(data) limit 1) as slot from platform.events where record_id = ${id}::uuid`);
  return row?.slot ?? '';
}

async function entityIdOf(tenant: TestTenant): Promise<string> {
  return (await tenant.get('/api/entities/articles')).body.data.id;
}

const leases = (kind: 'sse:' | 'ws:'): number => realtimeOf(service.app).leases.count(kind);

/** Resolves when no connection has a lease. */
function leasesReleased(): Promise<void> {
  return until(
    () => leases('sse:') + leases('ws:') === 0,
    60_000,
    () => `${leases('sse:')} and ${leases('ws:')} leases`,
  );
}

describe('event streams', () => {
  test('a client that stops reading gets BACKPRESSURE as its last event and loses its lease; others get all events', async () => {
    const tenant = await newTenant();
    const [first, second] = [
      await rawStream(service.url, tenant.slug, tenant.key),
      await rawStream(service.url, tenant.slug, tenant.key),
    ];
    for (const stream of [first, second]) keep(stream).socket.pause();
    const reading = keep(await connectEvents(service.url, tenant.slug, tenant.key));
    await flood(tenant, await entityIdOf(tenant), await slotOf(tenant), 150);
    await until(
      () => leases('sse:') === 1,
      60_000,
      () => `${leases('sse:')} leases`,
    );
    for (const { socket } of [first, second]) socket.resume();
    for (const stream of [first, second]) {
      await stream.ended();
      expect(stream.text).toMatch(
        /event: error\nid: \d+\ndata: \{"type":"error","code":"BACKPRESSURE",[^\n]*\n\n\S*\s*(0\s*)?$/,
      );
      expect(stream.text.split('event: record.created').length).toBeLessThan(150);
    }
    await until(
      () => reading.text.split('event: record.created').length > 150,
      60_000,
      () => 'not all',
    );
    expect(reading.hasEnded).toBe(false);
  });

  test('a client that half-closes keeps its stream, or loses it with its lease', async () => {
    const tenant = await newTenant();
    const stream = keep(await rawStream(service.url, tenant.slug, tenant.key));
    stream.socket.end();
    await tenant.post(RECORDS, { body: 'after the half-close' });
    await until(
      () => stream.text.includes('after the half') || (stream.hasEnded && leases('sse:') === 0),
      60_000,
      () => stream.text,
    );
    stream.close();
    await leasesReleased();
  });

  test('dropped connections leak neither leases nor memory', async () => {
    const tenant = await newTenant();
    const openAndDrop = async (): Promise<number> => {
      for (let i = 0; i < DROPS; i += 20) {
        await Promise.all(Array.from({ length: 20 }, () => drop(tenant)));
      }
      await leasesReleased();
      Bun.gc(true);
      return process.memoryUsage().rss;
    };
    let before = await openAndDrop();
    // A leak grows with every round; buffers that the runtime keeps for reuse do not.
    const grown = async (): Promise<number> => {
      const after = await openAndDrop();
      const more = after - before;
      before = after;
      return more;
    };
    expect(await fastest(MEMORY, grown)).toBeLessThan(MEMORY);
    while ((await service.app.broker.leaseCount(`sse:${tenant.id}`)) > 0) await Bun.sleep(10);
  });
});

describe('large responses', () => {
  const WIDE = '/api/entities/wide/records';
  const LARGE = `${WIDE}?limit=16`;
  const wideTenant = async (): Promise<TestTenant> => {
    const tenant = await tenantWithEntities(service, ['wide'], fields('text text'));
    const text = 'x'.repeat(900_000);
    for (let i = 0; i < 16; i++) expect((await tenant.post(WIDE, { text })).status).toBe(201);
    return tenant;
  };

  test('a tenant with many unread bytes gets 429 until they are read or its clients have gone; other tenants are served', async () => {
    const [slow, other] = [await wideTenant(), await wideTenant()];
    const connections: RawConnection[] = [];
    const open = async (): Promise<number> => {
      const connection = keep(await rawGet(service.url, LARGE, { Authorization: `Bearer ${slow.key}` }));
      connections.push(connection);
      await connection.received('HTTP/1.1');
      connection.socket.pause();
      return connection.status;
    };
    const statuses: number[] = [];
    while (statuses.at(-1) !== 429 && connections.length < 60) {
      const status = await open();
      // On a busy machine the database is too slow for some.
      if (status !== 503) statuses.push(status);
    }
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    expect(connections.at(-1)?.text).toMatch(/retry-after: \d+/i);
    expect((await slow.get(`${WIDE}?limit=1&fields=id`)).status).toBe(200);
    const read = await other.get(LARGE);
    expect([read.status, read.body.data.items.length]).toEqual([200, 16]);
    expect(unreadResponses.bytes).toBeLessThanOrEqual(LIMITS.response.unreadMax);
    for (const connection of connections) connection.close();
    await until(
      () => unreadResponses.bytes === 0,
      60_000,
      () => `${unreadResponses.bytes} bytes are unread`,
    );
    expect((await slow.get(LARGE)).status).toBe(200);
  }, 120_000);

  test('a response that is replayed under an Idempotency-Key counts like the first', async () => {
    const long = Array.from({ length: 14 }, (_, i) => ({ key: `f${i}`, type: 'text', default: 'x'.repeat(16_000) }));
    const tenant = await tenantWithEntities(service, ['wide'], [{ key: 'n', type: 'integer' }, ...long]);
    const body = { operations: Array.from({ length: 60 }, (_, n) => ({ op: 'create', data: { n } })) };
    const ask = (key: string) =>
      tenant.post(`${WIDE}/bulk`, body, { 'idempotency-key': key, 'accept-encoding': 'identity' });
    // On a busy machine the database is too slow for some.
    const done = async (key: string): Promise<Answer> => {
      for (;;) {
        const answer = await ask(key);
        if (answer.status !== 503) return answer;
      }
    };
    const first = await done('a');
    expect([first.status, first.body.data?.succeeded]).toEqual([200, 60]);
    const add = spyOn(unreadResponses, 'add');
    try {
      const again = await ask('a');
      expect([again.status, again.text === first.text]).toEqual([200, true]);
      expect(add).toHaveBeenCalledWith(tenant.id, Buffer.byteLength(first.text), expect.any(Function));
    } finally {
      add.mockRestore();
    }
    const keys = ['a', 'b', 'c', 'd', 'e'];
    for (const key of keys.slice(1)) expect((await done(key)).status).toBe(200);
    // Of many at once, all but a few wait for a place, without a database connection.
    const waiting: number[] = [];
    const watch = setInterval(() => waiting.push(waitingIn('large-calls')), 1);
    const answers = await Promise.all(keys.map(done));
    clearInterval(watch);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    // The embedded database serves one call after the other.
    if (process.env.DATABASE_URL !== undefined) expect(Math.max(...waiting)).toBeGreaterThan(0);
  }, 120_000);

  test.each<[string, (tenant: TestTenant) => Promise<string>]>([
    ['a list', async (tenant) => (await tenant.get(WIDE, { 'accept-encoding': 'identity' })).text],
    [
      'an MCP result',
      async ({ key }) =>
        (await callTool(service.url, 'query_records', { entity_name: 'wide' }, { 'x-api-key': key })).text,
    ],
  ])('%s of 300 KB counts until it is read', async (_, ask) => {
    const tenant = await tenantWithEntities(service, ['wide'], fields('text text'));
    expect((await tenant.post(WIDE, { text: 'x'.repeat(300_000) })).status).toBe(201);
    const add = spyOn(unreadResponses, 'add');
    try {
      const { length } = await ask(tenant);
      expect(add).toHaveBeenCalledWith(tenant.id, length, expect.any(Function));
      expect(unreadResponses.isFull(tenant.id)).toBe(false);
    } finally {
      add.mockRestore();
    }
  });

  test('only a small piece is handed over: the rest of a response counts while its reader takes nothing', async () => {
    const before = unreadResponses.bytes;
    const reader = asRead(jsonText('x'.repeat(300_000)), 'a slow tenant', () => {}).body?.getReader();
    expect(unreadResponses.bytes - before).toBe(300_000);
    const piece = (await reader?.read())?.value as Uint8Array;
    expect(piece.length).toBeLessThanOrEqual(65_536);
    expect(unreadResponses.bytes - before).toBe(300_000 - piece.length);
    await reader?.cancel();
    expect(unreadResponses.bytes).toBe(before);
  });

  test('an API document that is not read is no copy of the one that is kept, and counts for its tenant', async () => {
    const tenant = await service.tenant();
    const many = Array.from({ length: 150 }, (_, i) => `field${i} text`);
    for (const letter of 'abcdefgh') await createEntity(tenant, `entity${letter}`, fields(...many));
    const headers = { Authorization: `Bearer ${tenant.key}` };
    const add = spyOn(unreadResponses, 'add');
    try {
      const answer = await fetch(`${service.url}/swagger/json`, {
        headers: { ...headers, 'accept-encoding': 'identity' },
      });
      const { byteLength } = await answer.arrayBuffer();
      expect(byteLength).toBeGreaterThan(LIMITS.response.unreadFrom);
      expect(add).toHaveBeenCalledWith(tenant.id, byteLength, expect.any(Function));
      // It is sent in pieces.
      expect(answer.headers.get('content-length')).toBeNull();
    } finally {
      add.mockRestore();
    }
  }, 60_000);

  test('beyond the limit for all, the tenant with the most loses the response that has been read least recently', () => {
    const cut: string[] = [];
    const responses = new UnreadResponses(100, 60);
    const add = (share: string, name: string, bytes: number) =>
      responses.add(share, bytes, () => void cut.push(`${share} ${name}`));
    const first = add('a', 'first', 30);
    add('a', 'second', 30);
    add('b', 'first', 30);
    expect([responses.bytes, responses.isFull('a'), responses.isFull('b')]).toEqual([90, true, false]);
    responses.taken('a', first, 5);
    expect([responses.bytes, responses.isFull('a')]).toEqual([85, false]);
    add('b', 'second', 20);
    expect([responses.bytes, ...cut]).toEqual([75, 'a second']);
    responses.taken('a', first);
    expect([responses.bytes, responses.isFull('a')]).toEqual([50, false]);
    responses.taken('a', first);
    expect(responses.bytes).toBe(50);
  });
});

/** Opens a stream and drops it: before the answer, during it, or some events later. */
async function drop(tenant: TestTenant): Promise<void> {
  const headers = { Authorization: `Bearer ${tenant.key}` };
  const stream = await rawGet(service.url, `/api/v1/tenants/${tenant.slug}/events/stream`, headers);
  const moment = Math.random();
  if (moment > 0.2) await stream.received('HTTP/1.1');
  if (moment > 0.5) await stream.received('event: heartbeat');
  if (moment > 0.7) stream.socket.resetAndDestroy();
  stream.close();
}

describe('sockets', () => {
  const subscribed = async (tenant: TestTenant): Promise<RawConnection> => {
    const socket = keep(await rawSocket(service.url));
    socket.socket.write(frame(JSON.stringify({ type: 'auth', token: await adminSession(service, tenant) })));
    await socket.received('auth_ok');
    socket.socket.write(frame('{"type":"subscribe","entity":"articles"}'));
    await socket.received('"subscribed"');
    return socket;
  };

  test('a client that stops reading is closed with 1013 and loses its lease; others get all events', async () => {
    const tenant = await newTenant();
    const slow = await subscribed(tenant);
    const reading = keep(await subscribeSocket(service.url, await adminSession(service, tenant), 'articles'));
    slow.socket.pause();
    const [entityId, slot] = [await entityIdOf(tenant), await slotOf(tenant)];
    await reading.next();
    for (let floods = 0; leases('ws:') > 1 && floods < 30; floods++) {
      await flood(tenant, entityId, slot, 8);
      for (let i = 0; i < 8; i++) expect((await reading.next()).type).toBe('record.created');
    }
    await until(
      () => leases('ws:') === 1,
      60_000,
      () => `${leases('ws:')} leases`,
    );
    slow.socket.resume();
    await slow.ended();
    expect(closeCode(slow)).toBe(1013);
  });

  test.each<[string, (socket: RawConnection) => void, number[]]>([
    ['text that is not UTF-8', ({ socket }) => socket.write(frame(new Uint8Array([0xff, 0xfe, 0x80]))), [1007]],
    ['a frame without a mask', ({ socket }) => socket.write(new Uint8Array([0x81, 1, 0x61])), [1002]],
    ['a reserved opcode', ({ socket }) => socket.write(frame('x', 3)), [1002]],
    [
      'a frame with a huge length',
      ({ socket }) => socket.write(Buffer.from('81ff7fffffffffffffff00000000', 'hex')),
      [1009],
    ],
    [
      'a flood of messages',
      ({ socket }) => {
        const pair = ['subscribe', 'unsubscribe'].map((type) => frame(JSON.stringify({ type, entity: 'articles' })));
        socket.write(frame('{"type":"unsubscribe","entity":"articles"}'));
        socket.write(Buffer.concat(Array.from({ length: 2_000 }, () => pair).flat()));
      },
      [1008],
    ],
  ])('%s ends the connection and its lease', async (_, misbehave, codes) => {
    const socket = await subscribed(await newTenant());
    misbehave(socket);
    await socket.ended();
    // A server may also drop the connection without a close frame.
    expect([...codes, null]).toContain(closeCode(socket));
    await leasesReleased();
  });

  test('queued messages are bounded in bytes too, and handled ones no longer count', async () => {
    const { promise: handled, resolve: handle } = Promise.withResolvers<void>();
    const closed: number[] = [];
    const handler = {
      maxFrameBytes: 65_536,
      maxBufferedBytes: 1,
      open: () => {},
      hold: () => () => {},
      message: () => handled,
      close: () => {},
    };
    const transport = { send: () => {}, buffered: () => 0, close: (code: number) => void closed.push(code) };
    const connect = () => new Connection({}, handler as unknown as SocketHandler<object>, transport, () => {});
    const [waiting, flooded] = [connect(), connect()];
    for (let i = 0; i < 4; i++) waiting.receive('x'.repeat(60_000));
    handle();
    await handled;
    await setImmediate();
    for (let i = 0; i < 4; i++) waiting.receive('x'.repeat(60_000));
    expect(closed).toEqual([]);
    for (let i = 0; i < 5; i++) flooded.receive('x'.repeat(60_000));
    expect([waiting.send('{}'), flooded.send('{}')]).toEqual([true, false]);
    await until(
      () => closed.length > 0,
      4_000,
      () => 'not closed',
    );
    expect(closed).toEqual([1008]);
    flooded.finish(1008);
  });

  test('a connection without auth for ten seconds is closed with 4401 and no longer counted', async () => {
    const { unauthenticated } = realtimeOf(service.app);
    const handler = socketHandler(service.app);
    const data = await handler.upgrade(new Request('http://localhost/ws'), '127.0.0.1');
    const timers = spyOn(globalThis, 'setTimeout');
    try {
      const closed: number[] = [];
      const socket = { data, buffered: 0, send: () => true, close: (code: number) => void closed.push(code) };
      handler.open(socket as unknown as TextSocket<never>);
      const [expire, afterMs] = timers.mock.lastCall as unknown as [() => void, number];
      expect(afterMs).toBe(10_000);
      expect(unauthenticated.size).toBe(1);
      expire();
      expect([closed, unauthenticated.size]).toEqual([[4401], 0]);
      handler.close(socket as unknown as TextSocket<never>, 4401);
      expect(unauthenticated.size).toBe(0);
    } finally {
      timers.mockRestore();
    }
  });

  test('an expired token gets auth_expired; a new auth continues the subscriptions', async () => {
    const tenant = await newTenant();
    const socket = keep(await subscribeSocket(service.url, await shortToken(tenant, 600), 'articles'));
    // Retries with a longer life when the token expired before it was used.
    const present = async (seconds: number): Promise<void> => {
      const { type } = await socket.ask({ type: 'auth', token: await shortToken(tenant, seconds) });
      if (type !== 'auth_ok') await present(2 * seconds);
    };
    await present(2);
    expect(await socket.next(100_000)).toMatchObject({ type: 'error', code: 'auth_expired' });
    await tenant.post(RECORDS, { body: 'while expired' });
    expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).code).toBe('auth_expired');
    expect(await socket.ask({ type: 'auth', token: await shortToken(tenant, 600) })).toEqual({ type: 'auth_ok' });
    await tenant.post(RECORDS, { body: 'after renewal' });
    expect((await socket.next()).data.body).toBe('after renewal');
  });
});

/** The token of a new bot that expires after so many seconds. */
async function shortToken(tenant: TestTenant, seconds: number): Promise<string> {
  const id = newId();
  await service.app.db.rows(sql`
    insert into platform.bots (id, tenant_id, name, secret_hash, permissions)
    values (${id}::uuid, ${tenant.id}::uuid, ${`bot-${id}`}, '\\x00', '{"entities":{"articles":["read"]}}')`);
  const expiresAtS = Math.floor(Date.now() / 1_000) + seconds;
  return tokensOf(service.app).sign({ kind: 'bot', tenantId: tenant.id, subject: id, version: 1, expiresAtS });
}
