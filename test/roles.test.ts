import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { addUser, PASSWORD, signIn } from './support/people.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
  tenant = await service.tenant();
  const fields = [
    { key: 'title', type: 'text' },
    { key: 'salary', type: 'integer' },
    { key: 'agent', type: 'text' },
  ];
  await tenant.post('/api/entities', { name: 'jobs', fields });
});
afterAll(async () => service.stop());

const ALL = ['read', 'create', 'update', 'delete'];

/** A signed-in user with the role. */
async function userWith(role: string): Promise<Client & { id: string }> {
  const { id, email } = await addUser(tenant, { role });
  return { ...(await signIn(service.anonymous, tenant, email)), id };
}

describe('roles', () => {
  test('the four system roles exist: a viewer may read all records, a member change them too', async () => {
    const roles: Json[] = (await tenant.get('/api/roles')).body.data;
    const system = roles.filter(({ isSystem }) => isSystem);
    expect(system.map(({ name }) => name)).toEqual(['admin', 'member', 'owner', 'viewer']);
    expect(system.find(({ name }) => name === 'viewer').permissions).toEqual({ '*': ['read'] });
    expect(system.find(({ name }) => name === 'member').permissions).toEqual({ '*': ALL });
  });

  test('a caller that may write but not read gets back only what it has written, however it writes', async () => {
    const RECORDS = '/api/entities/invoices/records';
    const fields = [
      { key: 'title', type: 'text' },
      { key: 'number', type: 'text', unique: true },
      { key: 'note', type: 'text' },
      { key: 'state', type: 'text', default: 'hidden default' },
    ];
    await tenant.post('/api/entities', { name: 'invoices', fields });
    const { id } = (await tenant.post(RECORDS, { title: 'canary', number: '1', note: 'canary' })).body.data;
    await tenant.post('/api/roles', { name: 'writer', permissions: { invoices: ['create', 'update'] } });
    const writer = await userWith('writer');
    expect((await writer.get(`${RECORDS}/${id}`)).status).toBe(403);
    const operations = [
      { op: 'update', id, data: {} },
      { op: 'upsert', by: 'number', data: { number: '1' } },
    ];
    const answers = [
      await writer.patch(`${RECORDS}/${id}`, {}),
      await writer.patch(`${RECORDS}/${id}?dryRun=true`, {}),
      await writer.request('PUT', `${RECORDS}/${id}`, { data: {} }),
      await writer.post(`${RECORDS}?upsert=number`, { number: '1' }),
      await writer.post(`${RECORDS}/bulk`, { operations }),
      await writer.post(`${RECORDS}/bulk?dryRun=true`, { operations }),
      await writer.post(RECORDS, { number: '2' }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200, 201]);
    for (const { text } of answers) expect(text).not.toMatch(/canary|hidden default|"title"|"note"/);
    const { data } = (await writer.patch(`${RECORDS}/${id}`, { data: { note: 'mine' } })).body;
    const system = ['createdAt', 'createdBy', 'entityId', 'id', 'updatedAt', 'updatedBy'];
    expect(Object.keys(data).sort()).toEqual([...system, 'note'].sort());
    expect(data.note).toBe('mine');
    await tenant.patch('/api/roles/writer', { permissions: { invoices: ALL } });
    expect((await writer.patch(`${RECORDS}/${id}`, {})).body.data).toMatchObject({ title: 'canary', note: 'mine' });
  });

  test('are added, read, changed and deleted', async () => {
    const permissions = {
      jobs: ['read'],
      '*': [],
      'view:*': ['read'],
      'view:open-jobs': ['read'],
      'agent:clerk': ['read'],
    };
    const entities = {
      jobs: { fields: ['title', 'id'], excludeFields: ['salary'], rowFilter: 'agent = $currentUser.id' },
    };
    const added = await tenant.post('/api/roles', { name: 'clerk', description: 'Clerks', permissions, entities });
    expect(added.status).toBe(201);
    expect(added.body.data).toMatchObject({ name: 'clerk', isSystem: false, permissions, entities });
    expect((await tenant.get('/api/roles/clerk')).body.data).toEqual(added.body.data);
    const changed = await tenant.patch('/api/roles/clerk', { description: null, permissions: { jobs: ALL } });
    expect(changed.body.data).toMatchObject({ description: null, permissions: { jobs: ALL }, entities });
    expect((await tenant.post('/api/roles', { name: 'clerk', permissions })).status).toBe(409);
    expect((await tenant.patch('/api/roles/clerk', { name: 'other' })).status).toBe(400);
    const gone = await tenant.delete('/api/roles/clerk');
    expect(gone.body.data).toEqual({ id: added.body.data.id, deleted: true });
    expect((await tenant.get('/api/roles/clerk')).status).toBe(404);
    expect((await tenant.delete('/api/roles/clerk')).status).toBe(404);
  });

  const refused: [what: string, body: object, paths: string[]][] = [
    ['no name and no permissions', {}, ['name', 'permissions']],
    ['an invalid name', { name: '__proto__', permissions: {} }, ['name']],
    ['an unknown entity', { name: 'x', permissions: { nothing: ['read'] } }, ['permissions.nothing']],
    ['all agents at once', { name: 'x', permissions: { 'agent:*': ['read'] } }, ['permissions.agent:*']],
    ['an unknown operation', { name: 'x', permissions: { jobs: ['read', 'write'] } }, ['permissions.jobs']],
    ['an operation twice', { name: 'x', permissions: { jobs: ['read', 'read'] } }, ['permissions.jobs']],
    [
      'the name of an inherited property',
      { name: 'x', permissions: { constructor: ['read'] } },
      ['permissions.constructor'],
    ],
    ['a misspelt member', { name: 'x', permissions: {}, entites: { jobs: { fields: [] } } }, ['entites']],
    [
      'restrictions of an unknown entity',
      { name: 'x', permissions: {}, entities: { nothing: {} } },
      ['entities.nothing'],
    ],
    [
      'unknown fields, members and conditions, all at once',
      {
        name: 'x',
        permissions: { '*': 'read' },
        entities: { jobs: { fields: ['title', 'nope'], excludeFields: ['id'], rowFilter: 'nope = 1', rowfilter: '' } },
      },
      [
        'permissions.*',
        'entities.jobs.rowfilter',
        'entities.jobs.fields.1',
        'entities.jobs.excludeFields.0',
        'entities.jobs.rowFilter',
      ],
    ],
    [
      'a row filter that is not text',
      { name: 'x', permissions: {}, entities: { jobs: { rowFilter: 1 } } },
      ['entities.jobs.rowFilter'],
    ],
  ];
  for (const [what, body, paths] of refused) {
    test(`${what}: 400 that names every problem`, async () => {
      const answer = await tenant.post('/api/roles', body);
      expect(answer.status).toBe(400);
      expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual(paths);
    });
  }

  test('system roles cannot be deleted, and owner and admin cannot be changed', async () => {
    for (const name of ['owner', 'admin', 'member', 'viewer']) {
      expect((await tenant.delete(`/api/roles/${name}`)).status).toBe(409);
    }
    for (const name of ['owner', 'admin']) {
      expect((await tenant.patch(`/api/roles/${name}`, { permissions: {} })).status).toBe(409);
    }
    const own = await service.tenant();
    expect((await own.patch('/api/roles/member', { permissions: { '*': ['read'] } })).status).toBe(200);
  });

  test('a role in use cannot be deleted, and no user keeps a role deleted concurrently', async () => {
    await tenant.post('/api/roles', { name: 'used', permissions: {} });
    const user = await userWith('used');
    const refusal = await tenant.delete('/api/roles/used');
    expect(refusal.status).toBe(409);
    expect(refusal.body.error.message).toContain('users: 1');
    await tenant.delete(`/api/users/${user.id}`);
    await addUser(tenant, { role: 'used' });
    expect((await tenant.delete('/api/roles/used')).status).toBe(409);
    for (let round = 0; round < 5; round++) {
      const name = `raced${round}`;
      await tenant.post('/api/roles', { name, permissions: {} });
      const body = { email: `raced${round}@example.com`, name: 'U', role: name, password: PASSWORD };
      const [added, deleted] = await Promise.all([
        tenant.post('/api/users', body),
        tenant.delete(`/api/roles/${name}`),
      ]);
      expect([added.status, deleted.status]).toBeOneOf([
        [201, 409],
        [400, 200],
      ]);
    }
  });

  test('a change of a role applies from the next request of its users', async () => {
    await tenant.post('/api/roles', { name: 'reader', permissions: { jobs: ['read'] } });
    await tenant.post('/api/entities/jobs/records', { title: 'one', salary: 1, agent: 'nobody' });
    const client = await userWith('reader');
    const list = async (): Promise<Json> => (await client.get('/api/entities/jobs/records')).body;
    expect((await list()).data.items[0]).toMatchObject({ title: 'one', salary: 1 });
    await tenant.patch('/api/roles/reader', { entities: { jobs: { excludeFields: ['salary'] } } });
    expect((await list()).data.items[0]).not.toHaveProperty('salary');
    await tenant.patch('/api/roles/reader', { entities: { jobs: { rowFilter: 'agent = $currentUser.id' } } });
    expect((await list()).data.total).toBe(0);
    await tenant.post('/api/entities/jobs/records', { title: 'two', agent: client.id });
    expect((await list()).data.items.map(({ title }: Json) => title)).toEqual(['two']);
    await tenant.patch('/api/roles/reader', { permissions: {} });
    expect((await list()).error.code).toBe('FORBIDDEN');
  });

  test('whoami shows permissions and visible fields, but nothing hidden', async () => {
    await tenant.post('/api/entities', { name: 'payroll', fields: [{ key: 'iban', type: 'text' }] });
    await tenant.post('/api/roles', {
      name: 'confined',
      permissions: { jobs: ['read'] },
      entities: {
        jobs: { fields: ['title', 'salary'], excludeFields: ['salary'], rowFilter: 'agent != "the hidden one"' },
        payroll: { fields: ['iban'] },
      },
    });
    const me = (await (await userWith('confined')).get('/api/auth/whoami')).body.data;
    expect(me).toMatchObject({ role: 'confined', permissions: { jobs: ['read'] } });
    expect(me.entities).toEqual({ jobs: { fields: ['title'] } });
  });

  test('only tenant admins read and change roles', async () => {
    const client = await userWith('member');
    const routes = [
      ['GET', '/api/roles'],
      ['POST', '/api/roles'],
      ['GET', '/api/roles/viewer'],
      ['PATCH', '/api/roles/viewer'],
      ['DELETE', '/api/roles/viewer'],
    ] as const;
    for (const [method, path] of routes) {
      const body = method === 'POST' || method === 'PATCH' ? {} : undefined;
      expect((await client.request(method, path, body)).status).toBe(403);
      expect((await service.anonymous.request(method, path, body)).status).toBe(401);
    }
  });
});
