// What a request states about itself: changes made in the console are marked `ui`, and a tenant admin may read as a role.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from '../src/runtime/sql.ts';
import { addRole, bearer, platformKey, publicKey, userToken } from './support/credentials.ts';
import {
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
let role: string;
let user: Client;
beforeAll(async () => {
  service = await startService({ LOG_LEVEL: 'debug' });
  tenant = await service.tenant();
  for (const name of ['deals', 'secrets']) {
    await tenant.post('/api/entities', {
      name,
      fields: [
        { key: 'title', type: 'text' },
        { key: 'owner', type: 'text' },
        { key: 'margin', type: 'integer' },
        { key: 'secret', type: 'relation', entity: name },
      ],
    });
  }
  const [first] = await Promise.all(
    ['a', 'b', 'c', 'd'].map((title, margin) =>
      tenant.post('/api/entities/deals/records', { title, margin, owner: ['me', 'user', 'me', 'you'][margin] }),
    ),
  );
  await tenant.post('/api/entities/secrets/records', { title: 'hidden' });
  await tenant.post('/api/views', {
    entitySlug: 'deals',
    slug: 'shown',
    name: 'Shown',
    filterDsl: { validate: [{ condition: 'title != "a"' }] },
  });
  expect(first?.status).toBe(201);
  const input = {
    permissions: { deals: ['read', 'update'] as const, 'view:shown': ['read'] as const },
    entities: { deals: { excludeFields: ['margin'], rowFilter: 'owner = "me"' } },
  };
  role = (await addRole(service, tenant, input as unknown as Parameters<typeof addRole>[2])).name;
  user = bearer(service, await userToken(service, tenant, role));
});
afterAll(async () => service.stop());

const as = (name: string, client: Client = tenant) => client.with({ 'x-svc-as-role': name });

describe('X-Svc-Client: console', () => {
  const triggeredBy = async (client: Client): Promise<string> => {
    const made = await client.post('/api/entities/deals/records', { title: 'marked', owner: 'nobody' });
    expect(made.status).toBe(201);
    const { id } = made.body.data;
    const event = await service.app.db.first<Json>(sql`
      select triggered_by from platform.events where record_id = ${id}::uuid`);
    await tenant.delete(`/api/entities/deals/records/${id}`);
    return event.triggered_by;
  };
  const marked = { 'x-svc-client': 'console' };

  test('with a user token, an admin session or an owner key, a change is triggered by ui', async () => {
    const session = await service.admin.post('/api/admin/sessions', { tenantSlug: tenant.slug });
    const admin = bearer(service, await userToken(service, tenant, 'admin'));
    for (const client of [tenant, admin, bearer(service, session.body.data.token)]) {
      expect(await triggeredBy(client.with(marked))).toBe('ui');
      expect(await triggeredBy(client)).toBe('api');
      expect(await triggeredBy(client.with({ 'x-svc-client': 'Console' }))).toBe('api');
    }
  });

  test('with any other credential it changes nothing', async () => {
    const developer = bearer(service, await userToken(service, tenant, 'admin', 'developer'));
    const key = bearer(service, await platformKey(service, tenant, 'writer', { deals: ['create'] }));
    const operator = service.admin.with({ 'x-tenant-id': tenant.slug });
    for (const client of [developer, key, operator]) expect(await triggeredBy(client.with(marked))).toBe('api');
  });
});

describe('X-Svc-As-Role', () => {
  test('every read is answered as a user of the role would be answered', async () => {
    const { items } = (await tenant.get('/api/entities/deals/records?sort=title')).body.data;
    const paths = [
      '/api/entities',
      '/api/entities/deals',
      '/api/entities/secrets',
      '/api/entities/deals/fields',
      '/api/entities/deals/records',
      '/api/entities/deals/records?filters=margin%20%3E%201',
      '/api/entities/deals/records?filters=owner%20%3D%20"you"&resolve=true',
      '/api/entities/deals/records?search=c&sort=-title',
      `/api/entities/deals/records/${items[0].id}`,
      `/api/entities/deals/records/${items[1].id}`,
      '/api/entities/deals/records/aggregate?metrics=count&groupBy=owner',
      '/api/entities/deals/records/aggregate?metrics=sum:margin',
      '/api/entities/deals/records/export?format=csv',
      '/api/entities/secrets/records',
      '/api/entities/nothing/records',
      '/api/views',
      '/api/views/shown/records',
      '/api/roles',
      '/api/keys',
      '/api/tenant',
      '/api/rules',
      '/agent-messages',
      '/api/entities/deals/records?unknown=1',
    ];
    for (const path of paths) {
      const [asAdmin, asUser] = [await as(role).get(path), await user.get(path)];
      expect([path, asAdmin.status, withoutRequestId(asAdmin.body)]).toEqual([
        path,
        asUser.status,
        withoutRequestId(asUser.body),
      ]);
    }
    const { data } = (await as(role).get('/api/auth/whoami')).body;
    expect(data).toEqual({ ...(await user.get('/api/auth/whoami')).body.data, id: null, email: null });
  });

  test('an admin role reads everything, and one without permissions nothing', async () => {
    const { name } = await addRole(service, tenant, { permissions: {} });
    expect((await as('admin').get('/api/roles')).status).toBe(200);
    expect((await as(name).get('/api/entities/deals/records')).status).toBe(403);
    expect((await as('viewer').get('/api/entities/deals/records')).body.data.total).toBe(4);
  });

  test('$currentUser has no value', async () => {
    const rowFilter =
      'owner = $currentUser.id OR owner = $currentUser.role OR owner = $currentUser.kind OR owner = $currentUser.email OR title = "b"';
    const { name } = await addRole(service, tenant, {
      permissions: { deals: ['read'] },
      entities: { deals: { rowFilter } },
    });
    const { items } = (await as(name).get('/api/entities/deals/records')).body.data;
    expect(items.map(({ title }: Json) => title)).toEqual(['b']);
  });

  test('ETags of records read as a role never equal those of records that the admin reads', async () => {
    const [{ id }] = (await as(role).get('/api/entities/deals/records')).body.data.items;
    const path = `/api/entities/deals/records/${id}`;
    const [own, other] = [await tenant.get(path), await as(role).get(path)];
    const [ownTag, otherTag] = [own, other].map(({ headers }) => headers.get('etag') ?? '');
    expect(otherTag).not.toBe(ownTag);
    const none = (tag = '') => ({ 'if-none-match': tag });
    expect((await as(role).get(path, none(ownTag))).status).toBe(200);
    expect((await as(role).get(path, none(otherTag))).status).toBe(304);
    expect((await tenant.get(path, none(otherTag))).status).toBe(200);
    expect((await as('viewer').get(path, none(otherTag))).status).toBe(200);
    const { etags, items } = (await as(role).get('/api/entities/deals/records?with=etags')).body.data;
    expect(etags[items.findIndex((item: Json) => item.id === id)]).toBe(otherTag);
    expect((await tenant.patch(path, { title: 'x' }, { 'if-match': otherTag ?? '' })).status).toBe(412);
  });

  test('any other caller or method with it is a 403, and an unknown role a 404', async () => {
    const developer = bearer(service, await userToken(service, tenant, 'member', 'developer'));
    const key = bearer(service, await platformKey(service, tenant, 'reader', { '*': ['read'] }));
    const reader = await publicKey(service, tenant, (await addRole(service, tenant, { permissions: {} })).id);
    const operator = service.admin.with({ 'x-tenant-id': tenant.slug });
    const path = '/api/entities/deals/records';
    for (const client of [user, developer, key, bearer(service, reader), service.admin]) {
      expect((await as('viewer', client).get(path)).status).toBe(403);
    }
    expect((await as('viewer', operator).get(path)).status).toBe(200);
    expect((await as('viewer').post(path, { title: 'x' })).status).toBe(403);
    expect((await as('viewer').patch(`${path}/${'0'.repeat(36)}`, {})).status).toBe(403);
    const head = await fetch(service.url + path, {
      method: 'HEAD',
      headers: { 'x-api-key': tenant.key, 'x-svc-as-role': 'viewer' },
    });
    expect(head.status).toBe(403);
    expect((await as('viewer').get(`/api/v1/tenants/${tenant.slug}/events/stream`)).status).toBe(403);
    for (const unknown of ['nobody', '__proto__', '']) expect((await as(unknown).get(path)).status).toBe(404);
    expect((await as('viewer', service.anonymous).get(path)).status).toBe(401);
    const wrong = clientOf(service.url, { 'x-api-key': 'svc_ak_wrong' });
    expect((await as('viewer', wrong).get(path)).status).toBe(401);
    const elsewhere = await service.tenant();
    expect((await as(role, elsewhere).get('/api/auth/whoami')).status).toBe(404);
  });

  test('a change of the role applies to the next request', async () => {
    const { name } = await addRole(service, tenant, { permissions: { deals: ['read'] } });
    const path = '/api/entities/deals/records';
    expect((await as(name).get(path)).body.data.items[0]).toHaveProperty('margin');
    await tenant.patch(`/api/roles/${name}`, { entities: { deals: { excludeFields: ['margin'] } } });
    expect((await as(name).get(path)).body.data.items[0]).not.toHaveProperty('margin');
  });

  test('the log line names the credential and the role', async () => {
    await as(role).get('/api/entities/deals/records', { 'x-request-id': 'read-as-role' });
    await as('viewer').get('/api/roles', { 'x-request-id': 'refused-as-role' });
    // Under Deno the log arrives through a pipe, among the lines of the runtime.
    const lineOf = async (id: string): Promise<Json> => {
      for (;;) {
        const lines = service.logged.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
        const line = lines.find(({ requestId, msg }) => requestId === id && msg === 'request');
        if (line !== undefined) return line;
        await delay(5);
      }
    };
    expect(await lineOf('read-as-role')).toMatchObject({
      credential: { kind: 'owner_key' },
      asRole: role,
      status: 200,
    });
    expect(await lineOf('refused-as-role')).toMatchObject({ tenant: tenant.slug, asRole: 'viewer', status: 403 });
  });
});

function withoutRequestId(body: Json): Json {
  if (body?.error === undefined) return body;
  const { requestId: _, ...error } = body.error;
  return { ...body, error };
}
