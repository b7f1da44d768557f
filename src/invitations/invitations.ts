// Invitations: created, listed, revoked, found by token. The status is not stored: it follows from the
// timestamps of the invitation and the clock.
// Failures: 400, 404, 409 for an invitation that is not pending. Contract: interface#invitations, decisions#invitations.
import { type Caller, requireTenantAdmin, type TenantCaller } from '../access/caller.ts';
import { namesTenant } from '../access/tenant-context.ts';
import type { App } from '../app.ts';
import { conflict, forbidden, notFound } from '../errors.ts';
import { Input, wholeNumber } from '../http/input.ts';
import { type Page, pageOf } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import { isUuid } from '../runtime/ids.ts';
import { join, type Queries, type Sql, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { sha256 } from '../runtime/tokens.ts';
import { createInvitation, type NewInvitation } from '../users/create-invitation.ts';
import { EMAIL_PROBLEM, isEmail } from '../users/email.ts';

export const STATUSES = ['pending', 'accepted', 'expired', 'revoked'] as const;
export type Status = (typeof STATUSES)[number];

/** An invitation in a list, without its token. */
export interface Invitation {
  id: string;
  email: string | null;
  status: Status;
  kind: 'member' | 'platform';
  /** The invited user's tenant; null for a platform code that is not accepted. */
  tenantSlug: string | null;
  createdAt: string;
  expiresAt: string;
  acceptedAt: string | null;
}

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

/** Invites to the tenant that the request names; without one, creates a platform code. 403 unless a tenant admin asks. */
export async function inviteOrMakeCode(
  app: App,
  caller: Caller,
  request: Request,
  body: JsonObject,
): Promise<Pick<NewInvitation, 'token' | 'inviteUrl'>> {
  const tenant = (await namesTenant(app, request)) ? requireTenantAdmin(caller).tenant : null;
  if (tenant === null && caller.kind !== 'super_admin') requireBoundAdmin(caller);
  const input = new Input(body);
  const email = input.optional('email', { accepts: isEmail, words: EMAIL_PROBLEM }) ?? null;
  const expiresInDays = input.optional('expiresInDays', wholeNumber(1, LIMITS.invitation.daysMax));
  input.refuseOthers();
  input.done();
  const invited =
    tenant === null ? ({ kind: 'platform', role: 'owner' } as const) : ({ kind: 'member', role: 'member' } as const);
  const invitation = { ...invited, tenant, email, inviter: caller.id, expiresInDays };
  const { token, inviteUrl } = await createInvitation(app, invitation);
  return { token, inviteUrl };
}

/** Platform codes need a tenant admin, or the super-admin, who needs no tenant. */
function requireBoundAdmin(caller: Caller): void {
  if (caller.tenant === null) throw forbidden('this needs a tenant admin');
  requireTenantAdmin(caller);
}

export interface ListFilter {
  status?: Status | undefined;
  /** A tenant's id or slug. */
  tenantId?: string | undefined;
  page: number;
  limit: number;
}

/** The tenant's invitations and the caller's platform codes, newest first. */
export async function listOwnInvitations(
  app: App,
  caller: TenantCaller,
  filter: ListFilter,
): Promise<Page<Invitation>> {
  return list(app, [isOwn(caller), ...statusIs(filter.status)], filter);
}

/** Every tenant's invitations and all platform codes, newest first. */
export async function listAllInvitations(app: App, filter: ListFilter): Promise<Page<Invitation>> {
  const { tenantId } = filter;
  const ofTenant =
    tenantId === undefined ? [] : [isUuid(tenantId) ? sql`t.id = ${tenantId}::uuid` : sql`t.slug = ${tenantId}`];
  return list(app, [sql`true`, ...ofTenant, ...statusIs(filter.status)], filter);
}

function isOwn(caller: TenantCaller): Sql {
  return sql`(i.kind = 'member' and i.tenant_id = ${caller.tenant.id}::uuid
    or i.kind = 'platform' and i.inviter = ${caller.id})`;
}

function statusIs(status: Status | undefined): Sql[] {
  return status === undefined ? [] : [sql`${STATUS} = ${status}`];
}

async function list(app: App, conditions: Sql[], { page, limit }: ListFilter): Promise<Page<Invitation>> {
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

/** The invitation with this token, in any state. */
export async function findByToken(queries: Queries, token: string): Promise<FoundInvitation | undefined> {
  return queries.first<FoundInvitation>(sql`
    select i.id, i.kind, ${STATUS} as status, i.email, i.role, i.tenant_id, t.slug as tenant_slug, t.status as tenant_status
    from platform.invitations as i
    left join platform.tenants as t on t.id = i.tenant_id
    where ${hasToken(token)}`);
}

/** Whether a token is valid, and for whom; nothing is revealed about an invalid one. */
export async function checkToken(
  app: App,
  token: string,
): Promise<{ valid: boolean; email: string | null; tenantSlug: string | null }> {
  const found = await findByToken(app.db, token);
  if (found?.status !== 'pending' || found.tenant_status === 'suspended') {
    return { valid: false, email: null, tenantSlug: null };
  }
  return { valid: true, email: found.email, tenantSlug: found.tenant_slug };
}
