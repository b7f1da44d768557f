// Traces: `traceparent` as the W3C standard says, in log lines and webhooks, and the spans of a request that reach a real
// OTLP receiver: request, statement, relay, delivery attempt. A collector that fails costs nothing but a warning.
// Contract: neighbours#who-does-what.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { summarize } from '../src/runtime/statement-spans.ts';
import { parseStored, storedTrace, traceHeaders, traceOf } from '../src/runtime/trace.ts';
import { type CollectedSpan, type Collector, startCollector } from './support/collector.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const PARENT = `00-${TRACE}-${SPAN}-01`;
const QUIET = { LOG_LEVEL: 'debug', WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' };
const newTraceId = (): string => crypto.randomUUID().replaceAll('-', '');

describe('traceparent', () => {
  const parsed = (traceparent: string, tracestate?: string) =>
    traceOf(new Headers({ traceparent, ...(tracestate === undefined ? {} : { tracestate }) }));

  test('a valid one is taken, also of a later version with more fields', () => {
    const expected = { traceId: TRACE, spanId: SPAN, isSampled: true, state: null };
    expect(parsed(PARENT)).toEqual(expected);
    expect(parsed(`00-${TRACE}-${SPAN}-00`)).toEqual({ ...expected, isSampled: false });
    expect(parsed(`00-${TRACE}-${SPAN}-ff`)).toEqual(expected);
    expect(parsed(`cc-${TRACE}-${SPAN}-01-what-the-future-brings`)).toEqual(expected);
    expect(parsed(`cc-${TRACE}-${SPAN}-01`)).toEqual(expected);
  });

  test.each([
    ['empty', ''],
    ['of version ff', `ff-${TRACE}-${SPAN}-01`],
    ['with more fields in version 00', `${PARENT}-01`],
    ['in capitals', PARENT.toUpperCase()],
    ['with a trace id of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['with a span id of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['too short', `00-${TRACE.slice(1)}-${SPAN}-01`],
    ['with trailing text', `cc-${TRACE}-${SPAN}-01.x`],
    ['given twice', `${PARENT}, ${PARENT}`],
    ['of 16 KB', `cc-${TRACE}-${SPAN}-01-${'x'.repeat(16_000)}`],
  ])('one %s is ignored, and tracestate with it', (_, traceparent) => {
    expect(parsed(traceparent, 'vendor=1')).toBeNull();
  });

  test('tracestate is passed on when valid, else dropped', () => {
    const state = 'rojo=00f067aa0ba902b7,congo@tenant=t61rcWkgMzE, ,x=1';
    expect(parsed(PARENT, state)?.state).toBe(state);
    for (const bad of ['x', '=1', 'A=1', 'x=', 'x=é', 'x=1=2', `x=${'1'.repeat(600)}`, 'x=1,'.repeat(40), '']) {
      expect(parsed(PARENT, bad), bad).toMatchObject({ traceId: TRACE, state: null });
    }
    const long = `x=${'y'.repeat(16_000)}`;
    expect(parsed(PARENT, long)?.state).toBeNull();
  });

  test('the trace that an event stores is read back', () => {
    for (const state of [null, 'a=1,b= 2']) {
      const trace = { traceId: TRACE, spanId: SPAN, isSampled: false, state };
      expect(parseStored(storedTrace(trace))).toEqual(trace);
      const { traceparent = '', tracestate } = traceHeaders(trace);
      expect(parsed(traceparent, tracestate)).toEqual(trace);
    }
    for (const nothing of [null, undefined, '', 'x y']) expect(parseStored(nothing)).toBeNull();
  });
});

test.each([
  ['insert into platform."events" (id) values ($1)', 'INSERT platform.events'],
  [
    `with changed as (update "t_1"."r_2" set a = $1 returning *), evented as (insert into platform.events select 'v' from changed as c)
     select r.id from changed as r`,
    'UPDATE t_1.r_2 INSERT platform.events',
  ],
  [`select 'delete from secret.value' from "t_1"."r_2" as r where x = $1`, 'SELECT t_1.r_2'],
  ['select 1', 'SELECT'],
  ['begin', 'BEGIN'],
])('%s is summarized', (text, summary) => {
  expect(summarize(text)).toBe(summary);
});

async function subscribed(tenant: TestTenant, url: string): Promise<void> {
  await tenant.post('/api/entities', { name: 'orders', fields: [{ key: 'title', type: 'text' }] });
  const event_types = ['record.created', 'record.updated'];
  const made = await tenant.post('/api/webhooks/subscriptions', { entity_name: 'orders', event_types, url });
  expect(made.status).toBe(201);
}

describe('without export', () => {
  let service: TestService;
  let tenant: TestTenant;
  let receiver: Receiver;
  beforeAll(async () => {
    service = await startService(QUIET);
    tenant = await service.tenant();
    receiver = await startReceiver();
    await subscribed(tenant, receiver.url);
  });
  afterAll(async () => {
    await receiver.stop();
    await service.stop();
  });

  test('the log line has the trace id, and the webhooks of the change continue the trace with a new span', async () => {
    const headers = { traceparent: PARENT, tracestate: 'vendor=abc' };
    const { id } = (await tenant.post('/api/entities/orders/records', { title: 'a' }, headers)).body.data;
    await tenant.patch(`/api/entities/orders/records/${id}`, { title: 'b' }, headers);
    await tenant.patch(`/api/entities/orders/records/${id}`, { title: 'c' });
    const [created, updated, untraced] = await receiver.waitFor(3);
    for (const { headers } of [created, updated] as { headers: Record<string, string> }[]) {
      expect(headers.traceparent).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
      expect(headers.traceparent).not.toContain(SPAN);
      expect(headers.tracestate).toBe('vendor=abc');
    }
    expect(created?.headers.traceparent).not.toBe(updated?.headers.traceparent as string);
    expect(untraced?.headers.traceparent).toBeUndefined();
    const lines = service.logged.filter((line) => line.includes('/records')).map((line) => JSON.parse(line));
    expect(lines.map(({ traceId }) => traceId)).toEqual([TRACE, TRACE, undefined]);
  });
});

describe('with export', () => {
  let collector: Collector;
  let service: TestService;
  let tenant: TestTenant;
  let receiver: Receiver;
  beforeAll(async () => {
    collector = startCollector();
    service = await startService({
      ...QUIET,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-collector=key%201',
      OTEL_SERVICE_NAME: 'records-of-the-tests',
      OTEL_BSP_SCHEDULE_DELAY: '50',
      OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
    });
    tenant = await service.tenant();
    receiver = await startReceiver();
    await subscribed(tenant, receiver.url);
  });
  afterEach(() => {
    collector.answer = () => Response.json({});
  });
  afterAll(async () => {
    await receiver.stop();
    await service.stop();
    await collector.stop();
  });

  const byName = (spans: readonly CollectedSpan[], name: string) => spans.find((span) => span.name.startsWith(name));

  test('one request’s trace reaches the collector: request, statement, relay and delivery attempt', async () => {
    const stream = await connectEvents(service.url, tenant.slug, tenant.key);
    const traceId = newTraceId();
    const headers = { traceparent: `00-${traceId}-${SPAN}-01` };
    const made = await tenant.post('/api/entities/orders/records', { title: 'canary-title' }, headers);
    expect(made.status).toBe(201);
    const isComplete = (spans: readonly CollectedSpan[]): boolean =>
      ['POST /api', 'INSERT', 'relay'].every((name) => byName(spans, name)) &&
      spans.some(({ name }) => name === 'POST');
    const spans = await collector.trace(traceId, isComplete);
    const request = byName(spans, 'POST /api');
    expect(request).toMatchObject({
      name: 'POST /api/entities/:entityName/records',
      kind: 2,
      parentSpanId: SPAN,
      service: 'records-of-the-tests',
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/api/entities/:entityName/records',
        'url.path': '/api/entities/orders/records',
        'svc.tenant': tenant.slug,
      },
    });
    expect(Number(request?.attributes['http.response.status_code'])).toBe(201);
    const statement = byName(spans, 'INSERT');
    expect(statement).toMatchObject({ kind: 3, parentSpanId: request?.spanId as string });
    expect(statement?.attributes['db.system.name']).toBe('postgresql');
    expect(byName(spans, 'relay')).toMatchObject({ kind: 4, parentSpanId: request?.spanId as string });
    const attempt = spans.find(({ name }) => name === 'POST');
    expect(attempt).toMatchObject({ kind: 3, parentSpanId: request?.spanId as string });
    const [received] = await receiver.waitFor(1);
    expect(received?.headers.traceparent).toBe(`00-${traceId}-${attempt?.spanId}-01`);
    expect(JSON.stringify(collector.spans)).not.toContain('canary-title');
    expect(JSON.stringify(collector.spans)).not.toContain(tenant.key);
    expect(collector.headers.get('x-collector')).toBe('key 1');
    stream.close();
  });

  test('a request without a trace begins one, which its log line names', async () => {
    const requestId = `r-${newTraceId()}`;
    await tenant.get('/api/entities', { 'x-request-id': requestId });
    const line = JSON.parse(service.logged.find((each) => each.includes(requestId)) ?? '{}');
    const spans = await collector.trace(line.traceId, (found) => found.length > 0);
    expect(byName(spans, 'GET')?.parentSpanId).toBeUndefined();
  });

  test('the ticket in the address of a stream is in no span and no log line', async () => {
    const { ticket } = (await tenant.post(`/api/v1/tenants/${tenant.slug}/events/tickets`)).body.data;
    const traceId = newTraceId();
    const path = `/api/v1/tenants/${tenant.slug}/events/stream?ticket=${ticket}`;
    const headers = { traceparent: `00-${traceId}-${SPAN}-01` };
    const { body } = await fetch(service.url + path, { headers });
    await body?.cancel();
    expect((await fetch(service.url + path, { headers })).status).toBe(401);
    const isServer = ({ kind }: CollectedSpan): boolean => kind === 2;
    await collector.trace(traceId, (all) => all.filter(isServer).length === 2);
    const seen = JSON.stringify([collector.spans, service.logged]);
    expect(seen).toContain('/events/stream');
    expect(seen).not.toContain(ticket.slice('svc_tkt_'.length));
  });

  test('a trace that is not sampled is passed on and not exported', async () => {
    const traceId = newTraceId();
    const before = receiver.received.length;
    await tenant.post('/api/entities/orders/records', { title: 'x' }, { traceparent: `00-${traceId}-${SPAN}-00` });
    const received = await receiver.waitFor(before + 1);
    expect(received.at(-1)?.headers.traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
    const next = newTraceId();
    await tenant.get('/api/entities', { traceparent: `00-${next}-${SPAN}-01` });
    await collector.trace(next, (spans) => spans.length > 0);
    expect(collector.spans.filter((span) => span.traceId === traceId)).toEqual([]);
  });

  test.each([
    ['answers 500', () => new Response('no', { status: 500 })],
    ['answers 503 and asks to come back', () => new Response('', { status: 503, headers: { 'retry-after': '3600' } })],
    ['never answers', () => new Promise<Response>(() => undefined)],
    ['streams without end', () => new Response(endless())],
  ])('a collector that %s delays no request, and is warned about at most once a minute', async (_, answer) => {
    collector.answer = answer;
    const before = collector.requests;
    for (let i = 0; i < 50; i++) expect((await tenant.get('/api/entities')).status).toBe(200);
    for (const endsAt = Date.now() + 30_000; collector.requests === before && Date.now() < endsAt; )
      await Bun.sleep(20);
    expect(collector.requests).toBeGreaterThan(before);
    expect((await tenant.get('/api/entities')).status).toBe(200);
    const warnings = service.logged.filter((line) => line.includes('spans could not be sent'));
    expect(warnings.length).toBeLessThanOrEqual(2);
  });
});

function endless(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) });
}

test('a service whose collector cannot be reached stops in time', async () => {
  const service = await startService({ ...QUIET, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' });
  const tenant = await service.tenant();
  expect((await tenant.get('/api/entities')).status).toBe(200);
  const startedAt = Date.now();
  await service.stop();
  expect(Date.now() - startedAt).toBeLessThan(10_000);
});
