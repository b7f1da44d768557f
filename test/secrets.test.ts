// Secrets are shown once: no table, log line or metric contains them. Two credentials in one request are refused,
// and an almost correct key cannot be distinguished from a random one, not even by timing.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { randomBytes, randomInt } from 'node:crypto';
import { authenticate } from '../src/access/authenticate.ts';
import { ServiceError } from '../src/errors.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { newAddress } from './support/addresses.ts';
import { type Credentials, everyKind } from './support/credentials.ts';
import { ADMIN_SECRET, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { fastest } from './support/timing.ts';

const PASSWORD = 'canary password of a user';
const LIST = '/api/entities/task/records';
const PAGES_AT_ONCE = 500;

let service: TestService;
let tenant: TestTenant;
let kinds: Credentials;
/** A transaction before any secret of this file was issued or used. */
let beforeAny: string;
beforeAll(async () => {
  service = await startService({ LOG_LEVEL: 'debug', TRUST_PROXY: '1' });
  beforeAny = await currentTransaction();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task' });
  kinds = await everyKind(service, tenant);
});
afterAll(async () => service.stop());

/** One secret of every kind, issued and used through the routes. */
async function issueAll(): Promise<Record<string, string>> {
  const make = async (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Json> => {
    const { status, body: answer, text } = await tenant.post(path, body, headers);
    expect(status, text).toBeOneOf([200, 201]);
    return answer.data;
  };
  // A new address: other tests may have used up the attempts of a shared one.
  const inTenant = { 'x-tenant-id': tenant.slug, ...newAddress() };
  const viewer = (await tenant.get('/api/roles')).body.data.find(({ name }: Json) => name === 'viewer');
  const api = await make('/api/apis', { name: 'S', slug: 's', roles: ['viewer'], permissions: {} });
  const person = { email: 'ada@a.test', password: PASSWORD };
  await make('/api/users', { ...person, name: 'Ada', role: 'viewer' });
  const bot = { name: 'secret-bot', tenantSlug: tenant.slug };
  const { secret } = await make('/api/auth/bots/register', bot);
  const signIn = async (path: string) => (await service.anonymous.post(path, person, inTenant)).body.data.token;
  return {
    owner_key: (await make('/api/keys', { label: 'k' })).key,
    platform_key: (await make(`/api/apis/${api.id}/keys`, { role: 'viewer' })).key,
    public_key: (await make('/api/auth/public-keys', { label: 'p', roleId: viewer.id, scopes: ['records:read'] })).key,
    bot_secret: secret,
    bot_token: (await make('/api/auth/bots/identify', { name: bot.name, secret }, inTenant)).token,
    invitation: (await make('/api/invitations', {}, inTenant)).token,
    password: PASSWORD,
    session: await signIn('/api/auth/tenant/login'),
    developer_token: await signIn('/api/auth/tenant/developer-token'),
    admin_session: (await service.admin.post('/api/admin/sessions', { tenantSlug: tenant.slug })).body.data.token,
    admin_secret: ADMIN_SECRET,
  };
}

async function currentTransaction(): Promise<string> {
  const row = await service.app.db.first<{ id: string }>(sql`
    select pg_current_xact_id()::xid::text as id`);
  return row?.id ?? '';
}

/** What `needles` names, as far as a row of the platform's tables or of the tenant's holds it that is newer than `since`. */
async function heldByRows(needles: Readonly<Record<string, string>>, since: string): Promise<Set<string>> {
  const tables = await service.app.db.rows<{ schema: string; name: string; pages: number }>(sql`
    select n.nspname as schema, c.relname as name, ceil(pg_relation_size(c.oid) / 8192.0)::int as pages
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname in ('platform', ${schemaOf(tenant.id)})`);
  const held = new Set<string>();
  for (const { schema, name, pages } of tables) {
    // Other test files fill the platform's tables at the same time: no statement reads more than a piece of one.
    for (let from = 0; from < pages; from += PAGES_AT_ONCE) {
      const rows = await service.app.db.rows<{ name: string }>(sql`
        select distinct s.name
        from ${identifier(schema, name)} as t
          join unnest(${Object.keys(needles)}::text[], ${Object.values(needles)}::text[]) as s (name, value)
            on strpos(t::text, s.value) > 0
        where t.ctid >= ${`(${from},0)`}::tid and t.ctid < ${`(${from + PAGES_AT_ONCE},0)`}::tid
          and age(t.xmin) <= age(${since}::xid)`);
      for (const found of rows) held.add(found.name);
    }
  }
  return held;
}

test('no row, log line or metric contains a secret that was issued or used', async () => {
  const secrets = await issueAll();
  for (const [kind, value] of Object.entries(secrets)) {
    const headers = { authorization: `Bearer ${value}`, 'x-tenant-id': tenant.slug };
    await service.anonymous.get(`/api/invitations/${value}`, headers);
    await service.anonymous.get(`/auth/invite/${value}`);
    expect(value.length, kind).toBeGreaterThan(15);
  }
  const shown = { 'name of a bot': 'secret-bot', 'address of a person': 'ada@a.test' };
  expect(await heldByRows({ ...secrets, ...shown }, beforeAny)).toEqual(new Set(Object.keys(shown)));
  const places = { log: service.logged.join('\n'), metrics: (await service.admin.get('/metrics')).text };
  for (const [place, content] of Object.entries(places)) {
    expect(content.length, place).toBeGreaterThan(500);
    const held = Object.entries(secrets).filter(([, value]) => content.includes(value));
    expect(held.map(([kind]) => `${kind} in ${place}`)).toEqual([]);
  }
});

test('any two kinds of credentials in one request get 401', async () => {
  const wrong: string[] = [];
  let pairs = 0;
  for (const [first, proof] of Object.entries(kinds)) {
    for (const [second, other] of Object.entries(kinds)) {
      const [name = ''] = Object.keys(proof);
      const isPair = !(name in other) && [first, second].sort().join() !== 'admin_key,super_admin';
      if (!isPair) continue;
      pairs += 1;
      const { status } = await service.anonymous.get(LIST, { ...proof, ...other, 'x-tenant-id': tenant.slug });
      if (status !== 401) wrong.push(`${first} and ${second}: ${status}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(pairs).toBeGreaterThan(60);
});

describe('an almost correct key', () => {
  const SAMPLES = 300;
  /** The length of the prefix by which an admin key is looked up and listed: it is not secret. */
  const SHOWN = 17;
  /** Welch's t of two series with the same distribution is this large once in several hundred thousand runs. */
  const NOTABLE = 4.5;

  const keys = (): [string, string, string][] => [
    ['owner key', 'x-api-key', tenant.key],
    ['platform key', 'authorization', kinds.platform_key?.authorization ?? ''],
    ['public key', 'x-public-key', kinds.public_key?.['x-public-key'] ?? ''],
    ['admin key', 'x-admin-key', kinds.admin_key?.['x-admin-key'] ?? ''],
  ];

  async function refusal(header: string, value: string): Promise<{ ms: number; message: string }> {
    const request = new Request(`${service.url}${LIST}`, { headers: { [header]: value } });
    const since = performance.now();
    try {
      await authenticate(service.app, request);
    } catch (error) {
      if (error instanceof ServiceError) return { ms: performance.now() - since, message: error.message };
      throw error;
    }
    throw new Error('a wrong key was accepted');
  }

  test('gets the same response in the same time as a random one', async () => {
    for (const [kind, header, key] of keys()) {
      const messages = new Set<string>();
      const round = async (): Promise<number> => {
        const times: [number[], number[]] = [[], []];
        for (let i = 0; i < 2 * SAMPLES; i++) {
          const isNear = i % 2 === 0;
          const from = isNear ? key.length - 4 : Math.max(key.length - 48, kind === 'admin key' ? SHOWN : 0);
          const refused = await refusal(header, key.slice(0, from) + wrongHex(key.slice(from)));
          messages.add(refused.message);
          times[isNear ? 0 : 1].push(refused.ms);
        }
        return Math.abs(welch(...times));
      };
      expect(await fastest(NOTABLE, round), kind).toBeLessThan(NOTABLE);
      expect(messages.size, kind).toBe(1);
    }
  });

  /** Random digits, the first of which is wrong: four random digits would be right once in 65,536 times. */
  function wrongHex(right: string): string {
    const first = (Number.parseInt(right.charAt(0), 16) + randomInt(1, 16)) % 16;
    return first.toString(16) + randomBytes(right.length).toString('hex').slice(1, right.length);
  }
});

/** Welch's t of two series. The slowest tenth of each is left out, because it reflects pauses of the machine. */
function welch(a: number[], b: number[]): number {
  const [first, second] = [a, b].map((series) => {
    const kept = series.toSorted((x, y) => x - y).slice(0, Math.floor(series.length * 0.9));
    const mean = kept.reduce((sum, x) => sum + x, 0) / kept.length;
    const variance = kept.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (kept.length - 1);
    return { mean, error: variance / kept.length };
  }) as [{ mean: number; error: number }, { mean: number; error: number }];
  return (first.mean - second.mean) / Math.sqrt(first.error + second.error);
}
