// Tenants on the platform API: creation, settings, custom domains, admin sessions.
// Contract: decisions#tenants.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { startService, type TestService } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

describe('tenants', () => {
  test('a new tenant is usable with the key that is shown once', async () => {
    const tenant = await service.tenant();
    const me = await tenant.get('/api/auth/whoami');
    expect(me.status).toBe(200);
    expect(me.body.data).toMatchObject({ kind: 'owner_key', tenant: { slug: tenant.slug } });
    const keys = await tenant.get('/api/keys');
    expect(keys.text).not.toContain(tenant.key);
    expect(keys.body.data).toHaveLength(1);
  });

  test('its settings are returned with their defaults', async () => {
    const tenant = await service.tenant({ settings: { passwordReset: true } });
    const settings = { selfRegistration: false, passwordReset: true, customDomain: null, allowedOrigins: [] };
    expect((await tenant.get('/api/tenant')).body.data.settings).toEqual(settings);
    expect((await service.admin.get(`/api/admin/platform/tenants/${tenant.slug}`)).body.data.settings).toEqual(
      settings,
    );
  });

  test('unknown members are rejected by name, and nothing is changed', async () => {
    const tenant = await service.tenant();
    const platform = `/api/admin/platform/tenants/${tenant.slug}`;
    for (const answer of [
      await tenant.patch('/api/tenant', { name: 'Other', slug: 'other', setting: {} }),
      await service.admin.patch(platform, { name: 'Other', slug: 'other', setting: {} }),
    ]) {
      expect(answer.status).toBe(400);
      expect(answer.body.error.details.map(({ path }: { path: string }) => path)).toEqual(['slug', 'setting']);
    }
    expect((await tenant.get('/api/tenant')).body.data.name).not.toBe('Other');
    const made = await service.admin.post('/api/admin/platform/tenants', { slug: 'abc', name: 'A', owners: {} });
    expect(made.body.error.details).toMatchObject([{ path: 'owners' }]);
  });

  test('search finds tenants by a part of their slug or name, in any case, on every page', async () => {
    const tenant = await service.tenant({ name: `Nordlicht & Söhne ${crypto.randomUUID()}` });
    const { name } = (await tenant.get('/api/tenant')).body.data;
    for (const search of [tenant.slug.slice(1), tenant.slug.toUpperCase(), name.toUpperCase().slice(3)]) {
      const query = new URLSearchParams({ search, limit: '1' });
      const { items, total } = (await service.admin.get(`/api/admin/platform/tenants?${query}`)).body.data;
      expect([total, items.map(({ slug }: { slug: string }) => slug)]).toEqual([1, [tenant.slug]]);
    }
    const none = await service.admin.get('/api/admin/platform/tenants?search=%25_%25');
    expect(none.body.data).toMatchObject({ total: 0, items: [] });
  });

  test('all list parameters out of range are reported together', async () => {
    const answer = await service.admin.get('/api/admin/platform/tenants?page=0&limit=101');
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: { path: string }) => path).sort()).toEqual(['limit', 'page']);
  });

  test('a slug is 3 to 48 lower-case letters, digits and hyphens, begins with a letter and is unique', async () => {
    const create = (slug: unknown) => service.admin.post('/api/admin/platform/tenants', { slug, name: 'T' });
    for (const slug of ['ab', 'Abc', '1abc', 'abc-', '-abc', 'a_b', 'äbc', 'a'.repeat(49), 7, undefined]) {
      const rejected = await create(slug);
      expect([slug, rejected.status]).toEqual([slug, 400]);
      expect(rejected.body.error.details).toMatchObject([{ path: 'slug' }]);
    }
    const { slug } = await service.tenant();
    expect((await create(slug)).status).toBe(409);
  });

  test('an operator reads status and counts, and must repeat the slug to drop a tenant', async () => {
    const tenant = await service.tenant();
    await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
    await tenant.post('/api/entities/task/records', { title: 'one' });
    const path = `/api/admin/platform/tenants/${tenant.slug}`;
    const expected = { slug: tenant.slug, status: 'active', counts: { entities: 1, records: 1, users: 0 } };
    expect((await service.admin.get(path)).body.data).toMatchObject(expected);
    const list = (await service.admin.get('/api/admin/platform/tenants')).body.data;
    expect(list).toMatchObject({ page: 1, limit: 20 });
    expect(list.items).toContainEqual((await service.admin.get(path)).body.data);
    for (const query of ['', '?confirm=other']) expect((await service.admin.delete(path + query)).status).toBe(400);
    expect((await tenant.get('/api/entities/task')).status).toBe(200);
    const dropped = await service.admin.delete(`${path}?confirm=${tenant.slug}`);
    expect([dropped.status, dropped.body.data]).toEqual([200, { id: tenant.id, deleted: true }]);
    expect((await service.admin.get(path)).status).toBe(404);
    expect((await tenant.get('/api/entities/task')).status).toBe(401);
  });

  test('the deliveries and events of a dropped tenant are deleted with it, however many, and those of others stay', async () => {
    const [dropped, other] = [await service.tenant(), await service.tenant()];
    for (const tenant of [dropped, other]) {
      await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
      const hook = { entity_name: 'task', event_types: ['record.updated'] };
      for (const n of [1, 2])
        await tenant.post('/api/webhooks/subscriptions', { ...hook, url: `https://203.0.114.7/${n}` });
      await tenant.post('/api/entities/task/records', { title: 'one' });
      // More than two statements delete.
      await service.app.db.rows(sql`
        insert into platform.webhook_deliveries (subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, status)
        select s.id, s.tenant_id, platform.uuidv7(), n, now(), platform.uuidv7(), 'record.updated', 'delivered'
        from platform.webhook_subscriptions as s, generate_series(1, 2100) as n where s.tenant_id = ${tenant.id}::uuid`);
      await service.app.db.rows(sql`
        insert into platform.events (id, tenant_id, type, payload, triggered_by, depth)
        select platform.uuidv7(), ${tenant.id}::uuid, 'tenant.updated', '{}', 'system', 0 from generate_series(1, 2100)`);
    }
    const left = async ({ id }: { id: string }) =>
      service.app.db.first<{ deliveries: number; events: number }>(sql`
        select (select count(*)::int from platform.webhook_deliveries where tenant_id = ${id}::uuid) as deliveries,
          (select count(*)::int from platform.events where tenant_id = ${id}::uuid) as events`);
    const before = await left(other);
    expect(before?.deliveries).toBe(4_200);
    const path = `/api/admin/platform/tenants/${dropped.slug}?confirm=${dropped.slug}`;
    expect((await service.admin.delete(path)).status).toBe(200);
    expect(await left(dropped)).toEqual({ deliveries: 0, events: 0 });
    expect(await left(other)).toEqual(before);
  });
});

describe('custom domains', () => {
  test('a domain belongs to one tenant, ignoring case, and the service’s own hosts to none', async () => {
    // An earlier run may have left the domain in this database.
    const zone = `z${Date.now().toString(36)}.test`;
    const hosts = {
      BASE_URL: `https://Api.Service.${zone}:8443`,
      APP_URL: `https://app.service.${zone}/`,
      HOST: '127.0.0.1',
    };
    const named = await startService(hosts);
    try {
      const [one, other] = [await named.tenant(), await named.tenant()];
      const claim = async (customDomain: string) =>
        (await one.patch('/api/tenant', { settings: { customDomain } })).status;
      expect(await claim(`API.service.${zone}`)).toBe(400);
      expect(await claim(`app.service.${zone}`)).toBe(400);
      const made = { slug: 'takes-it', name: 'x', settings: { customDomain: `api.service.${zone}` } };
      expect((await named.admin.post('/api/admin/platform/tenants', made)).status).toBe(400);
      expect(await claim(`data.one.${zone}`)).toBe(200);
      await named.admin.patch(`/api/admin/platform/tenants/${one.slug}`, { settings: { customDomainVerified: true } });
      const taken = await other.patch('/api/tenant', { settings: { customDomain: `Data.One.${zone}` } });
      expect(taken.status).toBe(409);
      expect((await other.get('/api/auth/whoami', { host: `data.one.${zone}` })).status).toBe(403);

      // A domain stored before the service got this host name does not capture other tenants' requests.
      await named.app.db.rows(sql`
        update platform.tenants set settings = settings || ${JSON.stringify({ customDomain: `api.service.${zone}` })}::text::jsonb
        where id = ${one.id}::uuid`);
      await named.app.invalidations.publish('tenant', one.id);
      expect((await other.get('/api/auth/whoami', { host: `api.service.${zone}:8443` })).status).toBe(200);
    } finally {
      await named.stop();
    }
  });
});

describe('admin sessions', () => {
  test('a session is a UUID that acts as the tenant’s admin for 12 hours, until it is ended', async () => {
    const tenant = await service.tenant();
    const from = Date.now();
    const opened = await service.admin.post('/api/admin/sessions', { tenantSlug: tenant.slug });
    expect(opened.status).toBe(201);
    const { token, tenantSlug, expiresAt } = opened.body.data;
    expect([tenantSlug, token]).toEqual([tenant.slug, expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    expect(Date.parse(expiresAt) - 12 * 3_600_000).toBeWithin(from, Date.now() + 1);
    const session = service.anonymous.with({ authorization: `Bearer ${token}` });
    expect((await session.get('/api/users')).status).toBe(200);
    expect((await session.get('/api/auth/whoami')).body.data).toMatchObject({ tenant: { slug: tenant.slug } });
    expect((await session.delete('/api/admin/sessions/current')).status).toBe(200);
    expect((await session.get('/api/users')).status).toBe(401);
  });

  test('only the super-admin opens one, and only in an existing tenant', async () => {
    const tenant = await service.tenant();
    expect((await service.admin.post('/api/admin/sessions', { tenantSlug: 'no-such-tenant' })).status).toBe(404);
    expect((await tenant.post('/api/admin/sessions', { tenantSlug: tenant.slug })).status).toBe(403);
    expect((await service.anonymous.post('/api/admin/sessions', { tenantSlug: tenant.slug })).status).toBe(401);
  });
});
