// The routes for sign-in, registration and passwords. All except the change of a password are open: they need no
// credential and ignore any that is sent. A header names the tenant.
// Contract: interface#identity, decisions#identity.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import { propertiesOf } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { PersonSchema, Registration } from './person.ts';
import {
  changePassword,
  forgetPassword,
  PasswordChange,
  PasswordReset,
  ResetRequest,
  register,
  resetPassword,
} from './self-service.ts';
import {
  DeveloperTokenRequest,
  DeveloperTokenSchema,
  issueDeveloperToken,
  PasswordCredentials,
  SignedInSchema,
  signIn,
} from './sign-in.ts';

const open = { tag: 'Identity', access: 'open' } as const;

const LOGIN = route({
  ...open,
  id: 'login',
  summary: 'Sign in for 24 hours',
  body: PasswordCredentials,
  ok: [200, SignedInSchema],
  errors: ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED'],
});
const DEVELOPER_TOKEN = route({
  ...open,
  id: 'createDeveloperToken',
  summary: 'Get a token for programs, with the rights of a session',
  body: DeveloperTokenRequest,
  ok: [200, DeveloperTokenSchema],
  errors: ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED'],
});
const REGISTER = route({
  ...open,
  id: 'register',
  summary: 'Register as a viewer, where the tenant allows it',
  body: Registration,
  example: { email: 'grace@example.com', name: 'Grace', password: 'correct horse battery' },
  ok: [201, PersonSchema],
  errors: ['FORBIDDEN', 'NOT_FOUND', 'CONFLICT', 'RATE_LIMITED', 'QUOTA_EXCEEDED'],
});
const FORGOT = route({
  ...open,
  id: 'forgotPassword',
  summary: 'Request a mail with a link to set a new password',
  body: ResetRequest,
  ok: [200, Type.Object({ sent: Type.Literal(true) })],
  errors: ['FORBIDDEN'],
});
const RESET = route({
  ...open,
  id: 'resetPassword',
  summary: 'Set a new password with a mailed token',
  body: PasswordReset,
  ok: [200, Type.Object({ reset: Type.Literal(true) })],
  errors: ['FORBIDDEN', 'NOT_FOUND'],
});
const CHANGE = route({
  mayCall: ({ kind }) => propertiesOf(kind).account === 'user',
  tag: 'Identity',
  access: 'tenant',
  id: 'changePassword',
  summary: 'Change the caller’s password, which ends all of the user’s tokens',
  body: PasswordChange,
  example: { currentPassword: 'correct horse battery', newPassword: 'correct horse battery staple' },
  ok: [200, Type.Object({ changed: Type.Literal(true) })],
});

const PATH = '/api/auth/tenant';

export function identityRoutes(app: App) {
  return new Elysia({ name: 'identity' })
    .use(guard(app))
    .post(`${PATH}/login`, async ({ request, body }) => ok(await signIn(app, request, body)), LOGIN)
    .post(
      `${PATH}/developer-token`,
      async ({ request, body }) => ok(await issueDeveloperToken(app, request, body)),
      DEVELOPER_TOKEN,
    )
    .post(`${PATH}/register`, async ({ request, body }) => created(await register(app, request, body)), REGISTER)
    .post(`${PATH}/forgot-password`, async ({ request, body }) => ok(await forgetPassword(app, request, body)), FORGOT)
    .post(`${PATH}/reset-password`, async ({ request, body }) => ok(await resetPassword(app, request, body)), RESET)
    .post(`${PATH}/change-password`, async ({ caller, body }) => ok(await changePassword(app, caller, body)), CHANGE);
}
