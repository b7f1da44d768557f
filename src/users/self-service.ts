// Self-service of users: registration, reset of a forgotten password, change of a password. The first two need a setting
// of the tenant; an unknown or suspended tenant and one without the setting get the same 403. A new password ends all
// tokens of the user. Contract: interface#identity, decisions#identity.
import type { Static } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { propertiesOf } from '../access/credential-kinds.ts';
import { guardAccount, isWithinLimit, limitAttempts } from '../access/lockout.ts';
import { hashPassword, verifyPassword } from '../access/passwords.ts';
import { attachNamedTenant } from '../access/request-context.ts';
import { namedTenant } from '../access/tenant-context.ts';
import { dropSessions } from '../access/user-sessions.ts';
import type { App } from '../app.ts';
import { forbidden, invalidField, ServiceError, unauthorized } from '../errors.ts';
import { check } from '../http/check.ts';
import { open, text } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { type Message, onOneLine } from '../runtime/mail.ts';
import { sql } from '../runtime/sql.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';
import { forStrangers } from '../runtime/work.ts';
import { type Tenant, tenantById } from '../tenants/tenants.ts';
import { linkBase } from './create-invitation.ts';
import { Email, Password, type PersonSchema, Registration, TypedPassword } from './person.ts';
import { insertUser, usersTable, voidResetTokens } from './users.ts';

type SelfServiceSetting = 'selfRegistration' | 'passwordReset';

const RESET_PREFIX = 'svc_rst_';
const { ttlS, mailsMax, mailsWindowMs } = LIMITS.passwordReset;

export const ResetRequest = open({ email: Email });
export const PasswordReset = open({
  token: text(LIMITS.password.max, { examples: ['svc_rst_...'] }),
  password: Password,
});
export const PasswordChange = open({ currentPassword: TypedPassword, newPassword: Password });

/** Adds a user with the role viewer; a role in the body is ignored. 409 for a taken address, 429 past the limit. */
export async function register(app: App, request: Request, body: Registration): Promise<Static<typeof PersonSchema>> {
  const tenant = await tenantWithSetting(app, request, 'selfRegistration');
  await limitAttempts(app, request, 'registrations');
  const { email, name, password } = check(Registration, body);
  const passwordHash = await hashPassword(password);
  const user = await app.db.begin((tx) => insertUser(app, tx, tenant, { email, name, role: 'viewer', passwordHash }));
  return { id: user.id, email: user.email, name: user.name, role: user.role };
}

/**
 * Queues a mail, unless the client's network has asked for too many. The user is looked up later, so that the response does not
 * reveal whether there is one.
 */
export async function forgetPassword(
  app: App,
  request: Request,
  body: Static<typeof ResetRequest>,
): Promise<{ sent: true }> {
  const { email } = check(ResetRequest, body);
  const tenant = await tenantWithSetting(app, request, 'passwordReset');
  if (await isWithinLimit(app, request, 'resets')) {
    forStrangers(tenant.id, () => app.mail.send(() => resetMail(app, tenant, email)));
  }
  return { sent: true };
}

/** The mail with a token; undefined for an unknown user, or when too many mails were sent. */
async function resetMail(app: App, tenant: Tenant, email: string): Promise<Message | undefined> {
  const user = await app.db.first<{ id: string; email: string }>(sql`
    select id, email from ${usersTable(tenant)} where lower(email) = lower(${email}) and is_active`);
  if (user === undefined) return undefined;
  const { count } = await app.broker.count(`reset-mails:${tenant.id}:${user.id}`, mailsWindowMs);
  if (count > mailsMax) return undefined;
  const token = newToken(RESET_PREFIX);
  // The lock serializes this with a change of the address, which voids the tokens issued before it.
  const issued = await app.db.first(sql`
    with addressee as (
      select id from ${usersTable(tenant)} where id = ${user.id}::uuid and email = ${user.email} and is_active
      for no key update
    ), ended as (
      delete from platform.password_resets
      where tenant_id = ${tenant.id}::uuid and user_id = ${user.id}::uuid and (used_at is not null or expires_at <= now())
    )
    insert into platform.password_resets (id, tenant_id, user_id, hash, expires_at)
    select ${newId()}::uuid, ${tenant.id}::uuid, addressee.id, decode(${sha256(token).toString('hex')}, 'hex'),
      now() + make_interval(secs => ${ttlS}::int)
    from addressee
    returning id`);
  if (issued === undefined) return undefined;
  const name = onOneLine(tenant.name);
  return {
    to: user.email,
    subject: `Your password at ${name}`,
    text: `A new password was requested for this address at ${name}.\n\nSet it here within an hour:\n${linkBase(app)}/reset-password?token=${token}\n\nIf you did not request it, ignore this mail.\n`,
  };
}

/** Sets a new password with a mailed token, once. The token determines the tenant; a named one must match. 400. */
export async function resetPassword(
  app: App,
  request: Request,
  body: Static<typeof PasswordReset>,
): Promise<{ reset: true }> {
  const { token, password } = check(PasswordReset, body);
  const named = await namedTenantWithSetting(app, request, 'passwordReset');
  const reset = await app.db.first<{ id: string; tenant_id: string; user_id: string }>(sql`
    select id, tenant_id, user_id from platform.password_resets
    where hash = decode(${sha256(token).toString('hex')}, 'hex') and used_at is null and expires_at > now()`);
  if (reset === undefined || (named !== null && named.id !== reset.tenant_id)) throw invalidToken();
  const tenant = named ?? requireSetting(await tenantById(app, reset.tenant_id), 'passwordReset');
  attachNamedTenant(request, tenant);
  const passwordHash = await hashPassword(password);
  await app.db.begin(async (tx) => {
    // Locks the user first, as every change of a user does: then the token's state is final.
    const user = await tx.first(sql`
      update ${usersTable(tenant)}
      set password_hash = ${passwordHash}, token_version = token_version + 1, updated_at = now()
      where id = ${reset.user_id}::uuid and is_active
      returning id`);
    const used = await tx.first(sql`
      update platform.password_resets set used_at = now()
      where id = ${reset.id}::uuid and used_at is null
      returning id`);
    if (used === undefined || user === undefined) throw invalidToken();
    await voidResetTokens(tx, tenant, reset.user_id);
    await dropSessions(tx, tenant, reset.user_id);
  });
  await app.invalidations.publish('user', `${tenant.id}:${reset.user_id}`);
  return { reset: true };
}

/** Changes the caller's own password. 403 if the caller is not a user, 401 for a wrong current password, which counts as a failed attempt. */
export async function changePassword(
  app: App,
  caller: TenantCaller,
  body: Static<typeof PasswordChange>,
): Promise<{ changed: true }> {
  if (propertiesOf(caller.kind).account !== 'user') throw forbidden('only a user has a password');
  const { currentPassword: current, newPassword: password } = check(PasswordChange, body);
  const { tenant } = caller;
  const id = caller.id as string;
  const stored = await app.db.first<{ password_hash: string | null }>(sql`
    select password_hash from ${usersTable(tenant)} where id = ${id}::uuid`);
  const before = stored?.password_hash ?? null;
  await guardAccount(app, { kind: 'user', tenantId: tenant.id, name: id }, () => verifyPassword(current, before));
  const passwordHash = await hashPassword(password);
  await app.db.begin(async (tx) => {
    const changed = await tx.first(sql`
      update ${usersTable(tenant)}
      set password_hash = ${passwordHash}, token_version = token_version + 1, updated_at = now()
      where id = ${id}::uuid and password_hash = ${before}
      returning id`);
    if (changed === undefined) throw unauthorized('wrong credentials');
    await voidResetTokens(tx, tenant, id);
    await dropSessions(tx, tenant, id);
  });
  await app.invalidations.publish('user', `${tenant.id}:${id}`);
  return { changed: true };
}

function invalidToken(): ServiceError {
  return invalidField('token', 'is unknown, used or expired');
}

/** The tenant named by header or host, if it has enabled the setting. 400 when none is named, otherwise 403. */
async function tenantWithSetting(app: App, request: Request, which: SelfServiceSetting): Promise<Tenant> {
  const tenant = await namedTenantWithSetting(app, request, which);
  if (tenant === null) throw invalidField('X-Tenant-ID', 'name the tenant in this header');
  return tenant;
}

/** Like `tenantWithSetting`, but null when no tenant is named. */
async function namedTenantWithSetting(app: App, request: Request, which: SelfServiceSetting): Promise<Tenant | null> {
  try {
    const tenant = await namedTenant(app, request);
    return tenant === null ? null : requireSetting(tenant, which);
  } catch (error) {
    if (error instanceof ServiceError && error.ecode === 'NOT_FOUND') return requireSetting(null, which);
    throw error;
  }
}

function requireSetting(tenant: Tenant | null, which: SelfServiceSetting): Tenant {
  if (tenant?.status === 'active' && tenant.settings[which] === true) return tenant;
  throw forbidden('this is not enabled in this tenant');
}
