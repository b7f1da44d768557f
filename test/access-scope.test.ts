// The restrictions of a role, tested on the operations: every operation must apply them.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TenantCaller } from '../src/access/caller.ts';
import type { EntityRestriction, Operation } from '../src/access/rights.ts';
import type { ServiceError } from '../src/errors.ts';
import { listRecords } from '../src/records/read/list.ts';
import type { ListInput } from '../src/records/read/parameters.ts';
import { readRecord } from '../src/records/read/read.ts';
import { shape } from '../src/records/row.ts';
import { autocommit } from '../src/records/write/context.ts';
import { createRecord, deleteRecord, updateRecord } from '../src/records/write/write.ts';
import { userCaller } from './support/callers.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const ALL: Operation[] = ['read', 'create', 'update', 'delete'];

/** A new tenant with teams, and with tasks of a team that have a title, a secret and an owner. */
async function tenantWithTasks(): Promise<Record<string, string>> {
  tenant = await service.tenant();
  const teams = [
    { key: 'label', type: 'text' },
    { key: 'budget', type: 'integer' },
    { key: 'open', type: 'boolean' },
  ];
  await tenant.post('/api/entities', { name: 'teams', fields: teams });
  const made = await tenant.post('/api/entities', {
    name: 'tasks',
    fields: [
      { key: 'title', type: 'text' },
      { key: 'secret', type: 'text' },
      { key: 'owner', type: 'text' },
      { key: 'team', type: 'relation', entity: 'teams' },
    ],
  });
  if (made.status !== 201) throw new Error(made.text);
  const ids: Record<string, string> = {};
  const add = async (name: string, entity: string, body: object) => {
    ids[name] = (await tenant.post(`/api/entities/${entity}/records`, body)).body.data.id;
  };
  await add('red', 'teams', { label: 'red', budget: 10, open: true });
  await add('blue', 'teams', { label: 'blue', budget: 20, open: false });
  await add('mine', 'tasks', { title: 'alpha', secret: 'canary', owner: 'me', team: ids.red });
  await add('mine2', 'tasks', { title: 'beta', secret: 'other', owner: 'me', team: ids.blue });
  await add('theirs', 'tasks', { title: 'alpha gamma', secret: 'canary', owner: 'them', team: ids.blue });
  return ids;
}

const callerWith = (
  restrictions: Record<string, EntityRestriction>,
  permissions: Record<string, readonly Operation[]> = { '*': ALL },
): Promise<TenantCaller> =>
  userCaller(service, tenant, { isUnlimited: false, permissions, restrictions }, { id: 'me', email: 'me@example.org' });

async function refusal(work: Promise<unknown>): Promise<{ code: string; message: string; details: unknown }> {
  const error = (await work.then(
    () => {
      throw new Error('was not refused');
    },
    (cause: unknown) => cause,
  )) as ServiceError;
  return { code: error.ecode, message: error.message, details: error.details };
}

const list = (caller: TenantCaller, input: ListInput = {}, entity = 'tasks') =>
  listRecords(service.app, caller, entity, input);
const read = async (caller: TenantCaller, id = '', input = {}) =>
  (await readRecord(service.app, caller, 'tasks', id, input)).record;
const titles = async (caller: TenantCaller, input: ListInput = {}) =>
  (await list(caller, { sort: 'title', ...input })).items.map(({ title }) => title);
const create = async (caller: TenantCaller, body: Record<string, unknown>): Promise<Json> => {
  const { row, scope } = await createRecord(autocommit(service.app, caller), 'tasks', body);
  return shape(row, scope.entity, scope.fields);
};
const update = (caller: TenantCaller, id: string | undefined, body: Record<string, unknown>) =>
  updateRecord(autocommit(service.app, caller), 'tasks', id ?? '', body);
const remove = (caller: TenantCaller, id = '') => deleteRecord(autocommit(service.app, caller), 'tasks', id);

describe('hidden fields', () => {
  for (const [how, rule] of [
    ['excludeFields', { excludeFields: ['secret'] }],
    ['fields', { fields: ['title', 'owner', 'team'] }],
  ] as const) {
    test(`a field hidden by ${how} appears nowhere`, async () => {
      const ids = await tenantWithTasks();
      const caller = await callerWith({ tasks: rule });
      const shown = [await read(caller, ids.mine), ...(await list(caller)).items, await create(caller, { title: 'x' })];
      const { row, scope } = await update(caller, ids.mine, { title: 'alpha' });
      shown.push(shape(row, scope.entity, scope.fields));
      for (const record of shown) expect(Object.hasOwn(record, 'secret')).toBe(false);
      expect(JSON.stringify(shown)).not.toContain('canary');
      expect(JSON.stringify(shown)).toContain('createdAt');
      const all = (await tenant.get(`/api/entities/tasks/records/${ids.mine}`)).body.data;
      expect(all).toMatchObject({ title: 'alpha', secret: 'canary' });
    });
  }

  test('a hidden field gives the same 400 as an unknown one', async () => {
    const ids = await tenantWithTasks();
    const caller = await callerWith({ tasks: { excludeFields: ['secret'] }, teams: { excludeFields: ['budget'] } });
    const uses: ((key: string) => Promise<unknown>)[] = [
      (key) => list(caller, { filters: `${key} = canary` }),
      (key) => list(caller, { filters: `title = alpha AND NOT ${key} contains can` }),
      (key) => list(caller, { filters: `${key} is null` }),
      (key) => list(caller, { sort: key }),
      (key) => list(caller, { sort: `title,-${key}` }),
      (key) => list(caller, { fields: `title,${key}` }),
      (key) => read(caller, ids.mine, { fields: key }),
      (key) => list(caller, { equalTo: { [key]: 'canary' } }),
      (key) => create(caller, { title: 'x', [key]: 'canary' }),
      (key) => create(caller, { title: 'x', [key]: null }),
      (key) => create(caller, { title: 'x', [key]: 7 }),
      (key) => update(caller, ids.mine, { [key]: 'canary' }),
      (key) => update(caller, ids.mine, { data: { [key]: 'canary' } }),
    ];
    for (const use of uses) {
      const hidden = await refusal(use('secret'));
      const unknown = await refusal(use('absent'));
      expect(hidden.code).toBe('VALIDATION_ERROR');
      expect(JSON.stringify(hidden).replaceAll('secret', 'absent')).toBe(JSON.stringify(unknown));
    }
    const through = await refusal(list(caller, { filters: 'team.budget > 5' }));
    const nowhere = await refusal(list(caller, { filters: 'team.absent > 5' }));
    expect(JSON.stringify(through).replaceAll('budget', 'absent')).toBe(JSON.stringify(nowhere));
  });

  test('search covers only fields that the caller may read', async () => {
    await tenantWithTasks();
    const caller = await callerWith({ tasks: { excludeFields: ['secret'] } });
    expect(await list(caller, { search: 'canary' })).toMatchObject({ total: 0, items: [] });
    expect(await list(caller, { search: 'canary alpha' })).toMatchObject({ total: 0 });
    expect(await list(caller, { search: 'alph' })).toMatchObject({ total: 2 });
    expect(await list(caller, { search: 'alpha gam' })).toMatchObject({ total: 1 });
    expect(await list(await callerWith({}), { search: 'canary' })).toMatchObject({ total: 2 });
    expect(await list(caller, { search: 'canary', limit: 1 })).toMatchObject({ total: 0 });
  });
});

describe('row filters', () => {
  const MINE = { tasks: { rowFilter: 'owner = $currentUser.id' } };

  test('a row outside the filter is absent from lists, totals, search and single reads', async () => {
    const ids = await tenantWithTasks();
    const caller = await callerWith(MINE);
    expect(await titles(caller)).toEqual(['alpha', 'beta']);
    expect(await list(caller, { limit: 1 })).toMatchObject({ total: 2, totalPages: 2 });
    expect(await list(caller, { search: 'alpha', limit: 1 })).toMatchObject({ total: 1 });
    expect(await titles(caller, { filters: 'title = alpha OR title contains gamma' })).toEqual(['alpha']);
    expect(await titles(caller, { filters: 'owner != me OR owner = them' })).toEqual([]);
    expect((await read(caller, ids.mine)).id).toBe(ids.mine as string);
    expect(await refusal(read(caller, ids.theirs))).toEqual(await refusal(read(caller, crypto.randomUUID())));
    await tenant.patch(`/api/entities/tasks/records/${ids.theirs}`, { owner: 'me' });
    expect(await list(caller, { limit: 1 })).toMatchObject({ total: 3 });
  });

  test('a cursor and deep pages stay inside the filter', async () => {
    await tenantWithTasks();
    for (let i = 0; i < 12; i++)
      await tenant.post('/api/entities/tasks/records', { title: `t${i}`, owner: i % 2 === 0 ? 'me' : 'them' });
    const caller = await callerWith(MINE);
    const seen: unknown[] = [];
    for (let cursor: string | null | undefined = ''; typeof cursor === 'string'; ) {
      const page = await list(caller, { cursor, limit: 3, sort: '-title' });
      expect(page.total).toBe(8);
      seen.push(...page.items.map(({ owner }) => owner));
      cursor = page.nextCursor;
    }
    expect(seen).toEqual(Array.from({ length: 8 }, () => 'me'));
    expect((await list(caller, { page: 3, limit: 3 })).items).toHaveLength(2);
  });

  test('a row outside the filter can be neither changed nor deleted: 404', async () => {
    const ids = await tenantWithTasks();
    const caller = await callerWith(MINE);
    expect((await refusal(update(caller, ids.theirs, { title: 'x' }))).code).toBe('NOT_FOUND');
    expect((await refusal(remove(caller, ids.theirs))).code).toBe('NOT_FOUND');
    expect((await tenant.get(`/api/entities/tasks/records/${ids.theirs}`)).body.data.title).toBe('alpha gamma');
    await update(caller, ids.mine, { title: 'changed' });
    await remove(caller, ids.mine2);
    expect(await titles(caller)).toEqual(['changed']);
  });

  test('a row can neither be created outside the filter nor be moved out of it: 403', async () => {
    const ids = await tenantWithTasks();
    const caller = await callerWith(MINE);
    expect((await refusal(create(caller, { title: 'x', owner: 'them' }))).code).toBe('FORBIDDEN');
    expect((await refusal(create(caller, { title: 'x' }))).code).toBe('FORBIDDEN');
    expect((await refusal(update(caller, ids.mine, { owner: 'them' }))).code).toBe('FORBIDDEN');
    expect((await refusal(update(caller, ids.mine, { owner: null }))).code).toBe('FORBIDDEN');
    expect((await create(caller, { title: 'x', owner: 'me' })).owner).toBe('me');
    expect((await tenant.get('/api/entities/tasks/records')).body.data.total).toBe(4);
  });

  test('a filter may use a field hidden from its role, and may follow a relation', async () => {
    const ids = await tenantWithTasks();
    const hidden = await callerWith({ tasks: { excludeFields: ['owner'], rowFilter: 'owner = $currentUser.id' } });
    expect(await titles(hidden)).toEqual(['alpha', 'beta']);
    expect((await refusal(create(hidden, { title: 'x' }))).code).toBe('FORBIDDEN');
    const through = await callerWith({ tasks: { rowFilter: 'team.open = true' } }, { tasks: ALL });
    expect(await titles(through)).toEqual(['alpha']);
    expect(await list(through, { limit: 1 })).toMatchObject({ total: 1 });
    expect((await refusal(read(through, ids.theirs))).code).toBe('NOT_FOUND');
    const both = await callerWith({ tasks: { rowFilter: 'team.open = true' } });
    expect((await refusal(update(both, ids.mine, { team: ids.blue }))).code).toBe('FORBIDDEN');
    await update(both, ids.mine, { title: 'alpha 2' });
    await tenant.patch(`/api/entities/teams/records/${ids.red}`, { open: false });
    expect((await refusal(update(both, ids.mine, { title: 'x' }))).code).toBe('NOT_FOUND');
    expect(await list(both)).toMatchObject({ total: 0 });
  });
});

describe('relations to unreadable records', () => {
  test('an unreadable target stays an id at every level', async () => {
    const ids = await tenantWithTasks();
    const cases: [TenantCaller, red: unknown, blue: unknown][] = [
      [await callerWith({}, { tasks: ALL }), ids.red, ids.blue],
      [await callerWith({ teams: { rowFilter: 'open = true' } }), { label: 'red', budget: 10 }, ids.blue],
      [await callerWith({ teams: { excludeFields: ['budget'] } }), { label: 'red' }, { label: 'blue' }],
    ];
    for (const [caller, red, blue] of cases) {
      for (const resolve_depth of [1, 2]) {
        expect(await read(caller, ids.mine, { resolve_depth })).toMatchObject({ team: red });
        expect(await read(caller, ids.mine2, { resolve_depth })).toMatchObject({ team: blue });
      }
    }
    const confined = await read(cases[2]?.[0] as TenantCaller, ids.mine, { resolve: true });
    expect(Object.hasOwn(confined.team as object, 'budget')).toBe(false);
  });

  test('a condition over an unreadable target does not match, and an unreadable entity is an unknown field', async () => {
    await tenantWithTasks();
    const rows = await callerWith({ teams: { rowFilter: 'open = true' } });
    expect(await titles(rows, { filters: 'team.label = blue' })).toEqual([]);
    expect(await titles(rows, { filters: 'team.label = red' })).toEqual(['alpha']);
    const none = await callerWith({}, { tasks: ALL });
    const hidden = await refusal(list(none, { filters: 'team.label = red' }));
    expect(hidden).toMatchObject({ code: 'VALIDATION_ERROR' });
    expect(hidden.message).toContain('unknown field "team.label"');
  });

  test('a relation cannot be set to a target that the caller may not see', async () => {
    const ids = await tenantWithTasks();
    const caller = await callerWith({ teams: { rowFilter: 'open = true' } });
    const hidden = await refusal(create(caller, { title: 'x', team: ids.blue }));
    const unknown = await refusal(create(caller, { title: 'x', team: '0190c0de-0000-7000-8000-000000000001' }));
    expect(JSON.stringify(hidden).replaceAll(ids.blue as string, '0190c0de-0000-7000-8000-000000000001')).toBe(
      JSON.stringify(unknown),
    );
    expect((await create(caller, { title: 'x', team: ids.red })).team).toBe(ids.red as string);
    await update(caller, ids.mine2, { title: 'an unchanged target is not checked again' });
    await update(caller, ids.mine2, { title: 'beta', team: ids.blue });
  });
});

describe('permissions', () => {
  test('each operation needs its own permission, and 403 does not reveal whether an entity exists', async () => {
    const ids = await tenantWithTasks();
    for (const held of ALL) {
      const caller = await callerWith({}, { tasks: [held] });
      const outcomes: [Operation, () => Promise<unknown>][] = [
        ['read', () => list(caller)],
        ['read', () => read(caller, ids.mine)],
        ['create', () => create(caller, { title: 'x' })],
        ['update', () => update(caller, ids.mine, { title: 'x' })],
        ['delete', () => remove(caller, held === 'delete' ? ids.theirs : ids.mine)],
      ];
      for (const [operation, outcome] of outcomes) {
        if (operation === held) await outcome();
        else expect([held, operation, (await refusal(outcome())).code]).toEqual([held, operation, 'FORBIDDEN']);
      }
    }
    const unpermitted = await callerWith({}, { 'view:tasks': ALL, 'agent:*': ALL });
    for (const entity of ['tasks', 'absent']) {
      expect((await refusal(list(unpermitted, {}, entity))).code).toBe('FORBIDDEN');
      expect((await refusal(createRecord(autocommit(service.app, unpermitted), entity, {}))).code).toBe('FORBIDDEN');
    }
    expect((await refusal(list(await callerWith({}), {}, 'absent'))).code).toBe('NOT_FOUND');
  });
});
