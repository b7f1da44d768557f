// The routes of admin sessions, of `whoami` and of tenants. A session's token acts as the admin of its tenant for 12 hours, or
// until the session is ended.
// Contract: decisions#tenants.
import { type Static, Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { BotLimits } from '../access/bot-limits.ts';
import type { Caller } from '../access/caller.ts';
import { allows, isFieldVisible, type Rights } from '../access/rights.ts';
import type { App } from '../app.ts';
import { BotLimitsSchema } from '../bots/bots.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted, nullable, Uuid } from '../http/schemas.ts';
import { AdminSessionSchema, endAdminSession, NewAdminSession, openAdminSession } from './admin-sessions.ts';
import { tenantRoutes } from './tenant-routes.ts';

const Slug = Type.String({ examples: ['acme'] });
export const WhoamiSchema = Type.Object(
  {
    kind: Type.String({ examples: ['owner_key'] }),
    id: nullable(Type.String({ examples: Uuid.examples as string[] })),
    tenant: nullable(Type.Object({ id: Uuid, slug: Slug, name: Type.String({ examples: ['Acme Ltd'] }) })),
    role: nullable(Type.String({ examples: ['owner'] })),
    email: nullable(Type.String({ examples: ['ada@acme.test'] })),
    scopes: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(Type.String({ examples: ['platform:read'] })))),
    permissions: Type.Unsafe<Rights['permissions']>(
      Type.Record(Type.String(), Type.Array(Type.String()), {
        description: 'operations by entity; `*` means every entity',
        examples: [{ '*': ['read', 'create', 'update', 'delete'] }],
      }),
    ),
    entities: Type.Record(Type.String(), Type.Unknown(), {
      description: 'the visible fields by entity, for roles that list them; hidden fields are not named',
      examples: [{ deals: { fields: ['title', 'stage'] } }],
    }),
    limits: Type.Optional(
      Type.Unsafe<BotLimits>({ ...BotLimitsSchema, description: 'of a bot: what it may do at most' }),
    ),
  },
  { $id: 'Whoami' },
);

const TAG = 'Identity';

const OPEN_SESSION = route({
  id: 'createAdminSession',
  tag: TAG,
  summary: 'Open an admin session in a tenant',
  access: 'super',
  body: NewAdminSession,
  example: { tenantSlug: 'demo' },
  ok: [201, AdminSessionSchema],
});
const END_SESSION = route({
  id: 'endAdminSession',
  tag: TAG,
  summary: 'End this admin session',
  access: 'session',
  ok: [200, Deleted],
});
const WHOAMI = route({
  id: 'whoami',
  tag: TAG,
  summary: 'Show the caller of the credential',
  access: 'any',
  ok: [200, WhoamiSchema],
});

export function adminRoutes(app: App) {
  return new Elysia({ name: 'admin' })
    .use(tenantRoutes(app))
    .use(guard(app))
    .post('/api/admin/sessions', async ({ body }) => created(await openAdminSession(app, body)), OPEN_SESSION)
    .delete(
      '/api/admin/sessions/current',
      async ({ caller }) => ok({ id: await endAdminSession(app, caller), deleted: true }),
      END_SESSION,
    )
    .get('/api/auth/whoami', async ({ caller }) => ok(whoami(caller)), WHOAMI);
}

/** The caller's kind, tenant, role and effective permissions. Of its restrictions it contains only the visible fields. */
export function whoami(caller: Caller): Static<typeof WhoamiSchema> {
  const { kind, id, tenant, role, email, scopes, rights, limits } = caller;
  return {
    kind,
    id,
    tenant: tenant === null ? null : { id: tenant.id, slug: tenant.slug, name: tenant.name },
    role,
    email,
    ...(scopes === undefined ? {} : { scopes }),
    permissions: rights.permissions,
    entities: shownFields(rights),
    ...(limits === undefined ? {} : { limits }),
  };
}

/** The visible fields of readable entities, where the role lists them. Excluded fields and row filters are not revealed. */
function shownFields(rights: Rights): Record<string, { fields: string[] }> {
  const shown: Record<string, { fields: string[] }> = {};
  for (const [entity, restriction] of Object.entries(rights.restrictions)) {
    if (restriction.fields === undefined || !allows(rights, 'read', entity)) continue;
    shown[entity] = { fields: restriction.fields.filter((key) => isFieldVisible(restriction, key)) };
  }
  return shown;
}
