import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type PrivateRedis, privateRedis } from './support/private-servers.ts';
import { type Client, startService, type TestService, type TestTenant } from './support/service.ts';
import { durationOf, fastest, median } from './support/timing.ts';

// Two processes when Postgres and Redis are shared; one process on the embedded defaults.
let redis: PrivateRedis | undefined;
let here: TestService;
let there: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  redis = process.env.DATABASE_URL === undefined ? undefined : await privateRedis();
  const environment = { TRUST_PROXY: '1', ...(redis === undefined ? {} : { REDIS_URL: redis.url }) };
  here = await startService(environment);
  there = redis === undefined ? here : await startService(environment);
  tenant = await here.tenant();
});
afterAll(async () => {
  await here.stop();
  if (there !== here) await there.stop();
  await redis?.remove();
});

const PASSWORD = 'a-long-password';
let people = 0;
const login = (service: TestService, email: string, password: string, address: string) =>
  service.anonymous.post(
    '/api/auth/tenant/login',
    { email, password },
    { 'x-tenant-id': tenant.slug, 'x-forwarded-for': address },
  );

/** A user signed in at this process, with a client for the other. */
async function user(): Promise<{ id: string; email: string; remote: Client; token: string }> {
  const email = `p${++people}@example.com`;
  const added = await tenant.post('/api/users', { email, name: 'P', role: 'admin', password: PASSWORD });
  const { token } = (await login(here, email, PASSWORD, `10.7.0.${people}`)).body.data;
  const remote = there.anonymous.with({ authorization: `Bearer ${token}` });
  return { id: added.body.data.id, email, remote, token };
}

/** The milliseconds until the other process responds with this status. */
function statusAfter(client: Client, path: string, status: number): Promise<number> {
  return durationOf(async () => {
    while ((await client.get(path)).status !== status);
  });
}

describe('on every process, within one second', () => {
  const changes: [what: string, change: (id: string, token: string) => Promise<unknown>, status: number][] = [
    ['a deactivated user is refused', (id) => tenant.patch(`/api/users/${id}`, { isActive: false }), 401],
    ['a removed user is refused', (id) => tenant.delete(`/api/users/${id}`), 401],
    [
      'a demoted user has only the new role’s rights',
      (id) => tenant.patch(`/api/users/${id}`, { role: 'viewer' }),
      403,
    ],
    [
      'tokens from before a change of password are refused',
      (_, token) =>
        here.anonymous.post(
          '/api/auth/tenant/change-password',
          { currentPassword: PASSWORD, newPassword: 'another-password' },
          { authorization: `Bearer ${token}` },
        ),
      401,
    ],
  ];
  for (const [what, change, status] of changes) {
    test(what, async () => {
      const changed = async (): Promise<number> => {
        const { id, token, remote } = await user();
        expect((await remote.get('/api/users')).status).toBe(200);
        await change(id, token);
        return statusAfter(remote, '/api/users', status);
      };
      expect(await fastest(1_000, changed)).toBeLessThan(1_000);
    });
  }

  test('a changed role has its new rights', async () => {
    await tenant.post('/api/entities', { name: 'things', fields: [{ key: 'a', type: 'text' }] });
    await tenant.post('/api/roles', { name: 'reader', permissions: { things: ['read'] } });
    const { id, remote } = await user();
    const path = '/api/entities/things/records';
    const demoted = async (): Promise<number> => {
      await tenant.patch(`/api/users/${id}`, { role: 'admin' });
      await statusAfter(remote, '/api/users', 200);
      await tenant.patch(`/api/users/${id}`, { role: 'reader' });
      return statusAfter(remote, '/api/users', 403);
    };
    expect(await fastest(1_000, demoted)).toBeLessThan(1_000);
    const withdrawn = async (): Promise<number> => {
      await tenant.patch('/api/roles/reader', { permissions: { things: ['read'] } });
      await statusAfter(remote, path, 200);
      await tenant.patch('/api/roles/reader', { permissions: {} });
      return statusAfter(remote, path, 403);
    };
    expect(await fastest(1_000, withdrawn)).toBeLessThan(1_000);
  });
});

describe('over all processes', () => {
  test('of a hundred concurrent wrong attempts five are checked, and the account is locked on both', async () => {
    const { email } = await user();
    const wrong = Array.from({ length: 100 }, (_, i) =>
      login(i % 2 === 0 ? here : there, email, 'wrong-password', `10.8.0.${i}`),
    );
    expect((await Promise.all(wrong)).filter(({ status }) => status !== 401)).toEqual([]);
    for (const service of [here, there]) expect((await login(service, email, PASSWORD, '10.8.1.1')).status).toBe(401);
  });

  test('one address has 20 attempts a minute', async () => {
    const { email } = await user();
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => login(i % 2 === 0 ? here : there, email, PASSWORD, '10.9.0.1')),
    );
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20);
  });
});

describe('a burst of logins', () => {
  test('gets 503 once the queue is full, which does not count as an attempt, and does not slow other tenants', async () => {
    const other = await here.tenant();
    // Pause first, so that both measurements are comparable.
    const read = async (): Promise<number> => {
      await new Promise((resolve) => setTimeout(resolve, 3));
      return durationOf(async () => expect((await other.get('/api/keys')).status).toBe(200));
    };
    let bursts = 0;
    // How many times longer a read takes during the burst than before it, ignoring one millisecond.
    const slowed = async (): Promise<number> => {
      const quiet: number[] = [];
      for (let i = 0; i < 100; i++) quiet.push(await read());
      const range = `10.1${bursts++}.0`;
      let isOver = false;
      const burst = Promise.all(
        Array.from({ length: 200 }, (_, i) => login(here, `nobody${i}@example.com`, PASSWORD, `${range}.${i}`)),
      ).finally(() => {
        isOver = true;
      });
      const during: number[] = [];
      while (!isOver) during.push(await read());
      const answers = await burst;
      const shed = answers.filter(({ status }) => status === 503);
      expect(shed.length).toBeGreaterThan(0);
      expect(shed.every(({ headers }) => headers.has('retry-after'))).toBe(true);
      expect(answers.filter(({ status }) => status !== 401 && status !== 503)).toEqual([]);
      return (median(during) - 1) / median(quiet);
    };
    expect(await fastest(2, slowed, 5)).toBeLessThan(2);
  }, 600_000);
});
