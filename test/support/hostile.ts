// A tenant in which every text that somebody may set is hostile: markup, scripts, a formula, marks that turn the
// direction of writing, and values of 900 KB. What ran sets `window.ran`.
import type { Answer, TestTenant } from './service.ts';

export const HOSTILE = '=1+1 <img src=x onerror="window.ran=1"><script>window.ran=1</script> \u202egpj.exe';
/** One word, so that it can only be cut. */
export const HUGE = 'x'.repeat(900_000);

const PASSWORD = 'correct horse battery';
const RECORDS = '/api/entities/companies/records';

export interface Hostile {
  record: string;
  huge: string;
  subscription: string;
}

/** `receiver` is the address of a receiver, for the subscription. */
export async function fillWithHostile(tenant: TestTenant, receiver: string): Promise<Hostile> {
  const make = async (path: string, body: object): Promise<Answer['body']> => {
    const answer = await tenant.post(path, body);
    if (answer.status !== 201) throw new Error(`${path}: ${answer.text}`);
    return answer.body.data;
  };
  const subscription = await make('/api/entities', {
    name: 'companies',
    label: HOSTILE,
    description: HOSTILE,
    fields: [
      { key: 'title', type: 'text', required: true, label: HOSTILE, description: HOSTILE },
      { key: 'stage', type: 'select', options: [HOSTILE, 'won'], label: HOSTILE },
      { key: 'tags', type: 'multiselect', options: [HOSTILE, 'new'] },
      { key: 'more', type: 'json' },
      { key: 'site', type: 'url' },
      { key: 'mail', type: 'email' },
      { key: 'parent', type: 'relation', entity: 'companies' },
    ],
  }).then(() =>
    make('/api/webhooks/subscriptions', {
      entity_name: 'companies',
      event_types: ['record.created', 'record.updated', 'record.deleted'],
      url: `${receiver}/<script>window.ran=1</script>?"onerror="window.ran=1`,
      secret: 'a shared secret',
    }),
  );
  const values = {
    stage: HOSTILE,
    tags: [HOSTILE],
    site: 'https://example.com/<script>?q="onclick=',
    mail: "o'hara@example.com",
  };
  const { id: parent } = await make(RECORDS, { title: HOSTILE, more: { [HOSTILE]: HOSTILE }, ...values });
  const { id: record } = await make(RECORDS, { title: HOSTILE, parent, ...values });
  const { id: huge } = await make(RECORDS, { title: HUGE });
  await make(RECORDS, { title: 'JSON', more: { [HOSTILE]: HUGE } });
  await tenant.patch(`${RECORDS}/${record}`, { stage: 'won' });
  await make('/api/roles', {
    name: 'hostile',
    description: HOSTILE,
    permissions: { companies: ['read'] },
    entities: { companies: { rowFilter: `title != ${JSON.stringify(HOSTILE)}` } },
  });
  const condition = `title contains ${JSON.stringify('<script>')}`;
  const filterDsl = { validate: [{ condition }] };
  await make('/api/views', {
    entitySlug: 'companies',
    slug: 'hostile',
    name: HOSTILE,
    description: HOSTILE,
    filterDsl,
  });
  const action = { type: 'reject', message: HOSTILE };
  await make('/api/rules', {
    name: HOSTILE,
    entity: 'companies',
    trigger: 'before_create',
    condition: `title = ${JSON.stringify(`${HOSTILE}!`)}`,
    action,
    priority: 1,
    isActive: true,
  });
  await make('/api/users', { email: "o'hara+x@example.com", name: HOSTILE, role: 'viewer', password: PASSWORD });
  await make('/api/keys', { label: HOSTILE });
  await make('/api/apis', {
    name: HOSTILE,
    slug: 'hostile',
    roles: [HOSTILE],
    permissions: { companies: { [HOSTILE]: ['read'] } },
  });
  await make('/api/auth/bots/register', {
    name: 'order-agent',
    tenantSlug: tenant.slug,
    permissions: { entities: { companies: ['read'] } },
  });
  const viewer = (await tenant.get('/api/roles/viewer')).body.data.id;
  await make('/api/auth/public-keys', {
    label: HOSTILE,
    roleId: viewer,
    scopes: ['records:read'],
    allowedOrigins: ['https://example.com'],
    ttlDays: 3,
    rateLimitPerDay: 100,
  });
  await tenant.post('/api/invitations', { email: "o'brien@example.com" }, { 'X-Tenant-ID': tenant.slug });
  await tenant.patch('/api/tenant', { name: HOSTILE });
  return { record, huge, subscription: subscription.id };
}
