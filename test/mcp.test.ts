// MCP: the tools, their rights and failures, over HTTP in both protocol revisions and over stdio. The generated
// client is compiled with `strict` and used against the running service.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import { closeMcpStreams } from '../src/mcp/routes.ts';
import { sql } from '../src/runtime/sql.ts';
import { newAddress } from './support/addresses.ts';
import { addRole, botToken, platformKey, publicKey, userToken } from './support/credentials.ts';
import { startReceiver } from './support/receiver.ts';
import { ADMIN_SECRET, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';

const BASIC = [
  'tenant_login',
  'select_tenant',
  'get_rest_api_spec',
  'generate_api_client',
  'list_entities',
  'query_records',
  'get_record',
  'create_record',
  'update_record',
  'delete_record',
  'get_changes',
  'get_history',
  'explain_access',
  'register_bot',
  'identify_bot',
  'list_bots',
  'whoami_bot',
  'revoke_bot',
];
const WEBHOOKS = ['create_webhook', 'list_webhooks', 'delete_webhook'];
const MODERN = '2026-07-28';
const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

interface Reply {
  status: number;
  headers: Headers;
  body: Json;
}

type HeaderMap = Record<string, string>;

let service: TestService;
let tenant: TestTenant;
let other: TestTenant;
let owner: HeaderMap;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32', TRUST_PROXY: '1' });
  [tenant, other] = await Promise.all([service.tenant(), service.tenant()]);
  owner = { 'x-api-key': tenant.key };
  await tenant.post('/api/entities', { name: 'customer', fields: [{ key: 'name_of', type: 'text', required: true }] });
  await tenant.post('/api/entities', {
    name: 'order_item',
    description: 'What was ordered */ and more',
    fields: [
      { key: 'title', type: 'text', required: true },
      { key: 'status', type: 'select', options: ['open', 'it"s closed'], default: 'open', required: true },
      { key: 'tags', type: 'multiselect', options: ['a', 'b'] },
      { key: 'amount', type: 'decimal' },
      { key: 'count', type: 'integer' },
      { key: 'done', type: 'boolean' },
      { key: 'extra', type: 'json' },
      { key: 'customer', type: 'relation', entity: 'customer' },
      { key: 'secret_note', type: 'text' },
    ],
  });
});
afterAll(async () => service.stop());

/** Sign-ins are counted by address. */
const ADDRESS = newAddress();

async function send(message: Json, headers: HeaderMap = {}, query = ''): Promise<Reply> {
  const response = await fetch(`${service.url}/mcp${query}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...ADDRESS,
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
  });
  const text = await response.text();
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const json = isStream ? (/^data: (.*)$/m.exec(text)?.[1] ?? '') : text;
  return { status: response.status, headers: response.headers, body: json === '' ? undefined : JSON.parse(json) };
}

/** Like `send`, in revision 2026-07-28. */
function sendModern(method: string, params: Json, headers: HeaderMap = {}): Promise<Reply> {
  const named: HeaderMap = params.name === undefined ? {} : { 'mcp-name': params.name };
  const own = { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...named, ...headers };
  return send({ method, params: { ...params, _meta: META } }, own);
}

async function call(name: string, input: Json = {}, headers: HeaderMap = owner, query = ''): Promise<Json> {
  const { status, body } = await send({ method: 'tools/call', params: { name, arguments: input } }, headers, query);
  expect(status).toBe(200);
  return body.result ?? body;
}

/** The structured content of a call that must succeed; its text is the same JSON, but for one tool. */
async function resultOf(name: string, input: Json = {}, headers: HeaderMap = owner, query = ''): Promise<Json> {
  const result = await call(name, input, headers, query);
  expect([name, result.isError, result.content?.[0]?.text]).toEqual([
    name,
    undefined,
    name === 'get_rest_api_spec'
      ? 'The API document is in the structured content.'
      : JSON.stringify(result.structuredContent),
  ]);
  return result.structuredContent;
}

/** The error of a call that must fail, in the format of REST. */
async function errorOf(name: string, input: Json = {}, headers: HeaderMap = owner, query = ''): Promise<Json> {
  const { isError, structuredContent, content } = await call(name, input, headers, query);
  expect([name, isError, structuredContent]).toEqual([name, true, undefined]);
  const { success, error } = JSON.parse(content[0].text);
  expect(success).toBe(false);
  return error;
}

const superAdmin: HeaderMap = { 'x-admin-secret': ADMIN_SECRET };
const bearer = (token: string): HeaderMap => ({ authorization: `Bearer ${token}` });

describe('the tools', () => {
  test('the profile in the URL decides whether there are webhook tools', async () => {
    const names = async (query: string): Promise<string[]> =>
      (await send({ method: 'tools/list' }, owner, query)).body.result.tools.map(({ name }: Json) => name);
    expect(await names('')).toEqual(BASIC);
    expect(await names('?profile=basic')).toEqual(BASIC);
    expect(await names('?profile=advanced')).toEqual([...BASIC, ...WEBHOOKS]);
    expect((await send({ method: 'tools/list' }, owner, '?profile=everything')).status).toBe(400);
    const answer = await call('list_webhooks');
    expect(answer.structuredContent).toBeUndefined();
  });

  test('every tool has all annotations, an object as output schema, and the argument tenantSlug', async () => {
    const { tools } = (await send({ method: 'tools/list' }, owner, '?profile=advanced')).body.result;
    const ajv = new Ajv2020({ strict: false });
    for (const { name, title, description, annotations, inputSchema, outputSchema } of tools) {
      expect(Object.keys(annotations).sort()).toEqual([
        'destructiveHint',
        'idempotentHint',
        'openWorldHint',
        'readOnlyHint',
        'title',
      ]);
      expect([name, typeof title, typeof description, outputSchema.type]).toEqual([name, 'string', 'string', 'object']);
      expect(inputSchema.properties.tenantSlug.type).toBe('string');
      expect(() => ajv.compile(inputSchema)).not.toThrow();
      expect(() => ajv.compile(outputSchema)).not.toThrow();
      expect(JSON.stringify([inputSchema, outputSchema])).not.toContain('"$id"');
    }
  });

  test('the arguments have the names of the contract', async () => {
    const { tools } = (await send({ method: 'tools/list' }, owner, '?profile=advanced')).body.result;
    const named = Object.fromEntries(
      tools.map(({ name, inputSchema }: Json) => {
        const required = inputSchema.required ?? [];
        return [name, Object.keys(inputSchema.properties).map((key) => (required.includes(key) ? key : `${key}?`))];
      }),
    );
    const wanted: Record<string, string> = {
      select_tenant: 'tenantSlug',
      tenant_login: 'tenantSlug email password',
      create_webhook: 'entity_name event_types url secret? description?',
      list_webhooks: 'entity_name?',
      delete_webhook: 'webhook_id',
      query_records: 'entity_name filters? page? limit? sort? order?',
      get_record: 'entity_name record_id',
      create_record: 'entity_name data',
      update_record: 'entity_name record_id data',
      delete_record: 'entity_name record_id',
    };
    for (const [name, args] of Object.entries(wanted)) {
      expect([name, ...named[name]]).toEqual(expect.arrayContaining([name, ...args.split(' ')]));
    }
  });

  test('results match the output schema', async () => {
    const { tools } = (await send({ method: 'tools/list' }, owner)).body.result;
    const ajv = new Ajv2020({ strict: false });
    const record = await resultOf('create_record', { entity_name: 'customer', data: { name_of: 'Ada' } });
    const inputs: Record<string, Json> = {
      list_entities: {},
      list_bots: {},
      whoami_bot: {},
      get_rest_api_spec: {},
      get_changes: { since: 'earliest' },
      explain_access: { as: { role: 'viewer' }, operation: 'delete', entity: 'customer', record_id: record.id },
      generate_api_client: {},
      query_records: { entity_name: 'customer' },
      get_record: { entity_name: 'customer', record_id: record.id },
      update_record: { entity_name: 'customer', record_id: record.id, data: { name_of: 'Eve' } },
      delete_record: { entity_name: 'customer', record_id: record.id },
      get_history: { entity_name: 'customer', record_id: record.id },
    };
    for (const [name, input] of Object.entries(inputs)) {
      const validate = ajv.compile(tools.find((tool: Json) => tool.name === name).outputSchema);
      const content = await resultOf(name, input);
      expect([name, validate(content), validate.errors]).toEqual([name, true, null]);
    }
  });

  test('records are created, found, changed and deleted as over REST, with events marked as triggered by mcp', async () => {
    const made = await resultOf('create_record', {
      entity_name: 'order_item',
      data: { title: 'pump', amount: '1.50' },
    });
    expect((await tenant.get(`/api/entities/order_item/records/${made.id}`)).body.data).toEqual(made);
    const changes = { entity_name: 'order_item', record_id: made.id, data: { title: 'big pump' } };
    expect((await resultOf('update_record', changes)).title).toBe('big pump');
    const found = await resultOf('query_records', {
      entity_name: 'order_item',
      filters: 'title contains "pump" AND amount > 1',
      limit: 5,
      sort: 'title',
      order: 'desc',
    });
    expect([found.total, found.limit, found.items[0].id]).toEqual([1, 5, made.id]);
    expect(await resultOf('delete_record', { entity_name: 'order_item', record_id: made.id })).toEqual({
      id: made.id,
      deleted: true,
    });
    const rows = await service.app.db.rows<{ triggered_by: string }>(sql`
      select triggered_by from platform.events where tenant_id = ${tenant.id}::uuid and record_id = ${made.id}::uuid`);
    expect(rows.map(({ triggered_by: by }) => by)).toEqual(['mcp', 'mcp', 'mcp']);
  });

  test('a failed call has the code and message of REST, and names every invalid argument', async () => {
    const missing = await errorOf('get_record', { entity_name: 'order_item', record_id: tenant.id });
    const rest = await tenant.get(`/api/entities/order_item/records/${tenant.id}`);
    expect([missing.code, missing.message]).toEqual([rest.body.error.code, rest.body.error.message]);
    expect((await errorOf('query_records', { entity_name: 'nothing' })).code).toBe('NOT_FOUND');
    const faulty = await errorOf('query_records', { limit: 1000, order: 'up', pages: 2 });
    expect(faulty.code).toBe('VALIDATION_ERROR');
    expect(faulty.details.map(({ path }: Json) => path).sort()).toEqual(['entity_name', 'limit', 'order', 'pages']);
    const values = await errorOf('create_record', { entity_name: 'order_item', data: { status: 'x', nothing: 1 } });
    expect(values.details.map(({ path }: Json) => path).sort()).toEqual(['nothing', 'status', 'title']);
  });

  test('bots are registered, identified, listed and revoked, by tenant admins only', async () => {
    const bot = await resultOf('register_bot', { name: 'agent-7', permissions: { entities: { customer: ['read'] } } });
    expect(bot.tenantSlug).toBe(tenant.slug);
    const identified = await resultOf('identify_bot', { name: 'agent-7', secret: bot.secret });
    const me = await resultOf('whoami_bot', {}, bearer(identified.token));
    expect([me.kind, me.id, me.tenant.slug, me.permissions]).toEqual([
      'bot',
      bot.id,
      tenant.slug,
      { customer: ['read'] },
    ]);
    expect((await errorOf('list_bots', {}, bearer(identified.token))).code).toBe('FORBIDDEN');
    expect((await errorOf('create_record', { entity_name: 'customer', data: {} }, bearer(identified.token))).code).toBe(
      'FORBIDDEN',
    );
    const { bots } = await resultOf('list_bots');
    expect(bots.map(({ id }: Json) => id)).toContain(bot.id);
    expect(JSON.stringify(bots)).not.toContain(bot.secret);
    expect(await resultOf('revoke_bot', { bot_id: bot.id })).toEqual({ id: bot.id, revoked: true });
    expect((await errorOf('identify_bot', { name: 'agent-7', secret: bot.secret })).code).toBe('FORBIDDEN');
  });

  test('webhooks are created, listed and deleted, by tenant admins only', async () => {
    const advanced = '?profile=advanced';
    const input = {
      entity_name: 'customer',
      event_types: ['record.created'],
      url: 'https://93.184.215.14/hook',
      secret: 'whsec_hidden',
      description: 'test',
    };
    const made = await resultOf('create_webhook', input, owner, advanced);
    expect([made.entity_name, made.has_secret, made.secret]).toEqual(['customer', true, undefined]);
    expect((await errorOf('create_webhook', input, owner, advanced)).code).toBe('CONFLICT');
    const inside = { ...input, url: 'http://10.0.0.1/' };
    expect((await errorOf('create_webhook', inside, owner, advanced)).code).toBe('VALIDATION_ERROR');
    const list = async (entity: Json): Promise<Json> =>
      (await resultOf('list_webhooks', entity, owner, advanced)).webhooks;
    expect(await list({})).toEqual([made]);
    expect(await list({ entity_name: 'customer' })).toEqual([made]);
    expect(await list({ entity_name: 'order_item' })).toEqual([]);
    const user = bearer(await userToken(service, tenant, 'member'));
    expect((await errorOf('list_webhooks', {}, user, advanced)).code).toBe('FORBIDDEN');
    expect((await errorOf('delete_webhook', { webhook_id: made.id }, { 'x-api-key': other.key }, advanced)).code).toBe(
      'NOT_FOUND',
    );
    expect(await resultOf('delete_webhook', { webhook_id: made.id }, owner, advanced)).toEqual({
      id: made.id,
      deleted: true,
    });
  });
});

describe('callers', () => {
  test('without a credential the tools can be listed, and only tenant_login works', async () => {
    expect((await send({ method: 'tools/list' })).status).toBe(200);
    const { tools } = (await send({ method: 'tools/list' })).body.result;
    for (const { name } of tools.filter((tool: Json) => tool.name !== 'tenant_login')) {
      expect((await errorOf(name, {}, {})).code).toBe('UNAUTHORIZED');
    }
    const login = { tenantSlug: tenant.slug, email: 'nobody@acme.test', password: 'wrong password' };
    expect((await errorOf('tenant_login', login, {})).message).not.toContain('missing');
    expect((await errorOf('tenant_login', { ...login, tenantSlug: 'no-such-tenant' }, {})).code).toBe('NOT_FOUND');
  });

  test('an invalid credential or a public key gets 401 before anything else is checked', async () => {
    const wrong = await send({ method: 'tools/list' }, { 'x-api-key': 'svc_ak_wrong' });
    expect([wrong.status, wrong.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    const role = await addRole(service, tenant, { permissions: { '*': ['read'] } });
    const key = await publicKey(service, tenant, role.id);
    expect((await send({ method: 'tools/list' }, { 'x-public-key': key })).status).toBe(401);
    expect((await send({ method: 'tools/list' }, { ...owner, ...superAdmin })).status).toBe(401);
  });

  test('tenant_login returns a token that the other tools accept', async () => {
    const person = { email: 'ada@acme.test', name: 'Ada', role: 'admin', password: 'correct horse battery' };
    expect((await tenant.post('/api/users', person)).status).toBe(201);
    const input = { tenantSlug: tenant.slug, email: person.email, password: person.password };
    const { token, user } = await resultOf('tenant_login', input, {});
    expect(user.email).toBe(person.email);
    expect((await resultOf('whoami_bot', {}, bearer(token))).email).toBe(person.email);
  });

  test('a role sees through the tools exactly what it sees over REST', async () => {
    const role = await addRole(service, tenant, {
      permissions: { order_item: ['read'] },
      entities: { order_item: { excludeFields: ['secret_note'], rowFilter: 'title = "mine"' } },
    });
    const key = bearer(await platformKey(service, tenant, role.name, { order_item: ['read'] }));
    for (const title of ['mine', 'theirs']) {
      await tenant.post('/api/entities/order_item/records', { title, secret_note: 'hush' });
    }
    const { items, total } = await resultOf('query_records', { entity_name: 'order_item' }, key);
    expect([total, items[0].title, 'secret_note' in items[0]]).toEqual([1, 'mine', false]);
    expect((await errorOf('query_records', { entity_name: 'customer' }, key)).code).toBe('FORBIDDEN');
    const { entities } = await resultOf('list_entities', {}, key);
    expect(entities.map(({ name }: Json) => name)).toEqual(['order_item']);
    for (const name of ['list_entities', 'get_rest_api_spec', 'generate_api_client']) {
      expect(JSON.stringify(await resultOf(name, {}, key))).not.toContain('secret_note');
    }
  });

  test('a tenant-bound credential reaches no other tenant, even if a call names one', async () => {
    const input = { entity_name: 'customer', tenantSlug: other.slug };
    expect((await errorOf('query_records', input)).code).toBe('FORBIDDEN');
    expect((await errorOf('select_tenant', { tenantSlug: other.slug })).code).toBe('FORBIDDEN');
    expect((await errorOf('select_tenant', { tenantSlug: 'no-such-tenant' })).code).toBe('FORBIDDEN');
    expect((await errorOf('select_tenant', { tenantSlug: 'bad slug\r\nx' })).code).toBe('VALIDATION_ERROR');
    expect((await errorOf('register_bot', { name: 'spy', tenantSlug: other.slug })).code).toBe('FORBIDDEN');
  });

  test('the super-admin names the tenant by header, by argument, or once for a session', async () => {
    expect((await errorOf('list_entities', {}, superAdmin)).code).toBe('VALIDATION_ERROR');
    expect((await resultOf('list_entities', {}, { ...superAdmin, 'x-tenant-id': tenant.slug })).entities.length).toBe(
      2,
    );
    expect((await resultOf('list_entities', { tenantSlug: tenant.slug }, superAdmin)).entities.length).toBe(2);
    expect((await resultOf('select_tenant', { tenantSlug: tenant.slug }, superAdmin)).isKept).toBe(false);
    const session = { ...superAdmin, 'mcp-session-id': await openSession(superAdmin) };
    expect((await resultOf('select_tenant', { tenantSlug: tenant.slug }, session)).isKept).toBe(true);
    expect((await resultOf('list_entities', {}, session)).entities.length).toBe(2);
    expect((await resultOf('list_entities', { tenantSlug: other.slug }, session)).entities.length).toBe(0);
    expect((await errorOf('select_tenant', { tenantSlug: 'no-such-tenant' }, session)).code).toBe('NOT_FOUND');
    expect((await resultOf('list_entities', {}, session)).entities.length).toBe(2);
  });

  test('a session that called tenant_login acts as that user until the login ends', async () => {
    const person = { email: 'eve@example.com', name: 'Eve', role: 'viewer', password: 'correct horse battery' };
    const user = (await tenant.post('/api/users', person)).body.data;
    const input = { tenantSlug: tenant.slug, email: person.email, password: person.password };
    const whoIs = async (headers: HeaderMap): Promise<Json> => (await resultOf('whoami_bot', {}, headers)).email;
    // Sessions without a credential, of another tenant's owner, and of the operator in another tenant.
    for (const own of [{}, { 'x-api-key': other.key }, superAdmin]) {
      const session = { ...own, 'mcp-session-id': await openSession(own) };
      if (own === superAdmin) await resultOf('select_tenant', { tenantSlug: other.slug }, session);
      expect((await resultOf('tenant_login', input, session)).isKept).toBe(true);
      expect(await whoIs(session)).toBe(person.email);
      expect((await resultOf('list_entities', {}, session)).entities.length).toBe(2);
      expect((await errorOf('create_record', { entity_name: 'customer', data: {} }, session)).code).toBe('FORBIDDEN');
      expect((await errorOf('list_entities', { tenantSlug: other.slug }, session)).code).toBe('FORBIDDEN');
      // Without a session, or in another one, nothing is remembered; and others cannot use the session.
      expect((await resultOf('tenant_login', input, own)).isKept).toBe(false);
      const foreign = { 'x-api-key': tenant.key, 'mcp-session-id': session['mcp-session-id'] };
      expect((await send({ method: 'tools/list' }, foreign)).status).toBe(404);
      await tenant.patch(`/api/users/${user.id}`, { isActive: false });
      const ended = await errorOf('list_entities', {}, session);
      expect([ended.code, ended.message]).toEqual(['UNAUTHORIZED', expect.stringContaining('tenant_login again')]);
      expect((await send({ method: 'tools/list' }, session)).status).toBe(200);
      await tenant.patch(`/api/users/${user.id}`, { isActive: true });
      expect((await resultOf('tenant_login', input, session)).isKept).toBe(true);
      expect(await whoIs(session)).toBe(person.email);
    }
  });

  test('strangers open a bounded number of sessions, and continue without one', async () => {
    const address = newAddress();
    const open = () => send({ method: 'initialize', params: INITIALIZE }, address);
    const first = (await open()).headers.get('mcp-session-id') as string;
    const session = { ...address, 'mcp-session-id': first };
    expect((await errorOf('list_entities', {}, session)).code).toBe('UNAUTHORIZED');
    const ids = await Promise.all(
      Array.from({ length: 210 }, async () => (await open()).headers.get('mcp-session-id')),
    );
    expect(ids.filter((id) => id !== null)).toHaveLength(199);
    expect((await open()).status).toBe(200);
    expect((await send({ method: 'tools/list' }, session)).status).toBe(200);
    const end = () => fetch(`${service.url}/mcp`, { method: 'DELETE', headers: session });
    expect([(await end()).status, (await end()).status]).toEqual([200, 404]);
  });

  test('a session belongs to the credential that opened it, and can be ended', async () => {
    const id = await openSession(owner);
    const list = (headers: HeaderMap) => send({ method: 'tools/list' }, { 'mcp-session-id': id, ...headers });
    expect((await list(owner)).status).toBe(200);
    expect((await list({ 'x-api-key': other.key })).status).toBe(404);
    expect((await list({})).status).toBe(404);
    expect((await send({ method: 'tools/list' }, { ...owner, 'mcp-session-id': 'mcp_unknown' })).status).toBe(404);
    const end = (headers: HeaderMap) =>
      fetch(`${service.url}/mcp`, { method: 'DELETE', headers: { 'mcp-session-id': id, ...headers } });
    expect((await end({ 'x-api-key': other.key })).status).toBe(404);
    expect((await end(owner)).status).toBe(200);
    expect((await end(owner)).status).toBe(404);
    expect((await list(owner)).status).toBe(404);
  });

  test('nobody else can sign a session in or end it, whichever tenant the request names', async () => {
    const person = { email: 'mallory@example.com', name: 'Mallory', role: 'admin', password: 'correct horse battery' };
    await other.post('/api/users', person);
    const input = { tenantSlug: other.slug, email: person.email, password: person.password };
    const [own, ofSuperAdmin] = [await openSession(owner), await openSession(superAdmin)];
    await resultOf('select_tenant', { tenantSlug: tenant.slug }, { ...superAdmin, 'mcp-session-id': ofSuperAdmin });
    const third = await service.tenant();
    for (const id of [own, ofSuperAdmin]) {
      const named: HeaderMap[] = [{}, { 'x-tenant-id': other.slug }, { 'x-tenant-slug': 'no-such-tenant' }];
      for (const tenantHeader of named) {
        const foreign: HeaderMap = { 'x-api-key': third.key, ...tenantHeader, 'mcp-session-id': id };
        const call = { method: 'tools/call', params: { name: 'tenant_login', arguments: input } };
        expect((await send(call, foreign)).status).toBe(404);
        expect((await fetch(`${service.url}/mcp`, { method: 'DELETE', headers: foreign })).status).toBe(404);
      }
    }
    const whoami = await resultOf('whoami_bot', {}, { ...owner, 'mcp-session-id': own });
    expect(whoami.kind).toBe('owner_key');
  });

  test('requests from other origins or for other host names get 403', async () => {
    const status = async (headers: HeaderMap) => (await send({ method: 'tools/list' }, headers)).status;
    expect(await status({ origin: 'https://evil.example' })).toBe(403);
    expect(await status({ origin: 'null' })).toBe(403);
    expect(await status({ host: 'evil.example' })).toBe(403);
    expect(await status({ host: 'evil.example', origin: 'http://evil.example' })).toBe(403);
    expect(await status({ origin: service.url })).toBe(200);
  });
});

const INITIALIZE = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } };

async function openSession(headers: HeaderMap): Promise<string> {
  const answer = await send({ method: 'initialize', params: INITIALIZE }, headers);
  expect([answer.status, answer.body.result.protocolVersion]).toEqual([200, '2025-11-25']);
  return answer.headers.get('mcp-session-id') ?? '';
}

describe('the protocol', () => {
  test('revision 2026-07-28 is served without a handshake: discover, list and call', async () => {
    const found = await sendModern('server/discover', {});
    expect(found.body.result.supportedVersions).toContain(MODERN);
    const version = JSON.parse(await Bun.file('package.json').text()).version;
    expect(found.body.result._meta['io.modelcontextprotocol/serverInfo'].version).toBe(version);
    const list = await sendModern('tools/list', {}, owner);
    expect([list.body.result.cacheScope, list.body.result.resultType]).toEqual(['private', 'complete']);
    const answer = await sendModern('tools/call', { name: 'list_entities', arguments: {} }, owner);
    expect(answer.body.result.structuredContent.entities.length).toBe(2);
    expect(answer.headers.has('mcp-session-id')).toBe(false);
  });

  test('an unknown method or version, or a header that differs from the body, is a protocol error', async () => {
    expect((await sendModern('no/such', {}, owner)).status).toBe(404);
    const mismatch = await sendModern('tools/call', { name: 'list_entities' }, { ...owner, 'mcp-name': 'list_bots' });
    expect([mismatch.status, mismatch.body.error.code]).toEqual([400, -32020]);
    expect((await send({ method: 'no/such' }, owner)).body.error.code).toBe(-32601);
  });

  test('a body that is not JSON, too large or of another type is refused', async () => {
    const post = (body: string, type = 'application/json') =>
      fetch(`${service.url}/mcp`, { method: 'POST', headers: { ...owner, 'content-type': type }, body });
    const broken = await post('{"jsonrpc":');
    expect([broken.status, ((await broken.json()) as Json).error.code]).toEqual([400, -32700]);
    expect((await post('{}', 'text/plain')).status).toBe(415);
    expect((await post(`{"x":"${'x'.repeat(1_100_000)}"}`)).status).toBe(413);
    expect((await fetch(`${service.url}/mcp`, { headers: owner })).status).toBe(405);
  });

  test.each(['0.1', '9007199254740993', 'true', 'null', '[1]'])(
    'the id %s, which is no string and no integer, is refused and not repeated',
    async (id) => {
      const headers = { ...owner, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      for (const method of ['ping', 'tools/list', 'initialize']) {
        const body = `{"jsonrpc":"2.0","id":${id},"method":"${method}"}`;
        const refused = await fetch(`${service.url}/mcp`, { method: 'POST', headers, body });
        expect(refused.status).toBe(400);
        expect(await refused.json()).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600 } });
      }
    },
  );

  test('a subscription needs a credential, and ends with the service', async () => {
    expect((await sendModern('subscriptions/listen', { notifications: {} })).status).toBe(401);
    const response = await fetch(`${service.url}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': MODERN,
        'mcp-method': 'subscriptions/listen',
        ...owner,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: { notifications: {}, _meta: META },
      }),
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    await closeMcpStreams(service.app);
    expect(await response.text()).toContain('acknowledged');
  });

  test('calls count towards the general rate limit', async () => {
    const limited = await startService({ RATE_LIMIT_PER_MIN: '3' });
    try {
      const { key } = await limited.tenant();
      const list = () =>
        fetch(`${limited.url}/mcp`, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            'x-api-key': key,
          },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
        });
      const statuses = [];
      for (let i = 0; i < 4; i++) statuses.push((await list()).status);
      expect(statuses).toEqual([200, 200, 200, 429]);
    } finally {
      await limited.stop();
    }
  });
});

describe('generated', () => {
  test('the API document has only the caller’s routes, with those of its entities', async () => {
    const all = await resultOf('get_rest_api_spec', { detail: 'full' });
    expect(all.openapi).toBe('3.1.0');
    expect(Object.keys(all.paths['/api/entities/order_item/records'])).toEqual(['get', 'post']);
    expect(Object.keys(all.paths).filter((path) => path.includes('{entityName}/records'))).toEqual([]);
    expect(all.components.schemas.OrderItemRecord.properties.status).toEqual({
      type: 'string',
      enum: ['open', 'it"s closed'],
    });
    expect(all.paths['/api/auth/bots']).toBeDefined();
    expect(all.paths['/api/admin/platform/tenants']).toBeUndefined();
    const ids = Object.values<Json>(all.paths).flatMap((item) =>
      Object.values<Json>(item).map(({ operationId }) => operationId),
    );
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
    const bot = bearer(await botToken(service, tenant, { customer: ['read', 'update'] }));
    const own = await resultOf('get_rest_api_spec', { detail: 'full' }, bot);
    expect(own.paths['/api/auth/bots']).toBeUndefined();
    expect(Object.keys(own.paths['/api/entities/customer/records'])).toEqual(['get']);
    expect(Object.keys(own.paths['/api/entities/customer/records/{id}']).sort()).toEqual(['get', 'patch', 'put']);
    expect(JSON.stringify(own)).not.toContain('order_item');
  });

  test('the summary of the API document is small, and names what the caller may use', async () => {
    const large = await service.tenant();
    for (let i = 0; i < 5; i++) {
      const fields = Array.from({ length: 15 }, (_, n) => ({
        key: `field_number_${n}`,
        type: 'text',
        required: n < 3,
      }));
      await large.post('/api/entities', { name: `entity_${i}`, description: 'What it is for', fields });
    }
    const headers = { 'x-api-key': large.key };
    const all = await resultOf('get_rest_api_spec', {}, headers);
    expect(JSON.stringify(all).length).toBeLessThan(8_192);
    expect(Object.keys(all['x-entities'])).toHaveLength(5);
    expect(all['x-entities'].entity_0.fields).toMatchObject({ field_number_0: 'text!', field_number_3: 'text' });
    expect(Object.keys(all.paths['/api/entities/{entityName}/records'])).toEqual(['get', 'post']);
    expect(all['x-operations'].Bots).toContain('registerBot');
    const one = await resultOf('get_rest_api_spec', { entity_name: 'entity_3' }, headers);
    expect(Object.keys(one['x-entities'])).toEqual(['entity_3']);
    const bot = bearer(await botToken(service, tenant, { order_item: ['read'] }));
    const own = await resultOf('get_rest_api_spec', {}, bot);
    expect(own['x-entities'].order_item).toMatchObject({
      operations: ['read'],
      fields: { status: 'select open|it"s closed', customer: 'relation' },
    });
    expect(JSON.stringify(own)).not.toMatch(/"customer"[^:]|registerBot/);
    expect((await errorOf('get_rest_api_spec', { entity_name: 'customer' }, bot)).code).toBe('NOT_FOUND');
    expect((await errorOf('get_rest_api_spec', { detail: 'some' }, bot)).code).toBe('VALIDATION_ERROR');
  });

  test('the client compiles under strict, has the types of the entities, and works', async () => {
    const { source, filename, language } = await resultOf('generate_api_client');
    expect([language, filename]).toEqual(['typescript', `${tenant.slug}-client.ts`]);
    expect(source).not.toMatch(/^import\b|\b(?:as|extends) any\b|[:<|] ?any\b/m);
    const directory = await mkdtemp(join(tmpdir(), 'client-'));
    try {
      await writeFile(join(directory, 'client.ts'), source);
      await writeFile(join(directory, 'use.ts'), USE);
      await writeFile(join(directory, 'misuse.ts'), MISUSE);
      expect(await compile(directory, 'client.ts', 'use.ts')).toEqual([]);
      expect(await compile(directory, 'misuse.ts')).toEqual(['3', '4', '5', '6', '7']);
      const { use } = await import(join(directory, 'use.ts'));
      expect(await use(tenant.key)).toEqual({
        title: 'by client',
        once: true,
        lost: 'PRECONDITION_FAILED',
        customer: 'Client',
        selected: false,
        all: true,
        code: 'VALIDATION_ERROR',
        bulk: [
          ['create', true],
          ['delete', true],
        ],
        events: ['record.updated', 'record.deleted'],
        notJson: 'INVALID_RESPONSE',
        views: [],
        gone: 'NOT_FOUND',
      });
      await checkEvents(await import(join(directory, 'use.ts')));
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  test('the client of a role has only its operations and fields', async () => {
    const bot = bearer(await botToken(service, tenant, { customer: ['read'] }));
    const { source } = await resultOf('generate_api_client', {}, bot);
    expect(source).toContain('operations: "read";');
    expect(source).not.toContain('order_item');
    expect(source).not.toMatch(/\bCustomer(Create|Update)\b/);
    const use = `import { connect } from './client.ts';\nconst { list } = connect('').records('customer');\nvoid list;
connect('').records('customer').create({ name_of: 'x' });
connect('').records('customer').bulk([]);
`;
    const directory = await mkdtemp(join(tmpdir(), 'client-'));
    await Promise.all([writeFile(join(directory, 'client.ts'), source), writeFile(join(directory, 'use.ts'), use)]);
    expect(await compile(directory, 'use.ts')).toEqual(['4', '5']);
    await rm(directory, { recursive: true, force: true });
  });
});

/** The client follows the event stream, and accepts only webhooks signed with its secret. */
async function checkEvents({ follow, verified }: Json): Promise<void> {
  const secret = 'whsec_c2VjcmV0IG9mIHRoZSBjbGllbnQ=';
  const receiver = await startReceiver();
  const hook = { entity_name: 'customer', event_types: ['record.created'], url: receiver.url, secret };
  expect((await tenant.post('/api/webhooks/subscriptions', hook)).status).toBe(201);
  const create = () => tenant.post('/api/entities/customer/records', { name_of: 'Seen' });
  const seen = await follow(tenant.key, create);
  const [sent] = await receiver.waitFor(1);
  expect(seen).toEqual(['record.created', 'customer', 'Seen', sent?.body.record_id.slice('rec_'.length)]);
  expect(await verified(secret, sent?.headers, sent?.text)).toBe('Seen');
  expect(await verified(secret, new Headers(sent?.headers), `${sent?.text} `)).toBe('no signature matches the secret');
  expect(await verified(`${secret.slice(0, -4)}AAA=`, sent?.headers, sent?.text)).toBe(
    'no signature matches the secret',
  );
  expect(await verified(secret, { ...sent?.headers, 'webhook-timestamp': '1' }, sent?.text)).toBe(
    'the timestamp is outside the tolerance',
  );
  expect(await follow('svc_ak_wrong', create).catch(({ code }: Json) => code)).toBe('UNAUTHORIZED');
  await receiver.stop();
}

const USE = `import { ApiError, type Client, connect, etagOf, type OrderItemRecord, type Schema, verifyWebhook } from './client.ts';
const codeOf = (error: unknown): string => (error instanceof ApiError ? error.code : String(error));
export async function use(key: string) {
  const client: Client<Schema> = connect(key);
  const orders = client.records('order_item');
  const buyer = await client.records('customer').create({ name_of: 'Client' }, { idempotencyKey: 'buyer' });
  const again = await client.records('customer').create({ name_of: 'Client' }, { idempotencyKey: 'buyer' });
  const made = await orders.create({ title: 'by client', tags: ['a'], amount: 3, customer: buyer.id });
  const since = (await orders.list({ limit: 1 })).changesCursor ?? '';
  const changed: OrderItemRecord = await orders.update(made.id, { status: 'it"s closed', count: null }, { etag: etagOf(made) });
  const lost = await orders.update(made.id, { count: 1 }, { etag: etagOf(made) }).catch(codeOf);
  const page = await orders.list({ filters: 'title = "by client"', sort: ['-title', 'createdAt'], fields: ['customer', 'status'], resolve: true });
  const [first] = page.items;
  const customer = typeof first?.customer === 'object' ? first.customer?.name_of : undefined;
  const seen: string[] = [];
  for await (const { id } of orders.all({ limit: 1 })) seen.push(id);
  const all = seen.includes(made.id) && page.total === 1 && changed.status === 'it"s closed' && seen.length > 1;
  const code = await orders.update(made.id, { title: '' as never, count: 1.5 }).catch(codeOf);
  const { results } = await orders.bulk([{ op: 'create', data: { title: 'in bulk' } }, { op: 'delete', id: made.id }]);
  const events: string[] = [];
  for await (const { event, entity, record_id } of client.changes({ since, entities: ['order_item'], events: ['record.deleted', 'record.updated'] })) {
    events.push(event);
    if (event === 'record.deleted' && entity === 'order_item' && record_id === made.id) break;
  }
  const notJson = await connect(key, { fetch: async () => new Response('<html>') }).views().catch(codeOf);
  const views = (await client.views()).map(({ slug }) => slug);
  return {
    title: made.title, once: again.id === buyer.id, lost, customer, selected: Object.keys(first ?? {}).includes('title'), all, code,
    bulk: results.map(({ op, success }) => [op, success]), events, notJson, views,
    gone: await orders.get(made.id).catch(codeOf),
  };
}
export async function follow(key: string, onOpen: () => void) {
  for await (const event of connect(key).live({ entities: ['customer'], events: ['record.created'], onOpen })) {
    if (event.event === 'record.created' && event.entity === 'customer') {
      return [event.event, event.entity, event.data.name_of, event.record_id];
    }
  }
  return [];
}
export async function verified(secret: string, headers: Headers | Record<string, string>, body: string) {
  try {
    const event = await verifyWebhook<Schema>(secret, headers, body);
    return event.entity === 'customer' ? event.data.name_of : event.data.id;
  } catch (error) {
    return (error as Error).message;
  }
}
`;

/** Code in which every line from the third on is a type error. */
const MISUSE = `import { connect } from './client.ts';
const client = connect('svc_ak_');
client.records('order_item').create({});
client.records('order_item').create({ title: 'x', status: 'closed' });
client.records('order_item').update('id', { titel: 'x' });
client.records('order_item').list({ sort: 'nothing' });
client.records('nothing').list();
`;

/** The lines at which the compiler reports errors. */
async function compile(directory: string, ...files: string[]): Promise<string[]> {
  const flags = '--noEmit --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --noUnusedLocals';
  const modules = '--target es2022 --module esnext --moduleResolution bundler --allowImportingTsExtensions --types';
  const given = [...flags.split(' '), ...modules.split(' '), '', '--lib', 'es2022,dom', ...files];
  const process = Bun.spawn([join(import.meta.dir, '../node_modules/.bin/tsc'), ...given], { cwd: directory });
  const text = await new Response(process.stdout).text();
  await process.exited;
  return [...text.matchAll(/\((\d+),\d+\): error/g)].map(([, line]) => line as string);
}

describe('over stdio', () => {
  const messages = (lines: Json[]): string =>
    lines.map((line, id) => `${JSON.stringify({ jsonrpc: '2.0', id, ...line })}\n`).join('');

  /** Runs the program on the service's database; resolves to its responses in the order of their ids. */
  async function run(lines: Json[], environment: HeaderMap): Promise<Json[]> {
    const { REDIS_URL, PATH = '' } = process.env;
    const dataDir = await mkdtemp(join(tmpdir(), 'stdio-'));
    const program = Bun.spawn([process.execPath, '--no-env-file', join(import.meta.dir, '../src/mcp-stdio.ts')], {
      cwd: dataDir,
      env: {
        PATH,
        DATA_DIR: dataDir,
        ADMIN_SECRET,
        JWT_SECRET: 'jwt-secret-of-the-tests',
        DATABASE_URL: service.databaseUrl,
        ...(REDIS_URL ? { REDIS_URL } : {}),
        ...environment,
      },
      stdin: 'pipe',
      stderr: 'pipe',
    });
    program.stdin.write(messages(lines));
    program.stdin.end();
    const [text, log] = await Promise.all([new Response(program.stdout).text(), new Response(program.stderr).text()]);
    expect([await program.exited, /error/i.test(log) ? log : '']).toEqual([0, '']);
    await rm(dataDir, { recursive: true, force: true });
    const answers = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    return answers.sort((a, b) => a.id - b.id);
  }

  test('both revisions are served, requests are answered even if the input ends immediately, and a connection is a session', async () => {
    const tool = (name: string, input: Json = {}) => ({ method: 'tools/call', params: { name, arguments: input } });
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
    const [hello, list, who] = await run(
      [{ method: 'initialize', params }, { method: 'tools/list' }, tool('whoami_bot')],
      { SVC_MCP_PROFILE: 'advanced', SVC_ADMIN_SECRET: ADMIN_SECRET },
    );
    expect(hello.result.protocolVersion).toBe('2025-11-25');
    expect(list.result.tools.map(({ name }: Json) => name)).toEqual([...BASIC, ...WEBHOOKS]);
    expect(who.result.structuredContent.kind).toBe('super_admin');
    const [found, mine] = await run(
      [
        { method: 'server/discover', params: { _meta: META } },
        { method: 'tools/call', params: { name: 'whoami_bot', arguments: {}, _meta: META } },
      ],
      {},
    );
    expect(found.result.supportedVersions).toContain(MODERN);
    expect(JSON.parse(mine.result.content[0].text).error.code).toBe('UNAUTHORIZED');
  });

  test('the API document is that of the service', async () => {
    const call = { method: 'tools/call', params: { name: 'get_rest_api_spec', arguments: {}, _meta: META } };
    const [read] = await run([call], { SVC_CREDENTIAL: tenant.key });
    expect([read.result.isError, read.result.structuredContent?.openapi]).toEqual([undefined, '3.1.0']);
  });

  test('records are written, and their events reach streams of the service', async () => {
    const own = await service.tenant();
    await own.post('/api/entities', { name: 'note', fields: [{ key: 'title', type: 'text' }] });
    const stream = await connectEvents(service.url, own.slug, own.key);
    const input = { entity_name: 'note', data: { title: 'from stdio' } };
    const call = { method: 'tools/call', params: { name: 'create_record', arguments: input, _meta: META } };
    const [made] = await run([call], { SVC_CREDENTIAL: own.key });
    const { event, data } = await stream.next();
    expect([event, data.data.triggered_by]).toEqual(['record.created', 'mcp']);
    expect(data.record_id).toBe(made.result.structuredContent.id);
    stream.close();
  });
});
