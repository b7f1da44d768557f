// Imports and exports that take long obey their caller's current rights: each batch checks them again.
// Contract: decisions#changes-of-rights, decisions#import, decisions#export, portability#export, portability#import.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { addRole, adminKey, changeRole, userToken } from './support/credentials.ts';
import { createEntity, fields } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const PATH = '/api/entities/note/records';
const ROLE = { permissions: { note: ['read' as const, 'create' as const] } };
let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await createEntity(tenant, 'note', fields('title text', 'secret text'));
});
afterAll(async () => service.stop());

/** Uploads 1,200 lines, runs `change` once some are stored, then uploads 1,200 more. */
async function importWhile(headers: Record<string, string>, change: () => Promise<unknown>, values: Json = {}) {
  const totalOf = async (): Promise<number> => (await tenant.get(PATH)).body.data.total;
  const before = await totalOf();
  const lines = `${JSON.stringify({ title: 'a', ...values })}\n`.repeat(1_200);
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(new TextEncoder().encode(lines));
      while ((await totalOf()) < before + 1_000) await delay(5);
      await change();
      controller.enqueue(new TextEncoder().encode(lines));
      controller.close();
    },
  });
  const type = { 'content-type': 'application/x-ndjson' };
  const answer = await fetch(`${service.url}${PATH}/import`, {
    method: 'POST',
    headers: { ...headers, ...type },
    body,
  });
  return { status: answer.status, body: (await answer.json()) as Json, created: (await totalOf()) - before };
}

test('an import stops at the batch before its owner key is revoked', async () => {
  const { id, key } = (await tenant.post('/api/keys', { label: 'import' })).body.data;
  const revoke = () => tenant.delete(`/api/keys/${id}`);
  const { status, body, created } = await importWhile({ 'x-api-key': key }, revoke);
  expect([status, created]).toEqual([401, 1_000]);
  expect(body.error.message).toContain('1000 records were imported before and are kept');
});

test('an import stops when its role may no longer create, and respects fields that the role hides from then on', async () => {
  const role = await addRole(service, tenant, ROLE);
  const headers = { authorization: `Bearer ${await userToken(service, tenant, role.name)}` };
  const hide = () => changeRole(service, tenant, role.name, { ...ROLE, entities: { note: { fields: ['title'] } } });
  const hidden = await importWhile(headers, hide, { secret: 'b' });
  expect([hidden.status, hidden.created, hidden.body.data.created]).toEqual([200, 1_000, 1_000]);
  expect(hidden.body.data.errors[0]).toEqual({ line: 1_001, message: 'secret: is not a field of this entity' });
  const forbid = () => changeRole(service, tenant, role.name, { permissions: { note: ['read'] } });
  const refused = await importWhile(headers, forbid);
  expect([refused.status, refused.created]).toEqual([403, 1_000]);
  expect(refused.body.error.message).toContain('no create permission on note; 1000 records were imported');
});

test('an export breaks off when the rights of its caller change', async () => {
  await createEntity(tenant, 'large', fields('title text', 'secret text'));
  const ndjson = { 'content-type': 'application/x-ndjson' };
  const lines = `${JSON.stringify({ title: 'x'.repeat(20_000), secret: 'canary' })}\n`.repeat(4_000);
  const stored = await tenant.request('POST', '/api/entities/large/records/import', lines, ndjson);
  expect(stored.body.data.created).toBe(4_000);
  const role = await addRole(service, tenant, { permissions: { large: ['read'] } });
  const headers = { authorization: `Bearer ${await userToken(service, tenant, role.name)}` };
  const answer = await fetch(`${service.url}/api/entities/large/records/export`, { headers });
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  const entities = { large: { excludeFields: ['secret'] } };
  await changeRole(service, tenant, role.name, { permissions: { large: ['read'] }, entities });
  const whole = async (): Promise<void> => {
    while (!(await reader.read()).done);
  };
  await expect(whole()).rejects.toThrow();
}, 60_000);

test('an admin key that is revoked meanwhile breaks off its export of a tenant, and its import of one is a 401 that leaves nothing', async () => {
  const operator = service.admin.with({ 'x-admin-key': await adminKey(service, ['platform:write']) });
  const issued = await operator.post('/api/admin/platform/keys', { name: 'copies', scopes: ['tenants:manage'] });
  const { id, key } = issued.body.data;
  const headers = { 'x-admin-key': key };
  const tenants = `${service.url}/api/admin/platform/tenants`;
  const document = await (await fetch(`${tenants}/${tenant.slug}/export`, { headers })).text();
  const reader = ((await fetch(`${tenants}/${tenant.slug}/export`, { headers })).body as ReadableStream).getReader();
  await reader.read();
  const revoked = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(new TextEncoder().encode(document.slice(0, -200)));
      await revoked.promise;
      controller.enqueue(new TextEncoder().encode(document.slice(-200)));
      controller.close();
    },
  });
  const slug = `${tenant.slug}-copy`;
  const type = { 'content-type': 'application/x-ndjson' };
  const imported = fetch(`${tenants}/import?slug=${slug}`, { method: 'POST', headers: { ...headers, ...type }, body });
  await delay(200);
  expect((await operator.delete(`/api/admin/platform/keys/${id}`)).status).toBe(200);
  revoked.resolve();
  expect((await imported).status).toBe(401);
  expect((await service.admin.get(`/api/admin/platform/tenants/${slug}`)).status).toBe(404);
  const whole = async (): Promise<void> => {
    while (!(await reader.read()).done);
  };
  await expect(whole()).rejects.toThrow();
}, 60_000);
