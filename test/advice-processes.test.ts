// The advice on indexes across two processes: each counts its own slow lists, and both show the slow lists of both.
// Contract: decisions#advice.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { tableNameOf } from '../src/entities/field.ts';
import { LIMITS } from '../src/limits.ts';
import { createLog } from '../src/runtime/log.ts';
import { type Database, openDatabase } from '../src/runtime/postgres.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { createEntity, fields } from './support/entities.ts';
import { type ServiceProcess, type SharedStores, sharedStores, startServiceProcess } from './support/processes.ts';
import { type Client, clientOf, createTenant, type Json } from './support/service.ts';
import { endAll } from './support/started.ts';

const NOTES = '/api/entities/notes';
let stores: SharedStores;
let database: Database;
let processes: ServiceProcess[] = [];
beforeAll(async () => {
  stores = await sharedStores();
  database = openDatabase({ url: stores.databaseUrl, log: createLog({ level: 'error' }), max: 1 });
  if (stores.redisUrl === undefined) return;
  processes = [await startServiceProcess(stores.environment), await startServiceProcess(stores.environment)];
});
afterAll(async () => {
  await database.close();
  await endAll();
  await stores.remove();
});

const adviceAt = async (client: Client): Promise<Json[]> => (await client.get(`${NOTES}/advice`)).body.data;

/** Resolves when the lists have been counted this many times. */
async function seenAt(client: Client, seen: number): Promise<Json[]> {
  for (const until = Date.now() + 15_000; ; await delay(50)) {
    const advice = await adviceAt(client);
    if (advice[0]?.seen === seen || Date.now() > until) return advice;
  }
}

test('both processes show the sum of their slow lists, including those of a process that stops', async () => {
  // Without Redis there is only one process: nothing to test.
  if (stores.redisUrl === undefined) return;
  const [first, second] = processes as [ServiceProcess, ServiceProcess];
  const tenant = await createTenant(first.url);
  const other = clientOf(second.url, { 'x-api-key': tenant.key });
  await createEntity(tenant, 'notes', fields('title text'));
  const { id } = (await tenant.get(NOTES)).body.data;
  const [table, kept] = [tableNameOf(id), 'kept'].map((name) => identifier(schemaOf(tenant.id), name));
  await database.rows(sql`
    update platform.entity_counts set n = ${LIMITS.slowList.records}::bigint where entity_id = ${id}::uuid and slot = 0`);
  await database.rows(sql`alter table ${table} rename to kept`);
  await database.rows(sql`create view ${table} as select * from ${kept} where (select pg_sleep(0.1) is not null)`);
  const list = async (client: Client): Promise<void> => {
    expect((await client.get(`${NOTES}/records?sort=title`)).status).toBe(200);
  };
  await list(tenant);
  await list(tenant);
  await list(other);
  for (const client of [tenant, other]) {
    const index = { fields: ['title'], state: 'possible' };
    expect(await seenAt(client, 3)).toEqual([
      { filters: null, sort: 'title', seen: 3, p50Ms: expect.any(Number), index },
    ]);
  }
  await list(other);
  expect(await second.stop()).toBe(0);
  expect((await adviceAt(tenant)).map(({ seen }) => seen)).toEqual([4]);
});
