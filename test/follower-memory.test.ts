// Memory of the process while many streams replay the feed from far back, on the stores of two processes; the service is a
// process of its own. The limit allows for a busy machine, on which garbage is collected late. Without turns, the streams' reads
// would fill the queue for the database's connections: the tenant's calls would get 503, and streams would be closed.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { createLog } from '../src/runtime/log.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { closeAfterEach } from './support/connections.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { growthOf } from './support/memory.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type RawConnection, rawStream } from './support/raw.ts';
import { createTenant, type TestTenant } from './support/service.ts';
import { endAll } from './support/started.ts';
import { until } from './support/streams.ts';

const STREAMS = 100;
/** Resolves after this many bytes of each stream, or as many as a busy machine manages. */
const PAGES_MS = 6_000;
const GROWTH_MAX_MIB = 480;
/** Without turns, half of the streams and more were closed; a process that has just started on a busy machine may close a few. */
const CLOSED_MAX = 10;

let stores: SharedStores;
let service: ServiceProcess;
let db: Database;
beforeAll(async () => {
  stores = await sharedStores();
  service = await startServiceProcess({ ...stores.environment, RATE_LIMIT_PER_MIN: '1000000' });
  db = openDatabase({ url: stores.databaseUrl, log: createLog({ level: 'error', write: () => undefined }) });
}, 120_000);
afterAll(async () => {
  await db?.close();
  await endAll();
  await stores.remove();
});
const keep = closeAfterEach();

/** A tenant with so many events of one large record, made in the database. */
async function withEvents(bytes: number, count: number): Promise<{ tenant: TestTenant; path: string }> {
  const tenant = await createTenant(service.url);
  const path = await createEntity(tenant, 'notes', fields('body text'));
  const { id } = await createRecord(tenant, path, { body: 'x'.repeat(bytes) });
  await db.exec(`insert into platform.events
      (id, tenant_id, entity_id, entity, record_id, type, version, data, created_at, updated_at, triggered_by, actor)
    select gen_random_uuid(), tenant_id, entity_id, entity, record_id, 'record.updated', n + 1, data, created_at,
      updated_at, triggered_by, actor
    from platform.events, generate_series(1, ${count - 1}) as n where record_id = '${id}'`);
  return { tenant, path };
}

/** Opens streams that replay everything; what they receive is counted and dropped. */
async function replaying(tenant: TestTenant): Promise<{ streams: RawConnection[]; received: number[] }> {
  const received: number[] = [];
  const streams = await Promise.all(
    Array.from({ length: STREAMS }, async (_, i) => {
      const stream = keep(await rawStream(service.url, tenant.slug, tenant.key, '?since=earliest'));
      received[i] = 0;
      stream.socket.removeAllListeners('data');
      stream.socket.on('data', (text) => (received[i] = (received[i] ?? 0) + text.length));
      return stream;
    }),
  );
  return { streams, received };
}

for (const [bytes, count] of [
  [200, 20_000],
  [20_000, 3_000],
  [900_000, 150],
] as const) {
  test(`a hundred streams that replay events of ${bytes} bytes hold few at once, make progress, and leave room for their tenant's calls`, async () => {
    const { tenant, path } = await withEvents(bytes, count);
    const statuses = new Set<number>();
    const { grownMiB, result } = await growthOf(service.pid, async () => {
      const { streams, received } = await replaying(tenant);
      const endsAt = Date.now() + PAGES_MS;
      while (Date.now() < endsAt) statuses.add((await tenant.get(`${path}?limit=1`)).status);
      await until(
        () => streams.every(({ hasEnded }, i) => hasEnded || (received[i] ?? 0) > bytes),
        60_000,
        () => `an open stream received ${Math.min(...received)} bytes`,
      );
      return streams.filter(({ hasEnded }) => hasEnded).length;
    });
    expect(result).toBeLessThanOrEqual(CLOSED_MAX);
    expect([...statuses]).toEqual([200]);
    expect(grownMiB).toBeLessThan(GROWTH_MAX_MIB);
  }, 120_000);
}
