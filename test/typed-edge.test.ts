// The types of the HTTP edge, as a client of `Api` gets them: what tsc must accept and must refuse. The
// same calls run against a service, so that the types agree with what is answered.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { treaty } from '@elysiajs/eden';
import type { Api } from '../src/api.ts';
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

test('a call is typed from body to answer', async () => {
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
