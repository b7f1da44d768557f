// The command line `tds`: the real process, in pipes and on a terminal, against a running service.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { sql } from '../src/runtime/sql.ts';
import { CommandLine, type Ran } from './support/command-line.ts';
import { type Received, startReceiver } from './support/receiver.ts';
import { ADMIN_SECRET, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
let cli: CommandLine;

beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8' });
  tenant = await service.tenant({ owner: { email: 'ann@acme.test', password: 'correct horse battery', name: 'Ann' } });
  cli = new CommandLine();
  await tenant.post('/api/entities', {
    name: 'deals',
    fields: [
      { key: 'title', type: 'text', required: true },
      { key: 'code', type: 'text', unique: true },
      { key: 'amount', type: 'integer' },
      { key: 'open', type: 'boolean' },
    ],
  });
  const signedIn = await cli.run(['login', '--url', service.url, '--key', '-'], { input: `${tenant.key}\n` });
  expect(signedIn).toMatchObject({ code: 0, out: '' });
});

afterAll(async () => {
  cli.close();
  await service.stop();
});

const json = ({ out }: Ran): Json => JSON.parse(out);
const lines = ({ out }: Ran): Json[] =>
  out
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe('signing in', () => {
  test('stores address, tenant and credential in a file that only its owner reads', () => {
    const { profiles } = JSON.parse(readFileSync(cli.profiles, 'utf8'));
    expect(profiles.default).toEqual({ url: service.url, tenant: tenant.slug, credential: tenant.key });
    expect(statSync(cli.profiles).mode & 0o777).toBe(0o600);
    expect(statSync(join(cli.profiles, '..')).mode & 0o777).toBe(0o700);
  });

  test('with a password, on a terminal, shows none of it and stores none of it', async () => {
    const own = new CommandLine();
    const { code, shown } = await own.onTerminal(
      ['login', '--url', service.url, '--user', 'ann@acme.test'],
      [
        ['Tenant:', tenant.slug],
        ['Password:', 'correct horse battery'],
      ],
    );
    expect(shown).toContain('signed in');
    expect(code).toBe(0);
    expect(shown).not.toContain('horse');
    expect(readFileSync(own.profiles, 'utf8')).not.toContain('horse');
    expect(json(await own.run(['whoami', '--json']))).toMatchObject({ email: 'ann@acme.test', role: 'owner' });
    own.close();
  });

  test('takes no credential from an argument, and does not repeat it', async () => {
    for (const parameters of [['--key'], ['--admin'], ['--user', 'ann@acme.test']]) {
      const { code, err } = await cli.run(['login', '--url', service.url, ...parameters, 'svc_ak_visible']);
      expect([code, err]).toEqual([2, expect.not.stringContaining('visible')]);
    }
    const listen = ['webhooks', 'listen', '--forward-to', 'http://127.0.0.1:9/', '--secret', 'visible'];
    expect(await cli.run(listen)).toMatchObject({ code: 2, err: expect.not.stringContaining('visible') });
  });

  test('a refused credential is not stored', async () => {
    const before = readFileSync(cli.profiles, 'utf8');
    const refused = await cli.run(['login', '--url', service.url, '--profile', 'bad', '--key', '-'], {
      input: 'svc_ak_00',
    });
    expect(refused).toMatchObject({ code: 3, err: expect.stringContaining('401') });
    expect(readFileSync(cli.profiles, 'utf8')).toBe(before);
  });

  test('a running command has no secret among its arguments', async () => {
    const child = cli.start(['tail'], { env: { TDS_URL: service.url, TDS_KEY: tenant.key } });
    const argumentsNow = (): string => readFileSync(`/proc/${child.pid}/cmdline`, 'utf8');
    while (!argumentsNow().includes('main.ts')) await Bun.sleep(5);
    const shown = argumentsNow();
    expect(shown).not.toContain('svc_');
    child.kill('SIGINT');
    expect(await child.exited).toBe(130);
  });

  test('of several sign-ins at once, every profile is kept, also beside a file that a killed one left', async () => {
    const own = new CommandLine();
    const names = Array.from({ length: 16 }, (_, i) => `p${10 + i}`);
    const waiting: (() => void)[] = [];
    // Answers eight callers at once, so that they store their profiles in the same moment.
    const answering = Bun.serve({
      port: 0,
      fetch: async () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.push(resolve);
        if (waiting.length === 8) for (const answer of waiting.splice(0)) answer();
        await promise;
        return Response.json({ success: true, data: { kind: 'owner_key', tenant: null, role: 'owner', email: null } });
      },
    });
    const url = `http://127.0.0.1:${answering.port}`;
    const signIn = (name: string) =>
      own.run(['login', '--url', url, '--profile', name, '--key', '-'], { input: 'svc_ak_x' });
    try {
      for (const round of [names.slice(0, 8), names.slice(8)]) {
        const ran = await Promise.all(round.map(signIn));
        expect(ran.map(({ code }) => code)).toEqual(round.map(() => 0));
        writeFileSync(`${own.profiles}.next`, '');
      }
      expect(Object.keys(JSON.parse(readFileSync(own.profiles, 'utf8')).profiles).toSorted()).toEqual(names);
      expect(statSync(own.profiles).mode & 0o777).toBe(0o600);
    } finally {
      await answering.stop(true);
      own.close();
    }
  }, 60_000);

  test('several profiles are kept, one is current, and a forgotten one is gone', async () => {
    const admin = ['login', '--url', service.url, '--tenant', tenant.slug, '--profile', 'root', '--admin', '-'];
    expect(await cli.run(admin, { input: ADMIN_SECRET })).toMatchObject({ code: 0 });
    expect(json(await cli.run(['whoami', '--json'])).kind).toBe('super_admin');
    expect(json(await cli.run(['whoami', '--json', '--profile', 'default'])).kind).toBe('owner_key');
    await cli.run(['profiles', 'use', 'default']);
    const listed = await cli.run(['profiles', '--json']);
    expect(json(listed).map(({ name, current }: Json) => [name, current])).toEqual([
      ['default', true],
      ['root', false],
    ]);
    expect(listed.out).not.toContain(ADMIN_SECRET);
    await cli.run(['logout', '--profile', 'root']);
    expect(await cli.run(['whoami', '--profile', 'root'])).toMatchObject({ code: 2 });
  });

  test('the credential of a profile goes to its own address only', async () => {
    const other = await startReceiver();
    await cli.run(['keys', 'create', 'stolen', '--url', new URL(other.url).origin]);
    expect(other.received).toHaveLength(1);
    expect(JSON.stringify(other.received)).not.toContain('svc_ak_');
    await other.stop();
  });
});

describe('--dry-run', () => {
  test('reports for each write what it would cause, and keeps nothing', async () => {
    const schema = [{ key: 'title', type: 'text' }];
    await tenant.post('/api/entities', { name: 'drafts', fields: schema });
    const { id } = (await tenant.post('/api/entities/drafts/records', { title: 'kept' })).body.data;
    const role = JSON.stringify({ permissions: { drafts: ['read'] } });
    await tenant.post('/api/roles', { name: 'reader', ...JSON.parse(role) });
    const cases: [string[], RegExp][] = [
      [['records', 'create', 'drafts', 'title=new'], /events: 1, webhooks: 0/],
      [['records', 'update', 'drafts', id, 'title=changed'], /events: 1/],
      [['records', 'delete', 'drafts', id], /would be deleted[\s\S]*events: 1/],
      [['entities', 'create', 'others', 'title:text'], /would be created with 1 fields/],
      [
        ['entities', 'delete', 'drafts', '--confirm', 'drafts'],
        /breaks the role reader: [\s\S]*1 record\(s\) of drafts are deleted/,
      ],
      [['roles', 'create', 'writer', '-'], /writer would be created/],
      [['roles', 'update', 'reader', '-'], /reader would be changed/],
      [['roles', 'delete', 'reader'], /reader would be deleted/],
    ];
    for (const [parameters, expected] of cases) {
      const { code, err } = await cli.run([...parameters, '--dry-run'], { input: role });
      expect([parameters, code, err]).toEqual([parameters, 0, expect.stringMatching(expected)]);
      expect(err).toContain('dry run: nothing is kept');
    }
    const created = json(await cli.run(['records', 'create', 'drafts', 'title=new', '--dry-run', '--json']));
    expect(created).toMatchObject({ data: { title: 'new' }, dryRun: { events: 1 } });
    const { items } = (await tenant.get('/api/entities/drafts/records')).body.data;
    expect(items.map(({ title }: Json) => title)).toEqual(['kept']);
    expect((await tenant.get('/api/roles/writer')).status).toBe(404);
    expect((await tenant.get('/api/entities/others')).status).toBe(404);
    await tenant.delete('/api/roles/reader');
    await tenant.delete('/api/entities/drafts?confirm=drafts');
  });
});

describe('exit codes', () => {
  test('0 is done, 1 failed, 2 wrong usage, 3 refused by the service; messages go to standard error', async () => {
    const cases: [string[], number, RegExp][] = [
      [['entities', 'list'], 0, /^$/],
      [['health', '--url', 'http://127.0.0.1:9'], 1, /127\.0\.0\.1:9 cannot be reached: nothing listens there/],
      [['nonsense'], 2, /unknown command/],
      [['records', 'list'], 2, /missing required argument/],
      [['records', 'list', 'deals', '--limit', 'x'], 2, /--limit/],
      [['export', 'deals', '--out', 'deals.json'], 2, /CSV or NDJSON/],
      [['restore', 'nofile'], 2, /no file nofile/],
      [['tail', 'none'], 3, /entity not found/],
      [['records', 'list', 'none'], 3, /NOT_FOUND/],
      [['records', 'list', 'deals', '--filters', 'nope = 1'], 3, /unknown field "nope"/],
    ];
    const ran = await Promise.all(cases.map(([parameters]) => cli.run(parameters)));
    expect(ran.map(({ code }) => code)).toEqual(cases.map(([, code]) => code));
    for (const [i, [, code, message]] of cases.entries()) {
      expect(ran[i]?.err ?? '').toMatch(message);
      if (code !== 0) expect(ran[i]?.out).toBe('');
    }
  });

  test('with --json an error is an object on standard error', async () => {
    const { err } = await cli.run(['records', 'list', 'none', '--json']);
    expect(JSON.parse(err).error).toMatchObject({ code: 'NOT_FOUND', status: 404 });
    const usage = await cli.run(['records', 'list', '--json']);
    expect(usage.code).toBe(2);
    expect(JSON.parse(usage.err).error).toMatchObject({ code: 'USAGE', message: expect.stringContaining('entity') });
  });
});

describe('records', () => {
  test('are created with values in the types of their fields, changed, shown and deleted', async () => {
    const made = json(await cli.run(['records', 'create', 'deals', 'title=12', 'amount=12', 'open=true', '--json']));
    expect(made).toMatchObject({ title: '12', amount: 12, open: true });
    await cli.run(['records', 'update', 'deals', made.id, '--file', '-'], { input: '{ "amount": 13 }' });
    expect(json(await cli.run(['records', 'get', 'deals', made.id, '--json']))).toMatchObject({ amount: 13 });
    expect(await cli.run(['records', 'delete', 'deals', made.id])).toMatchObject({ code: 0 });
    expect(await cli.run(['records', 'get', 'deals', made.id])).toMatchObject({ code: 3 });
  });

  test('are tables for people, without control characters, and without colour in a pipe', async () => {
    const title = 'red\u001b[31m\u0007';
    const { body } = await tenant.post('/api/entities/deals/records', { title, code: 'escape' });
    const { out } = await cli.run(['records', 'list', 'deals', '--filters', 'code = escape']);
    expect(out).toMatch(/^id +title +code +amount +open\n/);
    expect(out).toContain('red\\u001b[31m\\u0007');
    expect(out).not.toContain('\u001b');
    const onTerminal = ['records', 'list', 'deals', '--filters', 'code = escape'];
    expect((await cli.onTerminal(onTerminal)).shown).toContain('\u001b[1m');
    expect((await cli.onTerminal(onTerminal, [], { NO_COLOR: '1' })).shown).not.toContain('\u001b[1m');
    await tenant.delete(`/api/entities/deals/records/${body.data.id}`);
  });

  test('--all waits while the service is busy or unavailable, then continues; a wrong address is reported at once', async () => {
    const operations = Array.from({ length: 250 }, (_, i) => ({
      op: 'create',
      data: { title: 'walk', code: `walk-${i}` },
    }));
    expect((await tenant.post('/api/entities/deals/records/bulk', { operations })).status).toBe(200);
    const busy = (status: number, wait = '0') =>
      Response.json(
        { success: false, error: { code: 'BUSY', message: 'Busy', details: [] } },
        { status, headers: { 'retry-after': wait } },
      );
    // A gateway in front of the service, which now and then answers itself.
    const obstacles: (Response | null)[] = [
      busy(429),
      null,
      busy(429),
      busy(503),
      new Response('<html>', { status: 502 }),
    ];
    const gateway = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: ({ url, headers }) => {
        const { pathname, search } = new URL(url);
        return obstacles.shift() ?? fetch(`${service.url}${pathname}${search}`, { headers, decompress: false });
      },
    });
    const list = ['records', 'list', 'deals', '--filters', 'title = walk', '--fields', 'code', '--all', '--json'];
    const through = [...list, '--url', gateway.url.origin];
    const env = { TDS_KEY: tenant.key };
    const ran = await cli.run(through, { env });
    expect(ran).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^(Busy; trying again in 1 s\n){3}.+; trying again in/),
    });
    expect(new Set(lines(ran).map(({ code }) => code)).size).toBe(250);
    expect(lines(ran)).toHaveLength(250);

    obstacles.push(null, busy(429, '3600'));
    const child = cli.start(through, { env });
    const reader = child.stderr.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toMatch(/^Busy; trying again in 360\d s/);
    child.kill('SIGINT');
    expect(await child.exited).toBe(130);
    expect((await new Response(child.stdout).text()).trimEnd().split('\n')).toHaveLength(100);
    await gateway.stop(true);

    const away = await cli.run(through, { env });
    expect(away.code).toBe(1);
    expect(away.err).toContain(`${gateway.url.origin} cannot be reached`);
    expect(away.err).not.toContain('trying again');
  });
});

test('the advice on the indexes of an entity is a table, or JSON that its definition takes', async () => {
  const { entityId } = (await tenant.post('/api/entities/deals/records', { title: 'any' })).body.data;
  await service.app.db.rows(sql`
    insert into platform.slow_lists (tenant_id, hour, entity_id, combination, seen, total_ms, durations)
    values (${tenant.id}::uuid, date_trunc('hour', now()), ${entityId}::uuid, '["f4 =","-f3",0]', 7, 700, array[7])`);
  const [advice, ...others] = json(await cli.run(['entities', 'advice', 'deals', '--json']));
  expect(others).toEqual([]);
  expect(advice).toMatchObject({
    filters: 'open = ?',
    sort: '-amount',
    seen: 7,
    index: { fields: ['open', '-amount'] },
  });
  const { code, out } = await cli.run(['entities', 'advice', 'deals']);
  expect(code).toBe(0);
  expect(out).toMatch(/open = \? .*-amount .*7 .*open, -amount .*possible/);
  expect((await tenant.patch('/api/entities/deals', { indexes: [advice.index] })).status).toBe(200);
  expect(await cli.run(['entities', 'advice', 'deals'])).toMatchObject({ code: 0, err: 'nothing to show\n' });
});

describe('files', () => {
  test('an entity is made from the columns of a CSV file, whose lines are imported', async () => {
    const rows = 'email,born,points,active\nann@acme.test,1990-05-01,1.5,true\nbob@acme.test,1991-06-02,2,false\n';
    writeFileSync(join(cli.directory, 'contacts.csv'), rows);
    const report = await cli.run(['import', 'contacts', 'contacts.csv', '--create', '--upsert', 'email', '--json']);
    expect(json(report)).toMatchObject({ created: 2, refused: 0 });
    const { fields } = json(await cli.run(['entities', 'get', 'contacts', '--json']));
    expect(fields.map(({ key, type, unique }: Json) => [key, type, unique])).toEqual([
      ['email', 'email', true],
      ['born', 'date', false],
      ['points', 'decimal', false],
      ['active', 'boolean', false],
    ]);
  });

  test('columns may be named as spreadsheets name them: they become keys with labels, and are found by label again', async () => {
    const rows = '\ufeffname,"Full, name",E-mail,Größe\nA,Ann,ann@acme.test,1\nB,Bob,bob@acme.test,2\n';
    writeFileSync(join(cli.directory, 'sheet.csv'), rows);
    const made = await cli.run(['import', 'sheet', 'sheet.csv', '--create', '--upsert', 'email', '--json']);
    expect(json(made)).toMatchObject({ created: 2, refused: 0 });
    const { fields } = json(await cli.run(['entities', 'get', 'sheet', '--json']));
    expect(fields.map(({ key, label }: Json) => [key, label])).toEqual([
      ['recordName', 'name'],
      ['fullName', 'Full, name'],
      ['email', 'E-mail'],
      ['grosse', 'Größe'],
    ]);
    const again = await cli.run(['import', 'sheet', '-', '--format', 'csv', '--upsert', 'email', '--json'], {
      input: 'E-mail,"Full, name"\nann@acme.test,Anna',
    });
    expect(json(again)).toMatchObject({ created: 0, updated: 1, refused: 0 });
    const [ann] = json(await cli.run(['records', 'list', 'sheet', '--filters', 'email = ann@acme.test', '--json']));
    expect(ann).toMatchObject({ recordName: 'A', fullName: 'Anna', grosse: 1 });
  });

  test('a column that names records of another entity becomes a relation to it', async () => {
    writeFileSync(join(cli.directory, 'firms.csv'), 'code;Firm\nF1;First\nF2;Second\n');
    writeFileSync(join(cli.directory, 'staff.csv'), 'mail,firm.code\nann@acme.test,F2\n');
    await cli.run(['import', 'firms', 'firms.csv', '--create', '--upsert', 'code']);
    const staff = ['import', 'staff', 'staff.csv', '--create', '--upsert', 'mail', '--json'];
    expect(json(await cli.run([...staff, '--relation', 'firm=firms']))).toMatchObject({ created: 1, refused: 0 });
    const found = await cli.run(['records', 'list', 'staff', '--filters', 'firm.Firm = Second', '--json']);
    expect(json(found)).toMatchObject([{ mail: 'ann@acme.test' }]);
  });

  test('nothing is created from columns that do not fit, or in a dry run', async () => {
    const create = ['import', 'never', 'staff.csv', '--create'];
    const wrong: [args: string[], said: string][] = [
      [['--upsert', 'email'], 'no column with the key email, but mail, firmCode'],
      [['--relation', 'boss=staff'], 'no column boss.<unique field>'],
      [['--relation', 'boss'], 'key=entity'],
      [['--dry-run'], 'cannot be used with'],
    ];
    for (const [args, said] of wrong) {
      expect(await cli.run([...create, ...args])).toMatchObject({ code: 2, err: expect.stringContaining(said) });
    }
    expect((await cli.run(['entities', 'get', 'never'])).code).toBe(3);
  });

  test('an import into an entity that does not exist says how to make it', async () => {
    const { code, err } = await cli.run(['import', 'nothing', 'sheet.csv']);
    expect([code, err]).toEqual([3, expect.stringContaining('--create')]);
  });

  test('refused lines are listed with their numbers, and the exit code is 3', async () => {
    writeFileSync(join(cli.directory, 'bad.csv'), 'title,amount\ngood,1\nbad,many\n');
    const { code, err } = await cli.run(['import', 'deals', 'bad.csv']);
    expect([code, err]).toEqual([3, expect.stringMatching(/1 created, 1 refused\n {2}line 3: amount/)]);
  });

  test('an export is an import again, from standard input too', async () => {
    const { out } = await cli.run(['export', 'contacts', '--format', 'csv', '--fields', 'email,points']);
    const again = await cli.run(['import', 'contacts', '-', '--format', 'csv', '--upsert', 'email', '--json'], {
      input: out,
    });
    expect(json(again)).toMatchObject({ created: 0, updated: 2 });
    expect(await cli.run(['export', 'contacts', '--out', 'out.ndjson'])).toMatchObject({ code: 0 });
    expect(readdirSync(cli.directory).filter((name) => name.endsWith('.part'))).toEqual([]);
    expect(readFileSync(join(cli.directory, 'out.ndjson'), 'utf8').trimEnd().split('\n')).toHaveLength(2);
  });

  test('an import that Ctrl-C cuts says where it was, and --upsert takes it up again', async () => {
    const child = cli.start(['import', 'deals', '-', '--format', 'csv', '--upsert', 'code']);
    const row = (i: number): string => `cut ${i},code-${i}\n`;
    child.stdin.write(`title,code\n${Array.from({ length: 3_000 }, (_, i) => row(i)).join('')}`);
    await child.stdin.flush();
    const count = async (): Promise<number> =>
      (await tenant.get('/api/entities/deals/records?limit=1&filters=title%20startsWith%20"cut"')).body.data.total;
    while ((await count()) < 500) await Bun.sleep(20);
    child.kill('SIGINT');
    const err = await new Response(child.stderr).text();
    expect(await child.exited).toBe(130);
    expect(err).toMatch(/cut after \d+ lines/);
    const whole = `title,code\n${Array.from({ length: 3_200 }, (_, i) => row(i)).join('')}`;
    const again = await cli.run(['import', 'deals', '-', '--format', 'csv', '--upsert', 'code', '--json'], {
      input: whole,
    });
    expect(json(again)).toMatchObject({ refused: 0 });
    expect(await count()).toBe(3_200);
    expect(json(again).created).toBeLessThan(3_200);
  });

  test('--from-line skips the lines that were sent, and line numbers stay those of the file', async () => {
    const input = 'title,code,amount\n"two\nlines",from-1,1\nskipped,from-2,1\ntaken,from-3,1\nbad,from-4,x\n';
    const ran = await cli.run(['import', 'deals', '-', '--format', 'csv', '--from-line', '5', '--json'], { input });
    expect(json(ran)).toMatchObject({ created: 1, refused: 1, errors: [{ line: 6 }] });
  });

  test('a reader that goes away ends an export quietly', async () => {
    const child = cli.start(['export', 'deals']);
    const reader = child.stdout.getReader();
    await reader.read();
    await reader.cancel();
    expect(await child.exited).toBe(0);
    expect(await new Response(child.stderr).text()).toBe('');
  });
});

describe('live', () => {
  test('tail prints a line for each change, of the entities that are named', async () => {
    const child = cli.start(['tail', 'deals', '--json']);
    const reader = child.stdout.getReader();
    const first = reader.read();
    let isSeen = false;
    void first.then(() => {
      isSeen = true;
    });
    // Before it follows, nobody would see a change.
    while (!isSeen) {
      await tenant.post('/api/entities/contacts/records', {});
      await tenant.post('/api/entities/deals/records', { title: 'seen' });
      await Bun.sleep(50);
    }
    const text = new TextDecoder().decode((await first).value);
    const change = JSON.parse(text.split('\n')[0] ?? '');
    expect(change).toMatchObject({ event: 'record.created', entity: 'deals', data: { title: 'seen' } });
    child.kill('SIGINT');
    expect(await child.exited).toBe(130);
  });

  test('listen sends what a webhook sends, byte for byte, under a signature that a receiver accepts', async () => {
    const [real, local] = await Promise.all([startReceiver(), startReceiver()]);
    const { nextCursor } = (await tenant.get('/api/changes')).body.data;
    const types = ['record.created', 'record.updated', 'record.deleted'];
    const input = { entity_name: 'deals', event_types: types, url: real.url, secret: SECRET };
    await tenant.post('/api/webhooks/subscriptions', input);
    const made = await tenant.post('/api/entities/deals/records', { title: 'sent', amount: 1 });
    const path = `/api/entities/deals/records/${made.body.data.id}`;
    await tenant.patch(path, { amount: 2 });
    await tenant.delete(path);
    const sent = await real.waitFor(3);
    const child = cli.start(
      ['webhooks', 'listen', '--forward-to', local.url, '--entities', 'deals', '--since', nextCursor, '--json'],
      { env: { TDS_WEBHOOK_SECRET: SECRET } },
    );
    const got = await local.waitFor(3);
    child.kill('SIGINT');
    const shown = lines({ out: await new Response(child.stdout).text(), code: 0, err: '' });
    expect(shown.map(({ event, status }) => [event, status])).toEqual(types.map((type) => [type, 200]));
    expect(got.map(({ text }) => text)).toEqual(sent.map(({ text }) => text));
    const names = ({ headers }: Received): string[] => Object.keys(headers).toSorted();
    expect(got.map(names)).toEqual(sent.map(names));
    for (const { text, headers } of got) expect(new Webhook(SECRET).verify(text, headers)).toBeDefined();
    await Promise.all([real.stop(), local.stop()]);
  });
});

const SECRET = `whsec_${Buffer.from('a secret of this test').toString('base64')}`;

describe('help', () => {
  test('every command has an example, and the reference lists it with its options', async () => {
    const { buildProgram } = await import('../src/cli/program.ts');
    const page = readFileSync(join(import.meta.dir, '../docs/reference/command-line.md'), 'utf8');
    const missing: string[] = [];
    const visit = (command: ReturnType<typeof buildProgram>, path: string): void => {
      for (const child of command.commands) visit(child, `${path} ${child.name()}`);
      if (command.commands.length > 0 || / (help|complete)$/.test(path)) return;
      for (const { long } of command.options) if (!page.includes(`${long}`)) missing.push(`${path} ${long}`);
      if (!page.includes(`\`${path}`)) missing.push(path);
      const parts: string[] = [];
      command.configureOutput({ writeOut: (part) => void parts.push(part) }).outputHelp();
      if (!(parts.join('').split('\nExample')[1] ?? '').includes(path)) missing.push(`an example of ${path}`);
    };
    visit(buildProgram(), 'tds');
    expect(missing).toEqual([]);
  });

  test('completion knows commands, options and profiles, for each shell', async () => {
    const complete = async (...words: string[]): Promise<string> => (await cli.run(['complete', '--', ...words])).out;
    expect(await complete('records', '')).toMatch(/^list\t.*\nget\t/);
    expect(await complete('import', '--up')).toContain('--upsert');
    expect(await complete('--profile', '')).toContain('default');
    for (const shell of ['bash', 'zsh', 'fish']) {
      expect(await cli.run(['complete', shell])).toMatchObject({ code: 0, out: expect.stringContaining('tds') });
    }
  });

  test('types are written for the client, and --check says when they are old', async () => {
    const { out } = await cli.run(['types']);
    expect(out).toContain('export interface Schema {');
    await cli.run(['types', '--out', 'schema.ts']);
    expect(readFileSync(join(cli.directory, 'schema.ts'), 'utf8')).toBe(out);
    expect(await cli.run(['types', '--out', 'schema.ts', '--check'])).toMatchObject({ code: 0 });
    await tenant.post('/api/entities/deals/fields', { key: 'later', type: 'date' });
    expect(await cli.run(['types', '--out', 'schema.ts', '--check'])).toMatchObject({ code: 1 });
  });
});
