// No message names a field or an entity that its reader may not see, or shows whether a value exists there.
// Contract: decisions#responses, decisions#writes-within-a-role, decisions#rules.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, platformKey, withRole } from './support/credentials.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const TASKS = '/api/entities/task/records';
/** Every name that the clerk may not see contains it. */
const HIDDEN = /xsecret|xvault/;
const NEUTRAL = 'a rule of this entity failed; ask an administrator';

beforeEach(async () => {
  tenant = await service.tenant();
  await define('xvault', [{ key: 'xsecret_line', type: 'select', options: ['xsecret_a'], required: true }]);
  await define('task', [
    { key: 'title', type: 'text' },
    { key: 'xsecret', type: 'select', options: ['xsecret_low', 'xsecret_high'] },
  ]);
});

async function define(name: string, fields: Json[]): Promise<void> {
  const answer = await tenant.post('/api/entities', { name, fields });
  expect(answer.status, answer.text).toBe(201);
}

async function rule(trigger: string, action: Json, further: Json = {}): Promise<void> {
  const answer = await tenant.post('/api/rules', { name: 'r', entity: 'task', trigger, action, ...further });
  expect(answer.status, answer.text).toBe(201);
}

const ALL = ['read', 'create', 'update', 'delete'] as const;

/** May do everything with tasks, whose field `xsecret` is hidden, and nothing else. */
async function clerkOf(restriction: Json = { excludeFields: ['xsecret'] }): Promise<Client> {
  return withRole(service, tenant, { permissions: { task: [...ALL] }, entities: { task: restriction } });
}

const keep = closeAfterEach();

async function runRules(): Promise<void> {
  const isDue = sql`select from platform.rule_runs where tenant_id = ${tenant.id}::uuid`;
  do await runRulesOnce(service.app, new AbortController().signal);
  while ((await service.app.db.first(isDue)) !== undefined);
}

describe('a before rule that cannot set a hidden field', () => {
  test('fails with a neutral message, and with details only for those who see the field', async () => {
    await rule('before_create', { type: 'set', values: { xsecret: '{{title}}' } });
    await rule('before_update', { type: 'set', values: { xsecret: '{{title}}' } });
    const clerk = await clerkOf();
    const other = (await tenant.post(TASKS, { title: 'xsecret_low' })).body.data.id;
    const operations = [{ op: 'create', data: { title: 'a' } }];
    const ndjson = { 'content-type': 'application/x-ndjson' };
    for (const refused of [
      await clerk.post(TASKS, { title: 'a' }),
      await clerk.patch(`${TASKS}/${other}`, { title: 'a' }),
      await clerk.post(`${TASKS}/bulk`, { operations }),
      await clerk.post(`${TASKS}/bulk`, { operations, atomic: false }),
      await clerk.request('POST', `${TASKS}/import`, JSON.stringify({ title: 'a' }), ndjson),
    ]) {
      expect(refused.text).toContain(NEUTRAL);
      expect(refused.text).not.toMatch(HIDDEN);
    }
    const explained = await tenant.post(TASKS, { title: 'a' });
    expect(explained.body.error.message).toMatch(/^the rule "r" cannot set xsecret: /);
  });
});

describe('rule events of an after rule that writes to another entity', () => {
  test('show neither result nor error to a reader who may not see all of that entity', async () => {
    await rule('after_create', { type: 'create_record', entity: 'xvault', values: { xsecret_line: '{{title}}' } });
    const permissions = { task: ['read' as const] };
    const role = await addRole(service, tenant, { permissions });
    const key = await platformKey(service, tenant, role.name, permissions);
    const query = '?events=rule.executed,rule.failed';
    const seen = keep(await connectEvents(service.url, tenant.slug, key, query));
    const admin = keep(await connectEvents(service.url, tenant.slug, tenant.key, query));
    await tenant.post(TASKS, { title: 'no such option' });
    await tenant.post(TASKS, { title: 'xsecret_a' });
    await runRules();
    const events = [await seen.next(), await seen.next()];
    expect(JSON.stringify(events)).not.toMatch(HIDDEN);
    const byType = new Map(events.map(({ event, data }) => [event, data.data]));
    expect(byType.get('rule.failed').error).toBe(NEUTRAL);
    expect(byType.get('rule.executed').result).toEqual({ action: 'create_record' });
    const detailed = new Map([await admin.next(), await admin.next()].map(({ event, data }) => [event, data.data]));
    expect(detailed.get('rule.failed').error).toContain('xsecret_line');
    expect(detailed.get('rule.executed').result).toMatchObject({ entity: 'xvault' });
  });
});

describe('a required field that the caller may not see', () => {
  test('is not named when it is missing, also beside unknown names', async () => {
    const required = { key: 'xsecret_code', type: 'text', required: true, default: 'none' };
    expect((await tenant.post('/api/entities/task/fields', required)).status).toBe(201);
    expect((await tenant.patch('/api/entities/task/fields/xsecret_code', { default: null })).status).toBe(200);
    const clerk = await clerkOf({ fields: ['title'] });
    const message = 'records of this entity cannot be created with these permissions; ask an administrator';
    const operations = [{ op: 'create', data: { title: 'a' } }];
    for (const refused of [
      await clerk.post(TASKS, { title: 'a' }),
      await clerk.post(`${TASKS}/bulk`, { operations }),
      await clerk.post(`${TASKS}/bulk`, { operations, atomic: false }),
    ]) {
      expect(refused.text).toContain(message);
      expect(refused.text).not.toMatch(HIDDEN);
    }
    const hidden = await clerk.post(TASKS, { xsecret_code: 'a' });
    const unknown = await clerk.post(TASKS, { unknown_code: 'a' });
    const problems = (answer: Json): Json[] =>
      JSON.parse(JSON.stringify(answer.body.error.details).replace(/\w+_code/g, '_'));
    expect(problems(hidden)).toEqual(problems(unknown));
    const named = await tenant.post(TASKS, { title: 'a' });
    expect(named.body.error.details).toEqual([{ path: 'xsecret_code', message: 'is required' }]);
  });
});

describe('deleting a record that others refer to', () => {
  test('names the referring records only to those who may see them', async () => {
    await define('xvault_link', [{ key: 'xsecret_task', type: 'relation', entity: 'task', onDelete: 'restrict' }]);
    const { id } = (await tenant.post(TASKS, { title: 'a' })).body.data;
    expect((await tenant.post('/api/entities/xvault_link/records', { xsecret_task: id })).status).toBe(201);
    const permissions = { task: [...ALL], xvault_link: ['read' as const] };
    const restrictions = [{ excludeFields: ['xsecret_task'] }, { rowFilter: 'createdBy = $currentUser.id' }];
    const clerks = [
      await clerkOf(),
      ...(await Promise.all(
        restrictions.map((xvault_link) => withRole(service, tenant, { permissions, entities: { xvault_link } })),
      )),
    ];
    const operations = [{ op: 'delete', id }];
    for (const clerk of clerks) {
      for (const refused of [
        await clerk.delete(`${TASKS}/${id}`),
        await clerk.post(`${TASKS}/bulk`, { operations }),
        await clerk.post(`${TASKS}/bulk`, { operations, atomic: false }),
      ]) {
        expect(refused.text).toContain('other records still refer to this one');
        expect(refused.text).not.toMatch(HIDDEN);
      }
    }
    const named = await tenant.delete(`${TASKS}/${id}`);
    expect([named.status, named.body.error.message]).toEqual([
      409,
      expect.stringMatching(/^still referred to by 1 record\(s\) of xvault_link/),
    ]);
  });
});

describe('the row filter of an entity that refers to a record', () => {
  test('is not evaluated by a deletion: one that no longer fits its entity does not name the entity', async () => {
    const [name, values] = ['xvault_link', '/api/entities/xvault_link'];
    const link = { key: 'xsecret_task', type: 'relation', entity: 'task', onDelete: 'restrict' };
    await define(name, [{ key: 'xsecret_zone', type: 'text' }]);
    const entities = { [name]: { rowFilter: 'xsecret_zone = a' } };
    const clerk = await withRole(service, tenant, { permissions: { task: [...ALL] }, entities });
    expect((await tenant.delete(values)).status).toBe(200);
    await define(name, [link]);
    const { id } = (await tenant.post(TASKS, { title: 'a' })).body.data;
    expect((await tenant.post(`${values}/records`, { xsecret_task: id })).status).toBe(201);
    for (const query of ['', '?dryRun=true']) {
      const refused = await clerk.delete(`${TASKS}/${id}${query}`);
      expect([refused.status, refused.body.error.message]).toEqual([409, 'other records still refer to this one']);
    }
  });
});

describe('the target of a relation', () => {
  test('is named in definitions only to those who may read it', async () => {
    const link = { key: 'link', type: 'relation', entity: 'xvault' };
    expect((await tenant.post('/api/entities/task/fields', link)).status).toBe(201);
    const clerk = await clerkOf();
    for (const path of ['/api/entities', '/api/entities/task', '/api/entities/task/fields', '/swagger/json']) {
      const shown = await clerk.get(path);
      expect(shown.text).toContain('link');
      expect(shown.text).not.toMatch(HIDDEN);
    }
    const target = async (client: Client): Promise<unknown> =>
      (await client.get('/api/entities/task/fields')).body.data.find(({ key }: Json) => key === 'link').entity;
    const reader = await withRole(service, tenant, { permissions: { task: ['read'], xvault: ['read'] } });
    expect([await target(clerk), await target(reader), await target(tenant)]).toEqual([null, 'xvault', 'xvault']);
  });
});

describe('a rule of an entity that the caller has no right on', () => {
  const linked = async (onDelete: string): Promise<string> => {
    const fields = [
      { key: 'xsecret_task', type: 'relation', entity: 'task', onDelete },
      { key: 'xsecret_state', type: 'select', options: ['xsecret_on'] },
      { key: 'xsecret_note', type: 'text', default: 'xsecret_off' },
    ];
    await define('xvault_link', fields);
    const { id } = (await tenant.post(TASKS, { title: 'a' })).body.data;
    expect((await tenant.post('/api/entities/xvault_link/records', { xsecret_task: id })).status).toBe(201);
    return `${TASKS}/${id}`;
  };
  const reject = { type: 'reject', message: 'xvault_link is kept' };
  const set = { type: 'set', values: { xsecret_state: '{{xsecret_note}}' } };

  test.each([
    ['cascade', 'before_delete', reject],
    ['set_null', 'before_update', reject],
    ['set_null', 'before_update', set],
  ])(
    'refuses the deletion of what refers to it (%s, %s) without its own words',
    async (onDelete, trigger, action: Json) => {
      const path = await linked(onDelete);
      await rule(trigger, action, { entity: 'xvault_link', name: 'xvault rule' });
      const creating = await withRole(service, tenant, { permissions: { task: [...ALL], xvault_link: ['create'] } });
      for (const query of ['', '?dryRun=true']) {
        const { status, body, text } = await (await clerkOf()).delete(`${path}${query}`);
        expect([status, body.error.code, body.error.message]).toEqual([400, 'BUSINESS_RULE_ERROR', NEUTRAL]);
        expect(text).not.toMatch(HIDDEN);
        // A caller that may create in the entity knows the field.
        for (const client of [tenant, creating]) expect((await client.delete(`${path}${query}`)).text).toMatch(HIDDEN);
      }
    },
  );
});

describe('a field that was dropped and added again', () => {
  test('is hidden by a role that listed the dropped one, and by a role that hides its key', async () => {
    const listing = await clerkOf({ fields: ['title', 'xsecret'] });
    const hiding = await clerkOf({ excludeFields: ['xsecret'] });
    expect((await listing.get('/api/entities/task')).text).toMatch(HIDDEN);
    expect((await tenant.delete('/api/entities/task/fields/xsecret?confirm=xsecret')).status).toBe(200);
    expect((await tenant.post('/api/entities/task/fields', { key: 'xsecret', type: 'text' })).status).toBe(201);
    expect((await tenant.post(TASKS, { title: 'a', xsecret: 'xsecret_b' })).status).toBe(201);
    for (const clerk of [listing, hiding]) {
      for (const path of ['/api/entities/task', '/api/entities', TASKS, `${TASKS}/export?format=csv`]) {
        expect((await clerk.get(path)).text).not.toMatch(HIDDEN);
      }
    }
  });
});

describe('a key that a role lists since a rename that was interrupted', () => {
  test.each(['added', 'renamed to it'])('is not shown once a field is %s', async (how) => {
    const clerk = await clerkOf({ fields: ['title', 'xsecret_new'] });
    const fields = '/api/entities/task/fields';
    const made =
      how === 'added'
        ? await tenant.post(fields, { key: 'xsecret_new', type: 'text' })
        : await tenant.patch(`${fields}/xsecret`, { key: 'xsecret_new' });
    expect(made.status, made.text).toBeLessThan(300);
    expect((await tenant.post(TASKS, { title: 'a', xsecret_new: 'xsecret_low' })).status).toBe(201);
    for (const path of [TASKS, '/api/entities/task', fields]) {
      const { status, text } = await clerk.get(path);
      expect(status).toBe(200);
      expect(text).not.toMatch(HIDDEN);
    }
  });
});

describe('a field that is renamed', () => {
  test('stays hidden from a role that hides it by its old key since the rename has begun', async () => {
    const early = await addRole(service, tenant, {
      permissions: {},
      entities: { task: { excludeFields: ['xsecret'] } },
    });
    const renaming = tenant.patch('/api/entities/task/fields/xsecret', { key: 'xsecret_new' });
    // From here on it waits for the copies of the role that processes have.
    const hidden = async () => (await tenant.get(`/api/roles/${early.name}`)).body.data.entities.task.excludeFields;
    while ((await hidden()).length < 2) await Bun.sleep(5);
    const clerk = await clerkOf({ excludeFields: ['xsecret'] });
    const { status } = await renaming;
    const key = status === 200 ? 'xsecret_new' : 'xsecret';
    expect((await tenant.post(TASKS, { title: 'a', [key]: 'xsecret_low' })).status).toBe(201);
    for (const path of [TASKS, '/api/entities/task']) expect((await clerk.get(path)).text).not.toMatch(HIDDEN);
  });
});

describe('a duplicate in a unique field that the caller may not see', () => {
  test('gets 409 without the name of the field', async () => {
    expect(
      (await tenant.post('/api/entities/task/fields', { key: 'xsecret_no', type: 'text', unique: true })).status,
    ).toBe(201);
    const clerk = await clerkOf({ fields: ['title'] });
    const other = (await tenant.post(TASKS, { title: 'other' })).body.data.id;
    for (const trigger of ['before_create', 'before_update']) {
      await rule(trigger, { type: 'set', values: { xsecret_no: '{{title}}' } });
    }
    expect((await clerk.post(TASKS, { title: 'taken' })).status).toBe(201);
    const operations = ['taken', 'free'].map((title) => ({ op: 'create', data: { title } }));
    for (const refused of [
      await clerk.post(TASKS, { title: 'taken' }),
      await clerk.patch(`${TASKS}/${other}`, { title: 'taken' }),
      await clerk.post(`${TASKS}/bulk`, { operations }),
      await clerk.post(`${TASKS}/bulk`, { operations, atomic: false }),
    ]) {
      expect(refused.text).toContain('a record with one of these values already exists');
      expect(refused.text).not.toMatch(HIDDEN);
    }
    const named = await tenant.post(TASKS, { title: 'taken' });
    expect(named.body.error.details).toEqual([{ path: 'xsecret_no', message: 'already exists' }]);
  });
});
