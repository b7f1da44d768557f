// Metrics: who may read them, their format, the counting of requests by route template, and that they reveal no tenant,
// record or secret. Also what the log contains about a request.
// Contract: decisions#metrics, decisions#configuration.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { Counter } from 'prom-client';
import { requestMetrics } from '../src/health/request-metrics.ts';
import { Metrics, renderSnapshots } from '../src/runtime/metrics.ts';
import { readBacklog } from '../src/webhooks/dispatch/backlog.ts';
import { startReceiver } from './support/receiver.ts';
import { ADMIN_SECRET, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, openSocket, until } from './support/streams.ts';

const TOKEN = 'token-of-the-scraper';
const NAME = 'http_server_request_duration_seconds';
let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ METRICS_TOKEN: TOKEN, LOG_LEVEL: 'debug', WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'secretive', fields: [{ key: 'title', type: 'text' }] });
});
afterAll(async () => service.stop());

const text = async (): Promise<string> => (await service.admin.get('/metrics')).text;

/** The value of the only sample with exactly this name and these labels; 0 when there is none. */
function sample(from: string, name: string, labels: Record<string, string> = {}): number {
  const braces = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const start = `${name}${braces.length > 0 ? `{${braces.join(',')}}` : ''} `;
  const lines = from.split('\n').filter((line) => line.startsWith(start));
  expect(lines.length).toBeLessThanOrEqual(1);
  return Number(lines[0]?.slice(start.length) ?? 0);
}

function requests(from: string, method: string, route: string, status: number): number {
  const labels = { http_request_method: method, http_route: route, http_response_status_code: String(status) };
  return sample(from, `${NAME}_count`, labels);
}

test('METRICS_TOKEN as bearer token and the super-admin may read them, no other caller may', async () => {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const read = await service.anonymous.get('/metrics', bearer(TOKEN));
  expect([read.status, read.headers.get('content-type')]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
  expect((await service.admin.get('/metrics')).status).toBe(200);
  expect((await service.anonymous.get('/metrics')).status).toBe(401);
  expect((await service.anonymous.get('/metrics', bearer(`${TOKEN}x`))).status).toBe(401);
  expect((await service.anonymous.get('/metrics', bearer(''))).status).toBe(401);
  expect((await tenant.get('/metrics')).status).toBe(403);
});

test('every family has HELP and TYPE, every sample belongs to a family, and histogram buckets are cumulative', async () => {
  const families = new Map<string, string>();
  for (const line of (await text()).split('\n').filter((each) => each !== '')) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\w+) (.+)$/.exec(line) ?? [];
    if (keyword === 'TYPE') families.set(name, rest);
    if (keyword !== undefined) continue;
    const parsed = /^([a-z_]+)(?:\{((?:[a-z_]+="[^"\n]*",?)+)\})? [0-9.e+-]+$/.exec(line);
    expect(parsed, line).not.toBeNull();
    const family = families.get((parsed?.[1] ?? '').replace(/_(bucket|sum|count)$/, ''));
    expect(family ?? families.get(parsed?.[1] ?? ''), line).toBeDefined();
  }
  expect(families.get(NAME)).toBe('histogram');
  for (const [name, type] of families) if (type === 'counter') expect(name).toEndWith('_total');
  const buckets = (await text())
    .split('\n')
    .filter((line) => line.startsWith(`${NAME}_bucket`) && line.includes('"/health"'));
  const counts = buckets.map((line) => Number(line.split(' ').at(-1)));
  expect(counts).toEqual(counts.toSorted((a, b) => a - b));
});

test('promtool, if installed, reports no problem', async () => {
  const promtool = [process.env.PROMTOOL ?? '', '/usr/bin/promtool'].find((path) => path !== '' && existsSync(path));
  const checked = promtool === undefined ? '' : execFileSync(promtool, ['check', 'metrics'], { input: await text() });
  expect(String(checked)).toBe('');
});

test('requests are counted by method, route template and status', async () => {
  const before = await text();
  const list = '/api/entities/:entityName/records';
  await tenant.get('/api/entities/secretive/records?limit=1&search=/a/b');
  await tenant.get('/api/entities/unknown/records');
  await tenant.post('/api/entities/secretive/records', { title: 'canary-value' });
  await tenant.get('/api/entities/secretive/records/not-an-id');
  await service.anonymous.get('/health');
  await service.anonymous.get('/no/such/route-canary');
  const after = await text();
  const more = (method: string, route: string, status: number) =>
    requests(after, method, route, status) - requests(before, method, route, status);
  expect(more('GET', list, 200)).toBe(1);
  expect(more('GET', list, 404)).toBe(1);
  expect(more('POST', list, 201)).toBe(1);
  expect(more('GET', `${list}/:id`, 404)).toBe(1);
  expect(more('GET', '/health', 200)).toBe(1);
  expect(more('GET', '', 404)).toBe(1);
});

test('they contain no records, ids or secrets, and tenants only as the label of their own series', async () => {
  const all = (await text()).replaceAll(`{tenant="${tenant.slug}"}`, '');
  for (const hidden of [tenant.slug, tenant.id, tenant.key, 'secretive', 'canary', 'not-an-id', ADMIN_SECRET, TOKEN]) {
    expect(all).not.toContain(hidden);
  }
});

test('they cover the connections to Postgres and the process', async () => {
  const all = await text();
  expect(sample(all, 'svc_db_pool_size')).toBeGreaterThan(0);
  await becomes(0, 'svc_db_pool_waiting');
  expect(sample(all, 'process_resident_memory_bytes')).toBeGreaterThan(1e6);
  expect(sample(all, 'process_cpu_seconds_total')).toBeGreaterThan(0);
  expect(Math.abs(sample(all, 'process_start_time_seconds') - Date.now() / 1_000)).toBeLessThan(3_600);
});

/** Waits until a sample has this value; fails with its actual value. */
async function becomes(value: number, name: string, labels: Record<string, string> = {}): Promise<void> {
  expect(await valueOnce((found) => found === value, name, labels), name).toBe(value);
}

async function becomesTrue(name: string, condition: (value: number) => boolean): Promise<void> {
  expect(condition(await valueOnce(condition, name, {})), name).toBe(true);
}

/** The sample's value when it meets the condition, or at the end of the wait. */
async function valueOnce(condition: (value: number) => boolean, name: string, labels: Record<string, string>) {
  let found = Number.NaN;
  for (const endsAt = Date.now() + 60_000; !condition(found) && Date.now() < endsAt; ) {
    found = sample(await text(), name, labels);
    if (!condition(found)) await Bun.sleep(20);
  }
  return found;
}

test('a tenant has its own counters of requests and sent bytes', async () => {
  const labels = { tenant: tenant.slug };
  const read = async (name: string): Promise<number> => sample(await text(), `svc_tenant_${name}`, labels);
  const [requestsBefore, bytesBefore] = [await read('requests_total'), await read('sent_bytes_total')];
  const record = await tenant.post('/api/entities/secretive/records', { title: 'größer' });
  const list = await tenant.get('/api/entities/secretive/records');
  const refused = await tenant.get('/api/entities/none/records');
  const exported = await tenant.get('/api/entities/secretive/records/export');
  expect(exported.text).toContain('größer');
  expect((await read('requests_total')) - requestsBefore).toBe(4);
  const sent = [record, list, refused, exported].reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
  expect((await read('sent_bytes_total')) - bytesBefore).toBe(sent);
});

test('refusals are counted by reason', async () => {
  const read = async (reason: string): Promise<number> => sample(await text(), 'svc_refused_total', { reason });
  const before = [await read('not_found'), await read('unauthorized'), await read('validation_error')];
  await tenant.get('/api/entities/none');
  await service.anonymous.get('/api/entities');
  await tenant.post('/api/entities', { name: 7 });
  expect([await read('not_found'), await read('unauthorized'), await read('validation_error')]).toEqual(
    before.map((count) => count + 1),
  );
  expect(await read('internal_error')).toBe(0);
});

test('they show queues, the event loop’s delay, and events not relayed or delivered yet', async () => {
  await becomes(0, 'svc_queue_length', { queue: 'requests' });
  expect(sample(await text(), 'svc_event_loop_delay_seconds_count')).toBeGreaterThan(0);
  const refusing = await startReceiver(500);
  const wanted = { entity_name: 'secretive', event_types: ['record.deleted'], url: refusing.url };
  await tenant.post('/api/webhooks/subscriptions', wanted);
  const { id } = (await tenant.post('/api/entities/secretive/records', { title: 'gone' })).body.data;
  const stream = await connectEvents(service.url, tenant.slug, tenant.key);
  await tenant.delete(`/api/entities/secretive/records/${id}`);
  await refusing.waitFor(1);
  await becomesTrue('svc_webhook_deliveries_pending', (value) => value > 0);
  // The oldest event may be left over from another test.
  const isAge = (seconds: number): boolean => seconds > 0 && seconds < 86_400;
  await becomesTrue('svc_webhook_delivery_oldest_seconds', isAge);
  const estimated = await service.app.db.slow.begin((tx) => readBacklog(tx, 0));
  expect([estimated.pending >= 1, isAge(estimated.oldest_s)]).toEqual([true, true]);
  await becomesTrue('svc_outbox_lag_seconds', (value) => value < 600);
  stream.close();
  await refusing.stop();
});

test('they count open streams and sockets', async () => {
  const stream = await connectEvents(service.url, tenant.slug, tenant.key);
  await becomes(1, 'svc_sse_connections');
  stream.close();
  await becomes(0, 'svc_sse_connections');
  const socket = await openSocket(service.url);
  await becomes(1, 'svc_ws_waiting');
  const session = await service.admin.post('/api/admin/sessions', { tenantSlug: tenant.slug });
  expect((await socket.ask({ type: 'auth', token: session.body.data.token })).type).toBe('auth_ok');
  await becomes(1, 'svc_ws_connections');
  await becomes(0, 'svc_ws_waiting');
  socket.close();
  await becomes(0, 'svc_ws_connections');
});

test('they measure webhook attempts, by the outcome of the delivery', async () => {
  const receiver = await startReceiver();
  const wanted = { entity_name: 'secretive', event_types: ['record.created'], url: receiver.url };
  await tenant.post('/api/webhooks/subscriptions', wanted);
  await tenant.post('/api/entities/secretive/records', { title: 'told' });
  await receiver.waitFor(1);
  await becomes(1, 'svc_webhook_attempt_duration_seconds_count', { outcome: 'delivered' });
  await becomes(0, 'svc_webhook_attempts_in_flight');
  await receiver.stop();
});

test('the log has every request with its id, and no secret', async () => {
  const id = `trace-${tenant.slug}`;
  await tenant.get('/api/entities/none', { 'x-request-id': id });
  await service.anonymous.get('/metrics', { authorization: `Bearer ${TOKEN}`, 'x-request-id': id });
  // Under Deno lines come from another process: after the responses, and the last one possibly incomplete.
  const named = () => service.logged.filter((line) => line.includes(id) && line.trimEnd().endsWith('}'));
  await until(
    () => named().length > 1,
    60_000,
    () => `not two lines name ${id} in: ${service.logged.slice(-10).join('')}`,
  );
  const lines = named().map((line) => JSON.parse(line));
  expect(lines.map(({ requestId }) => requestId)).toEqual([id, id]);
  expect(lines).toMatchObject([
    {
      level: 'info',
      tenant: tenant.slug,
      credential: { kind: 'owner_key', id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
      address: expect.any(String),
      method: 'GET',
      route: '/api/entities/:entityName',
      path: '/api/entities/none',
      status: 404,
      durationMs: expect.any(Number),
    },
    { level: 'debug', tenant: null, credential: null, method: 'GET', route: '/metrics', path: '/metrics', status: 200 },
  ]);
  for (const secret of [TOKEN, ADMIN_SECRET, tenant.key]) expect(service.logged.join('')).not.toContain(secret);
});

test('the template of a path is found: fixed segments before parameters, parameters before the wildcard', async () => {
  const app = { metrics: new Metrics() } as TestService['app'];
  const paths = ['/a/:id', '/a/fixed', '/a/:id/b', '/app/*', '/', '/*', '/a/fixed/c'];
  const { routeOf, observe } = requestMetrics(
    app,
    paths.map((path) => ({ path })),
  );
  const measure = (method: string, url: string): void => observe(method, routeOf(url), 200, 1);
  for (const [url, template] of [
    ['http://h/a/1', '/a/:id'],
    ['http://h/a/fixed?x=/y', '/a/fixed'],
    ['http://h/a/fixed/b', '/a/:id/b'],
    ['http://h/a/fixed/c', '/a/fixed/c'],
    ['http://h/app/x/y', '/app/*'],
    ['http://h/', '/'],
    ['http://h/a/', ''],
    ['http://h/b', ''],
  ] as const) {
    const before = requests(await app.metrics.render(), 'GET', template, 200);
    measure('GET', url);
    expect(requests(await app.metrics.render(), 'GET', template, 200), url).toBe(before + 1);
  }
  measure('BREW', 'http://h/');
  expect(requests(await app.metrics.render(), '_OTHER', '/', 200)).toBe(1);
});

describe('the Prometheus text', () => {
  const things = (metrics: Metrics) =>
    new Counter({ name: 'svc_things_total', help: 'Things.', labelNames: ['kind'], registers: [metrics.registry] });

  test('contains counters and gauges with their labels escaped', async () => {
    const metrics = new Metrics();
    const counter = things(metrics);
    counter.inc({ kind: 'a "b"\\\n' }, 1);
    counter.inc({ kind: 'a "b"\\\n' }, 2);
    metrics.gauge('svc_level', 'Level.', () => 7);
    expect(await metrics.render()).toBe(
      [
        '# HELP svc_things_total Things.',
        '# TYPE svc_things_total counter',
        'svc_things_total{kind="a \\"b\\"\\\\\\n"} 3',
        '',
        '# HELP svc_level Level.',
        '# TYPE svc_level gauge',
        'svc_level 7\n',
      ].join('\n'),
    );
    expect(() => metrics.gauge('svc_level', 'Again.', () => 1)).toThrow('svc_level');
  });

  test('of very many series is made in pieces, between which others are served, and equals the library’s text', async () => {
    const metrics = new Metrics();
    const durations = metrics.histogram('svc_long_seconds', 'Long\nones.', ['n']);
    for (let i = 0; i < 3_000; i++) durations.labels(`${i}\n`).observe(i / 1_000);
    metrics.gauge('svc_level', 'Level.', () => 7);
    let turns = 0;
    const counting = setInterval(() => turns++, 0);
    const text = await metrics.render();
    clearInterval(counting);
    expect(turns).toBeGreaterThan(5);
    expect(text).toBe(await metrics.registry.metrics());
  });

  test('of several processes contains each family once, and each sample with its process', async () => {
    const metrics = new Metrics();
    things(metrics).inc({ kind: 'a{b} c' }, 2);
    metrics.gauge('svc_level', 'Level.', () => 7);
    metrics.counter('svc_read_total', 'Read.', () => 1.5);
    await metrics.render();
    const one = await metrics.snapshot();
    expect(await renderSnapshots(new Map([...'12'].map((number) => [number, one])))).toBe(
      [
        '# HELP svc_things_total Things.',
        '# TYPE svc_things_total counter',
        'svc_things_total{process="1",kind="a{b} c"} 2',
        'svc_things_total{process="2",kind="a{b} c"} 2',
        '',
        '# HELP svc_level Level.',
        '# TYPE svc_level gauge',
        'svc_level{process="1"} 7',
        'svc_level{process="2"} 7',
        '',
        '# HELP svc_read_total Read.',
        '# TYPE svc_read_total counter',
        'svc_read_total{process="1"} 1.5',
        'svc_read_total{process="2"} 1.5\n',
      ].join('\n'),
    );
  });
});
