// Invalid tokens at every entry point: REST (also identity.test.ts), the event stream and the WebSocket.
// Contract: interface#credentials, decisions#tokens.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newAddress } from './support/addresses.ts';
import { addRole, adminSession, bearer, botToken, publicKey, userToken } from './support/credentials.ts';
import { claimsOf, forgeries, signerWith, validClaims } from './support/forged-tokens.ts';
import { type Json, SECRETS, startService, type TestService, type TestTenant } from './support/service.ts';
import { type EventStream, openEvents, openSocket } from './support/streams.ts';

const { JWT_SECRET } = SECRETS;
const PASSWORD = 'canary-password-0816';

let service: TestService;
let tenant: TestTenant;
/** The claims of a bot's valid token. */
let bot: Json;
let forged: Record<string, string>;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'articles', fields: [{ key: 'title', type: 'text' }] });
  const { sub } = claimsOf(await botToken(service, tenant, { articles: ['read'] }));
  bot = validClaims('bot', sub, tenant.id);
  forged = forgeries(JWT_SECRET, bot, 'bot');
});
afterAll(() => service.stop());

const good = (): string => signerWith(JWT_SECRET, 'bot')(bot);
const whoami = async (token: string): Promise<number> => (await bearer(service, token).get('/api/auth/whoami')).status;

/** The status of a request for the stream, which is closed if it was opened. */
async function streamStatus(query: string, headers: Record<string, string>): Promise<number> {
  const stream: EventStream = await openEvents(service.url, tenant.slug, '', query, headers);
  stream.close();
  return stream.status;
}

describe('a token that is forged, malformed, expired or of the wrong kind', () => {
  test('gets 401 from REST and the event stream as a bot token', async () => {
    expect(await whoami(good())).toBe(200);
    const taken: string[] = [];
    for (const [name, token] of Object.entries(forged)) {
      const statuses = [await whoami(token), await streamStatus('', { authorization: `Bearer ${token}` })];
      if (statuses.some((status) => status !== 401)) taken.push(`${name}: ${statuses}`);
    }
    expect(taken).toEqual([]);
  });

  test('gets auth_error from the WebSocket, which still accepts a valid one afterwards', async () => {
    const socket = await openSocket(service.url);
    const taken: string[] = [];
    for (const [name, token] of Object.entries(forged)) {
      const answer = await socket.ask({ type: 'auth', token });
      if (answer.type !== 'auth_error' || answer.code !== 'not_authenticated') taken.push(`${name}: ${answer.type}`);
    }
    expect(taken).toEqual([]);
    expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).code).toBe('not_authenticated');
    expect(await socket.ask({ type: 'auth', token: good() })).toEqual({ type: 'auth_ok' });
    socket.close();
  });
});

describe('a valid credential in the wrong place', () => {
  test('is ignored in the query of the event stream: 401', async () => {
    for (const value of [tenant.key, good()]) {
      for (const name of ['token', 'access_token', 'api_key', 'apiKey', 'x-api-key', 'authorization', 'key']) {
        expect([name, await streamStatus(`?${name}=${value}`, {})]).toEqual([name, 401]);
      }
    }
    expect(await streamStatus('', { cookie: `token=${tenant.key}; authorization=Bearer ${tenant.key}` })).toBe(401);
  });

  test('does not open the event stream as a token, session or public key: 403', async () => {
    const role = await addRole(service, tenant, { permissions: { '*': ['read'] } });
    const tokens = [
      good(),
      await userToken(service, tenant, 'owner'),
      await userToken(service, tenant, 'owner', 'developer'),
      await adminSession(service, tenant),
      await publicKey(service, tenant, role.id),
    ];
    for (const token of tokens) expect(await streamStatus('', { authorization: `Bearer ${token}` })).toBe(403);
  });

  test('is not accepted in the header of another kind of credential: 401', async () => {
    for (const token of [good(), await userToken(service, tenant, 'owner')]) {
      for (const header of ['x-api-key', 'x-public-key', 'x-anon-key', 'x-admin-key', 'x-admin-secret']) {
        const status = (await service.anonymous.get('/api/auth/whoami', { [header]: token })).status;
        expect([header, status]).toEqual([header, 401]);
      }
      for (const scheme of ['AdminKey', 'Basic', 'Token', 'Bearer Bearer', '']) {
        const authorization = `${scheme} ${token}`.trim();
        expect([scheme, (await service.anonymous.get('/api/auth/whoami', { authorization })).status]).toEqual([
          scheme,
          401,
        ]);
      }
    }
  });

  test('does not work as a reset token, an invitation token, a bot secret or an MCP session', async () => {
    const invited = (await tenant.post('/api/invitations', {}, { 'x-tenant-id': tenant.slug })).body.data;
    const registered = { name: 'clerk', tenantSlug: tenant.slug };
    const { secret } = (await tenant.post('/api/auth/bots/register', registered)).body.data;
    for (const value of [invited.token, secret, `svc_rst_${'0'.repeat(48)}`, `mcp_${'0'.repeat(48)}`]) {
      expect(await whoami(value)).toBe(401);
      for (const header of ['x-api-key', 'x-public-key', 'x-admin-key']) {
        expect((await service.anonymous.get('/api/auth/whoami', { [header]: value })).status).toBe(401);
      }
    }
  });
});

describe('a token whose subject was deleted or changed', () => {
  test('is invalid in a new tenant with the slug of the deleted one', async () => {
    const first = await service.tenant();
    const tokens = [await userToken(service, first, 'owner'), await botToken(service, first, {}), first.key];
    for (const token of tokens) expect(await whoami(token)).toBe(200);
    const { slug } = first;
    expect((await service.admin.delete(`/api/admin/platform/tenants/${slug}?confirm=${slug}`)).status).toBe(200);
    const second = await service.tenant({ slug });
    for (const token of tokens)
      expect(await bearer(service, token).get('/api/auth/whoami')).toMatchObject({ status: 401 });
    expect((await second.get('/api/users')).body.data.items).toEqual([]);
  });

  test.each<[string, (id: string) => Promise<{ status: number }>]>([
    ['gets another password', (id) => tenant.patch(`/api/users/${id}`, { password: 'another-password-1' })],
    ['is deactivated', (id) => tenant.patch(`/api/users/${id}`, { isActive: false })],
    ['is removed', (id) => tenant.delete(`/api/users/${id}`)],
  ])('is refused, whether a session or a developer token, once its user %s', async (_, end) => {
    const email = `u${crypto.randomUUID()}@example.com`;
    const { id } = (await tenant.post('/api/users', { email, name: 'U', role: 'member', password: PASSWORD })).body
      .data;
    const proof = { email, password: PASSWORD };
    const headers = { ...newAddress(), 'x-tenant-id': tenant.slug };
    const session = (await service.anonymous.post('/api/auth/tenant/login', proof, headers)).body.data.token;
    const developer = (await service.anonymous.post('/api/auth/tenant/developer-token', proof, headers)).body.data
      .token;
    expect([await whoami(session), await whoami(developer)]).toEqual([200, 200]);
    // A concurrent sign-in issues no token that stays valid.
    const [late, ended] = await Promise.all([
      service.anonymous.post('/api/auth/tenant/login', proof, headers),
      end(id),
    ]);
    expect(ended.status).toBe(200);
    for (const token of [session, developer]) expect(await whoami(token)).toBe(401);
    if (late.status === 200) expect(await whoami(late.body.data.token)).toBe(401);
    else expect(late.status).toBe(401);
  });
});
