// The client while its service is killed with SIGKILL and started again, behind a proxy that also cuts the connections: the
// feed, the event stream and the WebSocket each show every change once, the changes of a record in order, and each creation is
// made once.
// Contract: feed#guarantee, feed#resume, decisions#idempotency.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { createClient } from '../client/src/client.ts';
import { type CuttingProxy, cuttingProxy } from './support/cutting-proxy.ts';
import { createEntity, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { createTenant, type TestTenant } from './support/service.ts';
import { endAll } from './support/started.ts';

const RECORDS = 60;
const KILLED_AFTER = [15, 35];
const LAST = 'the last';

let stores: SharedStores;
let service: ServiceProcess;
let proxy: CuttingProxy;
let tenant: TestTenant;
beforeAll(async () => {
  stores = await sharedStores();
  service = await startServiceProcess(environment());
  proxy = await cuttingProxy(Number(new URL(service.url).port));
  tenant = await createTenant(service.url);
  await createEntity(tenant, 'deals', fields('title text', 'amount integer'));
});
afterAll(async () => {
  proxy.close();
  await endAll();
  await stores.remove();
});

const environment = () => ({ ...stores.environment, SSE_HEARTBEAT_INTERVAL_MS: '200' });
const through = (retries: number) =>
  createClient({ url: proxy.address(service.url), tenant: tenant.slug, credential: tenant.key, retries });

interface Seen {
  event: string;
  data: object;
}

/** What a sequence shows until the last record comes. */
async function seenBy(sequence: AsyncIterable<Seen>): Promise<string[]> {
  const seen: string[] = [];
  for await (const { event, data } of sequence) {
    const { title, amount } = data as { title: string; amount: number | null };
    if (title === LAST) break;
    seen.push(`${title} ${event} ${amount ?? ''}`.trim());
  }
  return seen;
}

async function restart(): Promise<void> {
  await service.kill();
  service = await startServiceProcess(environment());
  proxy.lead(Number(new URL(service.url).port));
}

test('changes and live events continue after the service is killed: nothing is lost, nothing comes twice, and nothing is written twice', async () => {
  const client = through(0);
  const begun: Promise<void>[] = [];
  const beginning = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    begun.push(promise);
    return resolve;
  };
  const entities = ['deals'];
  const followers = [
    seenBy(client.changes({ entities, wait: 5, onCursor: beginning() })),
    seenBy(client.live({ entities, onOpen: beginning() })),
    seenBy(client.live({ entities, transport: 'websocket', onOpen: beginning() })),
  ];
  await Promise.all(begun);
  const writer = through(60).records('deals');
  let restarting: Promise<void> | undefined;
  const expected: string[] = [];
  for (let i = 0; i < RECORDS; i++) {
    const title = `deal ${i}`;
    if (KILLED_AFTER.includes(i)) restarting = restart();
    else if (i % 7 === 0) proxy.cutAll();
    const { id } = await writer.create({ title, amount: i });
    // In a request that is all or nothing, a change can be sent again too.
    await writer.bulk([{ op: 'update', id, data: { amount: -i } }]);
    expected.push(`${title} record.created ${i}`, `${title} record.updated ${-i}`);
  }
  await restarting;
  await writer.create({ title: LAST });
  for (const seen of await Promise.all(followers)) {
    expect(seen.toSorted()).toEqual(expected.toSorted());
    for (let i = 0; i < RECORDS; i++) {
      const own = seen.filter((line) => line.startsWith(`deal ${i} `));
      expect(own).toEqual([`deal ${i} record.created ${i}`, `deal ${i} record.updated ${-i}`]);
    }
  }
  expect((await writer.list({ limit: 1 })).total).toBe(RECORDS + 1);
}, 120_000);

test('a stream and a socket that say nothing are given up, and followed from where they were', async () => {
  for (const transport of ['sse', 'websocket'] as const) {
    const title = `in silence, ${transport}`;
    const lost: string[] = [];
    let opened = 0;
    const sequence = through(0).live({
      entities: ['deals'],
      transport,
      silenceMs: 2_000,
      onOpen: () => {
        opened += 1;
        // The connection stays open, and nothing comes through.
        if (opened === 1) proxy.silence(true);
      },
      onRetry: ({ error }) => {
        lost.push(error.name);
        proxy.silence(false);
      },
    });
    const next = sequence.next();
    while (opened === 0) await Bun.sleep(10);
    await createClient({ url: service.url, credential: tenant.key }).records('deals').create({ title });
    expect((await next).value?.data).toMatchObject({ title });
    expect([opened > 1, lost[0]]).toEqual([true, 'ConnectionError']);
    await sequence.return();
  }
}, 120_000);
