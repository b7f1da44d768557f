// Rights refer to names: a new role, entity or view never inherits the rights of an earlier one of the same name.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { addUser, PASSWORD, signIn } from './support/people.ts';
import {
  type Answer,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'orders' });
});
afterAll(async () => service.stop());

const ROUNDS = 12;
const READ = { orders: ['read'] };

async function role(name: string, permissions: Record<string, string[]> = READ): Promise<string> {
  const answer = await tenant.post('/api/roles', { name, permissions });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data.id;
}

/** The ways to assign a role. */
const ASSIGNMENTS: [string, (name: string, id: string) => Promise<Answer>][] = [
  ['a user', (name) => tenant.post('/api/users', { email: `${name}@a.test`, name, role: name, password: PASSWORD })],
  ['an invited user', (name) => tenant.post('/api/users', { email: `${name}@a.test`, name, role: name })],
  [
    'a public key',
    (_, id) => tenant.post('/api/auth/public-keys', { label: 'l', roleId: id, scopes: ['records:read'] }),
  ],
  [
    'a platform API',
    (name) =>
      tenant.post('/api/apis', { name, slug: name, roles: [name], permissions: { orders: { other: ['read'] } } }),
  ],
];

describe('deleting a role', () => {
  test.each(ASSIGNMENTS)('while it is assigned to %s: one of the two fails', async (kind, assign) => {
    const outcomes = new Set<string>();
    for (let round = 0; round < ROUNDS; round++) {
      const name = `${kind.replaceAll(/\W/g, '')}${round}`.toLowerCase();
      const id = await role(name);
      const [assigned, deleted] = await Promise.all([assign(name, id), tenant.delete(`/api/roles/${name}`)]);
      outcomes.add(`${assigned.status} ${deleted.status}`);
    }
    for (const outcome of outcomes) expect(['201 409', '400 200']).toContain(outcome);
  });

  test('while a key is issued for it and the API stops using it: never both a new key and a deleted role', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const name = `role${round}`;
      await role(name);
      const permissions = { orders: { [name]: ['read'], other: ['read'] } };
      const api = { name, slug: name, roles: [name, 'other'], permissions };
      const { id } = (await tenant.post('/api/apis', api)).body.data;
      const [issued, , deleted] = await Promise.all([
        tenant.post(`/api/apis/${id}/keys`, { role: name }),
        tenant.patch(`/api/apis/${id}`, { roles: ['other'], permissions: { orders: { other: ['read'] } } }),
        tenant.delete(`/api/roles/${name}`),
      ]);
      if (deleted.status === 200) expect(issued.status, issued.text).not.toBe(201);
    }
  });
});

describe('the grants on an entity', () => {
  test('are revoked with it in roles, platform APIs and bots: a new entity of that name has none', async () => {
    const entity = { name: 'papers', fields: [{ key: 'title', type: 'text' }] };
    await tenant.post('/api/entities', entity);
    await tenant.post('/api/views', {
      entitySlug: 'papers',
      slug: 'all-papers',
      name: 'All',
      filterDsl: { validate: [] },
    });
    await role('clerk', { papers: ['read'], orders: ['read'], 'view:all-papers': ['read'] });
    const { email } = await addUser(tenant, { role: 'clerk' });
    const session = await signIn(service.anonymous, tenant, email);
    const roles = ['clerk'];
    const permissions = { papers: { clerk: ['read', 'create'] }, orders: { clerk: ['read'] } };
    const api = (await tenant.post('/api/apis', { name: 'P', slug: 'p', roles, permissions })).body.data;
    const key = (await tenant.post(`/api/apis/${api.id}/keys`, { role: 'clerk' })).body.data.key;
    const given = { entities: { papers: ['read'], orders: ['read'] } };
    const bot = { name: 'paper-bot', tenantSlug: tenant.slug, permissions: given };
    const { secret } = (await tenant.post('/api/auth/bots/register', bot)).body.data;
    const { token } = (await tenant.post('/api/auth/bots/identify', { name: bot.name, secret })).body.data;
    const holders = [session.token, key, token].map((value) =>
      clientOf(service.url, { authorization: `Bearer ${value}` }),
    );
    const ask = (path: string) => Promise.all(holders.map(async (holder) => (await holder.get(path)).status));
    expect(await ask('/api/entities/papers/records')).toEqual([200, 200, 200]);
    expect((await holders[0]?.get('/api/views/all-papers/records'))?.status).toBe(200);

    expect((await tenant.delete('/api/entities/papers')).status).toBe(200);
    expect((await tenant.post('/api/entities', entity)).status).toBe(201);
    await tenant.post('/api/views', {
      entitySlug: 'papers',
      slug: 'all-papers',
      name: 'All',
      filterDsl: { validate: [] },
    });
    expect(await ask('/api/entities/papers/records')).toEqual([403, 403, 403]);
    expect((await holders[0]?.get('/api/views/all-papers/records'))?.status).toBe(403);
    expect(await ask('/api/entities/orders/records')).toEqual([200, 200, 200]);
    const answers = [
      await tenant.get('/api/roles/clerk'),
      await tenant.get(`/api/apis/${api.id}`),
      await tenant.get('/api/auth/bots'),
    ];
    for (const { text } of answers) expect(text).not.toContain('papers');
  });

  test('leave the restrictions of roles in place, so that hidden data stays hidden', async () => {
    const fields = [
      { key: 'title', type: 'text' },
      { key: 'margin', type: 'text' },
    ];
    await tenant.post('/api/entities', { name: 'quotes', fields });
    const entities = { quotes: { excludeFields: ['margin'] } };
    await tenant.post('/api/roles', { name: 'reader', permissions: { '*': ['read'] }, entities });
    await tenant.delete('/api/entities/quotes');
    expect((await tenant.get('/api/roles/reader')).body.data.entities).toEqual(entities);
  });

  test('cannot be written while the entity is deleted', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const name = `passing${round}`;
      await tenant.post('/api/entities', { name });
      const bot = { name: `bot-${round}`, tenantSlug: tenant.slug, permissions: { entities: { [name]: ['read'] } } };
      await Promise.all([
        tenant.post('/api/roles', { name, permissions: { [name]: ['read'] } }),
        tenant.post('/api/auth/bots/register', bot),
        tenant.delete(`/api/entities/${name}`),
      ]);
      const written: Json[] = [await tenant.get('/api/roles'), await tenant.get('/api/auth/bots')];
      for (const { body } of written) {
        const granted = body.data.map(({ permissions }: Json) => Object.keys(permissions.entities ?? permissions));
        expect(granted.flat()).not.toContain(name);
      }
    }
  });

  test('of a deleted view are revoked with it', async () => {
    const view = { entitySlug: 'orders', slug: 'open-orders', name: 'Open', filterDsl: { validate: [] } };
    await tenant.post('/api/views', view);
    await role('viewers', { 'view:open-orders': ['read'] });
    expect((await tenant.delete('/api/views/open-orders')).status).toBe(200);
    expect((await tenant.get('/api/roles/viewers')).body.data.permissions).toEqual({});
  });
});
