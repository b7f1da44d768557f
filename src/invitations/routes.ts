// The routes of invitations: for tenant admins, the platform's list, and the two routes that an invited person uses, which need
// no credential because the token is the proof.
// Contract: interface#invitations, decisions#invitations.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { pageSchema, Revoked } from '../http/schemas.ts';
import { PersonSchema } from '../users/person.ts';
import { Acceptance, acceptInvitation } from './accept-invitation.ts';
import {
  checkToken,
  InvitationFilter,
  InvitationRequest,
  InvitationSchema,
  IssuedInvitation,
  inviteOrCreateCode,
  listAllInvitations,
  listOwnInvitations,
  PlatformFilter,
  revokeInvitation,
  TokenCheck,
} from './invitations.ts';

const TAG = 'Invitations';
const SECRET = { 'Referrer-Policy': '`no-referrer`: the URL contains a secret' };
const NO_REFERRER = { 'referrer-policy': 'no-referrer' };

const LIST = route({
  id: 'listInvitations',
  tag: TAG,
  summary: 'List invitations to the tenant',
  description:
    'Invitations to the tenant, and the platform codes that this credential or user created, without their tokens.',
  access: 'admin',
  query: InvitationFilter,
  ok: [200, pageSchema(InvitationSchema)],
});
const INVITE = route({
  id: 'createInvitation',
  tag: TAG,
  summary: 'Invite a member, or create a platform code',
  description: `With a tenant header: an invitation to that tenant, as \`member\`. Without one: a platform registration
code, which creates a tenant when it is accepted. Needs a tenant admin or the super-admin. With an \`email\` only that
address may accept, and the link is mailed there.`,
  access: 'any',
  body: InvitationRequest,
  example: { email: 'alan@example.com', expiresInDays: 7 },
  ok: [201, IssuedInvitation],
  errors: ['CONFLICT'],
});
const REVOKE = route({
  id: 'revokeInvitation',
  tag: TAG,
  summary: 'Revoke a pending invitation',
  access: 'admin',
  params: { token: 'the token, or the id that lists show' },
  ok: [200, Revoked],
  errors: ['CONFLICT'],
});
const LIST_ALL = route({
  id: 'listPlatformInvitations',
  tag: TAG,
  summary: 'List the invitations of all tenants and all platform codes',
  access: 'super',
  query: PlatformFilter,
  ok: [200, pageSchema(InvitationSchema)],
});
const CHECK = route({
  id: 'checkInvitation',
  tag: TAG,
  summary: 'Check the token of an invitation',
  access: 'open',
  params: { token: 'the token' },
  ok: [200, TokenCheck],
  responseHeaders: SECRET,
  errors: ['SERVICE_UNAVAILABLE'],
});
const ACCEPT = route({
  id: 'acceptInvitation',
  tag: TAG,
  summary: 'Accept an invitation',
  description: 'Makes the person a member of the tenant or, with a platform code, the owner of a new tenant.',
  access: 'open',
  body: Acceptance,
  example: {
    token: 'the token of the invitation',
    email: 'alan@example.com',
    name: 'Alan',
    password: 'correct horse battery',
    tenantSlug: 'bletchley',
    tenantName: 'Bletchley',
  },
  ok: [201, PersonSchema],
  responseHeaders: SECRET,
  errors: ['FORBIDDEN', 'NOT_FOUND', 'CONFLICT', 'GONE', 'QUOTA_EXCEEDED'],
});

export function invitationRoutes(app: App) {
  return new Elysia({ name: 'invitations' })
    .use(guard(app))
    .get('/api/invitations', async ({ caller, query }) => ok(await listOwnInvitations(app, caller, query)), LIST)
    .post(
      '/api/invitations',
      async ({ caller, request, body }) => created(await inviteOrCreateCode(app, caller, request, body)),
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
    .get('/api/admin/platform/invitations', async ({ query }) => ok(await listAllInvitations(app, query)), LIST_ALL)
    .get('/auth/invite/:token', async ({ params }) => ok(await checkToken(app, params.token), NO_REFERRER), CHECK)
    .post('/auth/invite/accept', async ({ body }) => created(await acceptInvitation(app, body), NO_REFERRER), ACCEPT);
}
