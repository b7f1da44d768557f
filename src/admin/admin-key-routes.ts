// The routes of admin keys and of the audit of their use. They take the super-admin secret and an
// admin key together; the value of a key is shown once, when it is made.
// Contract: interface#admin-keys, decisions#admin-keys.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { integerParameter } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { open, Revoked } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import {
  AdminKeySchema,
  AuditEntrySchema,
  auditOf,
  createAdminKey,
  IssuedAdminKey,
  listAdminKeys,
  NewAdminKey,
  revokeAdminKey,
} from './admin-keys.ts';

const { auditDefault, auditMax } = LIMITS.adminKey;
const TAG = 'Admin keys';
const PATH = '/api/admin/platform/keys';

const LIST = route({
  id: 'listAdminKeys',
  tag: TAG,
  summary: 'List admin keys, revoked ones too',
  access: 'admin-keys:read',
  ok: [200, Type.Array(AdminKeySchema)],
});
const CREATE = route({
  id: 'createAdminKey',
  tag: TAG,
  summary: 'Create an admin key',
  access: 'admin-keys:create',
  body: NewAdminKey,
  ok: [201, IssuedAdminKey],
});
const REVOKE = route({
  id: 'revokeAdminKey',
  tag: TAG,
  summary: 'Revoke an admin key',
  access: 'admin-keys:write',
  ok: [200, Revoked],
});
const AUDIT = route({
  id: 'getAdminKeyAudit',
  tag: TAG,
  summary: 'List what was done with and to an admin key',
  access: 'admin-keys:read',
  query: open({
    limit: Type.Optional(
      integerParameter(1, auditMax, { default: auditDefault, description: 'how many entries, the newest first' }),
    ),
  }),
  ok: [200, Type.Array(AuditEntrySchema)],
});

export function adminKeyRoutes(app: App) {
  return new Elysia({ name: 'admin-keys' })
    .use(guard(app))
    .get(PATH, async () => ok(await listAdminKeys(app)), LIST)
    .post(PATH, async ({ caller, body }) => created(await createAdminKey(app, caller, body)), CREATE)
    .delete(
      `${PATH}/:id`,
      async ({ caller, params }) => {
        await revokeAdminKey(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), revoked: true });
      },
      REVOKE,
    )
    .get(
      `${PATH}/:id/audit`,
      async ({ params, query }) => ok(await auditOf(app, params.id, query.limit ?? auditDefault)),
      AUDIT,
    );
}
