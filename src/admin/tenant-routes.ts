// The platform's routes for managing tenants: create, list, read, change, delete; and a tenant's own settings.
// Failures: 400 with every problem, 404, 409.
// Contract: decisions#tenants.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { mayTakeLong } from '../http/own-idle.ts';
import { parameters } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted, pageSchema } from '../http/schemas.ts';
import { deleteTenant } from './tenant-deletion.ts';
import {
  CreatedTenant,
  createTenant,
  getOwnTenant,
  getTenant,
  listTenants,
  NewTenant,
  OwnTenantChange,
  OwnTenantSchema,
  ownView,
  TenantChange,
  TenantFilter,
  TenantSchema,
  updateOwnTenant,
  updateTenant,
} from './tenants.ts';

const TAG = 'Tenants';

const CREATE = route({
  id: 'createTenant',
  tag: TAG,
  summary: 'Create a tenant',
  description: 'The answer contains the tenant’s first owner key, which is shown once.',
  access: 'tenants:manage',
  body: NewTenant,
  ok: [201, CreatedTenant],
  errors: ['CONFLICT'],
});
const LIST = route({
  id: 'listTenants',
  tag: TAG,
  summary: 'List tenants',
  access: 'platform:read',
  query: TenantFilter,
  ok: [200, pageSchema(TenantSchema)],
});
const READ = route({
  pathExamples: { slug: 'demo' },
  id: 'getTenantBySlug',
  tag: TAG,
  summary: 'Get a tenant',
  access: 'platform:read',
  ok: [200, TenantSchema],
});
const UPDATE = route({
  id: 'updateTenantBySlug',
  tag: TAG,
  summary: 'Change a tenant',
  access: 'tenants:manage',
  body: TenantChange,
  example: { name: 'Demo', status: 'active', settings: { passwordReset: true }, quotas: { requestsPerMin: 60_000 } },
  pathExamples: { slug: 'demo' },
  ok: [200, TenantSchema],
  errors: ['CONFLICT'],
});
const DELETE = route({
  id: 'deleteTenant',
  tag: TAG,
  summary: 'Delete a tenant and all of its data',
  access: 'tenants:manage',
  query: parameters({ confirm: Type.Optional(Type.String({ description: 'repeats the slug', examples: ['acme'] })) }),
  ok: [200, Deleted],
});
const READ_OWN = route({
  id: 'getTenant',
  tag: TAG,
  summary: 'Get the caller’s tenant',
  access: 'admin',
  ok: [200, OwnTenantSchema],
});
const UPDATE_OWN = route({
  id: 'updateTenant',
  tag: TAG,
  summary: 'Change the caller’s tenant',
  access: 'admin',
  body: OwnTenantChange,
  example: { name: 'Demo', settings: { selfRegistration: true, passwordReset: true, customDomain: 'demo.acme.test' } },
  ok: [200, OwnTenantSchema],
  errors: ['CONFLICT'],
});

const TENANTS = '/api/admin/platform/tenants';
const TENANT = '/api/admin/platform/tenants/:slug';
const OWN = '/api/tenant';

export function tenantRoutes(app: App) {
  return new Elysia({ name: 'tenants' })
    .use(guard(app))
    .post(TENANTS, async ({ body }) => created(await createTenant(app, body)), CREATE)
    .get(TENANTS, async ({ query }) => ok(await listTenants(app, query)), LIST)
    .get(TENANT, async ({ params }) => ok(await getTenant(app, params.slug)), READ)
    .patch(
      TENANT,
      async ({ params, body, request }) => {
        // Releases the deliveries that wait for a higher quota.
        await mayTakeLong(app, request, () => updateTenant(app, params.slug, body));
        return ok(await getTenant(app, params.slug));
      },
      UPDATE,
    )
    .delete(
      TENANT,
      async ({ params, query, request }) => {
        const id = await mayTakeLong(app, request, () => deleteTenant(app, params.slug, query.confirm));
        return ok({ id, deleted: true });
      },
      DELETE,
    )
    .get(OWN, async ({ caller }) => ok(ownView(await getOwnTenant(app, caller))), READ_OWN)
    .patch(OWN, async ({ caller, body }) => ok(ownView(await updateOwnTenant(app, caller, body))), UPDATE_OWN);
}
