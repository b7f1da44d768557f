// Invitations over HTTP: both kinds, every state transition, and concurrent use of one token.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from '../src/runtime/sql.ts';
import { adminKey, bearer, userToken } from './support/credentials.ts';
import { mailsTo } from './support/mailbox.ts';
import { invite } from './support/people.ts';
import { type Answer, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { until } from './support/streams.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService({ LOG_LEVEL: 'debug', APP_URL: 'https://front.example' });
});
afterAll(async () => service.stop());

const PASSWORD = 'a password of the tests';
let people = 0;

function person(email?: string): { email: string; name: string; password: string } {
  people += 1;
  return { email: email ?? `person${people}@example.com`, name: `Person ${people}`, password: PASSWORD };
}

const inside = (tenant: TestTenant) => ({ 'x-tenant-slug': tenant.slug });
const accept = (token: string, body: Json = person()): Promise<Answer> =>
  service.anonymous.post('/auth/invite/accept', { token, ...body });
const check = (token: string): Promise<Answer> => service.anonymous.get(`/auth/invite/${token}`);
const NOT_VALID = { valid: false, email: null, tenantSlug: null };

async function platformCode(body: Json = {}): Promise<string> {
  const answer = await service.admin.post('/api/invitations', body);
  expect(answer.status).toBe(201);
  return answer.body.data.token;
}

async function expire(token: string): Promise<void> {
  const { hasToken } = await import('../src/invitations/invitations.ts');
  await service.app.db.rows(sql`
    update platform.invitations as i set expires_at = now() - interval '1 second' where ${hasToken(token)}`);
}

describe('a member’s invitation', () => {
  test('the token and the link are shown once, at creation', async () => {
    const tenant = await service.tenant();
    const made = await tenant.post('/api/invitations', {}, inside(tenant));
    const { token, inviteUrl } = made.body.data;
    expect(inviteUrl).toBe(`https://front.example/invite/${token}`);
    const listed = await tenant.get('/api/invitations', inside(tenant));
    expect(listed.text).not.toContain(token);
    expect(listed.body.data).toMatchObject({ total: 1, page: 1, limit: 20, totalPages: 1 });
    expect(listed.body.data.items[0]).toEqual({
      id: expect.any(String),
      email: null,
      status: 'pending',
      kind: 'member',
      tenantSlug: tenant.slug,
      createdAt: expect.any(String),
      expiresAt: expect.any(String),
      acceptedAt: null,
    });
  });

  test('the token alone shows its tenant and address', async () => {
    const tenant = await service.tenant();
    const answer = await check(await invite(tenant, { email: 'ada@example.com' }));
    expect(answer.status).toBe(200);
    expect(answer.body.data).toEqual({ valid: true, email: 'ada@example.com', tenantSlug: tenant.slug });
    expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect((await check('nonsense')).body.data).toEqual(NOT_VALID);
  });

  test('accepting creates a member; a role in the body is ignored', async () => {
    const tenant = await service.tenant();
    const token = await invite(tenant);
    const ada = person();
    const joined = await accept(token, { ...ada, role: 'owner', id: crypto.randomUUID(), tenantSlug: 'other' });
    expect(joined.status).toBe(201);
    expect(joined.body.data).toEqual({ id: expect.any(String), email: ada.email, name: ada.name, role: 'member' });
    const listed = await tenant.get('/api/invitations?status=accepted', inside(tenant));
    expect(listed.body.data.items[0]).toMatchObject({ status: 'accepted', acceptedAt: expect.any(String) });
  });

  test('an invitation lasts 1 to 90 days, 7 by default', async () => {
    const tenant = await service.tenant();
    await invite(tenant);
    await invite(tenant, { expiresInDays: 90 });
    const { items } = (await tenant.get('/api/invitations', inside(tenant))).body.data;
    const days = items.map(
      ({ createdAt, expiresAt }: Json) => (Date.parse(expiresAt) - Date.parse(createdAt)) / 86_400_000,
    );
    expect(days.map((value: number) => Math.round(value))).toEqual([90, 7]);
    for (const expiresInDays of [0, 91, 1.5, '7']) {
      expect((await tenant.post('/api/invitations', { expiresInDays }, inside(tenant))).status).toBe(400);
    }
    expect((await tenant.post('/api/invitations', { email: 'nobody' }, inside(tenant))).status).toBe(400);
  });

  test('the invited address must match, regardless of case', async () => {
    const tenant = await service.tenant();
    const token = await invite(tenant, { email: 'Ada@Example.com' });
    const refused = await accept(token, person('eve@example.com'));
    expect(refused.status).toBe(403);
    expect(refused.text).not.toContain('Ada');
    expect((await accept(token, person('ada@example.COM'))).status).toBe(201);
  });

  test('the address of an existing user gets 409, and the invitation stays pending', async () => {
    const tenant = await service.tenant();
    await accept(await invite(tenant), person('ada@example.com'));
    const token = await invite(tenant);
    expect((await accept(token, person('ADA@example.com'))).status).toBe(409);
    expect((await check(token)).body.data.valid).toBe(true);
    expect((await accept(token)).status).toBe(201);
  });

  const bad: [string, Json, string[]][] = [
    ['nothing', {}, ['email', 'name', 'password']],
    ['a short password', { ...person(), password: 'short' }, ['password']],
    ['no address', { ...person(), email: 'nobody' }, ['email']],
  ];
  test.each(bad)('a body with %s gets 400, and the invitation stays pending', async (_, body, paths) => {
    const token = await invite(await service.tenant());
    const answer = await accept(token, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual(paths);
    expect((await check(token)).body.data.valid).toBe(true);
  });
});

describe('a platform code', () => {
  test('is created by an invitation without a tenant header, even with a credential of a tenant', async () => {
    const tenant = await service.tenant();
    const made = await tenant.post('/api/invitations', {});
    expect(made.status).toBe(201);
    expect((await check(made.body.data.token)).body.data).toEqual({ valid: true, email: null, tenantSlug: null });
    const { items } = (await tenant.get('/api/invitations')).body.data;
    expect(items).toMatchObject([{ kind: 'platform', status: 'pending', tenantSlug: null }]);
  });

  test('creates a tenant with the person as its owner', async () => {
    const token = await platformCode();
    const slug = `made-${Date.now().toString(36)}`;
    const joined = await accept(token, { ...person(), tenantSlug: slug, tenantName: 'Made' });
    expect(joined.status).toBe(201);
    expect(joined.body.data.role).toBe('owner');
    const made = await service.admin.get(`/api/admin/platform/tenants/${slug}`);
    expect(made.body.data).toMatchObject({ slug, name: 'Made', counts: { users: 1 } });
    const listed = await service.admin.get(`/api/admin/platform/invitations?tenantId=${slug}`);
    expect(listed.body.data.items).toMatchObject([{ kind: 'platform', status: 'accepted', tenantSlug: slug }]);
    const owners = await service.admin.get('/api/invitations', { 'x-tenant-id': slug });
    expect(owners.body.data.items).toEqual([]);
  });

  test('needs slug and name of the new tenant, and changes nothing when the slug is taken', async () => {
    const tenant = await service.tenant();
    const token = await platformCode();
    const missing = await accept(token);
    expect(missing.status).toBe(400);
    expect(missing.body.error.details.map(({ path }: Json) => path)).toEqual(['tenantSlug', 'tenantName']);
    expect((await accept(token, { ...person(), tenantSlug: tenant.slug, tenantName: 'X' })).status).toBe(409);
    expect((await check(token)).body.data.valid).toBe(true);
  });

  test('is revoked by its creator or by the super-admin', async () => {
    const tenant = await service.tenant();
    const other = await service.tenant();
    const { token } = (await tenant.post('/api/invitations', {})).body.data;
    expect((await other.delete(`/api/invitations/${token}`, inside(other))).status).toBe(404);
    expect((await service.admin.delete(`/api/invitations/${token}`, inside(other))).status).toBe(200);
    expect((await accept(token)).status).toBe(409);
  });
});

describe('states', () => {
  type State = 'pending' | 'accepted' | 'revoked' | 'expired';

  async function inState(tenant: TestTenant, state: State): Promise<string> {
    const token = await invite(tenant);
    if (state === 'accepted') expect((await accept(token)).status).toBe(201);
    if (state === 'revoked') {
      const answer = await tenant.delete(`/api/invitations/${token}`, inside(tenant));
      expect(answer.body.data).toEqual({ id: token, revoked: true });
    }
    if (state === 'expired') await expire(token);
    return token;
  }

  const transitions: [State, number, number][] = [
    ['pending', 201, 200],
    ['accepted', 409, 409],
    ['revoked', 409, 409],
    ['expired', 410, 409],
  ];
  test.each(transitions)('%s: accepting answers %i, revoking %i', async (state, accepting, revoking) => {
    const tenant = await service.tenant();
    const isPending = state === 'pending';
    const first = await inState(tenant, state);
    expect((await check(first)).body.data.valid).toBe(isPending);
    expect((await accept(first)).status).toBe(accepting);
    const second = await inState(tenant, state);
    expect((await tenant.delete(`/api/invitations/${second}`, inside(tenant))).status).toBe(revoking);
    const counts = isPending ? { accepted: 1, revoked: 1 } : { [state]: 2 };
    for (const [status, total] of Object.entries(counts)) {
      const listed = await tenant.get(`/api/invitations?status=${status}`, inside(tenant));
      expect(listed.body.data.total).toBe(total);
    }
  });

  test('an unknown token is 404 for accept and revoke; an id from the list also revokes', async () => {
    const tenant = await service.tenant();
    expect((await accept('svc_inv_unknown')).status).toBe(404);
    expect((await tenant.delete('/api/invitations/svc_inv_unknown', inside(tenant))).status).toBe(404);
    const token = await invite(tenant);
    const { id } = (await tenant.get('/api/invitations', inside(tenant))).body.data.items[0];
    expect((await tenant.delete(`/api/invitations/${id}`, inside(tenant))).status).toBe(200);
    expect((await accept(token)).status).toBe(409);
  });

  test('another tenant can neither see nor revoke an invitation', async () => {
    const tenant = await service.tenant();
    const other = await service.tenant();
    const token = await invite(tenant, { email: 'canary@example.com' });
    expect((await other.get('/api/invitations', inside(other))).text).not.toContain('canary');
    expect((await other.delete(`/api/invitations/${token}`, inside(other))).status).toBe(404);
    expect((await check(token)).body.data.valid).toBe(true);
  });

  test('a suspended tenant’s invitations are not valid', async () => {
    const tenant = await service.tenant();
    const token = await invite(tenant);
    await service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { status: 'suspended' });
    expect((await check(token)).body.data).toEqual(NOT_VALID);
    expect((await accept(token)).status).toBe(403);
  });

  test('a suspended tenant’s platform codes are not valid, and a deleted tenant’s are gone', async () => {
    const tenant = await service.tenant();
    const path = `/api/admin/platform/tenants/${tenant.slug}`;
    const code = (await tenant.post('/api/invitations', { email: 'gone@example.com' })).body.data.token;
    const acceptCode = (token: string, slug: string): Promise<Answer> =>
      accept(token, { ...person('gone@example.com'), tenantSlug: slug, tenantName: 'Made' });
    await service.admin.patch(path, { status: 'suspended' });
    expect((await check(code)).body.data).toEqual(NOT_VALID);
    expect((await acceptCode(code, `${tenant.slug}-made`)).status).toBe(403);
    await service.admin.patch(path, { status: 'active' });
    expect((await check(code)).body.data.valid).toBe(true);

    const used = (await tenant.post('/api/invitations', {})).body.data.token;
    expect((await acceptCode(used, `${tenant.slug}-kept`)).status).toBe(201);
    expect((await service.admin.delete(`${path}?confirm=${tenant.slug}`)).status).toBe(200);
    expect((await check(code)).body.data).toEqual(NOT_VALID);
    expect((await acceptCode(code, `${tenant.slug}-made`)).status).toBe(404);
    const rows = await service.app.db.rows<{ email: string | null; slug: string }>(sql`
      select i.email, t.slug from platform.invitations as i left join platform.tenants as t on t.id = i.tenant_id
      where i.inviting_tenant = ${tenant.id}::uuid`);
    expect(rows).toEqual([{ email: null, slug: `${tenant.slug}-kept` }]);
  });
});

describe('races', () => {
  test('of 50 concurrent accepts one succeeds, and one user is created', async () => {
    const tenant = await service.tenant();
    const token = await invite(tenant);
    const answers = await Promise.all(Array.from({ length: 50 }, () => accept(token)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 49 }, () => 409)]);
    const view = await service.admin.get(`/api/admin/platform/tenants/${tenant.slug}`);
    expect(view.body.data.counts.users).toBe(1);
  });

  test('of 10 concurrent accepts of a platform code one succeeds, and one tenant is created', async () => {
    const token = await platformCode();
    const slug = (i: number): string => `race-${Date.now().toString(36)}-${i}`;
    const bodies = Array.from({ length: 10 }, (_, i) => ({ ...person(), tenantSlug: slug(i), tenantName: 'Race' }));
    const answers = await Promise.all(bodies.map((body) => accept(token, body)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(9);
    const made = await Promise.all(
      bodies.map(({ tenantSlug }) => service.admin.get(`/api/admin/platform/tenants/${tenantSlug}`)),
    );
    expect(made.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test('of a concurrent accept and revocation one succeeds', async () => {
    const tenant = await service.tenant();
    for (let i = 0; i < 5; i++) {
      const token = await invite(tenant);
      const [accepted, revoked] = await Promise.all([
        accept(token),
        tenant.delete(`/api/invitations/${token}`, inside(tenant)),
      ]);
      expect([accepted.status, revoked.status]).toBeOneOf([
        [201, 409],
        [409, 200],
      ]);
    }
  });
});

describe('who may invite', () => {
  test('only tenant admins invite, list and revoke', async () => {
    const tenant = await service.tenant();
    const token = await invite(tenant);
    const viewer = bearer(service, await userToken(service, tenant, 'viewer'));
    const admin = bearer(service, await userToken(service, tenant, 'admin'));
    const cases: [typeof viewer, number, number][] = [
      [viewer, 403, 403],
      [service.anonymous, 401, 401],
      [
        service.anonymous.with({ 'x-admin-key': await adminKey(service, ['platform:write', 'tenants:manage']) }),
        403,
        403,
      ],
      [admin, 201, 200],
    ];
    for (const [client, made, listed] of cases) {
      expect((await client.post('/api/invitations', {}, inside(tenant))).status).toBe(made);
      expect((await client.post('/api/invitations', {})).status).toBe(made);
      const list = await client.get('/api/invitations', inside(tenant));
      expect(list.status).toBe(listed);
      expect((await client.delete(`/api/invitations/${token}`, inside(tenant))).status).not.toBe(
        made === 201 ? 403 : 200,
      );
    }
  });

  test('the super-admin lists all invitations, filtered by status and tenant, 50 per page', async () => {
    const tenant = await service.tenant();
    await invite(tenant);
    await accept(await invite(tenant));
    expect((await tenant.get('/api/admin/platform/invitations')).status).toBe(403);
    expect((await service.anonymous.get('/api/admin/platform/invitations')).status).toBe(401);
    const all = await service.admin.get('/api/admin/platform/invitations');
    expect(all.body.data.limit).toBe(50);
    for (const tenantId of [tenant.id, tenant.slug]) {
      const own = await service.admin.get(`/api/admin/platform/invitations?tenantId=${tenantId}&limit=1`);
      expect(own.body.data).toMatchObject({ total: 2, limit: 1, totalPages: 2 });
      const open = await service.admin.get(`/api/admin/platform/invitations?tenantId=${tenantId}&status=pending`);
      expect(open.body.data.total).toBe(1);
    }
    expect((await service.admin.get('/api/admin/platform/invitations?status=lost')).status).toBe(400);
  });
});

test('the link is mailed to the address, and no log, list or row contains a token', async () => {
  const tenant = await service.tenant();
  const token = await invite(tenant, { email: 'mailed@example.com' });
  await check(token);
  await service.anonymous.get(`/auth/invite/${token}x`);
  await tenant.delete(`/api/invitations/${token}`, inside(tenant));
  await service.anonymous
    .with({ 'x-admin-key': await adminKey(service, ['platform:read']) })
    .delete(`/api/invitations/${token}`);
  await mailsTo(service, 'mailed@example.com');
  const directory = join(service.app.config.dataDir, 'mail');
  const mails = await Promise.all((await readdir(directory)).map((name) => readFile(join(directory, name), 'utf8')));
  const mine = mails.filter((mail) => mail.replaceAll('=\r\n', '').includes(token));
  expect(mine).toHaveLength(1);
  expect(mine[0]).toContain('mailed@example.com');
  await until(
    () => service.logged.some((line) => line.includes('/auth/invite/[token]')),
    60_000,
    () => 'not logged',
  );
  expect(service.logged.join('\n')).not.toContain(token);
  for (const table of [sql`platform.invitations`, sql`platform.admin_key_audit`]) {
    const rows = await service.app.db.rows(sql`select to_jsonb(i) as row from ${table} as i`);
    expect(JSON.stringify(rows)).not.toContain(token);
  }
});
