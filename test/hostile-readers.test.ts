// Readers that mean no good, over real TCP: one that stops reading gets what the contract says, one that half-closes
// or drops leaves no place taken and no memory behind, and nobody else notices any of it.
// Contract: interface#sse, interface#websocket, decisions#sse, decisions#websocket.
import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { tokensOf } from '../src/access/resolve-caller.ts';
import { notifyCommitted } from '../src/events/publication.ts';
import { realtimeOf } from '../src/realtime/realtime.ts';
import { socketHandler } from '../src/realtime/websocket.ts';
import { newId } from '../src/runtime/ids.ts';
import type { SocketHandler, TextSocket } from '../src/runtime/socket.ts';
import { sql } from '../src/runtime/sql.ts';
import { Connection } from '../src/serve/connection.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession } from './support/credentials.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { closeCode, frame, type RawConnection, rawGet, rawSocket, rawStream } from './support/raw.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, subscribeSocket, until } from './support/streams.ts';
import { fastest } from './support/timing.ts';

/** A thousand shows what the contract's users fear; fewer show the same. */
const DROPS = Number(process.env.DROPS ?? 200);
const MEMORY = 32 * 1_048_576;
const RECORDS = '/api/entities/articles/records';

let service: TestService;
beforeAll(async () => {
  service = await startService({ SSE_HEARTBEAT_INTERVAL_MS: '500', SSE_MAX_QUEUED_EVENTS: '20' });
});
afterAll(() => service.stop());

const keep = closeAfterEach(placesBack);
const newTenant = () => tenantWithEntities(service, ['articles'], fields('body json'));

/** More than the system's buffers hold: events of 100 KB, straight into the outbox. */
async function flood(tenant: TestTenant, entityId: string, slot: string, count: number): Promise<void> {
  await service.app.db.rows(sql`
    insert into platform.events (id, tenant_id, type, entity, entity_id, record_id, version, data, created_at, updated_at,
      triggered_by)
    select gen_random_uuid(), ${tenant.id}::uuid, 'record.created', 'articles', ${entityId}::uuid, gen_random_uuid(), 1,
      jsonb_build_object(${slot}::text, repeat('x', 100000)), now(), now(), 'api'
    from generate_series(1, ${count}::int)`);
  notifyCommitted(service.app, { tenantId: tenant.id });
}

/** Where records of the tenant keep their only field. */
async function slotOf(tenant: TestTenant): Promise<string> {
  const { id } = (await tenant.post(RECORDS, { body: 'x' })).body.data;
  const row = await service.app.db.first<{ slot: string }>(sql`
    select (select key from jsonb_each(data) limit 1) as slot from platform.events where record_id = ${id}::uuid`);
  return row?.slot ?? '';
}

async function entityIdOf(tenant: TestTenant): Promise<string> {
  return (await tenant.get('/api/entities/articles')).body.data.id;
}

const places = (kind: 'sse:' | 'ws:'): number => realtimeOf(service.app).leases.count(kind);

/** Resolves when no connection has a place any more. */
function placesBack(): Promise<void> {
  return until(
    () => places('sse:') + places('ws:') === 0,
    60_000,
    () => `${places('sse:')} and ${places('ws:')} places`,
  );
}

describe('event streams', () => {
  test('a client that stops reading gets BACKPRESSURE as its last event, and its place comes back; others get all', async () => {
    const tenant = await newTenant();
    const [slow, dead] = [
      await rawStream(service.url, tenant.slug, tenant.key),
      await rawStream(service.url, tenant.slug, tenant.key),
    ];
    for (const stream of [slow, dead]) keep(stream).socket.pause();
    const good = keep(await connectEvents(service.url, tenant.slug, tenant.key));
    await flood(tenant, await entityIdOf(tenant), await slotOf(tenant), 150);
    await until(
      () => places('sse:') === 1,
      60_000,
      () => `${places('sse:')} places`,
    );
    for (const { socket } of [slow, dead]) socket.resume();
    for (const stream of [slow, dead]) {
      await stream.ended();
      expect(stream.text).toMatch(
        /event: error\nid: \d+\ndata: \{"type":"error","code":"BACKPRESSURE",[^\n]*\n\n\S*\s*(0\s*)?$/,
      );
      expect(stream.text.split('event: record.created').length).toBeLessThan(150);
    }
    await until(
      () => good.text.split('event: record.created').length > 150,
      60_000,
      () => 'not all',
    );
    expect(good.hasEnded).toBe(false);
  });

  test('a client that only ends its own side keeps its stream, or loses it with its place', async () => {
    const tenant = await newTenant();
    const stream = keep(await rawStream(service.url, tenant.slug, tenant.key));
    stream.socket.end();
    await tenant.post(RECORDS, { body: 'after the end of its side' });
    await until(
      () => stream.text.includes('after the end') || (stream.hasEnded && places('sse:') === 0),
      60_000,
      () => stream.text,
    );
    stream.close();
    await placesBack();
  });

  test('clients that come and go leave no place taken and no memory behind', async () => {
    const tenant = await newTenant();
    const comeAndGo = async (): Promise<number> => {
      for (let i = 0; i < DROPS; i += 20) {
        await Promise.all(Array.from({ length: 20 }, () => drop(tenant)));
      }
      await placesBack();
      Bun.gc(true);
      return process.memoryUsage().rss;
    };
    let before = await comeAndGo();
    // What is left behind is left behind every time; what the runtime keeps for later is not.
    const grown = async (): Promise<number> => {
      const after = await comeAndGo();
      const more = after - before;
      before = after;
      return more;
    };
    expect(await fastest(MEMORY, grown)).toBeLessThan(MEMORY);
    while ((await service.app.broker.leaseCount(`sse:${tenant.id}`)) > 0) await Bun.sleep(10);
  });
});

/** Opens a stream and breaks it off: before the answer, within it, or some events later. */
async function drop(tenant: TestTenant): Promise<void> {
  const headers = { Authorization: `Bearer ${tenant.key}` };
  const stream = await rawGet(service.url, `/api/v1/tenants/${tenant.slug}/events/stream`, headers);
  const patience = Math.random();
  if (patience > 0.2) await stream.received('HTTP/1.1');
  if (patience > 0.5) await stream.received('event: heartbeat');
  if (patience > 0.7) stream.socket.resetAndDestroy();
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

  test('a client that stops reading is closed with 1013, and its place comes back; others get all', async () => {
    const tenant = await newTenant();
    const slow = await subscribed(tenant);
    const good = keep(await subscribeSocket(service.url, await adminSession(service, tenant), 'articles'));
    slow.socket.pause();
    const [entityId, slot] = [await entityIdOf(tenant), await slotOf(tenant)];
    await good.next();
    for (let floods = 0; places('ws:') > 1 && floods < 30; floods++) {
      await flood(tenant, entityId, slot, 8);
      for (let i = 0; i < 8; i++) expect((await good.next()).type).toBe('record.created');
    }
    // Its place comes back when it has had time to hear of it.
    await until(
      () => places('ws:') === 1,
      60_000,
      () => `${places('ws:')} places`,
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
      'a frame that says it is huge',
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
  ])('%s ends the connection, and its place comes back', async (_, misbehave, codes) => {
    const socket = await subscribed(await newTenant());
    misbehave(socket);
    await socket.ended();
    // A server may also break off without a word.
    expect([...codes, null]).toContain(closeCode(socket));
    await placesBack();
  });

  test('what waits behind a message is bounded in bytes too, and those handled make room', async () => {
    const { promise: handled, resolve: handle } = Promise.withResolvers<void>();
    const closed: number[] = [];
    const handler = {
      maxFrameBytes: 65_536,
      maxBufferedBytes: 1,
      open: () => {},
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
    expect(closed).toEqual([1008]);
    flooded.finish(1008);
  });

  test('who does not authenticate in ten seconds is closed with 4401, and waits no longer', () => {
    const { unauthenticated } = realtimeOf(service.app);
    const timers = spyOn(globalThis, 'setTimeout');
    try {
      const handler = socketHandler(service.app);
      const closed: number[] = [];
      const data = handler.upgrade(new Request('http://localhost/ws'), '127.0.0.1') as object;
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

  test('a token that runs out is auth_expired; a new auth goes on with the subscriptions from then on', async () => {
    const tenant = await newTenant();
    const socket = keep(await subscribeSocket(service.url, await shortToken(tenant, 600), 'articles'));
    // Good for as long as this machine needs to present it.
    const present = async (seconds: number): Promise<void> => {
      const { type } = await socket.ask({ type: 'auth', token: await shortToken(tenant, seconds) });
      if (type !== 'auth_ok') await present(2 * seconds);
    };
    await present(2);
    expect(await socket.next(100_000)).toMatchObject({ type: 'error', code: 'auth_expired' });
    await tenant.post(RECORDS, { body: 'unheard' });
    expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).code).toBe('auth_expired');
    expect(await socket.ask({ type: 'auth', token: await shortToken(tenant, 600) })).toEqual({ type: 'auth_ok' });
    await tenant.post(RECORDS, { body: 'heard' });
    expect((await socket.next()).data.body).toBe('heard');
  });
});

/** The token of a new bot, good for so many seconds. */
async function shortToken(tenant: TestTenant, seconds: number): Promise<string> {
  const id = newId();
  await service.app.db.rows(sql`
    insert into platform.bots (id, tenant_id, name, secret_hash, permissions)
    values (${id}::uuid, ${tenant.id}::uuid, ${`bot-${id}`}, '\\x00', '{"entities":{"articles":["read"]}}')`);
  const expiresAtS = Math.floor(Date.now() / 1_000) + seconds;
  return tokensOf(service.app).sign({ kind: 'bot', tenantId: tenant.id, subject: id, version: 1, expiresAtS });
}
