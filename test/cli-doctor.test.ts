// `tds doctor` against deliberate faults: it names each fault and its remedy, and finds none in a healthy installation.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { CHECKS } from '../src/cli/doctor/finding.ts';
import { CommandLine } from './support/command-line.ts';
import { ADMIN_SECRET, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
let cli: CommandLine;
const servers: Server[] = [];

beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  cli = new CommandLine({ TDS_URL: service.url, TDS_KEY: tenant.key });
});

afterAll(async () => {
  for (const server of servers) server.closeAllConnections();
  cli.close();
  await service.stop();
});

/** The names of the faults and notes that it finds. */
async function found(parameters: string[], env: Record<string, string> = {}): Promise<string[]> {
  const { out, code } = await cli.run(['doctor', '--json', ...parameters], { env });
  const { faults, findings } = JSON.parse(out);
  expect(code).toBe(faults === 0 ? 0 : 1);
  const wrong = findings.filter(({ state }: Json) => state === 'fault' || state === 'note');
  for (const { cure } of wrong) expect(cure).toBeString();
  return wrong.map(({ check }: Json) => check);
}

async function listening(server: Server): Promise<string> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A proxy in front of the service that behaves like a badly configured one. */
function carelessProxy(): Server {
  const server = createServer((incoming, answer) => {
    if (Number(incoming.headers['content-length'] ?? 0) > 500_000) {
      incoming.resume();
      answer.writeHead(413, { 'content-type': 'text/html' }).end('<h1>Too large</h1>');
      return;
    }
    const { port, hostname } = new URL(service.url);
    const { method, headers, url: path } = incoming;
    const onward = request({ hostname, port, method, path, headers }, (response) => {
      const date = new Date(Date.now() - 600_000).toUTCString();
      const isStream = /event-stream/.test(response.headers['content-type'] ?? '');
      const kept: Uint8Array[] = [];
      response.on('data', (chunk) => kept.push(chunk));
      response.on('end', () => sendAll(answer, response.statusCode ?? 502, { ...response.headers, date }, kept));
      // It buffers a stream until the end, which never comes.
      if (isStream) answer.on('close', () => onward.destroy());
    });
    onward.on('error', () => answer.destroy());
    incoming.pipe(onward);
  });
  server.on('upgrade', (_, socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  return server;
}

function sendAll(answer: ServerResponse, status: number, headers: Json, chunks: Uint8Array[]): void {
  const body = Buffer.concat(chunks);
  const { 'transfer-encoding': _, ...rest } = headers;
  answer.writeHead(status, { ...rest, 'content-length': body.byteLength }).end(body);
}

describe('over the network', () => {
  test('a healthy installation has no fault, for an admin and for an operator', async () => {
    expect(await found([])).toEqual([]);
    // A Postgres without pgvector, or a tenant of another test, is seen as the service itself sees it.
    const { status } = (await service.admin.get('/health/schema')).body.data;
    const expected = status === 'healthy' ? [] : ['schema'];
    expect(await found([], { TDS_KEY: ADMIN_SECRET, TDS_TENANT: tenant.slug })).toEqual(expected);
  });

  test('an address where nothing listens, and one where something else does', async () => {
    expect(await found(['--url', 'http://127.0.0.1:9'])).toEqual(['address']);
    const other = await listening(createServer((_, answer) => void answer.end('hello')));
    expect(await found(['--url', other])).toEqual(['service']);
  });

  test('a credential that is missing or refused, a tenant that does not exist, is another or is suspended', async () => {
    expect(await found([], { TDS_KEY: '' })).toEqual(['credential']);
    const wrongKey = `${tenant.key.slice(0, -1)}${tenant.key.endsWith('0') ? 1 : 0}`;
    expect(await found([], { TDS_KEY: wrongKey })).toEqual(['credential']);
    expect(await found([], { TDS_KEY: ADMIN_SECRET, TDS_TENANT: 'nobody' })).toEqual(['tenant']);
    const other = await service.tenant();
    expect(await found(['--tenant', other.slug])).toEqual(['tenant']);
    await service.admin.patch(`/api/admin/platform/tenants/${other.slug}`, { status: 'suspended' });
    const text = await cli.run(['doctor'], { env: { TDS_KEY: other.key } });
    expect(text.out).toContain('FAULT  tenant: the tenant is suspended\n       cure: an operator resumes it');
  });

  test('a proxy that holds streams back, refuses WebSockets and large bodies, and has another clock', async () => {
    const proxy = await listening(carelessProxy());
    expect((await found(['--url', proxy])).toSorted()).toEqual([
      'base-url',
      'body-limit',
      'clock',
      'event-stream',
      'websocket',
    ]);
  }, 30_000);

  test('pages of an origin that may not call, a quota that is nearly used, and a webhook that fails', async () => {
    const full = await service.tenant();
    await full.post('/api/entities', { name: 'things', fields: [{ key: 'title', type: 'text' }] });
    await service.admin.patch(`/api/admin/platform/tenants/${full.slug}`, { quotas: { records: 1 } });
    await full.post('/api/webhooks/subscriptions', {
      entity_name: 'things',
      event_types: ['record.created'],
      url: 'http://receiver.invalid/hook',
    });
    await full.post('/api/entities/things/records', { title: 'one' });
    const isFailing = async (): Promise<boolean> =>
      (await full.get('/api/webhooks/subscriptions')).body.data[0].health.state === 'failing';
    while (!(await isFailing())) await Bun.sleep(50);
    const wrong = await found(['--origin', `https://${crypto.randomUUID()}.test`], { TDS_KEY: full.key });
    expect(wrong).toEqual(['origin', 'webhooks', 'quotas']);
  });
});

describe('with --local', () => {
  const env = { TDS_URL: 'http://127.0.0.1:9', TDS_KEY: '' };

  test('weak secrets, misspelt variables, open ranges, stores that are away, and readable secrets', async () => {
    const dataDir = join(cli.directory, 'data');
    mkdirSync(dataDir, { recursive: true });
    writeFileSync(join(dataDir, 'admin-secret'), 'secret');
    chmodSync(join(dataDir, 'admin-secret'), 0o644);
    const wrong = await found(['--local'], {
      ...env,
      ADMIN_SECRET: 'changeme-changeme-changeme',
      JWT_SECRET: 'changeme-changeme-changeme',
      DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none',
      REDIS_URL: 'redis://127.0.0.1:9',
      DATA_DIR: dataDir,
      HOST: '0.0.0.0',
      WEBHOOK_ALLOWED_CIDRS: '0.0.0.0/0',
      WEBHOK_TIMEOUT_MS: '1',
    });
    expect(wrong.filter((name) => name !== 'disk')).toEqual(
      'misspelt secrets secrets secrets exposure ranges mail data-dir postgres redis address'.split(' '),
    );
  });

  test('variables that keep the service from starting, of a file .env too; no value of a secret is shown', async () => {
    writeFileSync(join(cli.directory, '.env'), 'PORT=many\nADMIN_SECRET=tiny-1\n');
    const { out } = await cli.run(['doctor', '--local'], { env });
    expect(out).toMatch(/FAULT {2}configuration: PORT: "many" is not accepted/);
    expect(out).toMatch(/FAULT {2}configuration: ADMIN_SECRET: the value is not accepted/);
    expect(out).not.toContain('tiny-1');
  });
});

test('the reference lists every fault that is looked for, and no other', () => {
  const page = readFileSync(join(import.meta.dir, '../docs/reference/command-line.md'), 'utf8');
  const table = page.slice(page.indexOf('## What tds doctor finds'));
  const listed = [...table.matchAll(/^\| `([\w-]+)` \| (.*) \|$/gm)].map(([, name, text]) => [name, text]);
  expect(Object.fromEntries(listed)).toEqual(CHECKS);
});
