// The service as a process on its embedded defaults: the first start and the next, the demo, failed starts. Signals
// are in start-signals, Deno in start-deno, several processes on one port in start-workers.
// Contract: decisions#configuration, decisions#operations.
import { afterAll, describe, expect, test } from 'bun:test';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import { clientOf } from './support/service.ts';
import {
  commandsIn,
  endAll,
  keyIn,
  newDataDir,
  preparedDataDir,
  printedKey,
  START,
  startProcess,
} from './support/started.ts';
import { durationOf, fastest } from './support/timing.ts';

afterAll(endAll);

const run = promisify(execFile);

/** Resolves to the output of a shell command. */
async function runInShell(command: string): Promise<string> {
  return (await run('bash', ['-c', command])).stdout;
}

describe('an embedded start', () => {
  test('prints a demo whose commands work as printed, keeps its data, and says how to get another key', async () => {
    const dataDir = await newDataDir();
    const first = startProcess(START, { DATA_DIR: dataDir });
    const firstMs = await durationOf(() => first.address);
    const commands = await commandsIn(first);
    expect(commands.length).toBeGreaterThan(5);
    for (const command of commands) {
      const answer = await runInShell(`${command} --fail-with-body`);
      if (!command.includes('format=csv')) expect(JSON.parse(answer)).toMatchObject({ success: true });
    }
    const key = keyIn(first);
    expect(first.errors).not.toContain(key);
    const created = JSON.parse(await runInShell(commands.at(-1) as string)).data;
    expect(await first.end()).toMatchObject({ code: 0 });

    let second = first;
    const restart = async (): Promise<number> => {
      expect(await second.end()).toMatchObject({ code: 0 });
      second = startProcess(START, { DATA_DIR: dataDir });
      return durationOf(() => second.address);
    };
    expect(await fastest(firstMs, restart)).toBeLessThan(firstMs);
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
    const another = JSON.parse(await runInShell((await commandsIn(second))[0] as string));
    expect(another.data.key).toMatch(/^svc_ak_/);
    expect(await second.end('SIGINT')).toMatchObject({ code: 0 });
  });

  test('acknowledged records survive SIGKILL', async () => {
    const dataDir = await preparedDataDir();
    const first = startProcess(START, { DATA_DIR: dataDir });
    const address = await first.address;
    const client = clientOf(address, { 'x-api-key': await printedKey(first) });
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

  test('the garbage collector has the settings of the image, unless the environment says otherwise', async () => {
    const environments: Record<string, string>[] = [
      {},
      { BUN_JSC_forceRAMSize: '268435456', BUN_JSC_concurrentGCMaxHeadroom: '2' },
    ];
    const settings = environments.map(async (environment) => {
      const started = startProcess(START, { DATA_DIR: await preparedDataDir(), ...environment });
      await started.address;
      const variables = (await readFile(`/proc/${started.pid}/environ`, 'utf8')).split('\0');
      await started.end();
      return variables.filter((variable) => variable.startsWith('BUN_JSC_')).sort();
    });
    const [byDefault = [], chosen = []] = await Promise.all(settings);
    expect(byDefault).toEqual(['BUN_JSC_concurrentGCMaxHeadroom=2.5', `BUN_JSC_forceRAMSize=${512 * 1_048_576}`]);
    expect(chosen).toEqual(['BUN_JSC_concurrentGCMaxHeadroom=2', 'BUN_JSC_forceRAMSize=268435456']);
    const image = await readFile('Dockerfile', 'utf8');
    for (const variable of byDefault) expect(image).toContain(variable);
  });

  test('every invalid variable is named, with exit code 1', async () => {
    const failed = startProcess(START, { PORT: 'http', WORKERS: '4', ADMIN_SECRET: 'tiny' });
    expect(await failed.ended).toMatchObject({ code: 1 });
    for (const name of ['PORT', 'WORKERS', 'ADMIN_SECRET']) expect(failed.errors).toContain(`- ${name}: `);
    expect(failed.errors).not.toContain('tiny');
  });

  test('an unavailable database is reported with exit code 1, and without its password', async () => {
    const secrets = { ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret', LOG_LEVEL: 'debug' };
    const failed = startProcess(START, { ...secrets, DATABASE_URL: 'postgres://u:hushhush@127.0.0.1:1/x' });
    expect(await failed.ended).toMatchObject({ code: 1 });
    expect(failed.errors).toContain('the service cannot start: the database is not available');
    for (const secret of ['hushhush', 'admin-secret', 'jwt-secret']) expect(failed.errors).not.toContain(secret);
  });

  test('a port in use is reported with exit code 1, after a warning about a misspelt variable', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as { port: number };
    const failed = startProcess(START, { DATA_DIR: await preparedDataDir(), PORT: String(port), WEBHOOK_TIMEOUT: '7' });
    expect(await failed.ended).toMatchObject({ code: 1 });
    expect(failed.errors).toContain('unknown environment variable WEBHOOK_TIMEOUT; did you mean WEBHOOK_TIMEOUT_MS?');
    expect(failed.errors).toContain(`cannot listen on 127.0.0.1:${port}: the address is already in use`);
    taken.close();
  });
});
