// The types of the HTTP API as a client of `Api` gets them: what tsc must accept and what it must reject. The same calls
// run against a service, which checks that the types agree with the responses.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { treaty } from '@elysiajs/eden';
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { Api } from '../src/api.ts';
import { guard } from '../src/http/guard.ts';
import { ok } from '../src/http/reply.ts';
import { route } from '../src/http/route.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
const client = () => treaty<Api>(service.url, { headers: { 'x-api-key': tenant.key } });
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'status', type: 'text' }] });
});
afterAll(async () => service.stop());

test('a call is typed from request body to response', async () => {
  const validate = [{ condition: 'status = "open"' }];
  const made = await client().api.views.post({
    entitySlug: 'task',
    slug: 'open',
    name: 'Open',
    filterDsl: { validate },
  });
  const view = made.data?.data;
  const name: string | undefined = view?.name;
  expect([made.status, name, view?.filterDsl.validate[0]?.condition]).toEqual([201, 'Open', 'status = "open"']);
  // @ts-expect-error a view has no such member
  expect(view?.title).toBeUndefined();
  const gone = await client().api.views({ slug: 'open' }).delete();
  const deleted: true | undefined = gone.data?.data.deleted;
  expect(deleted).toBe(true);
});

test('a body with a missing, unknown or wrongly typed member does not compile, and is a 400', async () => {
  // @ts-expect-error `slug` and `name` are required
  expect((await client().api.views.post({ entitySlug: 'task' })).status).toBe(400);
  const unknown = { entitySlug: 'task', slug: 'open', name: 'Open' };
  // @ts-expect-error `label` is not a member
  expect((await client().api.views.post({ ...unknown, label: 'x' })).status).toBe(400);
  // @ts-expect-error a name is a text
  const { error } = await client().api.views.post({ ...unknown, name: 7 });
  const code: string | undefined = error?.value.error.code;
  expect([error?.status, code, error?.value.error.details?.[0]?.path]).toEqual([400, 'VALIDATION_ERROR', 'name']);
});

test('queries are typed: numbers and flags, no unknown parameter', async () => {
  const records = client().api.entities({ entityName: 'task' }).records;
  await records.post({ status: 'open' });
  const page = await records.get({ query: { page: 1, limit: 5, count: 'exact', resolve: true } });
  const total: number | null | undefined = page.data?.data.total;
  const id: string | undefined = page.data?.data.items[0]?.id;
  expect([page.status, total, typeof id]).toEqual([200, 1, 'string']);
  // @ts-expect-error a page is a number
  expect((await records.get({ query: { page: 'first' } })).status).toBe(400);
  // @ts-expect-error `offset` is not a parameter
  expect((await records.get({ query: { offset: 3 } })).status).toBe(400);
});

test('closed sets are literal types', async () => {
  const { data } = await client().api.rules.post({
    name: 'no',
    entity: 'task',
    trigger: 'before_delete',
    action: { type: 'reject', message: 'tasks stay' },
  });
  const trigger: 'before_delete' | 'before_create' | 'before_update' | `after_${string}` | undefined =
    data?.data.trigger;
  expect(trigger).toBe('before_delete');
  const draft = { name: 'x', entity: 'task', action: { type: 'reject' as const, message: 'm' } };
  // @ts-expect-error `sometimes` is not a trigger
  expect((await client().api.rules.post({ ...draft, trigger: 'sometimes' })).status).toBe(400);
});

test('a handler’s caller has the type that the access admits', () => {
  const base = { id: 'x', tag: 'Operations', summary: 'X', ok: [200, Type.String()] } as const;
  const api = new Elysia()
    .use(guard(service.app))
    .get('/tenant', async ({ caller }) => ok(caller.tenant.id), route({ ...base, access: 'tenant' }))
    // @ts-expect-error a platform credential may have no tenant
    .get('/any', async ({ caller }) => ok(caller.tenant.id), route({ ...base, access: 'any' }))
    // @ts-expect-error the route answers a text
    .get('/number', async () => ok(7), route({ ...base, access: 'tenant' }));
  expect(api.routes.map(({ path }) => path)).toEqual(['/tenant', '/any', '/number']);
});
