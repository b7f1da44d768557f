import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newAddress } from './support/addresses.ts';
import { claimsOf, forgeries, signerWith, validClaims } from './support/forged-tokens.ts';
import { mailedToken, mailsTo } from './support/mailbox.ts';
import { type Answer, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { runInSchema } from './support/tenant-database.ts';
import { durationOf, fastest, retryWhenDelayed } from './support/timing.ts';

const JWT_SECRET = 'jwt-secret-of-identity';
let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1', JWT_SECRET });
  tenant = await service.tenant({ settings: { selfRegistration: true, passwordReset: true } });
});
afterAll(async () => service.stop());

const PASSWORD = 'canary-password-0815';
const LOGIN = '/api/auth/tenant/login';
const DEVELOPER_TOKEN = '/api/auth/tenant/developer-token';
const REGISTER = '/api/auth/tenant/register';
const FORGOT = '/api/auth/tenant/forgot-password';
const RESET = '/api/auth/tenant/reset-password';
const CHANGE = '/api/auth/tenant/change-password';

/** Sends from a unique address, since attempts are counted per address for a minute. */
const elsewhere = (): Record<string, string> => ({ ...newAddress(), 'x-tenant-id': tenant.slug });
let people = 0;

async function person(role = 'member'): Promise<{ id: string; email: string }> {
  const email = `Person${++people}@Example.com`;
  const answer = await tenant.post('/api/users', { email, name: 'P', role, password: PASSWORD });
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.body.data;
}

const post = (path: string, body: unknown, headers: Record<string, string | null> = {}): Promise<Answer> =>
  service.anonymous.with({ ...elsewhere(), ...headers }).post(path, body);
const bearer = (token: string) => service.anonymous.with({ authorization: `Bearer ${token}` });
const whoami = async (token: string): Promise<number> => (await bearer(token).get('/api/auth/whoami')).status;

describe('signing in', () => {
  test('returns a token of 24 hours and the user; the case of the address does not matter', async () => {
    const { id, email } = await person('viewer');
    const askedAtS = Math.floor(Date.now() / 1_000);
    const answer = await post(LOGIN, { email: email.toUpperCase(), password: PASSWORD });
    const answeredAtS = Math.floor(Date.now() / 1_000);
    expect(answer.status).toBe(200);
    expect(answer.body.data.user).toEqual({ id, email, name: 'P', role: 'viewer' });
    const claims = claimsOf(answer.body.data.token);
    expect(claims.exp - 86_400).toBeWithin(askedAtS, answeredAtS + 1);
    expect(claims).toMatchObject({ aud: 'svc:user', kind: 'user', sub: id, tenant: tenant.id });
    const me = await bearer(answer.body.data.token).get('/api/auth/whoami');
    expect(me.body.data).toMatchObject({ kind: 'user', id, email, role: 'viewer', tenant: { slug: tenant.slug } });
  });

  test('a developer token lasts 360 days, or 1 to 365 as requested', async () => {
    const { id, email } = await person();
    const days = async (ttl_days?: unknown): Promise<Answer> =>
      post(DEVELOPER_TOKEN, { email, password: PASSWORD, ttl_days });
    for (const [given, expected] of [[undefined, 360] as const, [1, 1] as const, [365, 365] as const]) {
      const { token, expiresAt, user } = (await days(given)).body.data;
      expect(user).toEqual({ id, email });
      expect(Math.round((Date.parse(expiresAt) - Date.now()) / 86_400_000)).toBe(expected);
      expect((await bearer(token).get('/api/auth/whoami')).body.data).toMatchObject({ kind: 'developer', id });
    }
    for (const wrong of [0, 366, 1.5, -1, '7', 1e9]) expect((await days(wrong)).status).toBe(400);
  });

  test('a wrong password, an unknown address and a deactivated user get the same 401', async () => {
    const { email } = await person();
    const gone = await person();
    await tenant.patch(`/api/users/${gone.id}`, { isActive: false });
    const answers = await Promise.all([
      post(LOGIN, { email, password: 'wrong-password' }),
      post(LOGIN, { email: 'nobody@example.com', password: PASSWORD }),
      post(LOGIN, { email: gone.email, password: PASSWORD }),
      post(DEVELOPER_TOKEN, { email, password: 'wrong-password' }),
    ]);
    for (const { status } of answers) expect(status).toBe(401);
    expect(new Set(answers.map(({ body }) => JSON.stringify({ ...body.error, requestId: '' }))).size).toBe(1);
  });

  test('an unknown address takes as long as a wrong password', async () => {
    const attempt = (email: string) => durationOf(() => post(LOGIN, { email, password: 'wrong-password' }));
    // The shortest times, least affected by other load; skipping the password check would be ten times faster.
    const [known, unknown]: [number[], number[]] = [[], []];
    const apart = async (): Promise<number> => {
      const persons = await Promise.all(Array.from({ length: 6 }, () => person()));
      for (const { email } of persons) {
        known.push(await attempt(email));
        unknown.push(await attempt(`nobody-${email}`));
      }
      return Math.exp(Math.abs(Math.log(Math.min(...unknown) / Math.min(...known))));
    };
    expect(await fastest(1.7, apart)).toBeLessThan(1.7);
  });

  test('needs a tenant that exists and is not suspended', async () => {
    const secret = { email: 'a@example.com', password: PASSWORD };
    const other = await service.tenant();
    await service.admin.patch(`/api/admin/platform/tenants/${other.slug}`, { status: 'suspended' });
    const cases: [slug: string | null, status: number][] = [
      [null, 400],
      ['nothing-there', 404],
      [other.slug, 403],
      [`${tenant.slug},${other.slug}`, 400],
    ];
    for (const [slug, status] of cases) {
      expect((await post(LOGIN, secret, { 'x-tenant-id': slug })).status).toBe(status);
      expect((await post(DEVELOPER_TOKEN, secret, { 'x-tenant-id': slug })).status).toBe(status);
    }
    expect((await post(LOGIN, { email: 1 })).body.error.details).toHaveLength(2);
  });

  test('the same address in another tenant is another user', async () => {
    const { email } = await person();
    const other = await service.tenant();
    expect((await post(LOGIN, { email, password: PASSWORD }, { 'x-tenant-id': other.slug })).status).toBe(401);
    const { token } = (await post(LOGIN, { email, password: PASSWORD })).body.data;
    const foreign = await bearer(token).get('/api/auth/whoami', { 'x-tenant-id': other.slug });
    expect(foreign.status).toBe(403);
  });
});

describe('lockouts', () => {
  test('five failures lock the account, even for the right password, but no other account', async () => {
    const { email } = await person();
    for (let i = 0; i < 4; i++) expect((await post(LOGIN, { email, password: 'wrong-password' })).status).toBe(401);
    expect((await post(LOGIN, { email, password: PASSWORD })).status).toBe(200);
    for (let i = 0; i < 5; i++) {
      const path = i % 2 === 0 ? LOGIN : DEVELOPER_TOKEN;
      expect((await post(path, { email: email.toUpperCase(), password: 'wrong-password' })).status).toBe(401);
    }
    expect((await post(LOGIN, { email, password: PASSWORD })).status).toBe(401);
    const other = await person();
    expect((await post(LOGIN, { email: other.email, password: PASSWORD })).status).toBe(200);
  });

  test('of a hundred concurrent wrong attempts, exactly five are checked', async () => {
    const { email } = await person();
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => post(LOGIN, { email, password: 'wrong-password' })),
    );
    expect(answers.filter(({ status }) => status !== 401).map(({ status }) => status)).toEqual([]);
    expect(await lockOf(email)).toMatchObject({ failures: 5 });
    expect((await post(LOGIN, { email, password: PASSWORD })).status).toBe(401);
  });

  test('twenty concurrent attempts with the right password all succeed', async () => {
    const { email } = await person();
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(LOGIN, { email, password: PASSWORD })));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
  });

  test('a lock ends after 15 minutes, and older failures no longer count', async () => {
    const { sql } = await import('../src/runtime/sql.ts');
    const { email } = await person();
    for (let i = 0; i < 4; i++) await post(LOGIN, { email, password: 'wrong-password' });
    const [from, , to] = [Date.now(), await post(LOGIN, { email, password: 'wrong-password' }), Date.now()];
    const lock = await lockOf(email);
    expect(Date.parse(lock.locked_until) - 900_000).toBeWithin(from - 1, to + 1);
    const { db } = service.app;
    await db.rows(sql`
      update platform.lockouts set locked_until = now() - interval '1 second'
      where account = decode(${lock.account}, 'hex')`);
    expect((await post(LOGIN, { email, password: 'wrong-password' })).status).toBe(401);
    expect(await lockOf(email)).toMatchObject({ failures: 1, locked_until: null });
    await db.rows(sql`
      update platform.lockouts set failures = 4, window_started_at = now() - interval '16 minutes'
      where account = decode(${lock.account}, 'hex')`);
    expect((await post(LOGIN, { email, password: 'wrong-password' })).status).toBe(401);
    expect((await post(LOGIN, { email, password: PASSWORD })).status).toBe(200);
  });

  async function lockOf(email: string): Promise<Json> {
    const { sql } = await import('../src/runtime/sql.ts');
    const { sha256 } = await import('../src/runtime/tokens.ts');
    const { items } = (await tenant.get('/api/users?limit=100')).body.data;
    const { id } = items.find((user: Json) => user.email === email);
    const account = sha256(`user ${tenant.id} ${id}`).toString('hex');
    const row = await service.app.db.first<object>(sql`
      select failures, locked_until from platform.lockouts where account = decode(${account}, 'hex')`);
    return { account, ...row };
  }

  test('an address has 20 attempts a minute over all sign-in routes, then 429 with Retry-After', async () => {
    const { email } = await person();
    await retryWhenDelayed(60_000, async () => {
      const headers = elsewhere();
      const answers: Answer[] = [];
      for (let i = 0; i < 21; i++) {
        answers.push(await post(i % 2 ? LOGIN : DEVELOPER_TOKEN, { email, password: PASSWORD }, headers));
      }
      expect(answers.map(({ status }) => status)).toEqual([...Array(20).fill(200), 429]);
      const [first, last] = [answers[0] as Answer, answers[20] as Answer];
      expect(first.headers.get('ratelimit-policy')).toBe('"attempts";q=20;w=60');
      expect(first.headers.get('ratelimit')).toMatch(/^"attempts";r=19;t=\d+$/);
      expect(Number(last.headers.get('retry-after'))).toBeWithin(1, 61);
      expect(last.body.error.code).toBe('RATE_LIMITED');
    });
    expect((await post(LOGIN, { email, password: PASSWORD })).status).toBe(200);
  });
});

describe('registering', () => {
  const who = (): Json => ({ email: `self${++people}@example.com`, password: PASSWORD, name: 'Self' });

  test('creates a viewer; a role or id in the body is ignored', async () => {
    const body = who();
    const answer = await post(REGISTER, { ...body, role: 'owner', id: tenant.id, tenantId: 'x', isActive: false });
    expect(answer.status).toBe(201);
    expect(answer.body.data).toEqual({ id: expect.any(String), email: body.email, name: 'Self', role: 'viewer' });
    expect(answer.body.data.id).not.toBe(tenant.id);
    expect((await post(LOGIN, body)).body.data.user.role).toBe('viewer');
    expect((await post(REGISTER, body)).status).toBe(409);
    expect((await post(REGISTER, {})).body.error.details).toHaveLength(3);
  });

  test('an address has 20 attempts a minute, then 429 with Retry-After; other addresses are not affected', async () => {
    await retryWhenDelayed(60_000, async () => {
      const here = elsewhere();
      const statuses: number[] = [];
      for (let i = 0; i < 20; i++) statuses.push((await post(REGISTER, {}, here)).status);
      expect(new Set(statuses)).toEqual(new Set([400]));
      const refused = await post(REGISTER, who(), here);
      expect(refused.status).toBe(429);
      expect(Number(refused.headers.get('retry-after'))).toBeWithin(1, 61);
    });
    expect((await post(REGISTER, who())).status).toBe(201);
  });

  test('a tenant that is unknown, suspended or has not enabled it gives the same 403 in every flow', async () => {
    const off = await service.tenant();
    const suspended = await service.tenant({ settings: { selfRegistration: true, passwordReset: true } });
    await service.admin.patch(`/api/admin/platform/tenants/${suspended.slug}`, { status: 'suspended' });
    const bodies: [path: string, body: object][] = [
      [REGISTER, who()],
      [FORGOT, { email: 'a@example.com' }],
      [RESET, { token: 'x', password: PASSWORD }],
    ];
    for (const [path, body] of bodies) {
      const answers = await Promise.all(
        [off.slug, suspended.slug, 'nothing-there'].map((slug) => post(path, body, { 'x-tenant-id': slug })),
      );
      expect(answers.map(({ status }) => status)).toEqual([403, 403, 403]);
      expect(new Set(answers.map(({ body: answer }) => answer.error.message)).size).toBe(1);
    }
    expect((await post(REGISTER, who(), { 'x-tenant-id': null })).status).toBe(400);
  });

  test('a tenant that is deleted meanwhile gives a 404, which the document names', async () => {
    const gone = await service.tenant({ settings: { selfRegistration: true } });
    await runInSchema(service, gone, 'drop table users cascade');
    expect((await post(REGISTER, who(), { 'x-tenant-id': gone.slug })).status).toBe(404);
  });
});

describe('a forgotten password', () => {
  test('is replaced once with the mailed token, which ends every token of the user', async () => {
    const { email } = await person();
    const { token: session } = (await post(LOGIN, { email, password: PASSWORD })).body.data;
    const { token: developer } = (await post(DEVELOPER_TOKEN, { email, password: PASSWORD })).body.data;
    expect((await post(FORGOT, { email })).body.data).toEqual({ sent: true });
    const first = await mailedToken(service, email);
    await post(FORGOT, { email: email.toLowerCase() });
    const token = await mailedToken(service, email, 2);
    expect(token).not.toBe(first);
    expect((await mailsTo(service, email))[0]?.text).toContain(`${service.app.address}/reset-password?token=`);
    expect((await post(RESET, { token, password: 'short' })).status).toBe(400);
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post(RESET, { token, password: 'a-new-password' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(400)]);
    for (const old of [session, developer]) expect(await whoami(old)).toBe(401);
    for (const used of [token, first, 'nonsense']) {
      expect((await post(RESET, { token: used, password: 'a-new-password' })).status).toBe(400);
    }
    expect((await post(LOGIN, { email, password: PASSWORD })).status).toBe(401);
    expect((await post(LOGIN, { email, password: 'a-new-password' })).status).toBe(200);
    expect(service.logged.join('')).not.toContain(token);
    expect(await whoami(token)).toBe(401);
  });

  test('an unknown address gets the same response and no mail; a known one gets at most five mails', async () => {
    const { email } = await person();
    const known = await post(FORGOT, { email });
    const unknown = await post(FORGOT, { email: 'nobody-at-all@example.com' });
    expect([unknown.status, unknown.text]).toEqual([known.status, known.text]);
    expect(await mailsTo(service, 'nobody-at-all@example.com', 0)).toEqual([]);
    for (let i = 0; i < 8; i++) await post(FORGOT, { email });
    expect(await mailsTo(service, email, 5)).toHaveLength(5);
  });

  test('a token is valid for an hour, in its own tenant, for an active user; the tenant header is optional', async () => {
    const { sql } = await import('../src/runtime/sql.ts');
    const other = await service.tenant({ settings: { passwordReset: true } });
    const { id, email } = await person();
    await post(FORGOT, { email });
    const token = await mailedToken(service, email);
    const reset = (headers = {}) => post(RESET, { token, password: 'a-new-password' }, headers);
    expect((await reset({ 'x-tenant-id': other.slug })).status).toBe(400);
    const move = (by: string) =>
      service.app.db.rows(sql`
      update platform.password_resets set expires_at = expires_at + ${by}::interval where user_id = ${id}::uuid`);
    await move('-61 minutes');
    expect((await reset()).status).toBe(400);
    await move('61 minutes');
    expect((await reset({ 'x-tenant-id': null })).status).toBe(200);
  });

  test('a token is void once the user’s address, role, password or activity has changed, in whatever way', async () => {
    const changes: ((id: string) => Promise<unknown>)[] = [
      (id) => tenant.patch(`/api/users/${id}`, { email: `moved-${id}@example.com` }),
      (id) => tenant.patch(`/api/users/${id}`, { role: 'admin' }),
      (id) => tenant.patch(`/api/users/${id}`, { password: 'set-by-an-admin' }),
      (id) =>
        tenant
          .patch(`/api/users/${id}`, { isActive: false })
          .then(() => tenant.patch(`/api/users/${id}`, { isActive: true })),
      (id) =>
        service.admin.patch(`/api/users/${id}`, { email: `moved-${id}@example.com` }, { 'x-tenant-id': tenant.slug }),
      (id) => tenant.delete(`/api/users/${id}`),
    ];
    for (const change of changes) {
      const { id, email } = await person();
      await post(FORGOT, { email });
      const token = await mailedToken(service, email);
      expect(token).not.toBe('');
      await change(id);
      expect((await post(RESET, { token, password: 'taken-over-by-mail' })).status).toBe(400);
      expect((await post(LOGIN, { email, password: 'taken-over-by-mail' })).status).toBe(401);
    }
    const { id, email } = await person();
    await post(FORGOT, { email });
    const token = await mailedToken(service, email);
    await tenant.patch(`/api/users/${id}`, { name: 'Another Name' });
    expect((await post(RESET, { token, password: 'a-new-password' })).status).toBe(200);
  });

  test('of a reset and a change of the address at once, a later reset never succeeds', async () => {
    const { id, email } = await person();
    await post(FORGOT, { email });
    const token = await mailedToken(service, email);
    const racing = Array.from({ length: 4 }, (_, i) =>
      tenant.patch(`/api/users/${id}`, { email: `race-${i}-${id}@example.com` }),
    );
    const resets = Array.from({ length: 4 }, () => post(RESET, { token, password: 'raced-password' }));
    const statuses = (await Promise.all([...racing, ...resets])).map(({ status }) => status);
    expect(statuses.filter((status) => ![200, 400].includes(status))).toEqual([]);
    expect((await post(RESET, { token, password: 'much-later-password' })).status).toBe(400);
  });
});

describe('changing a password', () => {
  test('needs the current one, and ends all tokens of the user', async () => {
    const { email } = await person();
    const { token } = (await post(LOGIN, { email, password: PASSWORD })).body.data;
    const change = (currentPassword: unknown, newPassword: unknown) =>
      bearer(token).post(CHANGE, { currentPassword, newPassword });
    expect((await change('wrong-password', 'a-new-password')).status).toBe(401);
    expect((await change(PASSWORD, 'short')).status).toBe(400);
    expect((await change(7, 7)).body.error.details).toHaveLength(2);
    const answers = await Promise.all([change(PASSWORD, 'a-new-password'), change(PASSWORD, 'another-password')]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401]);
    expect(await whoami(token)).toBe(401);
  });

  test('is for users only: a key gets 403, no credential 401', async () => {
    const body = { currentPassword: PASSWORD, newPassword: 'a-new-password' };
    expect((await tenant.post(CHANGE, body)).status).toBe(403);
    expect((await service.anonymous.post(CHANGE, body)).status).toBe(401);
  });

  test('wrong guesses count towards the lock', async () => {
    const { email } = await person();
    const { token } = (await post(LOGIN, { email, password: PASSWORD })).body.data;
    for (let i = 0; i < 5; i++) {
      await bearer(token).post(CHANGE, { currentPassword: 'wrong-password', newPassword: 'a-new-password' });
    }
    const right = await bearer(token).post(CHANGE, { currentPassword: PASSWORD, newPassword: 'a-new-password' });
    expect(right.status).toBe(401);
  });
});

describe('tokens', () => {
  test('that are forged, of another kind, malformed or expired get 401, never 500', async () => {
    const { id } = await person();
    const claims = validClaims('user', id, tenant.id);
    expect(await whoami(signerWith(JWT_SECRET, 'user')(claims))).toBe(200);
    const tokens = forgeries(JWT_SECRET, claims, 'user');
    expect(Object.keys(tokens).length).toBeGreaterThanOrEqual(60);
    const accepted: string[] = [];
    for (const [name, token] of Object.entries(tokens)) {
      const status = await whoami(token);
      if (status !== 401) accepted.push(`${name}: ${status}`);
    }
    expect(accepted).toEqual([]);
  });
});

test('no error response and no log line contains a password', () => {
  expect(service.logged.join('')).not.toMatch(/canary-password-0815|scrypt\$/);
});
