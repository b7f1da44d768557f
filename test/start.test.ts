// The service as a process: its first start and the next, its demo, its end by each signal, on both
// runtimes, and several processes on one port where the environment names real stores.
// Contract: decisions#configuration, decisions#operations.
import { afterAll, describe, expect, test } from 'bun:test';
import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type RawConnection, rawGet } from './support/raw.ts';
import { type Client, clientOf } from './support/service.ts';
import {
  DENO_START,
  endAll,
  newDataDir,
  preparedDataDir,
  START,
  type Started,
  startProcess,
} from './support/started.ts';
import { least, took } from './support/timing.ts';

const SHELL = promisify(execFile);

afterAll(endAll);

/** Runs a command as if it were pasted; resolves to what the service answered. */
async function paste(command: string): Promise<string> {
  return (await SHELL('bash', ['-c', command])).stdout;
}

/** What it prints comes in one piece with the address, but a pipe may cut it: the last line names the API's document. */
async function commandsIn(started: Started): Promise<string[]> {
  while (!/^API: .*\n/m.test(started.output)) await delay(10);
  return started.output.split('\n').filter((line) => /^\s*curl /.test(line));
}

function keyIn({ output }: Started): string {
  return /svc_ak_[0-9a-f]+/.exec(output)?.[0] ?? '';
}

describe('an embedded start', () => {
  test('prints a demo whose commands work when pasted, keeps its data, and tells how to get another key', async () => {
    const dataDir = await newDataDir();
    const first = startProcess(START, { DATA_DIR: dataDir });
    const firstMs = await took(() => first.address);
    const commands = await commandsIn(first);
    expect(commands.length).toBeGreaterThan(5);
    for (const command of commands) {
      const answer = await paste(`${command} --fail-with-body`);
      if (!command.includes('format=csv')) expect(JSON.parse(answer)).toMatchObject({ success: true });
    }
    const key = keyIn(first);
    expect(first.errors).not.toContain(key);
    const created = JSON.parse(await paste(commands.at(-1) as string)).data;
    expect(await first.end()).toMatchObject({ code: 0 });

    let second = first;
    const restart = async (): Promise<number> => {
      expect(await second.end()).toMatchObject({ code: 0 });
      second = startProcess(START, { DATA_DIR: dataDir });
      return took(() => second.address);
    };
    expect(await least(firstMs, restart)).toBeLessThan(firstMs);
    const client = clientOf(await second.address, { 'x-api-key': key });
    const found = await client.get(`/api/entities/companies/records/${created.id}`);
    expect(found.body.data).toEqual(created);
    const deals = await client.get('/api/entities/deals/records?limit=1');
    expect(deals.body.data.total).toBe(240);
    const { data: views } = (await client.get('/api/views')).body;
    expect(views.map(({ slug }: { slug: string }) => slug)).toEqual(['won-deals']);
    const { data: roles } = (await client.get('/api/roles')).body;
    expect(roles.map(({ name }: { name: string }) => name)).toContain('partner');
    for (const [header, prefix] of [
      ['authorization', 'Bearer svc_pkey_'],
      ['x-public-key', 'svc_pk_'],
    ] as const) {
      const [value = ''] = new RegExp(`${prefix}[0-9a-f]+`).exec(first.output) ?? [];
      const seen = (await clientOf(await second.address, { [header]: value }).get('/api/entities/deals/records')).body;
      expect(seen.data.total, prefix).toBe(144);
      expect(Object.keys(seen.data.items[0]), prefix).not.toContain('notes');
      expect(first.errors).not.toContain(value);
    }
    expect(keyIn(second)).toBe('');
    const another = JSON.parse(await paste((await commandsIn(second))[0] as string));
    expect(another.data.key).toMatch(/^svc_ak_/);
    expect(await second.end('SIGINT')).toMatchObject({ code: 0 });
  });

  test('acknowledged records survive SIGKILL', async () => {
    const dataDir = await preparedDataDir();
    const first = startProcess(START, { DATA_DIR: dataDir });
    const address = await first.address;
    const client = clientOf(address, { 'x-api-key': await lateKey(first) });
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) {
      const answer = await client.post('/api/entities/companies/records', { title: `kept ${i}` });
      ids.push(answer.body.data.id);
    }
    await first.end('SIGKILL');
    const second = startProcess(START, { DATA_DIR: dataDir });
    const again = clientOf(await second.address, { 'x-api-key': keyIn(first) });
    for (const id of ids) expect((await again.get(`/api/entities/companies/records/${id}`)).status).toBe(200);
    await second.end();
  });

  test('a signal during the start ends it with code 0, and the start after it, or after SIGKILL, is whole', async () => {
    let dataDir = await cutOffStarts();
    while (dataDir === null) dataDir = await cutOffStarts();
    const third = startProcess(START, { DATA_DIR: dataDir });
    const client = clientOf(await third.address, { 'x-api-key': await lateKey(third) });
    expect((await client.get('/api/entities/deals/records')).body.data.total).toBe(240);
    await third.end();
  });

  test('after SIGTERM requests in flight are finished, one that hangs is cut off, and the code is 0 within the limit', async () => {
    const secrets = { ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret' };
    const limit = { SHUTDOWN_TIMEOUT_MS: '15000' };
    const started = startProcess(START, { ...secrets, ...limit, DATA_DIR: await preparedDataDir(), DEMO: '0' });
    const address = await started.address;
    const body = '{"slug":"in-flight","name":"In flight"}';
    const hanging = await newTenant(address, body.length);
    const working = await newTenant(address, body.length);
    for (const { socket } of [hanging, working]) socket.write(body.slice(0, 10));
    const ended = started.end();
    await started.logged('shutting down');
    working.socket.write(body.slice(10));
    await working.reads('HTTP/1.1 201');
    await hanging.ended();
    expect(hanging.text).not.toContain('HTTP/1.1 2');
    // Past its limit a shutdown ends with code 1.
    expect(await ended).toMatchObject({ code: 0 });
  });

  test('a second signal ends at once, with code 1', async () => {
    const secrets = { ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret' };
    // By itself it would end minutes later, when what hangs is cut off.
    const limit = { SHUTDOWN_TIMEOUT_MS: '600000' };
    const started = startProcess(START, { ...secrets, ...limit, DATA_DIR: await preparedDataDir(), DEMO: '0' });
    const hanging = await newTenant(await started.address, 2);
    hanging.socket.write('{');
    process.kill(started.pid, 'SIGTERM');
    await started.logged('shutting down');
    expect(await started.end('SIGTERM')).toMatchObject({ code: 1 });
    await hanging.ended();
    expect(hanging.text).not.toContain('HTTP/1.1 2');
  });

  test('variables that are not accepted are all named, with code 1', async () => {
    const failed = startProcess(START, { PORT: 'http', WORKERS: '4', ADMIN_SECRET: 'tiny' });
    expect(await failed.ended).toMatchObject({ code: 1 });
    for (const name of ['PORT', 'WORKERS', 'ADMIN_SECRET']) expect(failed.errors).toContain(`- ${name}: `);
    expect(failed.errors).not.toContain('tiny');
  });

  test('a database that is away is said in words, with code 1, and its password is not', async () => {
    const secrets = { ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret', LOG_LEVEL: 'debug' };
    const failed = startProcess(START, { ...secrets, DATABASE_URL: 'postgres://u:hushhush@127.0.0.1:1/x' });
    expect(await failed.ended).toMatchObject({ code: 1 });
    expect(failed.errors).toContain('the service cannot start: the database is not available');
    for (const secret of ['hushhush', 'admin-secret', 'jwt-secret']) expect(failed.errors).not.toContain(secret);
  });

  test('a port that is taken is said in words, with code 1', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as { port: number };
    const failed = startProcess(START, { DATA_DIR: await preparedDataDir(), PORT: String(port) });
    expect(await failed.ended).toMatchObject({ code: 1 });
    expect(failed.errors).toContain(`cannot listen on 127.0.0.1:${port}: the address is already in use`);
    taken.close();
  });
});

/**
 * The data of a start that a signal has called off, and of one after it that was killed; null when one of them has come
 * to listen before, which a busy machine shows too late.
 */
async function cutOffStarts(): Promise<string | null> {
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

/** A request for a new tenant that has reached the service; its body, of so many bytes, is yet to be sent. */
async function newTenant(address: string, bytes: number): Promise<RawConnection> {
  const headers = { 'content-type': 'application/json', 'x-admin-secret': 'admin-secret', expect: '100-continue' };
  const length = { 'content-length': String(bytes) };
  const request = await rawGet(address, '/api/admin/platform/tenants', { ...headers, ...length }, 'POST');
  await request.reads('100 Continue');
  return request;
}

/** The demo's key, as soon as it is printed. */
async function lateKey(started: Started): Promise<string> {
  await commandsIn(started);
  return keyIn(started);
}

describe('on Deno', () => {
  test('the same application serves records, keeps them over SIGTERM and SIGKILL, and ends with code 0', async () => {
    const dataDir = await preparedDataDir();
    const first = startProcess(DENO_START, { DATA_DIR: dataDir });
    const address = await first.address;
    const key = await lateKey(first);
    const client = clientOf(address, { 'x-api-key': key });
    const created = await client.post('/api/entities/companies/records', { title: 'Deno Café' });
    expect(created.status).toBe(201);
    const listed = await client.get('/api/entities/companies/records?filters=title%20=%20%22Deno%20Café%22');
    expect(listed.body.data.items).toEqual([created.body.data]);
    expect(await first.end()).toMatchObject({ code: 0 });

    const second = startProcess(DENO_START, { DATA_DIR: dataDir });
    const again = clientOf(await second.address, { 'x-api-key': key });
    const further = await again.post('/api/entities/companies/records', { title: 'Deno Café' });
    expect((await again.get('/api/entities/companies/records')).body.data.total).toBe(42);
    await killDescendants(second.pid);
    await second.ended;

    const third = startProcess(DENO_START, { DATA_DIR: dataDir });
    const last = clientOf(await third.address, { 'x-api-key': key });
    expect((await last.get(`/api/entities/companies/records/${further.body.data.id}`)).status).toBe(200);
    await third.end();
  });
});

/** SIGKILL to everything that a process has started: `deno task` is not the service itself. */
async function killDescendants(pid: number): Promise<void> {
  const found = [pid];
  for (const parent of found) found.push(...(await childrenOf(parent)));
  for (const descendant of found.slice(1)) kill(descendant);
}

/** One that has ended by itself meanwhile is as good. */
function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as { code?: string }).code !== 'ESRCH') throw error;
  }
}

async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await SHELL('ps', ['-A', '-o', 'pid=,ppid=']);
  const pairs = stdout.trim().split('\n');
  return pairs
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, parent]) => parent === pid)
    .map(([child]) => child as number);
}

describe('WORKERS', () => {
  const { DATABASE_URL, REDIS_URL } = process.env;
  const real =
    DATABASE_URL && REDIS_URL
      ? { DATABASE_URL, REDIS_URL, ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret', WORKERS: '3' }
      : null;

  test(
    real ? 'several processes share a port, and one that dies is started anew' : 'several processes need real stores',
    async () => {
      if (real === null) return expectRefusal();
      for (const command of [START, DENO_START]) await expectSharing(command, real);
    },
  );

  test(real ? 'the death of the first process ends the others' : 'one process needs no real stores', async () => {
    const started = startProcess(START, real ?? { WORKERS: '1', DATA_DIR: await preparedDataDir(), DEMO: '0' });
    await started.address;
    const others = await childrenOf(started.pid);
    expect(others).toHaveLength(real === null ? 0 : 3);
    await started.end('SIGKILL');
    for (const pid of others) await gone(pid);
  });
});

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
  // Not the first: the one in its place is not ready at once when it listens.
  process.kill(serving.at(-1) as number, 'SIGKILL');
  await started.logged('a process died and is started anew');
  for (let i = 0; i < 20; i++) expect((await client.get('/ready')).status).toBe(200);
  await expectCounted(client.with({ 'x-admin-secret': 'admin-secret' }), '/ready', 20);
  expect(await started.end()).toMatchObject({ code: 0 });
  for (const pid of serving) await gone(pid);
}

/** Whichever process is asked tells how many requests all of them have answered, each for itself. */
async function expectCounted(client: Client, route: string, count: number): Promise<void> {
  const pattern = `^http_server_request_duration_seconds_count\\{process="(\\d)",[^}]*"${route}"[^}]*\\} (\\d+)$`;
  for (const endsAt = performance.now() + 60_000; ; ) {
    const { text } = await client.get('/metrics');
    const counts = [...text.matchAll(new RegExp(pattern, 'gm'))].map((match) => Number(match[2]));
    if (counts.reduce((sum, n) => sum + n, 0) === count) break;
    // The process that is started anew joins the others a moment after it answers its first request.
    if (performance.now() > endsAt) throw new Error(`${counts.join(' + ')} requests are not ${count}`);
    await delay(100);
  }
}

/** Waits until a process is no more, or is dead and only not yet reaped. */
async function gone(pid: number): Promise<void> {
  for (;;) {
    const state = await SHELL('ps', ['-o', 'stat=', '-p', String(pid)]).catch(() => ({ stdout: '' }));
    if (state.stdout.trim() === '' || state.stdout.startsWith('Z')) return;
    await delay(20);
  }
}
