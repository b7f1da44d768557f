// Invitations: created, listed, revoked, found by token. The status is not stored: it follows from the
// timestamps of the invitation and the clock.
// Failures: 400, 404, 409 for an invitation that is not pending. Contract: interface#invitations, decisions#invitations.
import { type Static, Type } from '@sinclair/typebox';
import { type Caller, requireTenantAdmin, type TenantCaller } from '../access/caller.ts';
import { namesTenant } from '../access/tenant-context.ts';
import type { App } from '../app.ts';
import { conflict, forbidden, notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { pageParameters, parameters } from '../http/parameters.ts';
import { type Page, pageOf } from '../http/reply.ts';
import { closed, nullable, oneOf, optional, Timestamp, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { join, type Queries, type Sql, sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { createInvitation } from '../users/create-invitation.ts';
import { Email, Mailed } from '../users/person.ts';

const STATUSES = ['pending', 'accepted', 'expired', 'revoked'] as const;
type Status = (typeof STATUSES)[number];

const TypedAddress = Type.String({ examples: ['ada@acme.test'] });
const Slug = Type.String({ examples: ['acme'] });
/** An invitation in a list, without its token. */
export const InvitationSchema = Type.Object(
  {
    id: Uuid,
    email: nullable(TypedAddress),
    status: oneOf(STATUSES),
    kind: oneOf(['member', 'platform']),
    tenantSlug: nullable(Slug, {
      description: 'the invited user’s tenant; null for a platform code that is not accepted',
    }),
    createdAt: Timestamp,
    expiresAt: Timestamp,
    acceptedAt: nullable(Timestamp),
  },
  { $id: 'Invitation' },
);
type Invitation = Static<typeof InvitationSchema>;
export const IssuedInvitation = Type.Object({
  token: Type.String({ description: 'shown once' }),
  inviteUrl: Type.String({ format: 'uri' }),
  mailed: Mailed,
});
export const TokenCheck = Type.Object({
  valid: Type.Boolean(),
  email: nullable(TypedAddress),
  tenantSlug: nullable(Slug),
});

const { daysDefault, daysMax, pageLimitDefault } = LIMITS.invitation;
export const InvitationRequest = closed({
  email: optional(Email),
  expiresInDays: optional(Type.Integer({ minimum: 1, maximum: daysMax, default: daysDefault })),
});

const status = Type.Optional(oneOf(STATUSES, { description: 'only those with this status' }));
export const InvitationFilter = parameters({ status, ...pageParameters() });
export const PlatformFilter = parameters({
  status,
  ...pageParameters(pageLimitDefault),
  tenantId: Type.Optional(Type.String({ description: 'only those of this tenant: its id or its slug' })),
});

/** An invitation found by its token. */
export interface FoundInvitation {
  id: string;
  kind: 'member' | 'platform';
  status: Status;
  email: string | null;
  role: string;
  tenant_id: string | null;
  tenant_slug: string | null;
  tenant_status: 'active' | 'suspended' | null;
}

const STATUS = sql`case
  when i.revoked_at is not null then 'revoked'
  when i.accepted_at is not null then 'accepted'
  when i.expires_at <= now() then 'expired'
  else 'pending'
end`;

/** The condition that an invitation `i` may still be accepted or revoked. */
export const IS_PENDING = sql`i.revoked_at is null and i.accepted_at is null and i.expires_at > now()`;

export function hasToken(token: string): Sql {
  return sql`i.hash = decode(${sha256(token).toString('hex')}, 'hex')`;
}

/** Invites to the tenant that the request names; without one, creates a platform code. 403 unless the caller is a tenant admin or the super-admin. */
export async function inviteOrCreateCode(
  app: App,
  caller: Caller,
  request: Request,
  body: Static<typeof InvitationRequest>,
): Promise<Static<typeof IssuedInvitation>> {
  const tenant = (await namesTenant(app, request, caller)) ? requireTenantAdmin(caller).tenant : null;
  if (tenant === null && caller.kind !== 'super_admin') {
    if (caller.tenant === null) throw forbidden('this needs a tenant admin');
    requireTenantAdmin(caller);
  }
  const { email = null, expiresInDays } = check(InvitationRequest, body);
  const invited =
    tenant === null ? ({ kind: 'platform', role: 'owner' } as const) : ({ kind: 'member', role: 'member' } as const);
  const invitingTenant = caller.kind === 'super_admin' ? null : caller.tenant;
  const invitation = {
    ...invited,
    tenant,
    invitingTenant,
    email,
    inviter: caller.id,
    expiresInDays: expiresInDays ?? undefined,
  };
  const { token, inviteUrl, mailed } = await createInvitation(app, invitation);
  return { token, inviteUrl, mailed };
}

/** The tenant's invitations and the caller's platform codes, newest first. */
export async function listOwnInvitations(
  app: App,
  caller: TenantCaller,
  { status, page = 1, limit = LIMITS.list.limitDefault }: Static<typeof InvitationFilter>,
): Promise<Page<Invitation>> {
  return list(app, [isOwn(caller), ...statusIs(status)], page, limit);
}

/** Every tenant's invitations and all platform codes, newest first. */
export async function listAllInvitations(
  app: App,
  { status, tenantId, page = 1, limit = pageLimitDefault }: Static<typeof PlatformFilter>,
): Promise<Page<Invitation>> {
  const ofTenant =
    tenantId === undefined ? [] : [isUuid(tenantId) ? sql`t.id = ${tenantId}::uuid` : sql`t.slug = ${tenantId}`];
  return list(app, [sql`true`, ...ofTenant, ...statusIs(status)], page, limit);
}

/** A user of a clone has the id of the original's user, so a platform code is of its inviter in the inviting tenant. */
function isOwn({ id, tenant }: TenantCaller): Sql {
  return sql`(i.kind = 'member' and i.tenant_id = ${tenant.id}::uuid
    or i.kind = 'platform' and i.inviter = ${id} and i.inviting_tenant = ${tenant.id}::uuid)`;
}

function statusIs(status: Status | undefined): Sql[] {
  return status === undefined ? [] : [sql`${STATUS} = ${status}`];
}

async function list(app: App, conditions: Sql[], page: number, limit: number): Promise<Page<Invitation>> {
  const from = sql`
    from platform.invitations as i
    left join platform.tenants as t on t.id = i.tenant_id
    where ${join(conditions, ' and ')}`;
  const rows = await app.db.rows<Invitation>(sql`
    select i.id, i.email, ${STATUS} as status, i.kind, t.slug as "tenantSlug", i.created_at as "createdAt",
      i.expires_at as "expiresAt", i.accepted_at as "acceptedAt"
    ${from}
    order by i.id desc
    limit ${limit}::bigint offset ${(page - 1) * limit}::bigint`);
  const counted = await app.db.first<{ total: number }>(sql`select count(*) as total ${from}`);
  return pageOf(rows, counted?.total ?? 0, page, limit);
}

/** Revokes a pending invitation by its token or id. 404, or 409 when it is not pending. */
export async function revokeInvitation(app: App, caller: TenantCaller, tokenOrId: string): Promise<void> {
  const named = isUuid(tokenOrId) ? sql`i.id = ${tokenOrId}::uuid` : hasToken(tokenOrId);
  const own = caller.kind === 'super_admin' ? sql`(i.kind = 'platform' or ${isOwn(caller)})` : isOwn(caller);
  const revoked = await app.db.first(sql`
    update platform.invitations as i set revoked_at = now()
    where ${named} and ${own} and ${IS_PENDING}
    returning i.id`);
  if (revoked !== undefined) return;
  const row = await app.db.first<{ status: Status }>(sql`
    select ${STATUS} as status from platform.invitations as i where ${named} and ${own}`);
  if (row === undefined) throw notFound('invitation');
  throw conflict(`the invitation is ${row.status}`);
}

/**
 * The invitation with this token, in any state. A platform code is bound to the tenant whose admin made it: it has that tenant's
 * status, and is unknown once the tenant is deleted.
 */
export async function findByToken(queries: Queries, token: string): Promise<FoundInvitation | undefined> {
  return queries.first<FoundInvitation>(sql`
    select i.id, i.kind, ${STATUS} as status, i.email, i.role, i.tenant_id, t.slug as tenant_slug,
      coalesce(t.status, m.status) as tenant_status
    from platform.invitations as i
    left join platform.tenants as t on t.id = i.tenant_id
    left join platform.tenants as m on m.id = i.inviting_tenant
    where ${hasToken(token)} and (i.inviting_tenant is null or m.id is not null)`);
}

/** Whether a token is valid, and for whom; nothing is revealed about an invalid one. */
export async function checkToken(app: App, token: string): Promise<Static<typeof TokenCheck>> {
  const found = await findByToken(app.db, token);
  if (found?.status !== 'pending' || found.tenant_status === 'suspended') {
    return { valid: false, email: null, tenantSlug: null };
  }
  return { valid: true, email: found.email, tenantSlug: found.tenant_slug };
}
