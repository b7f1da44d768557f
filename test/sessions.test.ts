// A user's sessions: log out, refresh, list and end sign-ins; and other events that end them. Contract: browsers#sessions.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { randomUUID } from 'node:crypto';
import { tokensOf } from '../src/access/resolve-caller.ts';
import { LIMITS } from '../src/limits.ts';
import { sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { usersTable } from '../src/users/users.ts';
import { newAddress } from './support/addresses.ts';
import { invalidationsReceived } from './support/credentials.ts';
import { addUser, PASSWORD, signIn } from './support/people.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const LOGOUT = '/api/auth/tenant/logout';
const REFRESH = '/api/auth/tenant/refresh';
const SESSIONS = '/api/auth/sessions';

type SignedIn = Client & { token: string };

/** A new user with this many sign-ins. */
async function signedIn(count = 1): Promise<{ user: Json; clients: SignedIn[] }> {
  const user = await addUser(tenant);
  const clients: SignedIn[] = [];
  for (let i = 0; i < count; i++) clients.push(await signIn(service.anonymous, tenant, user.email));
  return { user, clients };
}

const statusOf = async (client: Client): Promise<number> => (await client.get('/api/auth/whoami')).status;

async function refreshed(client: Client): Promise<SignedIn> {
  const answer = await client.post(REFRESH);
  expect(answer.status, answer.text).toBe(200);
  const { token } = answer.body.data;
  return { ...service.anonymous.with({ authorization: `Bearer ${token}` }), token };
}

const claimsOf = (token: string): Json =>
  JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString());

/** Changes the stored session of a token, as if time had passed, on every process. */
async function changeSession(token: string, assignment: ReturnType<typeof sql>): Promise<void> {
  const { session } = claimsOf(token);
  await service.app.db.rows(sql`update platform.user_sessions set ${assignment} where id = ${session}::uuid`);
  await service.app.invalidations.publish('session', `${tenant.id}:${session}`);
  await invalidationsReceived(service, tenant.id);
}

describe('logout', () => {
  test('ends the presented token, and no other session of the user', async () => {
    const { clients } = await signedIn(2);
    const [first, second] = clients as [SignedIn, SignedIn];
    const answer = await first.post(LOGOUT);
    expect([answer.status, answer.body.data]).toEqual([200, { loggedOut: true }]);
    expect([await statusOf(first), await statusOf(second)]).toEqual([401, 200]);
    expect((await first.post(LOGOUT)).status).toBe(401);
    expect((await first.post(REFRESH)).status).toBe(401);
  });

  test('with all, ends every session of the user, and no developer token', async () => {
    const { user, clients } = await signedIn(3);
    const developer = await service.anonymous.post(
      '/api/auth/tenant/developer-token',
      { email: user.email, password: PASSWORD },
      { 'x-tenant-id': tenant.slug, ...newAddress() },
    );
    const program = service.anonymous.with({ authorization: `Bearer ${developer.body.data.token}` });
    expect((await clients[0]?.post(LOGOUT, { all: true }))?.status).toBe(200);
    for (const client of clients) expect(await statusOf(client)).toBe(401);
    expect(await statusOf(program)).toBe(200);
    expect((await program.get(SESSIONS)).body.data).toEqual([]);
    expect((await program.post(LOGOUT)).status).toBe(403);
    expect((await program.post(REFRESH)).status).toBe(403);
  });

  test('a malformed body is 400, and the session continues', async () => {
    const { clients } = await signedIn();
    const [client] = clients as [SignedIn];
    expect((await client.post(LOGOUT, { all: 'yes' })).status).toBe(400);
    expect((await client.request('POST', LOGOUT, '[]', { 'content-type': 'application/json' })).status).toBe(400);
    expect((await client.request('POST', LOGOUT, 'all=true', { 'content-type': 'text/plain' })).status).toBe(415);
    expect(await statusOf(client)).toBe(200);
  });
});

describe('refresh', () => {
  test('trades a token for one of 24 hours in the same session', async () => {
    const { user, clients } = await signedIn();
    const [client] = clients as [SignedIn];
    const answer = await client.post(REFRESH);
    const { token, expiresAt, user: shown } = answer.body.data;
    expect(shown).toEqual({ id: user.id, email: user.email, name: user.name, role: user.role });
    const hours = (Date.parse(expiresAt) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(23.9);
    expect(hours).toBeLessThanOrEqual(24);
    expect(claimsOf(token).session).toBe(claimsOf(client.token).session);
    expect(Date.parse(expiresAt)).toBe(claimsOf(token).exp * 1_000);
    const next = service.anonymous.with({ authorization: `Bearer ${token}` });
    const list = (await next.get(SESSIONS)).body.data;
    expect(list).toHaveLength(1);
    expect(list[0].current).toBe(true);
  });

  test('the old token works for a minute more, and so do all of several refreshed in a row', async () => {
    const { clients } = await signedIn();
    const [first] = clients as [SignedIn];
    const second = await refreshed(first);
    const third = await refreshed(second);
    for (const client of [first, second, third]) expect(await statusOf(client)).toBe(200);
    const past = JSON.stringify([Date.now() - 1, Date.now() - 1]);
    await changeSession(third.token, sql`ends = ${past}::text::jsonb`);
    expect([await statusOf(first), await statusOf(second), await statusOf(third)]).toEqual([401, 401, 200]);
  });

  test('the end of a superseded token is a minute after its refresh', async () => {
    const { clients } = await signedIn();
    const [first] = clients as [SignedIn];
    const before = Date.now();
    await refreshed(first);
    const { session } = claimsOf(first.token);
    const row = await service.app.db.first<{ ends: number[]; generation: number }>(sql`
      select ends, generation from platform.user_sessions where id = ${session}::uuid`);
    expect(row?.generation).toBe(2);
    expect(row?.ends).toHaveLength(1);
    expect(row?.ends[0]).toBeGreaterThanOrEqual(before + 60_000 - 5_000);
    expect(row?.ends[0]).toBeLessThanOrEqual(Date.now() + 60_000 + 5_000);
  });

  test('of one token refreshed many times at once, every result works and the session has one generation more', async () => {
    const { clients } = await signedIn();
    const [first] = clients as [SignedIn];
    const results = await Promise.all(Array.from({ length: 10 }, () => refreshed(first)));
    for (const client of results) expect(await statusOf(client)).toBe(200);
    expect(new Set(results.map(({ token }) => claimsOf(token).generation))).toEqual(new Set([2]));
  });

  test('is 401 from 30 days after the login on, while the token itself still works', async () => {
    const { clients } = await signedIn();
    const [client] = clients as [SignedIn];
    await changeSession(client.token, sql`created_at = now() - interval '29 days 23 hours'`);
    const last = await refreshed(client);
    await changeSession(last.token, sql`created_at = now() - interval '30 days'`);
    expect((await last.post(REFRESH)).status).toBe(401);
    expect(await statusOf(last)).toBe(200);
  });

  test('more than 30 times a minute is 429, and the session continues', async () => {
    const { clients } = await signedIn();
    const [client] = clients as [SignedIn];
    const answers = await Promise.all(Array.from({ length: 32 }, () => client.post(REFRESH)));
    const counts = new Map<number, number>();
    for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
    expect(Object.fromEntries(counts)).toEqual({ 200: 30, 429: 2 });
    expect(answers.find(({ status }) => status === 429)?.headers.get('retry-after')).not.toBeNull();
    expect(await statusOf(client)).toBe(200);
  });

  test('an expired session is neither accepted nor listed', async () => {
    const { clients } = await signedIn(2);
    const [old, other] = clients as [SignedIn, SignedIn];
    await changeSession(old.token, sql`expires_at = now() - interval '1 second'`);
    expect(await statusOf(old)).toBe(401);
    expect((await other.get(SESSIONS)).body.data).toHaveLength(1);
  });
});

describe('the sessions of a user', () => {
  test('are listed with time, agent and address, the own one marked, the newest first', async () => {
    const user = await addUser(tenant);
    const agent = `Browser/1.0 (${'x'.repeat(500)})`;
    const address = newAddress();
    const login = await service.anonymous.post(
      '/api/auth/tenant/login',
      { email: user.email, password: PASSWORD },
      { 'x-tenant-id': tenant.slug, 'user-agent': agent, ...address },
    );
    const first = service.anonymous.with({ authorization: `Bearer ${login.body.data.token}` });
    const second = await signIn(service.anonymous, tenant, user.email);
    const { status, body, text } = await first.get(SESSIONS);
    expect(status).toBe(200);
    expect(body.data.map(({ current }: Json) => current)).toEqual([false, true]);
    const own = body.data[1];
    expect(Object.keys(own).sort()).toEqual(['address', 'createdAt', 'current', 'id', 'lastUsedAt', 'userAgent']);
    expect(own.userAgent).toBe(agent.slice(0, LIMITS.userSession.userAgentMax));
    expect(own.address).toBe(Object.values(address)[0] as string);
    expect(Date.parse(own.lastUsedAt)).toBeGreaterThanOrEqual(Date.parse(own.createdAt));
    expect(text).not.toContain(second.token);
  });

  test('can be ended one by one; those of others are 404', async () => {
    const { clients } = await signedIn(2);
    const [first, second] = clients as [SignedIn, SignedIn];
    const other = (await signedIn()).clients[0] as SignedIn;
    const id = claimsOf(second.token).session;
    expect((await other.delete(`${SESSIONS}/${id}`)).status).toBe(404);
    const { slug } = await service.tenant();
    expect((await first.delete(`${SESSIONS}/${id}`, { 'x-tenant-id': slug })).status).toBe(403);
    expect(await statusOf(second)).toBe(200);
    const ended = await first.delete(`${SESSIONS}/${id.toUpperCase()}`);
    expect([ended.status, ended.body.data]).toEqual([200, { id, revoked: true }]);
    expect([await statusOf(first), await statusOf(second)]).toEqual([200, 401]);
    for (const unknown of [id, randomUUID(), 'current']) {
      expect((await first.delete(`${SESSIONS}/${unknown}`)).status).toBe(404);
    }
  });

  test('keys and bots have none', async () => {
    expect((await tenant.get(SESSIONS)).status).toBe(403);
    expect((await tenant.post(LOGOUT)).status).toBe(403);
    expect((await tenant.post(REFRESH)).status).toBe(403);
  });

  test(`are at most ${LIMITS.userSession.perUser}: the one unused for longest ends`, async () => {
    const { user, clients } = await signedIn(2);
    const [oldest, used] = clients as [SignedIn, SignedIn];
    await service.app.db.rows(sql`
      insert into platform.user_sessions (id, tenant_id, user_id, address, expires_at, last_used_at)
      select gen_random_uuid(), ${tenant.id}::uuid, ${user.id}::uuid, '', now() + interval '1 hour', now()
      from generate_series(1, ${LIMITS.userSession.perUser - 2}::int)`);
    await changeSession(oldest.token, sql`last_used_at = now() - interval '1 hour'`);
    await changeSession(used.token, sql`created_at = now() - interval '2 hours'`);
    const newest = await signIn(service.anonymous, tenant, user.email);
    expect([await statusOf(oldest), await statusOf(used), await statusOf(newest)]).toEqual([401, 200, 200]);
    expect((await newest.get(SESSIONS)).body.data).toHaveLength(LIMITS.userSession.perUser);
  });
});

describe('a change of the user', () => {
  const changes: [string, (user: Json) => Promise<unknown>][] = [
    ['a new password by an admin', ({ id }) => tenant.patch(`/api/users/${id}`, { password: 'another good password' })],
    ['deactivation', ({ id }) => tenant.patch(`/api/users/${id}`, { isActive: false })],
    ['removal', ({ id }) => tenant.delete(`/api/users/${id}`)],
  ];

  test.each(changes)('%s ends all sessions, also for good', async (_, change) => {
    const { user, clients } = await signedIn(2);
    await change(user);
    for (const client of clients) {
      expect(await statusOf(client)).toBe(401);
      expect((await client.post(REFRESH)).status).toBe(401);
    }
    const rows = await service.app.db.rows(sql`
      select from platform.user_sessions where tenant_id = ${tenant.id}::uuid and user_id = ${user.id}::uuid`);
    expect(rows).toEqual([]);
    await tenant.patch(`/api/users/${user.id}`, { isActive: true });
    for (const client of clients) expect(await statusOf(client)).toBe(401);
  });

  test('a change of the own password ends all sessions; a change of the role ends none', async () => {
    const { user, clients } = await signedIn(2);
    const [first, second] = clients as [SignedIn, SignedIn];
    await tenant.patch(`/api/users/${user.id}`, { role: 'viewer' });
    expect((await first.get('/api/auth/whoami')).body.data.role).toBe('viewer');
    const words = { currentPassword: PASSWORD, newPassword: 'another good password' };
    expect((await first.post('/api/auth/tenant/change-password', words, newAddress())).status).toBe(200);
    expect([await statusOf(first), await statusOf(second)]).toEqual([401, 401]);
  });
});

describe('tokens', () => {
  test('issued before sessions were stored work until they expire; they cannot be refreshed or logged out', async () => {
    const { user } = await signedIn();
    const claims = { kind: 'user', tenantId: tenant.id, subject: user.id, version: 1 } as const;
    const row = await service.app.db.first<{ token_version: number }>(sql`
      select token_version from ${usersTable({ schema: schemaOf(tenant.id) })} where id = ${user.id}::uuid`);
    const expiresAtS = Math.floor(Date.now() / 1_000) + 600;
    const token = await tokensOf(service.app).sign({ ...claims, version: row?.token_version ?? 1, expiresAtS });
    const client = service.anonymous.with({ authorization: `Bearer ${token}` });
    expect(await statusOf(client)).toBe(200);
    expect((await client.get(SESSIONS)).body.data.map(({ current }: Json) => current)).toEqual([false]);
    expect((await client.post(REFRESH)).status).toBe(409);
    expect((await client.post(LOGOUT)).status).toBe(409);
    expect((await client.post(LOGOUT, { all: true })).status).toBe(409);
  });

  test('of a session of another user or tenant, or of a generation to come, are refused', async () => {
    const { user, clients } = await signedIn();
    const stranger = (await signedIn()).clients[0] as SignedIn;
    const own = claimsOf((clients[0] as SignedIn).token);
    const foreign = claimsOf(stranger.token);
    const claims = { kind: 'user', tenantId: tenant.id, subject: user.id, version: own.version } as const;
    const expiresAtS = Math.floor(Date.now() / 1_000) + 600;
    for (const session of [
      { id: foreign.session, generation: 1 },
      { id: randomUUID(), generation: 1 },
      { id: own.session, generation: 2 },
      { id: own.session, generation: 0 },
      { id: own.session, generation: 0.5 },
    ]) {
      const token = await tokensOf(service.app).sign({ ...claims, expiresAtS, session });
      const client = service.anonymous.with({ authorization: `Bearer ${token}` });
      expect([session, await statusOf(client)]).toEqual([session, 401]);
    }
  });
});
