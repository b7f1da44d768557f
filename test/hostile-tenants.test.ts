// Attacks by tenants and invited persons: invitations accepted while they are revoked, attempts to evade limits,
// and secrets in the audit of admin keys.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { newAddress } from './support/addresses.ts';
import { adminKey, everyKind } from './support/credentials.ts';
import { invite } from './support/people.ts';
import {
  type Answer,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { retryWhenDelayed } from './support/timing.ts';

const PASSWORD = 'a password of the tests';
const ROUNDS = 6;
const KEYS = '/api/admin/platform/keys';

let service: TestService;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(async () => {
  await service.app.db.rows(sql`delete from platform.admin_keys`);
  await service.stop();
});

let people = 0;
const person = (): Json => ({ email: `guest${++people}@example.com`, name: 'Guest', password: PASSWORD });
const inside = ({ slug }: TestTenant): Record<string, string> => ({ 'x-tenant-id': slug });

const accept = (token: string, body: Json): Promise<Answer> =>
  service.anonymous.post('/auth/invite/accept', { token, ...body });

async function usersOf(tenant: TestTenant): Promise<Json[]> {
  return (await tenant.get('/api/users')).body.data.items;
}

async function setStatus({ slug }: TestTenant, status: string): Promise<Answer> {
  return service.admin.patch(`/api/admin/platform/tenants/${slug}`, { status });
}

describe('accepting an invitation while', () => {
  test('the tenant is suspended: creates a user or is refused, never both', async () => {
    const tenant = await service.tenant();
    for (let round = 0; round < ROUNDS; round++) {
      const token = await invite(tenant);
      const guest = person();
      const [accepted, suspended] = await Promise.all([accept(token, guest), setStatus(tenant, 'suspended')]);
      expect(suspended.status).toBe(200);
      expect([201, 403]).toContain(accepted.status);
      expect((await accept(await invitedBefore(tenant), person())).status).toBe(403);
      await setStatus(tenant, 'active');
      const emails = (await usersOf(tenant)).map(({ email }) => email);
      expect(emails.includes(guest.email)).toBe(accepted.status === 201);
    }
  });

  test('it is revoked twice: ends in one state', async () => {
    const tenant = await service.tenant();
    for (let round = 0; round < ROUNDS; round++) {
      const token = await invite(tenant);
      const guest = person();
      const revoke = (): Promise<Answer> => tenant.delete(`/api/invitations/${token}`, inside(tenant));
      const [revoked, accepted, again] = await Promise.all([revoke(), accept(token, guest), revoke()]);
      const statuses = [accepted.status, ...[revoked.status, again.status].sort()];
      expect([
        [201, 409, 409],
        [409, 200, 409],
      ]).toContainEqual(statuses);
      const emails = (await usersOf(tenant)).map(({ email }) => email);
      expect(emails.includes(guest.email)).toBe(accepted.status === 201);
    }
  });

  test('another invitation of the same address is accepted: creates one user, and the other stays pending', async () => {
    const tenant = await service.tenant();
    const guest = person();
    const tokens = [await invite(tenant), await invite(tenant, { email: guest.email.toUpperCase() })];
    const answers = await Promise.all(tokens.map((token) => accept(token, guest)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
    expect(await usersOf(tenant)).toHaveLength(1);
    const open = await Promise.all(tokens.map((token) => service.anonymous.get(`/auth/invite/${token}`)));
    expect(open.map(({ body }) => body.data.valid)).toEqual(answers.map(({ status }) => status === 409));
  });

  test('the address registers: creates one user', async () => {
    const tenant = await service.tenant({ settings: { selfRegistration: true } });
    for (let round = 0; round < ROUNDS; round++) {
      const token = await invite(tenant);
      const guest = person();
      const [accepted, registered] = await Promise.all([
        accept(token, guest),
        service.anonymous.post('/api/auth/tenant/register', guest, { ...inside(tenant), ...newAddress() }),
      ]);
      expect([accepted.status, registered.status].sort()).toEqual([201, 409]);
      const users = (await usersOf(tenant)).filter(({ email }) => email === guest.email);
      expect(users.map(({ role }) => role)).toEqual([accepted.status === 201 ? 'member' : 'viewer']);
    }
  });

  test('the tenant is deleted: leaves nothing behind', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const tenant = await service.tenant();
      const token = await invite(tenant);
      const { slug } = tenant;
      const [accepted, dropped] = await Promise.all([
        accept(token, person()),
        service.admin.delete(`/api/admin/platform/tenants/${slug}?confirm=${slug}`),
      ]);
      expect(dropped.status).toBe(200);
      // The tenant is suspended until it is gone.
      expect([201, 403, 404, 409]).toContain(accepted.status);
      expect((await accept(token, person())).status).toBe(404);
      expect((await service.anonymous.get(`/auth/invite/${token}`)).body.data.valid).toBe(false);
    }
  });
});

/** An invitation whose tenant is suspended after its creation. */
async function invitedBefore(tenant: TestTenant): Promise<string> {
  await setStatus(tenant, 'active');
  const token = await invite(tenant);
  await setStatus(tenant, 'suspended');
  return token;
}

test('an invitation created while its role is deleted is refused, or keeps the role', async () => {
  const tenant = await service.tenant();
  for (let round = 0; round < ROUNDS; round++) {
    const role = `passing${round}`;
    await tenant.post('/api/roles', { name: role, permissions: { '*': ['read'] } });
    const guest = person();
    const made = { email: guest.email, name: guest.name, role };
    const [asked, deleted] = await Promise.all([tenant.post('/api/users', made), tenant.delete(`/api/roles/${role}`)]);
    const roles = (await tenant.get('/api/roles')).body.data.map(({ name }: Json) => name);
    expect([
      [201, 409],
      [400, 200],
    ]).toContainEqual([asked.status, deleted.status]);
    expect(roles.includes(role)).toBe(asked.status === 201);
  }
});

test('a suspension does not reset the rate limits of public keys', async () => {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'orders' });
  const roles = (await tenant.get('/api/roles')).body.data;
  const roleId = roles.find(({ name }: Json) => name === 'viewer').id;
  const input = { label: 'site', roleId, scopes: ['records:read'], rateLimitPerDay: 2 };
  const { key } = (await tenant.post('/api/auth/public-keys', input)).body.data;
  const read = async (): Promise<number> =>
    (await clientOf(service.url, { 'x-public-key': key }).get('/api/entities/orders/records')).status;
  expect(await read()).toBe(200);
  await setStatus(tenant, 'suspended');
  expect(await read()).toBe(403);
  await setStatus(tenant, 'active');
  const after = [await read(), await read(), await read()];
  expect(after.filter((status) => status === 200).length).toBeLessThanOrEqual(1);
  expect(after.slice(1)).toEqual([429, 429]);
});

test('no change of name, tenant, route or forwarded address allows more than 20 attempts a minute', async () => {
  const [one, other] = [await service.tenant(), await service.tenant()];
  await setStatus(other, 'suspended');
  await retryWhenDelayed(60_000, async () => {
    const { 'x-forwarded-for': real } = newAddress();
    const slugs = [one.slug, other.slug, 'no-such-tenant'];
    const names = ['a@b.example', 'A@b.example', 'a@B.EXAMPLE', '\u212a@b.example', 'k@b.example', ' a@b.example'];
    const statuses: number[] = [];
    for (let i = 0; i < 24; i++) {
      const flow = i % 2 ? 'login' : 'developer-token';
      const body = { email: names[i % names.length], password: `wrong-password-${i}` };
      // Entries before the last one are claims of the client.
      const forwarded = `10.0.0.${i}, ${newAddress()['x-forwarded-for']}, ${real}`;
      const headers = { 'x-forwarded-for': forwarded, 'x-tenant-id': slugs[i % slugs.length] as string };
      statuses.push((await service.anonymous.post(`/api/auth/tenant/${flow}`, body, headers)).status);
    }
    expect(statuses.slice(0, 20)).not.toContain(429);
    expect(statuses.slice(20)).toEqual([429, 429, 429, 429]);
  });
});

describe('the audit of admin keys', () => {
  const client = (headers: Record<string, string>) =>
    clientOf(service.url, { 'x-forwarded-for': '10.9.9.9', ...headers });

  test('is readable neither with a tenant’s credential nor with one credential alone', async () => {
    const tenant = await service.tenant();
    const key = await adminKey(service, ['platform:read']);
    const both = service.admin.with({ 'x-admin-key': key });
    const [{ id }] = (await both.get(KEYS)).body.data;
    expect((await both.get(`${KEYS}/${id}/audit`)).status).toBe(200);
    for (const [kind, headers] of Object.entries(await everyKind(service, tenant))) {
      for (const path of [`${KEYS}/${id}/audit`, `${KEYS}/${crypto.randomUUID()}/audit`, KEYS]) {
        const { status } = await client(headers).get(path);
        const refusals = kind === 'admin_key' || kind === 'super_admin' ? [401] : [403];
        expect([kind, path, refusals.includes(status)]).toEqual([kind, path, true]);
      }
    }
  });

  test('stores method, path and address of a request, but no query, headers or token in the path', async () => {
    const key = await adminKey(service, ['platform:read', 'platform:write', 'tenants:manage']);
    const both = service.admin.with({ 'x-admin-key': key });
    const [{ id }] = (await both.get(KEYS)).body.data;
    const token = `svc_inv_${'c0ffee00'.repeat(6)}`;
    const holder = client({
      'x-admin-key': key,
      'user-agent': 'canary-of-a-header',
      referer: 'https://canary.example',
    });
    await holder.get('/api/admin/platform/tenants?page=1&secret=canary-of-a-query');
    await holder.delete(`/api/invitations/${token}`);
    await holder.get(`/api/invitations?token=${token}`);
    const audit = await both.get(`${KEYS}/${id}/audit`);
    expect(audit.body.data.filter(({ ip }: Json) => ip === '10.9.9.9').map(({ endpoint }: Json) => endpoint)).toEqual([
      'GET /api/invitations',
      'DELETE /api/invitations/[token]',
      'GET /api/admin/platform/tenants',
    ]);
    for (const secret of ['canary', token, key]) expect(audit.text).not.toContain(secret);
  });
});
