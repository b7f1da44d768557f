import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { addRole, bearer, changeRole, userToken } from './support/credentials.ts';
import { newEntity } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const entity = async (definitions: object[]): Promise<string> => (await newEntity(tenant, definitions)).path;

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const MILLISECONDS = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const SOME_ID = '0190c0de-0000-7000-8000-000000000001';

interface Case {
  type: string;
  rules?: object;
  accepted: [given: unknown, stored: unknown][];
  refused: unknown[];
}

const same = (...values: unknown[]): [unknown, unknown][] => values.map((value) => [value, value]);

const CASES: Case[] = [
  {
    type: 'text',
    accepted: same('', ' a ', 'O\'Reilly "x" \\ % _', '日本語 😀 é', 'a\nb\tc', 'x'.repeat(5_000)),
    refused: [1, true, [], {}, 'a\0b', '\ud800'],
  },
  {
    type: 'text',
    rules: { minLength: 2, maxLength: 3 },
    accepted: same('ab', '😀😀😀', 'é日本'),
    refused: ['a', 'abcd', '', '😀'],
  },
  { type: 'text', rules: { pattern: '^[A-Z]{2}-[0-9]+$' }, accepted: same('AB-1'), refused: ['ab-1', 'AB-', 'xAB-1'] },
  { type: 'text', rules: { indexed: true }, accepted: same('x'.repeat(640)), refused: ['x'.repeat(641)] },
  {
    type: 'email',
    accepted: same('a@b.co', 'first.last+tag@sub.example.org'),
    refused: ['a', 'a@b', '@b.co', 'a b@c.de', 'a@b.co,c@d.ef', 1],
  },
  {
    type: 'url',
    accepted: same('https://example.org/a?b=c#d', 'http://localhost:3000'),
    refused: ['example.org', 'ftp://a.b', 'javascript:alert(1)', 'https://', 'https://a b', 1],
  },
  {
    type: 'uuid',
    accepted: [...same(SOME_ID), [SOME_ID.toUpperCase(), SOME_ID]],
    refused: ['x', `${SOME_ID}0`, `{${SOME_ID}}`, 1],
  },
  {
    type: 'integer',
    accepted: [...same(0, -1, 9_007_199_254_740_991, -9_007_199_254_740_991), [1.0, 1]],
    refused: [1.5, '1', 9_007_199_254_740_992, 1e300, true],
  },
  { type: 'integer', rules: { min: -2, max: 5 }, accepted: same(-2, 5), refused: [-3, 6] },
  {
    type: 'number',
    accepted: same(0, -1.5, 1e-300, 1.7976931348623157e308, 0.1),
    refused: ['1', [], {}, true],
  },
  { type: 'number', rules: { min: 0.5, max: 1.5 }, accepted: same(0.5, 1.5), refused: [0.49, 1.51] },
  {
    type: 'decimal',
    accepted: [
      ['1.10', '1.10'],
      ['-0', '0'],
      ['+007.50', '7.50'],
      [12.5, '12.5'],
      ['123456789012345678901234567890.123456789', '123456789012345678901234567890.123456789'],
    ],
    refused: ['1e5', 'abc', '', '.5', '1.', 'NaN', 'Infinity', true, '9'.repeat(1_001)],
  },
  {
    type: 'decimal',
    rules: { min: '0.01', max: '99.99' },
    accepted: same('0.01', '99.99', '99.9900'),
    refused: ['0.009', '99.991'],
  },
  { type: 'boolean', accepted: same(true, false), refused: ['true', 0, 1, 'yes', []] },
  {
    type: 'date',
    accepted: same('2024-02-29', '0001-01-01', '9999-12-31'),
    refused: ['2024-02-30', '2023-02-29', '0000-01-01', '2024-2-1', '2024-02-01T00:00:00Z', 20240201, '2024-13-01'],
  },
  {
    type: 'datetime',
    accepted: [
      ['2024-02-29T12:00:00Z', '2024-02-29T12:00:00.000Z'],
      ['2024-01-01T00:30:00+02:00', '2023-12-31T22:30:00.000Z'],
      ['2024-01-01T00:00:00.123456Z', '2024-01-01T00:00:00.123Z'],
      ['2024-01-01T10:00Z', '2024-01-01T10:00:00.000Z'],
    ],
    refused: [
      '2024-01-01',
      '2024-01-01T00:00:00',
      '2024-02-30T00:00:00Z',
      '2024-01-01T25:00:00Z',
      0,
      '2024-01-01T00:00:00+99:99',
      '9999-12-31T23:59:59-14:00',
    ],
  },
  {
    type: 'select',
    rules: { options: ['a', 'B c', "d'e"] },
    accepted: same('a', 'B c', "d'e"),
    refused: ['A', 'b c', '', 1, ['a']],
  },
  {
    type: 'multiselect',
    rules: { options: ['a', 'b', 'c'] },
    accepted: [...same([], ['c', 'a']), [['a', 'a'], ['a']]],
    refused: ['a', ['a', 'x'], [1], [null], { a: 1 }],
  },
  {
    type: 'json',
    accepted: same({ a: [1, { b: null }], constructor: 1 }, [], 'text', 0, false, [1, 'two', null]),
    refused: [],
  },
];

describe('values of each field type', () => {
  for (const { type, rules, accepted, refused } of CASES) {
    const kind = rules === undefined ? type : `${type} with ${JSON.stringify(rules)}`;
    test(`a ${kind} field stores valid values and names invalid ones`, async () => {
      const path = await entity([{ key: 'v', type, ...rules }]);
      for (const [given, stored] of accepted) {
        const created = await tenant.post(path, { v: given });
        expect([given, created.status, created.body.data?.v]).toEqual([given, 201, stored]);
        const read = await tenant.get(`${path}/${created.body.data.id}`);
        expect(read.body.data).toEqual(created.body.data);
      }
      for (const given of refused) {
        const answer = await tenant.post(path, { v: given });
        expect([given, answer.status]).toEqual([given, 400]);
        expect(answer.body.error).toMatchObject({ code: 'VALIDATION_ERROR', details: [{ path: 'v' }] });
      }
      expect((await tenant.get(path)).body.data.total).toBe(accepted.length);
    });
  }

  test('a field of any type can be omitted, is then null, and is cleared by an explicit null', async () => {
    const fields = CASES.map(({ type, rules, accepted }, i) => ({
      key: `v${i}`,
      type,
      ...rules,
      example: accepted[0]?.[0],
    }));
    const path = await entity(fields.map(({ example: _, ...field }) => field));
    const empty = await tenant.post(path, {});
    expect(empty.status).toBe(201);
    for (const { key } of fields) expect(empty.body.data[key]).toBeNull();
    const full = await tenant.post(path, Object.fromEntries(fields.map(({ key, example }) => [key, example])));
    expect(full.status).toBe(201);
    const cleared = await tenant.patch(
      `${path}/${full.body.data.id}`,
      Object.fromEntries(fields.map(({ key }) => [key, null])),
    );
    for (const { key } of fields) expect(cleared.body.data[key]).toBeNull();
  });

  test('a default replaces a missing value, and only that', async () => {
    const path = await entity([
      { key: 'a', type: 'integer', default: 7 },
      { key: 'b', type: 'boolean', default: false, required: true },
      { key: 'c', type: 'multiselect', options: ['x', 'y'], default: ['x'] },
      { key: 'd', type: 'decimal', default: '1.50' },
    ]);
    expect((await tenant.post(path, {})).body.data).toMatchObject({ a: 7, b: false, c: ['x'], d: '1.50' });
    const given = await tenant.post(path, { a: null, b: true, c: [], d: '2' });
    expect(given.body.data).toMatchObject({ a: null, b: true, c: [], d: '2' });
    expect((await tenant.post(path, { b: null })).status).toBe(400);
    const patched = await tenant.patch(`${path}/${given.body.data.id}`, { c: ['y'] });
    expect(patched.body.data).toMatchObject({ a: null, b: true, c: ['y'], d: '2' });
  });

  test('unknown fields, wrong types and missing required fields are a 400 that lists every problem', async () => {
    const path = await entity([
      { key: 'title', type: 'text', required: true },
      { key: 'count', type: 'integer' },
      { key: 'kind', type: 'select', options: ['a'], required: true },
    ]);
    const answer = await tenant.post(path, { count: 'x', nothing: 1, kind: 'b' });
    expect(answer.status).toBe(400);
    expect(answer.body.success).toBe(false);
    const paths = answer.body.error.details.map(({ path: at }: Json) => at).sort();
    expect(paths).toEqual(['count', 'kind', 'nothing', 'title']);
    expect((await tenant.get(path)).body.data.total).toBe(0);
    const made = await tenant.post(path, { title: 't', kind: 'a' });
    expect((await tenant.patch(`${path}/${made.body.data.id}`, { title: null })).status).toBe(400);
    expect((await tenant.patch(`${path}/${made.body.data.id}`, {})).status).toBe(200);
  });
});

describe('single records', () => {
  test('a record is flat: fields and system fields side by side', async () => {
    const path = await entity([{ key: 'title', type: 'text' }]);
    const { status, body, headers } = await tenant.post(path, { title: 'one' });
    expect(status).toBe(201);
    const record = body.data;
    expect(Object.keys(record).sort()).toEqual([
      'createdAt',
      'createdBy',
      'entityId',
      'id',
      'title',
      'updatedAt',
      'updatedBy',
    ]);
    expect(record.id).toMatch(UUID_V7);
    expect(record.createdAt).toMatch(MILLISECONDS);
    expect(record.updatedAt).toBe(record.createdAt);
    expect(record.createdBy).toBe(record.updatedBy);
    expect(headers.get('etag')).toBe('"1"');
    const definition = await tenant.get(path.replace('/records', ''));
    expect(record.entityId).toBe(definition.body.data.id);
  });

  test('a body whose only key is data, holding an object, is unwrapped, unless the entity has a field data', async () => {
    const path = await entity([{ key: 'title', type: 'text' }]);
    const created = await tenant.post(path, { data: { title: 'wrapped' } });
    expect(created.body.data.title).toBe('wrapped');
    const changed = await tenant.put(`${path}/${created.body.data.id}`, { data: { title: 'again' } });
    expect(changed.body.data.title).toBe('again');
    expect((await tenant.post(path, { data: { title: 'a' }, title: 'b' })).status).toBe(400);
    expect((await tenant.post(path, { data: [] })).status).toBe(400);
    expect((await tenant.post(path, { data: { data: { title: 'a' } } })).status).toBe(400);
    const other = await entity([{ key: 'data', type: 'json' }]);
    expect((await tenant.post(other, { data: { title: 1 } })).body.data.data).toEqual({ title: 1 });
  });

  test('PUT and PATCH write only the fields in the body', async () => {
    const path = await entity([
      { key: 'a', type: 'text' },
      { key: 'b', type: 'integer' },
    ]);
    const { id, createdAt, createdBy } = (await tenant.post(path, { a: 'x', b: 1 })).body.data;
    const put = await tenant.put(`${path}/${id}`, { b: 2 });
    expect(put.status).toBe(200);
    expect(put.body.data).toMatchObject({ id, a: 'x', b: 2, createdAt, createdBy });
    const patch = await tenant.patch(`${path}/${id}`, { a: 'y' });
    expect(patch.body.data).toMatchObject({ id, a: 'y', b: 2, createdAt, createdBy });
    expect(patch.body.data.updatedAt >= put.body.data.updatedAt).toBe(true);
    expect((await tenant.get(`${path}/${id}`)).body.data).toEqual(patch.body.data);
  });

  test('a change keeps the fields that it does not write, and search finds the new words', async () => {
    const path = await entity([
      { key: 'title', type: 'text' },
      { key: 'notes', type: 'text' },
      { key: 'n', type: 'integer' },
    ]);
    const { id } = (await tenant.post(path, { title: 'apple', notes: 'apple pear', n: 1 })).body.data;
    const cases: [patch: Json, record: Json, words: string][] = [
      [{ n: 2 }, { title: 'apple', notes: 'apple pear', n: 2 }, 'apple pear'],
      [{ title: 'plum' }, { title: 'plum', notes: 'apple pear', n: 2 }, 'plum apple pear'],
      [{ title: 'fig', notes: 'date' }, { title: 'fig', notes: 'date', n: 2 }, 'fig date'],
      [{ title: null, notes: 'lime' }, { title: null, notes: 'lime', n: 2 }, 'lime'],
      [{ notes: null, n: null }, { title: null, notes: null, n: null }, ''],
      [{ title: 'kiwi', notes: null, n: 3 }, { title: 'kiwi', notes: null, n: 3 }, 'kiwi'],
    ];
    for (const [patch, record, words] of cases) {
      expect((await tenant.patch(`${path}/${id}`, patch)).body.data).toMatchObject(record);
      expect((await tenant.get(`${path}/${id}`)).body.data).toMatchObject(record);
      for (const word of ['apple', 'pear', 'plum', 'fig', 'date', 'lime', 'kiwi']) {
        const { total } = (await tenant.get(`${path}?search=${word}`)).body.data;
        expect([patch, word, total]).toEqual([patch, word, words.includes(word) ? 1 : 0]);
      }
    }
  });

  test('DELETE responds with the id, and the record is gone for every method', async () => {
    const path = await entity([{ key: 'a', type: 'text' }]);
    const { id } = (await tenant.post(path, { a: 'x' })).body.data;
    const deleted = await tenant.delete(`${path}/${id}`);
    expect([deleted.status, deleted.body]).toEqual([200, { success: true, data: { id, deleted: true } }]);
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const answer = await tenant.request(method, `${path}/${id}`, method[0] === 'P' ? { a: 'y' } : undefined);
      expect([method, answer.status, answer.body.error.code]).toEqual([method, 404, 'NOT_FOUND']);
    }
    expect((await tenant.get(path)).body.data).toMatchObject({ total: 0, items: [] });
  });

  test('a malformed id, an unknown one and an unknown entity are 404', async () => {
    const path = await entity([{ key: 'a', type: 'text' }]);
    for (const id of ['x', '1', SOME_ID, `${SOME_ID}0`, '%00', '..%2f..', "'--", 'null', '%F0%9F%98%80']) {
      for (const method of ['GET', 'PATCH', 'PUT', 'DELETE']) {
        const answer = await tenant.request(method, `${path}/${id}`, method[0] === 'P' ? { a: 'y' } : undefined);
        expect([method, id, answer.status]).toEqual([method, id, 404]);
      }
    }
    for (const name of ['nothing', 'Things', '_svc_x', '%00', 'a%2fb']) {
      expect([name, (await tenant.get(`/api/entities/${name}/records`)).status]).toEqual([name, 404]);
      expect((await tenant.post(`/api/entities/${name}/records`, {})).status).toBe(404);
    }
  });

  test('an id is accepted in upper and lower case', async () => {
    const path = await entity([{ key: 'a', type: 'text' }]);
    const { id } = (await tenant.post(path, { a: 'x' })).body.data;
    expect((await tenant.get(`${path}/${id.toUpperCase()}`)).body.data.id).toBe(id);
    expect((await tenant.delete(`${path}/${id.toUpperCase()}`)).body.data.id).toBe(id);
  });

  test('reserved names and system fields cannot be written', async () => {
    const path = await entity([{ key: 'a', type: 'text' }]);
    const { id } = (await tenant.post(path, { a: 'x' })).body.data;
    for (const key of [
      'id',
      'entityId',
      'createdAt',
      'updatedAt',
      'createdBy',
      'updatedBy',
      'name',
      'tenantId',
      'role',
      'version',
    ]) {
      for (const body of [{ [key]: SOME_ID }, { a: 'y', [key]: null }, { data: { [key]: SOME_ID } }]) {
        expect([key, (await tenant.post(path, body)).status]).toEqual([key, 400]);
        expect([key, (await tenant.put(`${path}/${id}`, body)).status]).toEqual([key, 400]);
        expect([key, (await tenant.patch(`${path}/${id}`, body)).status]).toEqual([key, 400]);
      }
      const field = await tenant.post('/api/entities', {
        name: `bad_${key.toLowerCase()}`,
        fields: [{ key, type: 'text' }],
      });
      const isReserved = !['tenantId', 'role', 'version'].includes(key);
      expect([key, field.status]).toEqual([key, isReserved ? 400 : 201]);
      if (isReserved) expect(field.body.error.code).toBe('VALIDATION_ERROR');
    }
    expect((await tenant.get(`${path}/${id}`)).body.data).toMatchObject({ id, a: 'x' });
  });

  test('a duplicate in a unique field is 409, but several records may have no value', async () => {
    const path = await entity([
      { key: 'code', type: 'text', unique: true },
      { key: 'price', type: 'decimal', unique: true },
    ]);
    const first = await tenant.post(path, { code: 'a', price: '1.0' });
    const second = await tenant.post(path, { code: 'b', price: '2.0' });
    const duplicate = await tenant.post(path, { code: 'a' });
    expect([duplicate.status, duplicate.body.error.code]).toEqual([409, 'CONFLICT']);
    expect(duplicate.body.error.details).toEqual([{ path: 'code', message: 'already exists' }]);
    expect((await tenant.post(path, { price: '1.000' })).status).toBe(409);
    expect((await tenant.patch(`${path}/${second.body.data.id}`, { code: 'a' })).status).toBe(409);
    expect((await tenant.patch(`${path}/${first.body.data.id}`, { code: 'a' })).status).toBe(200);
    expect((await tenant.post(path, {})).status).toBe(201);
    expect((await tenant.post(path, {})).status).toBe(201);
    expect((await tenant.post(path, { code: 'A' })).status).toBe(201);
    expect((await tenant.get(path)).body.data.total).toBe(5);
  });
});

describe('ETag, If-Match and If-None-Match', () => {
  test('a write with If-Match succeeds for the current version only', async () => {
    const path = await entity([{ key: 'n', type: 'integer' }]);
    const made = await tenant.post(path, { n: 1 });
    const at = `${path}/${made.body.data.id}`;
    const etag = made.headers.get('etag') ?? '';
    expect((await tenant.get(at)).headers.get('etag')).toBe(etag);
    const changed = await tenant.patch(at, { n: 2 }, { 'if-match': etag });
    expect(changed.status).toBe(200);
    expect(changed.headers.get('etag')).not.toBe(etag);
    const lost = await tenant.patch(at, { n: 3 }, { 'if-match': etag });
    expect([lost.status, lost.body.error.code]).toEqual([412, 'PRECONDITION_FAILED']);
    expect((await tenant.put(at, { n: 3 }, { 'if-match': etag })).status).toBe(412);
    expect((await tenant.delete(at, { 'if-match': etag })).status).toBe(412);
    const current = changed.headers.get('etag') ?? '';
    for (const [tag, status] of [
      [`W/${current}`, 412],
      ['"nonsense"', 412],
      [current.replaceAll('"', ''), 412],
      [`${etag}, ${current}`, 200],
    ] as const) {
      expect([tag, (await tenant.patch(at, { n: 4 }, { 'if-match': tag })).status]).toEqual([tag, status]);
    }
    expect((await tenant.patch(at, { n: 5 }, { 'if-match': '*' })).status).toBe(200);
    expect((await tenant.delete(at, { 'if-match': '*' })).status).toBe(200);
    expect((await tenant.patch(at, { n: 5 }, { 'if-match': '*' })).status).toBe(404);
  });

  test('a read with If-None-Match is 304 without a body until the record changes', async () => {
    const path = await entity([{ key: 'n', type: 'integer' }]);
    const made = await tenant.post(path, { n: 1 });
    const at = `${path}/${made.body.data.id}`;
    const etag = made.headers.get('etag') ?? '';
    for (const tags of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const answer = await tenant.get(at, { 'if-none-match': tags });
      expect([tags, answer.status, answer.text, answer.headers.get('etag')]).toEqual([tags, 304, '', etag]);
    }
    expect((await tenant.get(at, { 'if-none-match': '"x"' })).status).toBe(200);
    await tenant.patch(at, { n: 2 });
    expect((await tenant.get(at, { 'if-none-match': etag })).status).toBe(200);
  });

  test('a record has another ETag when other fields are shown, and If-Match accepts the ETag of every caller', async () => {
    const path = await entity([
      { key: 'n', type: 'integer' },
      { key: 'open', type: 'text' },
      { key: 'hidden', type: 'text' },
    ]);
    const [, , , name] = path.split('/') as [string, string, string, string];
    const at = `${path}/${(await tenant.post(path, { n: 1, open: 'o', hidden: 'h' })).body.data.id}`;
    const permissions = { [name]: ['read' as const, 'update' as const] };
    const role = await addRole(service, tenant, { permissions, entities: { [name]: { fields: ['n'] } } });
    const user = bearer(service, await userToken(service, tenant, role.name));
    const restrict = (fields: string[]) =>
      changeRole(service, tenant, role.name, { permissions, entities: { [name]: { fields } } });
    const narrow = (await user.get(at)).headers.get('etag') ?? '';
    expect((await user.get(at, { 'if-none-match': narrow })).status).toBe(304);
    expect((await user.get(`${path}?with=etags`)).body.data.etags).toEqual([narrow]);
    for (const fields of [['n', 'open'], ['n', 'hidden'], ['open']]) {
      await restrict(fields);
      const { status, body } = await user.get(at, { 'if-none-match': narrow });
      expect([status, fields.every((key) => key in body.data)]).toEqual([200, true]);
    }
    const changed = await tenant.patch(at, { open: 'p' }, { 'if-match': narrow });
    expect(changed.status).toBe(200);
    expect((await user.patch(at, { open: 'q' }, { 'if-match': narrow })).status).toBe(412);
    const all = changed.headers.get('etag') ?? '';
    expect((await user.patch(at, { open: 'q' }, { 'if-match': all })).status).toBe(200);
  });
});
