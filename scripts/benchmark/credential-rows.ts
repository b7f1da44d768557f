// What each kind of credential costs beyond an owner key: the same get by id, with the same fields to be seen. Set up
// through the service's own API. Admin keys are missing: no route gives a record to one.

import { Api } from './api.ts';
import type { Target } from './generator.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';
import type { Shots } from './world.ts';

const PERSON = { email: 'bench@example.com', password: 'a password of the bench' };
const READING = { items: ['read'] };

/** How a request presents itself. */
type Proof = Pick<Target, 'key' | 'headers'>;

/** Get by id with a credential of every kind that may read records, against the owner key's. */
export async function credentialComparisons(bench: Bench, owner: Shots): Promise<Comparison[]> {
  const proofs = await issueAll(bench);
  return Object.entries(proofs).map(([kind, proof]) => {
    const targets = async () =>
      (await owner.get.targets()).map(({ method, path }): Target => ({ method, path, ...proof }));
    const subject = { ...owner.get, targets };
    return {
      id: `credential-${kind.replaceAll(' ', '-')}`,
      label: `get by id, ${kind}`,
      against: 'owner key',
      baseline: owner.get,
      subject,
      must: 1.25,
      goal: 1.1,
    };
  });
}

async function issueAll({ world, env }: Bench): Promise<Record<string, Proof>> {
  const { port } = world.server;
  const api = new Api(port, { key: world.key });
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

/** Its limits are counted, but never reached. */
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
