// How much a tenant may define: numbers of roles, views, users, keys and bots, and the text of each definition.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { cleanUpOnce } from '../src/events/retention.ts';
import { LIMITS } from '../src/limits.ts';
import { sql } from '../src/runtime/sql.ts';
import { invalidationsReceived } from './support/credentials.ts';
import { createEntity, fields } from './support/entities.ts';
import { type Answer, startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';
import { runInSchema } from './support/tenant-database.ts';

let service: TestService;
let tenant: TestTenant;
let schema: TestTenant;

beforeAll(async () => {
  service = await startService({ MAX_BODY_BYTES: '8388608' });
  tenant = await service.tenant();
  schema = tenant;
  await createEntity(tenant, 'task', fields('title text', 'status text'));
});
afterAll(() => service?.stop());

let made = 0;
const next = () => `n${++made}`;

interface Kind {
  kind: keyof typeof LIMITS.perTenant;
  add: () => Promise<Answer>;
  /** Fills the tenant up to one less than the limit; `$n` is the number of rows to add. */
  fill: string;
  free: () => Promise<unknown>;
}

const series = (columns: string) => `select ${columns} from generate_series(1, $n) as i`;
const own = () => `'${tenant.id}'`;

function kinds(): Kind[] {
  const idOf = async (path: string) => (await tenant.get(path)).body.data[0].id as string;
  return [
    {
      kind: 'roles',
      add: () => tenant.post('/api/roles', { name: next(), permissions: {} }),
      fill: `insert into roles (id, name, permissions, entities) ${series("gen_random_uuid(), 'r' || i, '{}', '{}'")}`,
      free: () => tenant.delete('/api/roles/r1'),
    },
    {
      kind: 'views',
      add: () => tenant.post('/api/views', { entitySlug: 'task', slug: next(), name: 'view' }),
      fill: `insert into platform.views (id, tenant_id, slug, entity_id, name, filter_dsl)
        ${series(`gen_random_uuid(), ${own()}, 'v' || i, (select id from entity_definitions where name = 'task'), 'v', '{"validate":[]}'`)}`,
      free: () => tenant.delete('/api/views/v1'),
    },
    {
      kind: 'users',
      add: () =>
        tenant.post('/api/users', {
          email: `${next()}@example.com`,
          name: 'P',
          role: 'viewer',
          password: 'a-long-password',
        }),
      fill: `insert into users (id, email, name, role) ${series("gen_random_uuid(), 'u' || i || '@example.com', 'P', 'viewer'")}`,
      free: async () => tenant.delete(`/api/users/${(await tenant.get('/api/users')).body.data.items[0].id}`),
    },
    {
      kind: 'platformApis',
      add: () =>
        tenant.post('/api/apis', { name: 'api', slug: next(), roles: ['r'], permissions: { '*': { r: ['read'] } } }),
      fill: `insert into platform.apis (id, tenant_id, name, slug, roles) ${series(`gen_random_uuid(), ${own()}, 'a', 'a' || i, '["r"]'`)}`,
      free: async () => tenant.delete(`/api/apis/${await idOf('/api/apis')}`),
    },
    {
      kind: 'publicKeys',
      add: async () =>
        tenant.post('/api/auth/public-keys', {
          label: 'k',
          roleId: (await tenant.get('/api/roles/viewer')).body.data.id,
          scopes: ['records:read'],
        }),
      fill: `insert into platform.public_keys (id, tenant_id, prefix, hash, label, role_id, scopes, rate_limit_per_min,
        rate_limit_per_day, expires_at) ${series(
          `gen_random_uuid(), ${own()}, 'p', sha256(('${'x'}' || random()::text)::bytea), 'l',
          (select id from roles where name = 'viewer'), '["records:read"]', 1, 1, now() + interval '1 day'`,
        )}`,
      free: async () => tenant.delete(`/api/auth/public-keys/${await idOf('/api/auth/public-keys')}`),
    },
    {
      kind: 'bots',
      add: () => tenant.post('/api/auth/bots/register', { name: `bot-${next()}`, tenantSlug: tenant.slug }),
      fill: `insert into platform.bots (id, tenant_id, name, secret_hash, permissions)
        ${series(`gen_random_uuid(), ${own()}, 'b-' || i, sha256(i::text::bytea), '{"entities":{}}'`)}`,
      free: async () => tenant.post(`/api/auth/bots/${await idOf('/api/auth/bots')}/revoke`),
    },
    {
      kind: 'ownerKeys',
      add: () => tenant.post('/api/keys', { label: 'k' }),
      fill: `insert into platform.owner_keys (id, tenant_id, prefix, hash, label)
        ${series(`('ffffffff' || substr(gen_random_uuid()::text, 9))::uuid, ${own()}, 'p', sha256(('o' || random()::text)::bytea), 'l'`)}`,
      free: async () => tenant.delete(`/api/keys/${await idOf('/api/keys')}`),
    },
  ];
}

describe('numbers', () => {
  test.each(Object.keys(LIMITS.perTenant))(
    '%s: the last one is added, the next refused, also of two at once',
    async (name) => {
      const { kind, add, fill, free } = kinds().find((candidate) => candidate.kind === name) as Kind;
      const max = LIMITS.perTenant[kind];
      await runInSchema(service, schema, fill.replace('$n', String(max - 1)));
      const both = await Promise.all([add(), add()]);
      expect(both.map(({ status }) => status).sort()).toEqual([201, 409]);
      const refused = await add();
      expect([refused.body.error.code, refused.body.error.message]).toEqual([
        'CONFLICT',
        expect.stringContaining(`at most ${max} `),
      ]);
      await free();
      expect((await add()).status).toBe(201);
    },
  );

  test('keys of a platform API: the last one is added, the next refused, also of two at once', async () => {
    const definition = { name: 'api', slug: next(), roles: ['r'], permissions: { '*': { r: ['read'] } } };
    await tenant.delete(`/api/apis/${(await tenant.get('/api/apis')).body.data[0]?.id}`);
    const { id } = (await tenant.post('/api/apis', definition)).body.data;
    const keys = `/api/apis/${id}/keys`;
    const max = LIMITS.platformApi.keysMax;
    const columns = `gen_random_uuid(), ${own()}, '${id}', 'r', 'p', sha256(('pk' || random()::text)::bytea)`;
    const fill = (n: number, more = '', value = '') =>
      runInSchema(
        service,
        schema,
        `insert into platform.platform_keys (id, tenant_id, api_id, role, prefix, hash${more})
          ${series(columns + value).replace('$n', String(n))}`,
      );
    await fill(max - 1);
    await fill(10, ', expires_at', `, now() - interval '1 day'`);
    const add = () => tenant.post(keys, { role: 'r' });
    const both = await Promise.all([add(), add()]);
    expect(both.map(({ status }) => status).sort()).toEqual([201, 409]);
    expect((await add()).body.error.message).toContain(`at most ${max} `);
    const added = both.find(({ status }) => status === 201)?.body.data;
    expect((await tenant.delete(`${keys}/${added.id}`)).status).toBe(200);
    expect((await add()).status).toBe(201);
  });

  test('an invitation is not accepted, nor a user activated, beyond the limit of users', async () => {
    const users = (await tenant.get('/api/users')).body.data.items;
    const email = `${next()}@example.com`;
    const invited = await tenant.post('/api/invitations', { email }, { 'x-tenant-slug': tenant.slug });
    expect(invited.status).toBe(201);
    const accept = () =>
      service.anonymous.post('/auth/invite/accept', {
        token: invited.body.data.token,
        email,
        name: 'P',
        password: 'a-long-password',
      });
    expect((await accept()).status).toBe(409);
    const user = `/api/users/${users[0].id}`;
    expect((await tenant.patch(user, { isActive: false })).status).toBe(200);
    expect((await accept()).status).toBe(201);
    expect((await tenant.patch(user, { isActive: true })).status).toBe(409);
    expect((await tenant.patch(`/api/users/${users[1].id}`, { isActive: true })).status).toBe(200);
  });
});

describe('texts', () => {
  const condition = (n: number) => Array.from({ length: n }, () => ({ condition: `title = "${'x'.repeat(1_900)}"` }));

  test('a role has at most 64 KiB', async () => {
    const other = await service.tenant();
    await createEntity(other, 'task', fields('title text'));
    const role = (length: number) => ({
      name: next(),
      permissions: { '*': ['read'] },
      entities: { task: { fields: ['title'], excludeFields: [], rowFilter: `title != "${'é'.repeat(length)}"` } },
    });
    expect((await other.post('/api/roles', role(1_900))).status).toBe(201);
    const refused = await other.post('/api/roles', role(33_000));
    expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining('65536 bytes')]);
    const doubled = { ...role(10), entities: { task: { fields: Array(1_000).fill('title') } } };
    expect((await other.post('/api/roles', doubled)).status).toBe(400);
  });

  test('a view and a rule have at most 64 KiB', async () => {
    const other = await service.tenant();
    await createEntity(other, 'task', fields('title text', 'note text'));
    const view = { entitySlug: 'task', slug: 'v', name: 'v', filterDsl: { validate: condition(20) } };
    expect((await other.post('/api/views', view)).status).toBe(201);
    const tooLong = { ...view, slug: 'w', filterDsl: { validate: condition(40) } };
    expect((await other.post('/api/views', tooLong)).body.error.message).toContain('65536 bytes');
    const rule = (length: number) =>
      other.post('/api/rules', {
        name: 'r',
        entity: 'task',
        trigger: 'before_create',
        action: { type: 'set', values: { note: 'x'.repeat(length) } },
      });
    expect((await rule(65_000)).status).toBe(201);
    expect((await rule(66_000)).body.error.message).toContain('65536 bytes');
  });

  test('a role, view or rule stored before the limit can be read, is shortened, and can be deleted', async () => {
    const other = await service.tenant();
    await createEntity(other, 'task', fields('title text'));
    await runInSchema(
      service,
      other,
      `insert into roles (id, name, description, permissions, entities)
        select gen_random_uuid(), 'large' || i, repeat('x', 200000), '{}', '{}' from generate_series(1, 2) as i;
      insert into platform.views (id, tenant_id, slug, entity_id, name, description, filter_dsl)
        select gen_random_uuid(), '${other.id}', 'large' || i, id, 'v', repeat('x', 200000), '{"validate":[]}'
        from entity_definitions, generate_series(1, 2) as i where name = 'task';
      insert into business_rules (id, name, entity_id, trigger, action)
        select gen_random_uuid(), 'large' || i, id, 'before_delete',
          jsonb_build_object('type', 'reject', 'message', repeat('x', 200000))
        from entity_definitions, generate_series(1, 2) as i where name = 'task'`,
    );
    await service.app.invalidations.publish('catalog', other.id);
    await service.app.invalidations.publish('role', other.id);
    await invalidationsReceived(service, other.id);
    // Not by the client that compares responses with the document: such texts are too long for it.
    const headers = { authorization: `Bearer ${other.key}`, 'content-type': 'application/json' };
    const ask = async (method: string, path: string, body?: object) => {
      const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await fetch(`${service.url}${path}`, init);
      return { status: response.status, body: (await response.json()) as Answer['body'] };
    };
    const rules = (await ask('GET', '/api/rules')).body.data.map(({ id }: { id: string }) => `/api/rules/${id}`);
    const reject = { action: { type: 'reject', message: 'short' } };
    const pairs: [string[], string, object][] = [
      [['/api/roles/large1', '/api/roles/large2'], 'PATCH', { description: 'short' }],
      [['/api/views/large1', '/api/views/large2'], 'PUT', { description: 'short' }],
      [rules, 'PATCH', reject],
    ];
    for (const [[one = '', two = ''], method, short] of pairs) {
      const list = await ask('GET', one.slice(0, one.lastIndexOf('/')));
      expect(list.status).toBe(200);
      expect(JSON.stringify(list.body)).toContain('x'.repeat(200_000));
      expect((await ask(method, one, short)).status).toBe(200);
      expect((await ask('DELETE', one)).status).toBe(200);
      expect((await ask('DELETE', two)).status).toBe(200);
    }
  });

  test('the roles of a tenant have at most 8 MiB together, and so have its views', async () => {
    const other = await service.tenant();
    await createEntity(other, 'task', fields('title text'));
    const text = `repeat('x', 60100)`;
    await runInSchema(
      service,
      other,
      `insert into roles (id, name, description, permissions, entities)
        select gen_random_uuid(), 'r' || i, ${text}, '{}', '{}' from generate_series(1, 139) as i;
      insert into platform.views (id, tenant_id, slug, entity_id, name, description, filter_dsl)
        select gen_random_uuid(), '${other.id}', 'v' || i, e.id, 'v', ${text}, '{"validate":[]}'
        from entity_definitions as e, generate_series(1, 139) as i where e.name = 'task'`,
    );
    await service.app.invalidations.publish('catalog', other.id);
    await service.app.invalidations.publish('role', other.id);
    await invalidationsReceived(service, other.id);
    const view = { entitySlug: 'task', slug: 'more', name: 'v', filterDsl: { validate: condition(20) } };
    const rowFilter = Array.from({ length: 15 }, () => `title != "${'x'.repeat(90)}"`).join(' AND ');
    const role = (name: string) => ({ name, permissions: {}, entities: { task: { rowFilter } }, description: null });
    expect((await other.post('/api/views', view)).body.error.message).toContain('8388608 bytes together');
    const large = { filterDsl: { validate: condition(20) } };
    expect((await other.put('/api/views/v2', { ...large, description: 'short' })).status).toBe(200);
    for (let i = 0; (await other.post('/api/roles', role(`more${i}`))).status === 201; i++) expect(i).toBeLessThan(40);
    const refused = await other.post('/api/roles', role('last'));
    expect([refused.status, refused.body.error.message]).toEqual([
      409,
      expect.stringContaining('8388608 bytes together'),
    ]);
    expect((await other.patch('/api/roles/r1', { description: 'short' })).status).toBe(200);
    expect((await other.post('/api/roles', role('last'))).status).toBe(201);
    // Not by the client that compares responses with the document: such descriptions are too long for it.
    const headers = { authorization: `Bearer ${other.key}` };
    const { result, stallMs } = await measureStall(async () => [
      (await fetch(`${service.url}/api/roles`, { headers })).status,
      (await fetch(`${service.url}/api/views`, { headers })).status,
    ]);
    expect(result).toEqual([200, 200]);
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  });

  test('the bots of a tenant have at most 8 MiB together, and the list shows no more than that of revoked ones', async () => {
    const other = await service.tenant();
    const insert = (name: string, revokedAt: string): string => `
      insert into platform.bots (id, tenant_id, name, secret_hash, permissions, revoked_at)
        select gen_random_uuid(), '${other.id}', '${name}-' || i, sha256((i || '${name}${other.id}')::bytea),
          jsonb_build_object('entities', jsonb_build_object('view:' || repeat('x', 60000), '["read"]'::jsonb)), ${revokedAt}
        from generate_series(1, 139) as i`;
    await runInSchema(service, other, `${insert('active', 'null')}; ${insert('former', 'now()')}`);
    const bot = (name: string, views: number) => ({
      name,
      tenantSlug: other.slug,
      permissions: { entities: Object.fromEntries(Array.from({ length: views }, (_, i) => [`view:v${i}`, ['read']])) },
    });
    const refused = await other.post('/api/auth/bots/register', bot('last', 2_500));
    expect([refused.status, refused.body.error.message]).toEqual([
      409,
      expect.stringContaining('8388608 bytes together'),
    ]);
    const small = await other.post('/api/auth/bots/register', bot('small', 1));
    expect(small.status).toBe(201);
    const larger = { permissions: bot('small', 2_500).permissions };
    expect((await other.patch(`/api/auth/bots/${small.body.data.id}`, larger)).status).toBe(409);
    // Not by the client that compares responses with the document: such names are too long for it.
    const answer = await fetch(`${service.url}/api/auth/bots`, { headers: { authorization: `Bearer ${other.key}` } });
    const { data } = (await answer.json()) as { data: { isActive: boolean }[] };
    expect(data.filter(({ isActive }) => isActive)).toHaveLength(140);
    const former = data.filter(({ isActive }) => !isActive).length;
    expect(former).toBeGreaterThan(100);
    expect(former * 60_000).toBeLessThan(8_388_608);
  });

  test('bots revoked more than an hour ago that are not listed keep no permissions, so that no number of them fills the disk', async () => {
    const other = await service.tenant();
    await runInSchema(
      service,
      other,
      `insert into platform.bots (id, tenant_id, name, secret_hash, permissions, revoked_at)
        select gen_random_uuid(), '${other.id}', 'former-' || i, '\\x00',
          jsonb_build_object('entities', p.entities), now() - make_interval(mins => 2 * i)
        from generate_series(1, 1600) as i,
          (select jsonb_object_agg('view:v' || n, '["read"]'::jsonb) as entities from generate_series(1, 100) as n) as p`,
    );
    const bytesOf = async () => {
      const rows = await service.app.db.rows<{ name: string; bytes: number }>(sql`
        select name, octet_length(permissions::text) as bytes from platform.bots where tenant_id = ${other.id}::uuid`);
      return new Map(rows.map(({ name, bytes }) => [name, bytes]));
    };
    const listed = (await other.get('/api/auth/bots')).body;
    const { signal } = new AbortController();
    while ((await cleanUpOnce(service.app, signal)) > 0);
    const kept = [...(await bytesOf())].filter(([, bytes]) => bytes > 1_000).map(([name]) => name);
    expect(kept.sort()).toEqual(Array.from({ length: LIMITS.bot.revokedShown }, (_, i) => `former-${i + 1}`).sort());
    expect((await bytesOf()).size).toBe(1_600);
    expect((await other.get('/api/auth/bots')).body).toEqual(listed);
  });

  test('the fields of an entity have at most 256 KiB, and a larger stored definition can be made smaller', async () => {
    const other = await service.tenant();
    const options = (n: number) => Array.from({ length: n }, (_, i) => String(i).padStart(200, 'o'));
    const choice = (key: string, n: number) => ({ key, type: 'select', options: options(n) });
    await createEntity(other, 'task', [choice('a', 500), choice('b', 500)]);
    const refused = await other.post('/api/entities/task/fields', choice('c', 500));
    expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining('262144 bytes')]);
    await runInSchema(service, other, `update field_definitions set description = repeat('d', 200000) where key = 'a'`);
    await service.app.invalidations.publish('catalog', other.id);
    await invalidationsReceived(service, other.id);
    expect((await other.post('/api/entities/task/fields', choice('c', 1))).status).toBe(400);
    expect((await other.patch('/api/entities/task/fields/a', { description: 'short' })).status).toBe(200);
    expect((await other.post('/api/entities/task/fields', choice('c', 1))).status).toBe(201);
  });

  test('the fields and rules of a tenant have at most 8 MiB, and their lists do not stall the service', async () => {
    const full = await service.tenant();
    const wide = { key: 'a', type: 'text', default: 'd'.repeat(16_000) };
    const definitions = Array.from({ length: 15 }, (_, i) => ({ ...wide, key: `k${i}` }));
    await createEntity(full, 'e0', definitions);
    await runInSchema(
      service,
      full,
      `insert into entity_definitions (id, name, next_slot)
        select gen_random_uuid(), 'e' || i, e.next_slot from entity_definitions as e, generate_series(1, 33) as i where e.name = 'e0';
      insert into field_definitions (id, entity_id, key, slot, type, position, default_value, rules)
        select gen_random_uuid(), e.id, f.key, f.slot, f.type, f.position, f.default_value, f.rules
        from field_definitions as f, entity_definitions as e where e.name <> 'e0' and f.key like 'k%'`,
    );
    await service.app.invalidations.publish('catalog', full.id);
    await invalidationsReceived(service, full.id);
    const { result, stallMs } = await measureStall(async () => ({
      refused: await full.post('/api/entities', { name: 'more', fields: [...definitions, wide] }),
      listed: await full.get('/api/entities'),
    }));
    expect([result.refused.status, result.refused.body.error.message]).toEqual([
      409,
      expect.stringContaining('8388608'),
    ]);
    expect(result.listed.body.data).toHaveLength(34);
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  });

  test('the entities of a tenant have at most 2,000 indexes in all', async () => {
    const full = await service.tenant();
    await createEntity(full, 'task', fields('title text', 'n integer'));
    const add = (field: object) => full.post('/api/entities/task/fields', { type: 'text', ...field });
    const declare = (...names: string[]) => full.patch('/api/entities/task', { indexes: [{ fields: names }] });
    await runInSchema(
      service,
      full,
      `insert into field_definitions (id, entity_id, key, slot, type, position, is_unique, is_indexed)
        select gen_random_uuid(), id, 'k' || i, 'f9' || i, 'text', 100 + i, true, true
        from entity_definitions, generate_series(1, ${LIMITS.indexes.perTenant / 2 - 1}) as i;
      insert into entity_definitions (id, name, next_slot) values (gen_random_uuid(), 'other', 1);
      update field_definitions set entity_id = (select id from entity_definitions where name = 'other') where key like 'k%'`,
    );
    await service.app.invalidations.publish('catalog', full.id);
    await invalidationsReceived(service, full.id);
    expect((await add({ key: 'both', unique: true, indexed: true })).status).toBe(201);
    const refused = [
      await add({ key: 'more', indexed: true }),
      await add({ key: 'to', type: 'relation', entity: 'task' }),
      await full.patch('/api/entities/task/fields/title', { unique: true }),
      await declare('title', 'n'),
      await full.post('/api/entities', { name: 'new', fields: [{ key: 'a', type: 'text', unique: true }] }),
      await full.post('/api/entities', { name: 'new', fields: fields('a text'), indexes: [{ fields: ['a'] }] }),
    ];
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 409));
    expect(refused[0]?.body.error.message).toContain('at most 2000 indexes');
    expect((await add({ key: 'plain' })).status).toBe(201);
    expect((await full.patch('/api/entities/task/fields/both', { indexed: false })).status).toBe(200);
    expect((await declare('title', 'n')).status).toBe(200);
  });

  test('40,000 fields are loaded, listed many times at once, and described for MCP without a stall', async () => {
    const full = await service.tenant();
    await runInSchema(
      service,
      full,
      `insert into entity_definitions (id, name, next_slot)
        select gen_random_uuid(), 'e' || i, 201 from generate_series(1, 200) as i;
      insert into field_definitions (id, entity_id, key, slot, type, position)
        select gen_random_uuid(), e.id, 'k' || i, 'f' || i, 'text', i
        from entity_definitions as e, generate_series(1, 200) as i`,
    );
    await service.app.invalidations.publish('catalog', full.id);
    await invalidationsReceived(service, full.id);
    const headers = { authorization: `Bearer ${full.key}`, accept: 'application/json, text/event-stream' };
    const sizeOf = async (path: string, init: RequestInit = {}) =>
      (await (await fetch(`${service.url}${path}`, { headers, ...init })).arrayBuffer()).byteLength;
    const call = (name: string, input: object = {}) =>
      sizeOf('/mcp', {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } }),
      });
    const { result, stallMs } = await measureStall(async () => [
      await sizeOf('/api/entities'),
      ...(await Promise.all(Array.from({ length: 10 }, () => sizeOf('/api/entities')))),
      await call('get_rest_api_spec', { detail: 'full' }),
      await call('generate_api_client'),
    ]);
    expect(Math.min(...result.slice(0, 11))).toBeGreaterThan(4_000_000);
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  }, 60_000);

  test('a bot and a platform API have at most 64 KiB, and the bots revoked last are listed', async () => {
    const other = await service.tenant();
    const resources = (n: number) => Array.from({ length: n }, (_, i) => `agent:${String(i).padStart(20, 'x')}`);
    const bot = (n: number) => ({
      name: next(),
      tenantSlug: other.slug,
      permissions: { entities: Object.fromEntries(resources(n).map((resource) => [resource, ['read']])) },
    });
    expect((await other.post('/api/auth/bots/register', { ...bot(1_000), name: 'fits' })).status).toBe(201);
    const refusedBot = await other.post('/api/auth/bots/register', { ...bot(2_000), name: 'large' });
    expect([refusedBot.status, refusedBot.body.error.message]).toEqual([400, expect.stringContaining('65536 bytes')]);
    const api = (n: number, slug: string) => ({
      name: slug,
      slug,
      roles: ['reader'],
      permissions: Object.fromEntries(resources(n).map((resource) => [resource, { reader: ['read'] }])),
    });
    const fitting = await other.post('/api/apis', api(1_000, 'fits'));
    expect(fitting.status).toBe(201);
    expect((await other.post('/api/apis', api(2_000, 'large'))).body.error.message).toContain('65536 bytes');
    const { permissions } = api(2_000, 'large');
    const changed = await other.patch(`/api/apis/${fitting.body.data.id}`, { permissions });
    expect([changed.status, changed.body.error.message]).toEqual([400, expect.stringContaining('65536 bytes')]);
    await runInSchema(
      service,
      other,
      `insert into platform.bots (id, tenant_id, name, secret_hash, permissions, revoked_at)
        select gen_random_uuid(), '${other.id}', 'old-' || i, '\\x00', '{"entities":{}}', now() - make_interval(secs => i)
        from generate_series(1, 600) as i`,
    );
    const listed = (await other.get('/api/auth/bots')).body.data as { name: string }[];
    expect(listed).toHaveLength(LIMITS.bot.revokedShown + 1);
    expect(listed.map(({ name }) => name)).toContain('old-1');
    expect(listed.map(({ name }) => name)).not.toContain('old-501');
  });
});
