// The routes by which people prove who they are. All but the change of a password are open: they ask
// for no credential and heed none. The tenant stands in a header.
// Contract: interface#identity, decisions#identity.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import { passwordProblem } from '../access/passwords.ts';
import type { App } from '../app.ts';
import { invalid, invalidField, type Problem } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { jsonBodies } from '../http/json-body.ts';
import { describe, open, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { EMAIL_PROBLEM, isEmail } from './email.ts';
import { changePassword, forgetPassword, register, requirePerson, resetPassword } from './self-service.ts';
import { issueDeveloperToken, type PasswordCredentials, signIn } from './sign-in.ts';

const TAG = 'Identity';
const Person = Type.Object({ id: Uuid, email: Type.String(), name: Type.String(), role: Type.String() });
const Credentials = {
  email: Type.String({ examples: ['ada@example.com'] }),
  password: Type.String({ examples: ['correct horse battery'] }),
};
const Anything = t.Object({}, { additionalProperties: true });

export function identityRoutes(app: App) {
  return new Elysia({ name: 'identity' }).use(openRoutes(app)).use(ownPassword(app));
}

function openRoutes(app: App) {
  const takes = { json: app.config.maxBodyBytes, body: Anything } as const;
  return new Elysia({ name: 'open-identity' })
    .use(jsonBodies(app))
    .post(
      '/api/auth/tenant/login',
      async ({ request, body }) => ok(await signIn(app, request, readSecret(body as JsonObject))),
      { ...takes, detail: LOGIN },
    )
    .post(
      '/api/auth/tenant/developer-token',
      async ({ request, body }) => {
        const secret = readSecret(body as JsonObject);
        return ok(await issueDeveloperToken(app, request, secret, readDays(body as JsonObject)));
      },
      { ...takes, detail: DEVELOPER_TOKEN },
    )
    .post(
      '/api/auth/tenant/register',
      async ({ request, body }) => created(await register(app, request, body as JsonObject)),
      { ...takes, detail: REGISTER },
    )
    .post(
      '/api/auth/tenant/forgot-password',
      async ({ request, body }) => {
        const { email } = body as JsonObject;
        if (!isEmail(email)) throw invalidField('email', EMAIL_PROBLEM);
        return ok(await forgetPassword(app, request, email));
      },
      { ...takes, detail: FORGOT },
    )
    .post(
      '/api/auth/tenant/reset-password',
      async ({ request, body }) => {
        const { token, password } = readPasswords(body as JsonObject, 'token', 'password');
        await resetPassword(app, request, token, password);
        return ok({ reset: true });
      },
      { ...takes, detail: RESET },
    );
}

function ownPassword(app: App) {
  return new Elysia({ name: 'own-password' }).use(guard(app)).post(
    '/api/auth/tenant/change-password',
    async ({ caller, body }) => {
      requirePerson(caller);
      const { currentPassword, newPassword } = readPasswords(body as JsonObject, 'currentPassword', 'newPassword');
      await changePassword(app, caller, currentPassword, newPassword);
      return ok({ changed: true });
    },
    { access: 'tenant', json: app.config.maxBodyBytes, body: Anything, detail: CHANGE },
  );
}

/** An address and a password as somebody typed them; whether they are right is another matter. */
function readSecret({ email, password }: JsonObject): PasswordCredentials {
  const problems: Problem[] = [];
  if (!isTyped(email, LIMITS.email.max)) problems.push({ path: 'email', message: EMAIL_PROBLEM });
  if (!isTyped(password, LIMITS.password.max)) problems.push({ path: 'password', message: 'must be a password' });
  if (problems.length > 0) throw invalid(problems);
  return { email, password } as PasswordCredentials;
}

function isTyped(value: unknown, max: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= max;
}

function readDays({ ttl_days: days }: JsonObject): number | undefined {
  const { daysMax } = LIMITS.developerToken;
  if (days == null) return undefined;
  if (typeof days === 'number' && Number.isInteger(days) && days >= 1 && days <= daysMax) return days;
  throw invalidField('ttl_days', `must be a whole number from 1 to ${daysMax}`);
}

/** What proves the right to set a password, and the new password. 400 naming both. */
function readPasswords<Proof extends string, New extends string>(body: JsonObject, proof: Proof, fresh: New) {
  const problems: Problem[] = [];
  if (!isTyped(body[proof], LIMITS.password.max)) problems.push({ path: proof, message: 'must be a text' });
  const message = passwordProblem(body[fresh]);
  if (message !== undefined) problems.push({ path: fresh, message });
  if (problems.length > 0) throw invalid(problems);
  return body as Record<Proof | New, string>;
}

const LOGIN = describe({
  id: 'login',
  tag: TAG,
  summary: 'Sign in for 24 hours',
  isOpen: true,
  body: open(Credentials),
  ok: [200, Type.Object({ token: Type.String(), user: Person })],
  errors: ['VALIDATION_ERROR', 'UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED'],
});
const DEVELOPER_TOKEN = describe({
  id: 'createDeveloperToken',
  tag: TAG,
  summary: 'Get a token for programs, with the rights of a session',
  isOpen: true,
  body: open({
    ...Credentials,
    ttl_days: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.developerToken.daysMax, default: 360 })),
  }),
  ok: [
    200,
    Type.Object({ token: Type.String(), expiresAt: Timestamp, user: Type.Object({ id: Uuid, email: Type.String() }) }),
  ],
  errors: ['VALIDATION_ERROR', 'UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED'],
});
const REGISTER = describe({
  id: 'register',
  tag: TAG,
  summary: 'Register as a viewer, where the tenant lets people',
  isOpen: true,
  body: open({ ...Credentials, name: Type.String({ examples: ['Ada'] }) }),
  ok: [201, Person],
  errors: ['VALIDATION_ERROR', 'FORBIDDEN', 'CONFLICT', 'RATE_LIMITED'],
});
const FORGOT = describe({
  id: 'forgotPassword',
  tag: TAG,
  summary: 'Have a link to a new password mailed',
  isOpen: true,
  body: open({ email: Credentials.email }),
  ok: [200, Type.Object({ sent: Type.Literal(true) })],
  errors: ['VALIDATION_ERROR', 'FORBIDDEN'],
});
const RESET = describe({
  id: 'resetPassword',
  tag: TAG,
  summary: 'Set a new password with a mailed token',
  isOpen: true,
  body: open({ token: Type.String({ examples: ['svc_rst_...'] }), password: Credentials.password }),
  ok: [200, Type.Object({ reset: Type.Literal(true) })],
  errors: ['VALIDATION_ERROR', 'FORBIDDEN'],
});
const CHANGE = describe({
  id: 'changePassword',
  tag: TAG,
  summary: 'Change one’s own password, which ends all one’s tokens',
  body: open({ currentPassword: Credentials.password, newPassword: Credentials.password }),
  ok: [200, Type.Object({ changed: Type.Literal(true) })],
  errors: ['VALIDATION_ERROR'],
});
