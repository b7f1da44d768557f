import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import { compile } from '../src/runtime/sql.ts';
import { tenantByHost, tenantBySlug } from '../src/tenants/tenants.ts';
import { ADMIN_SECRET, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let mine: TestTenant;
let other: TestTenant;
const path = '/api/entities/notes/records';
beforeAll(async () => {
  service = await startService();
  [mine, other] = [await service.tenant(), await service.tenant()];
  for (const tenant of [mine, other]) {
    await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'text', type: 'text' }] });
    await tenant.post(path, { text: `canary of ${tenant.slug}` });
  }
});
afterAll(async () => service.stop());

test('a name that is too long for a tenant is neither looked up nor kept', async () => {
  const { app } = service;
  const lookedUp = spyOn(app.db, 'first');
  const long = 'a'.repeat(254);
  // The service itself reads tenants too.
  const lookups = () =>
    lookedUp.mock.calls.filter(([query]) => compile(query).parameters.some((value) => String(value).startsWith('aaa')));
  expect([await tenantBySlug(app, long.slice(0, 49)), await tenantByHost(app, long)]).toEqual([null, null]);
  expect(lookups()).toEqual([]);
  expect([await tenantBySlug(app, long.slice(0, 48)), await tenantByHost(app, long.slice(0, 253))]).toEqual([
    null,
    null,
  ]);
  expect(lookups()).toHaveLength(2);
  lookedUp.mockRestore();
});

describe('tenant context', () => {
  test('a tenant-bound credential needs no header, but may name its own tenant', async () => {
    for (const headers of [
      {},
      { 'x-tenant-id': mine.slug },
      { 'x-tenant-slug': mine.slug },
      { 'x-tenant-id': mine.slug, 'x-tenant-slug': 'another' },
    ]) {
      const answer = await mine.get(path, headers as Record<string, string>);
      expect([headers, answer.status]).toEqual([headers, 200]);
      expect(answer.text).toContain(mine.slug);
    }
    const bearer = service.anonymous.with({ authorization: `Bearer ${mine.key}` });
    expect((await bearer.get(path)).status).toBe(200);
  });

  test('a bound credential with the header of another tenant gets 403, the same whether that tenant exists or not', async () => {
    const { id } = (await other.get(path)).body.data.items[0];
    for (const name of ['x-tenant-id', 'x-tenant-slug']) {
      for (const [method, at, body] of [
        ['GET', path],
        ['GET', `${path}/${id}`],
        ['POST', path, { text: 'x' }],
        ['PATCH', `${path}/${id}`, { text: 'x' }],
        ['DELETE', `${path}/${id}`],
      ] as const) {
        const requestId = { 'x-request-id': 'same' };
        const existing = await mine.request(method, at, body, { [name]: other.slug, ...requestId });
        const missing = await mine.request(method, at, body, { [name]: 'no-such-tenant', ...requestId });
        expect([method, existing.status, existing.text]).toEqual([method, 403, missing.text]);
        expect(existing.text).not.toContain('canary');
      }
    }
    for (const slug of [
      '',
      ' ',
      mine.slug.toUpperCase(),
      `${mine.slug}/../${other.slug}`,
      `${mine.slug}%00`,
      mine.id,
      '*',
      'null',
    ]) {
      expect([slug, (await mine.get(path, { 'x-tenant-id': slug })).status]).toEqual([slug, 403]);
    }
    expect((await mine.get(path, { 'x-tenant-id': `${mine.slug},${other.slug}` })).status).toBe(400);
    expect((await mine.get(path, { 'x-tenant-id': other.slug, 'x-tenant-slug': mine.slug })).status).toBe(403);
  });

  test('a record of another tenant is 404 for every method', async () => {
    const { id } = (await other.get(path)).body.data.items[0];
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const answer = await mine.request(method, `${path}/${id}`, method[0] === 'P' ? { text: 'x' } : undefined);
      expect([method, answer.status]).toEqual([method, 404]);
    }
    expect((await other.get(`${path}/${id}`)).body.data.text).toContain(other.slug);
  });

  test('the super-admin names the tenant by header: 404 for an unknown one, 400 for none, 401 with a wrong secret', async () => {
    expect((await service.admin.get(path, { 'x-tenant-id': mine.slug })).text).toContain(mine.slug);
    expect((await service.admin.get(path, { 'x-tenant-slug': other.slug })).text).toContain(other.slug);
    expect((await service.admin.get(path, { 'x-tenant-id': mine.slug, 'x-tenant-slug': other.slug })).text).toContain(
      mine.slug,
    );
    expect((await service.admin.get(path, { 'x-tenant-id': 'no-such-tenant' })).status).toBe(404);
    expect((await service.admin.get(path)).status).toBe(400);
    for (const secret of ['', 'x', `${ADMIN_SECRET}x`, ADMIN_SECRET.slice(1)]) {
      expect([
        secret,
        (await service.anonymous.get(path, { 'x-admin-secret': secret, 'x-tenant-id': mine.slug })).status,
      ]).toEqual([secret, 401]);
    }
  });

  test('no credential, a malformed one, a wrong one and two in one request get 401, before the body is checked', async () => {
    const key = mine.key;
    const cases: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: key },
      { authorization: `Basic ${key}` },
      { authorization: `Bearer ${key}x` },
      { authorization: 'Bearer' },
      { authorization: `Bearer ${key} ${key}` },
      { authorization: `AdminKey ${key}` },
      { authorization: `Bearer svc_adm_${'0'.repeat(48)}` },
      { 'x-api-key': '' },
      { 'x-api-key': key.replace('svc_ak_', 'svc_pk_') },
      { 'x-api-key': `${key.slice(0, -1)}` },
      { 'x-public-key': key },
      { 'x-anon-key': key },
      { 'x-admin-key': key },
      { 'x-admin-secret': key },
      { 'x-api-key': key, authorization: `Bearer ${key}` },
      { 'x-api-key': key, 'x-public-key': 'svc_pk_x' },
      { 'x-api-key': key, 'x-admin-secret': ADMIN_SECRET },
      { authorization: `Bearer ${key}`, 'x-anon-key': 'svc_pk_x' },
    ];
    for (const headers of cases) {
      for (const [method, body] of [['GET'], ['POST', '{not json']] as const) {
        const answer = await service.anonymous.request(method, path, body, headers);
        expect([headers, method, answer.status, answer.body.error.code]).toEqual([
          headers,
          method,
          401,
          'UNAUTHORIZED',
        ]);
      }
    }
  });

  test('a suspended tenant’s requests get 403 until it is active again', async () => {
    const tenant = await service.tenant();
    await tenant.post('/api/entities', { name: 'notes', fields: [] });
    const at = `/api/admin/platform/tenants/${tenant.slug}`;
    expect((await service.admin.patch(at, { status: 'suspended' })).status).toBe(200);
    for (const [method, to, body] of [
      ['GET', path],
      ['POST', path, {}],
      ['GET', '/api/entities'],
      ['GET', '/api/auth/whoami'],
      ['GET', '/api/tenant'],
    ] as const) {
      const answer = await tenant.request(method, to, body);
      expect([method, to, answer.status, answer.body.error?.code]).toEqual([method, to, 403, 'FORBIDDEN']);
    }
    expect((await service.admin.patch(at, { status: 'active' })).status).toBe(200);
    expect((await tenant.get(path)).status).toBe(200);
  });
});
