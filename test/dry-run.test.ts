// Dry runs: with `dryRun=true` a write responds as the call would, and leaves nothing behind. Contract: trying#dry-runs.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readdir } from 'node:fs/promises';
import { join as joinPath } from 'node:path';
import { identifier, join, type Sql, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { addRole, userToken } from './support/credentials.ts';
import { subscribe } from './support/deliveries.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { callTool } from './support/mcp-calls.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import {
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { type EventStream, openEvents } from './support/streams.ts';

const DEALS = '/api/entities/deals/records';
const NOTES = '/api/entities/notes/records';

let service: TestService;
let receiver: Receiver;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8' });
  receiver = await startReceiver();
});
afterAll(async () => {
  await service.stop();
  await receiver.stop();
});

/** Tables that change by themselves, or by requests that write nothing. */
const MOVING = ['relay', 'usage_days', 'stream_processes', 'stream_subscriptions'];

/** A checksum of every table of the service and of the tenant, without other tenants' rows; every sequence; what usage counts. */
async function stored({ id }: { id: string }): Promise<Json> {
  const { db } = service.app;
  const schemas = ['platform', schemaOf(id)];
  const tables = await db.rows<{ schema: string; name: string; of_tenants: boolean }>(sql`
    select n.nspname::text as schema, c.relname::text as name, exists (
      select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'tenant_id' and a.atttypid = 'uuid'::regtype
    ) as of_tenants
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = any(${schemas}::text[]) and c.relkind = 'r' and c.relname <> all(${MOVING}::text[])
    order by 1, 2`);
  const sumOf = ({ schema, name, of_tenants }: (typeof tables)[number]): Sql => {
    const own = of_tenants ? sql`where x.tenant_id = ${id}::uuid` : sql``;
    return sql`
      select ${`${schema}.${name}`} as table, count(*) as n, md5(coalesce(string_agg(t.text, ' ' order by t.text), '')) as sum
      from (select (to_jsonb(x) - 'last_used_at')::text as text from ${identifier(schema, name)} as x ${own}) as t`;
  };
  const sums = await db.rows(join(tables.map(sumOf), ' union all '));
  const objects = await db.rows(sql`
    select c.relname::text as name, c.relkind::text as kind, c.oid::text as oid
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = any(${schemas}::text[]) order by 1`);
  const sequences = await db.rows(sql`
    select schemaname::text as schema, sequencename::text as name, last_value from pg_sequences
    where schemaname = any(${schemas}::text[]) order by 1, 2`);
  const { writes, events } = service.app.counters.of(id);
  return { sums, objects, sequences, used: { writes, events } };
}

/** The same, once the deliveries of earlier calls have ended. */
async function settled(tenant: TestTenant): Promise<Json> {
  for (let before = await stored(tenant); ; ) {
    await Bun.sleep(10);
    const pending = await service.app.db.rows(sql`
      select from platform.webhook_deliveries where tenant_id = ${tenant.id}::uuid and status = 'pending'`);
    const now = await stored(tenant);
    if (pending.length === 0 && Bun.deepEquals(now, before)) return now;
    before = now;
  }
}

const mails = (): Promise<string[]> => readdir(joinPath(service.app.config.dataDir, 'mail')).catch(() => []);

/** The response without values that differ from call to call. */
function comparable({ status, headers, text }: Answer): Json {
  const body = text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\d{4}-\d{2}-\d{2}T[0-9:.]+Z/g, '<time>');
  return { status, body, etag: headers.get('etag') };
}

function dry(path: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}dryRun=true`;
}

interface Tried {
  /** The answer without its member `dryRun`, which is `report`. */
  answer: Answer;
  report: Json;
}

/** Tries a call. A refusal has no report. */
async function tried(client: Client, method: string, path: string, body?: unknown, headers = {}): Promise<Tried> {
  const answer = await client.request(method, dry(path), body, headers);
  const at = answer.text.lastIndexOf(',"dryRun":');
  if (answer.status >= 400) {
    expect(at).toBe(-1);
    return { answer, report: undefined };
  }
  expect([answer.status, at > 0, answer.text]).toEqual([answer.status, true, answer.text]);
  return { answer: { ...answer, text: `${answer.text.slice(0, at)}}` }, report: answer.body.dryRun };
}

const RULES = [
  { name: 'stamp', entity: 'deals', trigger: 'before_create', action: { type: 'set', values: { stage: 'new' } } },
  {
    name: 'no huge deals',
    entity: 'deals',
    trigger: 'before_update',
    condition: 'amount > 1000',
    action: { type: 'reject', message: 'too large' },
  },
  {
    name: 'log',
    entity: 'deals',
    trigger: 'after_update',
    action: { type: 'create_record', entity: 'notes', values: { title: '{{title}}' } },
  },
];

/** A tenant with deals and notes about them, rules, a view, a role, a webhook and one that judges changes. */
async function furnished(): Promise<{ tenant: TestTenant; ids: Record<string, string> }> {
  const tenant = await service.tenant();
  await createEntity(tenant, 'deals', [
    ...fields('title text', 'amount integer', 'stage text'),
    { key: 'code', type: 'text', unique: true },
  ]);
  await createEntity(tenant, 'notes', [
    ...fields('title text'),
    { key: 'deal', type: 'relation', entity: 'deals', onDelete: 'cascade' },
  ]);
  const ids: Record<string, string> = {};
  for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
    ids[key] = (await createRecord(tenant, DEALS, { title: key, amount: 1, code: key })).id;
  }
  await createRecord(tenant, NOTES, { title: 'on b', deal: ids.b });
  for (const rule of RULES) {
    const made = await tenant.post('/api/rules', rule);
    expect([made.status, made.text]).toEqual([201, made.text]);
    ids[rule.name] = made.body.data.id;
  }
  await tenant.post('/api/views', {
    entitySlug: 'deals',
    slug: 'open',
    name: 'Open',
    filterDsl: { validate: [{ condition: 'stage != won' }] },
  });
  await tenant.post('/api/roles', {
    name: 'clerk',
    permissions: { deals: ['read', 'create', 'update'], notes: ['read'], 'view:open': ['read'] },
    entities: { deals: { fields: ['title', 'amount'], rowFilter: 'amount < 100' } },
  });
  await subscribe(tenant, receiver.url, { entity_name: 'deals' });
  await subscribe(tenant, `${receiver.url}/judged`, { entity_name: 'deals', filters: 'amount > 50' });
  return { tenant, ids };
}

type Case = [
  method: string,
  path: (ids: Record<string, string>) => string,
  body?: (ids: Record<string, string>) => unknown,
];
const at = (path: string) => (): string => path;
const deal = (key: string) => (ids: Record<string, string>) => `${DEALS}/${ids[key]}`;
const rule = (name: string) => (ids: Record<string, string>) => `/api/rules/${ids[name]}`;

/** In this order: each is tried, then done. */
const CASES: Record<string, Case> = {
  'create by upsert': ['POST', at(`${DEALS}?upsert=code`), () => ({ title: 'up', code: 'up' })],
  'change by upsert': ['POST', at(`${DEALS}?upsert=code`), () => ({ title: 'up again', code: 'up' })],
  'an import': ['POST', at(`${DEALS}/import?format=csv`), () => 'title,amount,code\ni,1,i1\nj,x,i2\nk,3,i1\nl,4,a\n'],
  'an import that upserts': [
    'POST',
    at(`${DEALS}/import?format=csv&upsert=code`),
    () => 'title,amount,code\nm,1,i1\nn,2,i3\no,3,i3\np,5000,i1\n',
  ],
  'an import with an unknown column': ['POST', at(`${DEALS}/import?format=csv`), () => 'title,nothing\na,b\n'],
  'an import of more than a batch': [
    'POST',
    at(`${DEALS}/import?format=csv`),
    () => `title,code\n${Array.from({ length: 1_100 }, (_, i) => `many,m${i % 1_050}\n`).join('')}`,
  ],
  'create a record': ['POST', at(DEALS), () => ({ title: 'new', amount: 60, code: 'n' })],
  'create an invalid record': ['POST', at(DEALS), () => ({ amount: 'x' })],
  'create a duplicate': ['POST', at(DEALS), () => ({ title: 'again', code: 'a' })],
  'create in an unknown entity': ['POST', at('/api/entities/nothing/records'), () => ({})],
  'change a record': ['PATCH', deal('a'), () => ({ title: 'changed', amount: 70 })],
  'change a record to a duplicate': ['PATCH', deal('a'), () => ({ code: 'b' })],
  'change a record against a rule': ['PATCH', deal('a'), () => ({ amount: 5_000 })],
  'replace a record': ['PUT', deal('c'), () => ({ title: 'put' })],
  'change a record that is not there': ['PATCH', at(`${DEALS}/00000000-0000-4000-8000-000000000000`), () => ({})],
  'delete a record with its notes': ['DELETE', deal('b')],
  'restore a deleted record': ['POST', (ids) => `${DEALS}/${ids.b}/restore`, () => ({ version: 1 })],
  'restore a version': ['POST', (ids) => `${DEALS}/${ids.a}/restore`, () => ({ version: 1 })],
  'restore a version that never was': ['POST', (ids) => `${DEALS}/${ids.a}/restore`, () => ({ version: 99 })],
  'delete a record for good': ['DELETE', (ids) => `${DEALS}/${ids.f}?erase=true`],
  'a bulk call': [
    'POST',
    at(`${DEALS}/bulk`),
    (ids) => ({
      operations: [
        { op: 'create', data: { title: 'x', code: 'x' } },
        { op: 'update', id: ids.c, data: { amount: 80 } },
        { op: 'delete', id: ids.d },
      ],
    }),
  ],
  'a bulk call that fails': [
    'POST',
    at(`${DEALS}/bulk`),
    () => ({ operations: [1, 2].map(() => ({ op: 'create', data: { title: 'y', code: 'y' } })) }),
  ],
  'a bulk call of which some fail': [
    'POST',
    at(`${DEALS}/bulk`),
    (ids) => ({
      atomic: false,
      operations: [
        { op: 'create', data: { title: 'z', code: 'z' } },
        { op: 'create', data: { title: 'z', code: 'z' } },
        { op: 'update', id: ids.c, data: { amount: 9_000 } },
        { op: 'update', id: ids.e, data: { code: 'a' } },
        { op: 'delete', id: ids.d },
      ],
    }),
  ],
  'create an entity': ['POST', at('/api/entities'), () => ({ name: 'extra', fields: fields('title text') })],
  'create an entity again': ['POST', at('/api/entities'), () => ({ name: 'deals', fields: [] })],
  'change an entity': ['PATCH', at('/api/entities/deals'), () => ({ label: 'Deals' })],
  'add a field': ['POST', at('/api/entities/deals/fields'), () => ({ key: 'city', type: 'text', indexed: true })],
  'add a required field': [
    'POST',
    at('/api/entities/deals/fields'),
    () => ({ key: 'rank', type: 'integer', required: true, default: 3 }),
  ],
  'add a required field without a default': [
    'POST',
    at('/api/entities/deals/fields'),
    () => ({ key: 'level', type: 'integer', required: true }),
  ],
  'rename a field': ['PATCH', at('/api/entities/deals/fields/rank'), () => ({ key: 'grade', label: 'Grade' })],
  'retype a field': ['PATCH', at('/api/entities/deals/fields/grade'), () => ({ type: 'text', maxLength: 20 })],
  'retype a field that does not allow it': [
    'PATCH',
    at('/api/entities/deals/fields/code'),
    () => ({ type: 'integer' }),
  ],
  'make a field unique that is not': ['PATCH', at('/api/entities/deals/fields/grade'), () => ({ unique: true })],
  'drop a field that is used': ['DELETE', at('/api/entities/deals/fields/stage?confirm=stage')],
  'drop a field with values': ['DELETE', at('/api/entities/deals/fields/grade')],
  'drop a field': ['DELETE', at('/api/entities/deals/fields/grade?confirm=grade')],
  'add a role': ['POST', at('/api/roles'), () => ({ name: 'reader', permissions: { deals: ['read'] } })],
  'add a role again': ['POST', at('/api/roles'), () => ({ name: 'clerk', permissions: {} })],
  'change a role': ['PATCH', at('/api/roles/clerk'), () => ({ description: 'works' })],
  'delete a role': ['DELETE', at('/api/roles/reader')],
  'add a view': [
    'POST',
    at('/api/views'),
    () => ({ entitySlug: 'deals', slug: 'won', name: 'Won', filterDsl: { validate: [{ condition: 'stage = won' }] } }),
  ],
  'change a view': ['PUT', at('/api/views/open'), () => ({ name: 'Still open' })],
  'delete a view': ['DELETE', at('/api/views/won')],
  'add a rule': ['POST', at('/api/rules'), () => ({ ...RULES[0], name: 'another', priority: 5 })],
  'change a rule': ['PATCH', rule('stamp'), () => ({ isActive: false })],
  'delete a rule': ['DELETE', rule('log')],
  'delete an entity with records': ['DELETE', at('/api/entities/deals')],
  'delete an entity that others refer to': ['DELETE', at('/api/entities/deals?confirm=deals')],
  'delete an entity': ['DELETE', at('/api/entities/notes?confirm=notes')],
};

describe('a dry run of each call answers as the call, and leaves nothing', () => {
  let tenant: TestTenant;
  let ids: Record<string, string>;
  let stream: EventStream;
  beforeAll(async () => {
    ({ tenant, ids } = await furnished());
    stream = await openEvents(service.url, tenant.slug, tenant.key);
    expect(stream.status).toBe(200);
  });
  afterAll(() => stream.close());

  for (const [name, [method, path, bodyOf]] of Object.entries(CASES)) {
    test(name, async () => {
      const body = bodyOf?.(ids);
      const before = await settled(tenant);
      const { answer, report } = await tried(tenant, method, path(ids), body);
      expect(await stored(tenant)).toEqual(before);
      const done = await tenant.request(method, path(ids), body);
      expect(comparable(answer)).toEqual(comparable(done));
      if (report !== undefined) expect(Object.keys(report)).toEqual(['rules', 'events', 'webhooks', 'breaks']);
    });
  }

  test('no request, live event or mail follows one', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'the last', amount: 3, code: 'last' });
    const before = await mails();
    for (let n = 0; n < 5; n++) await tried(tenant, 'PATCH', `${DEALS}/${id}`, { amount: 800 + n });
    await tenant.patch(`${DEALS}/${id}`, { title: 'really' });
    while (!receiver.received.some(({ text }) => text.includes('"really"'))) await Bun.sleep(10);
    for (let event = await stream.next(); event.data.data?.fields?.title !== 'really'; ) event = await stream.next();
    await service.mailSettled();
    expect(await mails()).toEqual(before);
    expect(stream.text).not.toMatch(/"amount":80[0-4]/);
    expect(receiver.received.filter(({ text }) => /"amount":80[0-4]/.test(text))).toEqual([]);
  });
});

describe('what else a call would cause', () => {
  let tenant: TestTenant;
  let ids: Record<string, string>;
  beforeAll(async () => {
    ({ tenant, ids } = await furnished());
  });

  const none = { rules: [], events: 0, webhooks: 0, breaks: [] };

  test('rules, events and deliveries are counted, those for a subscription that judges changes too', async () => {
    const reportOf = async (method: string, path: string, body?: unknown): Promise<Json> =>
      (await tried(tenant, method, path, body)).report;
    const created = { title: 'x', amount: 60 };
    expect(await reportOf('POST', DEALS, created)).toEqual({ ...none, rules: ['stamp'], events: 1, webhooks: 2 });
    expect(await reportOf('PATCH', deal('a')(ids), { amount: 5 })).toEqual({
      ...none,
      rules: ['log'],
      events: 1,
      webhooks: 1,
    });
    expect(await reportOf('DELETE', deal('b')(ids))).toEqual({ ...none, events: 2, webhooks: 1 });
    const operations = [1, 2, 3].map((n) => ({
      op: 'create',
      data: { title: `${n}`, amount: 49 + n, code: `${n % 3}` },
    }));
    expect(await reportOf('POST', `${DEALS}/bulk`, { operations })).toEqual({
      ...none,
      rules: ['stamp'],
      events: 3,
      webhooks: 5,
    });
    // A failed operation counts nothing, however often the others are repeated without it.
    const some = [...operations, { op: 'create', data: { title: 'again', code: 'a' } }];
    const each = await reportOf('POST', `${DEALS}/bulk`, { operations: some, atomic: false });
    expect(each).toEqual({ ...none, rules: ['stamp'], events: 3, webhooks: 5 });
    expect(await reportOf('PATCH', '/api/entities/notes/fields/deal', { key: 'about' })).toEqual({
      ...none,
      events: 1,
    });
    expect(await reportOf('PATCH', '/api/roles/clerk', { description: 'x' })).toEqual(none);
  });

  test('a dropped entity breaks everything that names it, and loses its records', async () => {
    const { report } = await tried(tenant, 'DELETE', '/api/entities/notes?confirm=notes');
    expect(report.breaks).toEqual([
      { kind: 'role', name: 'clerk', text: 'loses its rights on notes' },
      { kind: 'rule', name: 'log', text: 'action.entity: is not an entity' },
      { kind: 'record', name: 'notes', text: 'are deleted', count: 1 },
    ]);
  });

  test('a dropped field takes its values, and is no longer shown; a narrowed one breaks the rules that set it', async () => {
    await createEntity(tenant, 'plain', [...fields('a text', 'b text'), { key: 'c', type: 'text', maxLength: 9 }]);
    for (const a of ['x', 'y', undefined]) await createRecord(tenant, '/api/entities/plain/records', { a, b: 'b' });
    const role = { name: 'sees_a', permissions: { plain: ['read'] }, entities: { plain: { fields: ['a', 'b'] } } };
    expect((await tenant.post('/api/roles', role)).status).toBe(201);
    const values = { c: 'too long' };
    const setting = { name: 'sets c', entity: 'plain', trigger: 'before_create', action: { type: 'set', values } };
    expect((await tenant.post('/api/rules', setting)).status).toBe(201);
    const dropped = await tried(tenant, 'DELETE', '/api/entities/plain/fields/a?confirm=a');
    expect(dropped.report.breaks).toEqual([
      { kind: 'role', name: 'sees_a', text: 'no longer shows a of plain' },
      { kind: 'record', name: 'plain', text: 'lose their value of a', count: 2 },
    ]);
    const narrowed = await tried(tenant, 'PATCH', '/api/entities/plain/fields/c', { maxLength: 3 });
    expect(narrowed.report.breaks).toEqual([
      { kind: 'rule', name: 'sets c', text: expect.stringContaining('action.values.c') },
    ]);
    expect((await tenant.get('/api/entities/plain')).body.data.fields.map(({ key }: Json) => key)).toEqual([
      'a',
      'b',
      'c',
    ]);
  });

  test('while fields are being changed, a change of fields is refused at once: waiting would hold a connection', async () => {
    const { db } = service.app;
    await db.rows(sql`
      insert into platform.definition_locks (tenant_id, holder, expires_at)
      values (${tenant.id}::uuid, gen_random_uuid(), now() + interval '1 minute')`);
    const began = performance.now();
    const answer = await tenant.post(dry('/api/entities/deals/fields'), { key: 'late', type: 'text' });
    await db.rows(sql`delete from platform.definition_locks where tenant_id = ${tenant.id}::uuid`);
    expect([answer.status, answer.body.error.message]).toEqual([409, expect.stringContaining('is in progress')]);
    // The call itself waits for five seconds.
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test('a deleted view takes its rights with it', async () => {
    const { report } = await tried(tenant, 'DELETE', '/api/views/open');
    expect(report.breaks).toEqual([{ kind: 'role', name: 'clerk', text: 'loses its rights on view:open' }]);
  });

  test('an Idempotency-Key is neither stored nor replayed', async () => {
    const headers = { 'idempotency-key': 'tried' };
    const first = await tried(tenant, 'POST', DEALS, { title: 'one' }, headers);
    const second = await tried(tenant, 'POST', DEALS, { title: 'two' }, headers);
    expect([first.answer.status, second.answer.status]).toEqual([201, 201]);
    const done = await tenant.post(DEALS, { title: 'three' }, headers);
    expect([done.status, done.headers.get('idempotent-replayed'), done.body.dryRun]).toEqual([201, null, undefined]);
    expect((await tried(tenant, 'POST', DEALS, { title: 'three' }, headers)).answer.status).toBe(201);
    expect((await tenant.request('POST', dry(DEALS), {}, { 'idempotency-key': 'no spaces' })).status).toBe(400);
  });

  test('a dry run obeys the role’s fields, rows and rights', async () => {
    const person = { email: 'clerk@acme.test', name: 'C', role: 'clerk', password: 'a-long-password' };
    expect((await tenant.post('/api/users', person)).status).toBe(201);
    const { email, password } = person;
    const login = await service.anonymous.post(
      '/api/auth/tenant/login',
      { email, password },
      { 'x-tenant-slug': tenant.slug },
    );
    const clerk = service.anonymous.with({ authorization: `Bearer ${login.body.data.token}` });
    const calls: [string, string, unknown?][] = [
      ['POST', DEALS, { title: 'mine', amount: 3 }],
      ['POST', DEALS, { title: 'hidden', stage: 'x' }],
      ['POST', DEALS, { title: 'beyond my rows', amount: 500 }],
      ['PATCH', deal('a')(ids), { amount: 20 }],
      ['PATCH', deal('a')(ids), { amount: 200 }],
      ['DELETE', deal('a')(ids)],
      ['POST', NOTES, { title: 'no' }],
      ['POST', `${DEALS}/import?format=csv`, 'title,amount\nf,1\ng,500\n'],
      ['DELETE', '/api/entities/notes?confirm=notes'],
    ];
    for (const [method, path, body] of calls) {
      const { answer } = await tried(clerk, method, path, body);
      const done = await clerk.request(method, path, body);
      expect([method, path, comparable(answer)]).toEqual([method, path, comparable(done)]);
    }
  });

  test('whose role does not read everything learns nothing from rules, webhooks and records that it does not see', async () => {
    const other = await service.tenant();
    const deals = await createEntity(other, 'deals', fields('title text', 'secret integer'));
    const notes = await createEntity(other, 'notes', [
      { key: 'deal', type: 'relation', entity: 'deals', onDelete: 'cascade' },
      { key: 'about', type: 'relation', entity: 'deals', onDelete: 'set_null' },
    ]);
    const { id } = await createRecord(other, deals, { title: 'x', secret: 7 });
    for (const about of [{ deal: id }, { deal: id }, { about: id }]) await createRecord(other, notes, about);
    const condition = 'secret = 7';
    for (const [name, trigger, action] of [
      ['stamp', 'before_update', { type: 'set', values: { secret: 7 } }],
      ['log', 'after_update', { type: 'create_record', entity: 'notes', values: {} }],
    ] as const) {
      const made = await other.post('/api/rules', { name, entity: 'deals', trigger, condition, action });
      expect([made.status, made.text]).toEqual([201, made.text]);
    }
    await subscribe(other, receiver.url, { entity_name: 'deals', filters: condition });
    const reportsOf = async (role: Json): Promise<Json[]> => {
      const { name } = await addRole(service, other, role);
      const headers = { authorization: `Bearer ${await userToken(service, other, name)}` };
      const client = service.anonymous.with(headers);
      const changed = await tried(client, 'PATCH', `${deals}/${id}`, { title: 'y' });
      const operations = [
        { op: 'update', id, data: { title: 'y' } },
        { op: 'delete', id },
      ];
      const many = await tried(client, 'POST', `${deals}/bulk`, { operations });
      const removed = await tried(client, 'DELETE', `${deals}/${id}`);
      const call = { entity_name: 'deals', record_id: id, dry_run: true };
      const { text } = await callTool(service.url, 'delete_record', call, headers);
      const { dryRun } = JSON.parse(text.replace(/^[^{]*data: /, '')).result.structuredContent;
      return [changed.report, many.report, removed.report, dryRun];
    };
    const deal = ['read', 'update', 'delete'];
    const all = (rules: string[], events: number, webhooks: number) => ({ rules, events, webhooks, breaks: [] });
    const hidden = [all([], 1, 0), all([], 2, 0), all([], 1, 0), all([], 1, 0)];
    const limits = [{ deals: { excludeFields: ['secret'] } }, { notes: { rowFilter: 'deal = null' } }];
    for (const entities of limits) {
      expect(await reportsOf({ permissions: { '*': ['read'], deals: deal }, entities })).toEqual(hidden);
    }
    expect(await reportsOf({ permissions: { deals: deal } })).toEqual(hidden);
    const acted = ['stamp', 'log'];
    expect(await reportsOf({ permissions: { '*': ['read'], deals: deal } })).toEqual([
      all(acted, 1, 1),
      all(acted, 5, 2),
      all([], 4, 1),
      all([], 4, 1),
    ]);
  });

  test('while others write, each call gets its own answer, and nothing of a dry run is seen or waited for', async () => {
    const path = deal('e')(ids);
    const until = performance.now() + 500;
    const write = async (title: string): Promise<number> => {
      let n = 0;
      for (; performance.now() < until; n++) {
        const answer = await tenant.patch(path, { title });
        expect([answer.status, answer.body.data.title]).toEqual([200, title]);
        const code = `${title} ${n}`;
        expect((await tenant.post(DEALS, { title, code })).status).toBe(201);
      }
      return n;
    };
    const tryOut = async (): Promise<number> => {
      let n = 0;
      for (; performance.now() < until; n++) {
        expect((await tried(tenant, 'PATCH', path, { title: 'tried' })).answer.status).toBe(200);
        expect((await tried(tenant, 'POST', DEALS, { title: 'tried', code: `b ${n}` })).answer.status).toBeOneOf([
          201, 409,
        ]);
        expect(
          (await tried(tenant, 'POST', '/api/entities/deals/fields', { key: 'k', type: 'text' })).answer.status,
        ).toBe(201);
      }
      return n;
    };
    const [first, second, dryRuns] = await Promise.all([write('a'), write('b'), tryOut()]);
    expect([first, second, dryRuns].every((n) => n > 0)).toBe(true);
    expect((await tenant.get(`${DEALS}?filters=${encodeURIComponent('title = tried')}`)).body.data.total).toBe(0);
    expect((await tenant.get('/api/entities/deals')).body.data.fields.some(({ key }: Json) => key === 'k')).toBe(false);
  });

  test('definitions and roles that are only tried enter no cache: the next call sees the stored ones', async () => {
    await tried(tenant, 'PATCH', '/api/roles/clerk', { permissions: {} });
    await tried(tenant, 'PATCH', '/api/entities/deals/fields/code', { required: false, label: 'Tried' });
    await tried(tenant, 'PUT', '/api/views/open', { name: 'Tried' });
    await tried(tenant, 'DELETE', rule('stamp')(ids));
    expect((await tenant.get('/api/roles/clerk')).body.data.permissions.deals).toEqual(['read', 'create', 'update']);
    expect((await tenant.get('/api/entities/deals')).text).not.toContain('Tried');
    expect((await tenant.get('/api/views')).text).not.toContain('Tried');
    expect((await createRecord(tenant, DEALS, { title: 'stamped' })).stage).toBe('new');
  });

  test('an agent tries a write with dry_run', async () => {
    const call = { entity_name: 'deals', data: { title: 'by an agent', amount: 60 }, dry_run: true };
    const before = (await tenant.get(DEALS)).body.data.total;
    const { text } = await callTool(service.url, 'create_record', call, { 'x-api-key': tenant.key });
    const { structuredContent } = JSON.parse(text.replace(/^[^{]*data: /, '')).result;
    expect(structuredContent).toMatchObject({
      title: 'by an agent',
      dryRun: { rules: ['stamp'], events: 1, webhooks: 2 },
    });
    expect((await tenant.get(DEALS)).body.data.total).toBe(before);
  });

  test('a quota refuses calls that would exceed it, and a dry run uses none of it', async () => {
    const quotas = { records: 2, writesPerMin: 3 };
    const path = `/api/admin/platform/tenants/${tenant.slug}`;
    const small = await service.tenant();
    await createEntity(small, 'deals', fields('title text'));
    expect((await service.admin.patch(path.replace(tenant.slug, small.slug), { quotas })).status).toBe(200);
    for (let n = 0; n < 5; n++) expect((await tried(small, 'POST', DEALS, { title: 'x' })).answer.status).toBe(201);
    const operations = [1, 2, 3].map(() => ({ op: 'create', data: { title: 'x' } }));
    expect((await tried(small, 'POST', `${DEALS}/bulk`, { operations })).answer.status).toBe(403);
    for (const status of [201, 201, 403]) expect((await small.post(DEALS, { title: 'x' })).status).toBe(status);
    expect((await tried(small, 'POST', DEALS, { title: 'x' })).answer.status).toBe(403);
  });
});
