// Views over HTTP: their definitions, their permissions, and their records. Contract: interface#view, interface#views.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Operation } from '../src/access/rights.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { addRole, bearer, changeRole, invalidationsReceived, userToken, withRole } from './support/credentials.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { sentWhileLocked } from './support/tenant-database.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const TASK = {
  name: 'task',
  fields: [
    { key: 'title', type: 'text' },
    { key: 'status', type: 'select', options: ['open', 'done'] },
    { key: 'owner', type: 'text' },
    { key: 'cost', type: 'integer' },
    { key: 'secret', type: 'text' },
  ],
};
const OPEN = { validate: [{ condition: 'status == "open"' }] };

/** A tenant with six tasks, three of them open, and the view `open-tasks`. */
async function tenantWithTasks(): Promise<{ tenant: TestTenant; ids: string[] }> {
  const tenant = await service.tenant();
  expect((await tenant.post('/api/entities', TASK)).status).toBe(201);
  const ids: string[] = [];
  for (let i = 0; i < 6; i++) {
    const status = i % 2 === 0 ? 'open' : 'done';
    const created = await tenant.post('/api/entities/task/records', {
      title: `task ${i}`,
      status,
      cost: i,
      secret: `s${i}`,
    });
    expect(created.status).toBe(201);
    ids.push(created.body.data.id);
  }
  const view = { entitySlug: 'task', slug: 'open-tasks', name: 'Open tasks', filterDsl: OPEN };
  expect((await tenant.post('/api/views', view)).status).toBe(201);
  return { tenant, ids };
}

const titles = (answer: { body: Json }): string[] => answer.body.data.items.map((item: Json) => item.title);

describe('definitions', () => {
  test('an admin creates a view; the response is its whole definition', async () => {
    const { tenant } = await tenantWithTasks();
    const input = { entitySlug: 'task', slug: 'mine', name: 'Mine', description: 'My own', filterDsl: OPEN };
    const created = await tenant.post('/api/views', input);
    expect(created.status).toBe(201);
    expect(created.body.data).toMatchObject(input);
    const listed = await tenant.get('/api/views');
    expect(listed.body.data.map(({ slug }: Json) => slug)).toEqual(['mine', 'open-tasks']);
    expect(listed.body.data[0]).toEqual(created.body.data);
  });

  test('an update changes the given members only', async () => {
    const { tenant } = await tenantWithTasks();
    const renamed = await tenant.put('/api/views/open-tasks', { name: 'Still open' });
    expect(renamed.status).toBe(200);
    expect(renamed.body.data).toMatchObject({ name: 'Still open', slug: 'open-tasks', filterDsl: OPEN });
    const filterDsl = { validate: [{ condition: 'cost > 3' }] };
    expect((await tenant.put('/api/views/open-tasks', { filterDsl })).body.data.name).toBe('Still open');
    expect(titles(await tenant.get('/api/views/open-tasks/records?sort=cost'))).toEqual(['task 4', 'task 5']);
  });

  test('deleting a view keeps its records', async () => {
    const { tenant } = await tenantWithTasks();
    const deleted = await tenant.delete('/api/views/open-tasks');
    expect(deleted.body.data).toMatchObject({ deleted: true });
    expect((await tenant.get('/api/views/open-tasks/records')).status).toBe(404);
    expect((await tenant.delete('/api/views/open-tasks')).status).toBe(404);
    expect((await tenant.get('/api/entities/task/records')).body.data.total).toBe(6);
  });

  const invalid: [string, Json, number, string[]][] = [
    ['no name', { name: undefined }, 400, ['name']],
    ['an empty name', { name: ' ' }, 400, ['name']],
    ['a slug with spaces', { slug: 'a b' }, 400, ['slug']],
    ['an unknown attribute', { tenantId: 'x' }, 400, ['tenantId']],
    ['an unknown entity', { entitySlug: 'nothing' }, 404, []],
    ['no entity', { entitySlug: undefined }, 400, ['entitySlug']],
    ['a duplicate slug', { slug: 'open-tasks' }, 409, []],
    ['a filterDsl that is text', { filterDsl: 'status = "open"' }, 400, ['filterDsl']],
    ['an unknown member of filterDsl', { filterDsl: { where: [] } }, 400, ['filterDsl.where']],
    ['a validate that is not a list', { filterDsl: { validate: {} } }, 400, ['filterDsl.validate']],
    ['a condition that is not text', { filterDsl: { validate: [{ condition: 1 }] } }, 400, ['filterDsl.validate.0']],
    [
      'invalid conditions, each with its path',
      {
        filterDsl: { validate: [{ condition: 'nosuch = 1' }, { condition: 'cost > 1' }, { condition: 'cost = abc' }] },
      },
      400,
      ['filterDsl.validate.0.condition', 'filterDsl.validate.2.condition'],
    ],
    [
      'a user’s property that never fits the field',
      { filterDsl: { validate: [{ condition: 'cost = $currentUser.id' }] } },
      400,
      ['filterDsl.validate.0.condition'],
    ],
  ];
  test.each(invalid)('%s is rejected', async (_, change, status, paths) => {
    const { tenant } = await tenantWithTasks();
    const input = { entitySlug: 'task', slug: 'other', name: 'Other', filterDsl: OPEN, ...change };
    const answer = await tenant.post('/api/views', input);
    expect(answer.status).toBe(status);
    expect((answer.body.error.details ?? []).map(({ path }: Json) => path)).toEqual(paths);
  });

  test('slug and entity of a view cannot be changed', async () => {
    const { tenant } = await tenantWithTasks();
    const answer = await tenant.put('/api/views/open-tasks', { slug: 'else', entitySlug: 'other' });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual(['slug', 'entitySlug']);
    expect((await tenant.put('/api/views/open-tasks', { slug: 'open-tasks', entitySlug: 'task' })).status).toBe(200);
  });
});

describe('records of a view', () => {
  test('are limited by the view’s condition, which no further filter can escape', async () => {
    const { tenant } = await tenantWithTasks();
    const base = '/api/views/open-tasks/records?sort=cost';
    const all = ['task 0', 'task 2', 'task 4'];
    const queries: [string, string[]][] = [
      ['', all],
      ['&filters=status = "done"', []],
      ['&filters=cost > 1 OR status = "done"', ['task 2', 'task 4']],
      ['&filters=title != "" OR NOT status = "open"', all],
      ['&filter.status=done', []],
      ['&filter.cost=2', ['task 2']],
      ['&search=task 4', ['task 4']],
      ['&search=task 5', []],
    ];
    for (const [query, expected] of queries) {
      const answer = await tenant.get(encodeURI(base + query));
      expect(answer.status, query).toBe(200);
      expect(titles(answer), query).toEqual(expected);
      expect(answer.body.data.total, query).toBe(expected.length);
    }
    for (const query of ['&filters=1=1) OR (cost > 0', '&filters=") OR cost > 0 OR (title = "']) {
      expect((await tenant.get(encodeURI(base + query))).status, query).toBe(400);
    }
  });

  test('take the list parameters of the entity, with the same limits', async () => {
    const { tenant } = await tenantWithTasks();
    const page = await tenant.get('/api/views/open-tasks/records?limit=2&page=2&sort=cost&order=desc&fields=title');
    expect(page.body.data).toMatchObject({ total: 3, page: 2, limit: 2, totalPages: 2 });
    expect(titles(page)).toEqual(['task 0']);
    expect(page.body.data.items[0]).not.toHaveProperty('cost');
    const first = await tenant.get('/api/views/open-tasks/records?limit=2&sort=cost&cursor=');
    const rest = await tenant.get(
      `/api/views/open-tasks/records?limit=2&sort=cost&cursor=${first.body.data.nextCursor}`,
    );
    expect([...titles(first), ...titles(rest)]).toEqual(['task 0', 'task 2', 'task 4']);
    expect(rest.body.data.nextCursor).toBeNull();
    for (const invalid of ['limit=101', 'page=0', 'order=sideways', 'resolve_depth=3', 'sort=nosuch']) {
      expect((await tenant.get(`/api/views/open-tasks/records?${invalid}`)).status, invalid).toBe(400);
    }
  });

  test('that do not match the view are 404', async () => {
    const { tenant, ids } = await tenantWithTasks();
    const seen = await tenant.get(`/api/views/open-tasks/records/${ids[0]}`);
    expect(seen.status).toBe(200);
    expect(seen.body.data.title).toBe('task 0');
    const etag = seen.headers.get('etag') as string;
    expect((await tenant.get(`/api/views/open-tasks/records/${ids[0]}`, { 'if-none-match': etag })).status).toBe(304);
    for (const id of [ids[1], crypto.randomUUID(), 'nonsense']) {
      expect((await tenant.get(`/api/views/open-tasks/records/${id}`)).status).toBe(404);
    }
    await tenant.patch(`/api/entities/task/records/${ids[0]}`, { status: 'done' });
    expect((await tenant.get(`/api/views/open-tasks/records/${ids[0]}`)).status).toBe(404);
  });

  test('match all conditions at once; a view without conditions has every record', async () => {
    const { tenant } = await tenantWithTasks();
    const validate = [{ condition: 'status = "open" OR cost = 5' }, { condition: 'cost >= 2' }];
    await tenant.put('/api/views/open-tasks', { filterDsl: { validate } });
    expect(titles(await tenant.get('/api/views/open-tasks/records?sort=cost'))).toEqual(['task 2', 'task 4', 'task 5']);
    await tenant.put('/api/views/open-tasks', { filterDsl: {} });
    expect((await tenant.get('/api/views/open-tasks/records')).body.data.total).toBe(6);
  });

  test('depend on $currentUser, the reader', async () => {
    const { tenant } = await tenantWithTasks();
    const filterDsl = { validate: [{ condition: 'owner == $currentUser.email' }] };
    await tenant.post('/api/views', { entitySlug: 'task', slug: 'mine', name: 'Mine', filterDsl });
    const ann = await withRole(service, tenant, { permissions: { 'view:mine': ['read'] } }, 'ann@example.com');
    const bob = await withRole(service, tenant, { permissions: { 'view:mine': ['read'] } }, 'bob@example.com');
    await tenant.post('/api/entities/task/records', { title: 'for ann', owner: 'ann@example.com' });
    expect(titles(await ann.get('/api/views/mine/records'))).toEqual(['for ann']);
    expect(titles(await bob.get('/api/views/mine/records'))).toEqual([]);
    // A key has no e-mail address, and null equals nothing.
    expect(titles(await tenant.get('/api/views/mine/records'))).toEqual([]);
  });
});

describe('permissions', () => {
  async function readers(): Promise<{ tenant: TestTenant; ids: string[]; as(role: Json): Promise<Client> }> {
    const { tenant, ids } = await tenantWithTasks();
    return { tenant, ids, as: (role) => withRole(service, tenant, role) };
  }

  test('a user lists the views that the role may read', async () => {
    const { tenant, as } = await readers();
    await tenant.post('/api/views', { entitySlug: 'task', slug: 'other', name: 'Other' });
    const cases: [Json, string[]][] = [
      [{ 'view:open-tasks': ['read'] }, ['open-tasks']],
      [{ 'view:*': ['read'] }, ['open-tasks', 'other']],
      [{ '*': ['read', 'update'] }, []],
      [{ 'view:open-tasks': ['update'] }, []],
    ];
    for (const [permissions, slugs] of cases) {
      const client = await as({ permissions });
      expect((await client.get('/api/views')).body.data.map(({ slug }: Json) => slug)).toEqual(slugs);
      const status = slugs.includes('open-tasks') ? 200 : 403;
      expect((await client.get('/api/views/open-tasks/records')).status).toBe(status);
    }
  });

  test('the view’s permission allows reading its records, not the entity', async () => {
    const { ids, as } = await readers();
    const client = await as({ permissions: { 'view:open-tasks': ['read'] } });
    expect((await client.get('/api/views/open-tasks/records')).body.data.total).toBe(3);
    expect((await client.get(`/api/views/open-tasks/records/${ids[0]}`)).status).toBe(200);
    expect((await client.get('/api/entities/task/records')).status).toBe(403);
  });

  test('without permission an unknown view is rejected like an existing one', async () => {
    const { as } = await readers();
    const client = await as({ permissions: { '*': ['read'] } });
    const known = await client.get('/api/views/open-tasks/records', { 'x-request-id': 'r' });
    const unknown = await client.get('/api/views/no-such-one/records', { 'x-request-id': 'r' });
    expect(known.status).toBe(403);
    expect(unknown.text.replaceAll('no-such-one', 'open-tasks')).toBe(known.text);
  });

  test('fields and rows hidden by the role are hidden in the view too', async () => {
    const { as } = await readers();
    const client = await as({
      permissions: { 'view:open-tasks': ['read'] },
      entities: { task: { excludeFields: ['secret'], rowFilter: 'cost < 4' } },
    });
    const answer = await client.get('/api/views/open-tasks/records?sort=cost');
    expect(titles(answer)).toEqual(['task 0', 'task 2']);
    expect(answer.body.data.total).toBe(2);
    expect(answer.text).not.toContain('secret');
    const hidden = await client.get('/api/views/open-tasks/records?filters=secret%20%3D%20s0');
    const unknown = await client.get('/api/views/open-tasks/records?filters=nosuch%20%3D%20s0');
    expect(hidden.status).toBe(400);
    expect(hidden.body.error.details).toEqual(
      JSON.parse(JSON.stringify(unknown.body.error.details).replaceAll('nosuch', 'secret')),
    );
    expect((await client.get('/api/views/open-tasks/records?search=s0')).body.data.total).toBe(0);
  });

  test('a condition on fields that the reader cannot see applies, but is not returned', async () => {
    const { tenant, as } = await readers();
    const filterDsl = { validate: [{ condition: 'secret = "s4"' }, { condition: 'cost > 1' }] };
    await tenant.put('/api/views/open-tasks', { filterDsl });
    const client = await as({
      permissions: { 'view:open-tasks': ['read'] },
      entities: { task: { excludeFields: ['secret'] } },
    });
    expect(titles(await client.get('/api/views/open-tasks/records'))).toEqual(['task 4']);
    const listed = await client.get('/api/views');
    expect(listed.text).not.toContain('secret');
    expect(listed.body.data[0].filterDsl).toEqual({ validate: [{ condition: 'cost > 1' }] });
  });

  test('a role without its permission loses the view with the next request', async () => {
    const { tenant } = await readers();
    const permissions: Record<string, Operation[]> = { 'view:open-tasks': ['read'] };
    const { name } = await addRole(service, tenant, { permissions });
    const client = bearer(service, await userToken(service, tenant, name));
    expect((await client.get('/api/views/open-tasks/records')).status).toBe(200);
    await changeRole(service, tenant, name, { permissions, entities: { task: { rowFilter: 'cost = 2' } } });
    expect(titles(await client.get('/api/views/open-tasks/records'))).toEqual(['task 2']);
    await changeRole(service, tenant, name, { permissions: {} });
    expect((await client.get('/api/views/open-tasks/records')).status).toBe(403);
  });

  test('only a tenant admin creates, changes and deletes views', async () => {
    const { as } = await readers();
    const client = await as({
      permissions: { '*': ['read', 'create', 'update', 'delete'], 'view:*': ['read', 'update'] },
    });
    const created = await client.post('/api/views', { entitySlug: 'task', slug: 'mine', name: 'Mine' });
    expect(created.status).toBe(403);
    expect((await client.put('/api/views/open-tasks', { name: 'x' })).status).toBe(403);
    expect((await client.delete('/api/views/open-tasks')).status).toBe(403);
  });
});

describe('when the entity changes', () => {
  test('deleting an entity deletes its views', async () => {
    const { tenant } = await tenantWithTasks();
    expect((await tenant.delete('/api/entities/task?confirm=task')).status).toBe(200);
    expect((await tenant.get('/api/views')).body.data).toEqual([]);
    expect((await tenant.get('/api/views/open-tasks/records')).status).toBe(404);
  });

  test.each(['\n', '\t', ' '])(
    'a field that a condition names after %j is neither renamed nor dropped',
    async (space) => {
      const { tenant } = await tenantWithTasks();
      const filterDsl = { validate: [{ condition: `cost >= 0 and${space}owner = "me"` }] };
      expect((await tenant.put('/api/views/open-tasks', { filterDsl })).status).toBe(200);
      const field = '/api/entities/task/fields/owner';
      for (const refused of [await tenant.patch(field, { key: 'holder' }), await tenant.delete(field)]) {
        const { status, body } = refused;
        expect([status, body.error.message]).toEqual([409, 'owner is used by view open-tasks; change these first']);
      }
    },
  );

  test('a view created while a field is renamed names it by a valid key, before and after', async () => {
    const { tenant } = await tenantWithTasks();
    const role = await addRole(service, tenant, {
      permissions: {},
      entities: { task: { fields: ['title', 'owner'] } },
    });
    const renaming = tenant.patch('/api/entities/task/fields/owner', { key: 'holder' });
    // From here on it waits for the copies of the role that processes have.
    const listed = async (): Promise<string[]> =>
      (await tenant.get(`/api/roles/${role.name}`)).body.data.entities.task.fields;
    while ((await listed()).length < 3) await Bun.sleep(5);
    const view = {
      entitySlug: 'task',
      name: 'x',
      slug: 'mine',
      filterDsl: { validate: [{ condition: 'owner = "me"' }] },
    };
    expect((await tenant.post('/api/views', view)).status).toBe(201);
    const { status, body } = await renaming;
    expect([status, body.error?.message]).toEqual([409, 'owner is used by view mine; change these first']);
    expect((await tenant.get('/api/views/mine/records')).status).toBe(200);
    expect(await listed()).toEqual(['title', 'owner']);
    const later = await tenant.post('/api/entities/task/fields', { key: 'holder', type: 'text' });
    expect([later.status, await listed()]).toEqual([201, ['title', 'owner']]);
  });

  // The embedded database has one session, so nothing runs concurrently.
  if (process.env.DATABASE_URL) {
    test.each(['made', 'changed'])('a view %s while a field is renamed is checked against the new key', async (how) => {
      const { tenant } = await tenantWithTasks();
      const filterDsl = { validate: [{ condition: 'owner = "me"' }] };
      const send = () =>
        how === 'made'
          ? tenant.post('/api/views', { entitySlug: 'task', name: 'x', slug: 'mine', filterDsl })
          : tenant.put('/api/views/open-tasks', { filterDsl });
      const { status, body } = await sentWhileLocked(service, tenant, send, async (tx) => {
        await tx.rows(sql`
          update ${identifier(schemaOf(tenant.id), 'field_definitions')} set key = 'holder' where key = 'owner'`);
      });
      expect([status, body.error?.details?.[0].path]).toEqual([400, 'filterDsl.validate.0.condition']);
    });
  }

  test('a row filter that no longer fits the entity of one view denies its records, not the list of views', async () => {
    const { tenant } = await tenantWithTasks();
    const define = (key: string) => tenant.post('/api/entities', { name: 'note', fields: [{ key, type: 'text' }] });
    expect((await define('zone')).status).toBe(201);
    const reader = await withRole(service, tenant, {
      permissions: { 'view:*': ['read'] },
      entities: { note: { rowFilter: 'zone = a' } },
    });
    expect((await tenant.delete('/api/entities/note')).status).toBe(200);
    expect((await define('text')).status).toBe(201);
    const filterDsl = { validate: [{ condition: 'text is not null' }] };
    const view = { entitySlug: 'note', slug: 'notes', name: 'Notes', filterDsl };
    expect((await tenant.post('/api/views', view)).status).toBe(201);
    const listed = await reader.get('/api/views');
    expect(listed.body.data?.map(({ slug }: Json) => slug)).toEqual(['notes', 'open-tasks']);
    expect((await reader.get('/api/views/notes/records')).status).toBe(403);
    expect((await reader.get('/api/views/open-tasks/records')).status).toBe(200);
  });

  test('a view whose condition names a missing field is 409, and never read without its condition', async () => {
    const { tenant, ids } = await tenantWithTasks();
    const reader = await withRole(service, tenant, { permissions: { 'view:open-tasks': ['read'] } });
    const schema = schemaOf(tenant.id);
    await service.app.db.rows(sql`
      update ${identifier(schema, 'field_definitions')} set key = 'state' where key = 'status'`);
    await service.app.invalidations.publish('catalog', tenant.id);
    await invalidationsReceived(service, tenant.id);
    for (const path of ['/api/views/open-tasks/records', `/api/views/open-tasks/records/${ids[0]}`]) {
      const answer = await tenant.get(path);
      expect(answer.status).toBe(409);
      expect(answer.body.error.details[0].path).toBe('filterDsl.validate.0.condition');
      const rejected = await reader.get(path);
      expect(rejected.status).toBe(409);
      expect(rejected.text).not.toContain('status');
    }
    expect((await tenant.get('/api/views')).status).toBe(200);
    const corrected = { validate: [{ condition: 'state = "open"' }] };
    expect((await tenant.put('/api/views/open-tasks', { filterDsl: corrected })).status).toBe(200);
    expect((await reader.get('/api/views/open-tasks/records')).body.data.total).toBe(3);
  });
});
