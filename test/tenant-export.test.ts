// A tenant as one document: what it contains and what it never contains, a single moment of a tenant that is being written to,
// and the cursor to continue from. Everything through HTTP.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
const linesOf = (text: string): Json[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const ofType = (lines: Json[], type: string): Json[] => lines.filter((line) => line.type === type);
const platform = (slug: string, query = ''): string => `/api/admin/platform/tenants/${slug}/export${query}`;

async function made(path: string, body: object): Promise<Json> {
  const answer = await tenant.post(path, body);
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.body.data;
}

beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await made('/api/entities', { name: 'companies', fields: [{ key: 'title', type: 'text', unique: true }] });
  await made('/api/entities', {
    name: 'deals',
    fields: [
      { key: 'type', type: 'select', options: ['a', 'b'] },
      { key: 'company', type: 'relation', entity: 'companies' },
      { key: 'amount', type: 'decimal' },
    ],
  });
  const company = await made('/api/entities/companies/records', { title: 'Nordlicht' });
  const deal = await made('/api/entities/deals/records', { type: 'a', company: company.id, amount: '1.50' });
  await tenant.patch(`/api/entities/deals/records/${deal.id}`, { amount: '2.50' });
  await made('/api/roles', {
    name: 'clerk',
    permissions: { deals: ['read'] },
    entities: { deals: { excludeFields: ['amount'] } },
  });
  await made('/api/users', { email: 'ada@example.com', name: 'Ada', role: 'clerk', password: 'correct horse battery' });
  await made('/api/views', {
    entitySlug: 'deals',
    slug: 'a',
    name: 'A',
    filterDsl: { validate: [{ condition: 'type = a' }] },
  });
  await made('/api/rules', {
    name: 'no',
    entity: 'deals',
    trigger: 'before_delete',
    action: { type: 'reject', message: 'no' },
  });
  await made('/api/apis', { name: 'Shop', slug: 'shop', roles: ['clerk'], permissions: { '*': { clerk: ['read'] } } });
  await made('/api/webhooks/subscriptions', {
    entity_name: 'deals',
    event_types: ['record.created'],
    url: 'https://receiver.example/hooks',
    secret: 'whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlcg==',
    fields: ['type'],
  });
});
afterAll(async () => service.stop());

describe('the document of a tenant', () => {
  test('has a header, a line for each thing in the shape of the API, and an end with their counts', async () => {
    const answer = await tenant.get('/api/tenant/export');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toStartWith('application/x-ndjson');
    expect(answer.headers.get('content-disposition')).toBe(`attachment; filename="${tenant.slug}.ndjson"`);
    const lines = linesOf(answer.text);
    const { settings } = (await tenant.get('/api/tenant')).body.data;
    expect(lines[0]).toEqual({
      type: 'header',
      format: 'tenant-data-service',
      version: 1,
      tenant: { slug: tenant.slug, name: expect.any(String), settings },
      exportedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      cursor: answer.headers.get('changes-cursor'),
    });
    expect(lines.at(-1)).toEqual({
      type: 'end',
      counts: { entity: 2, role: 5, user: 1, view: 1, rule: 1, api: 1, subscription: 1, record: 2 },
    });
    const shown = async (path: string): Promise<Json[]> => {
      const { data } = (await tenant.get(path)).body;
      return data.items ?? data;
    };
    const typed = (type: string, items: Json[]): Json[] => items.map((item) => ({ type, ...item }));
    expect(ofType(lines, 'entity')).toEqual(typed('entity', await shown('/api/entities')));
    expect(ofType(lines, 'role')).toEqual(typed('role', await shown('/api/roles')));
    expect(ofType(lines, 'user')).toEqual(typed('user', await shown('/api/users')));
    expect(ofType(lines, 'view')).toEqual(typed('view', await shown('/api/views')));
    expect(ofType(lines, 'rule')).toEqual(typed('rule', await shown('/api/rules')));
    expect(ofType(lines, 'api')).toEqual(typed('api', await shown('/api/apis')));
    const [{ health: _, has_secret: __, ...subscription }] = await shown('/api/webhooks/subscriptions');
    expect(ofType(lines, 'subscription')).toEqual([{ type: 'subscription', ...subscription }]);
    const [company] = await shown('/api/entities/companies/records');
    const [deal] = await shown('/api/entities/deals/records');
    expect(ofType(lines, 'record')).toEqual([
      { type: 'record', entity: 'companies', version: 1, data: company },
      { type: 'record', entity: 'deals', version: 2, data: deal },
    ]);
  });

  test('is the same for operators, who alone may ask for the hashes of passwords, and never has a key or a secret', async () => {
    const [header, ...own] = linesOf((await tenant.get('/api/tenant/export')).text);
    const [theirs, ...others] = linesOf((await service.admin.get(platform(tenant.slug))).text);
    expect(others).toEqual(own);
    expect(theirs.tenant).toEqual(header.tenant);
    const { text } = await service.admin.get(platform(tenant.slug, '?secrets=true'));
    expect(ofType(linesOf(text), 'user')[0].passwordHash).toStartWith('scrypt$');
    for (const secret of ['svc_', 'whsec', 'secret', tenant.key]) expect(text).not.toContain(secret);
    expect((await service.admin.get(platform('nobody'))).status).toBe(404);
    expect((await tenant.get(platform(tenant.slug))).status).toBe(403);
    expect((await tenant.get('/api/tenant/export?secrets=true')).status).toBe(400);
  });

  test('is of one moment, and following the changes from its cursor misses nothing and repeats nothing', async () => {
    const busy = await service.tenant();
    await busy.post('/api/entities', { name: 'notes', fields: [{ key: 'n', type: 'integer' }] });
    const path = '/api/entities/notes/records';
    const known = new Map<string, number>();
    let isOver = false;
    const write = async (): Promise<void> => {
      for (let n = 0; !isOver; n++) {
        const { id } = (await busy.post(path, { n })).body.data;
        await busy.patch(`${path}/${id}`, { n: -n });
        if (n % 3 === 0) await busy.delete(`${path}/${id}`);
      }
    };
    const writing = [write(), write()];
    const documents: string[] = [];
    for (let i = 0; i < 3; i++) documents.push((await busy.get('/api/tenant/export')).text);
    isOver = true;
    await Promise.all(writing);
    const { items } = (await busy.get(`${path}?limit=100&count=none`)).body.data;
    expect(items.length).toBeGreaterThan(0);
    for (const text of documents) {
      const [header, ...lines] = linesOf(text);
      known.clear();
      for (const { data } of ofType(lines, 'record')) known.set(data.id, data.n);
      let since = header.cursor;
      for (let hasMore = true; hasMore; ) {
        const { data } = (await busy.get(`/api/changes?limit=1000&since=${since}`)).body;
        for (const { event, record_id: id, data: record } of data.items) {
          expect(known.has(id)).toBe(event !== 'record.created');
          if (event === 'record.deleted') known.delete(id);
          else known.set(id, record.n);
        }
        ({ nextCursor: since, hasMore } = data);
      }
      const left = linesOf((await busy.get(`${path}/export`)).text);
      expect(Object.fromEntries(known)).toEqual(Object.fromEntries(left.map(({ id, n }) => [id, n])));
    }
  });
});
