// Definitions of entities and fields: create, change, retype, drop, and who may do it.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TenantCaller } from '../src/access/caller.ts';
import { FULL_RIGHTS } from '../src/access/rights.ts';
import { getEntity, listEntities } from '../src/entities/entities.ts';
import { listFields } from '../src/entities/fields.ts';
import { tenantById } from '../src/tenants/tenants.ts';
import { userCaller } from './support/callers.ts';
import { createRecord, newEntity } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const entity = async (...definitions: object[]): Promise<string> => (await newEntity(tenant, definitions)).name;

const record = (name: string, values: object): Promise<Json> =>
  createRecord(tenant, `/api/entities/${name}/records`, values);

const records = async (name: string, query = ''): Promise<Json[]> =>
  (await tenant.get(`/api/entities/${name}/records?order=asc&sort=createdAt&limit=100${query}`)).body.data.items;
const addField = (name: string, field: Json) => tenant.post(`/api/entities/${name}/fields`, field);
const change = (name: string, key: string, to: Json) => tenant.patch(`/api/entities/${name}/fields/${key}`, to);
const drop = (name: string, key: string, confirm = '') =>
  tenant.delete(`/api/entities/${name}/fields/${key}${confirm && `?confirm=${confirm}`}`);
const fieldsOf = async (name: string): Promise<Json[]> => (await tenant.get(`/api/entities/${name}/fields`)).body.data;
const paths = (answer: Json): string[] => (answer.body.error.details ?? []).map(({ path }: Json) => path).sort();

const callerWith = (rights: TenantCaller['rights'], isTenantAdmin = false): Promise<TenantCaller> =>
  userCaller(service, tenant, rights, { isTenantAdmin });

describe('entities', () => {
  test('an entity has a name, a label, a description and fields, and can be read', async () => {
    const made = await tenant.post('/api/entities', {
      name: 'invoice',
      label: 'Invoice',
      description: 'What is owed',
      fields: [
        { key: 'title', type: 'text', required: true, maxLength: 10 },
        { key: 'state', type: 'select', options: ['open', 'paid'], default: 'open' },
      ],
    });
    expect(made.status).toBe(201);
    const read = await tenant.get('/api/entities/invoice');
    expect(read.body.data).toEqual(made.body.data);
    expect(read.body.data).toMatchObject({ name: 'invoice', label: 'Invoice', isSystem: false });
    expect(read.body.data.fields.map(({ key }: Json) => key)).toEqual(['title', 'state']);
    expect((await tenant.get('/api/entities')).body.data.map(({ name }: Json) => name)).toContain('invoice');
  });

  const badNames = ['', 'Invoice', '1a', 'a-b', '_svc_x', 'a'.repeat(49), 'drop table', 7, null];
  test.each(badNames)('an invalid name is refused: %p', async (name) => {
    const answer = await tenant.post('/api/entities', { name });
    expect(answer.status).toBe(400);
    expect(paths(answer)).toEqual(['name']);
  });

  test('a name that is taken is refused with 409', async () => {
    const name = await entity();
    expect((await tenant.post('/api/entities', { name })).status).toBe(409);
  });

  const reserved = ['id', 'entityId', 'name', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];
  test.each(reserved)('%s is a reserved name that no field may have', async (key) => {
    const answer = await tenant.post('/api/entities', { name: 'refused', fields: [{ key, type: 'text' }] });
    expect(answer.status).toBe(400);
    expect(answer.body.error.code).toBe('VALIDATION_ERROR');
    const name = await entity({ key: 'other', type: 'text' });
    expect((await addField(name, { key, type: 'text' })).status).toBe(400);
    expect((await change(name, 'other', { key })).status).toBe(400);
  });

  test('one answer reports every problem of every field', async () => {
    const answer = await tenant.post('/api/entities', {
      name: 'faulty',
      fields: [
        { key: '1x', type: 'text' },
        { key: 'a', type: 'colour' },
        { key: 'b', type: 'select' },
        { key: 'c', type: 'relation', entity: 'nowhere' },
        { key: 'd', type: 'text', min: 3, colour: 'red' },
        { key: 'd', type: 'integer', min: 5, max: 4 },
      ],
    });
    expect(answer.status).toBe(400);
    const faults = ['0.key', '1.type', '2.options', '3.entity', '4.colour', '4.min', '5.key', '5.max'];
    expect(paths(answer)).toEqual(faults.map((path) => `fields.${path}`));
  });

  test('label and description can be changed, the name cannot', async () => {
    const name = await entity();
    expect((await tenant.patch(`/api/entities/${name}`, { label: 'L' })).body.data.label).toBe('L');
    expect((await tenant.patch(`/api/entities/${name}`, { name: 'other' })).status).toBe(400);
  });

  test('two changes at once, of the label and of the description, are both kept', async () => {
    const path = `/api/entities/${await entity()}`;
    for (let round = 0; round < 12; round++) {
      const [label, description] = [`l${round}`, `d${round}`];
      const answers = await Promise.all([tenant.patch(path, { label }), tenant.patch(path, { description })]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
      expect((await tenant.get(path)).body.data).toMatchObject({ label, description });
    }
  });

  test('deleting an entity with records without confirm is refused with the count, and nothing changes', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    await record(name, { a: '1' });
    await record(name, { a: '2' });
    const refused = await tenant.delete(`/api/entities/${name}`);
    expect(refused.status).toBe(409);
    expect(refused.body.error.message).toContain('2 record(s)');
    expect(await records(name)).toHaveLength(2);
    expect((await tenant.delete(`/api/entities/${name}?confirm=wrong`)).status).toBe(400);
    expect((await tenant.delete(`/api/entities/${name}?confirm=${name}`)).status).toBe(200);
    expect((await tenant.get(`/api/entities/${name}`)).status).toBe(404);
  });

  test('an entity without records needs no confirmation', async () => {
    expect((await tenant.delete(`/api/entities/${await entity()}`)).status).toBe(200);
  });

  test('an entity that a relation of another entity refers to cannot be deleted', async () => {
    const target = await entity();
    await entity({ key: 'to', type: 'relation', entity: target });
    expect((await tenant.delete(`/api/entities/${target}`)).status).toBe(409);
  });
});

describe('who may read and write definitions', () => {
  test('another tenant cannot see the entity or its fields', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    const other = await service.tenant();
    for (const path of [`/api/entities/${name}`, `/api/entities/${name}/fields`]) {
      expect((await other.get(path)).status).toBe(404);
    }
    expect((await other.patch(`/api/entities/${name}/fields/a`, { required: true })).status).toBe(404);
    expect((await other.delete(`/api/entities/${name}/fields/a`)).status).toBe(404);
    expect((await other.post(`/api/entities/${name}/fields`, { key: 'b', type: 'text' })).status).toBe(404);
    const foreign = tenant.with({ 'x-tenant-id': other.id });
    expect((await foreign.patch(`/api/entities/${name}/fields/a`, { required: true })).status).toBe(403);
    expect(await fieldsOf(name)).toHaveLength(1);
  });

  test('a request without a credential is refused', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    expect((await service.anonymous.get(`/api/entities/${name}/fields`)).status).toBe(401);
    expect((await service.anonymous.delete(`/api/entities/${name}/fields/a`)).status).toBe(401);
  });

  test('reading a definition needs read permission on the entity and omits hidden fields', async () => {
    const name = await entity({ key: 'a', type: 'text' }, { key: 'secret', type: 'text' });
    const reader = await callerWith({
      isUnlimited: false,
      permissions: { [name]: ['read'] },
      restrictions: { [name]: { excludeFields: ['secret'] } },
    });
    expect((await getEntity(service.app, reader, name)).fields.map(({ key }) => key)).toEqual(['a']);
    expect((await listFields(service.app, reader, name)).map(({ key }) => key)).toEqual(['a']);
    expect((await listEntities(service.app, reader)).map((entity) => entity.name)).toEqual([name]);
    const stranger = await callerWith({ isUnlimited: false, permissions: {}, restrictions: {} });
    await expect(listFields(service.app, stranger, name)).rejects.toMatchObject({ ecode: 'FORBIDDEN' });
    expect((await listFields(service.app, await callerWith(FULL_RIGHTS, true), name)).length).toBe(2);
  });
});

describe('adding a field', () => {
  test('a new field is empty in existing records and can be set from then on', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    const { id } = await record(name, { a: 'x' });
    const added = await addField(name, { key: 'n', type: 'integer', min: 1 });
    expect(added.status, added.text).toBe(201);
    expect(added.body.data).toMatchObject({ key: 'n', type: 'integer', min: 1, required: false });
    expect((await records(name))[0]).toMatchObject({ a: 'x', n: null });
    expect((await tenant.patch(`/api/entities/${name}/records/${id}`, { n: 0 })).status).toBe(400);
    expect((await tenant.patch(`/api/entities/${name}/records/${id}`, { n: 2 })).status).toBe(200);
    expect((await records(name, '&filters=n=2')).length).toBe(1);
  });

  test('a required field is refused with the number of records without a value, unless a default fills them', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    for (let i = 0; i < 3; i++) await record(name, { a: `${i}` });
    const refused = await addField(name, { key: 'b', type: 'text', required: true });
    expect(refused.status).toBe(409);
    expect(refused.body.error.details).toEqual([{ path: 'required', message: expect.stringContaining('3 record(s)') }]);
    expect(await fieldsOf(name)).toHaveLength(1);
    expect((await addField(name, { key: 'b', type: 'text', required: true, default: 'filled' })).status).toBe(201);
    expect((await records(name)).map(({ b }) => b)).toEqual(['filled', 'filled', 'filled']);
    expect((await records(name, '&search=filled')).length).toBe(3);
    expect((await tenant.post(`/api/entities/${name}/records`, { b: null })).status).toBe(400);
  });

  test('a required field needs no default when there are no records', async () => {
    const name = await entity();
    expect((await addField(name, { key: 'b', type: 'text', required: true })).status).toBe(201);
    expect((await tenant.post(`/api/entities/${name}/records`, {})).status).toBe(400);
  });

  test('a unique field added to an entity with records is unique', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    await record(name, { a: 'x' });
    expect((await addField(name, { key: 'code', type: 'text', unique: true })).status).toBe(201);
    await record(name, { code: 'c' });
    expect((await tenant.post(`/api/entities/${name}/records`, { code: 'c' })).status).toBe(409);
  });

  test('a decimal field takes limits that JavaScript writes with an exponent, and enforces them exactly', async () => {
    const name = await entity({ key: 'amount', type: 'decimal', min: 1e-7, max: 1e21 });
    const [amount] = await fieldsOf(name);
    expect(amount).toMatchObject({ min: 1e-7, max: 1e21 });
    const write = (value: string) => tenant.post(`/api/entities/${name}/records`, { amount: value });
    for (const atLimit of ['1000000000000000000000', '0.0000001']) expect((await write(atLimit)).status).toBe(201);
    for (const outside of ['1000000000000000000000.1', '0.00000009']) {
      const answer = await write(outside);
      expect([answer.status, paths(answer)]).toEqual([400, ['amount']]);
    }
    const reversed = await addField(name, { key: 'total', type: 'decimal', min: 1e22, max: 1e21 });
    expect([reversed.status, paths(reversed)]).toEqual([400, ['max']]);
  });

  test('a key that is taken is refused with 409, a relation without a target with 400', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    expect((await addField(name, { key: 'a', type: 'text' })).status).toBe(409);
    expect((await addField(name, { key: 'r', type: 'relation', entity: 'nowhere' })).status).toBe(400);
    expect((await addField('nowhere', { key: 'r', type: 'text' })).status).toBe(404);
  });
});

describe('changing a field', () => {
  test('a renamed field keeps its values', async () => {
    const name = await entity({ key: 'a', type: 'text', indexed: true }, { key: 'b', type: 'text' });
    await record(name, { a: 'kept' });
    expect((await change(name, 'a', { key: 'b' })).status).toBe(409);
    expect((await change(name, 'a', { key: 'c' })).body.data.key).toBe('c');
    expect((await records(name, '&filters=c=kept'))[0]).toMatchObject({ c: 'kept', b: null });
    expect((await change(name, 'a', { key: 'd' })).status).toBe(404);
  });

  test('a renamed field stays hidden from the same roles, and a condition that uses it prevents the change', async () => {
    const name = await entity({ key: 'secret', type: 'text' });
    const schema = (await tenantById(service.app, tenant.id))?.schema;
    const rules = (rule: Json) => JSON.stringify({ [name]: rule }).replaceAll("'", "''");
    await service.app.db.exec(`insert into "${schema}".roles (id, name, entities)
      values (platform.uuidv7(), '${name}', '${rules({ excludeFields: ['secret'] })}')`);
    expect((await change(name, 'secret', { key: 'hidden' })).status).toBe(200);
    const { sql, identifier } = await import('../src/runtime/sql.ts');
    const role = await service.app.db.first<Json>(
      sql`select entities from ${identifier(schema ?? '', 'roles')} where name = ${name}`,
    );
    expect(role.entities[name]).toEqual({ excludeFields: ['hidden'] });
    await service.app.db.exec(
      `update "${schema}".roles set entities = '${rules({ rowFilter: 'hidden = 1' })}' where name = '${name}'`,
    );
    expect((await change(name, 'hidden', { key: 'shown' })).status).toBe(409);
    expect((await drop(name, 'hidden')).status).toBe(409);
  });

  const refusals: [string, Json, Json[], Json, string, number][] = [
    ['required', { type: 'text' }, ['x', null, null], { required: true }, 'required', 2],
    ['unique', { type: 'text' }, ['x', 'x', 'y'], { unique: true }, 'unique', 2],
    ['unique by number', { type: 'number' }, [1, 1, 1, 2], { unique: true }, 'unique', 3],
    ['min', { type: 'integer' }, [1, 5, 9], { min: 6 }, 'min', 2],
    ['max', { type: 'decimal', max: '10' }, ['1.5', '9.99'], { max: '9.98' }, 'max', 1],
    ['minLength', { type: 'text' }, ['a', 'bb', '👍'], { minLength: 2 }, 'minLength', 2],
    ['maxLength', { type: 'text', maxLength: 10 }, ['aaaa', 'bb'], { maxLength: 3 }, 'maxLength', 1],
    ['pattern', { type: 'text' }, ['ab', 'cd'], { pattern: '^a' }, 'pattern', 1],
    ['options', { type: 'select', options: ['a', 'b', 'c'] }, ['a', 'b', 'b'], { options: ['a', 'c'] }, 'options', 2],
    [
      'options of a multiselect',
      { type: 'multiselect', options: ['a', 'b'] },
      [['a', 'b'], ['a']],
      { options: ['a'] },
      'options',
      1,
    ],
    ['type', { type: 'text' }, ['1', 'one', '007'], { type: 'integer' }, 'type', 2],
    ['type stored in the same form', { type: 'text' }, ['a@b.de', 'no'], { type: 'email' }, 'type', 1],
    ['indexed', { type: 'text' }, ['x'.repeat(641), 'y'], { indexed: true }, 'indexed', 1],
  ];
  test.each(refusals)(
    'a definition that stored records violate gets 409 with their number, and nothing changes: %s',
    async (_, definition, values, to, path, count) => {
      const name = await entity({ key: 'f', ...definition });
      for (const f of values) await record(name, { f });
      const [fields, stored] = [await fieldsOf(name), await records(name)];
      const refused = await change(name, 'f', to);
      expect(refused.status, refused.text).toBe(409);
      expect(refused.body.error.details[0]).toMatchObject({
        path,
        message: expect.stringContaining(`${count} record(s)`),
      });
      expect(await fieldsOf(name)).toEqual(fields);
      expect(await records(name)).toEqual(stored);
    },
  );

  test('one answer counts the violations of every attribute', async () => {
    const name = await entity({ key: 'f', type: 'text' });
    for (const f of ['a', 'bbbb', null]) await record(name, { f });
    const refused = await change(name, 'f', { required: true, minLength: 2, maxLength: 3 });
    expect(paths(refused)).toEqual(['maxLength', 'minLength', 'required']);
  });

  test('a stricter definition that all records satisfy is applied and enforced on writes', async () => {
    const name = await entity({ key: 'f', type: 'text' });
    await record(name, { f: 'abc' });
    const changed = await change(name, 'f', { required: true, unique: true, minLength: 2, pattern: '^a' });
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.data).toMatchObject({ required: true, unique: true, minLength: 2, pattern: '^a' });
    for (const [f, status] of [
      [null, 400],
      ['a', 400],
      ['xx', 400],
      ['abc', 409],
      ['abd', 201],
    ] as const) {
      expect((await tenant.post(`/api/entities/${name}/records`, { f })).status).toBe(status);
    }
    expect((await change(name, 'f', { required: false, unique: false, minLength: null })).status).toBe(200);
    await record(name, { f: 'abc' });
    await record(name, { f: null });
  });

  test('a more permissive definition does not depend on the records', async () => {
    const name = await entity({ key: 'f', type: 'integer', min: 1, max: 5, required: true });
    await record(name, { f: 3 });
    expect((await change(name, 'f', { min: 0, max: null, required: false, label: 'F' })).status).toBe(200);
    await record(name, { f: 100 });
    await record(name, {});
    const [field] = await fieldsOf(name);
    expect(field).toMatchObject({ label: 'F', min: 0, required: false });
    expect(field).not.toHaveProperty('max');
  });

  const conversions: [string, Json, string, Json, Json[], Json[]][] = [
    ['text to integer', { type: 'text' }, 'integer', {}, ['12', '-3', null], [12, -3, null]],
    ['text to decimal', { type: 'text' }, 'decimal', {}, ['12.50'], ['12.50']],
    ['text to boolean', { type: 'text' }, 'boolean', {}, ['true', 'false'], [true, false]],
    ['text to date', { type: 'text' }, 'date', {}, ['2024-02-29'], ['2024-02-29']],
    ['text to select', { type: 'text' }, 'select', { options: ['a', 'b'] }, ['a', 'b'], ['a', 'b']],
    ['text to e-mail', { type: 'text' }, 'email', {}, ['a@b.de'], ['a@b.de']],
    ['integer to text', { type: 'integer' }, 'text', {}, [12, 0], ['12', '0']],
    ['integer to number', { type: 'integer' }, 'number', {}, [12], [12]],
    ['integer to decimal', { type: 'integer' }, 'decimal', {}, [12], ['12']],
    ['decimal to number', { type: 'decimal' }, 'number', {}, ['1.50'], [1.5]],
    ['boolean to text', { type: 'boolean' }, 'text', {}, [true, false], ['true', 'false']],
    ['date to datetime', { type: 'date' }, 'datetime', {}, ['2024-01-02'], ['2024-01-02T00:00:00.000Z']],
    ['select to multiselect', { type: 'select', options: ['a'] }, 'multiselect', {}, ['a'], [['a']]],
    ['text to json', { type: 'text' }, 'json', {}, ['x'], ['x']],
  ];
  test.each(conversions)('retyping converts all stored values: %s', async (_, from, type, more, values, expected) => {
    const name = await entity({ key: 'f', ...from });
    for (const f of values) await record(name, { f });
    const changed = await change(name, 'f', { type, ...more });
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.data.type).toBe(type);
    expect((await records(name)).map(({ f }) => f)).toEqual(expected);
    const f = expected[0];
    expect((await tenant.post(`/api/entities/${name}/records`, { f })).status).toBe(201);
  });

  const lossy: [string, Json, Json, string, Json][] = [
    ['a fraction is not a whole number', { type: 'number' }, 1.5, 'integer', {}],
    ['more digits than a number holds', { type: 'text' }, '0.12345678901234567890', 'number', {}],
    ['a time of day does not fit a date', { type: 'datetime' }, '2024-01-02T10:00:00.000Z', 'date', {}],
    ['two options are not one', { type: 'multiselect', options: ['a', 'b'] }, ['a', 'b'], 'select', {}],
    ['a list is not a text', { type: 'multiselect', options: ['a', 'b'] }, ['a', 'b'], 'text', {}],
  ];
  test.each(lossy)('retyping that would lose information is refused: %s', async (_, from, f, type, more) => {
    const name = await entity({ key: 'f', ...from });
    await record(name, { f });
    expect((await change(name, 'f', { type, ...more })).status).toBe(409);
    expect((await records(name))[0].f).toEqual(f);
  });

  test('a retyped field is searched, sorted and unique as its new type', async () => {
    const name = await entity({ key: 'f', type: 'text', unique: true }, { key: 'n', type: 'integer' });
    for (const f of ['10', '9', '100']) await record(name, { f, n: Number(f) });
    expect((await change(name, 'f', { type: 'integer' })).status).toBe(200);
    expect((await change(name, 'n', { type: 'text' })).status).toBe(200);
    expect((await records(name, '&search=100')).map(({ n }) => n)).toEqual(['100']);
    const sorted = await tenant.get(`/api/entities/${name}/records?sort=f`);
    expect(sorted.body.data.items.map(({ f }: Json) => f)).toEqual([9, 10, 100]);
    expect((await tenant.post(`/api/entities/${name}/records`, { f: 9 })).status).toBe(409);
    expect((await tenant.get(`/api/entities/${name}/records?filters=f>9`)).body.data.total).toBe(2);
  });

  test('values of a unique field that would become equal prevent retyping, and are counted', async () => {
    const name = await entity({ key: 'f', type: 'text', unique: true });
    for (const f of ['1', '1.0', '2']) await record(name, { f });
    const refused = await change(name, 'f', { type: 'number' });
    expect(refused.status, refused.text).toBe(409);
    expect(refused.body.error.details).toEqual([{ path: 'unique', message: expect.stringContaining('2 record(s)') }]);
    expect((await records(name)).map(({ f }) => f)).toEqual(['1', '1.0', '2']);
    expect((await tenant.post(`/api/entities/${name}/records`, { f: '2' })).status).toBe(409);
  });

  test('a relation keeps its target while it has values', async () => {
    const [one, two] = [await entity(), await entity()];
    const name = await entity({ key: 'to', type: 'relation', entity: one, onDelete: 'cascade' });
    const target = await record(one, {});
    await record(name, { to: target.id });
    expect((await change(name, 'to', { entity: two })).status).toBe(409);
    expect((await change(name, 'to', { type: 'relations' })).status).toBe(200);
    expect((await records(name))[0].to).toEqual([target.id]);
    expect((await change(name, 'to', { onDelete: 'set_null' })).body.data.onDelete).toBe('set_null');
    expect((await tenant.delete(`/api/entities/${one}/records/${target.id}`)).status).toBe(200);
    expect((await records(name))[0].to).toEqual([]);
  });

  test('an invalid change is refused with every problem', async () => {
    const name = await entity({ key: 'f', type: 'text' });
    const answer = await change(name, 'f', { min: 3, colour: 1, required: 'yes', pattern: '(' });
    expect(answer.status).toBe(400);
    expect(paths(answer)).toEqual(['colour', 'min', 'pattern', 'required']);
  });

  test.each(['colour', '', 'toString', '__proto__', null, 7, {}])('an invalid type is refused: %p', async (type) => {
    const name = await entity({ key: 'f', type: 'text', maxLength: 5 });
    const answer = await change(name, 'f', { type, required: 'yes' });
    expect(answer.status, answer.text).toBe(400);
    expect(paths(answer)).toEqual(['required', 'type']);
    expect((await tenant.get(`/api/entities/${name}/fields`)).body.data).toMatchObject([
      { type: 'text', maxLength: 5 },
    ]);
  });

  test('schema changes emit no record events', async () => {
    const name = await entity({ key: 'f', type: 'text' });
    const { id } = await record(name, { f: '1' });
    await change(name, 'f', { type: 'integer' });
    const { sql } = await import('../src/runtime/sql.ts');
    const events = await service.app.db.rows(sql`select from platform.events where record_id = ${id}::uuid`);
    expect(events).toHaveLength(1);
  });
});

describe('dropping a field', () => {
  test('a field with values is dropped only when confirmed: otherwise 409 with the count, and nothing changes', async () => {
    const name = await entity({ key: 'a', type: 'text', unique: true }, { key: 'b', type: 'text' });
    await record(name, { a: 'one', b: 'two' });
    await record(name, { b: 'three' });
    const refused = await drop(name, 'a');
    expect(refused.status).toBe(409);
    expect(refused.body.error.message).toContain('1 record(s)');
    expect((await records(name))[0]).toMatchObject({ a: 'one' });
    expect((await drop(name, 'a', 'b')).status).toBe(400);
    expect((await drop(name, 'a', 'a')).body.data).toMatchObject({ deleted: true });
    expect((await records(name))[0]).not.toHaveProperty('a');
    expect(await records(name, '&search=one')).toEqual([]);
    expect(await records(name, '&search=two')).toHaveLength(1);
    expect((await addField(name, { key: 'a', type: 'text' })).status).toBe(201);
    expect((await records(name))[0].a).toBeNull();
  });

  test('a field without values needs no confirmation', async () => {
    const name = await entity({ key: 'a', type: 'text' });
    await record(name, {});
    expect((await drop(name, 'a')).status).toBe(200);
    expect((await drop(name, 'a')).status).toBe(404);
  });
});
