// Every route and method with every kind of credential: who is admitted, and which error the others get. The rows are the
// service's own routes; support/access-decisions states the expected outcome of each cell.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createApi } from '../src/api.ts';
import { isOfConsole } from '../src/console/routes.ts';
import { DECISIONS, type Decision, expected } from './support/access-decisions.ts';
import {
  addRole,
  adminSession,
  botToken,
  type Credentials,
  everyKind,
  platformKey,
  publicKey,
  userToken,
} from './support/credentials.ts';
import { ADMIN_SECRET, type Answer, startService, type TestService, type TestTenant } from './support/service.ts';

interface Route {
  method: string;
  path: string;
  decision: Decision | undefined;
}

let service: TestService;
let tenant: TestTenant;
let recordId: string;
let credentials: Credentials;
let routes: Route[];

beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
  await tenant.post('/api/views', { entitySlug: 'task', slug: 'all', name: 'All' });
  const operations = Array.from({ length: 100 }, (_, i) => ({ op: 'create', data: { title: `task ${i}` } }));
  const made = await tenant.post('/api/entities/task/records/bulk', { operations });
  recordId = made.body.data.results[0].id;
  credentials = { ...(await everyKind(service, tenant)), ...(await weakKinds()) };
  credentials.super_in_tenant = { 'x-admin-secret': ADMIN_SECRET, 'x-tenant-id': tenant.slug };
  const known = createApi(service.app).routes as unknown as { method: string; path: string }[];
  const ofApi = known.filter(({ path }) => !isOfConsole(path));
  routes = ofApi.map(({ method, path }) => ({ method, path, decision: DECISIONS.get(`${method} ${path}`) }));
});
afterAll(async () => service.stop());

/** Valid credentials without any permission. */
async function weakKinds(): Promise<Credentials> {
  const role = await addRole(service, tenant, { permissions: {} });
  const authorization = (value: string) => ({ authorization: `Bearer ${value}` });
  return {
    weak_user: authorization(await userToken(service, tenant, role.name)),
    weak_platform_key: authorization(await platformKey(service, tenant, role.name, {})),
    weak_bot: authorization(await botToken(service, tenant, {})),
    weak_public_key: { 'x-public-key': await publicKey(service, tenant, role.id) },
  };
}

const VALUES: Readonly<Record<string, string>> = { entityName: 'task', key: 'title', name: 'nobodys-role', file: 'x' };

/** The path with its parameters filled in; record ids are those of an existing record. */
function filled(path: string): string {
  const isRecord = path.includes('/records/:id');
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    if (name === 'slug') return path.startsWith('/api/views') ? 'all' : tenant.slug;
    if (name === 'id' && isRecord) return recordId;
    return VALUES[name] ?? crypto.randomUUID();
  });
}

async function request({ method, path }: Route, headers: Record<string, string>): Promise<Answer> {
  const client = service.anonymous.with({ ...headers, 'x-request-id': 'matrix' });
  if (path.endsWith('/import')) {
    return client.request(method, filled(path), '{"title":"imported"}\n', { 'content-type': 'application/x-ndjson' });
  }
  return client.request(method, filled(path), method === 'GET' || method === 'DELETE' ? undefined : {});
}

test('every route has an expected outcome', () => {
  const undecided = routes.filter(({ decision }) => decision === undefined);
  expect(undecided.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
});

test('open routes need no credential; all others answer 401 without one', async () => {
  const wrong: string[] = [];
  for (const route of routes.filter(({ decision }) => decision !== undefined && decision !== 'own')) {
    const { status } = await request(route, {});
    const isRight = route.decision === 'open' ? status !== 401 : status === 401;
    if (!isRight) wrong.push(`${route.method} ${route.path}: ${status}`);
  }
  expect(wrong).toEqual([]);
});

describe('each credential is admitted to its own routes and to no others', () => {
  const kinds = [
    ...['owner_key', 'platform_key', 'public_key', 'legacy_public_key', 'user', 'admin_user', 'developer', 'bot'],
    ...['admin_session', 'admin_key', 'super_admin', 'super_in_tenant'],
    ...['weak_user', 'weak_platform_key', 'weak_bot', 'weak_public_key'],
  ];
  test.each(kinds)(
    '%s',
    async (kind) => {
      const wrong: string[] = [];
      let cells = 0;
      for (const route of routes) {
        const { method, path, decision } = route;
        if (decision === undefined || decision === 'open' || decision === 'own') continue;
        let headers = credentials[kind] as Record<string, string>;
        if (decision === 'session' && kind === 'admin_session') {
          headers = { authorization: `Bearer ${await adminSession(service, tenant)}` };
        }
        const cell = expected(decision, method, kind);
        const { status } = await request(route, headers);
        const isRight = cell === 'in' ? status !== 401 && status !== 403 && status < 500 : status === cell;
        if (!isRight) wrong.push(`${method} ${path}: ${status}, should be ${cell}`);
        cells += 1;
      }
      expect(wrong).toEqual([]);
      expect(cells).toBeGreaterThan(40);
    },
    120_000,
  );
});

test('a bulk request needs the permission of each of its operations', async () => {
  const operations = [
    { op: 'create', data: { title: 'new' } },
    { op: 'update', id: recordId, data: { title: 'changed' } },
    { op: 'delete', id: recordId },
  ];
  const before = (await tenant.get('/api/entities/task/records?limit=1')).body.data.total;
  for (const kind of ['weak_user', 'weak_platform_key', 'weak_bot', 'public_key', 'admin_key']) {
    for (const operation of operations) {
      const client = service.anonymous.with(credentials[kind] as Record<string, string>);
      const answer = await client.post('/api/entities/task/records/bulk', { operations: [operation] });
      expect(answer.status, `${kind} ${operation.op}`).toBeOneOf([400, 401, 403]);
      expect(answer.body.success).toBe(false);
    }
  }
  expect((await tenant.get('/api/entities/task/records?limit=1')).body.data.total).toBe(before);
});

describe('a tenant', () => {
  const PLATFORM = ['admin_key', 'super_admin'];

  async function statuses(kinds: Credentials): Promise<Record<string, number[]>> {
    const found: Record<string, number[]> = {};
    for (const [kind, headers] of Object.entries(kinds)) {
      if (PLATFORM.includes(kind)) continue;
      const client = service.anonymous.with(headers);
      const paths = ['/api/auth/whoami', '/api/views', '/api/entities'];
      const answers = await Promise.all(paths.map((path) => client.get(path)));
      found[kind] = answers.map(({ status }) => status);
    }
    return found;
  }

  function all(kinds: Credentials, status: number): Record<string, number[]> {
    const bound = Object.keys(kinds).filter((kind) => !PLATFORM.includes(kind));
    return Object.fromEntries(bound.map((kind) => [kind, [status, status, status]]));
  }

  test('that is suspended gets 403 for every request until it is active again', async () => {
    const other = await service.tenant();
    const kinds = await everyKind(service, other);
    expect(await statuses(kinds)).toEqual(all(kinds, 200));
    const path = `/api/admin/platform/tenants/${other.slug}`;
    expect((await service.admin.patch(path, { status: 'suspended' })).status).toBe(200);
    expect(await statuses(kinds)).toEqual(all(kinds, 403));
    await service.admin.patch(path, { status: 'active' });
    expect(await statuses(kinds)).toEqual(all(kinds, 200));
  });

  test('that is deleted leaves no valid credential behind', async () => {
    const other = await service.tenant();
    const kinds = await everyKind(service, other);
    expect(await statuses(kinds)).toEqual(all(kinds, 200));
    await service.admin.delete(`/api/admin/platform/tenants/${other.slug}?confirm=${other.slug}`);
    expect(await statuses(kinds)).toEqual(all(kinds, 401));
  });
});
