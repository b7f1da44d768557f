// The event streams that all tenants share: when all are in use, a tenant that has few still gets one, because the tenant with
// the most loses its oldest stream. A tenant's own streams are never taken away.
// Contract: interface#limits, neighbours#fair-shares.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { closeAfterEach } from './support/connections.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, type EventStream, openEvents } from './support/streams.ts';

const { keptPerTenant } = LIMITS.streams;
const TOTAL = 2 * keptPerTenant + 4;

let service: TestService;
beforeAll(async () => {
  service = await startService({ SSE_MAX_CONNECTIONS_GLOBAL: String(TOTAL) });
  // Streams of a process that an earlier test killed count until they expire.
  if (process.env.SERVICE_RUNTIME !== 'deno')
    while ((await service.app.broker.leaseCount('sse')) > 0) await Bun.sleep(50);
}, 60_000);
afterAll(() => service.stop());

const keep = closeAfterEach();
const open = async ({ slug, key }: TestTenant): Promise<EventStream> =>
  keep(await connectEvents(service.url, slug, key));

async function openMany(tenant: TestTenant, count: number): Promise<EventStream[]> {
  const streams: EventStream[] = [];
  for (let i = 0; i < count; i++) streams.push(await open(tenant));
  return streams;
}

const isRefused = async ({ slug, key }: TestTenant): Promise<boolean> =>
  keep(await openEvents(service.url, slug, key)).status === 429;

test('a tenant without streams finds a place when two others have taken all; the one with the most gives up its oldest', async () => {
  const [first, second, newcomer] = [await service.tenant(), await service.tenant(), await service.tenant()];
  const most = await openMany(first, keptPerTenant + 3);
  const others = await openMany(second, keptPerTenant + 1);
  expect(await isRefused(first)).toBe(true);
  const own = await open(newcomer);
  await most[0]?.ended();
  expect(most.slice(1).some(({ hasEnded }) => hasEnded)).toBe(false);
  expect(await isRefused(first)).toBe(true);
  await open(newcomer);
  await most[1]?.ended();
  await Promise.all([own, ...others, ...most.slice(2)].map((stream) => expect(stream.hasEnded).toBe(false)));
});

test('a tenant keeps its first streams, whoever wants a place', async () => {
  const small = await Promise.all([1, 2, 3].map(() => service.tenant()));
  const size = Math.ceil(TOTAL / small.length);
  expect(size).toBeLessThanOrEqual(keptPerTenant);
  for (const tenant of small) await openMany(tenant, size);
  expect(await isRefused(await service.tenant())).toBe(true);
});
