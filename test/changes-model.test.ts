// A model of the feed: random writers of every kind on two processes, followers whose connections are cut at random, and a
// process that is killed. Each follower must have put together what was committed: every change once, the changes of one record
// in order, and in the end the records as REST shows them. On a real server, a transaction that drew a number early stays open
// meanwhile.
// Contract: feed#guarantee.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { createLog } from '../src/runtime/log.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { sql } from '../src/runtime/sql.ts';
import { createEntity, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { seededRandom } from './support/random.ts';
import { type Client, clientOf, createTenant, type Json, type TestTenant } from './support/service.ts';
import { endAll } from './support/started.ts';

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const CHANGES = Number(process.env.MODEL_CHANGES ?? 240);
const RECORDS = '/api/entities/deals/records';
const random = seededRandom(SEED);
const below = (n: number): number => Math.floor(random() * n);

let stores: SharedStores;
let db: Database;
let processes: ServiceProcess[];
let tenant: TestTenant;
beforeAll(async () => {
  stores = await sharedStores();
  const count = stores.redisUrl === undefined ? 1 : 2;
  processes = [];
  for (let i = 0; i < count; i++) processes.push(await startServiceProcess(stores.environment));
  db = openDatabase({ url: stores.databaseUrl, log: createLog({ level: 'error', write: () => undefined }) });
  tenant = await createTenant(processes[0]?.url ?? '');
  await createEntity(tenant, 'deals', fields('title text', 'amount integer', 'secret text'));
});
afterAll(async () => {
  await db.close();
  await endAll();
  await stores.remove();
});

/** A client at one of the processes. */
const anywhere = (): Client => clientOf(processes[below(processes.length)]?.url ?? '', { 'x-api-key': tenant.key });

/** A request that a killed process may interrupt: it may have been carried out or not. */
async function attempt<T>(run: () => Promise<T>): Promise<T | null> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof TypeError || /socket|connect|closed/i.test(String(error))) return null;
    throw error;
  }
}

const ids: string[] = [];

/** Random changes: of single records, in bulk (whole, or each on its own), and by import. */
async function write(changes: number): Promise<void> {
  for (let left = changes; left > 0; ) {
    const id = ids[below(ids.length)];
    const kind = id === undefined ? 0 : below(8);
    const values = { title: `t${below(1_000)}`, amount: below(20) };
    const client = anywhere();
    left -= 1;
    if (kind <= 1 || id === undefined) {
      const made = await attempt(() => client.post(RECORDS, values));
      if (made?.status === 201) ids.push(made.body.data.id);
    } else if (kind <= 4) await attempt(() => client.patch(`${RECORDS}/${id}`, values));
    else if (kind === 5) await attempt(() => client.delete(`${RECORDS}/${id}`));
    else if (kind === 6) {
      const operations = [
        ...Array.from({ length: 1 + below(5) }, () => ({ op: 'create', data: values })),
        { op: 'update', id, data: { amount: below(20) } },
      ];
      const body = { operations, atomic: random() < 0.5 };
      const done = await attempt(() => client.post(`${RECORDS}/bulk`, body));
      for (const result of done?.body.data?.results ?? []) if (result.id) ids.push(result.id);
      left -= operations.length - 1;
    } else {
      const lines = Array.from({ length: 3 }, () => `${JSON.stringify(values)}\n`).join('');
      const type = { 'content-type': 'application/x-ndjson' };
      await attempt(() => client.request('POST', `${RECORDS}/import`, lines, type));
      left -= 2;
    }
  }
}

/** Follows until the writers have ended and nothing more comes. */
class Follower {
  readonly items: Json[] = [];

  constructor(
    private cursor: string,
    private readonly query: Record<string, string> = {},
  ) {}

  async run(hasEnded: () => boolean): Promise<void> {
    for (;;) {
      const wasLast = hasEnded();
      const parameters = { ...this.query, since: this.cursor, limit: `${1 + below(12)}`, wait: `${below(2)}` };
      const answer = await attempt(() => anywhere().get(`/api/changes?${new URLSearchParams(parameters)}`));
      if (answer === null || answer.status === 503) continue;
      if (answer.status !== 200) throw new Error(answer.text);
      const { items, nextCursor, hasMore } = answer.body.data;
      // Sometimes a reader continues from the middle of a page.
      const isCut = items.length > 1 && random() < 0.3;
      const kept = isCut ? items.slice(0, 1 + below(items.length - 1)) : items;
      this.items.push(...kept);
      this.cursor = isCut ? kept.at(-1).cursor : nextCursor;
      if (wasLast && !isCut && !hasMore && items.length === 0) return;
    }
  }
}

/** Repeats a transaction that draws its number early and commits late; only on a real server. */
async function holdTransactions(hasEnded: () => boolean): Promise<void> {
  if (!process.env.DATABASE_URL) return;
  while (!hasEnded()) {
    await db.begin(async (tx) => {
      await tx.rows(sql`
        insert into platform.events (id, xid, tenant_id, entity_id, entity, record_id, type, version, data, created_at,
          updated_at, triggered_by)
        select gen_random_uuid(), pg_current_xact_id(), tenant_id, entity_id, entity, gen_random_uuid(), 'record.created', 1,
          data, created_at, updated_at, triggered_by
        from platform.events where tenant_id = ${tenant.id}::uuid order by seq limit 1`);
      await new Promise((resolve) => setTimeout(resolve, 20 + below(400)));
    });
  }
}

test(`every follower assembles what was committed (SEED=${SEED})`, async () => {
  const since = (await tenant.get('/api/changes')).body.data.nextCursor;
  let hasEnded = false;
  const isOver = (): boolean => hasEnded;
  const whole = [new Follower(since), new Follower(since), new Follower('earliest')];
  const filtered = new Follower(since, { entities: 'deals', filters: 'amount > 9' });
  const moving = new Follower(since, { entities: 'deals', filters: 'amount > 9', transitions: 'true' });
  const following = Promise.all([...whole, filtered, moving].map((follower) => follower.run(isOver)));
  const holding = holdTransactions(isOver);
  const writing = Promise.all(Array.from({ length: 4 }, () => write(CHANGES / 4)));
  if (processes.length > 1) {
    // Its acknowledged changes stay, and the others continue.
    await new Promise((resolve) => setTimeout(resolve, 400));
    const [killed] = processes.splice(1, 1);
    await killed?.kill();
    processes.push(await startServiceProcess(stores.environment));
  }
  await writing;
  hasEnded = true;
  await holding;
  await following;
  // A page that began before the last transaction ended may have been the last.
  hasEnded = true;
  for (const follower of [...whole, filtered, moving]) await follower.run(isOver);

  const committed = await db.rows<{
    id: string;
    record_id: string;
    version: number;
    amount: number | null;
    type: string;
  }>(sql`
    select e.id, e.record_id, e.version, (e.data ->> f.slot)::int as amount, e.type
    from platform.events as e, (select 'f2' as slot) as f
    where e.tenant_id = ${tenant.id}::uuid and e.type like 'record.%' order by e.seq`);
  const all = committed.map(({ id }) => `evt_${id}`).sort();
  for (const { items } of whole) {
    expect(items.map(({ id }) => id).toSorted()).toEqual(all);
    expect(disordered(items)).toEqual([]);
  }
  const big = committed.filter(({ amount }) => (amount ?? 0) > 9).map(({ id }) => `evt_${id}`);
  expect(filtered.items.map(({ id }) => id).toSorted()).toEqual(big.sort());
  const copy = copyOf(whole[0]?.items ?? []);
  const text = (await anywhere().get(`${RECORDS}/export`)).text;
  const stored = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  expect(stored.length).toBeGreaterThan(0);
  // Records of the held transactions appear only in the feed.
  expect(stored.map(({ id }) => copy.get(id))).toEqual(stored);
  const selected = copyOf(moving.items);
  expect(stored.filter(({ id }) => selected.has(id))).toEqual(stored.filter(({ amount }) => amount > 9));
  for (const { id, amount } of stored) if (amount > 9) expect(selected.get(id)).toEqual(copy.get(id));
  expect([...selected.keys()].filter((id) => !copy.has(id))).toEqual([]);
}, 180_000);

/** The records as a follower has assembled them. */
function copyOf(items: readonly Json[]): Map<string, Json> {
  const copy = new Map<string, Json>();
  for (const { event, record_id: id, data } of items) {
    if (event === 'record.deleted' || event === 'record.left') copy.delete(id);
    else copy.set(id, data);
  }
  return copy;
}

/** Changes of a record that do not follow the one before. */
function disordered(items: readonly Json[]): string[] {
  const versions = new Map<string, number>();
  return items.flatMap(({ event, record_id: id, version }) => {
    const before = versions.get(id) ?? 0;
    versions.set(id, event === 'record.deleted' ? Number.POSITIVE_INFINITY : version);
    const isNext = event === 'record.deleted' ? version === before : version === before + 1;
    return isNext ? [] : [`${event} ${id} ${version} after ${before}`];
  });
}
