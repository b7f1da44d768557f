// Both runtimes behind src/serve, over real sockets and in separate processes: they behave alike.
// Contract: decisions#responses, decisions#operations, decisions#websocket.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { MAX_BODY, MAX_FRAME } from './support/serve-app.ts';
import { Client, type RuntimeName, Served } from './support/served.ts';

const HANDSHAKE = [
  'GET /ws?name=raw HTTP/1.1',
  'Host: 127.0.0.1',
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Version: 13',
];
const KEY = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
const lines = (...parts: string[]): string => `${parts.join('\r\n')}\r\n\r\n`;

function chunked(bytes: number): string {
  const head = lines('POST /size HTTP/1.1', 'Host: 127.0.0.1', 'Transfer-Encoding: chunked', 'Connection: close');
  return `${head}${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n0\r\n\r\n`;
}

for (const runtime of ['Bun', 'Deno'] as RuntimeName[]) {
  describe(`on ${runtime}`, () => {
    let server: Served;
    beforeAll(async () => {
      server = await Served.start(runtime);
    });
    afterAll(() => server.end());

    test('the application gets the client’s address', async () => {
      expect(await fetch(`${server.url}/address`).then((answer) => answer.text())).toBe('127.0.0.1');
    });

    test('a body up to the limit is passed on, a larger one gets 413 in the envelope', async () => {
      const send = (bytes: number) => fetch(`${server.url}/size`, { method: 'POST', body: 'x'.repeat(bytes) });
      expect(await (await send(MAX_BODY)).text()).toBe(String(MAX_BODY));
      const refused = await send(MAX_BODY + 1);
      expect(refused.status).toBe(413);
      expect(refused.headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(await refused.json()).toMatchObject({ success: false, error: { code: 'PAYLOAD_TOO_LARGE' } });
    });

    test('a chunked body is passed on up to the limit', async () => {
      expect(await server.raw(chunked(900))).toEndWith('900');
      const answer = await server.raw(chunked(MAX_BODY * 10));
      expect(answer).toStartWith('HTTP/1.1 413');
    });

    test('on Bun, a connection that sends no request, or a byte of one now and then, is closed', async () => {
      if (runtime !== 'Bun') return;
      const [silent, slow] = [server.dial(), server.dial()];
      slow.write('GET / HTTP/1.1\r\nX-Slow: ');
      slow.on('error', () => undefined);
      const dripping = setInterval(() => slow.write('a'), 200);
      await Promise.all([silent, slow].map((socket) => once(socket, 'close')));
      clearInterval(dripping);
    }, 60_000);

    test('on Bun, idle connections make room for new ones when file descriptors run short', async () => {
      if (runtime !== 'Bun') return;
      const own = await Served.startWith(128, runtime);
      const sockets = Array.from({ length: 200 }, () => own.dial());
      for (const socket of sockets) socket.write(lines('GET /address HTTP/1.1', 'Host: 127.0.0.1'));
      await Promise.all(sockets.map((socket) => once(socket, 'data')));
      for (const socket of sockets) socket.destroy();
      await own.end();
    }, 20_000);

    test('of requests that arrive at once, those of one client do not delay those of others', async () => {
      const own = await Served.start(runtime);
      const opened = async () => {
        const socket = own.dial();
        await once(socket, 'connect');
        return socket;
      };
      const [first, many, other] = [
        await opened(),
        await Promise.all(Array.from({ length: 200 }, opened)),
        await opened(),
      ];
      const ask = (socket: Socket, ms: number, key: string) =>
        socket.write(lines(`GET /busy?ms=${ms} HTTP/1.1`, 'Host: 127.0.0.1', `Authorization: Bearer ${key}`));
      // All of them arrive while this one is answered.
      ask(first, 500, 'many');
      await delay(100);
      for (const socket of many) ask(socket, 2, 'many');
      await delay(100);
      ask(other, 2, 'other');
      const [response] = await once(other, 'data');
      const before = Number(String(response).split('\r\n\r\n')[1]);
      for (const socket of [first, other, ...many]) socket.destroy();
      await own.end();
      expect(before).toBeGreaterThan(0);
      expect(before).toBeLessThan(50);
    }, 20_000);

    test('an unhandled error is reported and gets a fixed answer', async () => {
      const answer = await fetch(`${server.url}/fail`);
      expect(answer.status).toBe(500);
      expect(await answer.json()).toEqual({
        success: false,
        error: { code: 'INTERNAL_ERROR', message: 'internal error' },
      });
      expect(await server.log()).toContain('report secret detail');
    });

    test('the application answers a plain GET on the WebSocket path', async () => {
      const answer = await fetch(`${server.url}/ws`);
      expect([answer.status, await answer.text()]).toEqual([404, '/ws']);
    });

    test('an incomplete handshake gets 400 in the envelope', async () => {
      const answer = await server.raw(lines(...HANDSHAKE));
      expect(answer).toStartWith('HTTP/1.1 400');
      expect(answer).toContain('"code":"VALIDATION_ERROR"');
      const tooOld = HANDSHAKE.map((line) => line.replace('Version: 13', 'Version: 8'));
      expect(await server.raw(lines(...tooOld, KEY))).toStartWith('HTTP/1.1 400');
    });

    test('a connection can be rejected before it opens', async () => {
      await expect(Client.open(server.port, '?name=refused')).rejects.toThrow('refused');
      expect(await server.log()).not.toContain('open refused@127.0.0.1');
    });

    test('messages are handled in order', async () => {
      const client = await Client.open(server.port, '?name=order');
      client.ws.send('slow one');
      client.ws.send('two');
      expect([await client.message(1), await client.message(2)]).toEqual(['echo slow one', 'echo two']);
      client.ws.close(1000);
      await client.closed;
      expect(await server.logged('close order')).toContain('close order@127.0.0.1 1000');
    });

    test.each([
      ['a binary frame', new Uint8Array([1, 2]), 1003],
      ['a frame over the limit', 'x'.repeat(MAX_FRAME + 1), 1009],
      ['a handler that fails', 'fail', 1011],
      ['a code of the application’s own', 'bye', 4401],
    ])('%s closes the connection with its code', async (_what, frame, code) => {
      const client = await Client.open(server.port, '?name=code');
      client.ws.send(frame);
      expect(await client.closed).toBe(code);
    });

    test('a frame of exactly the limit is accepted', async () => {
      const client = await Client.open(server.port);
      client.ws.send('x'.repeat(MAX_FRAME));
      expect(await client.message(1)).toBe(`echo ${'x'.repeat(50)}`);
      client.ws.close();
    });

    test('an error while opening closes with 1011', async () => {
      const client = await Client.open(server.port, '?name=broken');
      expect(await client.closed).toBe(1011);
    });

    test('a burst to a reading client is delivered completely', async () => {
      const client = await Client.open(server.port, '?name=burst');
      client.ws.send('burst2000');
      expect(await client.message(2001)).toBe('echo burst2000');
      client.ws.close();
    });

    test('a client that does not read is disconnected before it exhausts memory', async () => {
      const socket = server.dial();
      socket.write(lines(...HANDSHAKE, KEY));
      await once(socket, 'data');
      socket.pause();
      const mask = Buffer.from([0x81, 0x85, 0, 0, 0, 0]);
      socket.write(Buffer.concat([mask, Buffer.from('flood')]));
      const seen = await server.logged('flood');
      expect(seen).toContain('flood stopped');
      // The client neither reads nor disconnects; the connection is closed anyway.
      expect(await server.logged('close raw')).toContainEqual(expect.stringMatching(/^close raw@127\.0\.0\.1 \d+$/));
      socket.destroy();
    });

    test('a broken connection is closed exactly once, with 1006', async () => {
      const socket = server.dial();
      socket.write(lines(...HANDSHAKE.map((line) => line.replace('raw', 'cut')), KEY));
      await once(socket, 'data');
      socket.resetAndDestroy();
      await server.logged('close cut');
      const closes = (await server.log()).filter((line) => line.startsWith('close cut'));
      expect(closes).toEqual(['close cut@127.0.0.1 1006']);
    });

    test('an address in use is reported by a clear error', async () => {
      const second = await Served.start(runtime, server.port);
      expect(second.error).toBe(`cannot listen on 127.0.0.1:${server.port}: the address is already in use`);
      await second.end();
    });

    test('processes may share the port if all of them ask for it', async () => {
      const first = await Served.start(runtime, 0, 'reuse');
      const second = await Served.start(runtime, first.port, 'reuse');
      expect([first.error, second.error, second.port]).toEqual([undefined, undefined, first.port]);
      await Promise.all([first.end(), second.end()]);
    });

    test('a stop refuses new connections, closes WebSockets with 1001 and waits for requests in flight', async () => {
      const own = await Served.start(runtime);
      const client = await Client.open(own.port);
      const slow = fetch(`${own.url}/slow`).then((answer) => answer.text());
      await own.logged('slow begins');
      // The process exits once it has stopped, which would abort any request that it had not waited for.
      const stopped = own.stop('stop');
      expect(await client.closed).toBe(1001);
      await expect(fetch(`${own.url}/address`)).rejects.toThrow();
      expect(await slow).toBe('/slow');
      await stopped;
      await own.end();
    });

    test.each([
      ['at once', false],
      ['during a graceful stop', true],
    ])('a forced stop %s aborts running requests', async (_when, waits) => {
      const own = await Served.start(runtime);
      const endless = fetch(`${own.url}/endless`).then(
        () => 'answered',
        () => 'aborted',
      );
      await own.logged('endless begins');
      if (waits) void own.stop('stop');
      await own.stop('force');
      expect(await endless).toBe('aborted');
      await own.end();
    });
  });
}
