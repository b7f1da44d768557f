// Creates invitations, for members of a tenant and for new tenants of the platform, and mails the link if an address is
// given. Only the hash of the token is stored; the answer and the mail contain the token.
// Contract: interface#invitation, decisions#invitations.
import type { App } from '../app.ts';
import { conflict } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { onOneLine } from '../runtime/mail.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';
import type { Tenant } from '../tenants/tenants.ts';

const PREFIX = 'svc_inv_';
const { perTenantMax, codesMax } = LIMITS.invitation;

interface InvitationInput {
  kind: 'member' | 'platform';
  /** Null for a platform invitation, whose guest creates a tenant. */
  tenant: Tenant | null;
  /** The tenant whose admin invites; null for operators. */
  invitingTenant: Tenant | null;
  /** The only address that may accept; the link is mailed there. */
  email: string | null;
  /** The role of the invited user. */
  role: string;
  /** The id of the inviting credential or user; null for the super-admin. */
  inviter: string | null;
  expiresInDays?: number | undefined;
}

interface NewInvitation {
  id: string;
  /** The token; shown only once. */
  token: string;
  inviteUrl: string;
  /** Whether a mail with the link is on its way; otherwise the caller passes the link on. */
  mailed: boolean;
  email: string | null;
  role: string;
  /** ISO 8601. */
  expiresAt: string;
  createdAt: string;
}

/** Creates an invitation in one transaction with the checks of `requireAllowed`. 409 at the limit. A mail that cannot be sent is not an error here. */
export async function createInvitation(
  app: App,
  input: InvitationInput,
  requireAllowed: (tx: Tx) => Promise<void> = async () => undefined,
): Promise<NewInvitation> {
  const { kind, tenant, invitingTenant, email, role, inviter, expiresInDays = LIMITS.invitation.daysDefault } = input;
  const token = newToken(PREFIX);
  const row = await app.db.begin(async (tx) => {
    await requireAllowed(tx);
    await requireRoom(tx, input);
    return tx.first<{ id: string; expires_at: string; created_at: string }>(sql`
      insert into platform.invitations (id, hash, kind, tenant_id, email, role, inviter, inviting_tenant, expires_at)
      values (${newId()}::uuid, decode(${sha256(token).toString('hex')}, 'hex'), ${kind}, ${tenant?.id ?? null}::uuid,
        ${email}, ${role}, ${inviter}, ${invitingTenant?.id ?? null}::uuid, now() + make_interval(days => ${expiresInDays}::int))
      returning id, expires_at, created_at`);
  });
  const { id, expires_at: expiresAt, created_at: createdAt } = row as NonNullable<typeof row>;
  const inviteUrl = `${linkBase(app)}/invite/${token}`;
  const isQueued = email !== null && app.mail.send({ to: email, ...invitationText(tenant, inviteUrl, expiresAt) });
  const mailed = isQueued && app.config.smtpUrl !== null;
  return { id, token, inviteUrl, mailed, email, role, expiresAt, createdAt };
}

/** How many ended invitations are deleted at once to make room for new ones. */
const ROOM = 100;

/** 409 at the limit of a tenant's invitations, or of one creator's platform codes; ended ones make room. Operators have none. */
async function requireRoom(tx: Tx, { tenant, inviter, invitingTenant }: InvitationInput): Promise<void> {
  if (tenant === null && inviter === null) return;
  const max = tenant === null ? codesMax : perTenantMax;
  const own =
    tenant === null
      ? sql`kind = 'platform' and inviter = ${inviter} and inviting_tenant = ${invitingTenant?.id ?? null}::uuid`
      : sql`tenant_id = ${tenant.id}::uuid and kind = 'member'`;
  const found = await tx.first<{ count: number }>(sql`
    select count(*)::int as count from (select from platform.invitations where ${own} limit ${max}::int) as i`);
  if ((found?.count ?? 0) < max) return;
  const deleted = await tx.rows(sql`
    delete from platform.invitations where id = any(array(
      select id from platform.invitations
      where ${own} and coalesce(revoked_at, accepted_at, expires_at) <= now()
      order by id limit ${ROOM}::int for update skip locked))
    returning id`);
  if (deleted.length === 0) throw conflict(`at most ${max} invitations may be pending: revoke some first`);
}

/** The base address of links in mails. */
export function linkBase(app: App): string {
  return app.config.appUrl ?? app.address;
}

function invitationText(tenant: Tenant | null, url: string, expiresAt: string): { subject: string; text: string } {
  const to = tenant === null ? 'set up a new tenant' : `join ${onOneLine(tenant.name)}`;
  return {
    subject: `Invitation to ${to}`,
    text: `You are invited to ${to}.\n\nAccept the invitation here:\n${url}\n\nIt is valid until ${expiresAt}. Do not forward this link.\n`,
  };
}
