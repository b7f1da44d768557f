// Upserts: single, in bulk, and by import. Each is compared with the plain operation that it becomes.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newEntity } from './support/entities.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const CSV = { 'content-type': 'text/csv' };
const entity = () =>
  newEntity(tenant, [
    { key: 'code', type: 'text', unique: true },
    { key: 'title', type: 'text', required: true },
    { key: 'n', type: 'integer', default: 7 },
  ]);
const recordsIn = async (path: string): Promise<Json[]> =>
  (await tenant.get(`${path}?sort=code&limit=100`)).body.data.items;
const valuesIn = async (path: string) => (await recordsIn(path)).map(({ code, title, n }) => [code, title, n]);

/** A client with a role's rights. */
async function clientWith(name: string, rights: Json, restriction: Json = {}): Promise<Client> {
  const role = `r${Math.random().toString(36).slice(2)}`;
  const made = await tenant.post('/api/roles', {
    name: role,
    permissions: { [name]: rights },
    entities: { [name]: restriction },
  });
  expect(made.status, made.text).toBe(201);
  const email = `${role}@example.com`;
  await tenant.post('/api/users', { email, name: role, role, password: 'a long password' });
  const login = await service.anonymous.post(
    '/api/auth/tenant/login',
    { email, password: 'a long password' },
    { 'x-tenant-id': tenant.slug },
  );
  return service.anonymous.with({ authorization: `Bearer ${login.body.data.token}` });
}

describe('POST with upsert', () => {
  test('creates with 201, and changes the given fields of the record that has the value with 200', async () => {
    const { path } = await entity();
    const made = await tenant.post(`${path}?upsert=code`, { code: 'a', title: 'A' });
    expect([made.status, made.body.data.n, made.headers.get('etag')]).toEqual([201, 7, '"1"']);
    const changed = await tenant.post(`${path}?upsert=code`, { data: { code: 'a', n: 8 } });
    expect([changed.status, changed.headers.get('etag')]).toEqual([200, '"2"']);
    expect(changed.body.data).toMatchObject({ id: made.body.data.id, title: 'A', n: 8 });
    expect((await tenant.get(`${path}/${made.body.data.id}`)).body.data).toEqual(changed.body.data);
  });

  test('takes only a unique field that the caller sees, and a value of it', async () => {
    const { name, path } = await entity();
    const refusal = async (client: Client, by: string, body: Json) =>
      (await client.post(`${path}?upsert=${by}`, body)).body.error.details;
    expect(await refusal(tenant, 'title', { title: 'A' })).toEqual([
      { path: 'upsert', message: '"title" is not a unique field' },
    ]);
    const unknown = await refusal(tenant, 'nope', { title: 'A' });
    expect(unknown).toEqual([{ path: 'upsert', message: 'unknown field "nope"' }]);
    const confined = await clientWith(name, ['read', 'create', 'update'], { excludeFields: ['code'] });
    expect(await refusal(confined, 'code', { title: 'A' })).toEqual([
      { path: 'upsert', message: 'unknown field "code"' },
    ]);
    for (const body of [{ title: 'A' }, { title: 'A', code: null }]) {
      expect(await refusal(tenant, 'code', body)).toEqual([
        { path: 'code', message: 'is required: records are found by it' },
      ]);
    }
    expect(await refusal(tenant, 'code', { code: 5, n: 'x' })).toHaveLength(3);
    expect(await recordsIn(path)).toEqual([]);
  });

  test('needs the right for its outcome, and reveals no more than a creation does about records outside the caller’s rows', async () => {
    const { name, path } = await entity();
    await tenant.post(path, { code: 'mine', title: 'M', n: 1 });
    await tenant.post(path, { code: 'theirs', title: 'T', n: 100 });
    const statusOf = async (client: Client, code: string) =>
      (await client.post(`${path}?upsert=code`, { code, title: 'new', n: 2 })).status;
    const rowFilter = 'n < 10';
    const [creator, changer, both, neither] = await Promise.all([
      clientWith(name, ['create'], { rowFilter }),
      clientWith(name, ['update'], { rowFilter }),
      clientWith(name, ['create', 'update'], { rowFilter }),
      clientWith(name, ['read', 'delete'], { rowFilter }),
    ]);
    expect([await statusOf(creator, 'mine'), await statusOf(creator, 'theirs'), await statusOf(creator, 'c1')]).toEqual(
      [403, 403, 201],
    );
    // A record that is hidden and one that does not exist are alike.
    expect([await statusOf(changer, 'mine'), await statusOf(changer, 'theirs'), await statusOf(changer, 'c2')]).toEqual(
      [200, 403, 403],
    );
    expect([await statusOf(both, 'mine'), await statusOf(both, 'theirs'), await statusOf(both, 'c2')]).toEqual([
      200, 409, 201,
    ]);
    const plain = await both.post(path, { code: 'theirs', title: 'new', n: 2 });
    const upserted = await both.post(`${path}?upsert=code`, { code: 'theirs', title: 'new', n: 2 });
    expect(upserted.body.error).toEqual({ ...plain.body.error, requestId: upserted.body.error.requestId });
    expect([await statusOf(neither, 'mine'), await statusOf(neither, 'c9')]).toEqual([403, 403]);
    expect((await neither.post(`${path}?upsert=code`, 'not json')).status).toBe(403);
    expect((await changer.post(path, 'not json')).status).toBe(403);
    const moved = await both.post(`${path}?upsert=code`, { code: 'mine', n: 50 });
    expect(moved.status).toBe(403);
  });

  test('does not tell a caller that may only create on which side of its row filter a record is', async () => {
    const { name, path } = await entity();
    const ids: string[] = [];
    for (const [code, n] of [
      ['mine', 1],
      ['theirs', 100],
    ]) {
      ids.push((await tenant.post(path, { code, title: 'T', n })).body.data.id);
    }
    const creator = await clientWith(name, ['create'], { rowFilter: 'n < 10' });
    const answers = async (code: string, id: string): Promise<string[]> => {
      const data = { code, title: 'new', n: 2 };
      const operations = [{ op: 'upsert', by: 'code', data }];
      const csv = { 'content-type': 'text/csv' };
      const all = [
        await creator.post(`${path}?upsert=code`, data),
        await creator.post(`${path}?upsert=code&dryRun=true`, data),
        // For an invalid body too, and for a body that is valid only for a change.
        await creator.post(`${path}?upsert=code`, { code, n: 'x' }),
        await creator.post(`${path}?upsert=code`, { code }),
        await creator.post(`${path}?upsert=code`, data, { 'if-match': '"1"' }),
        await creator.post(`${path}?upsert=code`, data, { 'if-match': '"9"' }),
        await creator.post(`${path}/bulk`, { operations }),
        await creator.post(`${path}/bulk`, { operations, atomic: false }),
        await creator.request('POST', `${path}/import?upsert=code`, `code,title,n\n${code},new,2`, csv),
        await creator.request('POST', `${path}/import?upsert=code&dryRun=true`, `code,title,n\n${code},new,2`, csv),
        await creator.request('POST', `${path}/import?upsert=id&ids=keep`, `id,title,n\n${id},new,2`, csv),
      ];
      return all.map(
        ({ status, text }) =>
          `${status} ${text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'id').replaceAll(code, 'code')}`,
      );
    };
    const [mine, theirs] = [await answers('mine', ids[0] as string), await answers('theirs', ids[1] as string)];
    expect(theirs).toEqual(mine);
    expect(mine[0]).toStartWith('403 ');
    expect(await recordsIn(path)).toHaveLength(2);
  });

  test('with If-Match it only changes: 412 for another version, and for none', async () => {
    const { path } = await entity();
    await tenant.post(path, { code: 'a', title: 'A' });
    const upsert = (code: string, etag: string) =>
      tenant.post(`${path}?upsert=code`, { code, title: 'B' }, { 'if-match': etag });
    expect((await upsert('a', '"1"')).status).toBe(200);
    expect((await upsert('a', '"1"')).status).toBe(412);
    expect((await upsert('b', '"1"')).status).toBe(412);
    expect(await recordsIn(path)).toHaveLength(1);
  });

  test('a repetition with the same Idempotency-Key gets the first answer; without upsert it is another request', async () => {
    const { path } = await entity();
    const body = { code: 'a', title: 'A' };
    const key = { 'idempotency-key': 'k1' };
    const first = await tenant.post(`${path}?upsert=code`, body, key);
    const again = await tenant.post(`${path}?upsert=code`, body, key);
    expect([first.status, again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 201, 'true']);
    expect(again.body).toEqual(first.body);
    expect((await tenant.post(path, body, key)).status).toBe(409);
    const changed = await tenant.post(`${path}?upsert=code`, body, { 'idempotency-key': 'k2' });
    expect([changed.status, changed.headers.get('etag')]).toEqual([200, '"2"']);
  });

  test('of 20 writers of one value one creates the record, and the others change it', async () => {
    const { path } = await entity();
    const writers = Array.from({ length: 20 }, (_, n) => n);
    const single = await Promise.all(
      writers.map((n) => tenant.post(`${path}?upsert=code`, { code: 'one', title: `${n}`, n })),
    );
    expect(single.map(({ status }) => status).toSorted()).toEqual([...writers.slice(1).map(() => 200), 201]);
    const [record] = await recordsIn(path);
    expect((await tenant.get(`${path}/${record.id}`)).headers.get('etag')).toBe('"20"');
    const bulk = await Promise.all(
      writers.map((n) => {
        const upsert = (code: string) => ({ op: 'upsert', by: 'code', data: { code, title: `${n}` } });
        const operations = n % 2 ? [upsert('two'), upsert('three')] : [upsert('three'), upsert('two')];
        return tenant.post(`${path}/bulk`, { atomic: n % 4 < 2, operations });
      }),
    );
    const outcomes = bulk.flatMap(({ body }) => body.data.results.map(({ outcome }: Json) => outcome));
    expect(outcomes.filter((outcome) => outcome === 'created')).toHaveLength(2);
    expect(outcomes.filter((outcome) => outcome === 'updated')).toHaveLength(38);
    expect(await recordsIn(path)).toHaveLength(3);
  });

  test('rules, events and history are those of its outcome', async () => {
    const { name, path } = await entity();
    const rule = (trigger: string, action: Json, condition: string | null = null) =>
      tenant.post('/api/rules', { name: trigger, entity: name, trigger, action, ...(condition ? { condition } : {}) });
    await rule('before_create', { type: 'set', values: { n: 1 } });
    await rule('before_update', { type: 'reject', message: 'closed' }, '$old.title = "closed"');
    const { nextCursor } = (await tenant.get('/api/changes')).body.data;
    const upsert = (body: Json) => tenant.post(`${path}?upsert=code`, body);
    const id = (await upsert({ code: 'a', title: 'open' })).body.data.id;
    await upsert({ code: 'a', title: 'closed' });
    expect((await upsert({ code: 'a', title: 'open' })).body.error).toMatchObject({
      code: 'BUSINESS_RULE_ERROR',
      message: 'closed',
    });
    const { items } = (await tenant.get(`/api/changes?since=${encodeURIComponent(nextCursor)}`)).body.data;
    expect(items.map(({ event, version, data }: Json) => [event, version, data.n])).toEqual([
      ['record.created', 1, 1],
      ['record.updated', 2, 1],
    ]);
    const history = (await tenant.get(`${path}/${id}/history`)).body.data.items;
    expect(history.map(({ event }: Json) => event)).toEqual(['record.updated', 'record.created']);
  });
});

describe('bulk upserts', () => {
  const upsert = (data: Json, further: Json = {}) => ({ op: 'upsert', by: 'code', data, ...further });

  test('create and change in one request, in order, also one value twice', async () => {
    const { path } = await entity();
    await tenant.post(path, { code: 'b', title: 'B' });
    const answer = await tenant.post(`${path}/bulk`, {
      operations: [
        upsert({ code: 'a', title: 'A' }),
        upsert({ code: 'b', n: 1 }),
        upsert({ code: 'a', n: 2 }),
        upsert({ code: 'c', title: 'C' }),
        upsert({ code: 'a', n: 3 }),
      ],
    });
    expect(answer.status, answer.text).toBe(200);
    const { results } = answer.body.data;
    expect(results.map(({ op, outcome, etag }: Json) => [op, outcome, etag])).toEqual([
      ['upsert', 'created', '"1"'],
      ['upsert', 'updated', '"2"'],
      ['upsert', 'updated', '"2"'],
      ['upsert', 'created', '"1"'],
      ['upsert', 'updated', '"3"'],
    ]);
    expect(results.every(({ id, data }: Json) => id === data.id)).toBe(true);
    expect(await valuesIn(path)).toEqual([
      ['a', 'A', 3],
      ['b', 'B', 1],
      ['c', 'C', 7],
    ]);
  });

  test('all or nothing, every faulty one is named and nothing is written', async () => {
    const { path } = await entity();
    await tenant.post(path, { code: 'b', title: 'B' });
    const answer = await tenant.post(`${path}/bulk`, {
      operations: [
        upsert({ code: 'a', title: 'A' }),
        upsert({ title: 'no code' }),
        upsert({ code: 'new' }),
        upsert({ code: 'b', n: 'x' }),
        upsert({ code: 'z', title: 'Z' }, { etag: '"1"' }),
      ],
    });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual([
      'operations.1.data.code',
      'operations.2.data.title',
      'operations.3.data.n',
      'operations.4',
    ]);
    const shapes = await tenant.post(`${path}/bulk`, {
      operations: [
        { op: 'upsert', data: {} },
        { op: 'upsert', by: 'title', data: {} },
        { op: 'upsert', by: 'code', id: 'x', data: {} },
      ],
    });
    expect(shapes.body.error.details.map(({ path }: Json) => path)).toEqual(['operations.0.by', 'operations.2.id']);
    const by = await tenant.post(`${path}/bulk`, {
      operations: [upsert({ code: 'a', title: 'A' }), upsert({}, { by: 'title' })],
    });
    expect(by.body.error.details).toEqual([{ path: 'operations.1.by', message: '"title" is not a unique field' }]);
    expect(await valuesIn(path)).toEqual([['b', 'B', 7]]);
  });

  test('each by itself, an invalid one has its own error', async () => {
    const { path } = await entity();
    const answer = await tenant.post(`${path}/bulk`, {
      atomic: false,
      operations: [
        upsert({ code: 'a', title: 'A' }),
        upsert({ title: 'x' }),
        upsert({}, { by: 'nope' }),
        upsert({ code: 'a', n: 9 }),
        upsert({ code: 'a', n: 10 }, { etag: '"1"' }),
      ],
    });
    expect(answer.body.data.results.map(({ outcome, error }: Json) => outcome ?? error.code)).toEqual([
      'created',
      'VALIDATION_ERROR',
      'VALIDATION_ERROR',
      'updated',
      'PRECONDITION_FAILED',
    ]);
    expect(await valuesIn(path)).toEqual([['a', 'A', 9]]);
  });

  test('equal values count as one, however they are written', async () => {
    const { path } = await newEntity(tenant, [
      { key: 'price', type: 'decimal', unique: true },
      { key: 'n', type: 'integer' },
    ]);
    const operations = ['1.50', '1.5', '+01.500', '10', '10.0'].map((price, n) => ({
      op: 'upsert',
      by: 'price',
      data: { price, n },
    }));
    const answer = await tenant.post(`${path}/bulk`, { operations });
    expect(answer.status, answer.text).toBe(200);
    expect((await tenant.get(path)).body.data.items.map(({ price, n }: Json) => [price, n])).toEqual([
      ['10.0', 4],
      ['1.500', 2],
    ]);
  });

  test('another unique value that is taken is a conflict, of a new record and of a changed one', async () => {
    const { path } = await newEntity(tenant, [
      { key: 'code', type: 'text', unique: true },
      { key: 'email', type: 'email', unique: true },
    ]);
    await tenant.post(path, { code: 'a', email: 'a@example.com' });
    await tenant.post(path, { code: 'b', email: 'b@example.com' });
    const { results } = (
      await tenant.post(`${path}/bulk`, {
        atomic: false,
        operations: [
          upsert({ code: 'c', email: 'a@example.com' }),
          upsert({ code: 'b', email: 'a@example.com' }),
          upsert({ code: 'd', email: 'd@example.com' }),
        ],
      })
    ).body.data;
    expect(results.map(({ outcome, error }: Json) => outcome ?? error.code)).toEqual([
      'CONFLICT',
      'CONFLICT',
      'created',
    ]);
    expect(results[0].error.details).toEqual([{ path: 'email', message: 'already exists' }]);
  });
});

describe('import with upsert', () => {
  test('counts what it creates and what it changes; the second time it changes all', async () => {
    const { path } = await entity();
    await tenant.post(path, { code: 'c3', title: 'old', n: 1 });
    const lines = Array.from({ length: 1_200 }, (_, i) => `c${i},T${i}`);
    const file = ['code,title', ...lines, 'c0,again', ',no code'].join('\n');
    const first = await tenant.post(`${path}/import?upsert=code`, file, CSV);
    expect(first.body.data).toMatchObject({ created: 1_199, updated: 2, refused: 1 });
    expect(first.body.data.errors).toEqual([{ line: 1_203, message: 'code: is required: records are found by it' }]);
    const second = await tenant.post(`${path}/import?upsert=code`, file, CSV);
    expect(second.body.data).toMatchObject({ created: 0, updated: 1_201, refused: 1 });
    const { items, total } = (await tenant.get(`${path}?filters=code in ("c0", "c3")&sort=code`)).body.data;
    expect(items.map(({ title, n }: Json) => [title, n])).toEqual([
      ['again', 7],
      ['T3', 1],
    ]);
    expect(total).toBe(2);
  });

  test('a field that is not unique is refused before anything is read', async () => {
    const { path } = await entity();
    const answer = await tenant.post(`${path}/import?upsert=title`, 'title\nA\n', CSV);
    expect([answer.status, answer.body.error.details[0].path]).toEqual([400, 'upsert']);
  });
});
