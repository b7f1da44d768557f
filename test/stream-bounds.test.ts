// Live streams under the worst load that one tenant may cause: large events to many readers, some of which read nothing, and
// streams that open while others write. Contract: neighbours#fair-shares, decisions#events, decisions#sse.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '../src/limits.ts';
import { realtimeOf } from '../src/realtime/realtime.ts';
import { closeAfterEach } from './support/connections.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { rawStream } from './support/raw.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { sized } from './support/sizes.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';
import { connectEvents, until } from './support/streams.ts';

/** What waits is known in the service's own process only. */
const IS_OTHER_PROCESS = process.env.SERVICE_RUNTIME === 'deno';
const RECORDS = '/api/entities/articles/records';
const LARGE = 900_000;

let service: TestService;
beforeAll(async () => {
  // Only bytes end a stream here: no count of events, and no time.
  service = await startService({ SSE_MAX_QUEUED_EVENTS: '10000' });
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const newTenant = (): Promise<TestTenant> => tenantWithEntities(service, ['articles'], fields('body json'));

/** Creates records of `LARGE` bytes, one after the other, until `isEnough`. Resolves to their number. */
async function writeLarge(tenant: TestTenant, max: number, isEnough: () => boolean = () => false): Promise<number> {
  let count = 0;
  for (; count < max && !isEnough(); count++) {
    const answer = await tenant.post(RECORDS, { body: 'x'.repeat(LARGE) });
    expect(answer.status).toBe(201);
  }
  return count;
}

/** The most bytes that wait for the tenant's streams, from `start` until the reading one has received every event. */
async function mostWaiting(
  tenant: TestTenant,
  start: () => Promise<{ reading: Awaited<ReturnType<typeof connectEvents>>; count: number }>,
): Promise<number> {
  let most = 0;
  const sample = setInterval(() => {
    if (!IS_OTHER_PROCESS) most = Math.max(most, realtimeOf(service.app).waitingOf(tenant.id).total);
  }, 5);
  const { reading, count } = await start();
  const received = (): number => reading.text.split('event: record.created').length - 1;
  await until(
    () => received() === count && (IS_OTHER_PROCESS || most > 0),
    60_000,
    () => `${received()} of ${count}, ${most} bytes waited`,
  );
  clearInterval(sample);
  expect(reading.hasEnded).toBe(false);
  return most;
}

test('the events that wait for a tenant’s readers take at most 32 MiB; a client that reads gets every event', async () => {
  const tenant = await newTenant();
  for (let i = 0; i < 8; i++) keep(await rawStream(service.url, tenant.slug, tenant.key)).socket.pause();
  const reading = keep(await connectEvents(service.url, tenant.slug, tenant.key));
  const most = await mostWaiting(tenant, async () => ({ reading, count: await writeLarge(tenant, sized(60)) }));
  // Events are handed out a few at a time before the room is looked at again.
  expect(most).toBeLessThan(LIMITS.events.waitingBytes + 8 * LIMITS.recordBytesMax);
}, 120_000);

/** The keys of roles that each see other fields of the records than all the others. */
async function keysOfRoles(tenant: TestTenant, count: number): Promise<string[]> {
  const bits = Array.from({ length: 6 }, (_, bit) => `f${bit}`);
  const entity = { name: 'seen', fields: fields('body text', ...bits.map((key) => `${key} text`)) };
  expect((await tenant.post('/api/entities', entity)).status).toBe(201);
  const names = Array.from({ length: count }, (_, i) => `r${i}`);
  for (const [i, name] of names.entries()) {
    const excludeFields = bits.filter((_, bit) => (i >> bit) & 1);
    const role = { name, permissions: { seen: ['read'] }, entities: { seen: { excludeFields } } };
    expect((await tenant.post('/api/roles', role)).status).toBe(201);
  }
  const permissions = { seen: Object.fromEntries(names.map((name) => [name, ['read']])) };
  const api = await tenant.post('/api/apis', { name: 'seen', slug: 'seen', roles: names, permissions });
  const path = `/api/apis/${api.body.data.id}/keys`;
  const issued = await Promise.all(names.map((role) => tenant.post(path, { role, label: role, ttlDays: 1 })));
  return issued.map(({ body }) => body.data.key);
}

test.each([
  ['events of 900 KB', 12, LARGE, 1],
  ['events of 15 KB', 600, 15_000, 50],
])(
  'the events of which each of 20 streams sees another part wait in at most 32 MiB: %s',
  async (_, count, bytes, atOnce) => {
    const tenant = await newTenant();
    const [first = '', ...others] = await keysOfRoles(tenant, 20);
    for (const key of others) keep(await rawStream(service.url, tenant.slug, key)).socket.pause();
    const reading = keep(await connectEvents(service.url, tenant.slug, first));
    const most = await mostWaiting(tenant, async () => {
      const operations = Array.from({ length: atOnce }, () => ({ op: 'create', data: { body: 'x'.repeat(bytes) } }));
      for (let i = 0; i < count; i += atOnce) {
        expect((await tenant.post('/api/entities/seen/records/bulk', { operations })).status).toBe(200);
      }
      return { reading, count };
    });
    expect(most).toBeLessThan(LIMITS.events.waitingBytes + 4 * LIMITS.recordBytesMax);
  },
  120_000,
);

test('pages of streams that replay, and read nothing, take at most 32 MiB; a stream that reads gets every event', async () => {
  const tenant = await newTenant();
  const count = await writeLarge(tenant, sized(12, 2));
  const query = '?since=earliest';
  const stalled = await Promise.all(
    Array.from({ length: 20 }, async () => keep(await rawStream(service.url, tenant.slug, tenant.key, query))),
  );
  for (const { socket } of stalled) socket.pause();
  const most = await mostWaiting(tenant, async () => ({
    reading: keep(await connectEvents(service.url, tenant.slug, tenant.key, query)),
    count,
  }));
  // Disconnected streams keep the rest of an event for a while.
  expect(most).toBeLessThan(LIMITS.replay.heldBytes + 8 * LIMITS.recordBytesMax);
}, 120_000);

test('events of 900 KB to 20 streams do not stall the service', async () => {
  const tenant = await newTenant();
  const streams = await Promise.all(
    Array.from({ length: 20 }, async () => keep(await rawStream(service.url, tenant.slug, tenant.key))),
  );
  let bytes = 0;
  for (const { socket } of streams) socket.on('data', (chunk) => (bytes += chunk.length));
  for (const { socket } of streams.slice(15)) socket.pause();
  const { stallMs } = await measureStall(async () => {
    const count = await writeLarge(tenant, 4);
    await until(
      () => bytes >= count * 15 * LARGE,
      60_000,
      () => `${bytes} bytes`,
    );
  });
  expect(stallMs).toBeLessThan(STALL_MAX_MS);
}, 120_000);

test('each of 50 streams that open while other tenants write in bulk gets its first event', async () => {
  const [tenant, busy] = [await newTenant(), await newTenant()];
  keep(await connectEvents(service.url, busy.slug, busy.key));
  let isOver = false;
  const operations = Array.from({ length: 100 }, (_, i) => ({ op: 'create', data: { body: i } }));
  const writing = (async () => {
    for (; !isOver; await delay(5)) await busy.post(`${RECORDS}/bulk`, { operations });
  })();
  try {
    for (let i = 0; i < 50; i++) {
      const stream = await connectEvents(service.url, tenant.slug, tenant.key);
      try {
        const { id } = (await tenant.post(RECORDS, { body: i })).body.data;
        // Far above what it takes, and far below the wait of a stream whose subscription was missed.
        expect((await stream.next(10_000)).data.record_id).toBe(id);
      } finally {
        stream.close();
      }
    }
  } finally {
    isOver = true;
    await writing;
  }
}, 120_000);
