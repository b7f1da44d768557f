// Making an invitation, of a member or with a platform code, and mailing its link when it has an
// addressee. The token is in the answer and in the mail; what is stored is its hash.
// Contract: interface#invitation, decisions#invitations.
import type { App } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { newId } from '../runtime/ids.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';
import type { Tenant } from '../tenants/tenants.ts';

const PREFIX = 'svc_inv_';

export interface InvitationInput {
  kind: 'member' | 'platform';
  /** Null for a platform code, which makes a tenant. */
  tenant: Tenant | null;
  /** Locks the invitation to this address, and mails the link there. */
  email: string | null;
  /** What the invited person becomes. */
  role: string;
  /** Id of the credential or person that invites; null for the super-admin. */
  inviter: string | null;
  expiresInDays?: number | undefined;
}

export interface NewInvitation {
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

/**
 * Makes an invitation, in one transaction with what `admits` checks. The mail, if any, is seen to later and never fails
 * this.
 */
export async function createInvitation(
  app: App,
  input: InvitationInput,
  admits: (tx: Tx) => Promise<void> = async () => undefined,
): Promise<NewInvitation> {
  const { kind, tenant, email, role, inviter, expiresInDays = LIMITS.invitation.daysDefault } = input;
  const token = newToken(PREFIX);
  const row = await app.db.begin(async (tx) => {
    await admits(tx);
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

/** Where links in mails begin. */
export function linkBase(app: App): string {
  return app.config.appUrl ?? app.address;
}

function invitationText(tenant: Tenant | null, url: string, expiresAt: string): { subject: string; text: string } {
  const to = tenant === null ? 'set up a new tenant' : `join ${tenant.name}`;
  return {
    subject: `Invitation to ${to}`,
    text: `You are invited to ${to}.\n\nAccept the invitation here:\n${url}\n\nIt is valid until ${expiresAt}. Do not pass this link on.\n`,
  };
}
