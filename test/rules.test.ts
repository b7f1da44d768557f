// Business rules: their definitions, before rules inside the write, after rules in the worker.
// Contract: decisions#rules.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { runRulesOnce } from '../src/rules/worker.ts';
import { newId } from '../src/runtime/ids.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { withRole } from './support/credentials.ts';
import { type Answer, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { runInSchema, storedEvents } from './support/tenant-database.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const TASKS = '/api/entities/task/records';
const FIELDS = [
  { key: 'title', type: 'text', required: true },
  { key: 'status', type: 'select', options: ['open', 'done', 'closed'], default: 'open' },
  { key: 'n', type: 'integer' },
  { key: 'note', type: 'text' },
];

async function newTenant(): Promise<TestTenant> {
  const tenant = await service.tenant();
  expect((await tenant.post('/api/entities', { name: 'task', fields: FIELDS })).status).toBe(201);
  const log = {
    name: 'log',
    fields: [
      { key: 'line', type: 'text', required: true },
      { key: 'n', type: 'integer' },
    ],
  };
  expect((await tenant.post('/api/entities', log)).status).toBe(201);
  return tenant;
}

async function rule(tenant: TestTenant, trigger: string, action: Json, further: Json = {}): Promise<Json> {
  const answer = await tenant.post('/api/rules', { name: 'a rule', entity: 'task', trigger, action, ...further });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

/** Runs rules until the tenant has no run left, retries and runs in a separate Deno process included. */
async function runAll(tenant: TestTenant): Promise<void> {
  const left = sql`select from platform.rule_runs where tenant_id = ${tenant.id}::uuid limit 1`;
  do {
    while ((await runRulesOnce(service.app, new AbortController().signal)) > 0);
  } while ((await service.app.db.first(left)) !== undefined);
}

async function runsOf({ id }: TestTenant): Promise<number> {
  const row = await service.app.db.first<{ n: number }>(sql`
    select count(*) as n from platform.rule_runs where tenant_id = ${id}::uuid`);
  return row?.n ?? 0;
}

const logged = async (tenant: TestTenant): Promise<Json[]> =>
  (await tenant.get('/api/entities/log/records?limit=100&sort=createdAt')).body.data.items;

const create = (tenant: TestTenant, values: Json): Promise<Answer> => tenant.post(TASKS, { title: 'x', ...values });

const APPEND = { type: 'create_record', entity: 'log', values: { line: '{{title}} is {{status}}', n: '{{n}}' } };

describe('a rule’s definition', () => {
  test('is created, listed, read, changed and deleted', async () => {
    const tenant = await newTenant();
    const created = await rule(tenant, 'before_create', { type: 'reject', message: 'no' }, { condition: 'n > 3' });
    expect(created).toMatchObject({ name: 'a rule', entity: 'task', condition: 'n > 3', priority: 0, isActive: true });
    expect((await tenant.get('/api/rules')).body.data).toEqual([created]);
    expect((await tenant.get('/api/rules?entity=log')).body.data).toEqual([]);
    const misspelt = await tenant.get('/api/rules?entities=log');
    expect(misspelt.status).toBe(400);
    expect(misspelt.body.error.details).toMatchObject([{ path: 'entities' }]);
    const path = `/api/rules/${created.id}`;
    expect((await tenant.get(path)).body.data).toEqual(created);
    const changed = await tenant.patch(path, { condition: null, isActive: false });
    expect(changed.body.data).toMatchObject({ condition: null, isActive: false, action: created.action });
    expect((await create(tenant, {})).status).toBe(201);
    expect((await tenant.patch(path, { isActive: true })).status).toBe(200);
    expect((await create(tenant, {})).status).toBe(400);
    expect((await tenant.delete(path)).body.data).toEqual({ id: created.id, deleted: true });
    expect((await tenant.get(path)).status).toBe(404);
    expect((await create(tenant, {})).status).toBe(201);
  });

  const INVALID: [string, Json, string][] = [
    ['an unknown entity', { entity: 'nothing' }, 'entity'],
    ['an unknown trigger', { trigger: 'during_create' }, 'trigger'],
    ['an invalid condition', { condition: 'nothing = 1' }, 'condition'],
    ['an unknown action', { action: { type: 'explode' } }, 'action.type'],
    ['an action that is a list', { action: [] }, 'action'],
    ['an unknown action with an unknown member', { action: { type: 'explode', colour: 'red' } }, 'action.colour'],
    ['set after a change', { trigger: 'after_create', action: { type: 'set', values: { n: 1 } } }, 'action.type'],
    ['reject after a change', { trigger: 'after_update', action: { type: 'reject', message: 'no' } }, 'action.type'],
    ['set before a deletion', { trigger: 'before_delete', action: { type: 'set', values: { n: 1 } } }, 'action.type'],
    ['a value of the wrong type', { action: { type: 'set', values: { n: 'many' } } }, 'action.values.n'],
    ['an unknown field', { action: { type: 'set', values: { m: 1 } } }, 'action.values.m'],
    ['a placeholder of an unknown field', { action: { type: 'set', values: { note: '{{m}}' } } }, 'action'],
    ['a member of another action', { action: { type: 'reject', message: 'no', values: {} } }, 'action.values'],
    ['an unknown member', { colour: 'red' }, 'colour'],
  ];
  test.each(INVALID)('with %s is rejected with 400', async (_, invalid, path) => {
    const tenant = await newTenant();
    const valid = { name: 'r', entity: 'task', trigger: 'before_create', action: { type: 'reject', message: 'no' } };
    const answer = await tenant.post('/api/rules', { ...valid, ...invalid });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.error.details.map((problem: Json) => problem.path)).toContain(path);
  });

  test('can be tried: a dry run returns whether the condition matches and the action, and changes nothing', async () => {
    const tenant = await newTenant();
    const { id } = await rule(tenant, 'after_update', APPEND, { condition: '$changed.status AND $old.status = open' });
    const record = { title: 'pump', status: 'done', n: 4 };
    const matching = await tenant.post(`/api/rules/${id}/test`, { record, old: { ...record, status: 'open' } });
    expect(matching.body.data).toEqual({
      matches: true,
      action: { type: 'create_record', entity: 'log', values: { line: 'pump is done', n: 4 } },
    });
    const other = await tenant.post(`/api/rules/${id}/test`, { record });
    expect(other.body.data).toEqual({ matches: false, action: null });
    expect((await tenant.post(`/api/rules/${id}/test`, { record: { m: 1 } })).status).toBe(400);
    await runAll(tenant);
    expect(await logged(tenant)).toEqual([]);
  });
});

describe('a field that a rule of another entity fills', () => {
  test('is neither renamed, retyped nor dropped while the rule does; the fields of others with its key are', async () => {
    const tenant = await newTenant();
    const { id } = await rule(tenant, 'after_create', APPEND);
    const field = '/api/entities/log/fields/line';
    const refusals = [
      await tenant.patch(field, { key: 'text' }),
      await tenant.patch(field, { type: 'json' }),
      await tenant.delete(`${field}?confirm=line`),
    ];
    for (const { status, body } of refusals) {
      expect([status, body.error?.message]).toEqual([409, 'line is used by rule a rule; change these first']);
    }
    const alike = { name: 'other', fields: [{ key: 'line', type: 'text' }] };
    expect((await tenant.post('/api/entities', alike)).status).toBe(201);
    expect((await tenant.patch('/api/entities/other/fields/line', { key: 'text' })).status).toBe(200);
    expect((await tenant.delete(`/api/rules/${id}`)).status).toBe(200);
    expect((await tenant.patch(field, { key: 'text' })).status).toBe(200);
  });

  test.each(['\n', '\t', '\v', ' '])('nor one that a text names after %j', async (space) => {
    const tenant = await newTenant();
    await rule(tenant, 'after_create', { ...APPEND, values: { line: `{{${space}note}}` } });
    expect((await tenant.patch('/api/entities/task/fields/note', { key: 'text' })).status).toBe(409);
    const unknown = { ...APPEND, values: { line: `{{${space}later}}` } };
    const body = { name: 'unknown', entity: 'task', trigger: 'after_create', action: unknown };
    expect((await tenant.post('/api/rules', body)).status).toBe(400);
  });
});

describe('before rules', () => {
  test('reject fails with 400 BUSINESS_RULE_ERROR and its message, and nothing is written', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'before_create', { type: 'reject', message: 'too many' }, { condition: 'n > 3' });
    const rejected = await create(tenant, { n: 4 });
    expect([rejected.status, rejected.body.error.code, rejected.body.error.message]).toEqual([
      400,
      'BUSINESS_RULE_ERROR',
      'too many',
    ]);
    expect((await create(tenant, { n: 3 })).status).toBe(201);
    expect((await tenant.get(TASKS)).body.data.total).toBe(1);
  });

  test('$old is the before image, $changed whether the field changes', async () => {
    const tenant = await newTenant();
    const closed = '$old.status = closed AND $changed.status';
    await rule(tenant, 'before_update', { type: 'reject', message: 'closed is closed' }, { condition: closed });
    const { id } = (await create(tenant, { status: 'closed' })).body.data;
    expect((await tenant.patch(`${TASKS}/${id}`, { title: 'y', status: 'closed' })).status).toBe(200);
    expect((await tenant.patch(`${TASKS}/${id}`, { status: 'open' })).body.error.code).toBe('BUSINESS_RULE_ERROR');
  });

  test('a relation set by a rule needs an existing record, but the caller needs no permission on it', async () => {
    const tenant = await newTenant();
    const owner = { key: 'owner', type: 'relation', entity: 'log' };
    expect((await tenant.post('/api/entities/task/fields', owner)).status).toBe(201);
    const vault = (await tenant.post('/api/entities/log/records', { line: 'vault' })).body.data.id;
    const clerk = await withRole(service, tenant, {
      permissions: { task: ['read', 'create', 'update'] },
      entities: { task: { excludeFields: ['owner'] } },
    });
    const set = (id: string): Json => ({ type: 'set', values: { owner: id } });
    const { id: rules } = await rule(tenant, 'before_create', set(vault));
    const created = await clerk.post(TASKS, { title: 'x' });
    expect([created.status, created.body.data.owner]).toEqual([201, undefined]);
    const operations = [{ op: 'create', data: { title: 'y' } }];
    expect((await clerk.post(`${TASKS}/bulk`, { operations })).status).toBe(200);
    const owners = (await tenant.get(TASKS)).body.data.items.map((record: Json) => record.owner);
    expect(owners).toEqual([vault, vault]);
    await rule(tenant, 'before_update', set(newId()));
    expect((await tenant.patch(`/api/rules/${rules}`, { action: set(newId()) })).status).toBe(200);
    const message = 'a rule names a record that does not exist';
    for (const answer of [
      await clerk.post(TASKS, { title: 'z' }),
      await clerk.patch(`${TASKS}/${created.body.data.id}`, { title: 'z' }),
    ]) {
      expect([answer.status, answer.body.error.code, answer.body.error.message]).toEqual([
        400,
        'BUSINESS_RULE_ERROR',
        message,
      ]);
    }
    const each = await clerk.post(`${TASKS}/bulk`, { operations, atomic: false });
    expect(each.body.data.results[0].error).toMatchObject({ code: 'BUSINESS_RULE_ERROR', message });
  });

  test('before_delete rejects single, bulk and cascaded deletions', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'before_delete', { type: 'reject', message: 'kept' }, { condition: 'status = done' });
    const child = { key: 'parent', type: 'relation', entity: 'log', onDelete: 'cascade' };
    expect((await tenant.post('/api/entities/task/fields', child)).status).toBe(201);
    const parent = (await tenant.post('/api/entities/log/records', { line: 'p' })).body.data.id;
    const { id } = (await create(tenant, { status: 'done', parent })).body.data;
    expect((await tenant.delete(`${TASKS}/${id}`)).body.error.code).toBe('BUSINESS_RULE_ERROR');
    const operations = [{ op: 'delete', id }];
    expect((await tenant.post(`${TASKS}/bulk`, { operations })).status).toBe(400);
    const each = await tenant.post(`${TASKS}/bulk`, { operations, atomic: false });
    expect(each.body.data.results[0].error).toMatchObject({ code: 'BUSINESS_RULE_ERROR', message: 'kept' });
    expect((await tenant.delete(`/api/entities/log/records/${parent}`)).body.error.code).toBe('BUSINESS_RULE_ERROR');
    expect((await tenant.get(`${TASKS}/${id}`)).status).toBe(200);
  });

  test('set actions run in the order of their priority, and may provide a required field', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'before_create', { type: 'set', values: { note: 'second {{note}}' } }, { priority: 2 });
    await rule(tenant, 'before_create', { type: 'set', values: { note: 'first', title: 'given' } }, { priority: 1 });
    const created = await tenant.post(TASKS, { n: 1 });
    expect(created.status, created.text).toBe(201);
    expect(created.body.data).toMatchObject({ title: 'given', note: 'second first', n: 1 });
    expect((await tenant.get(`${TASKS}/${created.body.data.id}`)).body.data).toEqual(created.body.data);
  });

  test('a filled-in value that does not fit its field causes a BUSINESS_RULE_ERROR', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'before_create', { type: 'set', values: { n: '{{title}}' } });
    expect((await create(tenant, {})).body.error.code).toBe('BUSINESS_RULE_ERROR');
  });

  test('a rule applies from the next write on, even if its invalidation was lost', async () => {
    const tenant = await newTenant();
    expect((await create(tenant, {})).status).toBe(201);
    const schema = schemaOf(tenant.id);
    await service.app.db.begin(async (tx) => {
      await tx.rows(sql`
        insert into ${identifier(schema, 'business_rules')} (id, name, entity_id, trigger, action)
        select ${newId()}::uuid, 'r', id, 'before_create', '{"type": "reject", "message": "no"}'
        from ${identifier(schema, 'entity_definitions')} where name = 'task'`);
      await tx.rows(sql`
        update ${identifier(schema, 'entity_definitions')} set version = version + 1 where name = 'task'`);
    });
    expect((await create(tenant, {})).body.error.code).toBe('BUSINESS_RULE_ERROR');
    const operations = [{ op: 'create', data: { title: 'x' } }];
    expect((await tenant.post(`${TASKS}/bulk`, { operations })).status).toBe(400);
  });

  test('a rule whose condition is no longer valid rejects every write', async () => {
    const tenant = await newTenant();
    const { id } = await rule(tenant, 'before_create', { type: 'reject', message: 'no' }, { condition: 'n > 3' });
    const schema = schemaOf(tenant.id);
    await service.app.db.begin(async (tx) => {
      await tx.rows(sql`
        update ${identifier(schema, 'business_rules')} set condition = 'missing > 3' where id = ${id}::uuid`);
      // Forces a retry of writes under the old rule in a process that the invalidation has not reached.
      await tx.rows(sql`
        update ${identifier(schema, 'entity_definitions')} set version = version + 1 where name = 'task'`);
    });
    expect((await create(tenant, {})).body.error).toMatchObject({
      code: 'BUSINESS_RULE_ERROR',
      message: 'the rule "a rule" no longer fits its entity',
    });
  });

  test('apply to single, bulk and imported writes alike', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'before_create', { type: 'reject', message: 'odd' }, { condition: 'n = 13', priority: 1 });
    await rule(tenant, 'before_create', { type: 'set', values: { note: 'seen {{n}}' } }, { priority: 2 });
    const operations = [12, 13].map((n) => ({ op: 'create', data: { title: 'x', n } }));
    const bulk = await tenant.post(`${TASKS}/bulk`, { operations, atomic: false });
    expect(bulk.body.data).toMatchObject({ succeeded: 1, failed: 1 });
    expect(bulk.body.data.results[0].data.note).toBe('seen 12');
    expect(bulk.body.data.results[1].error.message).toBe('odd');
    expect((await tenant.post(`${TASKS}/bulk`, { operations })).status).toBe(400);
    const lines = [14, 13, 15].map((n) => JSON.stringify({ title: 'x', n })).join('\n');
    const type = { 'content-type': 'application/x-ndjson' };
    const imported = await tenant.request('POST', `${TASKS}/import`, lines, type);
    expect(imported.body.data).toMatchObject({ created: 2, refused: 1, errors: [{ line: 2, message: 'odd' }] });
    const { items } = (await tenant.get(`${TASKS}?sort=n`)).body.data;
    expect(items.map((item: Json) => item.note)).toEqual(['seen 12', 'seen 14', 'seen 15']);
  });
});

describe('after rules', () => {
  test('act once, after the commit, and append rule.executed', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_create', APPEND, { condition: 'n >= 2', name: 'keep a log' });
    const { id } = (await create(tenant, { title: 'pump', n: 2 })).body.data;
    await create(tenant, { n: 1 });
    await runAll(tenant);
    await runAll(tenant);
    const lines = await logged(tenant);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ line: 'pump is open', n: 2, createdBy: null });
    const executed = await storedEvents(service, tenant, 'rule.executed');
    expect(executed.map(({ payload }) => payload.data)).toEqual([
      {
        rule_name: 'keep a log',
        trigger_type: 'after_create',
        entity: 'task',
        record_id: id,
        result: { action: 'create_record', entity: 'log', record_id: lines[0].id },
      },
    ]);
    const created = await storedEvents(service, tenant, 'record.created');
    const order = created.map(({ record_id }) => record_id);
    expect(order.indexOf(lines[0].id)).toBeGreaterThan(order.indexOf(id));
    const effects = created.filter(({ triggered_by }) => triggered_by === 'rule');
    expect(effects).toMatchObject([{ record_id: lines[0].id, depth: 1 }]);
    const transactions = new Set(created.map(({ xid }) => xid));
    expect([created.length, transactions.size]).toEqual([3, 3]);
  });

  test('after_delete has the before image; update_record changes the record itself', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_delete', APPEND);
    const done = { condition: '$changed.status AND status = done' };
    await rule(tenant, 'after_update', { type: 'update_record', values: { note: 'done by {{updatedBy}}' } }, done);
    const { id } = (await create(tenant, {})).body.data;
    const changed = await tenant.patch(`${TASKS}/${id}`, { status: 'done' });
    await runAll(tenant);
    const { note } = (await tenant.get(`${TASKS}/${id}`)).body.data;
    expect(note).toBe(`done by ${changed.body.data.updatedBy}`);
    await tenant.delete(`${TASKS}/${id}`);
    await runAll(tenant);
    expect((await logged(tenant)).map(({ line }) => line)).toEqual(['x is done']);
  });

  test('a failed action appends rule.failed only', async () => {
    const tenant = await newTenant();
    const failing = { type: 'send_message', to_agent: 'unknown', subject: 's', body: 'b' };
    await rule(tenant, 'after_create', failing, { name: 'call a bot' });
    await create(tenant, {});
    await runAll(tenant);
    await runAll(tenant);
    const failed = await storedEvents(service, tenant, 'rule.failed');
    expect(failed.map(({ payload }) => payload.data)).toMatchObject([
      { rule_name: 'call a bot', trigger_type: 'after_create', error: 'agent not found' },
    ]);
    expect(failed[0]?.payload.data).not.toHaveProperty('result');
    expect(await storedEvents(service, tenant, 'rule.executed')).toEqual([]);
  });

  test('a chain stops at depth 5 with rule.failed', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_create', { type: 'create_record', entity: 'task', values: { title: '{{title}}+' } });
    await create(tenant, { title: 'x' });
    await runAll(tenant);
    const { items } = (await tenant.get(`${TASKS}?sort=title`)).body.data;
    expect(items.map((item: Json) => item.title)).toEqual(['x', 'x+', 'x++', 'x+++', 'x++++', 'x+++++']);
    const depths = (await storedEvents(service, tenant, 'record.created')).map(({ depth }) => depth);
    expect(depths).toEqual([0, 1, 2, 3, 4, 5]);
    const failed = await storedEvents(service, tenant, 'rule.failed');
    expect(failed.map(({ payload }) => payload.data.error)).toEqual(['the chain of rules has reached depth 5']);
  });

  test('a change starts at most 1,000 runs, all depths together; then the chain stops with one rule.failed', async () => {
    const tenant = await newTenant();
    for (let i = 0; i < 8; i++) {
      await rule(tenant, 'after_create', { type: 'create_record', entity: 'task', values: { title: '{{title}}+' } });
    }
    await create(tenant, { title: 'x' });
    await runAll(tenant);
    const failed = await storedEvents(service, tenant, 'rule.failed');
    const reasons = failed.map(({ payload }) => payload.data.error as string);
    // With two processes, some may have reached depth 5 before: each of these is one of the 1,000.
    const deep = reasons.filter((reason) => reason.endsWith('has reached depth 5'));
    expect((await tenant.get(`${TASKS}?limit=1`)).body.data.total).toBe(1_001 - deep.length);
    expect(reasons.filter((reason) => !deep.includes(reason))).toEqual([
      'the chain of rules has started 1,000 runs, the most that one change may start',
    ]);
  }, 120_000);

  test('of a suspended tenant, runs wait until it is active again', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_create', APPEND);
    // So many that the worker of a process apart does not end them before the tenant is suspended.
    const operations = Array.from({ length: 300 }, (_, n) => ({ op: 'create', data: { title: `t${n}` } }));
    expect((await tenant.post(`${TASKS}/bulk`, { operations })).status).toBe(200);
    const setStatus = (status: string) => service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { status });
    expect((await setStatus('suspended')).status).toBe(200);
    // Runs that have begun end.
    await Bun.sleep(200);
    const waiting = await runsOf(tenant);
    expect(waiting).toBeGreaterThan(0);
    await runRulesOnce(service.app, new AbortController().signal);
    expect(await runsOf(tenant)).toBe(waiting);
    expect((await setStatus('active')).status).toBe(200);
    await runAll(tenant);
    expect((await tenant.get('/api/entities/log/records?limit=1')).body.data.total).toBe(operations.length);
  });

  test('tenants are served round robin: one with many runs delays no other', async () => {
    while ((await runRulesOnce(service.app, new AbortController().signal)) > 0);
    const [before, busy, after] = [await newTenant(), await newTenant(), await newTenant()];
    for (const tenant of [before, busy, after]) await rule(tenant, 'after_create', APPEND);
    const operations = Array.from({ length: 40 }, (_, n) => ({ op: 'create', data: { title: `t${n}` } }));
    expect((await busy.post(`${TASKS}/bulk`, { operations })).status).toBe(200);
    for (const tenant of [before, after]) await create(tenant, { title: 'one' });
    let checks = 0;
    const soonAborted = {
      get aborted() {
        return ++checks > 20;
      },
    };
    await runRulesOnce(service.app, soonAborted as AbortSignal);
    // The service itself may have claimed one, if it is a process of its own.
    const isApart = process.env.SERVICE_RUNTIME !== undefined;
    while (isApart && (await runsOf(before)) + (await runsOf(after)) > 0) await Bun.sleep(5);
    for (const tenant of [before, after]) expect(await logged(tenant)).toHaveLength(1);
    await runAll(busy);
    expect(await logged(busy)).toHaveLength(40);
  });

  test('a tenant whose runs take long does not delay another', async () => {
    const [slow, quick] = [await newTenant(), await newTenant()];
    for (const tenant of [slow, quick]) await rule(tenant, 'after_create', APPEND);
    const operations = Array.from({ length: 60 }, (_, n) => ({ op: 'create', data: { title: `t${n}` } }));
    expect((await slow.post(`${TASKS}/bulk`, { operations })).status).toBe(200);
    await runInSchema(
      service,
      slow,
      `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.3); return new; end $$;
       create trigger slow before insert on entity_records for each row execute function slow();`,
    );
    const running = runRulesOnce(service.app, new AbortController().signal);
    while ((await runsOf(slow)) > 58) await new Promise((resolve) => setTimeout(resolve, 20));
    await create(quick, { title: 'one' });
    while ((await runsOf(quick)) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await runsOf(slow)).toBeGreaterThan(10);
    await runInSchema(
      service,
      slow,
      `create or replace function slow() returns trigger language plpgsql as $$ begin return new; end $$;`,
    );
    await running;
    await runAll(slow);
    expect([(await logged(slow)).length, (await logged(quick)).length]).toEqual([60, 1]);
  }, 60_000);

  test('concurrent workers execute each rule once per event, in the order of a record’s changes', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_create', APPEND);
    await rule(tenant, 'after_update', APPEND);
    const operations = Array.from({ length: 40 }, (_, n) => ({ op: 'create', data: { title: `t${n}` } }));
    expect((await tenant.post(`${TASKS}/bulk`, { operations })).status).toBe(200);
    const { id } = (await create(tenant, { title: 'one', n: 0 })).body.data;
    for (let n = 1; n <= 10; n++) await tenant.patch(`${TASKS}/${id}`, { n });
    await Promise.all([runAll(tenant), runAll(tenant), runAll(tenant)]);
    const lines = await logged(tenant);
    expect(lines).toHaveLength(51);
    // Sorted by their events, because ids generated by two processes are not in order.
    const order = (await storedEvents(service, tenant, 'record.created')).map(({ record_id }) => record_id);
    const ofOne = lines.filter(({ line }) => line.startsWith('one'));
    const inOrder = ofOne.toSorted((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
    expect(inOrder.map(({ n }) => n)).toEqual([...Array(11).keys()]);
    const left = await service.app.db.rows(sql`
      select from platform.rule_runs where tenant_id = ${tenant.id}::uuid`);
    expect(left).toHaveLength(0);
  });
});

describe('the queue of rule runs', () => {
  test('sets aside the runs that an earlier run of their record blocks; each follows when that has ended', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_update', APPEND);
    const { id } = (await create(tenant, { title: 'one', n: -1 })).body.data;
    const operations = Array.from({ length: 150 }, (_, n) => ({ op: 'update', id, data: { n } }));
    expect((await tenant.post(`${TASKS}/bulk`, { operations })).status).toBe(200);
    await runAll(tenant);
    const executed = await storedEvents(service, tenant, 'record.created');
    const lines = new Map<string, number>();
    for (let page = 1; page <= 2; page++) {
      const { items } = (await tenant.get(`/api/entities/log/records?limit=100&page=${page}`)).body.data;
      for (const { id: line, n } of items) lines.set(line, n);
    }
    const inOrder = executed.flatMap(({ record_id }) => lines.get(record_id ?? '') ?? []);
    expect(inOrder).toEqual(operations.map(({ data }) => data.n));
  }, 60_000);

  test('holds a large record once, however many rules its change starts, until the last of them has run', async () => {
    const tenant = await newTenant();
    for (let i = 0; i < 40; i++) await rule(tenant, 'after_create', { ...APPEND, values: { line: `{{status}} ${i}` } });
    const note = Array.from({ length: 8_000 }, () => newId()).join('');
    expect((await create(tenant, { note })).status).toBe(201);
    const images = sql`
      select octet_length(i.data::text) as bytes from platform.rule_images as i
      where i.event_id in (select r.event_id from platform.rule_runs as r where r.tenant_id = ${tenant.id}::uuid)`;
    const copies = sql`
      select count(*)::int as n from platform.rule_runs where tenant_id = ${tenant.id}::uuid and data is not null`;
    // A service in a process of its own runs its rules by itself, maybe already.
    if (process.env.SERVICE_RUNTIME === undefined) {
      expect(await runsOf(tenant)).toBe(40);
      expect(await service.app.db.rows(images)).toHaveLength(1);
    }
    expect((await service.app.db.first<{ n: number }>(copies))?.n).toBe(0);
    const event = await service.app.db.first<{ event_id: string }>(sql`
      select event_id from platform.rule_runs where tenant_id = ${tenant.id}::uuid limit 1`);
    await runAll(tenant);
    expect((await logged(tenant)).map(({ line }) => line).sort()).toEqual(
      Array.from({ length: 40 }, (_, i) => `open ${i}`).sort(),
    );
    const left = sql`select from platform.rule_images where event_id = ${event?.event_id ?? null}::uuid`;
    expect(await service.app.db.rows(left)).toEqual([]);
  });

  test('holds records of 1 GiB for a tenant: writes that would add more get 429, small ones too, others go on', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_create', APPEND);
    expect((await create(tenant, { note: 'counts' })).status).toBe(201);
    const held = async (): Promise<number | undefined> => {
      const row = await service.app.db.first<{ bytes: number }>(sql`
        select coalesce(sum(bytes), 0)::float8 as bytes from platform.rule_images where tenant_id = ${tenant.id}::uuid`);
      return row?.bytes;
    };
    // A service in a process of its own runs its rules by itself, maybe already.
    if (process.env.SERVICE_RUNTIME !== 'deno') expect(await held()).toBeGreaterThan(10);
    await runAll(tenant);
    while ((await held()) !== 0) await runAll(tenant);
    const max = LIMITS.rules.pendingBytesMax;
    await service.app.db.rows(sql`
      insert into platform.rule_images (event_id, tenant_id, bytes, data)
      values (gen_random_uuid(), ${tenant.id}::uuid, ${max - 1_000_000}::int, '{}')`);
    // Enough runs to cause a count in the database.
    const note = 'x'.repeat(900_000);
    const statuses: number[] = [];
    for (let i = 0; i < 20; i++) statuses.push((await create(tenant, { note })).status);
    expect(new Set(statuses)).toEqual(new Set([201, 429]));
    const answer = await create(tenant, { note });
    expect([answer.status, answer.body.error.message]).toEqual([429, expect.stringContaining(`take ${max} bytes`)]);
    expect((await tenant.post('/api/entities/log/records', { line: 'goes on' })).status).toBe(201);
    await service.app.db.rows(sql`delete from platform.rule_images where tenant_id = ${tenant.id}::uuid`);
    const until = performance.now() + 10_000;
    let last = await create(tenant, { note });
    while (last.status === 429 && performance.now() < until) last = await create(tenant, { note });
    expect(last.status).toBe(201);
  }, 60_000);

  test('has room for 200,000 runs of a tenant: writes that would start more get 429, others go on', async () => {
    const tenant = await newTenant();
    await rule(tenant, 'after_create', APPEND);
    const { pendingMax } = LIMITS.rules;
    const PARTS = 80;
    const size = pendingMax / PARTS;
    for (let part = 0; part < PARTS; part++) {
      // Embedded Postgres takes 25 µs for a random UUID.
      await service.app.db.rows(sql`
        insert into platform.rule_runs (event_id, rule_id, tenant_id, entity_id, record_id, version, created_at, updated_at,
          depth, root_event_id, next_at)
        select id, id, ${tenant.id}::uuid, ${tenant.id}::uuid, id, 1, now(), now(), 0, id, now() + interval '1 day'
        from generate_series(${part * size + (part === 0 ? 51 : 1)}::int, ${(part + 1) * size}::int) as n,
          lateral (select lpad(to_hex(n), 32, '0')::uuid as id) as numbered`);
    }
    const operations = Array.from({ length: 160 }, (_, n) => ({ op: 'create', data: { title: `t${n}` } }));
    const { body } = await tenant.post(`${TASKS}/bulk`, { operations, atomic: false });
    const refused = (body.data.results as Json[]).filter(({ error }) => error !== undefined);
    expect(refused.length).toBeGreaterThanOrEqual(60);
    expect(new Set(refused.map(({ error }) => error.code))).toEqual(new Set(['RATE_LIMITED']));
    const answer = await create(tenant, {});
    expect([answer.status, answer.body.error.message]).toEqual([429, expect.stringContaining('200,000 runs')]);
    expect(answer.headers.get('retry-after')).toBe('10');
    expect((await tenant.post('/api/entities/log/records', { line: 'goes on' })).status).toBe(201);
    // Deleting so many would take as long as the test.
    await service.app.db.exec('truncate platform.rule_runs');
    // The process may consider the queue full for a second.
    const until = performance.now() + 10_000;
    let last = await create(tenant, {});
    while (last.status === 429 && performance.now() < until) last = await create(tenant, {});
    expect(last.status).toBe(201);
    await service.app.db.exec('truncate platform.rule_runs');
  }, 60_000);
});
