// Accepts an invitation; the token is the only credential, and valid once. The person becomes a member of the
// tenant or, with a platform code, the owner of a new tenant. Claim, tenant and user are one transaction: of
// concurrent requests one succeeds and the others leave nothing behind.
// Failures: 400, 403 for an address other than the invited one, 404, 409, 410.
// Contract: interface#invitations, decisions#invitations.
import { type Static, Type } from '@sinclair/typebox';
import { hashPassword } from '../access/passwords.ts';
import { insertTenant } from '../admin/tenant-rows.ts';
import { TenantName, TenantSlug } from '../admin/tenants.ts';
import type { App } from '../app.ts';
import { conflict, forbidden, notFound, ServiceError } from '../errors.ts';
import { check } from '../http/check.ts';
import { open } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { KeyedLock } from '../runtime/concurrency.ts';
import { newId } from '../runtime/ids.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { lockTenantNames } from '../tenants/custom-domains.ts';
import { publishTenants, schemaOf, tenantById } from '../tenants/tenants.ts';
import { type PersonSchema, Registration } from '../users/person.ts';
import { insertUser, type User } from '../users/users.ts';
import { type FoundInvitation, findByToken, hasToken, IS_PENDING } from './invitations.ts';

/** The names of the new tenant: needed with a platform code, and ignored with an invitation to a tenant. */
const NewTenantNames = open({ tenantSlug: TenantSlug, tenantName: TenantName });
const ignored = (description: string) =>
  Type.Optional(Type.Unsafe<string>(Type.Unknown({ description, type: 'string' })));
export const Acceptance = open({
  token: Type.String({ minLength: 1, error: 'is required: the invitation’s token' }),
  ...Registration.properties,
  tenantSlug: ignored('platform codes: the slug of the new tenant'),
  tenantName: ignored('platform codes: its name'),
});

/** Serializes the requests for a token in a process, so that only one of them hashes a password. */
const { tenantsMax } = LIMITS.invitation;
const acceptances = new KeyedLock(Number.POSITIVE_INFINITY);

/** Accepts for the person in the body. Ignores `role`, and the new tenant's slug and name unless the token is a platform code. */
export async function acceptInvitation(
  app: App,
  body: Static<typeof Acceptance>,
): Promise<Static<typeof PersonSchema>> {
  const { token, email, name, password } = check(Acceptance, body);
  const person = { email, name, password };
  return acceptances.run(sha256(token).toString('hex'), async () => {
    const invitation = requirePending(await findByToken(app.db, token), person);
    const newTenant = invitation.kind === 'platform' ? check(NewTenantNames, body) : null;
    const passwordHash = await hashPassword(person.password);
    const { id, role } =
      newTenant === null
        ? await joinTenant(app, token, invitation, { ...person, passwordHash })
        : await createInvitedTenant(app, token, { ...person, passwordHash }, newTenant);
    return { id, email, name, role };
  });
}

/** The invitation, if this person may accept it. */
function requirePending(
  invitation: FoundInvitation | undefined,
  { email }: Pick<Registration, 'email'>,
): FoundInvitation {
  if (invitation === undefined) throw notFound('invitation');
  if (invitation.status === 'expired') throw new ServiceError('GONE', 'this invitation has expired');
  if (invitation.status !== 'pending') throw conflict(`this invitation is ${invitation.status}`);
  if (invitation.tenant_status === 'suspended') throw forbidden('this tenant is suspended');
  const { email: locked } = invitation;
  if (locked !== null && locked.toLowerCase() !== email.toLowerCase()) {
    throw forbidden('this invitation is for another e-mail address');
  }
  return invitation;
}

type NewUser = Omit<Registration, 'password'> & { passwordHash: string };

async function joinTenant(app: App, token: string, { tenant_id, role }: FoundInvitation, user: NewUser): Promise<User> {
  const tenant = await tenantById(app, tenant_id ?? '');
  if (tenant === null) throw notFound('invitation');
  return app.db.begin(async (tx) => {
    await claim(tx, token, user);
    return insertUser(app, tx, tenant, { ...user, role });
  });
}

async function createInvitedTenant(
  app: App,
  token: string,
  user: NewUser,
  { tenantSlug: slug, tenantName: name }: Static<typeof NewTenantNames>,
): Promise<User> {
  const id = newId();
  const owner = await app.db.slow.begin(async (tx) => {
    await claim(tx, token, user);
    await lockTenantNames(tx);
    const maker = await originWithRoom(tx, token);
    await insertTenant(app, tx, { id, slug, name, settings: {} });
    await tx.rows(sql`update platform.tenants set made_by_tenant = ${maker}::uuid where id = ${id}::uuid`);
    await tx.rows(sql`update platform.invitations as i set tenant_id = ${id}::uuid where ${hasToken(token)}`);
    return insertUser(app, tx, { id, schema: schemaOf(id), quotas: {} }, { ...user, role: 'owner' });
  });
  await publishTenants(app, [id], [`slug:${slug}`]);
  return owner;
}

/**
 * The tenant from which a new tenant originates, through however many codes; null when it has none. 409 when that tenant has
 * made as many as it may, since each tenant has its own share of connections, streams and storage. Checked before the schema is
 * created, which takes the database long and would be undone. Must hold the lock of the tenants' names.
 */
async function originWithRoom(tx: Tx, token: string): Promise<string | null> {
  const maker = await tx.first<{ id: string | null; made: number }>(sql`
    with maker as (
      select coalesce(t.made_by_tenant, i.inviting_tenant) as id
      from platform.invitations as i left join platform.tenants as t on t.id = i.inviting_tenant
      where ${hasToken(token)}
    )
    select id, (select count(*)::int from platform.tenants as t where t.made_by_tenant = maker.id) as made from maker`);
  if ((maker?.made ?? 0) < tenantsMax) return maker?.id ?? null;
  throw conflict(`the codes of one tenant make at most ${tenantsMax} tenants: ask the operator for further ones`);
}

/** Marks the invitation as accepted; a concurrent claim waits and then fails. */
async function claim(tx: Tx, token: string, person: Pick<Registration, 'email'>): Promise<void> {
  const claimed = await tx.first(sql`
    update platform.invitations as i set accepted_at = now()
    where ${hasToken(token)} and ${IS_PENDING}
    returning i.id`);
  if (claimed !== undefined) return;
  requirePending(await findByToken(tx, token), person);
  throw conflict('concurrent modification of this invitation; try again');
}
