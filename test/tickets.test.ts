// Tickets: who gets one, the one stream or WebSocket that it opens, whose rights that has, and attacks on it: replay, late
// use, another tenant, another route, logs. Two processes at once are in tickets-processes.test.ts.
// Contract: browsers#tickets.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Claims } from '../src/access/jwt.ts';
import { tokensOf } from '../src/access/resolve-caller.ts';
import { LIMITS } from '../src/limits.ts';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { newToken, sha256 } from '../src/runtime/tokens.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, bearer, botToken, changeRole, everyKind } from './support/credentials.ts';
import { addUser, createPublicKey, PASSWORD, registerBot, signIn } from './support/people.ts';
import {
  ADMIN_SECRET,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { connectEvents, type EventStream, openEvents, openSocket, type TestSocket } from './support/streams.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1', LOG_LEVEL: 'debug' });
  tenant = await newTenant();
});
afterAll(async () => service.stop());
const keep = closeAfterEach();

const ORIGIN = 'https://app.example.com';

async function newTenant(): Promise<TestTenant> {
  const made = await service.tenant();
  for (const name of ['articles', 'orders']) {
    const fields = [
      { key: 'title', type: 'text' },
      { key: 'secret', type: 'text' },
    ];
    expect((await made.post('/api/entities', { name, fields })).status).toBe(201);
  }
  return made;
}

const ticketsOf = ({ slug }: { slug: string }): string => `/api/v1/tenants/${slug}/events/tickets`;

async function ticketFor(client: Client, body: Json = {}, of: TestTenant = tenant): Promise<string> {
  const answer = await client.post(ticketsOf(of), body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data.ticket;
}

async function openBy(ticket: string, query = '', of: TestTenant = tenant): Promise<EventStream> {
  return keep(await connectEvents(service.url, of.slug, '', `?ticket=${ticket}${query}`));
}

async function statusBy(ticket: string, query = '', headers: Record<string, string> = {}): Promise<number> {
  const stream = keep(await openEvents(service.url, tenant.slug, '', `?ticket=${ticket}${query}`, headers));
  return stream.status;
}

/** A socket that has sent the ticket, and the answer. */
async function socketBy(ticket: string, headers: Record<string, string> = {}): Promise<[TestSocket, Json]> {
  const socket = keep(await openSocket(service.url, headers));
  return [socket, await socket.ask({ type: 'auth', token: ticket })];
}

/** The types of events up to the first of a type. */
async function typesOf(stream: EventStream, last: string): Promise<string[]> {
  const types: string[] = [];
  while (types.at(-1) !== last) types.push((await stream.next()).event);
  return types;
}

const write = (entity: string, values: Json, of: TestTenant = tenant) =>
  of.post(`/api/entities/${entity}/records`, values);

describe('a ticket', () => {
  test('is issued for every kind of credential of the tenant, opens one stream, and shows what the credential may read', async () => {
    const kinds: Record<string, Record<string, string>> = { ...(await everyKind(service, tenant)) };
    kinds.super_in_tenant = { 'x-admin-secret': ADMIN_SECRET, 'x-tenant-id': tenant.slug };
    const refused = ['super_admin', 'admin_key'];
    for (const [kind, headers] of Object.entries(kinds)) {
      const client = service.anonymous.with(headers);
      const answer = await client.post(ticketsOf(tenant), {});
      if (refused.includes(kind)) {
        expect([kind, answer.status >= 400 && answer.status < 404]).toEqual([kind, true]);
        continue;
      }
      expect([kind, answer.status]).toEqual([kind, 201]);
      const { ticket, expiresAt } = answer.body.data;
      expect(ticket).toMatch(/^svc_tkt_[0-9a-f]{48}$/);
      const seconds = (Date.parse(expiresAt) - Date.now()) / 1_000;
      expect(seconds).toBeGreaterThan(20);
      expect(seconds).toBeLessThanOrEqual(31);
      expect([kind, await statusBy(ticket)]).toEqual([kind, 200]);
      expect([kind, await statusBy(ticket)]).toEqual([kind, 401]);
    }
  });

  test('of a user carries events with the fields of the user’s role only', async () => {
    const role = await addRole(service, tenant, {
      permissions: { articles: ['read'] },
      entities: { articles: { excludeFields: ['secret'] } },
    });
    const { email } = await addUser(tenant, { role: role.name, email: `${crypto.randomUUID()}@example.com` });
    const user = await signIn(service.anonymous, tenant, email);
    const stream = await openBy(await ticketFor(user));
    const [socket, hello] = await socketBy(await ticketFor(user));
    expect(hello).toEqual({ type: 'auth_ok' });
    expect(await socket.ask({ type: 'subscribe', entity: 'articles' })).toMatchObject({ type: 'subscribed' });
    expect(await socket.ask({ type: 'subscribe', entity: 'orders' })).toMatchObject({ code: 'entity_not_found' });
    await write('orders', { title: 'not seen' });
    await write('articles', { title: 'seen', secret: 'canary' });
    const { event, data } = await stream.next();
    expect([event, data.entity, data.data.fields]).toEqual(['record.created', 'articles', { title: 'seen' }]);
    const pushed = await socket.next();
    expect([pushed.type, pushed.data.title]).toEqual(['record.created', 'seen']);
    expect(JSON.stringify([stream.text, socket.messages])).not.toContain('canary');
  });

  test('opens no second stream: used, late, unknown, malformed or deleted with its tenant it is 401', async () => {
    const used = await ticketFor(tenant);
    expect(await statusBy(used)).toBe(200);
    expect((await socketBy(used))[1]).toMatchObject({ type: 'auth_error', code: 'not_authenticated' });
    const late = await ticketFor(tenant);
    await service.app.db.rows(sql`
      update platform.stream_tickets set expires_at = now() - interval '1 millisecond'
      where hash = decode(${sha256(late).toString('hex')}, 'hex')`);
    expect(await statusBy(late)).toBe(401);
    const gone = await newTenant();
    const orphan = await ticketFor(gone, {}, gone);
    await service.admin.delete(`/api/admin/platform/tenants/${gone.slug}?confirm=${gone.slug}`);
    expect(await statusBy(orphan)).toBe(401);
    for (const value of [
      '',
      'x',
      newToken('svc_tkt_'),
      used.toUpperCase(),
      tenant.key,
      encodeURIComponent(`${used} `),
    ]) {
      expect([value, await statusBy(value)]).toEqual([value, 401]);
    }
  });

  test('of two uses at once, one opens a stream', async () => {
    for (let round = 0; round < 5; round++) {
      const ticket = await ticketFor(tenant);
      const statuses = await Promise.all(Array.from({ length: 8 }, () => statusBy(ticket)));
      expect(statuses.sort()).toEqual([200, ...Array.from({ length: 7 }, () => 401)]);
      const both = await ticketFor(tenant);
      const [status, [, { type }]] = await Promise.all([statusBy(both), socketBy(both)]);
      expect([status, type]).toEqual(status === 200 ? [200, 'auth_error'] : [401, 'auth_ok']);
    }
  });

  test('of one tenant is 401 in the path of another, and is consumed by that', async () => {
    const other = await newTenant();
    const ticket = await ticketFor(other, {}, other);
    expect(await statusBy(ticket)).toBe(401);
    const stream = await openEvents(service.url, other.slug, '', `?ticket=${ticket}`);
    expect(stream.status).toBe(401);
    expect((await other.post(ticketsOf(tenant), {})).status).toBe(403);
    const unknown = await other.post(ticketsOf({ slug: 'no-such-tenant' }), {});
    expect(unknown.status).toBe(403);
    expect(unknown.body.error.message).toBe((await other.post(ticketsOf(tenant), {})).body.error.message);
  });

  test('is 401 beside another credential, and when given twice', async () => {
    const ticket = await ticketFor(tenant);
    expect(await statusBy(ticket, '', { 'x-api-key': tenant.key })).toBe(401);
    expect(await statusBy(ticket, `&ticket=${ticket}`)).toBe(401);
    expect(await statusBy(ticket)).toBe(200);
  });

  test('is no credential anywhere else: an unknown parameter of every other route, 401 as a bearer', async () => {
    const ticket = await ticketFor(tenant);
    for (const path of ['/api/entities/articles/records', '/api/tenant', '/api/auth/whoami']) {
      expect((await service.anonymous.get(`${path}?ticket=${ticket}`)).status).toBe(401);
      const { status, body } = await tenant.get(`${path}?ticket=${ticket}`);
      expect([status, body.error.details[0].path]).toEqual([400, 'ticket']);
      const bearing = service.anonymous.with({ authorization: `Bearer ${ticket}` });
      expect((await bearing.get(path)).status).toBe(401);
    }
    expect((await tenant.post(`${ticketsOf(tenant)}?ticket=${ticket}`, {})).status).toBe(400);
    const bearing = service.anonymous.with({ authorization: `Bearer ${ticket}` });
    expect((await bearing.post(ticketsOf(tenant), {})).status).toBe(401);
    expect((await openEvents(service.url, tenant.slug, ticket)).status).toBe(401);
    expect(await statusBy(ticket)).toBe(200);
  });

  test('is used up by a request that is refused: wrong parameters are 400, HEAD is 405', async () => {
    const ticket = await ticketFor(tenant);
    expect(await statusBy(ticket, '&entity=articles')).toBe(400);
    expect(await statusBy(ticket)).toBe(401);
    const another = await ticketFor(tenant);
    const url = `${service.url}/api/v1/tenants/${tenant.slug}/events/stream?ticket=${another}`;
    expect((await fetch(url, { method: 'HEAD' })).status).toBe(405);
    expect(await statusBy(another)).toBe(401);
  });

  test('is stored as a hash, and neither logged nor passed on as a Referer', async () => {
    const ticket = await ticketFor(tenant);
    const { rows } = { rows: await service.app.db.rows(sql`select t::text as row from platform.stream_tickets as t`) };
    expect(JSON.stringify(rows)).not.toContain(ticket.slice(8));
    const stream = await openBy(ticket);
    expect(stream.headers.get('referrer-policy')).toBe('no-referrer');
    expect(stream.headers.get('cache-control')).toBe('no-store');
    const again = await service.anonymous.get(`/api/v1/tenants/${tenant.slug}/events/stream?ticket=${ticket}`);
    expect([again.status, again.headers.get('referrer-policy')]).toEqual([401, 'no-referrer']);
    expect(again.text).not.toContain(ticket.slice(8));
    const [, refused] = await socketBy(ticket);
    expect(JSON.stringify(refused)).not.toContain(ticket.slice(8));
    await tenant.get(`/api/tenant?ticket=${ticket}`);
    await tenant.get(`/api/tenant?${ticket}=x`);
    await service.anonymous.get(`/nowhere?ticket=${ticket}`);
    expect(service.logged.join('\n')).toContain('events/stream');
    expect(service.logged.join('\n')).not.toContain(ticket.slice(8));
  });
});

describe('who may make a ticket', () => {
  test('a public key with channels:read, which may make no other POST', async () => {
    const { key } = await createPublicKey(tenant, { scopes: ['channels:read'] });
    const holder = service.anonymous.with({ 'x-public-key': key });
    const stream = await openBy(await ticketFor(holder));
    await write('articles', { title: 'for the public' });
    expect((await stream.next()).data.data.fields.title).toBe('for the public');
    expect((await write('articles', {}, { ...tenant, ...holder })).status).toBe(401);
    expect((await holder.delete(ticketsOf(tenant))).status).toBe(405);
    const reader = await createPublicKey(tenant, { scopes: ['records:read'] });
    const refused = await service.anonymous.with({ 'x-public-key': reader.key }).post(ticketsOf(tenant), {});
    expect([refused.status, refused.body.error.message]).toEqual([403, 'this key lacks the scope channels:read']);
  });

  test('nobody without a credential, nor the super-admin or an admin key without a tenant', async () => {
    expect((await service.anonymous.post(ticketsOf(tenant), {})).status).toBe(401);
    expect((await service.admin.post(ticketsOf(tenant), {})).status).toBe(400);
    const other = await service.tenant();
    expect((await service.admin.post(ticketsOf(tenant), {}, { 'x-tenant-id': other.slug })).status).toBe(403);
  });

  test('users, developers, bots and admin sessions still open no stream directly', async () => {
    const kinds = await everyKind(service, tenant);
    for (const kind of ['user', 'developer', 'bot', 'admin_session', 'public_key', 'super_admin', 'admin_key']) {
      const stream = keep(await openEvents(service.url, tenant.slug, '', '', kinds[kind]));
      expect([kind, stream.status]).toEqual([kind, 403]);
    }
  });

  test.each<[Json, string]>([
    [{ entities: [1] }, 'entities'],
    [{ entities: {} }, 'entities'],
    [{ events: ['record.exploded'] }, 'events'],
    [{ events: 'record.created,nothing' }, 'events'],
    [{ entities: Array.from({ length: 501 }, (_, i) => `e${i}`) }, 'entities'],
    [{ view: 1 }, 'view'],
    [{ filters: 'title = a' }, 'filters'],
    [{ since: 'nonsense' }, 'since'],
    [{ transitions: 'yes' }, 'transitions'],
  ])('the body %j is 400 and names the member', async (body, path) => {
    const { status, body: answer } = await tenant.post(ticketsOf(tenant), body);
    expect([status, answer.error.details[0].path.split('.')[0]]).toEqual([400, path]);
  });

  test(`a caller has at most ${LIMITS.ticket.perCaller} unused tickets, however many it asks for at once`, async () => {
    const own = await newTenant();
    const asked = await Promise.all(
      Array.from({ length: LIMITS.ticket.perCaller + 20 }, () => own.post(ticketsOf(own))),
    );
    const made = asked.filter(({ status }) => status === 201);
    expect(made).toHaveLength(LIMITS.ticket.perCaller);
    const refused = asked.find(({ status }) => status === 429);
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    // Another caller is not affected; used and expired tickets make room.
    const { key } = (await own.post('/api/keys', { label: 'second' })).body.data;
    expect((await service.anonymous.with({ 'x-api-key': key }).post(ticketsOf(own))).status).toBe(201);
    await openBy(made[0]?.body.data.ticket, '', own);
    expect((await own.post(ticketsOf(own))).status).toBe(201);
    expect((await own.post(ticketsOf(own))).status).toBe(429);
    await service.app.db.rows(sql`
      update platform.stream_tickets set expires_at = now() - interval '1 second' where tenant_id = ${own.id}::uuid`);
    expect((await own.post(ticketsOf(own))).status).toBe(201);
    const left = await service.app.db.rows(sql`
      select from platform.stream_tickets where tenant_id = ${own.id}::uuid`);
    expect(left).toHaveLength(1);
  });
});

describe('what a ticket names', () => {
  test.each([
    ['a list', ['articles']],
    ['text', 'articles, '],
  ])('narrows the stream: entities as %s', async (_, entities) => {
    const stream = await openBy(await ticketFor(tenant, { entities }));
    await write('orders', { title: 'left out' });
    await write('articles', { title: 'let in' });
    expect((await stream.next()).data.data.fields.title).toBe('let in');
  });

  test('the parameters of the stream narrow it further, and never widen it', async () => {
    const stream = await openBy(await ticketFor(tenant, { entities: ['articles'] }), '&entities=orders,articles');
    const nothing = await openBy(await ticketFor(tenant, { entities: ['articles'] }), '&entities=orders');
    const deletions = { events: ['record.deleted', 'record.created'] };
    const deleted = await openBy(await ticketFor(tenant, deletions), '&events=record.deleted,record.updated');
    const made = (await write('articles', { title: 'one' })).body.data;
    await write('orders', { title: 'two' });
    await tenant.patch(`/api/entities/articles/records/${made.id}`, { title: 'three' });
    await tenant.delete(`/api/entities/articles/records/${made.id}`);
    const types = [await stream.next(), await stream.next(), await stream.next()].map(({ event }) => event);
    expect(types).toEqual(['record.created', 'record.updated', 'record.deleted']);
    expect((await deleted.next()).event).toBe('record.deleted');
    expect(nothing.events.filter(({ event }) => event.startsWith('record.'))).toEqual([]);
  });

  test('also narrows events that are not of records: to its entities, to none under a condition, and to the types it names', async () => {
    const own = await newTenant();
    await registerBot(service, own, 'helper');
    const action = { type: 'update_record', values: { secret: 'set' } };
    const rule = { name: 'mark', entity: 'articles', trigger: 'after_create', action };
    expect((await own.post('/api/rules', rule)).status).toBe(201);
    const articles = { entities: ['articles'] };
    const conditions = { ...articles, filters: 'title = "other"' };
    const named = { ...conditions, events: ['rule.executed', 'message.received', 'record.deleted'] };
    const open = async (body: Json) => openBy(await ticketFor(own, body, own), '&agent_id=helper', own);
    const all = await open({});
    const narrowed = [await open(articles), await open(conditions), await open(named)];
    await own.post('/agent-messages', { to_agent: 'helper', subject: 'secret', body: 'b' });
    await write('articles', { title: 'one' }, own);
    const { id } = (await write('articles', { title: 'other' }, own)).body.data;
    const hasRuns = sql`select from platform.rule_runs where tenant_id = ${own.id}::uuid`;
    do await runRulesOnce(service.app, new AbortController().signal);
    while ((await service.app.db.first(hasRuns)) !== undefined);
    const types = [...(await typesOf(all, 'rule.executed')), ...(await typesOf(all, 'rule.executed'))];
    expect(types).toContain('message.received');
    await own.delete(`/api/entities/articles/records/${id}`);
    const others: string[][] = [];
    for (const stream of narrowed) {
      const seen = await typesOf(stream, 'record.deleted');
      others.push([...new Set(seen.filter((type) => !type.startsWith('record.')))].sort());
    }
    expect(others).toEqual([['rule.executed'], [], ['message.received', 'rule.executed']]);
  });

  test('narrows a WebSocket: entities and events', async () => {
    const body = { entities: ['articles'], events: ['record.updated'] };
    const [socket] = await socketBy(await ticketFor(tenant, body));
    expect(await socket.ask({ type: 'subscribe', entity: 'orders' })).toMatchObject({ code: 'entity_not_found' });
    expect(await socket.ask({ type: 'subscribe', entity: 'articles' })).toMatchObject({ type: 'subscribed' });
    const { id } = (await write('articles', { title: 'made' })).body.data;
    await tenant.patch(`/api/entities/articles/records/${id}`, { title: 'changed' });
    expect(await socket.next()).toMatchObject({ type: 'record.updated', data: { title: 'changed' } });
  });

  test('a further ticket on an open WebSocket replaces the first one, and subscriptions that it does not admit end', async () => {
    const [socket] = await socketBy(await ticketFor(tenant));
    for (const entity of ['orders', 'articles']) await socket.ask({ type: 'subscribe', entity });
    const token = await ticketFor(tenant, { entities: ['articles'] });
    expect(await socket.ask({ type: 'auth', token })).toEqual({ type: 'auth_ok' });
    await write('orders', { title: 'no longer' });
    await write('articles', { title: 'still' });
    expect(await socket.next()).toMatchObject({ entity: 'articles' });
    expect(await socket.ask({ type: 'auth', token })).toMatchObject({ type: 'auth_error' });
  });
});

describe('while the stream is open', () => {
  /** A user with a role of its own, and a stream and a socket by tickets. */
  async function watching() {
    const role = await addRole(service, tenant, { permissions: { articles: ['read'] } });
    const user = await addUser(tenant, { role: role.name, email: `${crypto.randomUUID()}@example.com` });
    const client = await signIn(service.anonymous, tenant, user.email);
    const stream = await openBy(await ticketFor(client));
    const [socket] = await socketBy(await ticketFor(client));
    await socket.ask({ type: 'subscribe', entity: 'articles' });
    return { role, user, client, stream, socket };
  }

  const ends: [string, (watch: Awaited<ReturnType<typeof watching>>) => Promise<unknown>][] = [
    ['logout', ({ client }) => client.post('/api/auth/tenant/logout')],
    [
      'the end of the session by another one',
      async ({ client, user }) => {
        const other = await signIn(service.anonymous, tenant, user.email);
        const sessions = (await client.get('/api/auth/sessions')).body.data;
        return other.delete(`/api/auth/sessions/${sessions.find(({ current }: Json) => current).id}`);
      },
    ],
    ['a new password', ({ user }) => tenant.patch(`/api/users/${user.id}`, { password: `${PASSWORD} 2` })],
    ['deactivation', ({ user }) => tenant.patch(`/api/users/${user.id}`, { isActive: false })],
    ['removal', ({ user }) => tenant.delete(`/api/users/${user.id}`)],
  ];

  test.each(ends)('%s of its maker ends it', async (_, end) => {
    const watch = await watching();
    await end(watch);
    await watch.stream.ended();
    expect(await watch.socket.ended()).toBe(4401);
  });

  test('a refresh does not end it', async () => {
    const { client, stream, socket } = await watching();
    expect((await client.post('/api/auth/tenant/refresh')).status).toBe(200);
    // The rights are loaded again after the announcement of the refresh, before the event.
    await write('articles', { title: 'after the refresh' });
    expect((await stream.next()).data.data.fields.title).toBe('after the refresh');
    expect(await socket.next()).toMatchObject({ data: { title: 'after the refresh' } });
  });

  test('a change of its maker’s role narrows it at once', async () => {
    const { role, stream } = await watching();
    await write('articles', { title: 'before' });
    expect((await stream.next()).data.data.fields.title).toBe('before');
    await changeRole(service, tenant, role.name, { permissions: { orders: ['read'] } });
    await write('articles', { title: 'no longer' });
    await write('orders', { title: 'now' });
    expect((await stream.next()).data.data.fields.title).toBe('now');
  });

  test('the revocation of the key that made it ends it; of a public key, so does the loss of channels:read', async () => {
    const { id, key } = (await tenant.post('/api/keys', { label: 'short' })).body.data;
    const stream = await openBy(await ticketFor(service.anonymous.with({ 'x-api-key': key })));
    const publicKey = await createPublicKey(tenant, { scopes: ['channels:read'] });
    const open = await openBy(await ticketFor(service.anonymous.with({ 'x-public-key': publicKey.key })));
    await tenant.delete(`/api/keys/${id}`);
    await stream.ended();
    await tenant.patch(`/api/auth/public-keys/${publicKey.id}`, { scopes: ['records:read'] });
    await open.ended();
  });

  test('suspension of the tenant ends it, also of the super-admin’s', async () => {
    const own = await newTenant();
    const operator = service.admin.with({ 'x-tenant-id': own.slug });
    const stream = await openBy(await ticketFor(operator, {}, own), '', own);
    const unused = await ticketFor(operator, {}, own);
    await service.admin.patch(`/api/admin/platform/tenants/${own.slug}`, { status: 'suspended' });
    await stream.ended();
    expect((await openEvents(service.url, own.slug, '', `?ticket=${unused}`)).status).toBe(403);
  });

  test('a ticket whose maker lost its rights before it was used is refused', async () => {
    const { email } = await addUser(tenant, { email: `${crypto.randomUUID()}@example.com` });
    const client = await signIn(service.anonymous, tenant, email);
    const ticket = await ticketFor(client);
    await client.post('/api/auth/tenant/logout');
    expect(await statusBy(ticket)).toBe(401);
  });

  test('the expiry of a bot’s token ends its stream, and a WebSocket is asked for a new ticket', async () => {
    const claims = (await tokensOf(service.app).verify(
      await botToken(service, tenant, { articles: ['read'] }),
    )) as Claims;
    const expiresAtS = Math.floor(Date.now() / 1_000) + 3;
    const bot = bearer(service, await tokensOf(service.app).sign({ ...claims, expiresAtS }));
    const [first, second] = await Promise.all([ticketFor(bot), ticketFor(bot)]);
    const [stream, [socket]] = await Promise.all([openBy(first), socketBy(second)]);
    await socket.ask({ type: 'subscribe', entity: 'articles' });
    expect(await socket.next()).toMatchObject({ type: 'error', code: 'auth_expired' });
    await stream.ended();
    expect(await socket.ask({ type: 'auth', token: await ticketFor(tenant) })).toEqual({ type: 'auth_ok' });
    await write('articles', { title: 'resumed' });
    expect(await socket.next()).toMatchObject({ data: { title: 'resumed' } });
  });
});

describe('the page that uses a ticket', () => {
  test('must be of an origin that the tenant lists, or the service’s own', async () => {
    const own = await newTenant();
    const open = async (headers: Record<string, string>): Promise<number> => {
      const query = `?ticket=${await ticketFor(own, {}, own)}`;
      return keep(await openEvents(service.url, own.slug, '', query, headers)).status;
    };
    const auth = async (headers: Record<string, string>): Promise<string> =>
      (await socketBy(await ticketFor(own, {}, own), headers))[1].type;
    for (const origin of [ORIGIN, 'null', `${service.url}9`]) {
      expect([origin, await open({ origin }), await auth({ origin })]).toEqual([origin, 403, 'auth_error']);
    }
    expect([await open({ origin: service.url }), await auth({ origin: service.url })]).toEqual([200, 'auth_ok']);
    await own.patch('/api/tenant', { settings: { allowedOrigins: [ORIGIN] } });
    expect([await open({ origin: ORIGIN }), await auth({ origin: ORIGIN })]).toEqual([200, 'auth_ok']);
    const http = ORIGIN.replace('https', 'http');
    expect([await open({ origin: http }), await auth({ origin: http })]).toEqual([403, 'auth_error']);
  });

  test('loses the stream when its origin is taken from the list', async () => {
    const own = await newTenant();
    await own.patch('/api/tenant', { settings: { allowedOrigins: [ORIGIN] } });
    const query = `?ticket=${await ticketFor(own, {}, own)}`;
    const stream = keep(await connectEvents(service.url, own.slug, '', query, { origin: ORIGIN }));
    expect(stream.headers.get('access-control-allow-origin')).toBe(ORIGIN);
    await own.patch('/api/tenant', { settings: { allowedOrigins: [] } });
    await stream.ended();
  });

  test('of a public key’s ticket must be on that key’s own list, which decides alone', async () => {
    const own = await newTenant();
    await own.patch('/api/tenant', { settings: { allowedOrigins: ['https://other.example.com'] } });
    const { key } = await createPublicKey(own, { scopes: ['channels:read'], allowedOrigins: [ORIGIN] });
    const holder = service.anonymous.with({ 'x-public-key': key, origin: ORIGIN });
    const open = async (origin: string): Promise<number> => {
      const query = `?ticket=${await ticketFor(holder, {}, own)}`;
      return keep(await openEvents(service.url, own.slug, '', query, { origin })).status;
    };
    expect([await open(ORIGIN), await open('https://other.example.com')]).toEqual([200, 403]);
    const elsewhere = holder.with({ origin: 'https://other.example.com' });
    expect((await elsewhere.post(ticketsOf(own), {})).status).toBe(403);
  });
});
