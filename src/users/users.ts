// The users of a tenant: list, add, change, remove. At least one active owner remains: a change that could remove one
// locks the owners first. A change of rights takes effect on every process within a second.
// Failures: 400 with every problem, 404, 409 for a taken address or the last owner.
// Contract: interface#user, decisions#users.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { lockRole } from '../access/grants.ts';
import { hashPassword } from '../access/passwords.ts';
import { dropSessions } from '../access/user-sessions.ts';
import type { App } from '../app.ts';
import { conflict, notFound } from '../errors.ts';
import { check, given } from '../http/check.ts';
import { pageParameters, parameters } from '../http/parameters.ts';
import { type Page, pageOf } from '../http/reply.ts';
import { nullable, Timestamp } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { identifier, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { requireRoom } from '../tenants/definition-counts.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { requireRoomForUser } from '../usage/user-quota.ts';
import { createInvitation } from './create-invitation.ts';
import { Mailed, NewUser, PersonSchema, UserChange } from './person.ts';

const { properties: Person } = PersonSchema;
export const UserSchema = Type.Object({
  ...Person,
  isActive: Type.Boolean(),
  createdAt: Timestamp,
  updatedAt: Timestamp,
});
export type User = Static<typeof UserSchema>;

/** A person who is invited to become a user; `id` is the invitation's. */
export const InvitedUserSchema = Type.Object({
  ...Person,
  isActive: Type.Literal(false),
  status: Type.Literal('invited'),
  expiresAt: Timestamp,
  mailed: Mailed,
  inviteUrl: nullable(Type.String({ format: 'uri' }), { description: 'the link, when it is not mailed; shown once' }),
});
export type InvitedUser = Static<typeof InvitedUserSchema>;

const COLUMNS = sql`
  id, email, name, role, is_active as "isActive", created_at as "createdAt", updated_at as "updatedAt"`;

export const UserFilter = parameters({
  ...pageParameters(),
  search: Type.Optional(
    Type.String({ maxLength: LIMITS.email.max, description: 'only those whose name or address contains this text' }),
  ),
});

/** The users, newest first; with `search` those whose name or address contains it, in any case. */
export async function listUsers(
  app: App,
  { tenant }: TenantCaller,
  { page = 1, limit = LIMITS.list.limitDefault, search = '' }: Static<typeof UserFilter>,
): Promise<Page<User>> {
  const found =
    search === '' ? usersTable(tenant) : sql`${usersTable(tenant)} where strpos(search, lower(${search})) > 0`;
  const rows = await app.db.rows<User>(sql`
    select ${COLUMNS} from ${found}
    order by id desc
    limit ${limit}::bigint offset ${(page - 1) * limit}::bigint`);
  const counted = await app.db.first<{ total: number }>(sql`select count(*) as total from ${found}`);
  return pageOf(rows, counted?.total ?? 0, page, limit);
}

/** One user. 404. */
export async function getUser(app: App, { tenant }: TenantCaller, id: string): Promise<User> {
  if (!isUuid(id)) throw notFound('user');
  const row = await app.db.first<User>(sql`select ${COLUMNS} from ${usersTable(tenant)} where id = ${id}::uuid`);
  if (row === undefined) throw notFound('user');
  return row;
}

/** Adds a user or, without a password, sends an invitation with that role. */
export async function addUser(app: App, caller: TenantCaller, body: NewUser): Promise<User | InvitedUser> {
  const { email, name, role, password } = check(NewUser, body);
  const { tenant, id: inviter } = caller;
  if (password == null) {
    const invited = { kind: 'member', tenant, invitingTenant: tenant, email, role, inviter } as const;
    const { id, expiresAt, inviteUrl, mailed } = await createInvitation(app, invited, async (tx) => {
      await lockRole(tx, tenant, role);
      await requireEmailFree(tx, tenant, email);
    });
    return {
      id,
      email,
      name,
      role,
      isActive: false,
      status: 'invited',
      expiresAt,
      mailed,
      inviteUrl: mailed ? null : inviteUrl,
    };
  }
  const passwordHash = await hashPassword(password);
  return app.db.begin(async (tx) => {
    await lockRole(tx, tenant, role);
    return insertUser(app, tx, tenant, { email, name, role, passwordHash });
  });
}

/** Stores a new, active user. 409 for a taken address, and at the limit of users; 403 beyond the quota. */
export async function insertUser(
  app: App,
  tx: Tx,
  tenant: Pick<Tenant, 'id' | 'schema' | 'quotas'>,
  { email, name, role, passwordHash }: { email: string; name: string; role: string; passwordHash: string },
): Promise<User> {
  await requireRoom(tx, tenant, 'users');
  await requireRoomForUser(app, tx, tenant);
  const row = await tx.first<User>(sql`
    insert into ${usersTable(tenant)} (id, email, name, role, password_hash)
    values (${newId()}::uuid, ${email}, ${name}, ${role}, ${passwordHash})
    on conflict ((lower(email))) do nothing
    returning ${COLUMNS}`);
  if (row === undefined) throw takenEmail();
  return row;
}

/**
 * Changes a user. A new password and deactivation end the user's tokens; they, a new address and a new role void the
 * reset tokens that were mailed before.
 */
export async function changeUser(app: App, caller: TenantCaller, id: string, body: UserChange): Promise<User> {
  if (!isUuid(id)) throw notFound('user');
  const { tenant } = caller;
  const { email, name, role, isActive, password } = given(check(UserChange, body));
  const passwordHash = password === undefined ? null : await hashPassword(password);
  const endsTokens = password !== undefined || isActive === false;
  const voidsResets = [email, role, isActive, password].some((value) => value !== undefined);
  const row = await app.db.begin(async (tx) => {
    if (role !== undefined) await lockRole(tx, tenant, role);
    if ((role !== undefined && role !== 'owner') || isActive === false) await requireAnotherOwner(tx, tenant, id);
    if (email !== undefined) await requireEmailFree(tx, tenant, email, id);
    if (isActive === true) await requireRoomToActivate(tx, tenant, id);
    const changed = await tx.first<User>(sql`
      update ${usersTable(tenant)}
      set email = coalesce(${email ?? null}, email), name = coalesce(${name ?? null}, name),
        role = coalesce(${role ?? null}, role), is_active = coalesce(${isActive ?? null}::boolean, is_active),
        password_hash = coalesce(${passwordHash}, password_hash),
        token_version = token_version + ${endsTokens ? 1 : 0}::int, updated_at = now()
      where id = ${id}::uuid
      returning ${COLUMNS}`);
    if (voidsResets) await voidResetTokens(tx, tenant, id);
    if (endsTokens) await dropSessions(tx, tenant, id);
    return changed;
  });
  if (row === undefined) throw notFound('user');
  await app.invalidations.publish('user', `${tenant.id}:${row.id}`);
  return row;
}

/**
 * Voids the reset tokens mailed to a user before. Follows the change of the user's row, whose lock a reset in progress
 * waits for.
 */
export async function voidResetTokens(tx: Tx, { id: tenantId }: Pick<Tenant, 'id'>, userId: string): Promise<void> {
  await tx.rows(sql`
    update platform.password_resets set used_at = now()
    where tenant_id = ${tenantId}::uuid and user_id = ${userId}::uuid and used_at is null`);
}

/** 409 at the limit of active users, unless the user is one of them. */
async function requireRoomToActivate(tx: Tx, tenant: Tenant, id: string): Promise<void> {
  const inactive = await tx.first(sql`
    select from ${usersTable(tenant)} where id = ${id}::uuid and not is_active for update`);
  if (inactive !== undefined) await requireRoom(tx, tenant, 'users');
}

/** Removes a user and ends its tokens. Returns its id. */
export async function removeUser(app: App, { tenant }: TenantCaller, id: string): Promise<string> {
  if (!isUuid(id)) throw notFound('user');
  const row = await app.db.begin(async (tx) => {
    await requireAnotherOwner(tx, tenant, id);
    const removed = await tx.first<{ id: string }>(sql`
      delete from ${usersTable(tenant)} where id = ${id}::uuid returning id`);
    await tx.rows(sql`
      delete from platform.password_resets where tenant_id = ${tenant.id}::uuid and user_id = ${id}::uuid`);
    await dropSessions(tx, tenant, id);
    return removed;
  });
  if (row === undefined) throw notFound('user');
  await app.invalidations.publish('user', `${tenant.id}:${row.id}`);
  return row.id;
}

/** 409 when the user is the only active owner. Locks the owners, so that the last two cannot be removed at once. */
async function requireAnotherOwner(tx: Tx, tenant: Tenant, id: string): Promise<void> {
  const owners = await tx.rows<{ id: string }>(sql`
    select id from ${usersTable(tenant)} where role = 'owner' and is_active order by id for update`);
  const isOwner = owners.some((owner) => owner.id === id.toLowerCase());
  if (isOwner && owners.length === 1) throw conflict('this is the last owner; make another user an owner first');
}

async function requireEmailFree(tx: Tx, tenant: Tenant, email: string, exceptId?: string): Promise<void> {
  const others = exceptId === undefined ? sql`` : sql`and id <> ${exceptId}::uuid`;
  const row = await tx.first(sql`select from ${usersTable(tenant)} where lower(email) = lower(${email}) ${others}`);
  if (row !== undefined) throw takenEmail();
}

function takenEmail() {
  return conflict('a user with this e-mail address exists', [{ path: 'email', message: 'is taken' }]);
}

export function usersTable({ schema }: Pick<Tenant, 'schema'>): Sql {
  return identifier(schema, 'users');
}
