// `lastUsedAt` of owner, platform and public keys and of bots: null before the first use, accurate to a minute afterwards,
// also for credentials in the cache, with few writes.
// Contract: neighbours#who-does-what.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { newId } from '../src/runtime/ids.ts';
import { LastUsed } from '../src/runtime/last-used.ts';
import { createLog } from '../src/runtime/log.ts';
import type { Queries, Sql } from '../src/runtime/sql.ts';
import { compile } from '../src/runtime/sql.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const listed = async (path: string, id: string): Promise<Json> =>
  (await tenant.get(path)).body.data.find((each: Json) => each.id === id);

/** Waits for the background write. */
async function lastUsedAt(path: string, id: string): Promise<number> {
  for (const endsAt = Date.now() + 60_000; Date.now() < endsAt; await Bun.sleep(50)) {
    const { lastUsedAt } = await listed(path, id);
    if (lastUsedAt !== null) return Date.parse(lastUsedAt);
  }
  throw new Error(`${path} shows no use of ${id}`);
}

/** A credential is issued, shown without a use, used, and shown with the time of its use. */
async function showsUse(path: string, id: string, use: () => Promise<unknown>): Promise<void> {
  expect(await listed(path, id)).toMatchObject({ lastUsedAt: null });
  const from = Date.now();
  await use();
  const to = Date.now();
  const at = await lastUsedAt(path, id);
  expect(at).toBeGreaterThanOrEqual(from - 1);
  expect(at).toBeLessThanOrEqual(to + 1);
}

test('an owner key shows when it was last used, and null before', async () => {
  const { id, key } = (await tenant.post('/api/keys', { label: 'second' })).body.data;
  await showsUse('/api/keys', id, () => tenant.with({ 'x-api-key': key }).get('/api/entities'));
});

test('a platform key does', async () => {
  const api = { name: 'shop', slug: 'shop', roles: ['reader'], permissions: { '*': { reader: ['read'] } } };
  const apiId = (await tenant.post('/api/apis', api)).body.data.id;
  const { id, key } = (await tenant.post(`/api/apis/${apiId}/keys`, { role: 'reader' })).body.data;
  const caller = service.anonymous.with({ authorization: `Bearer ${key}` });
  await showsUse(`/api/apis/${apiId}/keys`, id, () => caller.get('/api/auth/whoami'));
});

test('a public key does, in its list', async () => {
  const role = await tenant.post('/api/roles', { name: 'visitor', permissions: { '*': ['read'] } });
  const settings = { label: 'site', roleId: role.body.data.id, scopes: ['records:read'] };
  const { id, key } = (await tenant.post('/api/auth/public-keys', settings)).body.data;
  const caller = service.anonymous.with({ 'x-public-key': key });
  await showsUse('/api/auth/public-keys', id, () => caller.get('/api/auth/whoami'));
});

test('a bot does, when it gets a token and when it uses one', async () => {
  const { id, secret } = (await tenant.post('/api/auth/bots/register', { name: 'used-bot', tenantSlug: tenant.slug }))
    .body.data;
  const identify = () => tenant.post('/api/auth/bots/identify', { name: 'used-bot', secret });
  await showsUse('/api/auth/bots', id, identify);
});

test('a key of an open stream is in use', async () => {
  const { id, key } = (await tenant.post('/api/keys', { label: 'stream' })).body.data;
  const stream = await connectEvents(service.url, tenant.slug, key);
  expect(await lastUsedAt('/api/keys', id)).toBeGreaterThan(0);
  stream.close();
});

/** Records the statements; each may be made to fail. */
function recorder(fails: () => boolean = () => false) {
  const statements: { text: string; parameters: unknown[] }[] = [];
  const rows = async <T>(query: Sql): Promise<T[]> => {
    if (fails()) throw new Error('no database');
    statements.push(compile(query));
    return [];
  };
  const queries: Queries = { rows, first: async (query) => (await rows<never>(query))[0] };
  const lastUsed = new LastUsed(queries, createLog({ level: 'error', write: () => undefined }));
  return { statements, lastUsed };
}

test('ten thousand uses of a hundred keys are one statement a table, also when the process stops', async () => {
  const { statements, lastUsed } = recorder();
  const ids = Array.from({ length: 100 }, () => newId());
  for (let i = 0; i < 10_000; i++) lastUsed.note('owner_keys', ids[i % 100] as string);
  lastUsed.note('bots', newId());
  await lastUsed.close();
  const uses = statements.map(({ parameters }) => String(parameters[0]).split(',').length);
  expect(uses).toEqual([100, 1]);
  await lastUsed.close();
  expect(statements).toHaveLength(2);
});

test('uses that could not be written are written later', async () => {
  let isDown = true;
  const { statements, lastUsed } = recorder(() => isDown);
  lastUsed.note('owner_keys', newId());
  await lastUsed.close();
  isDown = false;
  await lastUsed.close();
  expect(statements).toHaveLength(1);
});
