// The routes for a user's own sessions: log out, refresh the token, list and end sign-ins. They take user tokens; the
// last two developer tokens as well.
// Contract: browsers#sessions.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { Caller } from '../access/caller.ts';
import { propertiesOf } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Revoked } from '../http/schemas.ts';
import {
  listSessions,
  RefreshedSchema,
  refreshToken,
  revokeSession,
  SessionSchema,
  SignOut,
  signOut,
} from './sessions.ts';

const ofUser = { tag: 'Identity', access: 'tenant', mayCall: ({ kind }: Caller) => kind === 'user' } as const;
const own = { ...ofUser, mayCall: ({ kind }: Caller) => propertiesOf(kind).account === 'user' } as const;

const LOGOUT = route({
  ...ofUser,
  id: 'logout',
  summary: 'End the session of the presented user token, or all of the user’s',
  body: SignOut,
  isBodyOptional: true,
  ok: [200, Type.Object({ loggedOut: Type.Literal(true) })],
  errors: ['CONFLICT'],
});
const REFRESH = route({
  ...ofUser,
  id: 'refreshToken',
  summary: 'Get a new token of the same session, for 24 hours',
  description: `Trades a valid user token for a new one, until 30 days after the login. The presented token ends a minute
later, so that calls in flight and other tabs can change over.`,
  ok: [200, RefreshedSchema],
  errors: ['CONFLICT'],
});
const LIST = route({
  ...own,
  id: 'listSessions',
  summary: 'List the caller’s own sessions',
  ok: [200, Type.Array(SessionSchema)],
});
const REVOKE = route({
  ...own,
  id: 'revokeSession',
  summary: 'End one of the caller’s own sessions',
  ok: [200, Revoked],
});

export function sessionRoutes(app: App) {
  return new Elysia({ name: 'sessions' })
    .use(guard(app))
    .post('/api/auth/tenant/logout', async ({ caller, body }) => ok(await signOut(app, caller, body)), LOGOUT)
    .post(
      '/api/auth/tenant/refresh',
      async ({ caller, request }) => ok(await refreshToken(app, caller, request)),
      REFRESH,
    )
    .get('/api/auth/sessions', async ({ caller }) => ok(await listSessions(app, caller)), LIST)
    .delete(
      '/api/auth/sessions/:id',
      async ({ caller, params }) => ok(await revokeSession(app, caller, params.id)),
      REVOKE,
    );
}
