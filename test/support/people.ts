// Users, bots, public keys and invitations of a test's tenant, created over the API; throws when the service refuses.
import { tokensOf } from '../../src/access/resolve-caller.ts';
import { newAddress } from './addresses.ts';
import { bearer } from './credentials.ts';
import type { Client, Json, TestService, TestTenant } from './service.ts';

export const PASSWORD = 'a password of the tests';
let emails = 0;

export const newEmail = (): string => `member${++emails}@example.com`;

/** Adds a user, a member with a new address unless `input` says otherwise; resolves to the user. */
export async function addUser(tenant: Client, input: Record<string, unknown> = {}): Promise<Json> {
  const answer = await tenant.post('/api/users', {
    email: newEmail(),
    name: 'Ada',
    role: 'member',
    password: PASSWORD,
    ...input,
  });
  if (answer.status !== 201) throw new Error(`no user: ${answer.text}`);
  return answer.body.data;
}

/** Signs a user in; resolves to a client with the token. */
export async function signIn(
  anonymous: Client,
  { slug }: { slug: string },
  email: string,
  password = PASSWORD,
): Promise<Client & { token: string }> {
  const headers = { 'x-tenant-id': slug, ...newAddress() };
  const answer = await anonymous.post('/api/auth/tenant/login', { email, password }, headers);
  if (answer.status !== 200) throw new Error(`no sign-in: ${answer.text}`);
  const { token } = answer.body.data;
  return { ...anonymous.with({ authorization: `Bearer ${token}` }), token };
}

/** Registers a bot; resolves to its id and a client with a token of ten minutes. */
export async function registerBot(
  service: TestService,
  tenant: TestTenant,
  name: string,
): Promise<Client & { id: string }> {
  const answer = await tenant.post('/api/auth/bots/register', { name, tenantSlug: tenant.slug });
  if (answer.status !== 201) throw new Error(`no bot: ${answer.text}`);
  const { id } = answer.body.data;
  const claims = { kind: 'bot', tenantId: tenant.id, subject: id, version: 1 } as const;
  const expiresAtS = Math.floor(Date.now() / 1_000) + 600;
  return { ...bearer(service, await tokensOf(service.app).sign({ ...claims, expiresAtS })), id };
}

/** Creates a public key that reads records as a viewer, or as `input` says; resolves to the key. */
export async function createPublicKey(tenant: Client, input: Record<string, unknown> = {}): Promise<Json> {
  const roles = (await tenant.get('/api/roles')).body.data;
  const roleId = roles.find(({ name }: Json) => name === 'viewer').id;
  const answer = await tenant.post('/api/auth/public-keys', {
    ...{ label: 'site', roleId, scopes: ['records:read'] },
    ...input,
  });
  if (answer.status !== 201) throw new Error(`no public key: ${answer.text}`);
  return answer.body.data;
}

/** Creates an invitation; resolves to its token. */
export async function invite(tenant: TestTenant, input: Record<string, unknown> = {}): Promise<string> {
  const answer = await tenant.post('/api/invitations', input, { 'x-tenant-id': tenant.slug });
  if (answer.status !== 201) throw new Error(`no invitation: ${answer.text}`);
  return answer.body.data.token;
}
