// Byte budgets: responses of at most 16 MiB, and imports, exports and bulk requests in bounded memory.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TenantCaller } from '../src/access/caller.ts';
import { FULL_RIGHTS } from '../src/access/rights.ts';
import { loadCatalog } from '../src/entities/catalog.ts';
import { listEntities } from '../src/entities/entities.ts';
import { LIMITS } from '../src/limits.ts';
import { exportStream } from '../src/records/transfer/export-stream.ts';
import { listRules } from '../src/rules/rules.ts';
import { Cache } from '../src/runtime/cache.ts';
import { waitingIn } from '../src/runtime/concurrency.ts';
import { holdBytes, PlaceNeeded, waitForPlace } from '../src/runtime/large-calls.ts';
import type { RawRow } from '../src/runtime/postgres.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { countFor, currentWork, forClient } from '../src/runtime/work.ts';
import { schemaOf, type Tenant, tenantById } from '../src/tenants/tenants.ts';
import { listSubscriptions } from '../src/webhooks/subscriptions/subscriptions.ts';
import { userCaller } from './support/callers.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { callTool } from './support/mcp-calls.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';
import { until } from './support/streams.ts';
import { asTenant } from './support/work.ts';

const { bytesMax } = LIMITS.response;
const LARGE = 900_000;

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

/** An entity with records of 900 KB. */
async function largeRecords(count: number, name = 'files'): Promise<string> {
  const path = await createEntity(tenant, name, fields('title text', 'body text', 'n integer'));
  for (let n = 0; n < count; n++)
    await createRecord(tenant, path, { title: `file ${n}`, body: 'ж'.repeat(LARGE / 2), n });
  return path;
}

const refusalOf = (answer: { body: Json }): string => answer.body.error?.details?.[0]?.message ?? '';

describe('responses', () => {
  let path: string;
  beforeAll(async () => {
    tenant = await service.tenant();
    path = await largeRecords(20);
  });

  test('a list of up to 16 MiB is complete, one byte more is refused, and the refusal names the limit and a remedy', async () => {
    const list = `${path}?limit=18&sort=n`;
    const { text, body } = await tenant.get(list);
    const room = bytesMax - Buffer.byteLength(text);
    expect(room).toBeGreaterThan(0);
    // There is room for more than one record.
    const filled: Json[] = body.data.items.slice(-8);
    const set = async (at: number, length: number): Promise<void> => {
      const answer = await tenant.patch(`${path}/${filled[at].id}`, { body: filled[at].body + 'x'.repeat(length) });
      expect(answer.status).toBe(200);
    };
    const share = Math.floor(room / 8);
    for (let at = 0; at < 8; at++) await set(at, at === 7 ? room - 7 * share : share);
    const { result: full, stallMs } = await measureStall(() => tenant.get(list));
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
    expect([full.status, Buffer.byteLength(full.text)]).toEqual([200, bytesMax]);
    expect(full.body.data.items).toHaveLength(18);
    await set(0, share + 1);
    const refused = await tenant.get(list);
    expect([refused.status, refused.body.error.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(refusalOf(refused)).toMatch(/16777216 bytes; ask for fewer records, fields or relations/);
  }, 60_000);

  test('the records of a refused list can be read with a smaller limit, by cursor, or with fewer fields', async () => {
    expect((await tenant.get(`${path}?limit=100`)).status).toBe(400);
    const found: number[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { data }: Json = (await tenant.get(`${path}?limit=8&sort=n&cursor=${cursor}`)).body;
      found.push(...data.items.map(({ n }: Json) => n));
      cursor = data.nextCursor;
    }
    expect(found).toEqual(Array.from({ length: 20 }, (_, n) => n));
    const { data } = (await tenant.get(`${path}?limit=100&sort=n&fields=title,n`)).body;
    expect(data.items.map(({ title }: Json) => title)).toEqual(found.map((n) => `file ${n}`));
    expect(data.items[0]).not.toHaveProperty('body');
  }, 60_000);

  test('a relation to one large record counts at each occurrence', async () => {
    const target = (await tenant.get(`${path}?limit=1`)).body.data.items[0].id;
    const relations = Array.from({ length: 26 }, (_, i) => ({ key: `r${i}`, type: 'relation', entity: 'files' }));
    const links = await createEntity(tenant, 'links', relations);
    const values = Object.fromEntries(relations.map(({ key }) => [key, target]));
    const { id } = await createRecord(tenant, links, values);
    const ten = { ...values, ...Object.fromEntries(relations.slice(10).map(({ key }) => [key, null])) };
    const small = await createRecord(tenant, links, ten);
    for (const at of [links, `${links}/${id}`]) {
      const refused = await tenant.get(`${at}?resolve=true`);
      expect([at, refused.status]).toEqual([at, 400]);
      expect(refusalOf(refused)).toMatch(/fewer records, fields or relations/);
    }
    expect((await tenant.get(`${links}/${id}?resolve=true&fields=r1,r2`)).body.data.r2.id).toBe(target);
    const { result, stallMs } = await measureStall(() => tenant.get(`${links}/${small.id}?resolve_depth=2`));
    expect(result.body.data.r9.title).toBe(result.body.data.r0.title);
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  }, 60_000);

  test('groups with large keys are refused as a whole', async () => {
    const refused = await tenant.get(`${path}/aggregate?groupBy=body,title`);
    expect(refused.status).toBe(400);
    expect((await tenant.get(`${path}/aggregate?groupBy=title`)).body.data.items).toHaveLength(20);
  }, 60_000);

  test('the result of an MCP tool has the same limit, as text and structured content together', async () => {
    const query = async (input: object): Promise<Json> => {
      const params = { name: 'query_records', arguments: { entity_name: 'files', ...input } };
      const headers = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' };
      const answer = await tenant.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, headers);
      expect(Buffer.byteLength(answer.text)).toBeLessThanOrEqual(bytesMax + 1_000);
      return JSON.parse(answer.text.replace(/^[^{]*/, '')).result;
    };
    expect((await query({ limit: 18 })).isError).toBe(true);
    const { isError, content } = await query({ limit: 12 });
    expect([isError, content[0].text]).toEqual([true, expect.stringContaining('fewer records, fields or relations')]);
    expect((await query({ limit: 8 })).structuredContent.items).toHaveLength(8);
  }, 60_000);
});

describe('large calls at once', () => {
  test('the calls of a tenant that uses all its places wait, while its small calls and other tenants continue', async () => {
    tenant = await service.tenant();
    const mine = tenant;
    const path = await largeRecords(2);
    tenant = await service.tenant();
    const others = tenant;
    await largeRecords(2);
    const ended = Promise.withResolvers<void>();
    const placed = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = placed.map(({ resolve }) =>
      asTenant(mine.id, async () => {
        await waitForPlace();
        resolve();
        await ended.promise;
      }),
    );
    await Promise.all(placed.map(({ promise }) => promise));
    const ids = (await mine.get(`${path}?fields=title`)).body.data.items.map(({ id }: Json) => id);
    const operations = ids.map((id: string) => ({ op: 'update', id, data: { title: 'changed' } }));
    const { id: note } = await createRecord(mine, await createEntity(mine, 'notes', fields('v text')), {
      v: 'x'.repeat(200_000),
    });
    const relations = Array.from({ length: 10 }, (_, i) => ({ key: `r${i}`, type: 'relation', entity: 'notes' }));
    const links = await createEntity(mine, 'links', relations);
    await createRecord(mine, links, Object.fromEntries(relations.map(({ key }) => [key, note])));
    const large = [
      mine.get(path),
      // Small until its relations are expanded.
      mine.get(`${links}?resolve=true`),
      mine.post(`${path}/bulk`, { operations }),
      mine.post(`${path}/bulk`, { operations, atomic: false }),
      // A large body is not parsed before.
      mine.post(path, { title: 'new', body: 'x'.repeat(LARGE) }),
    ];
    // If the service is another process, the places held here are not its places: then only the results count.
    const waitingMin = process.env.SERVICE_RUNTIME === 'deno' ? 0 : 5;
    await until(
      () => waitingIn('large-calls') === waitingMin,
      10_000,
      () => `${waitingIn('large-calls')} calls wait`,
    );
    expect((await mine.get(`${path}?fields=title`)).body.data.items).toHaveLength(2);
    expect((await mine.get(`${path}/${ids[0]}`)).status).toBe(200);
    expect((await mine.get('/api/entities')).status).toBe(200);
    expect((await others.get(path)).body.data.items).toHaveLength(2);
    ended.resolve();
    await Promise.all(holding);
    expect((await Promise.all(large)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 201]);
    expect((await mine.get(`${path}?filters=title = "changed"`)).body.data.total).toBe(2);
  }, 60_000);
});

/** The result of a large call of the tenant, which must have waited while others held the tenant's places. */
async function afterWait<T>({ id }: TestTenant, run: () => Promise<T>): Promise<T> {
  const ended = Promise.withResolvers<void>();
  const holdPlace = (placed: () => void) => async (): Promise<void> => {
    await waitForPlace();
    placed();
    await ended.promise;
  };
  const placed = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holding = placed.map(({ resolve }) => asTenant(id, holdPlace(resolve)));
  await Promise.all(placed.map(({ promise }) => promise));
  let isMade = false;
  const made = asTenant(id, async () => {
    const result = await run();
    isMade = true;
    return result;
  });
  await until(
    () => waitingIn('large-calls') === 1 || isMade,
    10_000,
    () => `${waitingIn('large-calls')} calls wait`,
  );
  expect(isMade).toBe(false);
  ended.resolve();
  await Promise.all(holding);
  return made;
}

type List = (app: TestService['app'], caller: TenantCaller) => Promise<unknown[]>;

/** The tenant's list has this many items, and waits while others hold the tenant's places. */
async function expectWaits(mine: TestTenant, path: string, list: List, length: number): Promise<void> {
  expect((await mine.get(path)).body.data).toHaveLength(length);
  // If the service is another process, the places held here are not its places.
  if (process.env.SERVICE_RUNTIME === 'deno') return;
  const caller = await userCaller(service, mine, FULL_RIGHTS);
  expect(await afterWait(mine, () => list(service.app, caller))).toHaveLength(length);
}

test('a list of large definitions waits for its place before it is made: many at once take no more memory than two', async () => {
  const mine = await service.tenant();
  const described = Array.from({ length: 200 }, (_, i) => ({
    key: `f${i}`,
    type: 'text',
    description: 'd'.repeat(900),
  }));
  for (let n = 0; n < 6; n++) await createEntity(mine, `wide${n}`, described);
  await expectWaits(mine, '/api/entities', listEntities, 6);
});

test('the rules of a tenant count as they are received, so that few large lists of them are in memory at once', async () => {
  const mine = await service.tenant();
  await createEntity(mine, 'ruled', fields('a text', 'b text', 'c text'));
  const values = { a: 'x'.repeat(20_000), b: 'x'.repeat(20_000), c: 'x'.repeat(20_000) };
  const rule = { entity: 'ruled', trigger: 'before_create', condition: 'a = "z"', action: { type: 'set', values } };
  for (let n = 0; n < 20; n++) expect((await mine.post('/api/rules', { ...rule, name: `r${n}` })).status).toBe(201);
  await expectWaits(mine, '/api/rules', listRules, 20);
});

test('the webhook subscriptions of a tenant count as they are received, so that few large lists of them are in memory at once', async () => {
  const mine = await service.tenant();
  await createEntity(mine, 'watched', fields('a text'));
  const long = { description: 'd'.repeat(500), filters: `a = "${'x'.repeat(1_900)}"`, event_types: ['record.created'] };
  const create = (_: unknown, n: number) =>
    mine.post('/api/webhooks/subscriptions', {
      ...long,
      entity_name: 'watched',
      url: `https://receiver.example/${n}/${'p'.repeat(1_900)}`,
    });
  const created = await Promise.all(Array.from({ length: 300 }, create));
  expect(new Set(created.map(({ status }) => status))).toEqual(new Set([201]));
  await expectWaits(mine, '/api/webhooks/subscriptions', listSubscriptions, 300);
}, 30_000);

test('a record that is read by itself counts towards what its call holds while the next statement waits', async () => {
  tenant = await service.tenant();
  const { smallBytes, bytesFrom, running } = LIMITS.largeCalls;
  const path = await largeRecords(1);
  const { id } = (await tenant.get(`${path}?fields=title`)).body.data.items[0];
  const asOf = new Date(Date.now() + 1_000).toISOString();
  const ended = Promise.withResolvers<void>();
  const holding = Array.from({ length: smallBytes / 2 / bytesFrom + running / 2 }, () =>
    asTenant(tenant.id, async () => {
      holdBytes(currentWork(), bytesFrom - 1);
      await ended.promise;
    }),
  );
  const question = { as: { role: 'member' }, operation: 'read', entity: 'files', record_id: id };
  const calls = [
    tenant.get(`${path}/${id}?resolve=true`),
    tenant.get(`${path}/${id}?asOf=${asOf}&fields=title`),
    tenant.post('/api/access/explain', question),
    tenant.patch(`${path}/${id}`, { title: 'changed' }),
  ];
  // If the service is another process, it does not have what is held here.
  const waitingMin = process.env.SERVICE_RUNTIME === 'deno' ? 0 : calls.length;
  await until(
    () => waitingIn('large-calls') === waitingMin,
    10_000,
    () => `${waitingIn('large-calls')} calls wait`,
  );
  ended.resolve();
  await Promise.all(holding);
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
}, 60_000);

test('large MCP messages at once do not wait for each other: a tool takes over what its message holds', async () => {
  tenant = await service.tenant();
  const path = await createEntity(tenant, 'files', fields('title text'));
  const { id } = await createRecord(tenant, path, { title: 'x'.repeat(LARGE) });
  const startedAt = performance.now();
  const update = async (n: number): Promise<string> => {
    const input = { entity_name: 'files', record_id: id, data: { title: `${n}${'ж'.repeat(LARGE / 2)}` } };
    return (await callTool(service.url, 'update_record', input, { 'x-api-key': tenant.key })).text.slice(0, 200);
  };
  const texts = await Promise.all(Array.from({ length: 6 }, (_, n) => update(n)));
  for (const text of texts) expect(text).not.toContain('isError');
  expect(performance.now() - startedAt).toBeLessThan(LIMITS.largeCalls.waitMs);
  expect((await tenant.get(`${path}/${id}`)).body.data.title).toEndWith('ж');
}, 60_000);

test('small calls of a tenant hold at most half of what all small calls may hold; further ones need a place, those of other tenants do not', async () => {
  const { smallBytes, bytesFrom, running } = LIMITS.largeCalls;
  const ended = Promise.withResolvers<void>();
  const signal = new AbortController().signal;
  /** Whether a call of the tenant may hold almost as much as a large one. It holds that until all have ended. */
  const held: Promise<void>[] = [];
  const holds = (tenantId: string): Promise<boolean> =>
    new Promise((resolve) => {
      const call = async (): Promise<void> => {
        countFor(tenantId, false);
        try {
          holdBytes(currentWork(), bytesFrom / 2);
          holdBytes(currentWork(), bytesFrom - 1);
          resolve(true);
        } catch (error) {
          resolve(!(error instanceof PlaceNeeded));
        }
        await ended.promise;
      };
      held.push(forClient('192.0.2.1', () => signal, null, call));
    });
  const fitting = smallBytes / 2 / bytesFrom;
  for (let i = 0; i < fitting + running / 2; i++) expect(await holds('one')).toBe(true);
  expect([await holds('one'), await holds('other')]).toEqual([false, true]);
  ended.resolve();
  await Promise.all(held);
  expect(await holds('one')).toBe(true);
});

describe('bulk requests', () => {
  test('each operation whose result does not fit is refused and not applied; all or nothing is refused as a whole', async () => {
    tenant = await service.tenant();
    const fill = Array.from({ length: 15 }, (_, i) => ({ key: `d${i}`, type: 'text', default: 'x'.repeat(16_000) }));
    const path = await createEntity(tenant, 'heavy', fill);
    const operations = Array.from({ length: 72 }, () => ({ op: 'create', data: {} }));
    const refused = await tenant.post(`${path}/bulk`, { operations });
    expect(refused.status).toBe(400);
    expect(refused.body.error.details[0]).toEqual({
      path: 'operations.69',
      message: 'the response would be larger than 16777216 bytes; send fewer operations at once',
    });
    expect((await tenant.get(`${path}?fields=d0`)).body.data.total).toBe(0);
    const { status, text, body } = await tenant.post(`${path}/bulk`, { atomic: false, operations });
    expect(status).toBe(200);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(bytesMax);
    const failed = body.data.results.filter(({ success }: Json) => !success);
    expect([body.data.succeeded, failed.length]).toEqual([69, 3]);
    expect(failed[0].error.message).toContain('send fewer operations at once');
    expect((await tenant.get(`${path}?fields=d0`)).body.data.total).toBe(69);
  }, 60_000);
});

describe('caches', () => {
  test('a cache keeps the values used last, within its bytes; a single larger value is kept until another one is loaded', async () => {
    const cache = new Cache<string>(10, () => true, { max: 100, of: (value) => value.length });
    const loaded = (key: string, bytes: number) => cache.get(key, async () => 'x'.repeat(bytes));
    for (const key of ['a', 'b', 'c']) await loaded(key, 30);
    expect(cache.size).toEqual({ entries: 3, bytes: 90 });
    cache.get('a', async () => 'never');
    await loaded('d', 30);
    expect(['a', 'b', 'c', 'd'].map((key) => cache.peek(key)?.length)).toEqual([30, undefined, 30, 30]);
    await loaded('e', 500);
    expect(cache.size).toEqual({ entries: 1, bytes: 500 });
    await loaded('f', 1);
    expect(cache.size).toEqual({ entries: 1, bytes: 1 });
    cache.drop('f');
    await loaded('g', 40);
    cache.clear();
    expect(cache.size).toEqual({ entries: 0, bytes: 0 });
  });

  test('the definitions of a tenant count with their bytes', async () => {
    tenant = await service.tenant();
    const options = Array.from({ length: 500 }, (_, i) => `option ${i} ${'o'.repeat(80)}`);
    await createEntity(tenant, 'chosen', [{ key: 'a', type: 'select', options }]);
    if (process.env.SERVICE_RUNTIME === 'deno') return;
    const found = await tenantById(service.app, tenant.id);
    const catalog = await loadCatalog(service.app.db, found as Tenant);
    expect(catalog.bytes).toBeGreaterThan(JSON.stringify(options).length);
    expect(catalog.bytes).toBeLessThan(2 * JSON.stringify(options).length);
  });
});

describe('exports', () => {
  const rows = sql`select repeat('x', 100000) as line from generate_series(1, 100)`;
  const writer = { head: '', line: ([line]: RawRow) => [`${line}\n`] };

  test('a reader that takes nothing is cut sooner while others wait, and frees its connection', async () => {
    const { db } = service.app;
    const batches = db.stream(rows, 10)[Symbol.asyncIterator]();
    const asked = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<unknown>();
    let isWaitedFor = false;
    const stream = exportStream(writer, batches, await batches.next(), {
      stalledMs: 60_000,
      stalledWaitedForMs: 20,
      isWaitedFor: () => {
        asked.resolve();
        return isWaitedFor;
      },
      onAborted: aborted.resolve,
    });
    const reader = stream.getReader();
    await reader.read();
    await asked.promise;
    expect((await reader.read()).done).toBe(false);
    isWaitedFor = true;
    expect(String(await aborted.promise)).toMatch(/the reader took nothing for/);
    await expect(reader.read()).rejects.toThrow('the reader took nothing');
    await until(
      () => db.stats('streams').inUse === 0,
      5_000,
      () => 'the connection is still in use',
    );
  });

  test('a reader that disconnects while rows are read ends the export, which is no failure', async () => {
    const { db } = service.app;
    const reading = Promise.withResolvers<void>();
    const disconnected = Promise.withResolvers<void>();
    const batches = (async function* (): AsyncGenerator<RawRow[]> {
      for await (const batch of db.stream(rows, 10)) {
        yield batch;
        reading.resolve();
        await disconnected.promise;
      }
    })();
    const aborted: unknown[] = [];
    const stream = exportStream(writer, batches, await batches.next(), {
      stalledMs: 60_000,
      stalledWaitedForMs: 60_000,
      isWaitedFor: () => false,
      onAborted: (cause) => aborted.push(cause),
    });
    const reader = stream.getReader();
    const pending = reader.read();
    await reading.promise;
    const cancelled = reader.cancel();
    disconnected.resolve();
    await Promise.all([pending, cancelled]);
    await until(
      () => db.stats('streams').inUse === 0,
      5_000,
      () => 'the connection is still in use',
    );
    expect(aborted).toEqual([]);
  });
});

describe('refused records', () => {
  /** Each value is refused with a message that names options of 200 characters. */
  const wordy = async (): Promise<{ path: string; values: Json }> => {
    const options = Array.from({ length: 20 }, (_, i) => `${i} `.padEnd(200, 'y'));
    const own = Array.from({ length: 60 }, (_, i) => ({ key: `f${i}`, type: 'select', options }));
    tenant = await service.tenant();
    return {
      path: await createEntity(tenant, 'wordy', own),
      values: Object.fromEntries(own.map(({ key }) => [key, 'q'])),
    };
  };

  test('the report of an import whose every line has many problems stays small', async () => {
    const { path, values } = await wordy();
    const file = `${JSON.stringify(values)}\n`.repeat(1_500);
    const { status, body, text } = await tenant.post(`${path}/import`, file, {
      'content-type': 'application/x-ndjson',
    });
    expect([status, body.data.refused, body.data.errors.length]).toEqual([200, 1_500, 1_000]);
    expect(body.data.errors[0].message).toStartWith('f0: must be one of: 0 y');
    expect(body.data.errors[0].message).toHaveLength(LIMITS.transfer.errorCharacters);
    expect(text.length).toBeLessThan(600_000);
  });

  test('each operation of a bulk call states its first problems and counts the others', async () => {
    const { path, values } = await wordy();
    const operations = Array.from({ length: 500 }, () => ({ op: 'create', data: values }));
    const each = await tenant.post(`${path}/bulk`, { operations, atomic: false });
    expect([each.status, each.body.data.failed]).toEqual([200, 500]);
    for (const { error } of each.body.data.results) {
      expect(error.details.at(-1).message).toMatch(new RegExp(` \\(and ${60 - error.details.length} more\\)$`));
    }
    expect(each.text.length).toBeLessThan(4_000_000);
    const single = await tenant.post(path, values);
    expect(single.body.error.details).toHaveLength(60);
  });
});

test('a change of a field rewrites large records one at a time, and leaves their other values as they are', async () => {
  const tenant = await service.tenant();
  const fields = ['body', 'other', 'price'].map((key) => ({ key, type: key === 'price' ? 'decimal' : 'text' }));
  await tenant.post('/api/entities', { name: 'scans', fields });
  for (let i = 0; i < 4; i++) {
    const values = { body: `"a\\b\n${i}" `.repeat(20_000), other: 'b'.repeat(200_000), price: '0.10' };
    expect((await tenant.post('/api/entities/scans/records', values)).status).toBe(201);
  }
  const before = (await tenant.get('/api/entities/scans/records')).body.data.items;
  for (const type of ['json', 'text']) {
    expect((await tenant.patch('/api/entities/scans/fields/body', { type })).status).toBe(200);
    expect((await tenant.get('/api/entities/scans/records')).body.data.items).toEqual(before);
  }
  expect((await tenant.get('/api/entities/scans/records?search=b3')).body.data.total).toBe(0);
  const records = identifier(schemaOf(tenant.id), 'entity_records');
  const rows = await service.app.db.rows<{ xmin: string; keys: string[] }>(sql`
    select xmin::text, array(select jsonb_object_keys(data)) as keys from ${records}`);
  expect(new Set(rows.map(({ xmin }) => xmin)).size).toBe(4);
  for (const { keys } of rows) expect(keys).toHaveLength(3);
});
