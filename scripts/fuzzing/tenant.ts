// The tenant of a round: the demo's definitions, of which the examples of the API document speak, with secrets in a field,
// in rows and in an entity that limited callers may not see; and a credential of each kind.
// The row filter hides every record whose title contains the secret, also after a request has changed it.
import { DEMO_ENTITIES } from '../../src/demo/entities.ts';
import { demoRecords } from '../../src/demo/records.ts';
import {
  addRole,
  adminKey,
  adminSession,
  botToken,
  type Credentials,
  platformKey,
  publicKey,
  type RoleInput,
  userToken,
} from '../../test/support/credentials.ts';
import { ADMIN_SECRET, type Json, type TestService, type TestTenant } from '../../test/support/service.ts';

/** In fields and rows that are hidden from limited callers. */
const HIDDEN = 'canary-in-hidden-field';
/** In an entity of which only administrators know. */
const VAULT = 'canary-in-hidden-entity';
/** What each kind may not see in its own tenant; administrators see everything. A bot sees all of its entities. */
export const SECRETS_BY_KIND: Record<string, readonly string[]> = {
  ...Object.fromEntries(
    ['none', 'user', 'developer', 'platform_key', 'public_key', 'legacy_public_key', 'as_role', 'webhook'].map(
      (kind) => [kind, [HIDDEN, VAULT]],
    ),
  ),
  bot: [VAULT],
};
const ALL = ['read', 'create', 'update', 'delete'] as const;
const RECORDS = 4;

export interface RoundTenant {
  slug: string;
  credentials: Credentials;
  /** Paths and words that exist, as [template, path, data of a response]. */
  seeds: [string, string, Json][];
  /** Ids and names on which the credentials depend. */
  kept: string[];
}

/**
 * Makes a tenant. Hidden fields are those named `hidden`, hidden rows those whose title holds the secret. What a limited role may
 * see is sent to `/limited/<tenant>` of the receiver.
 */
export async function roundTenant(service: TestService, receiver: string): Promise<RoundTenant> {
  const settings = { passwordReset: true, selfRegistration: true };
  const tenant = await service.tenant({ settings });
  await fillTenant(tenant, HIDDEN);
  const view = {
    entitySlug: 'deals',
    slug: 'won-deals',
    name: 'Won',
    filterDsl: { validate: [{ condition: 'stage = won' }] },
  };
  await tenant.post('/api/views', view);
  await tenant.post('/api/roles', { name: 'partner', permissions: { companies: ['read'] } });
  const password = 'correct horse battery';
  await tenant.post('/api/users', { email: 'ada@example.com', name: 'Ada', role: 'member', password });
  const { credentials, kept, role } = await everyLimitedKind(service, tenant);
  kept.push(await subscribe(tenant, { url: `${receiver}/limited/${tenant.slug}`, entity_name: '*', role }));
  const seeds: RoundTenant['seeds'] = [];
  const see = async (template: string, path = template): Promise<void> => {
    const { status, body } = await tenant.get(path);
    if (status === 200) seeds.push([template, path, body.data]);
  };
  for (const path of ['/api/entities', '/api/views', '/api/roles', '/api/users', '/api/keys']) await see(path);
  for (const { name } of DEMO_ENTITIES) {
    await see('/api/entities/{entityName}/records', `/api/entities/${name}/records`);
    await see('/api/entities/{entityName}/fields', `/api/entities/${name}/fields`);
  }
  const made: Record<string, Json> = {
    '/api/auth/bots/register': {
      name: 'order-agent',
      tenantSlug: tenant.slug,
      permissions: { entities: { deals: ['read'] } },
    },
    '/api/apis': { name: 'shop', slug: 'shop', roles: ['viewer'], permissions: { deals: { viewer: ['read'] } } },
    '/api/invitations': { email: 'alan@example.com' },
    '/api/rules': {
      name: 'follow up',
      entity: 'deals',
      trigger: 'after_update',
      condition: 'stage = won',
      action: { type: 'create_record', entity: 'companies', values: { title: 'Follow {{title}}' } },
    },
    '/agent-messages': { to_agent: 'order-agent', subject: 'Order 17', body: 'Late' },
    '/api/webhooks/subscriptions': { ...EVERYTHING_SENT, url: `${receiver}/open`, entity_name: 'companies' },
  };
  for (const [path, body] of Object.entries(made)) {
    const { status, body: answer, text } = await tenant.post(path, body);
    if (status >= 300) throw new Error(`${path}: ${text}`);
    seeds.push([path, path, answer.data]);
  }
  const [bots] = (await tenant.get('/api/auth/bots')).body.data;
  seeds.push(['/api/auth/bots', '/api/auth/bots', [bots]]);
  seeds.push(['/api/admin/platform/tenants', '/api/admin/platform/tenants', { slug: tenant.slug }]);
  seeds.push(['/api/v1/tenants', '/api/v1/tenants', { slug: tenant.slug }]);
  return { slug: tenant.slug, credentials, seeds, kept };
}

const EVERYTHING_SENT = {
  event_types: ['record.created', 'record.updated', 'record.deleted'],
  include: ['previous', 'cursor'],
};

/** Resolves to the id of the subscription. */
async function subscribe(tenant: TestTenant, members: Json): Promise<string> {
  const { status, body, text } = await tenant.post('/api/webhooks/subscriptions', { ...EVERYTHING_SENT, ...members });
  if (status !== 201) throw new Error(`no subscription: ${text}`);
  return body.data.id;
}

/** Definitions and records; `secret` is in what limited callers may not see. */
export async function fillTenant(tenant: TestTenant, secret: string): Promise<void> {
  const ids: Record<string, string[]> = {};
  for (const definition of DEMO_ENTITIES) {
    const hidden = { key: 'hidden', type: 'text' as const };
    const made = await tenant.post('/api/entities', { ...definition, fields: [...(definition.fields ?? []), hidden] });
    if (made.status !== 201) throw new Error(`no entity: ${made.text}`);
    const records = demoRecords(definition.name, ids).slice(0, RECORDS);
    const isTitled = definition.name !== 'people';
    const last = records.at(-1) as Record<string, unknown>;
    const more = isTitled ? [{ ...last, taxNumber: undefined, title: secret }] : [];
    const operations = [...records, ...more].map((data) => ({ op: 'create', data: { ...data, hidden: secret } }));
    const { body, text } = await tenant.post(`/api/entities/${definition.name}/records/bulk`, { operations });
    const results: Json[] = body.data?.results ?? [];
    ids[definition.name] = results.slice(0, RECORDS).map(({ id }) => id);
    if (results.length !== operations.length || ids[definition.name]?.includes(undefined as never))
      throw new Error(`no records: ${text}`);
  }
  await tenant.post('/api/entities', { name: 'vault', fields: [{ key: 'title', type: 'text', description: VAULT }] });
  await tenant.post('/api/entities/vault/records', { title: VAULT });
}

/** A credential of each kind; those that are not administrators see neither hidden fields nor hidden rows. */
async function everyLimitedKind(
  service: TestService,
  tenant: TestTenant,
): Promise<{ credentials: Credentials; kept: string[]; role: string }> {
  const rowFilter = `NOT title CONTAINS "${HIDDEN}"`;
  const role: RoleInput = {
    permissions: { companies: [...ALL], people: [...ALL], deals: [...ALL], 'view:won-deals': ['read'] },
    entities: {
      companies: { excludeFields: ['hidden'], rowFilter },
      deals: { excludeFields: ['hidden'], rowFilter },
      people: { excludeFields: ['hidden'] },
    },
  };
  const { id, name } = await addRole(service, tenant, role);
  const authorization = (value: string) => ({ authorization: `Bearer ${value}` });
  const shown = await publicKey(service, tenant, id);
  const credentials: Credentials = {
    none: {},
    owner_key: { 'x-api-key': tenant.key },
    as_role: { 'x-api-key': tenant.key, 'x-svc-as-role': name },
    platform_key: authorization(await platformKey(service, tenant, name, role.permissions)),
    public_key: { 'x-public-key': shown },
    legacy_public_key: { 'x-anon-key': shown },
    user: authorization(await userToken(service, tenant, name)),
    admin_user: authorization(await userToken(service, tenant, 'admin')),
    developer: authorization(await userToken(service, tenant, name, 'developer')),
    bot: authorization(await botToken(service, tenant, { companies: [...ALL], people: [...ALL], deals: [...ALL] })),
    admin_session: authorization(await adminSession(service, tenant)),
    admin_key: { 'x-admin-key': await adminKey(service, ['platform:read', 'platform:write', 'tenants:manage']) },
    super_admin: { 'x-admin-secret': ADMIN_SECRET },
  };
  const kept = [id, name];
  for (const [path, member] of [
    ['/api/users', 'items'],
    ['/api/keys', ''],
    ['/api/apis', ''],
    ['/api/auth/bots', ''],
    ['/api/auth/public-keys', ''],
  ] as const) {
    const { body } = await tenant.get(path);
    const items: Json[] = body.data?.[member] ?? body.data?.items ?? body.data ?? [];
    for (const item of items) if (item.email !== 'ada@example.com') kept.push(item.id, item.name, item.slug);
  }
  return { credentials, kept: kept.filter((each) => typeof each === 'string'), role: name };
}
