// Sign-in with e-mail address and password, for a session token of 24 hours or a developer token of up to a year.
// An unknown address, a wrong password and a locked account give the same answer; the first two also take the same
// time. Failures: 400, 401, 403, 404, 429. Contract: interface#identity, decisions#lockout, decisions#tokens.
import { type Static, Type } from '@sinclair/typebox';
import type { Claims } from '../access/jwt.ts';
import { guardAccount, limitAttempts } from '../access/lockout.ts';
import { verifyPassword } from '../access/passwords.ts';
import { tokensOf } from '../access/resolve-caller.ts';
import { namedTenant } from '../access/tenant-context.ts';
import { openSession } from '../access/user-sessions.ts';
import type { App } from '../app.ts';
import { forbidden, invalidField, unauthorized } from '../errors.ts';
import { check } from '../http/check.ts';
import { open, optional, Timestamp } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { Semaphore } from '../runtime/concurrency.ts';
import { sql } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { PersonSchema, TypedEmail, TypedPassword } from './person.ts';
import { usersTable } from './users.ts';

export const PasswordCredentials = open({ email: TypedEmail, password: TypedPassword });
export type PasswordCredentials = Static<typeof PasswordCredentials>;
const { daysMax, daysDefault } = LIMITS.developerToken;
export const DeveloperTokenRequest = open({
  ...PasswordCredentials.properties,
  ttl_days: optional(Type.Integer({ minimum: 1, maximum: daysMax, default: daysDefault })),
});
export type DeveloperTokenRequest = Static<typeof DeveloperTokenRequest>;

interface UserRow extends Static<typeof PersonSchema> {
  is_active: boolean;
  password_hash: string | null;
  token_version: number;
}

export const SignedInSchema = Type.Object({ token: Type.String(), user: PersonSchema });
export const DeveloperTokenSchema = Type.Object({
  token: Type.String(),
  expiresAt: Timestamp,
  user: Type.Pick(PersonSchema, ['id', 'email']),
});

/** Sign-ins use at most 4 database connections at once; 100 more of each address wait, and the others get 503. */
const semaphore = new Semaphore({ name: 'sign-ins', slots: 4, shareWaitingMax: 100, waitMs: 10_000 });

/** A session token. 401 for wrong credentials or a locked account, 403 for a suspended tenant, 429 past the address's limit. */
export async function signIn(
  app: App,
  request: Request,
  body: PasswordCredentials,
): Promise<Static<typeof SignedInSchema>> {
  const { tenant, user } = await verify(app, request, check(PasswordCredentials, body));
  const { id, email, name, role, token_version: version } = user;
  const expiresAtS = unixTimeIn(LIMITS.login.ttlS);
  const session = await openSession(app, tenant, { id, version }, request, expiresAtS);
  if (session === undefined) throw unauthorized('wrong credentials');
  const { token } = await issueToken(app, {
    kind: 'user',
    tenantId: tenant.id,
    subject: id,
    version,
    expiresAtS,
    session,
  });
  return { token, user: { id, email, name, role } };
}

/** A developer token, with the rights of a session token. Failures as for `signIn`. */
export async function issueDeveloperToken(
  app: App,
  request: Request,
  body: DeveloperTokenRequest,
): Promise<Static<typeof DeveloperTokenSchema>> {
  const { ttl_days, ...credentials } = check(DeveloperTokenRequest, body);
  const { tenant, user } = await verify(app, request, credentials);
  const { id, email, token_version: version } = user;
  const expiresAtS = unixTimeIn((ttl_days ?? daysDefault) * 86_400);
  const claims = { kind: 'developer', tenantId: tenant.id, subject: id, version, expiresAtS } as const;
  return { ...(await issueToken(app, claims)), user: { id, email } };
}

/** The tenant that the request names. 400 without one, 404 for an unknown one, 403 for a suspended one. */
async function requireNamedTenant(app: App, request: Request): Promise<Tenant> {
  const tenant = await namedTenant(app, request);
  if (tenant === null) throw invalidField('X-Tenant-ID', 'name the tenant in this header');
  if (tenant.status === 'suspended') throw forbidden('this tenant is suspended');
  return tenant;
}

async function verify(
  app: App,
  request: Request,
  { email, password }: PasswordCredentials,
): Promise<{ tenant: Tenant; user: UserRow }> {
  await limitAttempts(app, request);
  const tenant = await requireNamedTenant(app, request);
  return semaphore.run(async () => ({ tenant, user: await verifiedUser(app, tenant, { email, password }) }));
}

async function verifiedUser(app: App, tenant: Tenant, { email, password }: PasswordCredentials): Promise<UserRow> {
  const user = await app.db.first<UserRow>(sql`
    select id, email, name, role, is_active, password_hash, token_version
    from ${usersTable(tenant)}
    where lower(email) = lower(${email})`);
  const name = user?.id ?? email.toLowerCase();
  await guardAccount(app, { kind: 'user', tenantId: tenant.id, name }, async () => {
    const isRight = await verifyPassword(password, user?.password_hash ?? null);
    return isRight && user?.is_active === true;
  });
  return user as UserRow;
}

/** Unix time in seconds, some seconds from now. */
export function unixTimeIn(seconds: number): number {
  return Math.floor(Date.now() / 1_000) + seconds;
}

/** A signed token and its expiry. */
export async function issueToken(app: App, claims: Claims): Promise<{ token: string; expiresAt: string }> {
  const token = await tokensOf(app).sign(claims);
  return { token, expiresAt: new Date(claims.expiresAtS * 1_000).toISOString() };
}
