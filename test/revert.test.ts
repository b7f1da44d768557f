// Undoing the changes of a span, or of an import. Contract: history#revert.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { inFittingParts, PartTooLarge } from '../src/history/fitting-parts.ts';
import { bearer, everyKind, userToken } from './support/credentials.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import {
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

const DEALS = '/api/entities/deals/records';
const TASKS = '/api/entities/tasks/records';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  const code = { key: 'code', type: 'text', unique: true };
  await createEntity(tenant, 'deals', [...fields('title text', 'amount integer', 'body text'), code]);
  await createEntity(tenant, 'tasks', [
    ...fields('title text'),
    { key: 'deal', type: 'relation', entity: 'deals', onDelete: 'cascade' },
  ]);
});

/** A time that is after everything so far, and before everything that follows. */
async function moment(): Promise<string> {
  await Bun.sleep(3);
  const at = new Date().toISOString();
  await Bun.sleep(3);
  return at;
}

const soon = (): string => new Date(Date.now() + 60_000).toISOString();

async function revert(input: Json, client: Client = tenant): Promise<Json> {
  const answer = await client.post('/api/changes/revert', input);
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return answer.body.data;
}

const done = (reverted: number, skipped = 0, conflicts: Json[] = []): Json => ({
  reverted,
  skipped,
  conflicts,
  conflictCount: conflicts.length,
  hasMore: false,
});

async function list(path: string): Promise<Json[]> {
  return (await tenant.get(`${path}?sort=createdAt&limit=100`)).body.data.items;
}

const valuesOf = ({ id, createdAt, createdBy, title, amount, code }: Json): Json => ({
  id,
  createdAt,
  createdBy,
  title,
  amount,
  code,
});

test('created records are deleted, changed ones get their former values, deleted ones come back; once', async () => {
  const kept = await createRecord(tenant, DEALS, { title: 'kept', amount: 1 });
  const changed = await createRecord(tenant, DEALS, { title: 'changed', amount: 2 });
  const gone = await createRecord(tenant, DEALS, { title: 'gone', amount: 3, code: 'g' });
  const before = (await list(DEALS)).map(valuesOf);
  const from = await moment();
  await tenant.patch(`${DEALS}/${changed.id}`, { title: 'x', amount: null });
  await tenant.patch(`${DEALS}/${changed.id}`, { code: 'new' });
  await tenant.patch(`${DEALS}/${gone.id}`, { title: 'y' });
  await tenant.delete(`${DEALS}/${gone.id}`);
  const deal = await createRecord(tenant, DEALS, { title: 'created' });
  const task = await createRecord(tenant, TASKS, { title: 'created', deal: deal.id });
  const brief = await createRecord(tenant, DEALS, { title: 'brief' });
  await tenant.delete(`${DEALS}/${brief.id}`);
  const to = await moment();
  const since = (await tenant.get('/api/changes')).body.data.nextCursor;
  expect(await revert({ from, to, dryRun: true })).toEqual(done(4, 1));
  expect((await tenant.get(`/api/changes?since=${since}`)).body.data.items).toEqual([]);
  expect(await revert({ from, to })).toEqual(done(4, 1));
  expect((await list(DEALS)).map(valuesOf)).toEqual(before);
  expect(await list(TASKS)).toEqual([]);
  const items = (await tenant.get(`/api/changes?since=${since}`)).body.data.items;
  expect(items.map(({ event, record_id, triggered_by }: Json) => [event, record_id, triggered_by])).toEqual([
    ['record.deleted', task.id, 'system'],
    ['record.deleted', deal.id, 'system'],
    ['record.created', gone.id, 'system'],
    ['record.updated', gone.id, 'system'],
    ['record.updated', changed.id, 'system'],
  ]);
  // Running it again continues where it stopped: undone records are skipped, even when the span includes the undoing.
  expect(await revert({ from, to })).toEqual(done(0, 5));
  expect(await revert({ from, to: soon() })).toEqual(done(0, 5));
  expect((await tenant.get(`${DEALS}/${kept.id}`)).body.data).toEqual(kept);
});

test('a record that somebody changed afterwards, or that others refer to by now, is a conflict and left alone', async () => {
  const from = await moment();
  const [a, b, c, d] = [
    await createRecord(tenant, DEALS, { title: 'a' }),
    await createRecord(tenant, DEALS, { title: 'b' }),
    await createRecord(tenant, DEALS, { title: 'c' }),
    await createRecord(tenant, DEALS, { title: 'd' }),
  ];
  const to = await moment();
  await tenant.patch(`${DEALS}/${a.id}`, { title: 'later' });
  const task = await createRecord(tenant, TASKS, { title: 'of b', deal: b.id });
  await tenant.delete(`${DEALS}/${c.id}`);
  const conflicts = [
    { entity: 'deals', record_id: b.id, reason: 'other records refer to it' },
    { entity: 'deals', record_id: a.id, reason: 'it has been changed since' },
  ];
  const { conflicts: found, ...counts } = await revert({ from, to });
  expect(counts).toEqual({ reverted: 1, skipped: 1, conflictCount: 2, hasMore: false });
  expect(found).toHaveLength(2);
  expect(found).toEqual(expect.arrayContaining(conflicts));
  expect((await list(DEALS)).map(({ title }) => title)).toEqual(['later', 'b']);
  expect((await tenant.get(`${TASKS}/${task.id}`)).status).toBe(200);
  expect((await tenant.get(`${DEALS}/${d.id}`)).status).toBe(404);
});

test('retyping a field is not a change of records: earlier changes are undone, except the values of that field', async () => {
  const created = await createRecord(tenant, DEALS, { title: 'other', body: '5' });
  const from = await moment();
  const born = await createRecord(tenant, DEALS, { title: 'born', body: '6' });
  const changed = await createRecord(tenant, DEALS, { title: 'before', body: '7' });
  const middle = await moment();
  await tenant.patch(`${DEALS}/${changed.id}`, { title: 'after' });
  await tenant.patch(`${DEALS}/${created.id}`, { title: 'mine', body: '8' });
  const retyped = await tenant.patch('/api/entities/deals/fields/body', { type: 'integer' });
  expect([retyped.status, retyped.text]).toEqual([200, retyped.text]);
  await tenant.patch(`${DEALS}/${changed.id}`, { amount: 3 });
  const to = await moment();
  await tenant.patch(`${DEALS}/${created.id}`, { amount: 1 });
  const conflict = { entity: 'deals', record_id: created.id, reason: 'it has been changed since' };
  expect(await revert({ from: middle, to })).toEqual(done(1, 0, [conflict]));
  const values = (await list(DEALS)).map(({ title, amount, body }) => [title, amount, body]);
  expect(values).toEqual([
    ['mine', 1, 8],
    ['born', null, 6],
    ['before', null, 7],
  ]);
  expect(await revert({ from, to: middle, entity: 'deals' })).toMatchObject({ reverted: 1, conflictCount: 1 });
  expect((await tenant.get(`${DEALS}/${born.id}`)).status).toBe(404);
});

test('dropping a field is not a change of records: earlier changes are undone, without bringing its values back', async () => {
  const from = await moment();
  const created = await createRecord(tenant, DEALS, { title: 'created', body: 'gone' });
  const changed = await createRecord(tenant, DEALS, { title: 'before', body: 'gone' });
  const middle = await moment();
  await tenant.patch(`${DEALS}/${changed.id}`, { title: 'after', amount: 2 });
  expect((await tenant.delete('/api/entities/deals/fields/body?confirm=body')).status).toBe(200);
  await tenant.patch(`${DEALS}/${changed.id}`, { amount: 3 });
  const to = await moment();
  const page = (await tenant.get(`${DEALS}/${changed.id}/history`)).body.data.items;
  expect(page.map(({ version }: Json) => version)).toEqual([3, 2, 1]);
  const asOf = (await tenant.get(`${DEALS}/${changed.id}?asOf=${middle}`)).body.data;
  expect(asOf).toMatchObject({ title: 'before', amount: null });
  expect(asOf).not.toHaveProperty('body');
  expect(await revert({ from: middle, to })).toEqual(done(1));
  expect((await list(DEALS)).map(({ title, amount }) => [title, amount])).toEqual([
    ['created', null],
    ['before', null],
  ]);
  expect((await tenant.post(`${DEALS}/${changed.id}/restore`, { version: 2 })).status).toBe(200);
  expect(await revert({ from, to: middle, entity: 'deals' })).toMatchObject({ reverted: 1, conflictCount: 1 });
  expect((await tenant.get(`${DEALS}/${created.id}`)).status).toBe(404);
});

test('values that others have taken since, and rules, are conflicts with their reason', async () => {
  const a = await createRecord(tenant, DEALS, { title: 'a', code: 'one' });
  const b = await createRecord(tenant, DEALS, { title: 'b', code: 'two' });
  const from = await moment();
  await tenant.patch(`${DEALS}/${a.id}`, { code: 'three' });
  await tenant.patch(`${DEALS}/${b.id}`, { title: 'locked' });
  const to = await moment();
  await createRecord(tenant, DEALS, { title: 'c', code: 'one' });
  const action = { type: 'reject', message: 'locked for ever' };
  const rule = { name: 'no', entity: 'deals', trigger: 'before_update', condition: 'title = "b"', action };
  expect((await tenant.post('/api/rules', rule)).status).toBe(201);
  const { conflicts, reverted } = await revert({ from, to });
  expect(reverted).toBe(0);
  expect(conflicts).toEqual([
    { entity: 'deals', record_id: b.id, reason: 'locked for ever' },
    { entity: 'deals', record_id: a.id, reason: 'code: already exists' },
  ]);
});

test('a record that cannot have its former values stays deleted: it is a conflict and left alone, and comes back once they fit', async () => {
  const gone = await createRecord(tenant, DEALS, { title: 'gone', code: 'a' });
  const from = await moment();
  await tenant.patch(`${DEALS}/${gone.id}`, { title: 'changed', code: 'b' });
  await tenant.delete(`${DEALS}/${gone.id}`);
  const to = await moment();
  const taken = await createRecord(tenant, DEALS, { title: 'new', code: 'a' });
  const reason = expect.stringContaining('code');
  const conflicts = [{ entity: 'deals', record_id: gone.id, reason }];
  expect(await revert({ from, to })).toEqual(done(0, 0, conflicts));
  expect((await tenant.get(`${DEALS}/${gone.id}`)).status).toBe(404);
  await tenant.delete(`${DEALS}/${taken.id}`);
  expect(await revert({ from, to })).toEqual(done(1));
  expect((await tenant.get(`${DEALS}/${gone.id}`)).body.data).toMatchObject({ title: 'gone', code: 'a' });
});

test('actor, triggered_by and entity narrow the span; between two of them, a change of somebody else is a conflict', async () => {
  const ada = bearer(service, await userToken(service, tenant, 'admin'));
  const bob = bearer(service, await userToken(service, tenant, 'admin'));
  const { id: actor } = (await ada.get('/api/auth/whoami')).body.data;
  const both = await createRecord(tenant, DEALS, { title: 'both' });
  const own = await createRecord(tenant, DEALS, { title: 'own' });
  const from = await moment();
  await ada.patch(`${DEALS}/${both.id}`, { title: 'ada' });
  await bob.patch(`${DEALS}/${both.id}`, { amount: 1 });
  await ada.patch(`${DEALS}/${both.id}`, { title: 'ada again' });
  await ada.patch(`${DEALS}/${own.id}`, { title: 'ada' });
  await createRecord(ada, TASKS, { title: 'of ada' });
  const to = await moment();
  const conflict = { entity: 'deals', record_id: both.id, reason: 'it has been changed since' };
  expect(await revert({ from, to, actor, entity: 'deals', triggered_by: 'mcp' })).toEqual(done(0));
  expect(await revert({ from, to, actor, entity: 'deals' })).toEqual(done(1, 0, [conflict]));
  expect((await tenant.get(`${DEALS}/${own.id}`)).body.data.title).toBe('own');
  expect(await list(TASKS)).toHaveLength(1);
  expect(await revert({ from, to, entity: 'deals', actor: null })).toEqual(done(0));
});

test('an import is undone by its id, of a thousand records and with large ones, two at once too', async () => {
  const file = Array.from({ length: 1_100 }, (_, i) => JSON.stringify({ title: `${i}` }));
  for (let i = 0; i < 12; i++) file.push(JSON.stringify({ title: 'large', body: 'x'.repeat(900_000) }));
  const type = { 'content-type': 'application/x-ndjson' };
  const { importId, created } = (await tenant.post(`${DEALS}/import`, file.join('\n'), type)).body.data;
  expect(created).toBe(1_112);
  const other = await createRecord(tenant, DEALS, { title: 'other' });
  const answers = await Promise.all([revert({ importId }), revert({ importId })]);
  expect(answers.map(({ reverted }) => reverted).reduce((sum, n) => sum + n)).toBe(1_112);
  expect(await revert({ importId })).toEqual(done(0, 1_112));
  expect(await list(DEALS)).toEqual([other]);
  const stranger = await service.tenant();
  expect((await stranger.post('/api/changes/revert', { importId })).status).toBe(404);
}, 60_000);

test('records are undone in parts that fit: few are tried in vain, and all of small ones together', async () => {
  const sizes = [...Array(300).fill(1), ...Array(900).fill(900_000), 9_000_000, ...Array(600).fill(1)] as number[];
  const parts = Array.from({ length: Math.ceil(sizes.length / 200) }, (_, i) => i);
  const taken: number[][] = [];
  let tooLarge = 0;
  const isDone = await inFittingParts(
    parts,
    (part) => sizes.slice(200 * part, 200 * (part + 1)),
    async (records) => {
      const isTooLarge = records.length > 1 && records.reduce((sum, size) => sum + size) > 8_388_608;
      if (isTooLarge) tooLarge++;
      if (isTooLarge) throw new PartTooLarge();
      taken.push([...records]);
    },
    () => false,
  );
  expect([isDone, taken.flat()]).toEqual([true, sizes]);
  // Nine of the large ones fit; so few more were tried that two of three parts fit.
  const large = taken.filter(([first]) => first === 900_000);
  expect(large.length).toBeLessThan(900 / 6);
  expect(tooLarge).toBeLessThan(large.length / 2);
  expect(taken[0]).toHaveLength(200);
  expect(Math.max(...taken.slice(-5).map(({ length }) => length))).toBeGreaterThan(100);
  expect(
    await inFittingParts(
      [1],
      () => sizes,
      async () => undefined,
      () => true,
    ),
  ).toBe(false);
});

test('needs a tenant admin, and a span or an import', async () => {
  const span = { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' };
  const statuses: Record<string, number> = {};
  for (const [kind, headers] of Object.entries(await everyKind(service, tenant))) {
    if (kind === 'super_admin') continue;
    statuses[kind] = (await clientOf(service.url, headers).post('/api/changes/revert', span)).status;
  }
  const [refused, admitted] = [403, 200];
  expect(statuses).toEqual({
    owner_key: admitted,
    platform_key: refused,
    public_key: 401,
    legacy_public_key: 401,
    user: refused,
    admin_user: admitted,
    developer: refused,
    bot: refused,
    admin_session: admitted,
    admin_key: 403,
  });
  for (const [input, paths] of [
    [{}, ['from', 'to']],
    [{ from: '2026-01-01' }, ['from', 'to']],
    [{ from: span.to, to: span.from }, ['to']],
    [{ ...span, importId: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f' }, ['from', 'to']],
    [{ importId: 'x' }, ['importId']],
    [{ ...span, entities: 'deals' }, ['entities']],
  ] as const) {
    const { status, body } = await tenant.post('/api/changes/revert', input);
    expect([status, body.error?.details?.map(({ path }: Json) => path)]).toEqual([400, [...paths]]);
  }
  expect((await tenant.post('/api/changes/revert', { ...span, entity: 'none' })).status).toBe(404);
  expect((await tenant.post('/api/changes/revert', { importId: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f' })).status).toBe(
    404,
  );
});
