// Creations that one caller sends at once: some share a statement, and each has the answer that it would have alone.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

const dataOf = ({ status, body, text }: { status: number; body: Json; text: string }): Json => {
  if (status !== 201) throw new Error(text);
  return body.data;
};

async function eventsOf(entity: string) {
  return service.app.db.rows<{ recordId: string; xid: string; createdAt: string }>(sql`
    select record_id as "recordId", xid::text, created_at as "createdAt" from platform.events
    where tenant_id = ${tenant.id}::uuid and entity = ${entity} and type = 'record.created'`);
}

describe('creations at once', () => {
  test('each is answered with its own values and stored so, counted once, with one event; some share a transaction', async () => {
    const path = await createEntity(tenant, 'together', fields('n integer', 'text text', 'more json'));
    const values = times(60, (n) => ({
      n,
      text: `é \u2028 "${n}" 日本語 😀`,
      more: { big: 1e300, list: [n, null, true] },
    }));
    const created = (await Promise.all(values.map((body) => tenant.post(path, body)))).map(dataOf);
    expect(created.map(({ n, text, more }) => ({ n, text, more }))).toEqual(values);
    for (const record of created) expect((await tenant.get(`${path}/${record.id}`)).body.data).toEqual(record);
    expect((await tenant.get(path)).body.data.total).toBe(60);
    const events = await eventsOf('together');
    expect(events.map(({ recordId }) => recordId).sort()).toEqual(created.map(({ id }) => id).sort());
    expect(new Set(events.map(({ xid }) => xid)).size).toBeLessThan(60);
    for (const { recordId, createdAt } of events)
      expect(created.find(({ id }) => id === recordId)?.createdAt).toBe(createdAt);
    expect((await tenant.get(`${path}?search=日本語`)).body.data.total).toBe(60);
  });

  test('one that is refused, for its values or for a record that it points at, fails alone', async () => {
    const target = await createEntity(tenant, 'pointed_at', fields('n integer'));
    const { id } = await createRecord(tenant, target, { n: 1 });
    const path = await createEntity(tenant, 'pointing', [
      { key: 'n', type: 'integer', required: true },
      { key: 'to', type: 'relation', entity: 'pointed_at', onDelete: 'set_null' },
    ]);
    const missing = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';
    const body = (n: number): object => (n % 7 === 1 ? { n, to: missing } : n % 7 === 2 ? { n: 'x' } : { n, to: id });
    const answers = await Promise.all(times(42, (n) => tenant.post(path, body(n))));
    expect(answers.map(({ status }) => status)).toEqual(times(42, (n) => (n % 7 === 1 || n % 7 === 2 ? 400 : 201)));
    expect(answers[1]?.body.error.details).toEqual([{ path: 'to', message: `no such record: ${missing}` }]);
    expect(answers[2]?.body.error.details).toEqual([
      { path: 'n', message: 'must be a whole number of at most 2^53 - 1' },
    ]);
    expect((await tenant.get(path)).body.data.total).toBe(30);
  });

  test('large records of many fields are stored as they were sent', async () => {
    const path = await createEntity(
      tenant,
      'large',
      times(150, (i) => ({ key: `f${i}`, type: i === 0 ? 'text' : 'decimal' })),
    );
    const values = times(5, (n) => ({ f0: `${n} ${'ü"\\ x'.repeat(110_000)}`, f149: `9007199254740993.${n}1` }));
    const created = (await Promise.all(values.map((body) => tenant.post(path, body)))).map(dataOf);
    expect(created.every(({ f0, f149 }, n) => f0 === values[n]?.f0 && f149 === values[n]?.f149)).toBe(true);
    for (const { id, f0 } of created)
      expect((await tenant.get(`${path}/${id}?fields=f0`)).body.data.f0 === f0).toBe(true);
  });

  test('while a field is added, none is lost and none is refused', async () => {
    const path = await createEntity(tenant, 'growing', fields('n integer'));
    const writes = times(40, (n) => tenant.post(path, { n }));
    const added = tenant.post('/api/entities/growing/fields', { key: 'm', type: 'text', default: 'x' });
    const created = (await Promise.all(writes)).map(dataOf);
    expect((await added).status).toBe(201);
    expect(new Set(created.map(({ n }) => n)).size).toBe(40);
    expect((await tenant.get(path)).body.data.total).toBe(40);
  });

  test('those of two keys have the createdBy of their own', async () => {
    const path = await createEntity(tenant, 'by_whom', fields('n integer'));
    const { key } = (await tenant.post('/api/keys', { label: 'other' })).body.data;
    const headers = (n: number): Record<string, string> => (n % 2 === 0 ? {} : { 'x-api-key': key });
    const created = (await Promise.all(times(40, (n) => tenant.post(path, { n }, headers(n))))).map(dataOf);
    const [first, second] = created.map(({ createdBy }) => createdBy);
    expect(first).not.toBe(second);
    expect(created.map(({ createdBy }) => createdBy)).toEqual(times(40, (n) => (n % 2 === 0 ? first : second)));
  });
});
