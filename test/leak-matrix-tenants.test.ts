// Every id, name, cursor, key and session of one tenant, tried in another on every route of the API document, in paths,
// queries, headers and bodies, as an admin and by operators acting there: the answers are those for ids that do not
// exist, and nothing of the other tenant is in any answer, stream, socket or delivery.
// Contract: interface#tenant-context, decisions#tenant-context.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newAddress } from './support/addresses.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession } from './support/credentials.ts';
import { deliveriesOf, settledDeliveries, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { callTool } from './support/mcp-calls.ts';
import { addUser, createPublicKey, invite, registerBot } from './support/people.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import {
  ADMIN_SECRET,
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { connectEvents, subscribeSocket } from './support/streams.ts';

const CANARY = `canary-${crypto.randomUUID().slice(0, 8)}`;
const TASKS = '/api/entities/task/records';

/** What a tenant has, by the name of the path parameter or the member of a body that takes it. */
interface Things {
  tenant: TestTenant;
  /** Ids and names; `id` ones may stand in any path. */
  ids: Record<string, string>;
  cursor: string;
}

let service: TestService;
let receivers: Receiver[];
let a: Things;
let b: Things;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32', TRUST_PROXY: '1' });
  receivers = [await startReceiver(), await startReceiver()];
  a = await fill('plain', receivers[0] as Receiver);
  b = await fill(CANARY, receivers[1] as Receiver);
}, 60_000);
afterAll(async () => {
  await service.stop();
  for (const receiver of receivers) await receiver.stop();
});
const keep = closeAfterEach();

/** Creates one resource of every kind, with texts that contain `text`. */
async function fill(text: string, receiver: Receiver): Promise<Things> {
  const tenant = await service.tenant({ name: text });
  const made = async (path: string, body: Json): Promise<Json> => {
    const answer = await tenant.post(path, body);
    if (answer.status !== 201) throw new Error(`${path}: ${answer.text}`);
    return answer.body.data;
  };
  const own = { key: 'own', type: 'relation', entity: 'task' };
  await createEntity(tenant, 'task', fields('title text'));
  expect((await tenant.post('/api/entities/task/fields', own)).status).toBe(201);
  const subscription = await subscribe(tenant, `${receiver.url}/${text}`, { description: text });
  const record = await createRecord(tenant, TASKS, { title: text });
  await createRecord(tenant, TASKS, { title: text });
  const [delivery] = await settledDeliveries(tenant, subscription.id, 2);
  const bot = await registerBot(service, tenant, `bot-${text}`);
  const message = await made('/agent-messages', { to_agent: `bot-${text}`, subject: text, body: text });
  const role = await made('/api/roles', { name: text, permissions: { task: ['read'], 'view:mine': ['read'] } });
  const view = await made('/api/views', { entitySlug: 'task', slug: `view-${text}`, name: text });
  const action = { type: 'reject', message: text };
  const rule = await made('/api/rules', {
    name: text,
    entity: 'task',
    trigger: 'before_create',
    condition: 'title = "no"',
    action,
  });
  const api = await made('/api/apis', {
    name: text,
    slug: text,
    roles: [text],
    permissions: { task: { [text]: ['read'] } },
  });
  const key = await made(`/api/apis/${api.id}/keys`, { role: text, label: text, ttlDays: 1 });
  const page = await tenant.get(`${TASKS}?cursor=&limit=1&sort=title`);
  return {
    tenant,
    cursor: page.body.data.nextCursor,
    ids: {
      record: record.id,
      entity: record.entityId,
      subscription: subscription.id,
      delivery: delivery?.id,
      event: String(delivery?.event_id).replace('evt_', ''),
      bot: bot.id,
      message: message.message_id,
      role: role.id,
      roleName: text,
      view: view.id,
      viewSlug: `view-${text}`,
      rule: rule.id,
      api: api.id,
      platformKey: key.id,
      publicKey: (await createPublicKey(tenant)).id,
      ownerKey: (await made('/api/keys', { label: text })).id,
      user: (await addUser(tenant, { name: text })).id,
      invitation: await invite(tenant, { email: `${text}@example.com` }),
      slug: tenant.slug,
      tenantId: tenant.id,
    },
  };
}

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const withoutIds = (text: string): string =>
  text.replaceAll(UUID, 'id').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time');

/** Whether a text, apart from what was sent, contains anything of `b`. */
function expectNothingOfB(text: string, sent: string, what: string): void {
  const received = text.replaceAll(sent, '');
  for (const value of [CANARY, ...Object.values(b.ids)].filter((value) => !sent.includes(value))) {
    expect(received.includes(value), `${what}: ${value} in ${received.slice(0, 500)}`).toBe(false);
  }
}

/** Everything stored in `b`, without times of use. */
async function everythingOfB(): Promise<unknown[]> {
  const lists = [
    'entities',
    'views',
    'roles',
    'rules',
    'users',
    'keys',
    'apis',
    'auth/bots',
    'auth/public-keys',
    'invitations',
  ];
  const paths = [
    ...lists.map((path) => `/api/${path}`),
    TASKS,
    '/api/webhooks/subscriptions',
    '/agent-messages',
    '/api/tenant',
  ];
  const texts = await Promise.all(paths.map(async (path) => (await b.tenant.get(path)).text));
  const deliveries = await deliveriesOf(b.tenant, b.ids.subscription as string);
  return [
    deliveries,
    ...texts.map((text) => JSON.parse(text, (name, value) => (name === 'lastUsedAt' ? null : value))),
  ];
}

/** Every operation of the API document with a path parameter. */
async function operations(): Promise<[string, string][]> {
  const { paths } = (await service.anonymous.get('/swagger/json')).body;
  const methods = ['get', 'post', 'put', 'patch', 'delete'];
  return Object.entries(paths as Json).flatMap(([path, item]) =>
    Object.keys(item as object)
      .filter((method) => methods.includes(method))
      .map((method): [string, string] => [method.toUpperCase(), path]),
  );
}

describe('every id of another tenant', () => {
  /** Bodies that name things by id or name. */
  const bodies: Record<string, (id: string) => Json> = {
    'POST /agent-messages': (id) => ({ to_agent: id, subject: 's', body: 'b', in_reply_to: id }),
    'POST /api/auth/public-keys': (id) => ({ label: 'l', roleId: id, scopes: ['records:read'] }),
    'POST /api/users': (id) => ({ email: 'new@example.com', name: 'n', role: id, password: 'long enough text' }),
    'POST /api/views': (id) => ({ entitySlug: id, slug: 'v', name: 'n' }),
    'POST /api/rules': (id) => ({
      name: 'n',
      entity: id,
      trigger: 'before_create',
      action: { type: 'reject', message: 'm' },
    }),
    'POST /api/webhooks/subscriptions': (id) => ({
      entity_name: id,
      event_types: ['record.created'],
      url: 'http://127.0.0.1:1/',
    }),
    'POST /api/entities/{entityName}/records': (id) => ({ own: id }),
    'PATCH /api/entities/{entityName}/records/{id}': (id) => ({ own: id }),
    'POST /api/entities/{entityName}/records/bulk': (id) => ({
      atomic: false,
      operations: [
        { op: 'update', id, data: { title: 'taken over' } },
        { op: 'delete', id },
        { op: 'create', data: { own: id } },
      ],
    }),
    'POST /api/auth/bots/identify': (id) => ({ name: id, secret: 'x'.repeat(32) }),
    'POST /api/auth/bots/register': (id) => ({ name: 'bot-new', tenantSlug: id }),
    'POST /api/invitations': (id) => ({ tenantSlug: id }),
    'PATCH /api/tenant': (id) => ({ id, slug: id, tenantId: id }),
  };

  test('is answered like one that does not exist, on every route; nothing of the other tenant is shown or changed', async () => {
    const before = await everythingOfB();
    const session = await adminSession(service, a.tenant);
    const headers = { 'x-request-id': 'same', 'x-tenant-id': a.tenant.slug };
    const clients: [string, Client][] = [
      ['owner key', a.tenant.with({ 'x-request-id': 'same' })],
      ['admin session', clientOf(service.url, { ...headers, authorization: `Bearer ${session}` })],
      ['super-admin', clientOf(service.url, { ...headers, 'x-admin-secret': ADMIN_SECRET })],
    ];
    let requests = 0;
    for (const [method, path] of await operations()) {
      // Operators see all tenants; invitations are open to whoever has the token; streams are tried below.
      if (/^\/(api\/admin|auth\/invite|invite)|events\/stream$|sessions\/current/.test(path)) continue;
      const bodyOf = bodies[`${method} ${path}`];
      if (!path.includes('{') && bodyOf === undefined) continue;
      for (const id of Object.values(b.ids)) {
        const isUuid = id.match(UUID) !== null;
        const absent = isUuid ? crypto.randomUUID() : `x${id.slice(1)}`;
        for (const [kind, client] of [clients[requests % clients.length] as [string, Client]]) {
          const [one, other] = await Promise.all(
            [id, absent].map((value) => {
              const filled = path
                .replace('{entityName}', path.includes('/records') ? 'task' : value)
                .replaceAll(/\{\w+\}/g, value);
              const body = bodyOf?.(value) ?? (['POST', 'PUT', 'PATCH'].includes(method) ? {} : undefined);
              // Sign-ins are counted by address.
              return client.request(method, filled, body, newAddress());
            }),
          );
          requests += 1;
          const what = `${kind}: ${method} ${path} with ${id}`;
          const texts = [one, other].map((answer, i) =>
            withoutIds(answer?.text.replaceAll([id, absent][i] as string, 'id') ?? ''),
          );
          expect([one?.status, texts[0]], what).toEqual([other?.status, texts[1]]);
          expectNothingOfB(`${one?.text} ${JSON.stringify([...(one?.headers ?? [])])}`, id, what);
        }
      }
    }
    expect(requests).toBeGreaterThan(500);
    expect(await everythingOfB()).toEqual(before);
    expect(receivers[0]?.received.every(({ text, path }) => !`${text}${path}`.includes(CANARY))).toBe(true);
  }, 240_000);

  test('in queries: cursors, filters, views and ranges show nothing of it', async () => {
    const { record, event, user } = b.ids as { record: string; event: string; user: string };
    const queries = [
      `cursor=${encodeURIComponent(b.cursor)}&sort=title`,
      `cursor=${encodeURIComponent(b.cursor)}`,
      `filters=${encodeURIComponent(`own = "${record}"`)}`,
      `filters=${encodeURIComponent(`own.title contains "${CANARY.slice(0, 6)}"`)}`,
      `filters=${encodeURIComponent(`createdBy = "${user}"`)}`,
      `filter.own=${record}&resolve_depth=2`,
      `search=${CANARY}`,
    ];
    for (const query of queries) {
      for (const path of [TASKS, `${TASKS}/export`, `${TASKS}/aggregate`]) {
        const answer = await a.tenant.get(`${path}?${query}`);
        expect(answer.status, query).toBeLessThan(500);
        expectNothingOfB(answer.text, CANARY, query);
      }
    }
    expect((await a.tenant.get(`${TASKS}/${event}`)).status).toBe(404);
  });
});

describe('sessions and channels of another tenant', () => {
  test('an MCP session is for the credential that opened it, and `tenantSlug` names no other tenant', async () => {
    const open = (key: string): Promise<Response> =>
      fetch(`${service.url}/mcp`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'x-api-key': key,
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'initialize',
          params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
        }),
      });
    const ofB = (await open(b.tenant.key)).headers.get('mcp-session-id') as string;
    expect(ofB).toStartWith('mcp_');
    const own = { 'x-api-key': a.tenant.key, 'x-request-id': 'same' };
    const stolen = await callTool(
      service.url,
      'query_records',
      { entity_name: 'task' },
      { ...own, 'mcp-session-id': ofB },
    );
    const unknown = { ...own, 'mcp-session-id': 'mcp_unknown' };
    expect(stolen.status).toBe((await callTool(service.url, 'query_records', { entity_name: 'task' }, unknown)).status);
    expect(stolen.text).not.toContain(CANARY);
    const answers = [];
    for (const tenantSlug of [b.tenant.slug, `${b.tenant.slug}x`]) {
      for (const name of ['query_records', 'select_tenant', 'list_entities', 'list_webhooks', 'generate_api_client']) {
        const { status, text } = await callTool(service.url, name, { entity_name: 'task', tenantSlug }, own);
        expect(text).not.toContain(CANARY);
        answers.push(`${status} ${text.replaceAll(tenantSlug, 'slug')}`);
      }
    }
    expect(answers.slice(5)).toEqual(answers.slice(0, 5));
  });

  test('streams, sockets and deliveries carry nothing of it', async () => {
    for (const slug of [b.tenant.slug, 'no-such-tenant']) {
      const headers = { 'x-api-key': a.tenant.key, 'x-request-id': 'same' };
      const refused = await fetch(`${service.url}/api/v1/tenants/${slug}/events/stream`, { headers });
      expect([refused.status, await refused.text()]).toEqual([
        403,
        expect.stringContaining('belongs to another tenant'),
      ]);
    }
    const agent = `?agent_id=bot-${CANARY}`;
    const stream = keep(await connectEvents(service.url, a.tenant.slug, a.tenant.key, agent));
    const socket = keep(await subscribeSocket(service.url, await adminSession(service, a.tenant), 'task'));
    await createRecord(b.tenant, TASKS, { title: CANARY });
    await b.tenant.post('/agent-messages', { to_agent: `bot-${CANARY}`, subject: CANARY, body: CANARY });
    await createRecord(a.tenant, TASKS, { title: 'the last' });
    expect((await stream.next()).data.data.fields.title).toBe('the last');
    expect((await socket.next()).data.title).toBe('the last');
    expect(stream.text.replaceAll(agent, '')).not.toContain(CANARY);
    await receivers[0]?.waitFor(3);
    expect(receivers[0]?.received.every(({ text }) => !text.includes(CANARY))).toBe(true);
  });
});
