// A tenant that changes itself, even in a loop, costs no other tenant anything: processes do not read the cached data of the
// others again, and the others wait for no lock.
// Contract: neighbours#fair-shares.
import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import process from 'node:process';
import { isListedAnywhere } from '../src/access/listed-origins.ts';
import type { Sql } from '../src/runtime/sql.ts';
import { lockTenantNames } from '../src/tenants/custom-domains.ts';
import { tenantByHost, tenantById, tenantBySlug } from '../src/tenants/tenants.ts';
import { createPublicKey } from './support/people.ts';
import { type Client, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let busy: TestTenant;
let other: TestTenant;
beforeAll(async () => {
  service = await startService();
  [busy, other] = [await service.tenant(), await service.tenant()];
});
afterAll(() => service.stop());

const newName = (): string => `n${crypto.randomUUID()}.example.com`;
const change = (tenant: Client, settings: object) => tenant.patch('/api/tenant', { settings });
const operate = (tenant: TestTenant, body: object) =>
  service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, body);

/** The statements that read tenants; those of workers read other tables. */
const readsOfTenants = (calls: readonly (readonly [Sql, ...unknown[]])[]): string[] =>
  calls
    .map(([{ strings, values }]) => JSON.stringify([strings, values]))
    .filter((text) => text.includes('platform.tenants'));

// What a process keeps is seen in the service's own process only.
if (process.env.SERVICE_RUNTIME !== 'deno') {
  test('a change of a tenant keeps the cached data of others, and takes effect at once', async () => {
    const { app } = service;
    const domain = newName();
    await operate(other, { settings: { customDomain: domain, customDomainVerified: true } });
    const known = await tenantBySlug(app, other.slug);
    await tenantByHost(app, domain);
    await tenantBySlug(app, 'no-such-tenant');
    const read = spyOn(app.db, 'first');
    for (const name of ['one', 'two']) {
      await busy.patch('/api/tenant', { name });
      expect((await tenantBySlug(app, busy.slug))?.name).toBe(name);
      await change(busy, { allowedOrigins: [`https://${newName()}`], customDomain: newName() });
      read.mockClear();
      for (const again of [tenantBySlug(app, other.slug), tenantById(app, other.id), tenantByHost(app, domain)]) {
        expect(await again).toBe(known);
      }
      expect(await tenantBySlug(app, 'no-such-tenant')).toBeNull();
      expect(readsOfTenants(read.mock.calls)).toEqual([]);
    }
    read.mockRestore();
  });

  test('a change of a tenant’s origins keeps the cached origins that others list, and those that nobody lists', async () => {
    const { app } = service;
    const [listed, ofKey, unlisted] = [`https://${newName()}`, `https://${newName()}`, `https://${newName()}`];
    await change(other, { allowedOrigins: [listed] });
    await createPublicKey(other, { allowedOrigins: [ofKey] });
    const all = () => Promise.all([listed, ofKey, unlisted].map((origin) => isListedAnywhere(app, origin)));
    expect(await all()).toEqual([true, true, false]);
    const read = spyOn(app.db, 'first');
    for (const origins of [[listed, `https://${newName()}`], []]) {
      await change(busy, { allowedOrigins: origins });
      await createPublicKey(busy, { allowedOrigins: origins });
      read.mockClear();
      expect(await all()).toEqual([true, true, false]);
      expect(readsOfTenants(read.mock.calls)).toEqual([]);
    }
    read.mockRestore();
  });
}

test('an origin is listed as long as any tenant or key lists it, whichever did first', async () => {
  const origin = `https://${newName()}`;
  const allowed = async (): Promise<boolean> => {
    const asked = { origin, 'access-control-request-method': 'GET' };
    const { headers } = await service.anonymous.request('OPTIONS', '/api/entities', undefined, asked);
    return headers.get('access-control-allow-origin') === origin;
  };
  expect(await allowed()).toBe(false);
  await change(busy, { allowedOrigins: [origin] });
  expect(await allowed()).toBe(true);
  await change(other, { allowedOrigins: [origin] });
  await change(busy, { allowedOrigins: [] });
  expect(await allowed()).toBe(true);
  await operate(other, { status: 'suspended' });
  expect(await allowed()).toBe(false);
  await operate(other, { status: 'active' });
  expect(await allowed()).toBe(true);
  const { id } = await createPublicKey(busy, { allowedOrigins: [origin] });
  await change(other, { allowedOrigins: [] });
  expect(await allowed()).toBe(true);
  await busy.delete(`/api/auth/public-keys/${id}`);
  expect(await allowed()).toBe(false);
});

test('a tenant that loses the claim of a domain to another sees it at once, and a deleted tenant’s names are free', async () => {
  const [loser, gone, domain] = [await service.tenant(), await service.tenant(), newName()];
  await change(loser, { customDomain: domain });
  expect((await loser.get('/api/tenant')).body.data.customDomainStatus).toBe('pending');
  await operate(gone, { settings: { customDomain: domain, customDomainVerified: true } });
  expect((await loser.get('/api/tenant')).body.data.settings.customDomain).toBeNull();
  const named = { host: domain };
  expect((await loser.get('/api/auth/whoami', named)).status).toBe(403);
  await service.admin.delete(`/api/admin/platform/tenants/${gone.slug}?confirm=${gone.slug}`);
  expect((await loser.get('/api/auth/whoami', named)).status).toBe(200);
  expect((await service.admin.post('/api/admin/platform/tenants', { slug: gone.slug, name: 'again' })).status).toBe(
    201,
  );
  expect((await service.admin.get('/api/entities', { 'x-tenant-id': gone.slug })).status).toBe(200);
});

// The embedded database has one connection.
if (process.env.DATABASE_URL) {
  test('a change that concerns no domain does not wait for changes of names in other tenants', async () => {
    await service.app.db.begin(async (tx) => {
      await lockTenantNames(tx);
      expect((await busy.patch('/api/tenant', { name: 'at once' })).status).toBe(200);
      expect((await change(busy, { allowedOrigins: [] })).status).toBe(200);
    });
  });
}
