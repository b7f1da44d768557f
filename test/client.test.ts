// The package of client/, as it is built, under Bun, Node.js, Deno and in a page of Chromium: one scenario for all. Then which
// requests are sent again and which are not. tsc, which checks all sources, verifies that certain lines do not compile.
// client-restarts.test.ts tests the sequences that continue when a service is killed.
// Contract: interface#records, feed#guarantee, feed#resume, decisions#idempotency.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import { bundledClient } from '../client/bundle.ts';
import {
  type AnySchema,
  ApiError,
  type Client,
  type ClientOptions,
  ConnectionError,
  createClient,
  etagOf,
} from '../client/src/client.ts';
import { chromiumPath, openPage, servePages } from './support/chromium.ts';
import { createEntity, fields } from './support/entities.ts';
import { addUser, signIn } from './support/people.ts';
import { type Json, startService, type TestService } from './support/service.ts';
import { ROOT } from './support/source.ts';

const run = promisify(execFile);
const DIST = join(ROOT, 'client/dist/index.js');
const SCENARIO = join(ROOT, 'test/support/client-scenario.mjs');
const DEALS = [{ key: 'title', type: 'text', required: true, unique: true }, ...fields('amount integer')];

interface Deal {
  id: string;
  entityId: string;
  createdAt: string;
  updatedAt: string;
  createdBy: string | null;
  updatedBy: string | null;
  title: string;
  amount: number | null;
  buyer: string | null;
}
interface Schema {
  deals: {
    record: Deal;
    create: { title: string; amount?: number | null };
    update: { title?: string };
    relations: { buyer: 'people' };
  };
  people: { record: { id: string; name_of: string }; create: never; update: never; operations: 'read' };
}

beforeAll(async () => {
  await run(process.execPath, ['--no-env-file', join(ROOT, 'client/build.ts')]);
});

describe('in each runtime', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());

  async function options(
    settings: object = {},
  ): Promise<Required<Pick<ClientOptions, 'url' | 'tenant'>> & { credential: string }> {
    const tenant = await service.tenant();
    await createEntity(tenant, 'deals', DEALS);
    const filterDsl = { validate: [{ condition: 'amount > 3' }] };
    await tenant.post('/api/views', { entitySlug: 'deals', slug: 'large', name: 'Large', filterDsl });
    if ((await tenant.patch('/api/tenant', { settings })).status !== 200) throw new Error('no settings');
    return { url: service.url, tenant: tenant.slug, credential: tenant.key };
  }

  function expectRight(result: Json): void {
    const { lines, events, ...others } = result;
    expect(others).toEqual({
      changed: 2,
      lost: '412 PRECONDITION_FAILED',
      bulk: 2,
      upserted: ['updated', 4],
      tried: ['tried', 1],
      titles: ['three', 'one', 'two'],
      imported: [1, 1, 3],
      sums: [{ count: 4, sum_amount: 12 }],
      view: [2, 'four', '"1"', 'string'],
      views: ['large'],
      gone: '404 NOT_FOUND',
      aborted: 'cancelled',
      unreachable: 'ConnectionError',
      webhook: ['record.created', '401 no signature matches the secret'],
    });
    expect(lines.length).toBe(5);
    const created = ['one', 'two', 'three', 'four'].map((title) => `record.created ${title}`);
    const updated = ['record.updated one', 'record.updated three', 'record.deleted'];
    for (const seen of events) {
      expect(seen.toSorted()).toEqual([...created, ...updated].toSorted());
      expect([seen[0], seen.at(-1)]).toEqual(['record.created one', 'record.deleted']);
    }
  }

  /** Runs the scenario in another runtime: its modules, the options and the package `ws` where it has no WebSocket. */
  const program = (given: object, socket = ''): string => `
    import * as client from ${JSON.stringify(DIST)};
    import { scenario } from ${JSON.stringify(SCENARIO)};
    ${socket}
    console.log(JSON.stringify(await scenario(client, { ...${JSON.stringify(given)}${socket && ', WebSocket'} })));`;

  test('under Bun', async () => {
    const [client, { scenario }] = await Promise.all([import(DIST), import(SCENARIO)]);
    expectRight(await scenario(client, await options()));
  });

  test('under Node.js, which has no WebSocket in version 20', async () => {
    const socket = `import WebSocket from ${JSON.stringify(join(ROOT, 'node_modules/ws/wrapper.mjs'))};`;
    const { stdout } = await run('node', ['--input-type=module', '-e', program(await options(), socket)]);
    expectRight(JSON.parse(stdout));
  });

  test('under Deno', async () => {
    const deno = join(ROOT, 'node_modules/.bin/deno');
    const { stdout } = await run(deno, ['eval', '--quiet', '--no-config', program(await options())]);
    expectRight(JSON.parse(stdout));
  });

  test('for `require`', async () => {
    const text = `console.log(Object.keys(require(${JSON.stringify(DIST.replace('.js', '.cjs'))})).length)`;
    expect((await run('node', ['-e', text])).stdout.trim()).toBe('5');
  });

  test('in a page of another origin, as a user', async () => {
    if (chromiumPath === undefined) return;
    const html = `<!doctype html><link rel="icon" href="data:,"><script type="module">
      import * as client from './index.mjs';
      import { scenario } from './scenario.mjs';
      const report = (body) => fetch('/report', { method: 'POST', body: JSON.stringify(body) });
      scenario(client, JSON.parse(decodeURIComponent(location.hash.slice(1)))).then(report, (error) => report({ failed: String(error) }));
    </script>`;
    const files = {
      '/': html,
      '/index.mjs': await readFile(DIST, 'utf8'),
      '/scenario.mjs': await readFile(SCENARIO, 'utf8'),
    };
    const pages = await servePages(files);
    const given = await options({ allowedOrigins: [`http://127.0.0.1:${pages.port}`] });
    const tenant = clientAs(given);
    const { email } = await addUser(tenant, { role: 'admin' });
    const { token: credential } = await signIn(service.anonymous, { slug: given.tenant }, email);
    const hash = encodeURIComponent(JSON.stringify({ ...given, credential }));
    const page = await openPage(`http://127.0.0.1:${pages.port}/#${hash}`);
    expectRight(await pages.reported(() => true));
    await page.close();
    await pages.close();
  });

  const clientAs = ({ credential }: { credential: string }) => service.anonymous.with({ 'x-api-key': credential });
});

describe('what is sent again', () => {
  interface Sent {
    method: string;
    path: string;
    key: string | null;
  }
  type Reply = (() => Response) | Error;

  /** A client whose requests get these replies in turn, the last one again and again. */
  function answeredBy(replies: readonly Reply[], options: Partial<ClientOptions> = {}) {
    const sent: Sent[] = [];
    const client = createClient({
      url: 'http://service/base/',
      credential: 'svc_ak_1',
      fetch: async (url, { method = '', headers }) => {
        const { pathname, search } = new URL(url);
        sent.push({ method, path: pathname + search, key: new Headers(headers).get('idempotency-key') });
        const reply = replies[Math.min(sent.length, replies.length) - 1];
        if (typeof reply !== 'function') throw reply;
        return reply();
      },
      ...options,
    });
    return { client, sent };
  }

  const json =
    (status: number, body: unknown, headers = {}) =>
    (): Response =>
      new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
  const ok = json(200, { success: true, data: { id: '1', items: [] } });
  const error = (status: number, code: string, headers = {}): (() => Response) =>
    json(status, { success: false, error: { code, message: 'no', details: [], requestId: 'r1' } }, headers);
  const busy = error(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '0' });
  const lost = new TypeError('the connection was lost');

  test('reads, and creations and atomic bulk calls under the key of the first try', async () => {
    for (const first of [
      busy,
      lost,
      error(429, 'RATE_LIMITED', { 'retry-after': '0' }),
      error(500, 'INTERNAL_ERROR'),
    ]) {
      const { client, sent } = answeredBy([first, ok]);
      await client.records('deals').list();
      await client.request('GET', '/health');
      expect(sent.map(({ path }) => path)).toEqual([
        '/base/api/entities/deals/records',
        '/base/api/entities/deals/records',
        '/base/health',
      ]);
      for (const write of [
        () => answeredBy([first, ok]),
        () => answeredBy([first, error(409, 'CONFLICT', { 'retry-after': '0' }), ok]),
      ]) {
        const creating = write();
        await creating.client.records('deals').create({ title: 'x' });
        const bulk = write();
        await bulk.client.records('deals').bulk([{ op: 'create', data: {} }]);
        for (const { sent } of [creating, bulk]) {
          expect(sent.length).toBeGreaterThan(1);
          expect(sent[0]?.key).toMatch(/^[0-9a-f-]{36}$/);
          expect(new Set(sent.map(({ key }) => key)).size).toBe(1);
        }
      }
    }
  });

  test('nothing else: changes, deletions, operations each by itself, imports, other calls', async () => {
    const deals = (client: Client<AnySchema>) => client.records('deals');
    const calls: ((client: Client<AnySchema>) => Promise<unknown>)[] = [
      (client) => deals(client).update('1', {}),
      (client) => deals(client).delete('1'),
      (client) => deals(client).create({}, { idempotencyKey: null }),
      (client) => deals(client).bulk([], { atomic: false }),
      (client) => deals(client).import('{}'),
      (client) => client.request('POST', '/api/keys', { body: {} }),
      (client) => client.fetch('POST', '/api/keys', { body: new Blob(['x']) }),
    ];
    for (const call of calls) {
      for (const [first, name] of [
        [busy, 'ApiError'],
        [lost, 'ConnectionError'],
      ] as const) {
        const { client, sent } = answeredBy([first, ok]);
        expect(await call(client).catch((error: Error) => error.name)).toBe(name);
        expect(sent.map(({ key }) => key)).toEqual([null]);
      }
    }
  });

  test('refusals are final, and so are four tries', async () => {
    for (const status of [400, 401, 403, 404, 409, 410, 412, 422]) {
      const { client, sent } = answeredBy([error(status, 'NO', status === 409 ? {} : { 'retry-after': '0' })]);
      expect(await client.views().catch(({ code }) => code)).toBe('NO');
      expect(sent.length).toBe(1);
    }
    const retries: number[] = [];
    const { client, sent } = answeredBy([busy], { onRetry: ({ attempt }) => retries.push(attempt) });
    const failed = await client.views().catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(ApiError);
    expect(failed).toMatchObject({ status: 503, code: 'SERVICE_UNAVAILABLE', requestId: 'r1', retryAfterMs: 0 });
    expect([sent.length, retries]).toEqual([4, [1, 2, 3]]);
  });

  test('the client waits as long as the service asks, and reports the time instead when it is longer than 30 seconds', async () => {
    const waits: number[] = [];
    const waiting = new AbortController();
    const onRetry = ({ waitMs }: { waitMs: number }): void => {
      waits.push(waitMs);
      waiting.abort(new Error('enough'));
    };
    const soon = answeredBy([error(429, 'RATE_LIMITED', { 'retry-after': '9' })], { onRetry });
    expect(await soon.client.views({ signal: waiting.signal }).catch(({ message }) => message)).toBe('enough');
    expect([waits.length, (waits[0] ?? 0) >= 9_000]).toEqual([1, true]);
    const late = answeredBy([error(429, 'RATE_LIMITED', { 'retry-after': '3600' })]);
    expect(await late.client.views().catch(({ retryAfterMs }) => retryAfterMs)).toBe(3_600_000);
    expect(late.sent.length).toBe(1);
  });

  test('an answer that is not the service’s is an ApiError, with its status and how it begins', async () => {
    const page = (status: number) => () =>
      new Response('<html>\n proxy', { status, headers: { 'x-request-id': 'p1' } });
    for (const [status, reply] of [
      [200, page(200)],
      [404, page(404)],
      [403, json(403, ['x'])],
      [401, json(401, null)],
    ] as const) {
      const failed = await answeredBy([reply])
        .client.views()
        .catch((error: unknown) => error);
      expect(failed).toMatchObject({ name: 'ApiError', status, code: 'INVALID_RESPONSE', details: [] });
    }
    expect(
      await answeredBy([page(404)])
        .client.views()
        .catch(({ message, requestId }) => [message.includes('<html> proxy'), requestId]),
    ).toEqual([true, 'p1']);
  });

  test('a try that takes too long is given up; one that the caller cancels ends with the reason', async () => {
    const options = {
      retries: 0,
      timeoutMs: 20,
      fetch: (_: string, { signal }: RequestInit) =>
        new Promise<Response>((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
        }),
    };
    const { client } = answeredBy([], options);
    expect(await client.views().catch(({ name, message }) => [name, message])).toEqual([
      'ConnectionError',
      'GET /api/views: no answer within 20 ms',
    ]);
    const controller = new AbortController();
    for (const call of [
      client.views({ signal: controller.signal, timeoutMs: 0 }),
      client.changes({ signal: controller.signal }).next(),
      client.live({ signal: controller.signal, entities: ['deals'], transport: 'websocket' }).next(),
    ]) {
      controller.abort(new Error('left'));
      expect(await call.catch(({ message }: Error) => message)).toBe('left');
    }
  });

  test('a function is asked for the credential, and once more after a 401', async () => {
    const headers: (string | null)[] = [];
    let given = 0;
    const client = createClient({
      url: '',
      credential: async () => `svc_ak_${Math.min(++given, 2)}`,
      fetch: async (_, init) => {
        const sent = new Headers(init.headers).get('authorization');
        headers.push(sent);
        return sent === 'Bearer svc_ak_2' ? ok() : error(401, 'UNAUTHORIZED')();
      },
    });
    await client.request('POST', '/api/keys');
    expect(headers).toEqual(['Bearer svc_ak_1', 'Bearer svc_ak_2']);
  });

  test('each kind of credential has its header', async () => {
    const sent: Record<string, string>[] = [];
    for (const credential of [
      'svc_pk_1',
      'a.b.c',
      '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
      'svc_adm_1',
      'the secret',
      { adminSecret: 's', adminKey: 'k' },
    ]) {
      const fetch = async (_: string, { headers }: RequestInit): Promise<Response> => {
        sent.push(Object.fromEntries(new Headers(headers)));
        return ok();
      };
      await createClient({ url: '', credential, fetch }).request('GET', '/');
    }
    const bearer = (token: string): object => ({ authorization: `Bearer ${token}` });
    expect(sent).toEqual([
      bearer('svc_pk_1'),
      bearer('a.b.c'),
      bearer('01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'),
      { 'x-admin-key': 'svc_adm_1' },
      { 'x-admin-secret': 'the secret' },
      { 'x-admin-key': 'k', 'x-admin-secret': 's' },
    ] as Json);
  });

  test('an error in the request itself is thrown as it is, and nothing is sent', async () => {
    const { client, sent } = answeredBy([ok], { credential: 'svc_ak_1\nsvc_ak_2' });
    expect(await client.views().catch(({ name }) => name)).toBe('TypeError');
    expect(sent).toEqual([]);
  });

  test('a record that came without its ETag is refused by `etagOf`', () => {
    expect(() => etagOf({ id: '1' })).toThrow('without an ETag');
    expect(new ConnectionError('x')).toBeInstanceOf(Error);
  });
});

test('the sources in one file have no name twice, and none that a generated type may have', async () => {
  const source = await bundledClient();
  const names = [...source.matchAll(/^(?:export )?(?:async )?(?:function\*?|class|interface|type|const) (\w+)/gm)].map(
    ([, name]) => name as string,
  );
  // Overloads of a call are members, not declarations.
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
  expect(names.filter((name) => /(Record|Create|Update)_*$|^(Schema|connect)$/.test(name))).toEqual([]);
  expect(source).not.toMatch(/^import\b/m);
});

/** Never called: code that tsc must accept, and code that it must reject. */
export async function checkTypes(): Promise<void> {
  const client = createClient<Schema>({ url: '' });
  const deals = client.records('deals');
  const deal = await deals.get('1');
  const amount: number | null = deal.amount;
  const { items } = await deals.list({ fields: ['title'], sort: ['-amount', 'createdAt'] });
  const some: { id: string; title: string } | undefined = items[0];
  // @ts-expect-error `amount` was not asked for
  items[0]?.amount;
  const resolved = await deals.get('1', { resolve: true });
  if (typeof resolved.buyer === 'object') resolved.buyer?.name_of;
  const tried = await deals.create({ title: 'x' }, { dryRun: true });
  const rules: string[] = tried.dryRun.rules;
  for await (const change of client.changes({ entities: ['deals'] })) {
    if (change.event === 'record.created' && change.entity === 'deals') change.data.title.length;
    // @ts-expect-error what changed is not known yet
    change.data.title;
  }
  const [group] = await deals.aggregate({ metrics: 'sum:amount', groupBy: ['title'] });
  group?.title;
  // @ts-expect-error a title is needed
  deals.create({ amount: 1 });
  // @ts-expect-error a title is a text
  deals.update('1', { title: 1 });
  // @ts-expect-error no such field
  deals.list({ sort: 'nothing' });
  // @ts-expect-error no such field
  deals.list({ fields: ['nothing'] });
  // @ts-expect-error no such option
  deals.list({ limit: 1, ofset: 2 });
  // @ts-expect-error no such entity
  client.records('nothing');
  // @ts-expect-error no such entity
  client.changes({ entities: ['nothing'] });
  // @ts-expect-error people can only be read
  client.records('people').create({});
  // @ts-expect-error people can only be read
  client.records('people').bulk([]);
  // @ts-expect-error no such metric
  deals.aggregate({ metrics: ['sum:nothing'] });
  // @ts-expect-error an operation needs its id
  deals.bulk([{ op: 'update', data: {} }]);
  // @ts-expect-error an address is needed
  createClient({ tenant: 'demo' });
  const untyped = createClient({ url: '' });
  const title: unknown = (await untyped.records('anything').create({ title: 1 })).title;
  void [amount, some, rules, title];
}
