// The routes of admin keys and of the audit of their use. They take the super-admin secret and an
// admin key together; the value of a key is shown once, when it is made.
// Contract: interface#admin-keys, decisions#admin-keys, decisions#status-codes.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { closed, describe, nullable, open, Revoked, Timestamp, Uuid } from '../http/openapi.ts';
import { integerParameter } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { ADMIN_SCOPES, auditOf, createAdminKey, listAdminKeys, revokeAdminKey } from './admin-keys.ts';

const { auditDefault, auditMax } = LIMITS.adminKey;

const Name = Type.String({ minLength: 1, maxLength: LIMITS.key.labelMax, examples: ['deployment'] });
const Scopes = Type.Array(Type.Union(ADMIN_SCOPES.map((scope) => Type.Literal(scope))), {
  minItems: 1,
  examples: [['platform:read']],
});
const Key = {
  id: Uuid,
  keyPrefix: Type.String({ examples: ['svc_adm_0f3a9c1d2'] }),
  name: Name,
  scopes: Scopes,
  expiresAt: nullable(Timestamp),
  createdAt: Timestamp,
};
const KeySchema = Type.Object(
  { ...Key, isActive: Type.Boolean({ examples: [true] }), lastUsedAt: nullable(Timestamp) },
  { $id: 'AdminKey' },
);
const IssuedSchema = Type.Object(
  { ...Key, key: Type.String({ description: 'shown once', examples: ['svc_adm_...'] }) },
  { $id: 'IssuedAdminKey' },
);
const KeyInput = closed({
  name: Name,
  scopes: Scopes,
  expiresAt: Type.Optional(
    nullable(Type.String({ description: 'ISO 8601, in the future', examples: ['2030-01-01T00:00:00.000Z'] })),
  ),
});
const EntrySchema = Type.Object(
  {
    id: Uuid,
    action: Type.String({ description: '`created`, `used` or `revoked`', examples: ['used'] }),
    actorId: nullable(Type.String({ description: 'the admin key that made or revoked this one, or `super_admin`' })),
    endpoint: nullable(Type.String({ examples: ['GET /api/admin/platform/tenants'] })),
    ip: nullable(Type.String({ examples: ['127.0.0.1'] })),
    createdAt: Timestamp,
  },
  { $id: 'AdminKeyAuditEntry' },
);

const TAG = 'Admin keys';
const PATH = '/api/admin/platform/keys';
const Params = t.Object({ id: t.String() });

export function adminKeyRoutes(app: App) {
  return new Elysia({ name: 'admin-keys' })
    .use(guard(app))
    .get(PATH, async () => ok(await listAdminKeys(app)), { access: 'admin-keys:read', detail: LIST })
    .post(PATH, async ({ caller, body }) => created(await createAdminKey(app, caller, body as JsonObject)), {
      access: 'admin-keys:create',
      json: true,
      body: t.Object({}, { additionalProperties: true }),
      detail: CREATE,
    })
    .delete(
      `${PATH}/:id`,
      async ({ caller, params }) => {
        await revokeAdminKey(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), revoked: true });
      },
      { access: 'admin-keys:write', params: Params, detail: REVOKE },
    )
    .get(
      `${PATH}/:id/audit`,
      async ({ params, query }) => ok(await auditOf(app, params.id, Number(query.limit ?? auditDefault))),
      {
        access: 'admin-keys:read',
        params: Params,
        query: open({
          limit: Type.Optional(
            integerParameter(1, auditMax, { default: auditDefault, description: 'the newest so many entries' }),
          ),
        }),
        detail: AUDIT,
      },
    );
}

const LIST = describe({
  id: 'listAdminKeys',
  tag: TAG,
  summary: 'List admin keys, revoked ones too',
  ok: [200, Type.Array(KeySchema)],
});
const CREATE = describe({
  id: 'createAdminKey',
  tag: TAG,
  summary: 'Create an admin key',
  ok: [201, IssuedSchema],
  body: KeyInput,
});
const REVOKE = describe({ id: 'revokeAdminKey', tag: TAG, summary: 'Revoke an admin key', ok: [200, Revoked] });
const AUDIT = describe({
  id: 'getAdminKeyAudit',
  tag: TAG,
  summary: 'List what was done with and to an admin key',
  ok: [200, Type.Array(EntrySchema)],
});
