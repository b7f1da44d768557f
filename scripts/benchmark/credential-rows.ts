// The cost of each kind of credential, against an owner key: the same get by id, with the same visible fields. Set up
// through the service's API. Admin keys have no row: they cannot read records.
// The public key's rate limits are counted, but too high to be reached.

import { Api } from './api.ts';
import type { Workloads } from './fixture.ts';
import type { Target } from './generator.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';

const PERSON = { email: 'bench@example.com', password: 'a password of the bench' };
const READING = { items: ['read'] };

/** The credential as a request sends it. */
type Credential = Pick<Target, 'key' | 'headers'>;

/** Get by id with every kind of credential that may read records, against the owner key. */
export async function credentialComparisons(bench: Bench, owner: Workloads): Promise<Comparison[]> {
  const credentials = await issueAll(bench);
  return Object.entries(credentials).map(([kind, credential]) => {
    const targets = async () =>
      (await owner.get.targets()).map(({ method, path }): Target => ({ method, path, ...credential }));
    const subject = { ...owner.get, targets };
    return {
      id: `credential-${kind.replaceAll(' ', '-')}`,
      label: `get by id, ${kind}`,
      against: 'owner key',
      baseline: owner.get,
      subject,
      must: 1.2,
      goal: 1.1,
    };
  });
}

async function issueAll({ fixture, env }: Bench): Promise<Record<string, Credential>> {
  const { port } = fixture.server;
  const api = new Api(port, { key: fixture.key });
  const admin = new Api(port, { adminSecret: env.ADMIN_SECRET });
  const [tenant, role] = await Promise.all([
    api.call<{ slug: string }>('GET', '/api/tenant'),
    api.call<{ id: string }>('POST', '/api/roles', { name: 'reader', permissions: READING }),
  ]);
  const inTenant = { 'X-Tenant-ID': tenant.slug };
  const anyone = new Api(port, { headers: inTenant });
  await api.call('POST', '/api/users', { ...PERSON, name: 'Bench', role: 'reader' });
  const login = await anyone.call<{ token: string }>('POST', '/api/auth/tenant/login', PERSON);
  const developer = await anyone.call<{ token: string }>('POST', '/api/auth/tenant/developer-token', PERSON);
  const session = { tenantSlug: tenant.slug };
  return {
    'platform key': { key: await platformKey(api) },
    'public key': { key: await publicKey(api, role.id) },
    'user token': { key: login.token },
    'developer token': { key: developer.token },
    'bot token': { key: await botToken(api, tenant.slug) },
    'admin session': { key: (await admin.call<{ token: string }>('POST', '/api/admin/sessions', session)).token },
    'super-admin': { headers: { ...inTenant, 'X-Admin-Secret': env.ADMIN_SECRET } },
  };
}

async function platformKey(api: Api): Promise<string> {
  const permissions = { items: { reader: ['read'] } };
  const definition = { name: 'Readers', slug: 'readers', roles: ['reader'], permissions };
  const { id } = await api.call<{ id: string }>('POST', '/api/apis', definition);
  return (await api.call<{ key: string }>('POST', `/api/apis/${id}/keys`, { role: 'reader' })).key;
}

async function publicKey(api: Api, roleId: string): Promise<string> {
  const limits = { rateLimitPerMin: 1_000_000, rateLimitPerDay: 1_000_000_000 };
  const request = { label: 'bench', roleId, scopes: ['records:read'], ...limits };
  return (await api.call<{ key: string }>('POST', '/api/auth/public-keys', request)).key;
}

async function botToken(api: Api, tenantSlug: string): Promise<string> {
  const bot = { name: 'bench-bot', tenantSlug, permissions: { entities: READING } };
  const { name, secret } = await api.call<{ name: string; secret: string }>('POST', '/api/auth/bots/register', bot);
  return (await api.call<{ token: string }>('POST', '/api/auth/bots/identify', { name, secret })).token;
}
