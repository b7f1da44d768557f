// One request's trace over two processes, as a real OTLP receiver gets it: whichever process relays the event or makes an
// attempt, its span continues the request's trace, and so does the span of a retry. Contract: neighbours#who-does-what.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { type CollectedSpan, type Collector, startCollector } from './support/collector.ts';
import { createEntity, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { clientOf, createTenant, type TestTenant } from './support/service.ts';
import { endAll } from './support/started.ts';
import { connectEvents } from './support/streams.ts';

const NAMES = ['first', 'second'];
const PARENT = 'b7ad6b7169203331';
const REQUESTS = 12;
let stores: SharedStores;
let collector: Collector;
let receiver: Receiver;
let processes: ServiceProcess[] = [];
beforeAll(async () => {
  [stores, receiver] = await Promise.all([sharedStores(), startReceiver()]);
  collector = startCollector();
  if (stores.redisUrl === undefined) return;
  const start = (name: string) =>
    startServiceProcess({
      ...stores.environment,
      WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
      WEBHOOK_RETRY_BASE_MS: '50',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_SERVICE_NAME: name,
      OTEL_BSP_SCHEDULE_DELAY: '50',
    });
  processes = await Promise.all(NAMES.map(start));
});
afterAll(async () => {
  await endAll();
  await Promise.all([stores.remove(), receiver.stop(), collector.stop()]);
});

async function subscribed(): Promise<TestTenant> {
  const tenant = await createTenant(processes[0]?.url as string);
  await createEntity(tenant, 'orders', fields('title text'));
  const event_types = ['record.created'];
  const made = await tenant.post('/api/webhooks/subscriptions', {
    entity_name: 'orders',
    event_types,
    url: receiver.url,
  });
  expect(made.status, made.text).toBe(201);
  return tenant;
}

const attemptsIn = (spans: readonly CollectedSpan[]): CollectedSpan[] => spans.filter(({ name }) => name === 'POST');
const startsWith = (spans: readonly CollectedSpan[], name: string) =>
  spans.filter((span) => span.name.startsWith(name));

test('request, statement, relay and each attempt are one trace, whichever of two processes does the work', async () => {
  // Without Redis there is only one process: nothing to test.
  if (stores.redisUrl === undefined) return expect(processes).toEqual([]);
  const { key, slug } = await subscribed();
  // Only events with a follower are relayed.
  const streams = await Promise.all(processes.map(({ url }) => connectEvents(url, slug, key)));
  // The first attempt of each delivery fails, the second is accepted.
  const seen = new Map<string, number>();
  receiver.answer = ({ headers }, response) => {
    const traceId = headers.traceparent?.split('-')[1] ?? '';
    const attempts = (seen.get(traceId) ?? 0) + 1;
    seen.set(traceId, attempts);
    response.writeHead(attempts === 1 ? 500 : 200).end();
  };
  const services = new Set<string>();
  for (let i = 0; i < REQUESTS; i++) {
    const at = clientOf(processes[i % 2]?.url as string, { 'x-api-key': key });
    const traceId = crypto.randomUUID().replaceAll('-', '');
    const headers = { traceparent: `00-${traceId}-${PARENT}-01` };
    expect((await at.post('/api/entities/orders/records', { title: `${i}` }, headers)).status).toBe(201);
    const isWhole = (spans: readonly CollectedSpan[]) =>
      attemptsIn(spans).length === 2 &&
      ['POST /api', 'INSERT', 'relay'].every((name) => startsWith(spans, name).length > 0);
    const spans = await collector.trace(traceId, isWhole);
    const [request] = startsWith(spans, 'POST /api');
    expect(request).toMatchObject({ parentSpanId: PARENT, service: NAMES[i % 2] as string });
    for (const span of spans) {
      if (span !== request) expect([span.name, span.parentSpanId]).toEqual([span.name, request?.spanId as string]);
      services.add(`${span.name.split(' ')[0]} by ${span.service === request?.service ? 'the same' : 'the other'}`);
    }
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
    const sent = receiver.received.filter(({ headers }) => headers.traceparent?.includes(traceId));
    expect(sent.map(({ headers }) => headers.traceparent)).toEqual(
      attemptsIn(spans).map(({ spanId }) => `00-${traceId}-${spanId}-01`),
    );
  }
  for (const stream of streams) stream.close();
  // One process is the relay: half of the events were relayed by another process than the one that was asked.
  expect(services).toContain('relay by the same');
  expect(services).toContain('relay by the other');
}, 120_000);
