// Bulk requests over HTTP; the restrictions of a role are tested on the operation, without HTTP.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TenantCaller } from '../src/access/caller.ts';
import { type Envelope, responseOf } from '../src/http/reply.ts';
import { bulkEach } from '../src/records/batch/bulk.ts';
import type { BulkResponse } from '../src/records/batch/bulk-request.ts';
import { userCaller } from './support/callers.ts';
import { createEntity, fields, newEntity } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await createEntity(tenant, 'owner', fields('title text'));
});
afterAll(async () => service.stop());

/** An entity with a unique code, a number and a relation. */
const entity = () =>
  newEntity(tenant, [
    { key: 'code', type: 'text', unique: true },
    { key: 'n', type: 'integer' },
    { key: 'owner', type: 'relation', entity: 'owner' },
  ]);
const create = (data: Json) => ({ op: 'create', data });
const countOf = async (path: string): Promise<number> => (await tenant.get(path)).body.data.total;

describe('bulk, all or nothing', () => {
  test('operations of every kind take effect in order, and each has its result', async () => {
    const { path } = await entity();
    const first = await tenant.post(`${path}/bulk`, {
      operations: [create({ code: 'a' }), create({ code: 'b', n: 1 })],
    });
    expect(first.status).toBe(200);
    expect(first.body.data).toMatchObject({ succeeded: 2, failed: 0 });
    const [a, b] = first.body.data.results.map(({ id }: Json) => id);
    const operations = [
      { op: 'update', id: a, data: { n: 5 } },
      { op: 'update', id: a, data: { n: 6 } },
      { op: 'delete', id: b },
      create({ code: 'b' }),
    ];
    const second = await tenant.post(`${path}/bulk`, { operations });
    expect(second.body.data.results.map(({ index, op, success }: Json) => [index, op, success])).toEqual([
      [0, 'update', true],
      [1, 'update', true],
      [2, 'delete', true],
      [3, 'create', true],
    ]);
    expect((await tenant.get(`${path}/${a}`)).body.data).toEqual(second.body.data.results[1].data);
    expect((await tenant.get(`${path}/${a}`)).body.data.n).toBe(6);
    expect((await tenant.get(`${path}/${b}`)).status).toBe(404);
    expect(await countOf(path)).toBe(2);
  });

  test('one invalid operation rolls all back, and the 400 names every invalid one', async () => {
    const { path } = await entity();
    await tenant.post(path, { code: 'taken' });
    const faulty = await tenant.post(`${path}/bulk`, {
      operations: [
        create({ code: 'x' }),
        create({ code: 5, zz: 1 }),
        { op: 'delete', id: 'nothing' },
        create({ owner: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f' }),
      ],
    });
    expect(faulty.status).toBe(400);
    expect(faulty.body.error.details.map(({ path }: Json) => path).sort()).toEqual([
      'operations.1.data.code',
      'operations.1.data.zz',
      'operations.2',
      'operations.3.data.owner',
    ]);
    const duplicate = await tenant.post(`${path}/bulk`, {
      operations: [create({ code: 'y' }), create({ code: 'z' }), create({ code: 'taken' })],
    });
    expect(duplicate.status).toBe(400);
    expect(duplicate.body.error.details).toEqual([{ path: 'operations.2.data.code', message: 'already exists' }]);
    expect(await countOf(path)).toBe(1);
  });

  test('a unique value that an operation frees may be used by a later one', async () => {
    const { path } = await entity();
    const made = await tenant.post(`${path}/bulk`, { operations: [create({ code: 'p' }), create({ code: 'q' })] });
    const [p, q] = made.body.data.results.map(({ id }: Json) => id);
    const moved = await tenant.post(`${path}/bulk`, {
      operations: [
        { op: 'update', id: q, data: { code: 'r' } },
        { op: 'update', id: p, data: { code: 'q' } },
      ],
    });
    expect(moved.status).toBe(200);
    expect((await tenant.get(`${path}?sort=code`)).body.data.items.map(({ code }: Json) => code)).toEqual(['q', 'r']);
  });

  test('a request may contain 1,000 operations, and no more', async () => {
    const { path } = await entity();
    const operations = Array.from({ length: 1_001 }, (_, i) => create({ code: `c${i}`, n: i }));
    expect((await tenant.post(`${path}/bulk`, { operations })).status).toBe(400);
    const all = await tenant.post(`${path}/bulk`, { operations: operations.slice(0, 1_000) });
    expect(all.body.data.succeeded).toBe(1_000);
    expect(await countOf(path)).toBe(1_000);
  });

  test('a malformed request gets every problem and changes nothing', async () => {
    const { path } = await entity();
    const answer = await tenant.post(`${path}/bulk`, {
      operations: [
        1,
        { op: 'merge' },
        { op: 'update', data: {} },
        { op: 'delete', id: 'x', data: {} },
        { op: 'create' },
        [],
        { op: 'merge', zz: 1 },
      ],
      atomic: 'yes',
    });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual([
      'atomic',
      'operations.0',
      'operations.1.op',
      'operations.2.id',
      'operations.3.data',
      'operations.4.data',
      'operations.5',
      'operations.6.op',
      'operations.6.zz',
    ]);
    expect((await tenant.post(`${path}/bulk`, { operations: [] })).status).toBe(400);
    expect((await tenant.post('/api/entities/none/records/bulk', { operations: [create({})] })).status).toBe(404);
  });

  test('a repetition with the same Idempotency-Key gets the first answer', async () => {
    const { path } = await entity();
    const body = { operations: [create({ code: 'once' })] };
    const first = await tenant.post(`${path}/bulk`, body, { 'idempotency-key': 'k1' });
    const again = await tenant.post(`${path}/bulk`, body, { 'idempotency-key': 'k1' });
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const each = await tenant.post(`${path}/bulk`, { ...body, atomic: false }, { 'idempotency-key': 'k2' });
    expect(each.status).toBe(400);
    expect(await countOf(path)).toBe(1);
  });

  test('concurrent requests that change the same records all succeed', async () => {
    const { path } = await entity();
    const operations = Array.from({ length: 20 }, (_, i) => create({ code: `k${i}` }));
    const made = await tenant.post(`${path}/bulk`, { operations });
    const ids: string[] = made.body.data.results.map(({ id }: Json) => id);
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, turn) =>
        tenant.post(`${path}/bulk`, {
          operations: (turn % 2 === 0 ? ids : ids.toReversed()).map((id) => ({ op: 'update', id, data: { n: turn } })),
        }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(200));
    const values = (await tenant.get(path)).body.data.items.map(({ n }: Json) => n);
    expect(new Set(values).size).toBe(1);
  });
});

describe('bulk with atomic: false', () => {
  test('valid operations take effect, and the others have their errors', async () => {
    const { path } = await entity();
    const { id } = (await tenant.post(path, { code: 'taken' })).body.data;
    const answer = await tenant.post(`${path}/bulk`, {
      atomic: false,
      operations: [
        create({ code: 'taken' }),
        create({ code: 'new' }),
        create({ code: 'new' }),
        create({ code: 7 }),
        { op: 'update', id, data: { code: 'new' } },
        { op: 'update', id, data: { n: 1 } },
        { op: 'delete', id: 'nothing' },
      ],
    });
    expect(answer.status).toBe(200);
    expect(answer.body.data.results.map(({ success, error }: Json) => error?.code ?? success)).toEqual([
      'CONFLICT',
      true,
      'CONFLICT',
      'VALIDATION_ERROR',
      'CONFLICT',
      true,
      'NOT_FOUND',
    ]);
    expect(answer.body.data).toMatchObject({ succeeded: 2, failed: 5 });
    expect((await tenant.get(`${path}/${id}`)).body.data).toMatchObject({ code: 'taken', n: 1 });
  });

  test('a missing id or missing data fails one operation, an unknown op the whole request', async () => {
    const { path } = await entity();
    const operations = [create({ code: 'one' }), { op: 'update', data: { n: 1 } }, { op: 'delete' }, { op: 'create' }];
    const { body } = await tenant.post(`${path}/bulk`, { atomic: false, operations });
    expect(body.data).toMatchObject({ succeeded: 1, failed: 3 });
    expect(body.data.results.map(({ op, id, error }: Json) => [op, id === null, error?.code])).toEqual([
      ['create', false, undefined],
      ['update', true, 'VALIDATION_ERROR'],
      ['delete', true, 'VALIDATION_ERROR'],
      ['create', true, 'VALIDATION_ERROR'],
    ]);
    expect(body.data.results[1].error.details).toEqual([{ path: 'id', message: 'must be the id of a record' }]);
    const numbered = await tenant.post(`${path}/bulk`, '{"atomic":false,"operations":[{"op":"delete","id":7}]}');
    expect(numbered.body.data.results).toMatchObject([{ op: 'delete', id: null, success: false }]);
    const refused = await tenant.post(`${path}/bulk`, { atomic: false, operations: [...operations, { op: 'merge' }] });
    expect(refused.body.error.details).toMatchObject([{ path: 'operations.4.op' }]);
    expect(await countOf(path)).toBe(1);
  });

  test('permissions, hidden fields and row filters apply to each operation', async () => {
    const { name, path } = await entity();
    const mine = (await tenant.post(path, { code: 'mine', n: 1 })).body.data.id;
    const theirs = (await tenant.post(path, { code: 'theirs', n: 100 })).body.data.id;
    const caller = await confined(name);
    const operations = [
      { op: 'update' as const, id: mine, body: { n: 2 } },
      { op: 'update' as const, id: mine, body: { n: 99 } },
      { op: 'update' as const, id: theirs, body: { n: 3 } },
      { op: 'update' as const, id: mine, body: { code: 'hidden' } },
      { op: 'create' as const, id: '', body: { n: 3 } },
      { op: 'create' as const, id: '', body: { n: 50 } },
      { op: 'delete' as const, id: mine, body: {} },
    ].map((operation, index) => ({ ...operation, index, by: '' }));
    const response = responseOf(await bulkEach(service.app, caller, name, operations));
    const { results } = ((await response.json()) as Envelope<BulkResponse>).data;
    expect(results.map(({ success, error }) => error?.code ?? success)).toEqual([
      true,
      'FORBIDDEN',
      'NOT_FOUND',
      'VALIDATION_ERROR',
      true,
      'FORBIDDEN',
      'FORBIDDEN',
    ]);
    expect(results[0]?.data).not.toHaveProperty('code');
  });
});

/** A caller that may not delete, and sees neither `code` nor rows with n of 10 or more. */
const confined = (entityName: string): Promise<TenantCaller> =>
  userCaller(service, tenant, {
    isUnlimited: false,
    permissions: { [entityName]: ['read', 'create', 'update'] },
    restrictions: { [entityName]: { excludeFields: ['code'], rowFilter: 'n < 10' } },
  });

describe('operations with an etag', () => {
  const lost = { code: 'PRECONDITION_FAILED', message: 'the record has changed since the version in its etag' };
  const three = async () => {
    const { path } = await entity();
    const made = await tenant.post(`${path}/bulk`, {
      operations: [create({ n: 1 }), create({ n: 2 }), create({ n: 3 })],
    });
    const ids: string[] = made.body.data.results.map(({ id }: Json) => id);
    await tenant.patch(`${path}/${ids[1]}`, { n: 20 });
    return { path, ids };
  };
  const valuesIn = async (path: string) => (await tenant.get(`${path}?sort=n`)).body.data.items.map(({ n }: Json) => n);

  test('take effect when the record still has it, both all or nothing and each by itself', async () => {
    const { path, ids } = await three();
    const { etags, items } = (await tenant.get(`${path}?with=etags`)).body.data;
    const operations = items.map(({ id }: Json, i: number) => ({ op: 'update', id, etag: etags[i], data: { n: 9 } }));
    const written = (await tenant.post(`${path}/bulk`, { operations })).body.data;
    expect(written.succeeded).toBe(3);
    const now = (await tenant.get(`${path}?with=etags`)).body.data.etags;
    expect(written.results.map(({ etag }: Json) => etag)).toEqual(now);
    const second = [
      { op: 'delete', id: ids[0], etag: '"2"' },
      { op: 'update', id: ids[1], etag: '"7", "3"', data: { n: 8 } },
    ];
    const each = await tenant.post(`${path}/bulk`, { atomic: false, operations: second });
    expect(each.body.data.succeeded).toBe(2);
    expect(await valuesIn(path)).toEqual([8, 9]);
  });

  test('a lost race is PRECONDITION_FAILED in its result', async () => {
    const { path, ids } = await three();
    const operations = [
      { op: 'update', id: ids[0], etag: '"1"', data: { n: 5 } },
      { op: 'update', id: ids[1], etag: '"1"', data: { n: 6 } },
      { op: 'delete', id: ids[2], etag: 'W/"1"' },
    ];
    const { body, status } = await tenant.post(`${path}/bulk`, { atomic: false, operations });
    expect([status, body.data.succeeded, body.data.failed]).toEqual([200, 1, 2]);
    expect(body.data.results.map(({ error }: Json) => error)).toEqual([undefined, lost, lost]);
    expect(await valuesIn(path)).toEqual([3, 5, 20]);
  });

  test('all or nothing, lost races alone are a 412 that names each; nothing is written', async () => {
    const { path, ids } = await three();
    const operations = [
      { op: 'update', id: ids[0], etag: '"1"', data: { n: 5 } },
      { op: 'update', id: ids[1], etag: '"1"', data: { n: 6 } },
      { op: 'delete', id: ids[2], etag: '"4"' },
    ];
    const { status, body } = await tenant.post(`${path}/bulk`, { operations });
    expect([status, body.error.code]).toEqual([412, 'PRECONDITION_FAILED']);
    expect(body.error.details).toEqual([1, 2].map((i) => ({ path: `operations.${i}`, ...lost })));
    const mixed = await tenant.post(`${path}/bulk`, { operations: [...operations, create({ n: 'x' })] });
    expect([mixed.status, mixed.body.error.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(mixed.body.error.details.map(({ path, code }: Json) => [path, code])).toEqual([
      ['operations.1', 'PRECONDITION_FAILED'],
      ['operations.2', 'PRECONDITION_FAILED'],
      ['operations.3.data.n', undefined],
    ]);
    expect(await valuesIn(path)).toEqual([1, 3, 20]);
  });

  test('one that is not a text, or on a creation, is a 400', async () => {
    const { path, ids } = await three();
    const operations = [
      { op: 'update', id: ids[0], etag: 1, data: {} },
      { op: 'create', etag: '"1"', data: {} },
    ];
    const { status, body } = await tenant.post(`${path}/bulk`, { operations });
    expect(status).toBe(400);
    expect(body.error.details.map(({ path }: Json) => path)).toEqual(['operations.0.etag', 'operations.1.etag']);
    const each = await tenant.post(`${path}/bulk`, { atomic: false, operations: operations.slice(1) });
    expect(each.body.data.results.map(({ error }: Json) => error.details[0].path)).toEqual(['etag']);
  });

  test('concurrent calls with the same etag: one wins', async () => {
    const { path, ids } = await three();
    const call = (n: number, atomic: boolean) =>
      tenant.post(`${path}/bulk`, { atomic, operations: [{ op: 'update', id: ids[0], etag: '"1"', data: { n } }] });
    const answers = await Promise.all([call(5, true), call(6, true), call(7, false), call(8, false)]);
    const won = answers.filter(({ status, body }) => status === 200 && body.data.succeeded === 1);
    expect(won).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 412).length).toBeLessThanOrEqual(2);
    expect((await tenant.get(`${path}/${ids[0]}`)).headers.get('etag')).toBe('"2"');
  });
});
