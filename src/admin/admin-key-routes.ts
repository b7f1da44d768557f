// The routes of admin keys and of their audit. They need the super-admin secret together with an admin key; the
// value of a key is shown once.
// Contract: interface#admin-keys, decisions#admin-keys.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { integerParameter, parameters } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { keyRoutes } from '../keys/key-routes.ts';
import { LIMITS } from '../limits.ts';
import {
  ADMIN_KEYS,
  AuditEntrySchema,
  auditOf,
  createAdminKey,
  listAdminKeys,
  NewAdminKey,
  revokeAdminKey,
} from './admin-keys.ts';

const { auditDefault, auditMax } = LIMITS.adminKey;
const TAG = 'Admin keys';
const PATH = '/api/admin/platform/keys';

const { LIST, CREATE, REVOKE } = keyRoutes(ADMIN_KEYS, {
  tag: TAG,
  access: { list: 'admin-keys:read', create: 'admin-keys:create', revoke: 'admin-keys:write' },
  body: NewAdminKey,
  one: 'an admin key',
  many: 'admin keys, including revoked ones',
});
const AUDIT = route({
  id: 'getAdminKeyAudit',
  tag: TAG,
  summary: 'List the audit entries of an admin key',
  access: 'admin-keys:read',
  query: parameters({
    limit: Type.Optional(
      integerParameter(1, auditMax, { default: auditDefault, description: 'number of entries, newest first' }),
    ),
  }),
  ok: [200, Type.Array(AuditEntrySchema)],
});

export function adminKeyRoutes(app: App) {
  return new Elysia({ name: 'admin-keys' })
    .use(guard(app))
    .get(PATH, async () => ok(await listAdminKeys(app)), LIST)
    .post(PATH, async ({ caller, body }) => created(await createAdminKey(app, caller, body)), CREATE)
    .delete(`${PATH}/:id`, async ({ caller, params }) => ok(await revokeAdminKey(app, caller, params.id)), REVOKE)
    .get(
      `${PATH}/:id/audit`,
      async ({ params, query }) => ok(await auditOf(app, params.id, query.limit ?? auditDefault)),
      AUDIT,
    );
}
