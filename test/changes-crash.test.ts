// The feed over a crash of Postgres. Transactions whose ends were not yet on disk, such as rolled-back ones, leave no trace:
// their ids, and the numbers that they drew, are assigned again. A cursor from before must not take the new ones for the old.
// Contract: feed#guarantee, feed#cursors.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import postgres from 'postgres';
import { createEntity, fields } from './support/entities.ts';
import { type PrivatePostgres, privatePostgres } from './support/private-servers.ts';
import { type ServiceProcess, startServiceProcess } from './support/processes.ts';
import { type Answer, clientOf, createTenant, type TestTenant } from './support/service.ts';
import { endAll } from './support/started.ts';

const RECORDS = '/api/entities/deals/records';
/** More than the service itself uses between the crash and the first change. */
const ROLLED_BACK = 600;

let server: PrivatePostgres | undefined;
let service: ServiceProcess;
let tenant: TestTenant;
beforeAll(async () => {
  // On embedded defaults, no other test needs a server either.
  server = process.env.DATABASE_URL ? await privatePostgres() : undefined;
  if (server === undefined) return;
  // Asynchronous commits stay in memory until the crash.
  const admin = postgres(server.url, { max: 1 });
  await admin`alter system set wal_writer_delay = '10s'`;
  await admin`alter system set wal_writer_flush_after = '1GB'`;
  await admin.end();
  await server.stop();
  await server.start();
  service = await startServiceProcess({ DATABASE_URL: server.url });
  tenant = await createTenant(service.url);
  await createEntity(tenant, 'deals', fields('title text'));
});
afterAll(async () => {
  await endAll();
  await server?.remove();
});

/** Resolves when the service has its database again. */
async function eventually(run: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await run();
    if (answer.status !== 503) return answer;
    await Bun.sleep(50);
  }
}

test('a change after a crash of Postgres is in the feed, whatever ids were lost in it', async () => {
  if (server === undefined) return;
  const client = clientOf(service.url, { 'x-api-key': tenant.key });
  expect((await client.post(RECORDS, { title: 'before' })).status).toBe(201);
  const admin = postgres(server.url, { max: 1 });
  await admin
    .begin(async (sql) => {
      for (let i = 0; i < ROLLED_BACK; i++) {
        // Each subtransaction takes an id; the numbers beyond the logged ones go with it.
        await sql`select nextval('platform.events_seq')`;
        await sql.savepoint(
          (inner) =>
            inner`select pg_current_xact_id(), nextval('platform.events_seq'), pg_current_xact_id_if_assigned()`,
        );
      }
      throw new Error('rolled back');
    })
    .catch(() => undefined);
  for (let i = 0; i < ROLLED_BACK; i++) {
    await admin.unsafe(`begin; select pg_current_xact_id(); rollback`);
  }
  const { nextCursor } = (await client.get('/api/changes')).body.data;
  const page = (await client.get(`/api/changes?since=${nextCursor}`)).body.data;
  const listed = (await client.get(RECORDS)).headers.get('changes-cursor') as string;
  await server.stop('immediate');
  await server.start();
  await admin.end({ timeout: 1 });
  const titles: string[] = [];
  for (let i = 0; i < 20; i++) {
    const made = await eventually(() => client.post(RECORDS, { title: `after ${i}` }));
    expect(made.status, made.text).toBe(201);
    titles.push(`after ${i}`);
  }
  for (const since of [nextCursor, page.nextCursor, listed]) {
    const { status, body } = await eventually(() => client.get(`/api/changes?since=${since}`));
    expect(status).toBe(200);
    expect(body.data.items.map(({ data }: { data: { title: string } }) => data.title)).toEqual(titles);
    const next = (await client.get(`/api/changes?since=${body.data.nextCursor}`)).body.data;
    expect(next.items).toEqual([]);
  }
}, 120_000);
