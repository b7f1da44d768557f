// The requests of subscriptions with a role, filters or fields, from two tenants that differ only in what the role may not see:
// a different number of hidden rows, hidden fields with other names and values, an entity without rights. Receivers get the same
// requests, with the same headers, lengths and attempts, in the same order for each record; also for tests, retries and replays,
// and after the role has been narrowed.
// Contract: decisions#webhooks-for-others, decisions#replay.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { deliveriesOf, judgedChanges, SUBSCRIPTIONS, subscribe } from './support/deliveries.ts';
import { createRecord } from './support/entities.ts';
import { type Received, type Receiver, startReceiver } from './support/receiver.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const NOTES = '/api/entities/note/records';
const TYPES = ['record.created', 'record.updated', 'record.deleted'];

interface World {
  owner: TestTenant;
  receiver: Receiver;
  canary: string;
  hiddenRows: number;
  subscriptions: Json[];
  ids: Map<string, string>;
}

let service: TestService;
let worlds: World[];
beforeAll(async () => {
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_RETRY_BASE_MS: '50',
    WEBHOOK_RETRY_FACTOR: '1',
    WEBHOOK_MAX_RETRIES: '2',
  });
  worlds = [await build('xsecret', 1), await build('a_much_longer_name', 5)];
}, 120_000);
afterAll(async () => {
  await service.stop();
  for (const { receiver } of worlds) await receiver.stop();
});

async function build(canary: string, hiddenRows: number): Promise<World> {
  const [owner, receiver] = [await service.tenant(), await startReceiver()];
  // The first attempt for a record with this name fails.
  receiver.answer = ({ headers, text }, response) => {
    const fails = headers['x-svc-attempt'] === '1' && text.includes('fails');
    response.writeHead(fails ? 503 : 200).end(text);
  };
  const text = { type: 'text' };
  const define = async (name: string, fields: Json[]): Promise<void> => {
    expect((await owner.post('/api/entities', { name, fields })).status).toBe(201);
  };
  await define(`${canary}_vault`, [{ key: 'line', ...text }]);
  await define('place', [
    { key: 'tag', ...text },
    { key: `${canary}_zip`, ...text },
  ]);
  await define('note', [
    { key: 'title', ...text },
    { key: 'body', ...text },
    { key: 'place', type: 'relation', entity: 'place' },
    { key: `${canary}_flag`, type: 'boolean', default: true },
    { key: canary, ...text },
  ]);
  const world: World = { owner, receiver, canary, hiddenRows, subscriptions: [], ids: new Map() };
  await partner(world, [canary, `${canary}_flag`]);
  const note = { entity_name: 'note', event_types: TYPES, role: 'partner', secret: 'shared' };
  for (const [path, members] of Object.entries({
    plain: {},
    all: { entity_name: '*' },
    filtered: { filters: 'title contains "e"', include: ['previous', 'cursor'] },
    narrow: { fields: ['title'], include: ['previous'] },
  })) {
    world.subscriptions.push(await subscribe(owner, `${receiver.url}/${path}`, { ...note, ...members }));
  }
  return world;
}

async function partner({ owner, canary }: World, excludeFields: readonly string[]): Promise<void> {
  const rowFilter = `${canary}_flag = true`;
  const role = {
    permissions: { note: ['read'], place: ['read'] },
    entities: {
      note: { excludeFields, rowFilter },
      place: { fields: ['tag'], rowFilter: `${canary}_zip != "hidden"` },
    },
  };
  const made = await owner.post('/api/roles', { name: 'partner', ...role });
  const { status, text } = made.status === 201 ? made : await owner.patch('/api/roles/partner', role);
  expect(status, text).toBeLessThan(300);
}

/** Changes that the role sees, among others that it does not. */
async function change(world: World, round: string): Promise<void> {
  const { owner, canary, hiddenRows, ids } = world;
  const create = async (label: string, entity: string, values: Json): Promise<string> => {
    const { id } = await createRecord(owner, `/api/entities/${entity}/records`, values);
    ids.set(id, `${round} ${label}`);
    return id;
  };
  const hide = async (): Promise<void> => {
    for (let i = 0; i < hiddenRows; i++) {
      const id = await create('hidden', 'note', { title: `fails ${canary}`, [`${canary}_flag`]: false });
      await owner.patch(`${NOTES}/${id}`, { title: `${canary} ${i}` });
      await create('vault', `${canary}_vault`, { line: canary });
      await create('hidden place', 'place', { tag: 'e', [`${canary}_zip`]: 'hidden' });
      if (i % 2 === 0) expect((await owner.delete(`${NOTES}/${id}`)).status).toBe(200);
    }
  };
  await hide();
  const place = await create('place', 'place', { tag: 'rome', [`${canary}_zip`]: canary });
  const shown = await create('shown', 'note', { title: 'one', body: 'fails', place, [canary]: canary });
  const leaving = await create('leaving', 'note', { title: 'there', [canary]: canary });
  await hide();
  await owner.patch(`${NOTES}/${shown}`, { title: 'other', [canary]: `${canary} 2` });
  await owner.patch(`${NOTES}/${shown}`, { [canary]: `${canary} 3` });
  await owner.patch(`${NOTES}/${leaving}`, { [`${canary}_flag`]: false, title: canary });
  for (let i = 0; i < hiddenRows; i++) await owner.patch(`${NOTES}/${leaving}`, { title: `${canary} e ${i}` });
  await owner.patch(`${NOTES}/${leaving}`, { [`${canary}_flag`]: true, title: 'back again' });
  await owner.patch(`${NOTES}/${shown}`, { title: 'no', place: null });
  await owner.delete(`${NOTES}/${shown}`);
  await hide();
}

async function settled({ owner, subscriptions }: World): Promise<void> {
  await judgedChanges(service.app.db, owner.id);
  for (const { id } of subscriptions) {
    while ((await deliveriesOf(owner, id)).some(({ status }) => status === 'pending')) await Bun.sleep(20);
  }
}

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const VARYING = /^(host|webhook-signature|webhook-timestamp|x-svc-signature|x-svc-delivery|webhook-id|traceparent)$/;

/** The requests by path and record, in their order, without what differs between any two tenants. */
function receivedBy({ receiver, ids }: World): Record<string, string[]> {
  const neutral = (text: string): string =>
    text
      .replaceAll(UUID, (id) => ids.get(id) ?? 'id')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time')
      .replaceAll(/("cursor":")([^"]*)/g, (_, before, value) => `${before}${value.length}`);
  const shown = ({ headers, text }: Received): string => {
    const kept = Object.entries(headers).filter(([name]) => !VARYING.test(name));
    return neutral(`${JSON.stringify(kept)} ${text}`);
  };
  const requests = receiver.received.splice(0);
  const groups = Map.groupBy(requests, ({ path, headers, body }) => {
    const isTest = headers['x-svc-test'] === 'true';
    return `${path} ${isTest ? 'test' : ids.get(body.record_id.replace('rec_', ''))}`;
  });
  return Object.fromEntries([...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, of]) => [key, of.map(shown)]));
}

/** Runs something in both tenants: the receivers get the same, and nothing that is hidden. */
async function compare(run: (world: World) => Promise<void>): Promise<Record<string, string[]>> {
  const seen: Record<string, string[]>[] = [];
  for (const world of worlds) {
    await run(world);
    await settled(world);
    const received = receivedBy(world);
    expect(JSON.stringify(received)).not.toContain(world.canary);
    seen.push(received);
  }
  expect(seen[0]).toEqual(seen[1] as Record<string, string[]>);
  return seen[0] as Record<string, string[]>;
}

const forEach = async ({ owner, subscriptions }: World, action: string, body?: Json): Promise<void> => {
  for (const { id } of subscriptions) {
    const { status, text } = await owner.post(`${SUBSCRIPTIONS}/${id}/${action}`, body);
    expect(status, text).toBeLessThan(300);
  }
};

test('changes, with retries', async () => {
  const received = await compare((world) => change(world, 'first'));
  expect(Object.keys(received)).toEqual([
    ...[
      '/all first leaving',
      '/all first place',
      '/all first shown',
      '/filtered first leaving',
      '/filtered first shown',
    ],
    ...['/narrow first leaving', '/narrow first shown', '/plain first leaving', '/plain first shown'],
  ]);
  expect(JSON.stringify(received['/plain first shown'])).toContain('"x-svc-attempt\\",\\"2');
}, 120_000);

test('test events', async () => {
  const received = await compare((world) => forEach(world, 'test'));
  expect(Object.keys(received)).toEqual(['/all test', '/filtered test', '/narrow test', '/plain test']);
}, 60_000);

test('a replay, also after the role has been narrowed, and changes from then on', async () => {
  const replayed = { from: '2020-01-01T00:00:00Z', status: 'all' };
  const settledReplays = async (world: World, body: Json): Promise<void> => {
    await forEach(world, 'replay', body);
    const own = world.subscriptions.map(({ id }) => id);
    const running = () =>
      service.app.db.rows(sql`select from platform.webhook_replays where subscription_id = any(${own}::uuid[])`);
    while ((await running()).length > 0) await Bun.sleep(20);
  };
  await compare((world) => settledReplays(world, replayed));
  await compare(async (world) => {
    await partner(world, [world.canary, `${world.canary}_flag`, 'body', 'place']);
    await settledReplays(world, replayed);
  });
  await compare((world) => change(world, 'second'));
}, 180_000);
