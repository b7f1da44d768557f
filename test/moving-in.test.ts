// Moving in: kept ids, relations by a unique field, delimiters, JSON arrays, and interrupted uploads.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { JsonArrayReader } from '../src/records/transfer/json-array.ts';
import { sql } from '../src/runtime/sql.ts';
import { newEntity } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const CSV = { 'content-type': 'text/csv' };
const NDJSON = { 'content-type': 'application/x-ndjson' };
const JSON_FILE = { 'content-type': 'application/json' };
const items = async (path: string, query = 'limit=100', client = tenant): Promise<Json[]> =>
  (await client.get(`${path}?${query}`)).body.data.items;

const companies = (client = tenant) =>
  newEntity(client, [
    { key: 'code', type: 'text', unique: true },
    { key: 'title', type: 'text' },
  ]);
async function people(companyEntity: string) {
  return newEntity(tenant, [
    { key: 'email', type: 'email', unique: true },
    { key: 'company', type: 'relation', entity: companyEntity },
    { key: 'others', type: 'relations', entity: companyEntity },
  ]);
}

describe('ids=keep', () => {
  test('an export is imported under its ids, and a second export is equal except for times', async () => {
    const { path } = await companies();
    const elsewhere = await service.tenant();
    const copy = await companies(elsewhere);
    await tenant.post(`${path}/bulk`, {
      operations: ['a', 'b', 'c'].map((code) => ({ op: 'create', data: { code, title: `=${code}` } })),
    });
    for (const [format, type] of [
      ['csv', CSV],
      ['ndjson', NDJSON],
    ] as const) {
      const file = (await tenant.get(`${path}/export?format=${format}`)).text;
      const answer = await elsewhere.post(`${copy.path}/import?ids=keep&upsert=id`, file, type);
      expect(answer.body.data, answer.text).toMatchObject(
        format === 'csv' ? { created: 3, updated: 0 } : { created: 0, updated: 3 },
      );
      const own = (records: Json[]) => records.map(({ id, code, title }) => [id, code, title]).toSorted();
      expect(own(await items(copy.path, 'limit=100', elsewhere))).toEqual(own(await items(path)));
    }
  });

  test('a line with a taken, malformed or missing id is refused', async () => {
    const [ID, OTHER] = [crypto.randomUUID(), crypto.randomUUID()];
    const { path } = await companies();
    const lines = [
      { id: ID, code: 'a' },
      { id: ID.toUpperCase(), code: 'b' },
      { id: 'rec_17', code: 'c' },
      { code: 'd' },
      { id: OTHER, code: 'a' },
    ];
    const report = await tenant.post(
      `${path}/import?ids=keep`,
      lines.map((line) => JSON.stringify(line)).join('\n'),
      NDJSON,
    );
    expect(report.body.data).toMatchObject({
      created: 1,
      refused: 4,
      errors: [
        { line: 2, message: 'id: already exists' },
        { line: 3, message: 'id: must be a UUID, since ids are kept' },
        { line: 4, message: 'id: must be a UUID, since ids are kept' },
        { line: 5, message: 'code: already exists' },
      ],
    });
    const header = await tenant.post(`${path}/import?ids=keep&upsert=code`, 'title\nx\n', CSV);
    expect(header.body.error.details.map(({ path }: Json) => path)).toEqual(['id', 'code']);
    expect((await tenant.post(`${path}/import?upsert=id`, 'id\n', CSV)).body.error.details[0].path).toBe('upsert');
  });

  test('with upsert, the field decides, and a record keeps the id that it has', async () => {
    const [ID, OTHER] = [crypto.randomUUID(), crypto.randomUUID()];
    const { path } = await companies();
    await tenant.post(`${path}/import?ids=keep`, `id,code\n${ID},a\n`, CSV);
    const csv = `id,code,title\n${ID},a,first\n${OTHER},a,second\n${OTHER},b,third\n${OTHER},c,fourth\n`;
    const expected = {
      created: 1,
      updated: 1,
      errors: [
        { line: 3, message: 'the record with this code has another id' },
        { line: 5, message: 'id: already exists' },
      ],
    };
    for (const query of ['ids=keep&upsert=code&dryRun=true', 'ids=keep&upsert=code']) {
      expect((await tenant.post(`${path}/import?${query}`, csv, CSV)).body.data).toMatchObject(expected);
    }
  });

  test('the id of a deleted record continues its versions; an id of an erased record, or of another entity, is refused', async () => {
    const ID = crypto.randomUUID();
    const { path } = await companies();
    const other = await companies();
    const keep = (at: string, id: string) => tenant.post(`${at}/import?ids=keep`, `id,code\n${id},a\n`, CSV);
    await keep(path, ID);
    await tenant.patch(`${path}/${ID}`, { title: 'x' });
    await tenant.delete(`${path}/${ID}`);
    expect((await keep(path, ID)).body.data.created).toBe(1);
    expect((await tenant.get(`${path}/${ID}`)).headers.get('etag')).toBe('"3"');
    const versions = (await tenant.get(`${path}/${ID}/history`)).body.data.items.map(({ version }: Json) => version);
    expect(new Set(versions.slice(0, 1))).toEqual(new Set([3]));
    expect((await keep(other.path, ID)).body.data.errors).toEqual([{ line: 2, message: 'id: already exists' }]);
    await tenant.delete(`${path}/${ID}?erase=true`);
    expect((await keep(path, ID)).body.data.refused).toBe(1);
    // After the second pass of the erasure, a minute later.
    await service.app.db.rows(sql`delete from platform.erasures where record_id = ${ID}::uuid`);
    expect((await keep(path, ID)).body.data.refused).toBe(1);
  });
});

describe('relations by a unique field', () => {
  test('are found in columns and members, one and several; a line whose target is not found is refused', async () => {
    const { name, path } = await companies();
    const to = await people(name);
    await tenant.post(`${path}/bulk`, {
      operations: ['a', 'b', 'c, d'].map((code) => ({ op: 'create', data: { code } })),
    });
    const idOf = Object.fromEntries((await items(path)).map(({ id, code }) => [code, id]));
    const csv = 'email,company.code,others.code\nx@y.zz,a,"b,""c, d"""\nv@y.zz,,\nw@y.zz,nope,\n';
    const report = (await tenant.post(`${to.path}/import`, csv, CSV)).body.data;
    expect(report).toMatchObject({
      created: 2,
      errors: [{ line: 4, message: 'company.code: there is no record with code "nope"' }],
    });
    const [, x] = await items(to.path);
    expect([x.company, x.others]).toEqual([idOf.a, [idOf.b, idOf['c, d']]]);
    const lines = [
      { email: 'x@y.zz', 'company.code': null, 'others.code': ['a'] },
      { email: 'z@y.zz', 'company.code': 'a', company: idOf.b },
      { email: 'z@y.zz', 'company.title': 'a' },
      { email: 'z@y.zz', 'email.code': 'a' },
      { email: 'z@y.zz', 'others.code': 'a' },
    ];
    const changed = (await tenant.post(`${to.path}/import?upsert=email`, JSON.stringify(lines), JSON_FILE)).body.data;
    expect(changed).toMatchObject({ created: 0, updated: 1, refused: 4 });
    expect(changed.errors.map(({ item, message }: Json) => [item, message])).toEqual([
      [2, 'company.code: company is given too'],
      [3, `company.title: is not unique: records of ${name} can be named by a unique field only`],
      [4, 'email.code: is not a field of this entity'],
      [5, 'others.code: must be a list'],
    ]);
    const [changedX] = await items(to.path, 'filters=email = "x@y.zz"');
    expect([changedX.company, changedX.others]).toEqual([null, [idOf.a]]);
    const header = await tenant.post(`${to.path}/import`, 'email,company.nope,zip.code\n', CSV);
    expect(header.body.error.details.map(({ path }: Json) => path)).toEqual(['company.nope', 'zip.code']);
  });

  test('of records that the caller may not see are not found, and of entities that it may not read unknown', async () => {
    const { name, path } = await companies();
    const to = await people(name);
    await tenant.post(path, { code: 'seen', title: 'open' });
    await tenant.post(path, { code: 'hidden', title: 'secret' });
    const send = async (permissions: Json) => {
      const role = `r${Math.random().toString(36).slice(2)}`;
      await tenant.post('/api/roles', {
        name: role,
        permissions: { [to.name]: ['create'], ...permissions },
        entities: { [name]: { rowFilter: 'title = "open"' } },
      });
      const login = { email: `${role}@example.com`, password: 'a long password' };
      await tenant.post('/api/users', { ...login, name: role, role });
      const user = await service.anonymous.post('/api/auth/tenant/login', login, { 'x-tenant-id': tenant.slug });
      const client = service.anonymous.with({ authorization: `Bearer ${user.body.data.token}` });
      return client.post(`${to.path}/import`, 'company.code\nseen\nhidden\nnever\n', CSV);
    };
    const report = (await send({ [name]: ['read'] })).body.data;
    expect([report.created, report.errors.map(({ message }: Json) => message)]).toEqual([
      1,
      ['hidden', 'never'].map((code) => `company.code: there is no record with code "${code}"`),
    ]);
    expect((await send({})).body.error.details).toEqual([
      { path: 'company.code', message: 'is not a field of this entity' },
    ]);
  });
});

describe('formats', () => {
  test('a semicolon or tab is found from the header, and any delimiter can be given', async () => {
    const { path } = await companies();
    const send = (csv: string, query = '') => tenant.post(`${path}/import${query}`, csv, CSV);
    expect((await send('code;title\na;"x; y"\n')).body.data.created).toBe(1);
    expect((await send('code\ttitle\nb\tx, y\n')).body.data.created).toBe(1);
    expect((await send('code|title\nc|x;y\n', '?delimiter=|')).body.data.created).toBe(1);
    expect((await send('code\ttitle\nd\tz\n', '?delimiter=tab')).body.data.created).toBe(1);
    expect((await send('code;title\n', '?delimiter=,')).status).toBe(400);
    expect((await send('code\n', '?delimiter=x')).body.error.details[0].path).toBe('delimiter');
    const titles = (await items(path, 'sort=code')).map(({ title }) => title);
    expect(titles).toEqual(['x; y', 'x, y', 'x;y', 'z']);
  });

  test('a JSON array is read item by item, alone or as the list of an API’s answer', async () => {
    const { path } = await companies();
    const send = (text: string) => tenant.post(`${path}/import`, text, JSON_FILE);
    const text = '[\n {"code": "a]", "title": "\\"["},\n {"code": "b", "title": {}}, 7,\n\n {"code": "c"}\n]\n';
    expect((await send(text)).body.data).toMatchObject({
      created: 2,
      errors: [
        { line: 3, item: 2, message: expect.stringContaining('title') },
        { line: 3, item: 3, message: 'must be a JSON object' },
      ],
    });
    const answer = '{"page":1,"note":"items: [","sub":{"items":[1]},"items":[{"code":"d"}],"total":[1]}';
    expect((await send(answer)).body.data).toMatchObject({ created: 1, refused: 0 });
    expect((await send('\u{feff}{"data":[]}')).body.data).toMatchObject({ created: 0, refused: 0 });
    for (const [broken, problem] of [
      ['[{"code":"e"}', 'ends before the array does (line 1, after 0 items)'],
      ['{"page":1}', 'has no array under items, data or records (line 1, after 0 items)'],
      ['"x"', 'is not a JSON array (line 1, after 0 items)'],
      ['[] x', 'has something after the array (line 1, after 0 items)'],
    ] as const) {
      expect((await send(broken)).body.error?.details).toEqual([{ path: 'body', message: problem }]);
    }
  });

  test('the items of an array are the same wherever its chunks end', () => {
    const text = ` {"x":"\\\\","items":[{"a":"},]\\\\\\""},[1,[2]],"é",null , {"b":{}}] ,"y":[3]}`;
    const bytes = new TextEncoder().encode(text);
    for (let size = 1; size <= bytes.length; size++) {
      const reader = new JsonArrayReader();
      const found: unknown[] = [];
      for (let at = 0; at < bytes.length; at += size) {
        for (const item of reader.push(bytes.slice(at, at + size)))
          found.push(JSON.parse((item as { text: string }).text));
      }
      reader.end();
      expect(found).toEqual([{ a: '},]\\"' }, [1, [2]], 'é', null, { b: {} }]);
    }
  });
});

test('an incomplete file is reported, with the kept lines and its position; with upsert it can be sent again', async () => {
  const { path } = await companies();
  const records = Array.from({ length: 1_200 }, (_, i) => JSON.stringify({ code: `c${i}` }));
  const whole = `[\n${records.join(',\n')}\n]`;
  const cut = await tenant.post(`${path}/import?upsert=code`, whole.slice(0, whole.length - 3_000), JSON_FILE);
  expect(cut.status).toBe(400);
  expect(cut.body.error.message).toContain('ends before the array does');
  expect(cut.body.error.message).toMatch(
    /1000 records were imported before and are kept \(importId \S+\), up to line 1001;/,
  );
  const again = await tenant.post(`${path}/import?upsert=code`, whole, JSON_FILE);
  expect(again.body.data).toMatchObject({ created: 200, updated: 1_000, refused: 0 });
});
