// Isolation of two tenants: with every kind of credential of one, and every way to name the other, no response
// contains data of the other. Everything a tenant stores contains canary values.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createApi } from '../src/api.ts';
import { EMPTY, identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { botToken, type Credentials, everyKind, platformKey, publicKey, userToken } from './support/credentials.ts';
import { ADMIN_SECRET, type Answer, startService, type TestService, type TestTenant } from './support/service.ts';

const CANARY = `canary${crypto.randomUUID().slice(0, 8)}`;

interface Ids {
  record: string;
  entity: string;
  view: string;
  key: string;
  role: string;
  user: string;
  token: string;
}

let service: TestService;
let a: TestTenant;
let b: TestTenant;
let ofA: Credentials;
let ofB: Ids;

beforeAll(async () => {
  service = await startService();
  a = await service.tenant();
  b = await service.tenant({ slug: `${CANARY}-b`, name: `${CANARY} b` });
  await service.admin.patch(`/api/admin/platform/tenants/${b.slug}`, {
    settings: { customDomain: `${CANARY}.example`, customDomainVerified: true },
  });
  for (const tenant of [a, b]) {
    await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
  }
  await a.post('/api/entities/task/records', { title: 'of a' });
  await a.post('/api/views', { entitySlug: 'task', slug: 'all', name: 'All' });
  ofA = await everyKind(service, a);
  ofB = await fillB();
});
afterAll(async () => service.stop());

/** Everything that a tenant can store, under the names and ids that A's requests try. */
async function fillB(): Promise<Ids> {
  await b.post('/api/entities', { name: CANARY, fields: [{ key: CANARY, type: 'text', unique: true }] });
  const record = await b.post(`/api/entities/${CANARY}/records`, { [CANARY]: CANARY });
  await b.post('/api/entities/task/records', { title: CANARY });
  const entity = await b.get(`/api/entities/${CANARY}`);
  const filterDsl = { validate: [{ condition: `title != "${CANARY}x"` }] };
  await b.post('/api/views', { entitySlug: 'task', slug: 'all', name: CANARY, filterDsl });
  await b.post('/api/views', { entitySlug: 'task', slug: CANARY, name: CANARY, filterDsl });
  const key = await b.post('/api/keys', { label: CANARY });
  await b.post('/api/roles', { name: CANARY, permissions: { '*': ['read'] } });
  const user = await b.post('/api/users', {
    email: `${CANARY}@example.com`,
    name: CANARY,
    role: 'owner',
    password: `${CANARY} password`,
  });
  const invited = await b.post('/api/invitations', { email: `${CANARY}@example.org` }, { 'x-tenant-id': b.slug });
  const made = [record, entity, key, user, invited];
  expect(made.map(({ status }) => status)).toEqual([201, 200, 201, 201, 201]);
  const [recordId, entityId, keyId, userId] = made.map(({ body }) => body.data.id as string) as [
    string,
    string,
    string,
    string,
  ];
  const { token } = invited.body.data;
  return { record: recordId, entity: entityId, view: CANARY, key: keyId, role: CANARY, user: userId, token };
}

/** The tenant-bound kinds: all but those of the platform. */
const bound = (): [string, Record<string, string>][] =>
  Object.entries(ofA).filter(([kind]) => kind !== 'admin_key' && kind !== 'super_admin');

function leaks(answer: Answer, sent: string): boolean {
  // The response may repeat what the request contained, but nothing else of B's.
  const received = `${answer.text} ${[...answer.headers.values()].join(' ')}`.replaceAll(sent, '');
  return (
    received.includes(CANARY) ||
    received.includes(ofB.record) ||
    received.includes(ofB.user) ||
    received.includes(ofB.entity)
  );
}

describe('tenant context', () => {
  const foreign: [string, (slug: string) => Record<string, string>][] = [
    ['X-Tenant-ID', (slug) => ({ 'x-tenant-id': slug })],
    ['X-Tenant-Slug', (slug) => ({ 'x-tenant-slug': slug })],
    ['both headers', (slug) => ({ 'x-tenant-id': slug, 'x-tenant-slug': slug })],
    ['X-Tenant-ID, with its own slug in X-Tenant-Slug', (slug) => ({ 'x-tenant-id': slug, 'x-tenant-slug': a.slug })],
  ];

  test.each(foreign)(
    'a bound credential and another tenant in %s: 403, whether that tenant exists or not',
    async (_, name) => {
      for (const [kind, headers] of bound()) {
        const client = service.anonymous.with({ ...headers, 'x-request-id': 'apart' });
        const texts = new Set<string>();
        const others = [b.slug, 'no-such-tenant', a.slug.toUpperCase(), `../${a.slug}`, `${a.slug}/`, b.id, a.id, ''];
        for (const slug of others) {
          for (const path of ['/api/entities/task/records', '/api/auth/whoami', '/api/views']) {
            const answer = await client.get(path, name(slug));
            expect(answer.status, `${kind} ${path} ${slug}`).toBe(403);
            texts.add(answer.text);
          }
        }
        expect(texts.size).toBe(1);
      }
    },
  );

  test('a credential’s own slug in either header, or no header, selects its tenant', async () => {
    const naming: Record<string, string>[] = [
      {},
      { 'x-tenant-id': a.slug },
      { 'x-tenant-slug': a.slug },
      { 'x-tenant-id': ` ${a.slug} ` },
    ];
    for (const [kind, headers] of bound()) {
      for (const named of naming) {
        const answer = await service.anonymous.with(headers).get('/api/auth/whoami', named);
        expect(answer.status, kind).toBe(200);
        expect(answer.body.data.tenant.slug).toBe(a.slug);
      }
    }
  });

  test('the host of another tenant is refused like its header', async () => {
    for (const [kind, headers] of bound()) {
      const answer = await service.anonymous.with(headers).get('/api/auth/whoami', { host: `${CANARY}.example` });
      expect(answer.status, kind).toBe(403);
    }
    const own = await b.get('/api/auth/whoami', { host: `${CANARY}.example` });
    expect(own.status).toBe(200);
  });

  test('two differing slugs in one header: 400', async () => {
    for (const [kind, headers] of bound()) {
      const answer = await service.anonymous
        .with(headers)
        .get('/api/auth/whoami', { 'x-tenant-id': `${a.slug}, ${b.slug}` });
      expect(answer.status, kind).toBe(400);
    }
  });

  test('an unbound credential names its tenant; an unknown slug is 404, a missing one 400', async () => {
    const path = '/api/entities/task/records';
    expect((await service.admin.get(path, { 'x-tenant-id': a.slug })).body.data.total).toBe(1);
    expect((await service.admin.get(path, { 'x-tenant-id': 'no-such-tenant' })).status).toBe(404);
    expect((await service.admin.get(path)).status).toBe(400);
  });
});

describe('credentials', () => {
  test('any two credentials in one request are refused', async () => {
    const values = await presentations();
    let pairs = 0;
    for (const [first, one] of values) {
      for (const [second, other] of values) {
        const [name] = Object.keys(one) as [string];
        if (name === Object.keys(other)[0]) continue;
        const isAdminPair =
          [first, second].includes('x-admin-secret') && [first, second].some((kind) => kind.startsWith('admin key'));
        if (isAdminPair) continue;
        const answer = await service.anonymous.get('/api/auth/whoami', { ...one, ...other });
        expect(answer.status, `${first} and ${second}`).toBe(401);
        pairs += 1;
      }
    }
    expect(pairs).toBeGreaterThan(60);
  });

  /** Every way to present a credential of A or of the platform, by name. */
  async function presentations(): Promise<[string, Record<string, string>][]> {
    const key = (ofA.admin_key as Record<string, string>)['x-admin-key'] as string;
    return [
      ...Object.entries(ofA)
        .filter(([kind]) => kind !== 'admin_key' && kind !== 'super_admin')
        .map(([kind, headers]): [string, Record<string, string>] => [kind, headers]),
      ['owner key as bearer', { authorization: `Bearer ${a.key}` }],
      ['admin key in X-Admin-Key', { 'x-admin-key': key }],
      ['admin key as AdminKey', { authorization: `AdminKey ${key}` }],
      ['x-admin-secret', { 'x-admin-secret': ADMIN_SECRET }],
    ];
  }

  test('a value in the header of another kind, or with a similar prefix, is not accepted', async () => {
    const role = await b.get('/api/roles/viewer');
    const user = await userToken(service, a, 'viewer');
    const bot = await botToken(service, a, {});
    const pkey = await platformKey(service, a, 'viewer', { '*': ['read'] });
    const pk = await publicKey(service, a, role.body.data.id);
    const { 'x-admin-key': adm } = ofA.admin_key as { 'x-admin-key': string };
    const wrong: Record<string, string>[] = [
      ...[adm, a.key.slice(7), a.key.slice(0, -1), `${a.key}x`, a.key.toUpperCase(), ADMIN_SECRET, ofB.token].map(
        (value) => ({
          authorization: `Bearer ${value}`,
        }),
      ),
      ...[
        pkey.replace('svc_pkey_', 'svc_pk_'),
        pk.replace('svc_pk_', 'svc_pkey_'),
        pk.replace('svc_pk_', 'svc_ak_'),
      ].map((value) => ({ authorization: `Bearer ${value}` })),
      ...[user, bot, pkey, pk, adm, ADMIN_SECRET].map((value) => ({ 'x-api-key': value })),
      ...[user, pkey, a.key, adm].map((value) => ({ 'x-public-key': value })),
      ...[user, pkey, a.key, adm].map((value) => ({ 'x-anon-key': value })),
      ...[user, pkey, a.key, pk, ADMIN_SECRET, adm.slice(0, 17)].map((value) => ({ 'x-admin-key': value })),
      ...[user, pkey, a.key, pk, adm, `${ADMIN_SECRET}x`, ''].map((value) => ({ 'x-admin-secret': value })),
      ...[user, pkey, a.key, pk].map((value) => ({ authorization: `AdminKey ${value}` })),
      ...['Basic YTpi', 'Bearer', 'Bearer ', `Bearer ${user} ${user}`, a.key, `Token ${a.key}`, ''].map(
        (authorization) => ({
          authorization,
        }),
      ),
    ];
    for (const headers of wrong) {
      const answer = await service.anonymous.get('/api/auth/whoami', headers);
      expect(answer.status, JSON.stringify(headers)).toBe(401);
    }
  });
});

describe('every route', () => {
  /** Paths with B's ids and names as parameters. */
  function pathsToB(path: string): string[] {
    if (!path.includes(':')) return [path];
    const values: Record<string, string[]> = {
      entityName: [CANARY, 'task'],
      id: [ofB.record, ofB.key, ofB.user],
      slug: [CANARY, b.slug, 'all'],
      name: [ofB.role],
      key: [CANARY],
      token: [ofB.token],
    };
    let paths = [path];
    for (const [, name] of path.matchAll(/:(\w+)/g)) {
      const choices = values[name as string] ?? [ofB.record];
      paths = paths.flatMap((partial) => choices.map((value) => partial.replace(`:${name}`, value)));
    }
    return paths;
  }

  test('shows nothing of B to any credential of A, and changes nothing in B', async () => {
    const isApart = ({ path }: { path: string }): boolean =>
      // Two routes are open to anyone with an invitation's token; streams do not end.
      !path.startsWith('/auth/invite') && !path.includes('/events/stream') && path !== '/api/admin/sessions/current';
    const routes = (createApi(service.app).routes as unknown as { method: string; path: string }[]).filter(isApart);
    const before = await everythingOfB();
    const clients: [string, Record<string, string>][] = [
      ...bound(),
      ['super_in_tenant', { 'x-admin-secret': ADMIN_SECRET, 'x-tenant-id': a.slug }],
    ];
    const leaking: string[] = [];
    let requests = 0;
    for (const [kind, headers] of clients) {
      for (const { method, path } of routes) {
        // Operators see all tenants there.
        if (kind === 'super_in_tenant' && (path.startsWith('/api/admin/') || path === '/metrics')) continue;
        if (!['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].includes(method)) continue;
        for (const filled of pathsToB(path)) {
          const isTry = !filled.includes('*') && !(path === '/api/tenant' && method === 'PATCH');
          if (!isTry) continue;
          const answer = await attempt(method, filled, headers);
          requests += 1;
          const sent = [CANARY, ofB.record, ofB.user].find((value) => filled.includes(value)) ?? '\0';
          if (leaks(answer, sent)) leaking.push(`${kind} ${method} ${filled}: ${answer.text.slice(0, 300)}`);
        }
      }
    }
    expect(leaking).toEqual([]);
    expect(requests).toBeGreaterThan(500);
    expect(await everythingOfB()).toEqual(before);
  });

  async function attempt(method: string, path: string, headers: Record<string, string>): Promise<Answer> {
    const body = method === 'GET' || method === 'DELETE' ? undefined : {};
    return service.anonymous.with(headers).request(method, path, body);
  }

  async function everythingOfB(): Promise<unknown[]> {
    const paths = [
      'entities',
      `entities/${CANARY}/records`,
      'entities/task/records',
      'views',
      'keys',
      'roles',
      'users',
      'tenant',
    ];
    const answers = await Promise.all([...paths, 'invitations'].map((path) => b.get(`/api/${path}`)));
    // This very look counts as a use of B's key.
    return answers.map(({ text }) => JSON.parse(text, (name, value) => (name === 'lastUsedAt' ? null : value)));
  }
});

test('a unique value of B can be used in A, and no relation in A can refer to a record of B', async () => {
  await a.post('/api/entities', { name: 'own', fields: [{ key: 'code', type: 'text', unique: true }] });
  expect((await a.post('/api/entities/own/records', { code: CANARY })).status).toBe(201);
  await a.post('/api/entities', { name: 'link', fields: [{ key: 'to', type: 'relation', entity: 'own' }] });
  const refused = await a.post('/api/entities/link/records', { to: ofB.record });
  expect(refused.status).toBe(400);
  expect(
    (await a.post('/api/entities', { name: 'link2', fields: [{ key: 'to', type: 'relation', entity: CANARY }] }))
      .status,
  ).toBe(400);
});

test('neither the log nor the database contains a secret', async () => {
  const log = `${service.logged.join('\n')}\n${await everythingStored()}`;
  expect(log).toContain(CANARY);
  const secrets = [a.key, b.key, ADMIN_SECRET, ofB.token, `${CANARY} password`];
  for (const headers of Object.values(ofA))
    secrets.push(...Object.values(headers).map((value) => value.replace(/^\w+ /, '')));
  for (const secret of secrets) expect(log).not.toContain(secret);
});

/** Every row of the platform's tables and of both tenants' tables, as text, without other tests' tenants. */
async function everythingStored(): Promise<string> {
  const schemas = ['platform', schemaOf(a.id), schemaOf(b.id)];
  const tables = await service.app.db.rows<{ schema: string; name: string; is_shared: boolean }>(sql`
    select t.table_schema as schema, t.table_name as name, exists (
      select from information_schema.columns as c
      where c.table_schema = t.table_schema and c.table_name = t.table_name and c.column_name = 'tenant_id'
    ) as is_shared
    from information_schema.tables as t
    where t.table_schema = any(${schemas}::text[]) and t.table_type = 'BASE TABLE'`);
  const texts: string[] = [];
  for (const { schema, name, is_shared: isShared } of tables) {
    const own = isShared ? sql`where x.tenant_id is null or x.tenant_id = any(${[a.id, b.id]}::uuid[])` : EMPTY;
    const rows = await service.app.db.slow.rows<{ text: string }>(sql`
      select to_jsonb(x)::text as text from ${identifier(schema, name)} as x ${own}`);
    texts.push(...rows.map(({ text }) => text));
  }
  return texts.join('\n');
}
