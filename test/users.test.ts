import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mailsTo } from './support/mailbox.ts';
import { addUser, newEmail, signIn } from './support/people.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const PASSWORD = 'canary-password-4711';

const add = (owner: Client, input: object = {}): Promise<Json> => addUser(owner, { password: PASSWORD, ...input });
const signedIn = (of: TestTenant, email: string): Promise<Client> => signIn(service.anonymous, of, email, PASSWORD);

describe('users', () => {
  test('are added, read, listed in pages, changed and removed by a tenant admin', async () => {
    const own = await service.tenant();
    const ada = await add(own, { name: 'Ada', id: 'mine', tenantId: tenant.id, isActive: false });
    expect(ada).toMatchObject({ name: 'Ada', role: 'member', isActive: true });
    const ben = await add(own, { name: 'Ben' });
    expect((await own.get(`/api/users/${ada.id}`)).body.data).toEqual(ada);
    const page = await own.get('/api/users?limit=1&page=2');
    expect(page.body.data).toEqual({ items: [ada], total: 2, page: 2, limit: 1, totalPages: 2 });
    const changed = await own.patch(`/api/users/${ben.id}`, {
      name: 'Benjamin',
      email: `b.${ben.email}`,
      role: 'viewer',
    });
    expect(changed.body.data).toMatchObject({ id: ben.id, name: 'Benjamin', email: `b.${ben.email}`, role: 'viewer' });
    expect((await own.delete(`/api/users/${ben.id}`)).body.data).toEqual({ id: ben.id, deleted: true });
    expect((await own.get(`/api/users/${ben.id}`)).status).toBe(404);
  });

  test('are found by a part of their name or address, in any case, as plain text', async () => {
    const own = await service.tenant();
    const ada = await add(own, { name: 'Ada 100%', email: 'lovelace@example.com' });
    const ben = await add(own, { name: 'Ben', email: 'b_n@example.com' });
    const found = async (search: string): Promise<string[]> => {
      const { items, total } = (await own.get(`/api/users?search=${encodeURIComponent(search)}`)).body.data;
      expect(total).toBe(items.length);
      return items.map(({ id }: Json) => id);
    };
    expect(await found('')).toEqual([ben.id, ada.id]);
    expect(await found('LOVE')).toEqual([ada.id]);
    expect(await found('ada')).toEqual([ada.id]);
    expect([await found('0%'), await found('b_n'), await found('%')]).toEqual([[ada.id], [ben.id], [ada.id]]);
    expect(await found('nobody')).toEqual([]);
    expect((await own.get(`/api/users?search=${'x'.repeat(300)}`)).status).toBe(400);
  });

  test('a 400 names every problem of a user', async () => {
    const answer = await tenant.post('/api/users', { email: 'a@b.c, d@e.f', name: ' ', role: 7, password: 'short' });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual(['email', 'name', 'role', 'password']);
  });

  test('a role must exist, and addresses are unique regardless of case', async () => {
    const { email, id } = await add(tenant);
    const other = await add(tenant);
    const wrongRole = { email: newEmail(), name: 'X', role: 'nothing', password: PASSWORD };
    const cases: [answer: Promise<{ status: number }>, status: number][] = [
      [tenant.post('/api/users', wrongRole), 400],
      [tenant.post('/api/users', { ...wrongRole, password: undefined }), 400],
      [tenant.patch(`/api/users/${id}`, { role: 'nothing' }), 400],
      [tenant.post('/api/users', { ...wrongRole, role: 'member', email: email.toUpperCase() }), 409],
      [tenant.post('/api/users', { role: 'member', name: 'X', email: email.toUpperCase() }), 409],
      [tenant.patch(`/api/users/${other.id}`, { email }), 409],
      [tenant.patch(`/api/users/${id}`, { email: email.toUpperCase() }), 200],
      [tenant.get('/api/users/not-an-id'), 404],
      [tenant.patch(`/api/users/${tenant.id}`, { name: 'X' }), 404],
      [tenant.delete(`/api/users/${tenant.id}`), 404],
    ];
    for (const [answer, status] of cases) expect((await answer).status).toBe(status);
  });

  test('of twenty concurrent additions of one address, one succeeds', async () => {
    const body = { email: newEmail(), name: 'Ada', role: 'member', password: PASSWORD };
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post('/api/users', body)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(19).fill(409)]);
  });

  test('without a password the person is invited to the role by mail', async () => {
    const email = newEmail();
    const answer = await tenant.post('/api/users', { email, name: 'Eve', role: 'viewer' });
    expect(answer.status).toBe(201);
    expect(answer.body.data).toMatchObject({ email, name: 'Eve', role: 'viewer', isActive: false, status: 'invited' });
    const [mail] = await mailsTo(service, email);
    expect(mail?.mode).toBe(0o600);
    const link = /http\S+\/invite\/(\S+)/.exec(mail?.text ?? '');
    expect(link?.[0]).toStartWith(service.app.address);
    expect(answer.body.data).toMatchObject({ mailed: false, inviteUrl: link?.[0] });
    expect(service.logged.join('')).not.toContain(link?.[1] as string);
    expect((await tenant.get('/api/users?limit=100')).text).not.toContain(email);
  });

  test('a tenant’s name adds no lines to a mail', async () => {
    const own = await service.tenant();
    await own.patch('/api/tenant', { name: 'Acme\n\nPay here:\r\nhttp://attacker.test' });
    const email = newEmail();
    expect((await own.post('/api/users', { email, name: 'Eve', role: 'viewer' })).status).toBe(201);
    const [mail] = await mailsTo(service, email);
    expect(mail?.text).toContain('Pay here');
    expect(mail?.text).not.toMatch(/^\s*(Pay here|http:..attacker)/m);
  });

  test('the routes are for tenant admins, and one tenant does not see another’s users', async () => {
    const member = await add(tenant);
    const viewer = await signedIn(tenant, member.email);
    const stranger = await service.tenant();
    const routes: [method: string, path: string][] = [
      ['GET', '/api/users'],
      ['POST', '/api/users'],
      ['GET', `/api/users/${member.id}`],
      ['PATCH', `/api/users/${member.id}`],
      ['DELETE', `/api/users/${member.id}`],
    ];
    for (const [method, path] of routes) {
      const body = method === 'POST' || method === 'PATCH' ? {} : undefined;
      expect((await viewer.request(method, path, body)).status).toBe(403);
      expect((await service.anonymous.request(method, path, body)).status).toBe(401);
      const answer = await stranger.request(method, path, body);
      expect(answer.text).not.toContain(member.email);
      if (path.includes(member.id)) expect(answer.status).toBe(404);
    }
    expect((await tenant.get(`/api/users/${member.id}`)).body.data).toEqual(member);
  });
});

describe('the last owner', () => {
  test('can be neither removed nor demoted nor deactivated', async () => {
    const own = await service.tenant();
    const owner = await add(own, { role: 'owner' });
    const path = `/api/users/${owner.id}`;
    expect((await own.delete(path)).status).toBe(409);
    expect((await own.patch(path, { role: 'admin' })).status).toBe(409);
    expect((await own.patch(path, { isActive: false })).status).toBe(409);
    expect((await own.patch(path, { role: 'owner', isActive: true, name: 'Still' })).status).toBe(200);
    const second = await add(own, { role: 'owner' });
    await own.patch(`/api/users/${second.id}`, { isActive: false });
    expect((await own.delete(path)).status).toBe(409);
    await own.patch(`/api/users/${second.id}`, { isActive: true });
    expect((await own.delete(path)).status).toBe(200);
  });

  test('remains when all owners are removed concurrently, each in another way', async () => {
    const own = await service.tenant();
    const owners = await Promise.all(Array.from({ length: 6 }, () => add(own, { role: 'owner' })));
    const answers = await Promise.all(
      owners.map(({ id }, i) =>
        i % 3 === 0
          ? own.delete(`/api/users/${id}`)
          : own.patch(`/api/users/${id}`, i % 3 === 1 ? { role: 'member' } : { isActive: false }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 409]);
    const { items } = (await own.get('/api/users')).body.data;
    expect(items.filter(({ role, isActive }: Json) => role === 'owner' && isActive)).toHaveLength(1);
  });
});

describe('a change of a user takes effect at once', () => {
  const changes: [what: string, change: object, before: number, after: number][] = [
    ['a lesser role', { role: 'viewer' }, 200, 403],
    ['deactivation', { isActive: false }, 200, 401],
    ['a new password', { password: 'another-password' }, 200, 401],
  ];
  for (const [what, change, before, after] of changes) {
    test(`${what} applies to existing tokens`, async () => {
      const user = await add(tenant, { role: 'admin' });
      const client = await signedIn(tenant, user.email);
      expect((await client.get('/api/users')).status).toBe(before);
      await tenant.patch(`/api/users/${user.id}`, change);
      expect((await client.get('/api/users')).status).toBe(after);
    });
  }

  test('reactivation does not revive old tokens, and removal ends them', async () => {
    const user = await add(tenant);
    const client = await signedIn(tenant, user.email);
    await tenant.patch(`/api/users/${user.id}`, { isActive: false });
    await tenant.patch(`/api/users/${user.id}`, { isActive: true });
    expect((await client.get('/api/auth/whoami')).status).toBe(401);
    const again = await signedIn(tenant, user.email);
    expect((await again.get('/api/auth/whoami')).body.data).toMatchObject({
      kind: 'user',
      id: user.id,
      role: 'member',
    });
    await tenant.delete(`/api/users/${user.id}`);
    expect((await again.get('/api/auth/whoami')).status).toBe(401);
  });
});

test('no answer and no log line contains a password or its hash', async () => {
  const { id } = await add(tenant);
  const texts = [(await tenant.get(`/api/users/${id}`)).text, (await tenant.get('/api/users')).text, ...service.logged];
  for (const text of texts) expect(text).not.toMatch(/canary-password-4711|scrypt\$|password_hash/);
});
