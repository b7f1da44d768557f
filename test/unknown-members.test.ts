// An unknown member of a request body is rejected, not ignored: a misspelt `expiresAt` must not create a key that never
// expires. Contract: decisions#keys.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { adminKey } from './support/credentials.ts';
import { type Client, type Json, startService, type TestService } from './support/service.ts';

const PASSWORD = 'correct horse battery';

let service: TestService;
let owner: Client;
let operator: Client;
/** The ids and names in the paths and bodies of ROUTES. */
const ids = { slug: '', role: '', api: '', publicKey: '', user: '', secret: '', subscription: '' };
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  const tenant = await service.tenant();
  owner = tenant.with({ 'x-tenant-id': tenant.slug });
  operator = service.admin.with({ 'x-admin-key': await adminKey(service, ['platform:read', 'platform:write']) });
  await create(owner, '/api/entities', { name: 'orders', fields: [{ key: 'title', type: 'text' }] });
  const { body } = await owner.get('/api/roles');
  ids.slug = tenant.slug;
  ids.role = body.data.find(({ name }: Json) => name === 'viewer').id;
  const api = { name: 'Shop', slug: 'shop', roles: ['viewer'], permissions: { '*': { viewer: ['read'] } } };
  ids.api = (await create(owner, '/api/apis', api)).id;
  ids.publicKey = (await create(owner, '/api/auth/public-keys', publicKey())).id;
  ids.user = (await create(owner, '/api/users', { ...user(), password: PASSWORD })).id;
  ids.secret = (await create(owner, '/api/auth/bots/register', { name: 'clerk', tenantSlug: ids.slug })).secret;
  ids.subscription = (await create(owner, '/api/webhooks/subscriptions', subscription())).id;
});
afterAll(async () => {
  await service.app.db.rows(sql`delete from platform.admin_keys`);
  await service.stop();
});

async function create(client: Client, path: string, body: Json): Promise<Json> {
  const answer = await client.post(path, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

let count = 0;
const user = (): Json => ({ email: `u${++count}@example.com`, name: 'U', role: 'viewer' });
const publicKey = (): Json => ({ label: 'site', roleId: ids.role, scopes: ['records:read'] });
const subscription = (): Json => ({
  entity_name: 'orders',
  event_types: ['record.created'],
  url: `http://127.0.0.1:8080/${++count}`,
});
const bot = (): Json => ({ name: `bot-${++count}`, tenantSlug: ids.slug });

/** Each route with a valid body that has every member of the contract. */
const ROUTES: [what: string, by: () => Client, method: string, path: () => string, body: () => Json][] = [
  ['an owner key', () => owner, 'POST', () => '/api/keys', () => ({ label: 'l', expiresAt: '2999-01-01T00:00:00Z' })],
  [
    'a platform API',
    () => owner,
    'POST',
    () => '/api/apis',
    () => ({ name: 'A', slug: `a${++count}`, roles: ['viewer'], permissions: { '*': { viewer: ['read'] } } }),
  ],
  [
    'a change of a platform API',
    () => owner,
    'PATCH',
    () => `/api/apis/${ids.api}`,
    () => ({ name: 'Shop', slug: 'shop', roles: ['viewer'], permissions: { '*': { viewer: ['read'] } } }),
  ],
  [
    'a platform key',
    () => owner,
    'POST',
    () => `/api/apis/${ids.api}/keys`,
    () => ({ role: 'viewer', label: 'l', ttlDays: 3 }),
  ],
  [
    'a public key',
    () => owner,
    'POST',
    () => '/api/auth/public-keys',
    () => ({ ...publicKey(), ttlDays: 3, allowedOrigins: [], rateLimitPerMin: 9, rateLimitPerDay: 9 }),
  ],
  [
    'a change of a public key',
    () => owner,
    'PATCH',
    () => `/api/auth/public-keys/${ids.publicKey}`,
    () => ({ ...publicKey(), ttlDays: 3, allowedOrigins: [], rateLimitPerMin: 9, rateLimitPerDay: 9 }),
  ],
  [
    'a bot',
    () => owner,
    'POST',
    () => '/api/auth/bots/register',
    () => ({ ...bot(), permissions: { entities: { orders: ['read'] } } }),
  ],
  [
    'a bot that identifies itself',
    () => owner,
    'POST',
    () => '/api/auth/bots/identify',
    () => ({ name: 'clerk', secret: ids.secret }),
  ],
  ['a user', () => owner, 'POST', () => '/api/users', () => ({ ...user(), password: PASSWORD })],
  [
    'a change of a user',
    () => owner,
    'PATCH',
    () => `/api/users/${ids.user}`,
    () => ({ ...user(), password: PASSWORD, isActive: true }),
  ],
  [
    'a message',
    () => owner,
    'POST',
    () => '/agent-messages',
    () => ({ to_agent: 'clerk', subject: 's', body: 'b', priority: 'low' }),
  ],
  [
    'an invitation',
    () => owner,
    'POST',
    () => '/api/invitations',
    () => ({ email: `i${++count}@example.com`, expiresInDays: 2 }),
  ],
  [
    'a platform code',
    () => owner.with({ 'x-tenant-id': null }),
    'POST',
    () => '/api/invitations',
    () => ({ email: `i${++count}@example.com`, expiresInDays: 2 }),
  ],
  [
    'a webhook subscription',
    () => owner,
    'POST',
    () => '/api/webhooks/subscriptions',
    () => ({ ...subscription(), secret: 's', description: 'd', is_active: false }),
  ],
  [
    'a change of a webhook subscription',
    () => owner,
    'PUT',
    () => `/api/webhooks/subscriptions/${ids.subscription}`,
    () => ({ ...subscription(), secret: null, description: null, is_active: true }),
  ],
  [
    'an admin key',
    () => operator,
    'POST',
    () => '/api/admin/platform/keys',
    () => ({ name: 'k', scopes: ['platform:read'], expiresAt: '2999-01-01T00:00:00Z' }),
  ],
];

const pathsOf = ({ body }: Json): string[] => body.error.details.map(({ path }: Json) => path);

describe('a body with unknown members is a 400 that names each of them', () => {
  test.each(ROUTES)('%s', async (_, by, method, path, body) => {
    const refused = await by().request(method, path(), { ...body(), expireAt: '2030-01-01', tenantID: null });
    expect([refused.status, refused.body.error?.code], refused.text).toEqual([400, 'VALIDATION_ERROR']);
    expect(pathsOf(refused).sort()).toEqual(['expireAt', 'tenantID']);
    const accepted = await by().request(method, path(), body());
    expect(accepted.status, accepted.text).toBeLessThan(300);
  });

  test('together with all other problems', async () => {
    const refused = await owner.post('/api/keys', { lable: 'program', expiresAt: 'soon' });
    expect(pathsOf(refused).sort()).toEqual(['expiresAt', 'lable', 'label'].sort());
    const misspelt = await owner.post('/api/users', { ...user(), role: 7, pasword: PASSWORD });
    expect(pathsOf(misspelt)).toEqual(['role', 'pasword']);
  });

  test('and nothing is stored', async () => {
    const before = (await owner.get('/api/keys')).text;
    const beforeUser = (await owner.get(`/api/users/${ids.user}`)).body.data;
    expect((await owner.post('/api/keys', { label: 'program', expires_at: '2030-01-01' })).status).toBe(400);
    expect((await owner.patch(`/api/users/${ids.user}`, { name: 'Other', is_active: false })).status).toBe(400);
    expect((await owner.get('/api/keys')).text.replace(/"requestId":"[^"]*"/, '')).toBe(before);
    expect((await owner.get(`/api/users/${ids.user}`)).body.data).toEqual(beforeUser);
  });
});

test('a bot’s permissions that are not under `entities` are a 400, not a bot without permissions', async () => {
  const permissions = { orders: ['read'], entities: { orders: ['read'] } };
  const refused = await owner.post('/api/auth/bots/register', { ...bot(), permissions });
  expect([refused.status, pathsOf(refused)]).toEqual([400, ['permissions.orders']]);
});

test('the API document allows no other members in these bodies', async () => {
  const document = (await service.anonymous.get('/swagger/json')).body;
  const isClosed = ([, , method, path]: (typeof ROUTES)[number]): [string, unknown] => {
    const template = path()
      .replace(ids.api, '{apiId}')
      .replace(/[0-9a-f-]{36}/, '{id}');
    const { schema } = document.paths[template][method.toLowerCase()].requestBody.content['application/json'];
    const { $ref } = schema;
    const plain = $ref === undefined ? schema : document.components.schemas[$ref.split('/').at(-1)];
    return [`${method} ${template}`, plain.additionalProperties];
  };
  const stated = ROUTES.map(isClosed);
  expect(stated).toEqual(stated.map(([route]) => [route, false]));
});
