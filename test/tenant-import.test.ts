// A tenant imported from its document, and cloned: everything equal, with the same ids or new ones, or nothing at all. Through
// HTTP; the database is checked for the remains of a failure.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { dropAbandoned } from '../src/portability/arriving.ts';
import { newId } from '../src/runtime/ids.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { adminKey } from './support/credentials.ts';
import { rawGet } from './support/raw.ts';
import {
  ADMIN_SECRET,
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

const TENANTS = '/api/admin/platform/tenants';
const NDJSON = { 'content-type': 'application/x-ndjson' };
const PASSWORD = 'correct horse battery';
const linesOf = (text: string): Json[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const textOf = (lines: readonly Json[]): string => lines.map((line) => `${JSON.stringify(line)}\n`).join('');
const ofType = (lines: Json[], type: string): Json[] => lines.filter((line) => line.type === type);

let service: TestService;
let source: TestTenant;
let document: string;
/** Other files, which use the same database, leave some behind. */
let schemasBefore: string[];
let number = 0;
const newSlug = (): string => `copy-${process.pid}-${++number}`;

async function made(client: Client, path: string, body: object): Promise<Json> {
  const answer = await client.post(path, body);
  if (answer.status !== 201) throw new Error(`${path}: ${answer.text}`);
  return answer.body.data;
}

const importing = (text: string, query: Record<string, string>): Promise<Answer> =>
  service.admin.post(`${TENANTS}/import?${new URLSearchParams(query)}`, text, NDJSON);

async function imported(text: string, query: Record<string, string> = {}): Promise<Json & { client: Client }> {
  const answer = await importing(text, { slug: newSlug(), ...query });
  if (answer.status !== 201) throw new Error(answer.text);
  return { ...answer.body.data, client: service.anonymous.with({ 'x-api-key': answer.body.data.apiKey }) };
}

const exportOf = async (slug: string): Promise<string> =>
  (await service.admin.get(`${TENANTS}/${slug}/export?secrets=true`)).text;

/** The document without the parts that differ in a copy besides the ids: the header, and that subscriptions are inactive. */
function comparable(text: string): Json[] {
  return linesOf(text)
    .slice(1)
    .map((line) => (line.type === 'subscription' ? { ...line, id: '', is_active: false } : line));
}

/** Rows that failed imports must not leave behind. */
async function leftOf(slug: string): Promise<Json> {
  const { status } = await service.admin.get(`${TENANTS}/${slug}`);
  const arriving = await service.app.db.rows(sql`select id from platform.arriving_tenants`);
  const schemas = await schemasWithoutTenant();
  return { status, arriving, schemas: schemas.filter((schema) => !schemasBefore.includes(schema)) };
}

async function schemasWithoutTenant(): Promise<string[]> {
  const rows = await service.app.db.rows<{ name: string }>(sql`
    select nspname::text as name from pg_namespace
    where nspname ~ '^t_[0-9a-f]{32}$'
      and not exists (select from platform.tenants where nspname = 't_' || replace(id::text, '-', ''))`);
  return rows.map(({ name }) => name);
}
const NOTHING = { status: 404, arriving: [], schemas: [] };

const ALL_TYPES = [
  { key: 'type', type: 'text', required: true, label: 'Type', description: 'of what' },
  { key: 'mail', type: 'email', unique: true },
  { key: 'site', type: 'url', indexed: true },
  { key: 'ref', type: 'uuid', default: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f' },
  { key: 'whole', type: 'integer', min: 0, max: 10 },
  { key: 'real', type: 'number' },
  { key: 'exact', type: 'decimal', indexed: true },
  { key: 'flag', type: 'boolean', default: true },
  { key: 'day', type: 'date' },
  { key: 'moment', type: 'datetime' },
  { key: 'choice', type: 'select', options: ['a', 'b'] },
  { key: 'choices', type: 'multiselect', options: ['a', 'b', 'c'], indexed: true },
  { key: 'anything', type: 'json' },
  { key: 'code', type: 'text', pattern: '^[A-Z]{3}$', maxLength: 3 },
  { key: 'parent', type: 'relation', entity: 'things', onDelete: 'set_null' },
  { key: 'groups', type: 'relations', entity: 'groups', onDelete: 'restrict' },
];

beforeAll(async () => {
  service = await startService();
  schemasBefore = await schemasWithoutTenant();
  source = await service.tenant({ settings: { selfRegistration: true, allowedOrigins: ['https://app.example'] } });
  await made(source, '/api/entities', {
    name: 'groups',
    searchFolding: false,
    fields: [{ key: 'title', type: 'text' }],
  });
  await made(source, '/api/entities', { name: 'things', label: 'Things', fields: ALL_TYPES });
  await made(source, '/api/entities/groups/fields', { key: 'best', type: 'relation', entity: 'things' });
  const THINGS = '/api/entities/things/records';
  const group = await made(source, '/api/entities/groups/records', { title: 'Ärger "quoted"\n\u2028😀' });
  const first = await made(source, THINGS, { type: 'first', groups: [group.id] });
  await made(source, THINGS, {
    type: 'second',
    mail: 'ada@example.com',
    site: 'https://example.com/x?y=1',
    whole: 7,
    real: 1e-7,
    exact: '12345678901234567890.10',
    flag: false,
    day: '2026-02-28',
    moment: '2026-02-28T12:00:00.123Z',
    choice: 'b',
    choices: ['c', 'a'],
    anything: { b: [1, null, { a: 'x' }], '': 0 },
    code: 'ABC',
    parent: first.id,
    groups: [group.id],
  });
  await source.patch(`/api/entities/groups/records/${group.id}`, { best: first.id });
  await source.patch(`/api/entities/groups/records/${group.id}`, { title: 'renamed' });
  await source.patch(`/api/entities/things/fields/real`, { key: 'actual' });
  const many = Array.from({ length: 60 }, (_, n) => ({
    op: 'create',
    data: { type: `number ${n}`, parent: first.id },
  }));
  expect((await source.post(`${THINGS}/bulk`, { operations: many })).status).toBe(200);
  await made(source, '/api/roles', {
    name: 'clerk',
    permissions: { things: ['read'] },
    entities: { things: { excludeFields: ['mail'], rowFilter: 'flag = true' } },
  });
  await source.patch('/api/roles/viewer', { permissions: { groups: ['read'] } });
  const ada = await made(source, '/api/users', {
    email: 'Ada@example.com',
    name: 'Ada',
    role: 'clerk',
    password: PASSWORD,
  });
  await made(source, '/api/users', { email: 'bob@example.com', name: 'Bob', role: 'member', password: PASSWORD });
  await source.patch(`/api/users/${ada.id}`, { name: 'Ada L.' });
  const login = { email: 'bob@example.com', password: PASSWORD };
  const { token } = (await service.anonymous.post('/api/auth/tenant/login', login, { 'x-tenant-id': source.slug })).body
    .data;
  const bob = service.anonymous.with({ authorization: `Bearer ${token}` });
  await made(bob, THINGS, { type: 'of Bob' });
  await made(source, '/api/views', {
    entitySlug: 'things',
    slug: 'flagged',
    name: 'Flagged',
    filterDsl: { validate: [{ condition: 'flag = true' }] },
  });
  await made(source, '/api/rules', {
    name: 'count',
    entity: 'things',
    trigger: 'after_create',
    action: { type: 'create_record', entity: 'groups', values: { title: '{{type}}', best: first.id } },
    isActive: false,
  });
  const api = await made(source, '/api/apis', {
    name: 'Shop',
    slug: 'shop',
    roles: ['clerk'],
    permissions: { '*': { clerk: ['read'] } },
  });
  await made(source, `/api/apis/${api.id}/keys`, { role: 'clerk', label: 'one', ttlDays: 1 });
  await made(source, '/api/webhooks/subscriptions', {
    entity_name: 'things',
    event_types: ['record.created'],
    url: 'https://receiver.example/hook',
    role: 'clerk',
    filters: 'flag = true',
    fields: ['type'],
    include: ['previous'],
  });
  for (let n = 1; n <= 6; n++) {
    const url = `https://receiver.example/${n}`;
    await made(source, '/api/webhooks/subscriptions', { entity_name: '*', event_types: ['record.deleted'], url });
  }
  document = await exportOf(source.slug);
});
afterAll(async () => service.stop());

describe('an import', () => {
  test('with the ids kept makes a tenant whose export is the same document', async () => {
    const { client, created, tenant } = await imported(document, { name: 'Second' });
    expect(created).toEqual(linesOf(document).at(-1).counts);
    expect(tenant).toMatchObject({ name: 'Second', status: 'active', settings: linesOf(document)[0].tenant.settings });
    expect((await client.get('/api/tenant')).body.data).toEqual(tenant);
    const second = await exportOf(tenant.slug);
    expect(comparable(second)).toEqual(comparable(document));
    const [subscription] = (await client.get('/api/webhooks/subscriptions')).body.data;
    expect(subscription).toMatchObject({ is_active: false, has_secret: false });
    const third = await imported(second);
    const again = await exportOf(third.tenant.slug);
    const withoutIds = (text: string): string => textOf(comparable(text));
    expect(withoutIds(again)).toBe(withoutIds(second));
  });

  test('makes a tenant that works: search, filters, unique values, relations, versions, counts, sign-in', async () => {
    const { client, tenant } = await imported(document);
    const get = async (path: string): Promise<Json> => (await client.get(path)).body.data;
    const things = '/api/entities/things/records';
    expect((await get(`${things}?search=second`)).items).toHaveLength(1);
    expect((await get(`${things}?filters=mail = "ada@example.com"`)).total).toBe(1);
    expect((await client.post(things, { type: 'x', mail: 'ada@example.com' })).status).toBe(409);
    const [group] = (await get('/api/entities/groups/records?resolve=true')).items;
    expect(group.best.type).toBe('first');
    const { headers } = await client.get(`/api/entities/groups/records/${group.id}`);
    expect(headers.get('etag')).toBe('"3"');
    expect((await client.delete(`/api/entities/groups/records/${group.id}`)).status).toBe(409);
    const counts = async (slug: string): Promise<Json> =>
      (await service.admin.get(`${TENANTS}/${slug}`)).body.data.counts;
    expect(await counts(tenant.slug)).toEqual(await counts(source.slug));
    const used = (await source.get('/api/tenant/usage')).body.data.now;
    expect((await get('/api/tenant/usage')).now).toEqual(used);
    const login = { email: 'ada@example.com', password: PASSWORD };
    const signedIn = await service.anonymous.post('/api/auth/tenant/login', login, { 'x-tenant-id': tenant.slug });
    expect(signedIn.body.data.user).toMatchObject({ name: 'Ada L.', role: 'clerk' });
    expect((await client.post(things, { type: 'new' })).status).toBe(201);
  });

  test('of a role that hides a dropped field goes on hiding its key', async () => {
    const tenant = await service.tenant();
    await made(tenant, '/api/entities', { name: 'people', fields: [{ key: 'pay', type: 'integer' }] });
    const people = { excludeFields: ['pay'] };
    await made(tenant, '/api/roles', { name: 'reader', permissions: { people: ['read'] }, entities: { people } });
    expect((await tenant.delete('/api/entities/people/fields/pay')).status).toBe(200);
    const { client } = await imported(await exportOf(tenant.slug));
    expect((await client.get('/api/roles/reader')).body.data.entities).toEqual({ people });
  });

  test('makes no event, no history and no rule run for its records', async () => {
    const rule = { ...ofType(linesOf(document), 'rule')[0], isActive: true };
    const lines = linesOf(document).map((line) => (line.type === 'rule' ? rule : line));
    const { client } = await imported(textOf(lines));
    expect((await client.get('/api/changes?since=earliest')).body.data.items).toEqual([]);
    const { total } = (await client.get('/api/entities/groups/records')).body.data;
    expect(total).toBe(1);
  });

  test('with new ids everything else is equal, relations included', async () => {
    const { tenant } = await imported(document, { ids: 'new' });
    const [, ...before] = linesOf(document);
    const [, ...after] = linesOf(await exportOf(tenant.slug));
    const known = new Map<string, string>();
    const noteIds = (old: Json, now: Json): void => {
      if (old === null || typeof old !== 'object') return;
      for (const key of Object.keys(old)) {
        if (['id', 'entityId', 'createdBy', 'updatedBy'].includes(key) && old[key] !== null)
          known.set(old[key], now[key]);
        else noteIds(old[key], now?.[key]);
      }
    };
    for (const [i, line] of before.entries()) noteIds(line, after[i]);
    let text = textOf(comparable(`{}\n${textOf(before)}`));
    for (const [old, now] of known) {
      expect(now).not.toBe(old);
      text = text.replaceAll(old, now);
    }
    expect(textOf(comparable(`{}\n${textOf(after)}`))).toBe(text);
    expect(new Set(known.values()).size).toBe(known.size);
  });

  test('needs the right to manage tenants, a free slug, and a document', async () => {
    expect((await source.post(`${TENANTS}/import`, document, NDJSON)).status).toBe(403);
    expect((await importing(document, { slug: source.slug })).status).toBe(409);
    expect((await importing(document, {})).status).toBe(409);
    expect((await importing(document, { slug: 'No' })).body.error.details).toMatchObject([{ path: 'slug' }]);
    expect((await importing(document, { slug: newSlug(), ids: 'some' })).status).toBe(400);
    expect((await service.admin.post(`${TENANTS}/import?slug=${newSlug()}`, {})).status).toBe(415);
  });

  const FAULTS: [what: string, change: (lines: Json[]) => unknown, path: RegExp][] = [
    ['no header', (lines) => lines.shift(), /^lines\.1\.type$/],
    ['another format', ([header]) => Object.assign(header, { version: 2 }), /^lines\.1\.version$/],
    ['no end', (lines) => lines.pop(), /^lines\.\d+$/],
    ['a line after the end', (lines) => lines.push({ type: 'role' }), /^lines\.\d+$/],
    ['wrong counts', (lines) => lines.splice(-2, 1), /^lines\.\d+\.counts\.record$/],
    ['an unknown kind', (lines) => lines.splice(3, 0, { type: 'bot' }), /^lines\.4\.type$/],
    ['a kind out of order', (lines) => lines.splice(-1, 0, lines[1]), /^lines\.\d+\.type$/],
    [
      'a field of no type',
      ([, entity]) => Object.assign(entity.fields[0], { type: 'x' }),
      /^lines\.2\.fields\.0\.type$/,
    ],
    [
      'a relation to nothing',
      ([, entity]) => Object.assign(entity.fields[1], { entity: 'x' }),
      /^lines\.2\.fields\.1\.entity$/,
    ],
    ['an entity twice', (lines) => lines.splice(2, 0, lines[1]), /^lines\.3\.name$/],
    [
      'the id that stands for every entity',
      ([, entity]) => Object.assign(entity, { id: '00000000-0000-0000-0000-000000000000' }),
      /^lines\.2\.id$/,
    ],
    [
      'a role filter',
      (lines) => Object.assign(ofType(lines, 'role').at(-1).entities.things, { rowFilter: 'x =' }),
      /\.rowFilter$/,
    ],
    ['a user’s role', (lines) => Object.assign(ofType(lines, 'user')[0], { role: 'x' }), /^lines\.\d+\.role$/],
    [
      'an address twice',
      (lines) => Object.assign(ofType(lines, 'user')[0], { email: 'BOB@example.com' }),
      /^lines\.\d+\.email$/,
    ],
    ['a hash', (lines) => Object.assign(ofType(lines, 'user')[0], { passwordHash: 'x' }), /\.passwordHash$/],
    [
      'a view’s condition',
      (lines) => Object.assign(ofType(lines, 'view')[0], { filterDsl: { validate: [{ condition: 'x = 1' }] } }),
      /\.condition$/,
    ],
    ['a rule’s entity', (lines) => Object.assign(ofType(lines, 'rule')[0], { entity: 'x' }), /^lines\.\d+\.entity$/],
    ['a URL', (lines) => Object.assign(ofType(lines, 'subscription')[0], { url: 'ftp://x' }), /^lines\.\d+\.url$/],
    [
      'a time',
      (lines) => Object.assign(ofType(lines, 'record')[0].data, { createdAt: '2026-02-30T00:00:00.000Z' }),
      /\.data\.createdAt$/,
    ],
    [
      'a version that leaves none for changes',
      (lines) => Object.assign(ofType(lines, 'record')[0], { version: Number.MAX_SAFE_INTEGER }),
      /^lines\.\d+\.version$/,
    ],
    ['an unknown field', (lines) => Object.assign(ofType(lines, 'record')[0].data, { x: 1 }), /\.data\.x$/],
    ['a value', (lines) => Object.assign(ofType(lines, 'record').at(-1).data, { whole: 11 }), /\.data\.whole$/],
    [
      'a required value',
      (lines) => Object.assign(ofType(lines, 'record').at(-1).data, { type: null }),
      /\.data\.type$/,
    ],
    [
      'a unique value',
      (lines) => Object.assign(ofType(lines, 'record').at(-1).data, { mail: 'ada@example.com' }),
      /\.data\.mail$/,
    ],
    [
      'an id twice',
      (lines) => Object.assign(ofType(lines, 'record').at(-1).data, { id: ofType(lines, 'record').at(-2).data.id }),
      /\.data\.id$/,
    ],
    [
      'a relation',
      (lines) => Object.assign(ofType(lines, 'record').at(-1).data, { parent: newId() }),
      /\.data\.parent$/,
    ],
    [
      'one of many relations',
      (lines) => Object.assign(ofType(lines, 'record').at(-1).data, { groups: [newId()] }),
      /\.data\.groups$/,
    ],
    [
      'a record’s entity',
      (lines) => Object.assign(ofType(lines, 'record')[0], { entity: 'x' }),
      /^lines\.\d+\.entity$/,
    ],
  ];
  test.each(FAULTS)('names the line and the member of a fault, and leaves nothing: %s', async (_, change, path) => {
    const lines = linesOf(document);
    change(lines);
    const slug = newSlug();
    const answer = await importing(textOf(lines), { slug });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.error.details[0].path).toMatch(path);
    expect(await leftOf(slug)).toEqual(NOTHING);
  });

  test('of a document that is cut after any 1,000 bytes is refused and leaves nothing', async () => {
    const few = linesOf(document).filter(({ data }) => !data?.type?.startsWith('number'));
    few.at(-1).counts.record = ofType(few, 'record').length;
    const bytes = new TextEncoder().encode(textOf(few));
    expect(bytes.length).toBeGreaterThan(9_000);
    for (let end = 1_000; end < bytes.length; end += 1_000) {
      const slug = newSlug();
      const answer = await importing(new TextDecoder().decode(bytes.subarray(0, end)), { slug });
      expect(answer.status, answer.text).toBe(400);
      expect(answer.body.error.message).toMatch(/^lines\.\d+/);
    }
    expect(await leftOf('none')).toEqual(NOTHING);
  });

  test('whose upload breaks off leaves nothing', async () => {
    const slug = newSlug();
    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    const head = [
      `POST ${TENANTS}/import?slug=${slug} HTTP/1.1`,
      `Host: ${hostname}`,
      `X-Admin-Secret: ${ADMIN_SECRET}`,
      'Content-Type: application/x-ndjson',
      `Content-Length: ${document.length * 2}`,
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n${document.slice(0, -200)}`);
    const arriving = sql`select id from platform.arriving_tenants`;
    while ((await service.app.db.rows(arriving)).length === 0) await Bun.sleep(5);
    socket.destroy();
    while ((await service.app.db.rows(arriving)).length > 0) await Bun.sleep(5);
    expect(await leftOf(slug)).toEqual(NOTHING);
  });

  test('whose process has died is dropped by another', async () => {
    const id = newId();
    const schema = `t_${id.replaceAll('-', '')}`;
    await service.app.db.rows(sql`
      insert into platform.arriving_tenants values (${id}::uuid, ${newId()}::uuid, now())`);
    await service.app.db.rows(sql`create schema ${identifier(schema)}`);
    await dropAbandoned(service.app);
    expect(await leftOf('none')).toEqual(NOTHING);
  });
});

describe('a clone', () => {
  const cloning = (slug: string, body: object): Promise<Answer> => service.admin.post(`${TENANTS}/${slug}/clone`, body);

  test('has everything but hashes of passwords', async () => {
    const slug = newSlug();
    const answer = await cloning(source.slug, { slug, name: 'Staging' });
    expect(answer.status, answer.text).toBe(201);
    expect(answer.body.data.created).toEqual(linesOf(document).at(-1).counts);
    const expected = comparable(document).map(({ passwordHash: _, ...line }) =>
      line.type === 'user' ? { ...line, passwordHash: null } : line,
    );
    expect(comparable(await exportOf(slug))).toEqual(expected);
  });

  test('masks values: null leaves them out, a hash keeps equal ones equal and is another in each clone', async () => {
    const mask = {
      things: { mail: 'hash', type: 'hash', moment: 'null', actual: 'hash', ref: 'hash', exact: 'hash', site: 'hash' },
    };
    const copies: Json[][] = [];
    for (let i = 0; i < 2; i++) {
      const slug = newSlug();
      const answer = await cloning(source.slug, { slug, name: 'Masked', mask });
      expect(answer.status, answer.text).toBe(201);
      const text = await exportOf(slug);
      for (const known of ['ada@example.com', '"second"', ':1e-7', '12345678901234567890.10'])
        expect(text).not.toContain(known);
      const client = service.anonymous.with({ 'x-api-key': answer.body.data.apiKey });
      expect((await client.get('/api/entities/things/records?search=second')).body.data.items).toEqual([]);
      copies.push(
        ofType(linesOf(text), 'record')
          .filter(({ entity }) => entity === 'things')
          .map(({ data }) => data),
      );
    }
    const [one = [], two = []] = copies;
    const originals = ofType(linesOf(document), 'record')
      .filter(({ entity }) => entity === 'things')
      .map(({ data }) => data);
    originals.forEach((original, i) => {
      expect(one[i].moment).toBeNull();
      expect(one[i].mail === null).toBe(original.mail === null);
      expect(one[i].type).not.toBe(two[i].type);
      expect(one[i]).toMatchObject({
        id: original.id,
        day: original.day,
        parent: original.parent,
        createdAt: original.createdAt,
      });
    });
    // All but one have the default, so their masked values stay equal.
    expect(new Set(one.map(({ ref }) => ref)).size).toBe(new Set(originals.map(({ ref }) => ref)).size);
    expect(new Set(one.map(({ type }) => type)).size).toBe(new Set(originals.map(({ type }) => type)).size);
  });

  test('with a mask that does not fit is refused, naming the fields', async () => {
    const mask = { things: { type: 'null', code: 'hash', choice: 'hash', x: 'null' }, nothing: { y: 'null' } };
    const slug = newSlug();
    const answer = await cloning(source.slug, { slug, name: 'Masked', mask });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.map(({ path }: Json) => path)).toEqual([
      'mask.things.type',
      'mask.things.code',
      'mask.things.choice',
      'mask.things.x',
      'mask.nothing',
    ]);
    expect((await cloning(newSlug(), { slug, name: 'x' })).status).toBe(404);
    expect((await cloning(source.slug, { slug: source.slug, name: 'x' })).status).toBe(409);
    expect(await leftOf(slug)).toEqual(NOTHING);
  });

  test('is of one moment of a tenant that is being written', async () => {
    const busy = await service.tenant();
    await made(busy, '/api/entities', { name: 'a', fields: [] });
    await made(busy, '/api/entities', {
      name: 'b',
      fields: [{ key: 'a', type: 'relation', entity: 'a', required: true }],
    });
    let isOver = false;
    const write = async (): Promise<void> => {
      while (!isOver) {
        const { id } = await made(busy, '/api/entities/a/records', {});
        await made(busy, '/api/entities/b/records', { a: id });
      }
    };
    const writing = write();
    for (let i = 0; i < 3; i++) {
      const answer = await cloning(busy.slug, { slug: newSlug(), name: 'Copy' });
      expect(answer.status, answer.text).toBe(201);
      const lines = linesOf(await exportOf(answer.body.data.tenant.slug));
      const of = (name: string): number => lines.filter(({ entity }) => entity === name).length;
      expect([0, 1]).toContain(of('a') - of('b'));
    }
    isOver = true;
    await writing;
  });
});

test('one operator’s slow uploads and readers leave places to the others', async () => {
  const other = service.anonymous.with({ 'x-admin-key': await adminKey(service, ['tenants:manage']) });
  const end = Promise.withResolvers<void>();
  const upload = (): ReadableStream<Uint8Array> =>
    new ReadableStream({
      start: async (controller) => {
        controller.enqueue(Buffer.from('{"type":'));
        await end.promise;
        controller.close();
      },
    });
  const slow = [1, 2].map(() => service.admin.post(`${TENANTS}/import`, upload(), NDJSON));
  while ((await importing('{}', {})).status !== 429);
  const answer = await other.post(`${TENANTS}/import?slug=${newSlug()}`, document, NDJSON);
  expect(answer.status, answer.text).toBe(201);
  end.resolve();
  expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([400, 400]);
  const large = await service.tenant();
  await made(large, '/api/entities', { name: 'a', fields: [{ key: 'v', type: 'text' }] });
  const lines = `${JSON.stringify({ v: 'x'.repeat(500_000) })}\n`.repeat(60);
  expect((await large.post('/api/entities/a/records/import?format=ndjson', lines, NDJSON)).status).toBe(200);
  const reading = await Promise.all(
    [1, 2].map(async () => {
      const headers = { 'x-admin-secret': ADMIN_SECRET };
      const connection = await rawGet(service.url, `${TENANTS}/${large.slug}/export`, headers);
      await connection.received('HTTP/1.1 200');
      connection.socket.pause();
      return connection;
    }),
  );
  expect((await service.admin.get(`${TENANTS}/${source.slug}/export`)).status).toBe(429);
  const exporting = other.get(`${TENANTS}/${source.slug}/export`);
  // The embedded store has fewer connections than there are places.
  await Promise.race([exporting, Bun.sleep(1_000)]);
  for (const connection of reading) connection.close();
  expect((await exporting).status).toBe(200);
});

test('all tenants of an installation are restored into an empty one while the first continues', async () => {
  // The empty one is on embedded stores, which are tested on Bun; the first one may be under Deno.
  const { SERVICE_RUNTIME: runtime } = process.env;
  delete process.env.SERVICE_RUNTIME;
  const empty = await startService({ DATABASE_URL: '', REDIS_URL: '' });
  if (runtime !== undefined) process.env.SERVICE_RUNTIME = runtime;
  try {
    const copied = await service.tenant();
    await made(copied, '/api/entities', { name: 'notes', fields: [{ key: 'n', type: 'integer' }] });
    for (const { slug } of [source, copied]) {
      const text = await exportOf(slug);
      await source.post('/api/entities/groups/records', { title: 'written meanwhile' });
      const answer = await empty.admin.post(`${TENANTS}/import`, text, NDJSON);
      expect(answer.status, answer.text).toBe(201);
      const restored = (await empty.admin.get(`${TENANTS}/${slug}/export?secrets=true`)).text;
      const active = (all: string): string =>
        all.split('\n').slice(1).join('\n').replaceAll('"is_active":true', '"is_active":false');
      expect(active(restored)).toBe(active(text));
    }
  } finally {
    await empty.stop();
  }
});
