// Signals sent to the service process: during startup, with requests in flight, and a second signal.
// Contract: decisions#shutdown.
import { afterAll, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { createLog } from '../src/runtime/log.ts';
import { openDatabase } from '../src/runtime/postgres.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { fields } from './support/entities.ts';
import { type RawConnection, rawGet } from './support/raw.ts';
import { clientOf } from './support/service.ts';
import { endAll, preparedDataDir, printedKey, START, startProcess } from './support/started.ts';
import { retryWhenDelayed } from './support/timing.ts';

const SECRETS = { ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret' };

afterAll(endAll);

test('a signal during the start ends it with code 0, and a later start completes what a signal or SIGKILL interrupted', async () => {
  let dataDir = await interruptStarts();
  while (dataDir === null) dataDir = await interruptStarts();
  const third = startProcess(START, { DATA_DIR: dataDir });
  const client = clientOf(await third.address, { 'x-api-key': await printedKey(third) });
  expect((await client.get('/api/entities/deals/records')).body.data.total).toBe(240);
  await third.end();
});

test('after SIGTERM requests in flight finish, one that hangs is aborted, and the exit code is 0 within the limit', () =>
  retryWhenDelayed(
    5_000,
    async (limitMs) => {
      const limit = { SHUTDOWN_TIMEOUT_MS: String(limitMs) };
      const started = startProcess(START, { ...SECRETS, ...limit, DATA_DIR: await preparedDataDir(), DEMO: '0' });
      const address = await started.address;
      const body = '{"slug":"in-flight","name":"In flight"}';
      const hanging = await newTenant(address, body.length);
      const working = await newTenant(address, body.length);
      for (const { socket } of [hanging, working]) socket.write(body.slice(0, 10));
      const ended = started.end();
      await started.logged('shutting down');
      working.socket.write(body.slice(10));
      await working.received('HTTP/1.1 201');
      await hanging.ended();
      expect(hanging.text).not.toContain('HTTP/1.1 2');
      // A shutdown that exceeds its limit ends with code 1.
      expect(await ended).toMatchObject({ code: 0 });
    },
    2,
  ));

// The embedded database has one session, so nothing waits for a lock there.
const { DATABASE_URL, REDIS_URL = '' } = process.env;
if (DATABASE_URL) {
  test('a definition change that waits for a lock in the database does not keep a process from ending in time, with code 0', async () => {
    const limit = { SHUTDOWN_TIMEOUT_MS: '10000' };
    const started = startProcess(START, { ...SECRETS, ...limit, DATABASE_URL, REDIS_URL, DEMO: '0' });
    const address = await started.address;
    const operator = clientOf(address, { 'x-admin-secret': 'admin-secret' });
    const made = await operator.post('/api/admin/platform/tenants', { slug: `waits-${Date.now()}`, name: 'Waits' });
    const { id, slug, apiKey } = made.body.data;
    const client = clientOf(address, { 'x-api-key': apiKey });
    await client.post('/api/entities', { name: 'task', fields: fields('title text') });
    const db = openDatabase({ url: DATABASE_URL, log: createLog({ level: 'error' }) });
    await db.slow.begin(async (tx) => {
      await tx.rows(sql`lock table ${identifier(schemaOf(id), 'entity_records')} in share row exclusive mode`);
      const change = client.patch('/api/entities/task/fields/title', { indexed: true }).catch(() => undefined);
      await Promise.race([change, delay(1_000)]);
      expect(await started.end()).toMatchObject({ code: 0 });
      await change;
    });
    // Nothing of it is left, and another process can make the change.
    const next = startProcess(START, { ...SECRETS, DATABASE_URL, REDIS_URL, DEMO: '0' });
    const again = clientOf(await next.address, { 'x-api-key': apiKey });
    expect((await again.patch('/api/entities/task/fields/title', { indexed: true })).status).toBe(200);
    const deletion = clientOf(await next.address, { 'x-admin-secret': 'admin-secret' });
    await deletion.delete(`/api/admin/platform/tenants/${slug}?confirm=${slug}`);
    await next.end();
    await db.close();
  });
}

test('a second signal ends the process at once, with exit code 1', async () => {
  // Without the second signal it would end minutes later, when the hanging request is aborted.
  const limit = { SHUTDOWN_TIMEOUT_MS: '600000' };
  const started = startProcess(START, { ...SECRETS, ...limit, DATA_DIR: await preparedDataDir(), DEMO: '0' });
  const hanging = await newTenant(await started.address, 2);
  hanging.socket.write('{');
  process.kill(started.pid, 'SIGTERM');
  await started.logged('shutting down');
  expect(await started.end('SIGTERM')).toMatchObject({ code: 1 });
  await hanging.ended();
  expect(hanging.text).not.toContain('HTTP/1.1 2');
});

/**
 * The data directory after one start that SIGTERM interrupted and another that SIGKILL ended. Null if one of them was
 * listening before the signal came, which happens on a busy machine.
 */
async function interruptStarts(): Promise<string | null> {
  const dataDir = await preparedDataDir();
  const first = startProcess(START, { DATA_DIR: dataDir });
  await first.logged('migration applied');
  expect(await first.end()).toMatchObject({ code: 0 });
  if (first.output !== '') return null;
  const second = startProcess(START, { DATA_DIR: dataDir });
  await second.logged('embedded database started');
  await delay(250);
  await second.end('SIGKILL');
  return second.output === '' ? dataDir : null;
}

/** Sends the head of a request for a new tenant; resolves once the service asks for its body of `bytes` bytes. */
async function newTenant(address: string, bytes: number): Promise<RawConnection> {
  const headers = { 'content-type': 'application/json', 'x-admin-secret': 'admin-secret', expect: '100-continue' };
  const length = { 'content-length': String(bytes) };
  const request = await rawGet(address, '/api/admin/platform/tenants', { ...headers, ...length }, 'POST');
  await request.received('100 Continue');
  return request;
}
