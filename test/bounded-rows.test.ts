// The rows that a tenant stores besides its records are bounded: messages, invitations, password resets, ended keys, responses
// for Idempotency-Key. The tests set the stored counts near a limit, rather than filling it.
// Contract: neighbours#byte-budgets, decisions#retention.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { cleanUpOnce } from '../src/events/retention.ts';
import { LIMITS } from '../src/limits.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { type StoredKind, storedOf } from '../src/tenants/stored.ts';
import { type Client, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
});

const NEVER = new AbortController().signal;
const RECORDS = '/api/entities/notes/records';

const stored = (kind: StoredKind) => storedOf(service.app.db, tenant.id, kind);

/** Makes the counters claim that the tenant has stored this much more. */
async function addStored(kind: StoredKind, count: number, bytes: number): Promise<void> {
  await service.app.db.rows(sql`
    insert into platform.stored (tenant_id, kind, slot, n, bytes)
    values (${tenant.id}::uuid, ${kind}, 99, ${count}::bigint, ${bytes}::bigint)
    on conflict (tenant_id, kind, slot) do update set n = excluded.n, bytes = excluded.bytes`);
}

type Table = 'messages' | 'invitations' | 'password_resets' | 'user_sessions' | 'stream_tickets' | 'owner_keys';

async function count(table: Table): Promise<number> {
  const row = await service.app.db.first<{ n: number }>(sql`
    select count(*) as n from ${identifier('platform', table)} where tenant_id = ${tenant.id}::uuid`);
  return row?.n ?? 0;
}

async function messageTo(agent: string, body = 'Where is it?'): Promise<{ status: number; id: string; text: string }> {
  const answer = await tenant.post('/agent-messages', { to_agent: agent, subject: 'Order', body });
  return { status: answer.status, id: answer.body.data?.message_id, text: answer.text };
}

async function bot(): Promise<string> {
  const answer = await tenant.post('/api/auth/bots/register', { name: 'order-agent', tenantSlug: tenant.slug });
  expect(answer.status).toBe(201);
  return 'order-agent';
}

test('messages are counted with their bytes, whatever adds and removes them', async () => {
  const agent = await bot();
  const { id } = await messageTo(agent, 'é'.repeat(1_000));
  await messageTo(agent);
  const before = await stored('messages');
  expect([before.count, before.bytes > 2_000]).toEqual([2, true]);
  await service.app.db.rows(sql`delete from platform.messages where id = ${id}::uuid`);
  const after = await stored('messages');
  expect(after.count).toBe(1);
  expect(before.bytes - after.bytes).toBe(200 + 'Order'.length + 2_000);
});

test('at the limit of messages, read ones make room; if none has been read, it is 409 with the reason', async () => {
  const agent = await bot();
  const first = await messageTo(agent);
  await messageTo(agent);
  await addStored('messages', LIMITS.message.countMax - 2, 0);
  const refused = await messageTo(agent);
  expect([refused.status, refused.text.includes('100000 unread messages')]).toEqual([409, true]);
  expect(await count('messages')).toBe(2);
  expect((await tenant.get(`/agent-messages/${first.id}/read`)).status).toBe(200);
  expect((await messageTo(agent)).status).toBe(201);
  expect((await tenant.get(`/agent-messages/${first.id}/read`)).status).toBe(404);
  await addStored('messages', 0, LIMITS.message.bytesMax);
  expect((await messageTo(agent)).status).toBe(409);
});

test('a message is deleted 30 days after it was read, an unread one is kept', async () => {
  const agent = await bot();
  const [old, young] = [await messageTo(agent), await messageTo(agent)];
  await messageTo(agent);
  for (const { id } of [old, young]) await tenant.get(`/agent-messages/${id}/read`);
  await service.app.db.rows(sql`
    update platform.messages set created_at = now() - interval '90 days',
      read_at = case id when ${old.id}::uuid then now() - interval '30 days 1 second' else read_at end
    where tenant_id = ${tenant.id}::uuid`);
  await cleanUpOnce(service.app, NEVER);
  expect([await count('messages'), (await stored('messages')).count]).toEqual([2, 2]);
  expect((await tenant.get(`/agent-messages/${young.id}/read`)).status).toBe(200);
});

test('an invitation is deleted 30 days after its end; at the limit, ended ones make room and pending ones are 409', async () => {
  const invite = () => tenant.with({ 'x-tenant-slug': tenant.slug }).post('/api/invitations', {});
  for (let i = 0; i < 3; i++) expect((await invite()).status).toBe(201);
  await service.app.db.rows(sql`
    update platform.invitations set expires_at = now() - interval '30 days 1 second'
    where id = (select min(id::text)::uuid from platform.invitations where tenant_id = ${tenant.id}::uuid)`);
  await cleanUpOnce(service.app, NEVER);
  expect(await count('invitations')).toBe(2);
  await service.app.db.rows(sql`
    insert into platform.invitations (id, hash, kind, tenant_id, role, expires_at)
    select platform.uuidv7(), decode(md5(n || ${tenant.id}), 'hex'), 'member', ${tenant.id}::uuid, 'member', now() + interval '1 day'
    from generate_series(3, ${LIMITS.invitation.perTenantMax}::int) as n`);
  const refused = await invite();
  expect([refused.status, refused.text.includes('10000 invitations')]).toEqual([409, true]);
  await service.app.db.rows(sql`
    update platform.invitations set revoked_at = now()
    where id = (select min(id::text)::uuid from platform.invitations where tenant_id = ${tenant.id}::uuid)`);
  expect((await invite()).status).toBe(201);
  expect(await count('invitations')).toBe(LIMITS.invitation.perTenantMax);
});

test("the codes of a tenant's admins make at most 20 tenants, including those that these tenants make in turn", async () => {
  const origin = await service.tenant();
  const accept = async (codeOf: Client, at: number) => {
    const { token } = (await codeOf.post('/api/invitations', {})).body.data;
    const slug = `${origin.slug}-${at}`.slice(-40);
    const person = { email: `p${at}@example.com`, name: 'P', password: 'a long password' };
    const body = { token, ...person, tenantSlug: slug, tenantName: slug };
    return { slug, ...(await service.anonymous.post('/auth/invite/accept', body)) };
  };
  const first = await accept(origin, 0);
  const login = { email: 'p0@example.com', password: 'a long password' };
  const headers = { 'x-tenant-id': first.slug };
  const { token } = (await service.anonymous.with(headers).post('/api/auth/tenant/login', login)).body.data;
  const made = service.anonymous.with({ authorization: `Bearer ${token}` });
  for (let at = 1; at < LIMITS.invitation.tenantsMax; at++)
    expect((await accept(at % 2 ? origin : made, at)).status).toBe(201);
  for (const by of [origin, made]) {
    const beyond = await accept(by, 100);
    expect([beyond.status, beyond.body.error.message]).toEqual([409, expect.stringContaining('at most 20 tenants')]);
  }
  // It is refused before its schema is created, and even before the slug is checked.
  const taken = await accept(origin, 1);
  expect(taken.body.error.message).toContain('at most 20 tenants');
  const other = await accept(await service.tenant(), 101);
  expect(other.status).toBe(201);
}, 60_000);

test('a new password reset deletes the user’s used and expired ones; others are deleted after 30 days', async () => {
  await tenant.patch('/api/tenant', { settings: { passwordReset: true } });
  const user = { email: 'ada@acme.test', name: 'Ada', role: 'member', password: 'correct horse battery' };
  expect((await tenant.post('/api/users', user)).status).toBe(201);
  const forget = async (): Promise<void> => {
    const headers = { 'x-tenant-id': tenant.slug };
    await service.anonymous.post('/api/auth/tenant/forgot-password', { email: user.email }, headers);
    await service.mailSettled();
  };
  await forget();
  await forget();
  expect(await count('password_resets')).toBe(2);
  const age = (interval: string) =>
    service.app.db.rows(sql`
    update platform.password_resets set expires_at = now() - ${interval}::text::interval where tenant_id = ${tenant.id}::uuid`);
  await age('1 second');
  await cleanUpOnce(service.app, NEVER);
  expect(await count('password_resets')).toBe(2);
  await forget();
  expect(await count('password_resets')).toBe(1);
  await age('30 days 1 second');
  await cleanUpOnce(service.app, NEVER);
  expect(await count('password_resets')).toBe(0);
});

test('sessions of users and tickets for streams are deleted when they have expired', async () => {
  const user = { email: 'eve@acme.test', name: 'Eve', role: 'member', password: 'correct horse battery' };
  expect((await tenant.post('/api/users', user)).status).toBe(201);
  const headers = { 'x-tenant-id': tenant.slug };
  for (let i = 0; i < 2; i++) {
    expect((await service.anonymous.post('/api/auth/tenant/login', user, headers)).status).toBe(200);
    expect((await tenant.post(`/api/v1/tenants/${tenant.slug}/events/tickets`)).status).toBe(201);
  }
  for (const [table, key] of [
    ['user_sessions', 'id'],
    ['stream_tickets', 'hash'],
  ] as const) {
    const name = identifier('platform', table);
    await service.app.db.rows(sql`
      update ${name} set expires_at = now() - interval '1 second'
      where ${identifier(key)} = (
        select ${identifier(key)} from ${name} where tenant_id = ${tenant.id}::uuid limit 1)`);
  }
  await cleanUpOnce(service.app, NEVER);
  expect([await count('user_sessions'), await count('stream_tickets')]).toEqual([1, 1]);
});

test('an owner key is deleted 30 days after it was revoked or has expired, but for the first one', async () => {
  const issue = async (): Promise<string> => (await tenant.post('/api/keys', { label: 'program' })).body.data.id;
  const [revoked, expired, recent] = [await issue(), await issue(), await issue()];
  await tenant.delete(`/api/keys/${revoked}`);
  await tenant.delete(`/api/keys/${recent}`);
  const { db } = service.app;
  await db.rows(sql`
    update platform.owner_keys set revoked_at = now() - interval '32 days' where id = ${revoked}::uuid`);
  await db.rows(sql`
    update platform.owner_keys set expires_at = now() - interval '32 days' where id = ${expired}::uuid`);
  await cleanUpOnce(service.app, NEVER);
  expect(await count('owner_keys')).toBe(2);
  await db.rows(sql`
    update platform.owner_keys set revoked_at = now() - interval '32 days' where tenant_id = ${tenant.id}::uuid`);
  await cleanUpOnce(service.app, NEVER);
  expect(await count('owner_keys')).toBe(1);
});

test('the list of owner keys shows the active ones and the 500 that expired last', async () => {
  await service.app.db.rows(sql`
    insert into platform.owner_keys (id, tenant_id, label, prefix, hash, expires_at)
    select platform.uuidv7(), ${tenant.id}::uuid, n::text, 'svc_ak_', decode(md5(n || ${tenant.id}), 'hex'), now() - n * interval '1 s'
    from generate_series(1, 600) as n`);
  const labels: string[] = (await tenant.get('/api/keys')).body.data.map(({ label }: { label: string }) => label);
  expect(labels).toHaveLength(501);
  expect(labels.filter((label) => Number(label) > 500)).toEqual([]);
});

test('MCP sessions are deleted when a day has passed, and by no other caller’s new one', async () => {
  const insert = sql`
    insert into platform.mcp_sessions (id_hash, owner, created_at)
    values (decode(md5(${tenant.id}), 'hex'), ${tenant.id}, now() - interval '25 hours')`;
  const left = async (): Promise<number> =>
    (await service.app.db.rows(sql`select from platform.mcp_sessions where owner = ${tenant.id}`)).length;
  await service.app.db.rows(insert);
  const clientInfo = { name: 'test', version: '1' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  const headers = { accept: 'application/json, text/event-stream' };
  const opened = await tenant.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params }, headers);
  expect([opened.status, opened.headers.get('mcp-session-id')?.slice(0, 4)]).toEqual([200, 'mcp_']);
  expect(await left()).toBe(1);
  await cleanUpOnce(service.app, NEVER);
  expect(await left()).toBe(0);
});

test('requests with an Idempotency-Key are 409 beyond 4 GiB of a tenant’s responses; replays and requests without a key still work', async () => {
  await tenant.post('/api/entities', { name: 'notes', fields: [{ key: 'title', type: 'text' }] });
  const create = (key: string) => tenant.post(RECORDS, { title: 'x'.repeat(1_000) }, { 'idempotency-key': key });
  expect((await create('first')).status).toBe(201);
  const before = await stored('idempotency_keys');
  expect([before.count, before.bytes > 1_000]).toEqual([1, true]);
  await service.app.db.rows(sql`
    update platform.idempotency_keys set created_at = now() - interval '25 hours' where tenant_id = ${tenant.id}::uuid`);
  expect((await create('first')).headers.get('idempotent-replayed')).toBeNull();
  expect(await stored('idempotency_keys')).toEqual(before);
  await addStored('idempotency_keys', 0, LIMITS.idempotency.bytesMax);
  const refused = await create('second');
  expect([refused.status, refused.text.includes('Idempotency-Key')]).toEqual([409, true]);
  expect((await create('first')).headers.get('idempotent-replayed')).toBe('true');
  expect((await tenant.post(RECORDS, { title: 'without' })).status).toBe(201);
  expect((await tenant.get(RECORDS)).body.data.total).toBe(3);
});

test('deleting a tenant deletes its counts', async () => {
  await messageTo(await bot());
  await service.admin.delete(`/api/admin/platform/tenants/${tenant.slug}?confirm=${tenant.slug}`);
  expect(await stored('messages')).toEqual({ count: 0, bytes: 0 });
});
