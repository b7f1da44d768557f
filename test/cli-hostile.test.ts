// The command line with a malicious service, tenant or folder: what reaches a terminal, and which files are written. The service
// of these tests answers every call with texts that a terminal would obey.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { lstatSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { schemaTypes } from '../client/src/schema-types.ts';
import { Deadline } from '../client/src/waiting.ts';
import { bytesOf, withSilenceLimit } from '../src/cli/service.ts';
import { CommandLine } from './support/command-line.ts';

/** A colour, a title, a C1 sequence, a change of the writing direction, and a forged second line. */
const EVIL = 'x\u001b[31m\u001b]0;owned\u0007\u009b2J\u202egpj\r\nhint: run something';
const OBEYED = /[\u0007\u0080-\u009f\u202e]|\u001b\]|\u001b\[31m\S*owned|\nhint: run/;
const CSV = 'title\n"x\u001b[31m\u001b]0;owned\u0007\u202e"\n';
const RECORD = { id: EVIL, title: EVIL, entityId: '', createdAt: '', updatedAt: '', createdBy: null, updatedBy: null };
const CHANGE = { cursor: 'c', id: 'evt_1', at: EVIL, event: EVIL, entity: EVIL, record_id: EVIL, data: { id: EVIL } };
const TENANT = { id: '1', slug: '../../outside', name: EVIL, status: 'active', quotas: {}, counts: {} };

let hostile: ReturnType<typeof Bun.serve>;
let cli: CommandLine;
let isFollowed = false;

beforeAll(() => {
  cli = new CommandLine();
  hostile = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => answer(request.method, new URL(request.url)),
  });
  cli.env.TDS_URL = hostile.url.origin;
  cli.env.TDS_KEY = 'svc_ak_test';
});

afterAll(() => {
  cli.close();
  hostile.stop(true);
});

function answer(method: string, { pathname, searchParams }: URL): Response {
  const data = (value: unknown): Response => Response.json({ success: true, data: value });
  if (/\/tenants?\/(.+\/)?export$/.test(pathname)) return new Response('{"type":"end","counts":{}}\n');
  if (pathname.endsWith('/export')) return new Response(CSV);
  if (pathname.endsWith('/access/explain')) {
    const decidedBy = { source: EVIL, name: EVIL, text: EVIL };
    return data({ allowed: false, decidedBy, fields: { visible: [EVIL], hidden: [] }, row: null });
  }
  if (pathname === '/api/changes') {
    if (searchParams.get('limit') === '1') return data({ items: [], nextCursor: 'c', hasMore: false });
    if (isFollowed) return refusal(403);
    isFollowed = true;
    return data({ items: [CHANGE], nextCursor: 'c', hasMore: false });
  }
  if (pathname === '/api/auth/whoami') {
    return data({ kind: EVIL, email: EVIL, role: EVIL, tenant: { id: '1', slug: EVIL } });
  }
  if (pathname === '/api/keys' && method === 'POST') return data({ key: EVIL });
  if (pathname === '/api/admin/platform/tenants') return data({ items: [TENANT], totalPages: 1 });
  if (pathname.startsWith('/api/admin/platform/tenants/')) return data(TENANT);
  if (/\/records\/./.test(pathname)) return data(RECORD);
  if (pathname.endsWith('/records')) return data({ items: [RECORD], nextCursor: null });
  return refusal(pathname.endsWith('/busy') ? 429 : 400);
}

function refusal(status: number): Response {
  const details = [
    { path: EVIL, message: EVIL },
    { path: 'b', message: EVIL },
  ];
  const headers = { 'retry-after': status === 429 ? '7' : '' };
  return Response.json({ success: false, error: { code: EVIL, message: EVIL, details } }, { status, headers });
}

describe('a terminal', () => {
  test('obeys no text of the service: answers, questions why, changes, keys and refusals', async () => {
    const commands = [
      ['records', 'list', 'deals'],
      ['records', 'get', 'deals', '1'],
      ['whoami'],
      ['explain', 'read', 'deals', '--role', 'x'],
      ['keys', 'create', 'x'],
      ['entities', 'get', 'x'],
      ['roles', 'get', 'x'],
      ['tail'],
      ['tenants', 'list'],
      ['tenants', 'get', 'x'],
      ['health'],
      ['doctor'],
      ['export', 'deals', '--format', 'csv'],
      ['records', 'get', 'deals', '1', '--json'],
      ['entities', 'get', 'x', '--json'],
    ];
    for (const command of commands) {
      const { shown } = await cli.onTerminal(command);
      expect([command, OBEYED.exec(shown)?.[0]]).toEqual([command, undefined]);
    }
  }, 60_000);

  test('a pipe gets the values as they are: bytes of files, and JSON that means the same', async () => {
    expect((await cli.run(['export', 'deals', '--format', 'csv'])).out).toBe(CSV);
    const { out } = await cli.run(['records', 'get', 'deals', '1', '--json']);
    expect(JSON.parse(out)).toEqual(RECORD);
  });

  test('shows how long the service asks to wait', async () => {
    const { code, err } = await cli.run(['entities', 'get', 'busy']);
    expect([code, err]).toEqual([3, expect.stringContaining('wait 7 s')]);
  });
});

test('a download that falls silent is given up, and its request is cancelled', async () => {
  let isCancelled = false;
  const silent = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ signal }) => {
      signal.addEventListener('abort', () => {
        isCancelled = true;
      });
      return new Response(new ReadableStream({ start: (controller) => controller.enqueue('begin\n') }));
    },
  });
  const silence = new Deadline(undefined);
  const response = await fetch(silent.url, { signal: silence.signal });
  const taken: number[] = [];
  const reading = (async () => {
    for await (const { length } of withSilenceLimit(bytesOf(response), silence, 200)) taken.push(length);
  })();
  await expect(reading).rejects.toThrow('sent nothing for 0.2 s');
  expect(taken).toEqual([6]);
  while (!isCancelled) await Bun.sleep(5);
  silent.stop(true);
});

describe('files', () => {
  test('are new ones: a link is followed, a device stays, and files that others have put there are left alone', async () => {
    const at = (name: string): string => join(cli.directory, name);
    writeFileSync(at('real.csv'), 'old');
    symlinkSync('real.csv', at('link.csv'));
    expect(await cli.run(['export', 'deals', '--out', 'link.csv'])).toMatchObject({ code: 0 });
    expect(lstatSync(at('link.csv')).isSymbolicLink()).toBe(true);
    expect(readFileSync(at('real.csv'), 'utf8')).toBe(CSV);

    writeFileSync(at('victim'), 'mine');
    symlinkSync('victim', at('new.csv.part'));
    expect(await cli.run(['export', 'deals', '--out', 'new.csv'])).toMatchObject({ code: 0 });
    expect(readFileSync(at('victim'), 'utf8')).toBe('mine');

    writeFileSync(at('tenant.ndjson'), '', { mode: 0o666 });
    expect(await cli.run(['backup', 'tenant.ndjson'])).toMatchObject({ code: 0 });
    expect(statSync(at('tenant.ndjson')).mode & 0o777).toBe(0o600);

    const device = symlinkTo('/dev/null', at('device.csv'));
    expect(await cli.run(['export', 'deals', '--out', device])).toMatchObject({ code: 0 });
    expect(lstatSync('/dev/null').isCharacterDevice()).toBe(true);
    expect(await cli.run(['export', 'deals', '--out', '.', '--format', 'csv'])).toMatchObject({ code: 2 });
    expect(readdirSync(cli.directory).filter((name) => name.endsWith('.part'))).toEqual(['new.csv.part']);
  });

  test('that only their owner can read stay so when an export replaces them', async () => {
    for (const mode of [0o600, 0o640, 0o400]) {
      const file = join(cli.directory, `private-${mode.toString(8)}.csv`);
      writeFileSync(file, 'old', { mode });
      expect(await cli.run(['export', 'deals', '--out', file])).toMatchObject({ code: 0 });
      expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual([CSV, mode]);
    }
  });

  test('of a backup stay in its folder, whatever a service calls its tenants or a manifest its files', async () => {
    const { code, err } = await cli.run(['backup', '--all', 'backups']);
    expect([code, err]).toEqual([1, expect.stringContaining('no name of a file')]);
    expect(readdirSync(join(cli.directory, 'backups'))).toEqual([]);
    mkdirSync(join(cli.directory, 'forged'));
    writeFileSync(join(cli.directory, 'secret.ndjson'), 'mine');
    const tenants = [{ slug: 'a', file: '../secret.ndjson', bytes: 4, counts: {}, status: 'active', quotas: {} }];
    const manifest = { format: 'tenant-data-service-backup', version: 1, tenants };
    writeFileSync(join(cli.directory, 'forged/manifest.json'), JSON.stringify(manifest));
    const restored = await cli.run(['restore', 'forged']);
    expect([restored.code, restored.err]).toEqual([1, expect.stringContaining('no name of a file')]);
  });

  test('of types hold types only, whatever the names and descriptions are', () => {
    const name = 'x: { }; } process.exit(1); interface Y { z';
    const description = `*/ process.exit(1) /* ${EVIL}`;
    const fields = [{ key: name, type: 'select', description, required: true, options: [EVIL], entity: null }];
    const text = [...schemaTypes([{ name, label: EVIL, description, fields }])].join('\n\n');
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    const script = new Bun.Transpiler({ loader: 'ts' }).transformSync(text);
    expect(script.trim()).toBe('');
  });
});

function symlinkTo(target: string, path: string): string {
  symlinkSync(target, path);
  return path;
}
