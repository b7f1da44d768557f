// Field changes while records are being written, and cleanup after a crash.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import process from 'node:process';
import { systemCaller } from '../src/access/caller.ts';
import { cleanUpInterruptedTenants } from '../src/entities/cleanup.ts';
import { type Entity, tableNameOf } from '../src/entities/field.ts';
import { indexName } from '../src/entities/indexes.ts';
import { dualWrite } from '../src/entities/values.ts';
import { setsIdle } from '../src/http/own-idle.ts';
import { translateViolation } from '../src/records/write/constraints.ts';
import { newId } from '../src/runtime/ids.ts';
import { newOwnedId } from '../src/runtime/owned-ids.ts';
import { identifier, raw, sql } from '../src/runtime/sql.ts';
import { schemaOf, type Tenant } from '../src/tenants/tenants.ts';
import {
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { IS_EMBEDDED, sized } from './support/sizes.ts';
import { fastest, retryWhenDelayed } from './support/timing.ts';

let service: TestService;
let tenant: TestTenant;
let made = 0;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const ROWS = sized(600);
const WRITERS = 6;
const BLOCKED_MS = 1_000;
/** The time for which a field change waits for the definition lock, and for older writes. */
const LOCK_WAIT_MS = 5_000;
const WRITERS_MS = 10_000;
const pathOf = (name: string): string => `/api/entities/${name}/records`;
const change = (name: string, key: string, to: Json) => tenant.patch(`/api/entities/${name}/fields/${key}`, to);
const fieldOf = async (name: string, key: string): Promise<Json> =>
  (await tenant.get(`/api/entities/${name}/fields`)).body.data.find((field: Json) => field.key === key);

/** Creates an entity with these fields and ROWS records; returns its name and the ids. */
async function filled(fields: Json[], values: (i: number) => Json): Promise<{ name: string; ids: string[] }> {
  const name = `busy_${++made}`;
  expect((await tenant.post('/api/entities', { name, fields })).status).toBe(201);
  const operations = Array.from({ length: ROWS }, (_, i) => ({ op: 'create', data: values(i) }));
  const answer = await tenant.post(`${pathOf(name)}/bulk`, { operations });
  expect(answer.status, answer.text).toBe(200);
  return { name, ids: answer.body.data.results.map(({ id }: Json) => id) };
}

interface Writers {
  /** Duration of the slowest write. */
  slowestMs: number;
  /** Its limit: a second, or half the duration of the work when that is longer, on a busy machine. */
  allowedMs: number;
  statuses: Map<number, number>;
}

/**
 * Runs `write` in a loop in several writers from shortly before `work` starts until shortly after it ends. Each writer
 * increments n by the number of writers, so that each residue of n belongs to one writer.
 */
async function whileWriting<T>(
  write: (n: number) => Promise<Answer>,
  work: () => Promise<T>,
): Promise<{ result: T; writers: Writers }> {
  const writers: Writers = { slowestMs: 0, allowedMs: 0, statuses: new Map() };
  let isDone = false;
  const running = Array.from({ length: WRITERS }, async (_, writer) => {
    for (let n = writer; !isDone; n += WRITERS) {
      const startedAt = performance.now();
      const { status } = await write(n);
      writers.slowestMs = Math.max(writers.slowestMs, performance.now() - startedAt);
      writers.statuses.set(status, (writers.statuses.get(status) ?? 0) + 1);
    }
  });
  const pause = () => new Promise((resolve) => setTimeout(resolve, 200));
  await pause();
  const begunAt = performance.now();
  try {
    const result = await work();
    writers.allowedMs = Math.max(BLOCKED_MS, (performance.now() - begunAt) / 2);
    await pause();
    return { result, writers };
  } finally {
    isDone = true;
    await Promise.all(running);
  }
}

/** Expects no blocked writer. A blocked write is slow in every run, a write delayed by the machine is not. */
async function unblocked(scenario: () => Promise<Writers>): Promise<void> {
  const share = async (): Promise<number> => {
    const { slowestMs, allowedMs } = await scenario();
    return slowestMs / allowedMs;
  };
  expect(await fastest(1, share)).toBeLessThan(1);
}

/** All records. */
async function all(name: string): Promise<Json[]> {
  const items: Json[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { data }: Json = (await tenant.get(`${pathOf(name)}?limit=100&cursor=${cursor}`)).body;
    items.push(...data.items);
    cursor = data.nextCursor;
  }
  return items;
}

describe('while records are being written', () => {
  test('a unique index is built without blocking writes; no duplicate slips through and no write is lost', () =>
    unblocked(async () => {
      const { name } = await filled([{ key: 'code', type: 'integer' }], (i) => ({ code: -i - 1 }));
      const acknowledged: number[] = [];
      const { result, writers } = await whileWriting(
        async (n) => {
          const answer = await tenant.post(pathOf(name), { code: n });
          if (answer.status === 201) acknowledged.push(n);
          return answer;
        },
        () => change(name, 'code', { unique: true }),
      );
      expect(result.status, result.text).toBe(200);
      expect([...writers.statuses.keys()]).toEqual([201]);
      const codes = (await all(name)).map(({ code }) => code);
      expect(new Set(codes).size).toBe(codes.length);
      expect(acknowledged.filter((code) => !codes.includes(code))).toEqual([]);
      expect((await tenant.post(pathOf(name), { code: -1 })).status).toBe(409);
      return writers;
    }));

  test('duplicates written during the change either prevent the unique index or are rejected', () =>
    unblocked(async () => {
      const { name } = await filled([{ key: 'code', type: 'integer' }], (i) => ({ code: -i - 1 }));
      const { result, writers } = await whileWriting(
        (n) => tenant.post(pathOf(name), { code: Math.floor(n / 2) }),
        () => change(name, 'code', { unique: true }),
      );
      expect([200, 409]).toContain(result.status);
      const codes = (await all(name)).map(({ code }) => code);
      if (result.status === 200) expect(new Set(codes).size).toBe(codes.length);
      expect((await fieldOf(name, 'code')).unique).toBe(result.status === 200);
      const again = await tenant.post(pathOf(name), { code: -1 });
      expect(again.status).toBe(result.status === 200 ? 409 : 201);
      return writers;
    }));

  test('a field made required has a value in every record, even if writers clear it during the change', async () => {
    const { name, ids } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
    const round = async (): Promise<Writers> => {
      const { result, writers } = await whileWriting(
        async (n) => {
          const answer = await tenant.patch(`${pathOf(name)}/${ids[n % 50]}`, { f: n % 7 === 0 ? null : 'again' });
          // Restore the value at once, so that the change can succeed.
          if (answer.status === 200) await tenant.patch(`${pathOf(name)}/${ids[n % 50]}`, { f: 'back' });
          return answer;
        },
        () => change(name, 'f', { required: true }),
      );
      expect([200, 409]).toContain(result.status);
      expect([...writers.statuses.keys()].filter((status) => ![200, 400].includes(status))).toEqual([]);
      const isRequired = (await fieldOf(name, 'f')).required;
      expect(isRequired).toBe(result.status === 200);
      if (isRequired) {
        expect((await all(name)).filter(({ f }) => f === null)).toEqual([]);
        expect((await change(name, 'f', { required: false })).status).toBe(200);
      }
      for (const { id, f } of await all(name)) if (f === null) await tenant.patch(`${pathOf(name)}/${id}`, { f: 'x' });
      return writers;
    };
    for (let i = 0; i < 6; i++) await unblocked(round);
  });

  test('retyping a field loses no write to it or to other fields', () =>
    unblocked(async () => {
      const fields = [
        { key: 'f', type: 'text' },
        { key: 'g', type: 'integer' },
      ];
      const { name, ids } = await filled(fields, (i) => ({ f: `${i}`, g: 0 }));
      const written = new Map<string, { f?: string; g?: number }>();
      let isRetyped = false;
      const { result, writers } = await whileWriting(
        async (n) => {
          // Each record has one writer, so it must hold the last acknowledged value.
          const id = ids[n % ids.length] as string;
          const values = n % 2 === 0 ? { f: isRetyped ? n : `${n}` } : { g: n };
          const answer = await tenant.patch(`${pathOf(name)}/${id}`, values);
          if (answer.status === 200) written.set(id, { ...written.get(id), ...JSON.parse(JSON.stringify(values)) });
          return answer;
        },
        async () => {
          const answer = await change(name, 'f', { type: 'integer' });
          isRetyped = true;
          return answer;
        },
      );
      expect(result.status, result.text).toBe(200);
      expect([...writers.statuses.keys()].filter((status) => ![200, 400].includes(status))).toEqual([]);
      const records = await all(name);
      expect(records).toHaveLength(ROWS);
      for (const [i, id] of ids.entries()) {
        const last = { f: `${i}`, g: 0, ...written.get(id) };
        expect(records.find((record) => record.id === id)).toMatchObject({ f: Number(last.f), g: last.g });
      }
      return writers;
    }));

  test('a required field with a default is added and filled during writes', () =>
    unblocked(async () => {
      const { name, ids } = await filled([{ key: 'g', type: 'integer' }], () => ({ g: 0 }));
      const { result, writers } = await whileWriting(
        (n) =>
          n % 2 === 0
            ? tenant.post(pathOf(name), { g: n })
            : tenant.patch(`${pathOf(name)}/${ids[n % ids.length]}`, { g: n }),
        () => tenant.post(`/api/entities/${name}/fields`, { key: 'd', type: 'text', required: true, default: 'x' }),
      );
      expect(result.status, result.text).toBe(201);
      expect([...writers.statuses.keys()].sort()).toEqual([200, 201]);
      expect((await all(name)).filter(({ d }) => d !== 'x')).toEqual([]);
      return writers;
    }));

  test('a field is dropped without confirmation only if no value was written during the change', async () => {
    for (let round = 0; round < 5; round++) {
      const { name, ids } = await filled([{ key: 'f', type: 'text' }], () => ({}));
      const dropping = tenant.delete(`/api/entities/${name}/fields/f`);
      const writes = ids.slice(0, 20).map((id) => tenant.patch(`${pathOf(name)}/${id}`, { f: 'kept' }));
      const isDropped = (await dropping).status === 200;
      const statuses = (await Promise.all(writes)).map(({ status }) => status);
      if (isDropped) expect(statuses.filter((status) => status === 200)).toEqual([]);
      else {
        const kept = (await all(name)).filter(({ f }) => f === 'kept').length;
        expect(kept).toBe(statuses.filter((status) => status === 200).length);
      }
    }
  });

  const F_AND_N = [
    { key: 'f', type: 'text' },
    { key: 'n', type: 'integer' },
  ];

  /** How many records have a value of the first field, or words; their bytes, and the counted bytes. */
  async function storedIn(name: string): Promise<Json> {
    const { id } = (await tenant.get(`/api/entities/${name}`)).body.data;
    return service.app.db.first(sql`
      select count(*) filter (where data ? 'f1') as values, count(*) filter (where search_vector is not null) as words,
        sum(octet_length(data::text))::int as bytes,
        (select sum(bytes)::int from platform.entity_counts where tenant_id = ${tenant.id}::uuid and entity_id = ${id}::uuid) as counted
      from ${identifier(schemaOf(tenant.id), tableNameOf(id))}`);
  }

  test('dropping a field keeps the ETags of its records, and loses no write', () =>
    unblocked(async () => {
      const { name, ids } = await filled(F_AND_N, (i) => ({ f: `value ${i}`, n: 0 }));
      const quiet = ids.slice(0, ROWS / 2);
      const busy = ids.slice(ROWS / 2);
      const etagOf = async (id: string) => (await tenant.get(`${pathOf(name)}/${id}`)).headers.get('etag') ?? '';
      const etags = await Promise.all(quiet.slice(0, 20).map(etagOf));
      const { result, writers } = await whileWriting(
        (n) => tenant.patch(`${pathOf(name)}/${busy[n % busy.length]}`, { n }),
        () => tenant.delete(`/api/entities/${name}/fields/f?confirm=f`),
      );
      expect(result.status, result.text).toBe(200);
      expect([...writers.statuses.keys()]).toEqual([200]);
      expect(await Promise.all(quiet.slice(0, 20).map(etagOf))).toEqual(etags);
      const lost = { 'if-match': etags[0] as string };
      expect((await tenant.patch(`${pathOf(name)}/${quiet[0]}`, { n: 1 }, lost)).status).toBe(200);
      const { values, words, bytes, counted } = await storedIn(name);
      expect([values, words, counted]).toEqual([0, 0, bytes]);
      return writers;
    }));

  // The embedded database has one session.
  if (!IS_EMBEDDED) {
    test('a write that has read a dropped value, and waits while that is removed, neither keeps it nor counts its bytes', async () => {
      const { name, ids } = await filled(F_AND_N, () => ({ f: 'dropped', n: 0 }));
      const { db, invalidations } = service.app;
      const schema = schemaOf(tenant.id);
      const { id } = (await tenant.get(`/api/entities/${name}`)).body.data;
      const [record] = ids as [string];
      const isOwn = sql`tenant_id = ${tenant.id}::uuid and entity_id = ${id}::uuid and slot = 0`;
      await db.rows(
        sql`delete from ${identifier(schema, 'field_definitions')} where entity_id = ${id}::uuid and slot = 'f1'`,
      );
      await db.rows(sql`update ${identifier(schema, 'entity_definitions')}
        set version = version + 1, retired_slots = '["f1"]' where id = ${id}::uuid`);
      await invalidations.publish('catalog', tenant.id);
      const locked = Promise.withResolvers<void>();
      const removal = db.slow.begin(async (tx) => {
        const table = identifier(schema, tableNameOf(id));
        await tx.rows(sql`select from ${table} where id = ${record}::uuid for update`);
        locked.resolve();
        await Bun.sleep(500);
        const { bytes }: Json = await tx.first(sql`
          with before as (select octet_length(data::text) as bytes from ${table} where id = ${record}::uuid)
          update ${table} set data = data - 'f1' where id = ${record}::uuid
          returning octet_length(data::text) - (select bytes from before) as bytes`);
        await tx.rows(sql`update platform.entity_counts set bytes = bytes + ${bytes}::int where ${isOwn}`);
      });
      await locked.promise;
      expect((await tenant.patch(`${pathOf(name)}/${record}`, { n: 7 })).status).toBe(200);
      await removal;
      const { values, bytes, counted } = await storedIn(name);
      expect([values, counted]).toEqual([ROWS - 1, bytes]);
    });
  }

  const shortDelay = () => new Promise<void>((resolve) => setTimeout(resolve, IS_EMBEDDED ? 50 : 900));

  /** Runs `work` during a transaction that writes `data` under the old definition and commits when `until` resolves. */
  async function duringOlderWrite<T>(name: string, data: Json, work: () => Promise<T>, until = shortDelay): Promise<T> {
    const { id } = (await tenant.get(`/api/entities/${name}`)).body.data;
    const table = identifier(schemaOf(tenant.id), tableNameOf(id));
    const begun = Promise.withResolvers<void>();
    // The request pool would abort an idle transaction.
    const transaction = service.app.db.slow.begin(async (tx) => {
      await tx.rows(sql`insert into ${table} (id, entity_id, data, created_at, updated_at)
        values (platform.uuidv7(), ${id}::uuid, ${JSON.stringify(data)}::text::jsonb, now(), now())`);
      begun.resolve();
      await until();
    });
    await begun.promise;
    const result = await work();
    await transaction;
    return result;
  }

  /** Resolves when a field of the entity is in transition, or the change has ended. */
  async function inTransition(change: Promise<Answer>): Promise<void> {
    let isDone = false;
    change.then(() => {
      isDone = true;
    });
    const definitions = identifier(schemaOf(tenant.id), 'field_definitions');
    while (!isDone) {
      if ((await service.app.db.first(sql`select from ${definitions} where next is not null`)) !== undefined) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  test('a change waits for older writes, and counts them', async () => {
    const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
    const required = await duringOlderWrite(name, {}, () => change(name, 'f', { required: true }));
    expect(required.body.error?.details).toEqual([{ path: 'required', message: '1 record(s) have no value' }]);
    await duringOlderWrite(name, { f1: 'x'.repeat(40) }, async () => {
      expect((await change(name, 'f', { maxLength: 30 })).body.error?.details[0].path).toBe('maxLength');
    });
    await duringOlderWrite(name, { f1: 'word' }, async () => {
      expect((await change(name, 'f', { type: 'integer' })).status).toBe(409);
    });
    const { name: empty } = await filled([{ key: 'f', type: 'text' }], () => ({}));
    const dropped = await duringOlderWrite(empty, { f1: 'kept' }, () =>
      tenant.delete(`/api/entities/${empty}/fields/f`),
    );
    expect(dropped.status).toBe(409);
    expect((await all(empty)).filter(({ f }) => f === 'kept')).toHaveLength(1);
  });

  test('while a change waits, writes must satisfy both definitions', async () => {
    const stricter: [Json, Json, Json][] = [
      [{ required: true }, { f: null }, { f: 'x' }],
      [{ maxLength: 5 }, { f: 'too long' }, { f: 'short' }],
      [{ type: 'integer' }, { f: 'word' }, { f: '77' }],
    ];
    const scenario = async (to: Json, bad: Json, good: Json): Promise<void> => {
      const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
      const written = Promise.withResolvers<void>();
      const work = async (): Promise<{ changed: Answer; statuses: number[] }> => {
        const changing = change(name, 'f', to);
        try {
          await inTransition(changing);
          const writes = [await tenant.post(pathOf(name), bad), await tenant.post(pathOf(name), good)];
          written.resolve();
          return { changed: await changing, statuses: writes.map(({ status }) => status) };
        } finally {
          written.resolve();
        }
      };
      // The embedded database runs one transaction at a time: there the change has ended by then.
      const until = IS_EMBEDDED ? shortDelay : () => written.promise;
      const { changed, statuses } = await duringOlderWrite(name, { f1: '5' }, work, until);
      if (IS_EMBEDDED) expect(statuses[0]).toBe(400);
      else expect(statuses).toEqual([400, 201]);
      expect(changed.status, changed.text).toBe(200);
    };
    for (const definitions of stricter) await retryWhenDelayed(WRITERS_MS, () => scenario(...definitions));
  });

  test('a duplicate in the next slot of a field is reported under its key', () => {
    const code = { key: 'code', slot: 'f1', next: { key: 'code', slot: 'f7' } };
    const busy = { tableName: 'r_1', fields: [{ key: 'title', slot: 'f2' }, code] } as unknown as Entity;
    for (const slot of ['f1', 'f7']) {
      const violation = { code: '23505', constraint_name: indexName(busy, { slot }, 'unique') };
      const caller = systemCaller({} as Tenant, { triggeredBy: 'system' });
      expect(translateViolation(violation, busy, caller)).toMatchObject({
        ecode: 'CONFLICT',
        details: [{ path: 'code' }],
      });
    }
  });

  test('written records have no value in a retired slot, and one in the next slot of a field', async () => {
    const next = { key: 'code', slot: 'f7', type: 'text', targetId: null };
    const code = { key: 'code', slot: 'f1', type: 'text', targetId: null, next };
    const busy = { fields: [code], retiredSlots: ['f3', 'f7'] } as unknown as Entity;
    expect(await dualWrite(busy, { f1: 'a', f3: 'dropped' })).toEqual({ f1: 'a', f7: 'a' });
  });

  test('field changes of one tenant run one at a time', () =>
    retryWhenDelayed(LOCK_WAIT_MS, async () => {
      const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
      const answers = await Promise.all([
        change(name, 'f', { unique: true }),
        tenant.post(`/api/entities/${name}/fields`, { key: 'g', type: 'text', indexed: true }),
        tenant.post(`/api/entities/${name}/fields`, { key: 'g', type: 'integer' }),
        change(name, 'f', { label: 'F' }),
      ]);
      const statuses = answers.map(({ status }) => status);
      expect(statuses[0]).toBe(200);
      expect(statuses.slice(1, 3).sort()).toEqual([201, 409]);
      expect(statuses[3]).toBe(200);
      expect(await fieldOf(name, 'f')).toMatchObject({ unique: true, label: 'F' });
    }));
});

test('the connection of a call that may take minutes is not idle before its response, and has the usual limit after it', async () => {
  // In another process it cannot be observed, and Deno has no such limit.
  if (process.env.SERVICE_RUNTIME === 'deno') return;
  const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
  const hook = { entity_name: name, url: 'https://93.184.216.34/hook', event_types: ['record.created'] };
  const { id } = (await tenant.post('/api/webhooks/subscriptions', hook)).body.data;
  const limits: number[] = [];
  setsIdle(service.app, 60, (_, seconds) => limits.push(seconds));
  const calls: [TestTenant | Client, string, string, Json?][] = [
    [tenant, 'POST', `/api/entities/${name}/fields`, { key: 'g', type: 'text' }],
    [tenant, 'PATCH', `/api/entities/${name}/fields/f`, { type: 'integer' }],
    [tenant, 'DELETE', `/api/entities/${name}/fields/g`],
    [tenant, 'PATCH', `/api/entities/${name}`, { indexes: [{ fields: ['f'] }] }],
    [tenant, 'DELETE', `/api/webhooks/subscriptions/${id}`],
    [tenant, 'DELETE', `/api/entities/${name}?confirm=${name}`],
    [tenant, 'DELETE', `/api/entities/${name}`],
    [
      tenant,
      'POST',
      '/api/changes/revert',
      { entity: 'none', from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' },
    ],
    [service.admin, 'POST', '/health/schema/fix'],
  ];
  for (const [client, method, path, body] of calls) {
    const { text } = await client.request(method, path, body);
    expect([method, path, limits.splice(0), text]).toEqual([method, path, [256, 60], text]);
  }
});

describe('after a crash', () => {
  /** Creates the state after a crash during a change of field f1 to a unique integer. */
  async function interruptChange(name: string): Promise<{ schema: string; table: string }> {
    const { db } = service.app;
    const schema = schemaOf(tenant.id);
    const id = (await tenant.get(`/api/entities/${name}`)).body.data.id as string;
    const table = tableNameOf(id);
    const next = { key: 'f', slot: 'f2', type: 'integer', required: true, unique: true, indexed: false };
    await db.rows(sql`update ${identifier(schema, 'field_definitions')}
      set next = ${JSON.stringify({ ...next, targetId: null, onDelete: null, position: 1 })}::text::jsonb
      where entity_id = ${id}::uuid and slot = 'f1'`);
    await db.rows(sql`update ${identifier(schema, 'entity_definitions')}
      set version = version + 1, next_slot = 3, retired_slots = '["f2"]' where id = ${id}::uuid`);
    await db.rows(sql`update ${identifier(schema, table)} set data = data || '{"f2": 7}'`);
    const build = sql`create unique index concurrently ${identifier(`${table}_f2_unique`)}
      on ${identifier(schema, table)} (((data->'f2')::numeric))`;
    await expect(db.slow.rows(build)).rejects.toMatchObject({ code: '23505' });
    await db.rows(sql`insert into platform.definition_locks (tenant_id, holder, expires_at)
      values (${tenant.id}::uuid, platform.uuidv7(), now() - interval '1 s')`);
    await service.app.invalidations.publish('catalog', tenant.id);
    return { schema, table };
  }

  const leftIn = async ({ schema, table }: { schema: string; table: string }): Promise<Json> =>
    service.app.db.first(sql`
      select
        (select count(*) from ${identifier(schema, table)} where data ? 'f2') as stale_values,
        (select count(*) from ${identifier(schema, 'field_definitions')} where next is not null) as pending,
        (select count(*) from ${identifier(schema, 'entity_definitions')} where retired_slots <> '[]') as retired,
        (select count(*) from platform.definition_locks where tenant_id = ${tenant.id}::uuid) as locks,
        (select count(*) from pg_class where relname = ${raw(`'${table}_f2_unique'`)}) as indexes`);
  const NOTHING = { stale_values: 0, pending: 0, retired: 0, locks: 0, indexes: 0 };

  test('an interrupted change is cleaned up at the next start, and no value is lost', async () => {
    const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
    const interrupted = await interruptChange(name);
    await tenant.post(pathOf(name), { f: 'not a number' });
    expect(await cleanUpInterruptedTenants(service.app)).toBeGreaterThan(0);
    expect(await leftIn(interrupted)).toEqual(NOTHING);
    expect((await fieldOf(name, 'f')).type).toBe('text');
    expect((await tenant.post(pathOf(name), { f: 'not a number' })).status).toBe(201);
    expect(await all(name)).toHaveLength(ROWS + 1);
  });

  test('a tenant whose interrupted change cannot be cleaned up delays no other', async () => {
    const { db } = service.app;
    const broken = await service.tenant();
    await db.rows(sql`alter table ${identifier(schemaOf(broken.id), 'entity_definitions')} rename to gone`);
    await db.rows(sql`insert into platform.definition_locks (tenant_id, holder, expires_at)
      values (${broken.id}::uuid, platform.uuidv7(), now() - interval '1 s')`);
    const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
    const interrupted = await interruptChange(name);
    const logged = (): number =>
      service.logged.filter((line) => line.includes('not cleaned up yet') && line.includes(broken.slug)).length;
    expect(await cleanUpInterruptedTenants(service.app)).toBeGreaterThan(0);
    expect(await leftIn(interrupted)).toEqual(NOTHING);
    expect(logged()).toBe(1);
    // Its next turn comes later, and the same cause is logged only once.
    expect(await cleanUpInterruptedTenants(service.app)).toBe(0);
    await Bun.sleep(6_000);
    expect(await cleanUpInterruptedTenants(service.app)).toBe(0);
    expect(logged()).toBe(1);
    await db.rows(sql`alter table ${identifier(schemaOf(broken.id), 'gone')} rename to entity_definitions`);
    expect((await broken.post('/api/entities', { name: 'notes', fields: [{ key: 'f', type: 'text' }] })).status).toBe(
      201,
    );
    expect((await broken.patch('/api/entities/notes/fields/f', { required: true })).status).toBe(200);
    const locks = sql`select from platform.definition_locks where tenant_id = ${broken.id}::uuid`;
    expect(await db.rows(locks)).toHaveLength(0);
  });

  test('a killed process blocks the field changes of its tenant for about a second, one that lives until its change ends', async () => {
    const { db } = service.app;
    const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
    const holdFor = (processId: string): Promise<unknown> =>
      db.rows(sql`insert into platform.definition_locks (tenant_id, holder, expires_at)
        values (${tenant.id}::uuid, ${newOwnedId(processId)}::uuid, now() + interval '20 s')`);
    // The embedded database does not show who is connected; its own service knows that it is alone, those of tests are not.
    if (process.env.DATABASE_URL !== undefined) {
      await holdFor(newId());
      expect((await change(name, 'f', { required: true })).status).toBe(200);
    }
    await holdFor(db.id);
    expect((await change(name, 'f', { required: false })).status).toBe(409);
    expect(await cleanUpInterruptedTenants(service.app)).toBe(0);
    await db.rows(sql`delete from platform.definition_locks where tenant_id = ${tenant.id}::uuid`);
  }, 15_000);

  test('the next field change cleans up too, and the change can be repeated', async () => {
    const { name } = await filled([{ key: 'f', type: 'text' }], (i) => ({ f: `${i}` }));
    const interrupted = await interruptChange(name);
    expect((await change(name, 'f', { type: 'integer', unique: true })).status).toBe(200);
    expect(await leftIn(interrupted)).toEqual(NOTHING);
    expect((await all(name)).map(({ f }) => f).sort((a, b) => a - b)).toEqual(
      Array.from({ length: ROWS }, (_, i) => i),
    );
    expect((await tenant.post(pathOf(name), { f: 5 })).status).toBe(409);
  });
});
