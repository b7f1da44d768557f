// The platform's routes on tenants: create, list, read, change, delete; and a tenant's own settings.
// Bodies are checked by the operations, which name every fault at once.
// Contract: decisions#tenants.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { Deleted, describe, nullable, open, pageSchema, Timestamp, Uuid } from '../http/openapi.ts';
import { integerParameter } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { createTenant, deleteTenant, getTenant, listTenants, SLUG_PATTERN, updateTenant } from './tenants.ts';

const Slug = Type.String({ pattern: SLUG_PATTERN.source, examples: ['acme'] });
const Name = Type.String({ minLength: 1, maxLength: LIMITS.tenant.nameMax, examples: ['Acme Ltd'] });
const Status = Type.Union([Type.Literal('active'), Type.Literal('suspended')]);
const Settings = Type.Object(
  {
    selfRegistration: Type.Optional(Type.Boolean({ examples: [false] })),
    passwordReset: Type.Optional(Type.Boolean({ examples: [false] })),
    customDomain: Type.Optional(nullable(Type.String({ examples: ['data.acme.test'] }))),
  },
  { $id: 'TenantSettings' },
);
const OwnTenant = {
  id: Uuid,
  slug: Slug,
  name: Name,
  status: Status,
  settings: Settings,
  createdAt: Timestamp,
  updatedAt: Timestamp,
};
const OwnTenantSchema = Type.Object(OwnTenant, { $id: 'OwnTenant' });
const Count = Type.Integer({ minimum: 0 });
const TenantSchema = Type.Object(
  { ...OwnTenant, counts: Type.Object({ entities: Count, records: Count, users: Count }) },
  { $id: 'Tenant' },
);
const CreatedTenant = Type.Object({
  id: Uuid,
  slug: Slug,
  name: Name,
  apiKey: Type.String({ description: 'shown once', examples: ['svc_ak_9fQ2...'] }),
});

const { min: minLength, max: maxLength } = LIMITS.password;
const Owner = Type.Object({
  email: Type.String({ examples: ['ada@acme.test'] }),
  password: Type.String({ minLength, maxLength, examples: ['correct horse battery'] }),
  name: Type.String({ examples: ['Ada Byron'] }),
});
const NewTenant = Type.Object(
  { slug: Slug, name: Name, settings: Type.Optional(Settings), owner: Type.Optional(Owner) },
  { $id: 'NewTenant' },
);
const OwnChanges = { name: Type.Optional(Name), settings: Type.Optional(Settings) };

const TAG = 'Tenants';
const Params = t.Object({ slug: t.String({ description: 'the slug of the tenant' }) });
const Anything = t.Object({}, { additionalProperties: true });
const { pageMax, limitMax, limitDefault } = LIMITS.list;

const CREATE = {
  access: 'tenants:manage',
  json: true,
  body: Anything,
  detail: describe({
    id: 'createTenant',
    tag: TAG,
    summary: 'Create a tenant',
    description: 'Creates a tenant that is ready for use with the key in the answer, which is shown once.',
    body: NewTenant,
    ok: [201, CreatedTenant],
    errors: ['CONFLICT'],
  }),
} as const;

const LIST = {
  access: 'platform:read',
  query: open({
    page: Type.Optional(integerParameter(1, pageMax, { default: 1, description: '1-indexed page' })),
    limit: Type.Optional(integerParameter(1, limitMax, { default: limitDefault, description: 'items per page' })),
  }),
  detail: describe({ id: 'listTenants', tag: TAG, summary: 'List tenants', ok: [200, pageSchema(TenantSchema)] }),
} as const;

const READ = {
  access: 'platform:read',
  params: Params,
  detail: describe({ id: 'getTenantBySlug', tag: TAG, summary: 'Get a tenant', ok: [200, TenantSchema] }),
} as const;

const UPDATE = {
  access: 'tenants:manage',
  json: true,
  params: Params,
  body: Anything,
  detail: describe({
    id: 'updateTenantBySlug',
    tag: TAG,
    summary: 'Change a tenant',
    body: Type.Object({ ...OwnChanges, status: Type.Optional(Status) }),
    ok: [200, TenantSchema],
    errors: ['CONFLICT'],
  }),
} as const;

const DELETE = {
  access: 'tenants:manage',
  params: Params,
  query: open({ confirm: t.Optional(t.String({ description: 'repeats the slug', examples: ['acme'] })) }),
  detail: describe({ id: 'deleteTenant', tag: TAG, summary: 'Delete a tenant and all of it', ok: [200, Deleted] }),
} as const;

const READ_OWN = {
  access: 'admin',
  detail: describe({ id: 'getTenant', tag: TAG, summary: 'Get the caller’s tenant', ok: [200, OwnTenantSchema] }),
} as const;

const UPDATE_OWN = {
  access: 'admin',
  json: true,
  body: Anything,
  detail: describe({
    id: 'updateTenant',
    tag: TAG,
    summary: 'Change the caller’s tenant',
    body: Type.Object(OwnChanges),
    ok: [200, OwnTenantSchema],
    errors: ['CONFLICT'],
  }),
} as const;

const TENANTS = '/api/admin/platform/tenants';
const TENANT = '/api/admin/platform/tenants/:slug';
const OWN = '/api/tenant';

export function tenantRoutes(app: App) {
  return new Elysia({ name: 'tenants' })
    .use(guard(app))
    .post(TENANTS, async ({ body }) => created(await createTenant(app, body as JsonObject)), CREATE)
    .get(
      TENANTS,
      async ({ query }) => ok(await listTenants(app, Number(query.page ?? 1), Number(query.limit ?? limitDefault))),
      LIST,
    )
    .get(TENANT, async ({ params }) => ok(await getTenant(app, params.slug)), READ)
    .patch(
      TENANT,
      async ({ params, body }) => {
        await updateTenant(app, params.slug, body as JsonObject, true);
        return ok(await getTenant(app, params.slug));
      },
      UPDATE,
    )
    .delete(
      TENANT,
      async ({ params, query }) => ok({ id: await deleteTenant(app, params.slug, query.confirm), deleted: true }),
      DELETE,
    )
    .get(OWN, async ({ caller }) => ok(ownView(caller.tenant)), READ_OWN)
    .patch(
      OWN,
      async ({ caller, body }) => ok(ownView(await updateTenant(app, caller.tenant.slug, body as JsonObject, false))),
      UPDATE_OWN,
    );
}

function ownView({ id, slug, name, status, settings, createdAt, updatedAt }: Tenant) {
  return { id, slug, name, status, settings, createdAt, updatedAt };
}
