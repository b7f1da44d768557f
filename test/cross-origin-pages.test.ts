// Real pages of another origin in Chromium: a signed-in app by CORS, an EventSource by ticket through a lost connection,
// as docs/how-to/from-a-browser.md shows it, and a WebSocket by ticket; and the same page from an origin that is not
// listed. Where no Chromium is installed, the tests only assert that. Contract: browsers#tickets, browsers#origins.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { chromiumPath, openPage, type PageServer, servePages } from './support/chromium.ts';
import { page as documentPage } from './support/markdown.ts';
import { addUser, PASSWORD } from './support/people.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/orders/records';

/** Tries everything that an app does; reports what it could read, or why not. */
const SCRIPT = `
import { follow } from './follow.mjs';
const { api, tenant, email, password, id, given } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
const report = (what) => fetch('/report', { method: 'POST', body: JSON.stringify({ origin: location.origin, ...what }) });
const json = { 'Content-Type': 'application/json' };
const attempt = async (name, run) => {
  try {
    await report({ name, result: await run() });
  } catch (error) {
    await report({ name, failed: error.name });
  }
};
let token = 'none';
const authorized = () => ({ ...json, Authorization: 'Bearer ' + token });
const record = api + '${RECORDS}/' + id;
const ticketOf = async () => {
  const body = JSON.stringify({ entities: 'orders' });
  const path = api + '/api/v1/tenants/' + tenant + '/events/tickets';
  return (await (await fetch(path, { method: 'POST', headers: authorized(), body })).json()).data.ticket;
};
await attempt('login', async () => {
  const headers = { ...json, 'X-Tenant-ID': tenant };
  const body = JSON.stringify({ email, password });
  const response = await fetch(api + '/api/auth/tenant/login', { method: 'POST', headers, body });
  token = (await response.json()).data.token;
  return response.status;
});
await attempt('change', async () => {
  const read = await fetch(record, { headers: authorized() });
  const etag = read.headers.get('etag');
  const headers = { ...authorized(), 'If-Match': etag };
  const written = await fetch(record, { method: 'PATCH', headers, body: JSON.stringify({ title: 'from a page' }) });
  const again = await fetch(record, { method: 'PATCH', headers, body: JSON.stringify({ title: 'too late' }) });
  return [read.status, etag !== null, written.status, again.status, (await again.json()).error.code];
});
await attempt('error', async () => {
  const response = await fetch(record, { headers: { Authorization: 'Bearer nonsense' } });
  return [response.status, (await response.json()).error.code, response.headers.get('x-request-id') !== null];
});
const opens = (ticket) => new Promise((resolve) => {
  const source = new EventSource(api + '/api/v1/tenants/' + tenant + '/events/stream?ticket=' + ticket);
  source.addEventListener('connected', () => { source.close(); resolve('connected'); });
  source.onerror = () => { source.close(); resolve('refused'); };
});
await attempt('ticket', async () => {
  const ticket = await ticketOf();
  return [await opens(ticket), await opens(ticket)];
});
await attempt('given ticket', async () => opens(given?.[0] ?? (await ticketOf())));
await attempt('socket', async () => {
  const socket = new WebSocket(api.replace('http', 'ws') + '/ws');
  const next = () => new Promise((resolve) => { socket.onmessage = ({ data }) => resolve(JSON.parse(data)); });
  await new Promise((resolve) => { socket.onopen = resolve; });
  socket.send(JSON.stringify({ type: 'auth', token: given?.[1] ?? (await ticketOf()) }));
  return (await next()).type;
});
if (token !== 'none') {
  let connections = 0;
  const onConnected = () => report({ name: 'connected', result: ++connections });
  const onEvent = (event) => report({ name: 'event', result: event.data.fields.title });
  follow({ api, tenant, token: () => token, entities: ['orders'], onConnected, onEvent });
}
await report({ name: 'done' });
`;

let service: TestService;
let tenant: TestTenant;
let pages: PageServer;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'orders', fields: [{ key: 'title', type: 'text' }] });
  const follow = documentPage('docs/how-to/from-a-browser.md').blocks.find(({ text }) =>
    text.startsWith('// follow.mjs'),
  );
  pages = await servePages({
    '/': '<!doctype html><title>page</title><link rel="icon" href="data:,"><script type="module" src="/app.mjs"></script>',
    '/app.mjs': SCRIPT,
    '/follow.mjs': follow?.text ?? '',
  });
});
afterAll(async () => {
  await pages.close();
  await service.stop();
});

async function addressOn(host: string, given?: string[]): Promise<{ origin: string; address: string }> {
  const { email } = await addUser(tenant);
  const { id } = (await tenant.post(RECORDS, { title: 'made' })).body.data;
  const options = { api: service.url, tenant: tenant.slug, email, password: PASSWORD, id, given };
  const origin = `http://${host}:${pages.port}`;
  return { origin, address: `${origin}/#${encodeURIComponent(JSON.stringify(options))}` };
}

const listOrigins = (allowedOrigins: string[]) => tenant.patch('/api/tenant', { settings: { allowedOrigins } });

async function hasStreams(): Promise<boolean> {
  return !(await service.admin.get('/metrics')).text.includes('\nsvc_sse_connections 0\n');
}

/** A test that needs Chromium. */
const inChromium = (title: string, work: () => Promise<void>): void =>
  test(title, async () => (chromiumPath === undefined ? expect(chromiumPath).toBeUndefined() : work()), 120_000);

inChromium(
  'a page of a listed origin signs in, reads, writes, and follows changes through a lost connection',
  async () => {
    const { origin, address } = await addressOn('localhost');
    await listOrigins([origin]);
    const browser = await openPage(address);
    try {
      const result = async (name: string, value?: unknown): Promise<Json> => {
        const isIt = (report: Json): boolean =>
          report.origin === origin && report.name === name && (value === undefined || report.result === value);
        return (await pages.reported(isIt)).result;
      };
      expect(await result('login')).toBe(200);
      expect(await result('change')).toEqual([200, true, 200, 412, 'PRECONDITION_FAILED']);
      expect(await result('error')).toEqual([401, 'UNAUTHORIZED', true]);
      expect(await result('ticket')).toEqual(['connected', 'refused']);
      expect(await result('given ticket')).toBe('connected');
      expect(await result('socket')).toBe('auth_ok');
      await result('connected', 1);
      await tenant.post(RECORDS, { title: 'first' });
      await result('event', 'first');
      // The stream ends with the origin, and EventSource with its used ticket; the page gets another one.
      await listOrigins([]);
      while (await hasStreams()) await Bun.sleep(20);
      await listOrigins([origin]);
      await result('connected', 2);
      await tenant.post(RECORDS, { title: 'second' });
      await result('event', 'second');
    } finally {
      await browser.close();
    }
  },
);

inChromium('the same page of an origin that is not listed can read nothing', async () => {
  const ticket = async (): Promise<string> =>
    (await tenant.post(`/api/v1/tenants/${tenant.slug}/events/tickets`)).body.data.ticket;
  const { origin, address } = await addressOn('127.0.0.1', [await ticket(), await ticket()]);
  await listOrigins([origin.replace('127.0.0.1', 'localhost')]);
  const browser = await openPage(address);
  try {
    await pages.reported((report) => report.origin === origin && report.name === 'done');
    const own = pages.reports.filter((report) => report.origin === origin && report.name !== 'done');
    expect(Object.fromEntries(own.map(({ name, failed, result }) => [name, failed ?? result]))).toEqual({
      login: 'TypeError',
      change: 'TypeError',
      error: 'TypeError',
      ticket: 'TypeError',
      'given ticket': 'refused',
      socket: 'auth_error',
    });
  } finally {
    await browser.close();
  }
});
