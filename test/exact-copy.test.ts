// The copy of docs/how-to/keep-an-exact-copy.md, exactly as written there, against a real service: by long polls under Bun, and
// in Chromium by long polls and by an event stream. Connections are cut at random, the process is killed and started again,
// rights and definitions change, records move in and out of the condition. In the end each copy equals the list.
// Contract: feed#guarantee, feed#transitions, feed#changes-of-rights, feed#changes-of-definitions.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { openCursor, sealCursor } from '../src/http/changes-cursor.ts';
import { chromiumPath, openPage, type PageServer, servePages } from './support/chromium.ts';
import { type CuttingProxy, cuttingProxy } from './support/cutting-proxy.ts';
import { createEntity, fields } from './support/entities.ts';
import { page as documentPage } from './support/markdown.ts';
import { addUser, signIn } from './support/people.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { seededRandom } from './support/random.ts';
import { type Client, clientOf, createTenant, type Json, startService, type TestTenant } from './support/service.ts';
import { IS_EMBEDDED } from './support/sizes.ts';
import { ROOT } from './support/source.ts';
import { endAll } from './support/started.ts';
import { until } from './support/streams.ts';

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const CHANGES = Number(process.env.COPY_CHANGES ?? (IS_EMBEDDED ? 16 : 40));
const EXAMPLES = join(ROOT, 'docs/examples');
const DEALS = '/api/entities/deals/records';
const FILTERS = 'amount > 9 AND NOT stage = lost';
const SYSTEM = ['entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];
const random = seededRandom(SEED);
const below = (n: number): number => Math.floor(random() * n);

const source = await readFile(join(EXAMPLES, 'exact-copy.mjs'), 'utf8');
const { keepCopy } = await import(join(EXAMPLES, 'exact-copy.mjs'));

/** Two copies in a page, which reports them, and how often each was read anew. */
const PAGE = `<!doctype html><title>copies</title><link rel="icon" href="data:,"><script type="module">
import { keepCopy } from './exact-copy.mjs';
const { api, tenant, token, filters } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
let pending = false;
const state = {};
const report = () => {
  if (pending) return;
  pending = true;
  setTimeout(async () => {
    pending = false;
    await fetch('/report', { method: 'POST', body: JSON.stringify(state) });
  }, 100);
};
for (const live of [false, true]) {
  const name = live ? 'stream' : 'polls';
  state[name] = { records: [], reads: 0 };
  let last;
  const credential = () => ({ Authorization: 'Bearer ' + token });
  const onChange = (copy) => {
    if (copy !== last) state[name].reads += 1;
    last = copy;
    state[name].records = [...copy.values()];
    report();
  };
  const { done } = keepCopy({ api, tenant, entity: 'deals', filters, credential, onChange, live });
  done.catch((error) => { state[name].failed = String(error); report(); });
}
</script>`;

let stores: SharedStores;
let service: ServiceProcess;
let proxy: CuttingProxy;
let pages: PageServer;
let tenant: TestTenant;
beforeAll(async () => {
  stores = await sharedStores();
  service = await startServiceProcess(stores.environment);
  proxy = await cuttingProxy(Number(new URL(service.url).port));
  const html = await readFile(join(EXAMPLES, 'exact-copy.html'), 'utf8');
  const watch = `<script>
    const report = () => fetch('/report', { method: 'POST', body: JSON.stringify({ text: document.body.innerText }) });
    new MutationObserver(report).observe(document.body, { childList: true, subtree: true });
  </script>`;
  pages = await servePages({ '/': PAGE, '/exact-copy.html': html + watch, '/exact-copy.mjs': source });
  tenant = await createTenant(service.url);
  await createEntity(tenant, 'deals', fields('title text', 'amount integer', 'stage text', 'secret text', 'note text'));
});
afterAll(async () => {
  await pages.close();
  proxy.close();
  await endAll();
  await stores.remove();
});

const owner = (): Client => clientOf(service.url, { 'x-api-key': tenant.key });
const proxied = (): string => proxy.address(service.url).replace(/\/$/, '');

async function expectOk(answering: Promise<{ status: number; text: string; body: Json }>): Promise<Json> {
  const { status, text, body } = await answering;
  if (status >= 300) throw new Error(`${status}: ${text}`);
  return body.data;
}

const ids: string[] = [];
let noteName = 'note';

/** A change of the owner, which moves records in and out of the condition and of the row filters. */
async function change(): Promise<void> {
  const values = {
    title: `t${below(1_000)}`,
    amount: below(20),
    stage: ['open', 'won', 'lost'][below(3)],
    secret: `s${below(100)}`,
    [noteName]: ['a', 'b', null][below(3)],
  };
  const id = ids[below(ids.length)];
  const kind = id === undefined ? 0 : below(8);
  if (kind <= 2) ids.push((await expectOk(owner().post(DEALS, values))).id);
  else if (kind <= 5) await expectOk(owner().patch(`${DEALS}/${id}`, values));
  else if (kind === 6) {
    await expectOk(owner().delete(`${DEALS}/${id}`));
    ids.splice(ids.indexOf(id as string), 1);
  } else {
    const operations = [
      { op: 'create', data: values },
      { op: 'update', id, data: { amount: below(20) } },
    ];
    ids.push((await expectOk(owner().post(`${DEALS}/bulk`, { operations }))).results[0].id);
  }
}

async function changes(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await change();
    const trouble = below(8);
    if (trouble === 0) proxy.cutOne();
    else if (trouble === 1) proxy.cutAll();
    else if (trouble === 2) {
      proxy.refuse(true);
      await delay(below(150));
      proxy.refuse(false);
    } else if (trouble === 3) {
      const code = random() < 0.5 ? '503 Service Unavailable' : '429 Too Many Requests';
      proxy.answer(
        `HTTP/1.1 ${code}\r\nRetry-After: 1\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n{"error":{"message":1}}`,
      );
      await delay(below(150));
      proxy.answer(null);
    }
  }
}

async function restart(): Promise<void> {
  await service.kill();
  service = await startServiceProcess(stores.environment);
  proxy.lead(Number(new URL(service.url).port));
}

function roleOf(rowFilter: string, excludeFields: string[]): Json {
  return { permissions: { deals: ['read'] }, entities: { deals: { rowFilter, excludeFields } } };
}

const ownFields = (record: Json): Json =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !SYSTEM.includes(name)));
const byId = (records: Json[]): Json[] => records.map(ownFields).toSorted((a, b) => (a.id < b.id ? -1 : 1));

/** What the list shows to the reader now. */
async function listed(token: string): Promise<Json[]> {
  const reader = clientOf(service.url, { authorization: `Bearer ${token}` });
  const query = new URLSearchParams({ filters: FILTERS });
  const { text } = await reader.get(`${DEALS}/export?${query}`);
  return byId(
    text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
  );
}

/** A copy under test: its records, how often it was read anew, and how it failed. */
interface Kept {
  name: string;
  records(): Json[];
  reads(): number;
  failed(): string | undefined;
}

async function expectEqual(kept: Kept[], token: string): Promise<void> {
  // Empty copies would prove nothing.
  while ((await listed(token)).length === 0) await changes(CHANGES / 4);
  const expected = JSON.stringify(await listed(token));
  expect(expected.length).toBeGreaterThan(2);
  for (const { name, records, failed } of kept) {
    await until(
      () => JSON.stringify(byId(records())) === expected || failed() !== undefined,
      90_000,
      () => `${name} differs (SEED=${SEED}): ${JSON.stringify(byId(records()))} instead of ${expected}`,
    );
    expect([name, failed()]).toEqual([name, undefined]);
  }
}

async function reader(name: string, role: Json): Promise<{ email: string; token: string; name: string }> {
  await expectOk(owner().post('/api/roles', { name, ...role }));
  const { email } = await addUser(owner(), { role: name });
  const { token } = await signIn(clientOf(service.url, {}), tenant, email);
  return { email, token, name };
}

function copyUnderBun(token: string): Kept & { stop(): void } {
  let records: Json[] = [];
  let reads = 0;
  let failed: string | undefined;
  let last: unknown;
  const { done, stop } = keepCopy({
    api: proxied(),
    tenant: tenant.slug,
    entity: 'deals',
    filters: FILTERS,
    credential: () => ({ authorization: `Bearer ${token}` }),
    onChange: (copy: Map<string, Json>) => {
      if (copy !== last) reads += 1;
      last = copy;
      records = [...copy.values()];
    },
  });
  done.catch((error: Error) => {
    failed = String(error);
  });
  return { name: 'Bun', records: () => records, reads: () => reads, failed: () => failed, stop };
}

function copiesInPage(): Kept[] {
  const latest = (name: string): Json => pages.reports.findLast((report) => name in report)?.[name];
  return ['polls', 'stream'].map((name) => ({
    name,
    records: () => latest(name)?.records ?? [],
    reads: () => latest(name)?.reads ?? 0,
    failed: () => latest(name)?.failed,
  }));
}

test(`copies equal the list after every kind of trouble (SEED=${SEED})`, async () => {
  const role = await reader('reader', roleOf('NOT stage = won OR amount > 4', ['secret']));
  await changes(CHANGES / 4);
  const origin = `http://localhost:${pages.port}`;
  await expectOk(owner().patch('/api/tenant', { settings: { allowedOrigins: [origin] } }));
  const own = copyUnderBun(role.token);
  const options = { api: proxied(), tenant: tenant.slug, token: role.token, filters: FILTERS };
  const address = `${origin}/#${encodeURIComponent(JSON.stringify(options))}`;
  const browser = chromiumPath === undefined ? undefined : await openPage(address);
  const all: Kept[] = [own, ...(browser === undefined ? [] : copiesInPage())];
  try {
    await expectEqual(all, role.token);
    await changes(CHANGES);
    await restart();
    await changes(CHANGES);
    await expectEqual(all, role.token);
    // Lost connections and a killed process are no reason to read again.
    expect(all.map(({ name, reads }) => [name, reads()])).toEqual(all.map(({ name }) => [name, 1]));
    await changes(CHANGES / 2);
    await expectOk(owner().patch('/api/roles/reader', roleOf('amount > 2 AND NOT stage = won', ['note'])));
    await changes(CHANGES / 2);
    await expectEqual(all, role.token);
    await expectOk(owner().patch('/api/roles/reader', roleOf('amount > 2', ['secret'])));
    await changes(CHANGES / 2);
    await expectOk(owner().patch('/api/entities/deals/fields/note', { key: 'remark' }));
    noteName = 'remark';
    await changes(CHANGES / 2);
    await expectEqual(all, role.token);
    const reads = all.map((kept) => kept.reads());
    await changes(CHANGES / 2);
    await restart();
    await changes(CHANGES / 4);
    await expectEqual(all, role.token);
    expect(all.map((kept) => kept.reads())).toEqual(reads);
  } finally {
    own.stop();
    await browser?.close();
  }
}, 300_000);

test('a saved copy continues from its cursor, is read again when the cursor is invalid, and ends with its credential', async () => {
  const one = await startService();
  try {
    const other = await one.tenant();
    await createEntity(other, 'deals', fields('amount integer'));
    const { id } = await expectOk(other.post(DEALS, { amount: 12 }));
    const key = (await expectOk(other.post('/api/keys', { label: 'copy' }))) as { id: string; key: string };
    const cursor = (await expectOk(other.get('/api/changes'))).nextCursor;
    const { rightsKey, position } = openCursor(one.app, { id: other.id, settings: {} }, cursor);
    const old = sealCursor(one.app, other.id, {
      rightsKey,
      position: { ...position, at: Date.now() - 31 * 86_400_000 },
    });
    // What it saved shows whether it was read again.
    const saved = [['saved', { id: 'saved', amount: 99 }]];
    const begin = (from: string): { seen: string[][]; done: Promise<void>; stop(): void } => {
      const seen: string[][] = [];
      const onChange = (copy: Map<string, Json>): void => void seen.push([...copy.keys()]);
      const credential = (): Json => ({ 'x-api-key': key.key });
      const start = { cursor: from, records: saved };
      const options = { api: one.url, tenant: other.slug, entity: 'deals', filters: 'amount > 9', credential };
      return { seen, ...keepCopy({ ...options, onChange, start }) };
    };
    const copies = { good: begin(cursor), old: begin(old), nonsense: begin('nonsense') };
    const added = (await expectOk(other.post(DEALS, { amount: 13 }))).id;
    const expected = { good: ['saved', added], old: [id, added], nonsense: [id, added] };
    for (const [name, { seen }] of Object.entries(copies)) {
      const hasAll = (): boolean => seen.at(-1)?.toSorted().join() === expected[name as 'good'].toSorted().join();
      await until(hasAll, 60_000, () => `${name}: ${JSON.stringify(seen)}`);
    }
    const ends = Object.values(copies).map(({ done }) => done.catch(({ status }: Json) => status));
    await expectOk(other.delete(`/api/keys/${key.id}`));
    expect(await Promise.all(ends)).toEqual([401, 401, 401]);
  } finally {
    await one.stop();
  }
}, 120_000);

test('the page of the tutorial shows the copy', async () => {
  if (chromiumPath === undefined) return;
  await createEntity(owner(), 'companies', fields('title text', 'country text'));
  for (const title of ['Alpha', 'Beta']) {
    await expectOk(owner().post('/api/entities/companies/records', { title, country: 'DE' }));
  }
  await expectOk(owner().post('/api/roles', { name: 'public', permissions: { companies: ['read'] } }));
  const roles = await expectOk(owner().get('/api/roles'));
  const origin = `http://localhost:${pages.port}`;
  const input = {
    label: 'page',
    roleId: roles.find(({ name }: Json) => name === 'public').id,
    allowedOrigins: [origin],
  };
  const scopes = ['records:read', 'channels:read'];
  const { key } = await expectOk(owner().post('/api/auth/public-keys', { ...input, scopes }));
  const browser = await openPage(
    `${origin}/exact-copy.html#${new URLSearchParams({ api: service.url, tenant: tenant.slug, key })}`,
  );
  try {
    const shows = (...parts: string[]) =>
      pages.reported(({ text }) => text !== undefined && parts.every((part) => text.includes(part)));
    await shows('2 companies', 'Alpha', 'Beta');
    await expectOk(owner().post('/api/entities/companies/records', { title: 'Gamma', country: 'DE' }));
    await expectOk(owner().post('/api/entities/companies/records', { title: 'Delta', country: 'FR' }));
    await shows('3 companies', 'Gamma');
    expect(pages.reports.some(({ text }) => text?.includes('Delta'))).toBe(false);
  } finally {
    await browser.close();
  }
}, 120_000);

test('the code on the tutorial’s page is that of the file', () => {
  const { blocks } = documentPage('docs/how-to/keep-an-exact-copy.md');
  const shown = blocks.filter(({ language }) => language === 'js').map(({ text }) => text);
  expect(shown.length).toBeGreaterThan(3);
  for (const text of shown) expect(source).toContain(text);
});
