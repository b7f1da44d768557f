// Creates invitations, for members of a tenant and for new tenants of the platform, and mails the link if an address is
// given. Only the hash of the token is stored; the answer and the mail contain the token.
// Contract: interface#invitation, decisions#invitations.
import type { App } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';
import type { Tenant } from '../tenants/tenants.ts';

const PREFIX = 'svc_inv_';

interface InvitationInput {
  kind: 'member' | 'platform';
  /** Null for a platform invitation, whose guest creates a tenant. */
  tenant: Tenant | null;
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
  /** Shown once. */
  token: string;
  inviteUrl: string;
  email: string | null;
  role: string;
  /** ISO 8601. */
  expiresAt: string;
  createdAt: string;
}

/** Creates an invitation in one transaction with the checks of `requireAllowed`. A mail that cannot be sent is not an error here. */
export async function createInvitation(
  app: App,
  input: InvitationInput,
  requireAllowed: (tx: Tx) => Promise<void> = async () => undefined,
): Promise<NewInvitation> {
  const { kind, tenant, email, role, inviter, expiresInDays = LIMITS.invitation.daysDefault } = input;
  const token = newToken(PREFIX);
  const row = await app.db.begin(async (tx) => {
    await requireAllowed(tx);
    return tx.first<{ id: string; expires_at: string; created_at: string }>(sql`
      insert into platform.invitations (id, hash, kind, tenant_id, email, role, inviter, expires_at)
      values (${newId()}::uuid, decode(${sha256(token).toString('hex')}, 'hex'), ${kind}, ${tenant?.id ?? null}::uuid,
        ${email}, ${role}, ${inviter}, now() + make_interval(days => ${expiresInDays}::int))
      returning id, expires_at, created_at`);
  });
  const { id, expires_at: expiresAt, created_at: createdAt } = row as NonNullable<typeof row>;
  const inviteUrl = `${linkBase(app)}/invite/${token}`;
  if (email !== null) app.mail.send({ to: email, ...invitationText(tenant, inviteUrl, expiresAt) });
  return { id, token, inviteUrl, email, role, expiresAt, createdAt };
}

/** The base address of links in mails. */
export function linkBase(app: App): string {
  return app.config.appUrl ?? app.address;
}

function invitationText(tenant: Tenant | null, url: string, expiresAt: string): { subject: string; text: string } {
  const to = tenant === null ? 'set up a new tenant' : `join ${tenant.name}`;
  return {
    subject: `Invitation to ${to}`,
    text: `You are invited to ${to}.\n\nAccept the invitation here:\n${url}\n\nIt is valid until ${expiresAt}. Do not forward this link.\n`,
  };
}
