// A tenant and its clone have the same ids: of entities, roles, users and records. Actions in one of them change, stop and
// reveal nothing in the other, and no document can bring an id that would lead to another tenant's deliveries.
// Contract: portability#clone, portability#import.
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import type { Caller } from '../src/access/caller.ts';
import { rateWindowsOf } from '../src/access/rate-limit.ts';
import { tokensOf } from '../src/access/resolve-caller.ts';
import type { App } from '../src/app.ts';
import { rebuildSearchOnce } from '../src/entities/search-rebuild.ts';
import { eraseDeletion, lastNumber } from '../src/events/erasure.ts';
import { lockDeleted } from '../src/records/erase/erase.ts';
import { newId } from '../src/runtime/ids.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { SUBSCRIPTIONS, subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { addUser } from './support/people.ts';
import {
  type Answer,
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

const TENANTS = '/api/admin/platform/tenants';
const TASKS = '/api/entities/task/records';
const URL = 'http://203.0.114.7/hook';

let service: TestService;
let original: TestTenant;
let entityId: string;
let userId: string;
beforeAll(async () => {
  service = await startService();
  original = await service.tenant();
  await createEntity(original, 'task', fields('title text'));
  entityId = (await createRecord(original, TASKS, { title: 'kept' })).entityId;
  userId = (await addUser(original, { email: 'ada@a.test', role: 'member' })).id;
}, 60_000);
afterAll(async () => service.stop());
afterEach(async () => {
  await rows(sql`delete from platform.search_rebuilds where tenant_id = ${original.id}::uuid`);
});

type Clone = Client & { id: string; slug: string };

let clones = 0;
async function cloned(): Promise<Clone> {
  const slug = `${original.slug}-clone-${++clones}`;
  return made(await service.admin.post(`${TENANTS}/${original.slug}/clone`, { slug, name: 'Clone' }));
}

function made({ status, text, body }: Answer): Clone {
  expect(status, text).toBe(201);
  const { tenant, apiKey } = body.data;
  return { ...clientOf(service.url, { 'x-api-key': apiKey }), id: tenant.id, slug: tenant.slug };
}

/** The same user in each of the two. */
async function user(tenantId: string, subject = userId): Promise<Client> {
  const expiresAtS = Math.floor(Date.now() / 1_000) + 3_600;
  const token = await tokensOf(service.app).sign({ kind: 'user', tenantId, subject, version: 1, expiresAtS });
  return clientOf(service.url, { authorization: `Bearer ${token}` });
}

const rows = (query: ReturnType<typeof sql>): Promise<Json[]> => service.app.db.rows<Json>(query);

/** Tables of the platform whose rows come and go by themselves. */
const LIVELY = ['stream_subscriptions', 'usage_days', 'quota_warnings', 'stored'];

/** Everything that is stored of the original. */
async function everythingOfOriginal(): Promise<Record<string, string[]>> {
  const { id: tenantId } = original;
  const schema = `t_${tenantId.replaceAll('-', '')}`;
  const tables = await rows(sql`
    select c.table_schema as schema, c.table_name as name, bool_or(c.column_name = 'tenant_id') as is_shared
    from information_schema.columns as c
    join information_schema.tables as t using (table_schema, table_name)
    where t.table_type = 'BASE TABLE' and c.table_name !~ '^events_'
      and (c.table_schema = ${schema} or c.table_schema = 'platform')
    group by c.table_schema, c.table_name`);
  const found: Record<string, string[]> = {};
  for (const { schema: of, name, is_shared: isShared } of tables) {
    if (of === 'platform' && (!isShared || LIVELY.includes(name))) continue;
    const own = isShared ? sql`where t.tenant_id = ${tenantId}::uuid` : sql``;
    const stored = await rows(sql`
      select (to_jsonb(t) - 'last_used_at')::text as row from ${identifier(of, name)} as t ${own} order by 1`);
    found[`${of === schema ? 'own' : of}.${name}`] = stored.map(({ row }) => row);
  }
  return found;
}

/** Inserts waiting rows directly, since a service would have to be kept busy to have any. They have the original's ids. */
async function rowsThatWait(roleId: string, recordId: string): Promise<void> {
  const own = sql`${original.id}::uuid`;
  const later = sql`now() + interval '1 hour'`;
  const event = { id: newId(), seq: 1 };
  await rows(sql`
    insert into platform.webhook_deliveries (id, subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, next_at)
    values (${newId()}::uuid, ${entityId}::uuid, ${own}, ${event.id}::uuid, 1, now(), ${recordId}::uuid, 'record.created', ${later})`);
  await rows(sql`
    insert into platform.search_rebuilds (entity_id, tenant_id, attempt, due_at)
    values (${entityId}::uuid, ${own}, ${newId()}::uuid, ${later})`);
  await rows(sql`
    insert into platform.rule_runs (event_id, rule_id, tenant_id, entity_id, record_id, version, created_at, updated_at, depth,
      root_event_id, runs, next_at, is_blocked)
    values (${event.id}::uuid, ${newId()}::uuid, ${own}, ${entityId}::uuid, ${recordId}::uuid, 1, now(), now(), 0, ${event.id}::uuid, 1,
      ${later}, true)`);
  await rows(sql`
    insert into platform.password_resets (id, tenant_id, user_id, hash, expires_at)
    values (${newId()}::uuid, ${own}, ${userId}::uuid, sha256(${newId()}::bytea), ${later})`);
  await rows(sql`
    insert into platform.user_sessions (id, tenant_id, user_id, address, user_agent, expires_at)
    values (${newId()}::uuid, ${own}, ${userId}::uuid, '::1', 'test', ${later})`);
  await rows(sql`
    insert into platform.public_keys (id, tenant_id, prefix, hash, label, role_id, scopes, rate_limit_per_min, rate_limit_per_day, expires_at)
    values (${newId()}::uuid, ${own}, 'p', sha256(${newId()}::bytea), 'l', ${roleId}::uuid, '[]', 1, 1, ${later})`);
}

test('whatever is changed and deleted in a clone, every row of the original stays as it is', async () => {
  await subscribe(original, `${URL}s`, { is_active: false });
  await original.post('/api/roles', { name: 'reader', permissions: { task: ['read'] } });
  await original.post('/api/views', { entitySlug: 'task', slug: 'mine', name: 'Mine' });
  const action = { type: 'reject', message: 'no' };
  const rule = { name: 'r', entity: 'task', trigger: 'before_create', condition: 'title = "no"', action };
  await original.post('/api/rules', rule);
  const api = { name: 'Shop', slug: 'shop', roles: ['reader'], permissions: { task: { reader: ['read'] } } };
  await original.post('/api/apis', api);
  const { id } = await createRecord(original, TASKS, { title: 'a' });
  await original.post(TASKS, { title: 'b' }, { 'idempotency-key': 'same' });
  const { id: gone } = await createRecord(original, TASKS, { title: 'deleted' });
  await original.delete(`${TASKS}/${gone}`);
  const roles: Json[] = (await original.get('/api/roles')).body.data;
  await rowsThatWait(roles.find(({ name }) => name === 'reader')?.id, id);
  const clone = await cloned();
  const before = await everythingOfOriginal();
  const done: Answer[] = [];
  const run = async (method: string, path: string, body?: Json) =>
    void done.push(await clone.request(method, path, body));
  await run('PATCH', '/api/entities/task', { searchFolding: false });
  await run('POST', '/api/entities/task/fields', { key: 'n', type: 'integer', indexed: true });
  await run('PATCH', `${TASKS}/${id}`, { title: 'changed', n: 1 });
  await run('DELETE', `${TASKS}/${id}`);
  await run('POST', `${TASKS}/${id}/restore`, { version: 2 });
  await run('DELETE', `${TASKS}/${id}?erase=true`);
  await run('PATCH', `/api/users/${userId}`, { role: 'reader', password: 'another long password' });
  await run('DELETE', `/api/users/${userId}`);
  for (const list of ['rules', 'apis']) {
    const [first] = (await clone.get(`/api/${list}`)).body.data;
    await run('DELETE', `/api/${list}/${first.id}`);
  }
  await run('DELETE', '/api/views/mine');
  for (const { id: own } of (await clone.get(SUBSCRIPTIONS)).body.data) await run('DELETE', `${SUBSCRIPTIONS}/${own}`);
  await run('DELETE', '/api/roles/reader');
  await run('DELETE', '/api/entities/task?confirm=task');
  while ((await rebuildSearchOnce(service.app)) !== null);
  done.push(await service.admin.delete(`${TENANTS}/${clone.slug}?confirm=${clone.slug}`));
  for (const { status, text } of done) expect(status, text).toBeLessThan(300);
  expect(await everythingOfOriginal()).toEqual(before);
}, 120_000);

test('a change of search folding applies to one of them, and does not restart the other’s rebuild', async () => {
  const clone = await cloned();
  const attempt = newId();
  await rows(sql`
    insert into platform.search_rebuilds (entity_id, tenant_id, attempt, due_at)
    values (${entityId}::uuid, ${original.id}::uuid, ${attempt}::uuid, now() + interval '1 hour')`);
  await createRecord(clone, TASKS, { title: 'Amélie' });
  expect((await clone.patch('/api/entities/task', { searchFolding: false })).status).toBe(200);
  while ((await rebuildSearchOnce(service.app)) !== null);
  const count = async (word: string) => (await clone.get(`${TASKS}?search=${word}`)).body.data.total;
  while ((await count('amelie')) !== 0) await Bun.sleep(20);
  expect(await count('am%C3%A9lie')).toBe(1);
  const left = await rows(
    sql`delete from platform.search_rebuilds where entity_id = ${entityId}::uuid returning attempt`,
  );
  expect(left).toEqual([{ attempt }]);
}, 60_000);

test('users of both with one id have their own rate limit and their own MCP sessions', async () => {
  const clone = await cloned();
  const [own, other] = [await user(original.id), await user(clone.id)];
  // A service with a general limit would count its super-admin's requests in the windows of other tests.
  const limited = { config: { rateLimitPerMin: 1 } } as App;
  const window = (tenant: { id: string }) =>
    rateWindowsOf(limited, { kind: 'user', id: userId, tenant: { id: tenant.id, quotas: {} } } as unknown as Caller);
  expect(window(original)[0]?.key).not.toBe(window(clone)[0]?.key as string);

  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const accept = { accept: 'application/json, text/event-stream' };
  const opened = await own.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params }, accept);
  const session = { ...accept, 'mcp-session-id': opened.headers.get('mcp-session-id') as string };
  const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
  expect((await own.post('/mcp', list, session)).status).toBe(200);
  expect((await other.post('/mcp', list, session)).status).toBe(404);
}, 60_000);

test('users of both with one id list and revoke only the platform codes of their own tenant', async () => {
  const { id } = await addUser(original, { role: 'admin' });
  const inOriginal = await user(original.id, id);
  const code = (await inOriginal.post('/api/invitations', { email: 'guest@a.test' })).body.data.token;
  const clone = await cloned();
  const inClone = await user(clone.id, id);
  expect((await inClone.get('/api/invitations')).body.data.items).toEqual([]);
  const [listed] = (await inOriginal.get('/api/invitations')).body.data.items;
  expect(listed.email).toBe('guest@a.test');
  for (const named of [listed.id, code]) expect((await inClone.delete(`/api/invitations/${named}`)).status).toBe(404);
  expect((await inOriginal.delete(`/api/invitations/${listed.id}`)).status).toBe(200);
}, 60_000);

test('a document takes neither an entity’s id for a subscription nor a subscription’s id for an entity', async () => {
  const subscription = await subscribe(original, URL);
  const exported = (await original.get('/api/tenant/export')).text;
  const importing = (slug: string, text: string) =>
    service.admin.post(`${TENANTS}/import?slug=${slug}`, text, { 'content-type': 'application/x-ndjson' });
  const imported = made(await importing(`${original.slug}-1`, exported.replaceAll(subscription.id, entityId)));
  const listed: Json[] = (await imported.get(SUBSCRIPTIONS)).body.data;
  const [taken] = listed.filter(({ url }) => url === URL).map(({ id }) => id);
  expect([entityId, subscription.id, undefined]).not.toContain(taken);
  const refused = await importing(
    `${original.slug}-2`,
    exported
      .split('\n')
      .map((line) => (line.includes('"subscription"') ? line : line.replaceAll(entityId, subscription.id)))
      .join('\n')
      .replaceAll(`"id":"${subscription.id}","entity_name"`, `"id":"${newId()}","entity_name"`),
  );
  expect([refused.status, refused.body.error.code], refused.text).toEqual([409, 'CONFLICT']);
  expect((await original.delete(`${SUBSCRIPTIONS}/${subscription.id}`)).status).toBe(200);
}, 60_000);

test('a record that is brought back in one is still among the deleted ones of the other', async () => {
  const { id } = await createRecord(original, TASKS, { title: 'brought back' });
  const clone = await cloned();
  for (const tenant of [clone, original]) expect((await tenant.delete(`${TASKS}/${id}`)).status).toBe(200);
  const restored = await clone.post(`${TASKS}/${id}/restore`, { version: 1 });
  expect(restored.status, restored.text).toBe(200);
  const listed = await original.get(`${TASKS}/deleted?filters=title = "brought back"`);
  expect([listed.body.data.total, listed.body.data.items[0]?.id]).toEqual([1, id]);
}, 60_000);

test('a record that is erased in one while it is deleted in the other keeps its values there', async () => {
  const { id } = await createRecord(original, TASKS, { title: 'kept where it is not erased' });
  const clone = await cloned();
  const last = await service.app.db.begin((tx) => lastNumber(tx));
  for (const tenant of [original, clone]) expect((await tenant.delete(`${TASKS}/${id}`)).status).toBe(200);
  const record = { tenantId: clone.id, recordId: id, at: new Date().toISOString(), by: null };
  await service.app.db.begin((tx) => eraseDeletion(tx, record, last));
  const listed = await original.get(`${TASKS}/deleted?filters=title = "kept where it is not erased"`);
  expect(listed.body.data.items[0]?.id).toBe(id);
}, 60_000);

// The embedded database has one session.
if (process.env.DATABASE_URL) {
  test('a record that is brought back in one does not wait for the same id in the other', async () => {
    const { id } = await createRecord(original, TASKS, { title: 'deleted in both' });
    const clone = await cloned();
    expect((await clone.delete(`${TASKS}/${id}`)).status).toBe(200);
    await service.app.db.begin(async (tx) => {
      await lockDeleted(tx, original.id, id);
      const restored = await clone.post(`${TASKS}/${id}/restore`, { version: 1 });
      expect(restored.status, restored.text).toBe(200);
    });
  }, 60_000);
}
