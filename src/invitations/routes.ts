// The routes of invitations: those of tenant admins, the platform's list, and the two that an invited
// person uses, which need no credential because the token is the gate.
// Contract: interface#invitations, decisions#invitations.
import { type Static, Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { jsonBodies } from '../http/json-body.ts';
import { closed, describe, nullable, open, pageSchema, Revoked, Timestamp, Uuid } from '../http/openapi.ts';
import { integerParameter } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { acceptInvitation } from './accept-invitation.ts';
import {
  checkToken,
  inviteOrMakeCode,
  type ListFilter,
  listAllInvitations,
  listOwnInvitations,
  revokeInvitation,
  STATUSES,
} from './invitations.ts';

const Email = Type.String({ examples: ['ada@acme.test'] });
const Slug = Type.String({ examples: ['acme'] });
const Token = Type.String({ description: 'shown once' });
const StatusSchema = Type.Union(STATUSES.map((status) => Type.Literal(status)));
const InvitationSchema = Type.Object(
  {
    id: Uuid,
    email: nullable(Email),
    status: StatusSchema,
    kind: Type.Union([Type.Literal('member'), Type.Literal('platform')]),
    tenantSlug: nullable(Slug),
    createdAt: Timestamp,
    expiresAt: Timestamp,
    acceptedAt: nullable(Timestamp),
  },
  { $id: 'Invitation' },
);
const NewInvitationSchema = Type.Object({ token: Token, inviteUrl: Type.String({ format: 'uri' }) });
const MemberSchema = Type.Object({ id: Uuid, email: Email, name: Type.String(), role: Type.String() });
const CheckSchema = Type.Object({ valid: Type.Boolean(), email: nullable(Email), tenantSlug: nullable(Slug) });

const { pageMax, limitMax, limitDefault } = LIMITS.list;
const { daysDefault, daysMax } = LIMITS.invitation;
const PLATFORM_LIMIT_DEFAULT = 50;

function listQuery(defaultLimit: number) {
  return {
    status: Type.Optional(
      Type.Union(
        STATUSES.map((status) => Type.Literal(status)),
        { description: 'only those in this state', error: `must be one of ${STATUSES.join(', ')}` },
      ),
    ),
    page: Type.Optional(integerParameter(1, pageMax, { default: 1, description: '1-indexed page' })),
    limit: Type.Optional(integerParameter(1, limitMax, { default: defaultLimit, description: 'items per page' })),
  };
}
const ListQuery = open(listQuery(limitDefault));
const PlatformQuery = open({
  ...listQuery(PLATFORM_LIMIT_DEFAULT),
  tenantId: Type.Optional(Type.String({ description: 'only those of this tenant: its id or its slug' })),
});

const TAG = 'Invitations';
const Anything = t.Object({}, { additionalProperties: true });
const SECRET = { 'Referrer-Policy': '`no-referrer`: the address holds a secret' };
const NO_REFERRER = { 'referrer-policy': 'no-referrer' };

const LIST = {
  access: 'admin',
  query: ListQuery,
  detail: describe({
    id: 'listInvitations',
    tag: TAG,
    summary: 'List invitations to the tenant',
    description: 'Those to the tenant, and the platform codes that this credential or person has made. Never a token.',
    ok: [200, pageSchema(InvitationSchema)],
  }),
} as const;

const INVITE = {
  access: 'any',
  json: true,
  body: Anything,
  detail: describe({
    id: 'createInvitation',
    tag: TAG,
    summary: 'Invite a member, or make a platform code',
    description: `With a tenant header: an invitation to that tenant, as \`member\`. Without one: a platform registration
code, whose accept makes a tenant. Needs a tenant admin, or the super-admin. An \`email\` locks it and gets the link by mail.`,
    ok: [201, NewInvitationSchema],
    body: closed({
      email: Type.Optional(Email),
      expiresInDays: Type.Optional(Type.Integer({ minimum: 1, maximum: daysMax, default: daysDefault })),
    }),
  }),
} as const;

const REVOKE = {
  access: 'admin',
  params: t.Object({ token: t.String({ description: 'the token, or the id that lists show' }) }),
  detail: describe({
    id: 'revokeInvitation',
    tag: TAG,
    summary: 'Revoke a pending invitation',
    ok: [200, Revoked],
    errors: ['CONFLICT'],
  }),
} as const;

const LIST_ALL = {
  access: 'super',
  query: PlatformQuery,
  detail: describe({
    id: 'listPlatformInvitations',
    tag: TAG,
    summary: 'List the invitations of all tenants and all platform codes',
    ok: [200, pageSchema(InvitationSchema)],
  }),
} as const;

const CHECK = {
  params: t.Object({ token: t.String() }),
  detail: describe({
    id: 'checkInvitation',
    tag: TAG,
    summary: 'Tell whether an invitation’s token is good',
    isOpen: true,
    ok: [200, CheckSchema],
    headers: SECRET,
    errors: ['SERVICE_UNAVAILABLE'],
  }),
} as const;

const ACCEPT = {
  json: true,
  body: Anything,
  detail: describe({
    id: 'acceptInvitation',
    tag: TAG,
    summary: 'Accept an invitation',
    description: 'Makes the person a member of the tenant; with a platform code, the owner of the tenant it names.',
    isOpen: true,
    ok: [201, MemberSchema],
    headers: SECRET,
    errors: ['FORBIDDEN', 'NOT_FOUND', 'CONFLICT', 'GONE'],
    body: Type.Object({
      token: Type.String(),
      email: Email,
      name: Type.String({ examples: ['Ada Lovelace'] }),
      password: Type.String({ minLength: LIMITS.password.min, maxLength: LIMITS.password.max }),
      tenantSlug: Type.Optional(Type.String({ description: 'platform codes: the slug of the tenant to be made' })),
      tenantName: Type.Optional(Type.String({ description: 'platform codes: its name' })),
    }),
  }),
} as const;

export function invitationRoutes(app: App) {
  return new Elysia({ name: 'invitations' }).use(inviting(app)).use(accepting(app));
}

function inviting(app: App) {
  return new Elysia({ name: 'inviting' })
    .use(guard(app))
    .get(
      '/api/invitations',
      async ({ caller, query }) => ok(await listOwnInvitations(app, caller, filterFrom(query, limitDefault))),
      LIST,
    )
    .post(
      '/api/invitations',
      async ({ caller, request, body }) => created(await inviteOrMakeCode(app, caller, request, body as JsonObject)),
      INVITE,
    )
    .delete(
      '/api/invitations/:token',
      async ({ caller, params }) => {
        await revokeInvitation(app, caller, params.token);
        return ok({ id: params.token, revoked: true }, NO_REFERRER);
      },
      REVOKE,
    )
    .get(
      '/api/admin/platform/invitations',
      async ({ query }) => ok(await listAllInvitations(app, filterFrom(query, PLATFORM_LIMIT_DEFAULT))),
      LIST_ALL,
    );
}

function accepting(app: App) {
  return new Elysia({ name: 'accepting' })
    .use(jsonBodies(app))
    .get('/auth/invite/:token', async ({ params }) => ok(await checkToken(app, params.token), NO_REFERRER), CHECK)
    .post(
      '/auth/invite/accept',
      async ({ body }) => created(await acceptInvitation(app, body as JsonObject), NO_REFERRER),
      ACCEPT,
    );
}

function filterFrom(query: Static<typeof PlatformQuery>, defaultLimit: number): ListFilter {
  const { status, tenantId, page = 1, limit = defaultLimit } = query;
  return { status, tenantId, page: Number(page), limit: Number(limit) };
}
