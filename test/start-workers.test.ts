// WORKERS: several serving processes on one port, which need real stores.
// Contract: decisions#configuration, decisions#operations.
import { afterAll, expect, test } from 'bun:test';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { Heartbeat } from '../src/serve/heartbeat.ts';
import { childrenOf, gone } from './support/descendants.ts';
import { type Client, clientOf } from './support/service.ts';
import { DENO_START, endAll, preparedDataDir, START, startProcess } from './support/started.ts';

afterAll(endAll);

const { DATABASE_URL, REDIS_URL } = process.env;
const real =
  DATABASE_URL && REDIS_URL
    ? { DATABASE_URL, REDIS_URL, ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret', WORKERS: '3' }
    : null;

test(
  real ? 'several processes share a port, and one that dies is restarted' : 'several processes need real stores',
  async () => {
    if (real === null) return expectRefusal();
    for (const command of [START, DENO_START]) await expectSharing(command, real);
  },
);

test(real ? 'the workers stop when the supervisor dies' : 'one process needs no real stores', async () => {
  const started = startProcess(START, real ?? { WORKERS: '1', DATA_DIR: await preparedDataDir(), DEMO: '0' });
  await started.address;
  const others = await childrenOf(started.pid);
  expect(others).toHaveLength(real === null ? 0 : 3);
  await started.end('SIGKILL');
  for (const pid of others) await gone(pid);
});

test(real
  ? 'a worker that does not answer for 30 seconds is killed and replaced'
  : 'one process has no heartbeat', async () => {
  if (real !== null) await expectReplaced(real);
}, 120_000);

test(real
  ? 'a worker that does not answer before it listens is replaced too'
  : 'one process waits for its start', async () => {
  if (real === null) return;
  const started = startProcess(START, real);
  let workers: number[] = [];
  while (workers.length < 3) workers = await childrenOf(started.pid);
  process.kill(workers.at(-1) as number, 'SIGSTOP');
  expect(started.output).toBe('');
  await started.logged('a worker process does not answer and is killed');
  const client = clientOf(await started.address, {});
  expect(await childrenOf(started.pid)).toHaveLength(3);
  for (let i = 0; i < 20; i++) expect((await client.get('/ready')).status).toBe(200);
  expect(await started.end()).toMatchObject({ code: 0 });
}, 120_000);

test('a worker is silent by the ticks of its supervisor since the last answer, not by the clock', () => {
  let asked = 0;
  const silent: number[] = [];
  const heartbeat = new Heartbeat(
    () => asked++,
    (ms) => silent.push(ms),
  );
  const tick = (times: number): void => {
    for (let i = 0; i < times; i++) heartbeat.tick();
  };
  tick(30);
  // The server is merely slow: one query is open at a time, and its response counts however late it comes.
  expect([asked, silent]).toEqual([1, []]);
  heartbeat.answered();
  tick(30);
  expect([asked, silent]).toEqual([2, []]);
  tick(1);
  expect(silent).toEqual([30_000]);
});

/** Stops the last worker, which holds its part of the connections, until the supervisor has replaced it. */
async function expectReplaced(environment: Record<string, string>): Promise<void> {
  const started = startProcess(START, environment);
  const client = clientOf(await started.address, {});
  const stopped = (await childrenOf(started.pid)).at(-1) as number;
  process.kill(stopped, 'SIGSTOP');
  await started.logged('a worker process does not answer and is killed');
  await gone(stopped);
  while ((await childrenOf(started.pid)).length < 3) await delay(100);
  for (let i = 0; i < 20; i++) expect((await client.get('/ready')).status).toBe(200);
  expect(started.errors.match(/does not answer/g)).toHaveLength(1);
  expect(await started.end()).toMatchObject({ code: 0 });
}

async function expectRefusal(): Promise<void> {
  const failed = startProcess(START, { WORKERS: '3' });
  expect(await failed.ended).toMatchObject({ code: 1 });
  expect(failed.errors).toContain('WORKERS: 3 needs DATABASE_URL and REDIS_URL');
}

async function expectSharing(command: readonly string[], environment: Record<string, string>): Promise<void> {
  const started = startProcess(command, environment);
  const client = clientOf(await started.address, {});
  expect(started.output.match(/listening on/g)).toHaveLength(1);
  const [first = 0] = await childrenOf(started.pid);
  const serving = command === START ? await childrenOf(started.pid) : await childrenOf(first);
  expect(serving).toHaveLength(3);
  // Not the first worker, whose replacement listens before it is ready.
  process.kill(serving.at(-1) as number, 'SIGKILL');
  await started.logged('a worker process exited and is restarted');
  for (let i = 0; i < 20; i++) expect((await client.get('/ready')).status).toBe(200);
  await expectCounted(client.with({ 'x-admin-secret': 'admin-secret' }), '/ready', 20);
  expect(await started.end()).toMatchObject({ code: 0 });
  for (const pid of serving) await gone(pid);
}

/** Waits until the metrics of one process, which cover all processes, report `count` requests of the route. */
async function expectCounted(client: Client, route: string, count: number): Promise<void> {
  const pattern = `^http_server_request_duration_seconds_count\\{process="(\\d)",[^}]*"${route}"[^}]*\\} (\\d+)$`;
  for (const endsAt = performance.now() + 60_000; ; ) {
    const { text } = await client.get('/metrics');
    const counts = [...text.matchAll(new RegExp(pattern, 'gm'))].map((match) => Number(match[2]));
    if (counts.reduce((sum, n) => sum + n, 0) === count) break;
    // The restarted process reports to the others a moment after it answers its first request.
    if (performance.now() > endsAt) throw new Error(`${counts.join(' + ')} requests are not ${count}`);
    await delay(100);
  }
}
