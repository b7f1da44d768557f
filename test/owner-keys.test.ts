// Owner API keys: issue, list, revocation, expiry. Contract: decisions#tenants.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { sql } from '../src/runtime/sql.ts';
import {
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

async function issue(input: Record<string, unknown> = {}): Promise<Json> {
  const answer = await tenant.post('/api/keys', { label: 'program', ...input });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

const withKey = (key: string): Client => clientOf(service.url, { 'x-api-key': key });

describe('owner API keys', () => {
  test('the value is shown once and is accepted in either header; lists show a prefix', async () => {
    const { key, ...rest } = await issue();
    expect(key).toMatch(/^svc_ak_[0-9a-f]{48}$/);
    expect(rest).toMatchObject({ label: 'program', expiresAt: null });
    const list = await tenant.get('/api/keys');
    expect(list.body.data).toContainEqual({ ...rest, lastUsedAt: null });
    expect(list.text).not.toContain(key);
    expect(key.startsWith(rest.keyPrefix)).toBe(true);
    for (const client of [withKey(key), clientOf(service.url, { authorization: `Bearer ${key}` })]) {
      const me = (await client.get('/api/auth/whoami')).body.data;
      expect(me).toMatchObject({ kind: 'owner_key', id: rest.id, role: 'owner', tenant: { slug: tenant.slug } });
      expect(me.permissions['*']).toEqual(['read', 'create', 'update', 'delete']);
    }
  });

  test('a revoked key gets 401 at once; revoking a key of another tenant is 404', async () => {
    const { id, key } = await issue();
    expect((await (await service.tenant()).delete(`/api/keys/${id}`)).status).toBe(404);
    expect((await withKey(key).get('/api/tenant')).status).toBe(200);
    const revoked = await tenant.delete(`/api/keys/${id}`);
    expect([revoked.status, revoked.body.data]).toEqual([200, { id, revoked: true }]);
    expect((await withKey(key).get('/api/tenant')).status).toBe(401);
  });

  test('of many keys that are tried at once, each gets its own answer', async () => {
    const good = await Promise.all([1, 2, 3, 4].map(() => issue()));
    const revoked = await issue();
    await tenant.delete(`/api/keys/${revoked.id}`);
    const other = await (await service.tenant()).post('/api/keys', { label: 'other' });
    const unknown = Array.from({ length: 100 }, () => `svc_ak_${randomBytes(24).toString('hex')}`);
    const whoOf = async (key: string) => (await withKey(key).get('/api/auth/whoami')).body.data?.id ?? null;
    const tried = unknown.flatMap((key, at) => [key, ...good.slice(at, at + 1).map((one) => one.key)]);
    const answers = await Promise.all([revoked.key, other.body.data.key, ...tried].map(whoOf));
    expect(answers.slice(0, 2)).toEqual([null, other.body.data.id]);
    expect(answers.slice(2).filter((id) => id !== null)).toEqual(good.map(({ id }) => id));
  });

  test('expiresAt must be in the future; after it the key gets 401', async () => {
    for (const expiresAt of ['2020-01-01T00:00:00.000Z', 'soon', 7]) {
      const refused = await tenant.post('/api/keys', { label: 'late', expiresAt });
      expect(refused.body.error.details).toMatchObject([{ path: 'expiresAt' }]);
    }
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const { id, key, expiresAt: stored } = await issue({ expiresAt });
    expect(stored).toBe(expiresAt);
    await service.app.db.rows(
      sql`update platform.owner_keys set expires_at = now() - interval '1 second' where id = ${id}::uuid`,
    );
    expect((await withKey(key).get('/api/tenant')).status).toBe(401);
  });
});
