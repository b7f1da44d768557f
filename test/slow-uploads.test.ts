// Request bodies that arrive a byte a second end with 408, and hold nothing that another tenant needs. If nobody reads such a
// body, its connection is closed.
// Contract: neighbours#byte-budgets.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { connect } from 'node:net';
import process from 'node:process';
import { deadlineOf, steady } from '../src/http/body-progress.ts';
import { LIMITS } from '../src/limits.ts';
import { createEntity, fields } from './support/entities.ts';
import { rawGet } from './support/raw.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const UPLOADS = 200;
const MEMORY_MAX = 100_000_000;
let service: TestService;
let slow: TestTenant;
let other: TestTenant;

beforeAll(async () => {
  service = await startService();
  [slow, other] = [await service.tenant(), await service.tenant()];
  for (const tenant of [slow, other]) await createEntity(tenant, 'task', fields('title text'));
});
afterAll(() => service?.stop());

const isOnDeno = process.env.SERVICE_RUNTIME === 'deno';

/** Sends a byte of a body every second. Resolves to the response's first line when the server has closed, or answered on Deno. */
function upload(path: string, type: string, length: string): Promise<string> {
  const { port, hostname } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: ${hostname}`,
    `X-API-Key: ${slow.key}`,
    `Content-Type: ${type}`,
    length,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  const part = length.startsWith('Transfer') ? '1\r\n \r\n' : ' ';
  const timer = setInterval(() => socket.write(part), 1_000);
  return new Promise((resolve) => {
    let received = '';
    const end = (): void => {
      clearInterval(timer);
      socket.destroy();
      resolve(received.slice(0, received.indexOf('\r\n')));
    };
    socket.on('data', (data) => {
      received += data;
      // The runtime keeps the connection until its client closes it.
      if (isOnDeno && received.includes('REQUEST_TIMEOUT')) end();
    });
    socket.on('close', end);
    socket.on('error', () => undefined);
  });
}

test('200 uploads of a byte a second end with 408, beside which another tenant writes and reads', async () => {
  const records = '/api/entities/task/records';
  const before = process.memoryUsage.rss();
  const kinds = [
    () => upload(records, 'application/json', 'Content-Length: 300'),
    () => upload(records, 'application/json', 'Content-Length: 900000'),
    () => upload(records, 'application/json', 'Transfer-Encoding: chunked'),
    () => upload(`${records}/import`, 'application/x-ndjson', 'Content-Length: 90000000'),
    () => upload(`${records}/import`, 'application/x-ndjson', 'Transfer-Encoding: chunked'),
  ];
  let open = UPLOADS;
  const uploads = Array.from({ length: UPLOADS }, async (_, i) => {
    const answer = await (kinds[i % kinds.length] as () => Promise<string>)();
    open -= 1;
    return answer;
  });
  const statuses = new Set<number>();
  while (open > 0) {
    statuses.add((await other.post(records, { title: 'x' })).status);
    statuses.add((await other.get(`${records}?limit=1`)).status);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  expect(statuses).toEqual(new Set([201, 200]));
  expect(new Set(await Promise.all(uploads))).toEqual(new Set(['HTTP/1.1 408 Request Timeout']));
  expect(process.memoryUsage.rss() - before).toBeLessThan(MEMORY_MAX);
}, 120_000);

test('a body may take as long as it has a kilobyte a second, and time in which it is not read does not count', async () => {
  const { graceMs, bytesPerSecond } = LIMITS.body;
  expect(deadlineOf(100 * bytesPerSecond)).toBe(graceMs + 100_000);
  const sent = [new Uint8Array(10), new Uint8Array(20)];
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const chunk = sent.shift();
      if (chunk === undefined) controller.close();
      else controller.enqueue(chunk);
    },
  });
  const sizes: number[] = [];
  for await (const { byteLength } of steady(body)) sizes.push(byteLength);
  expect(sizes).toEqual([10, 20]);
});

test('a body in chunks of a byte leaves the event loop to others between them', async () => {
  let left = 300_000;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (left-- > 0) controller.enqueue(new Uint8Array(1));
      else controller.close();
    },
  });
  let turns = 0;
  let isReading = true;
  const turn = (): void => {
    turns++;
    if (isReading) setImmediate(turn);
  };
  setImmediate(turn);
  let bytes = 0;
  for await (const chunk of steady(body)) bytes += chunk.byteLength;
  isReading = false;
  expect(bytes).toBe(300_000);
  expect(turns).toBeGreaterThan(5);
});

test.each([
  ['an unknown credential', 401, 'POST', '/api/entities/task/records', { 'X-API-Key': 'svc_ak_unknown' }],
  ['an unknown path', 404, 'POST', '/api/nothing', {}],
  ['more bytes than allowed', 413, 'POST', '/api/entities/task/records', null],
  ['a credential that may not import', 403, 'POST', '/api/admin/platform/tenants/import', null],
  ['a probe', 200, 'GET', '/health', {}],
  ['a request that takes none', 200, 'GET', '/api/entities', null],
])(
  'a body without end gets its response, and its connection is closed: %s, %i',
  async (_, status, method, path, credential) => {
    const headers = { ...(credential ?? { 'X-API-Key': slow.key }), 'Content-Type': 'application/json' };
    const lengths: Record<string, string>[] = [
      { 'Content-Length': String(2 ** 39) },
      { 'Transfer-Encoding': 'chunked' },
    ];
    for (const length of lengths) {
      const sending = await rawGet(service.url, path, { ...headers, ...length }, method);
      const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`;
      const timer = setInterval(() => sending.socket.write(chunk), 5);
      // Deno goes on receiving the body after the response, until its client stops.
      const over = isOnDeno ? sending.received('\r\n\r\n', 10_000) : sending.ended(10_000);
      await over.finally(() => clearInterval(timer));
      expect(sending.status).toBe(status);
      sending.close();
    }
  },
);
