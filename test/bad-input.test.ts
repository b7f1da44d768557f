// Hostile input: none of it causes a 500, is stored, or is slow.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import {
  ADMIN_SECRET,
  type Answer,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { durationOf, fastest } from './support/timing.ts';

let service: TestService;
let tenant: TestTenant;
const path = '/api/entities/items/records';
let id = '';
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  const made = await tenant.post('/api/entities', {
    name: 'items',
    fields: [
      { key: 'title', type: 'text' },
      { key: 'n', type: 'integer' },
      { key: 'amount', type: 'decimal' },
      { key: 'due', type: 'date' },
      { key: 'at', type: 'datetime' },
      { key: 'flag', type: 'boolean' },
      { key: 'kind', type: 'select', options: ['a', 'b'] },
      { key: 'tags', type: 'multiselect', options: ['x', 'y'] },
      { key: 'blob', type: 'json' },
      { key: 'mail', type: 'email' },
      { key: 'link', type: 'relation', entity: 'items' },
      { key: 'links', type: 'relations', entity: 'items' },
    ],
  });
  if (made.status !== 201) throw new Error(made.text);
  id = (await tenant.post(path, { title: 'kept', n: 1 })).body.data.id;
});
afterAll(async () => service.stop());

const LEAKS =
  /\bselect \w+,|insert into|update platform|\bfrom "|pg_|syntax error|entity_records|"t_[0-9a-f]{32}|\br_[0-9a-f]{32}|\.ts:\d+|node_modules|ECONN|PostgresError/i;

/** A cursor is random letters, and may contain any short word. */
const withoutCursor = (answer: string): string => answer.replace(/^Changes-Cursor: .*$/gim, '');

/** No 5xx, and no internals in the text of a 4xx. */
function expectSane(what: string, { status, text }: Answer): void {
  const isSane = status < 500 && !(status >= 400 && LEAKS.test(text.replaceAll(what, '')));
  expect([what.slice(0, 80), isSane ? 'sane' : `${status} ${text.slice(0, 300)}`]).toEqual([what.slice(0, 80), 'sane']);
}

afterEach(() => {
  const failures = service.logged.filter((line) => line.includes('unexpected request failure'));
  service.logged.length = 0;
  expect(failures).toEqual([]);
});

const FRAGMENTS = [
  "'",
  "''",
  '"',
  '`',
  ';',
  '--',
  '/*',
  '*/',
  '\\',
  '%',
  '_',
  '$1',
  '$$',
  '?',
  ':',
  '::',
  '@',
  '#',
  '(',
  ')',
  '{',
  '}',
  '[',
  ']',
  '|',
  '&',
  '!',
  '<',
  '>',
  '=',
  ',',
  '.',
  '..',
  '/',
  '~',
  '^',
  '\t',
  '\n',
  '\r\n',
  '\u2028',
  '\ufeff',
  '\u202e',
  '\u0000',
  '\ud800',
  '\udfff',
  '😀',
  'é',
  'ﬀ',
  '１',
  'İ',
  'ß',
];
const ATTACKS = [
  "' or '1'='1",
  "' or 1=1--",
  "'; drop table entity_records; --",
  '1; select pg_sleep(5)',
  "1' and pg_sleep(5)--",
  '") or ("1"="1',
  "' union select null--",
  "' union all select version()--",
  "admin'--",
  '1 or 1=1',
  '1) or (1=1',
  "'||pg_sleep(5)||'",
  "'||(select current_user)||'",
  "\\'; drop schema platform cascade; --",
  '"; drop table "x"; --',
  '$$; drop table x; $$',
  "e'\\x27'",
  '\\u0027 or 1=1',
  '%27%20or%201=1',
  'chr(39)||chr(39)',
  "data->>'f1'",
  'f1',
  'r.id',
  'words',
  'version',
  'data',
  'platform.tenants',
  'information_schema.tables',
  'pg_catalog.pg_user',
  'null',
  'NULL',
  'undefined',
  'true',
  'false',
  'NaN',
  'Infinity',
  '-0',
  '1e400',
  '1e-400',
  '0x10',
  '1_000',
  '٣',
  '9'.repeat(400),
  '-9223372036854775809',
  '1.7976931348623159e308',
  '__proto__',
  'constructor',
  'prototype',
  'constructor.prototype',
  'toString',
  'hasOwnProperty',
  '__defineGetter__',
  'valueOf',
  'then',
  'toJSON',
  '{{title}}',
  '${7*7}',
  '<script>alert(1)</script>',
  '../../etc/passwd',
  '..%2f..%2f',
  'file:///etc/passwd',
  '(((((((((((',
  '))))))))',
  'a'.repeat(3_000),
  '😀'.repeat(300),
  "' '".repeat(300),
  'AND',
  'OR',
  'NOT',
  'NOT NOT NOT title',
  'title',
  'title =',
  '= title',
  'title = title',
  'title in (',
  'title in ()',
  'title in (,)',
  'title is',
  'title is not',
  'title contains',
  "title = 'a",
  'title = "a',
  'title = "\\',
  'title = "\\u"',
  'title = "\\ud800"',
  'title = "\\u0000"',
  "title = 'a' AND",
  '!title',
  '!!!!!!!!!!!!title = 1',
  'link.title = 1',
  'link.link.title = 1',
  'links.title = 1',
  'title.title = 1',
  'link. = 1',
  '.title = 1',
  '$currentUser = 1',
  'title = $currentUser',
  'title = $currentUser.password',
  'title = $now',
  'at > $now-7d',
  'at > $now-999999999w',
  'due > $now+999999999w',
  '$old.title = 1',
  '$changed.title',
  'n = 1e400',
  'n = 1e308',
  'n > -1e308',
  'amount = 1e1000',
  'amount = 1e-1000',
  'amount = 1e1001',
  'due = 2024-02-30',
  'at = 2024-01-01T00:00:00+99:99',
  'flag = maybe',
  'blob = 1',
  'blob is null',
  'tags contains x',
  'tags = x',
  'links contains x',
  `links contains ${crypto.randomUUID()}`,
  'id = x',
  `id = ${crypto.randomUUID()}`,
  'entityId is null',
  'createdAt > 2020-01-01',
  'createdAt = infinity',
  'createdBy = null',
  'version = 1',
  'title startsWith "\uffff"',
  'title startsWith "\u{10ffff}"',
  'title endsWith ""',
  'title contains ""',
  'title startsWith ""',
];
const IN_CONTEXT = FRAGMENTS.flatMap((fragment) => [
  `title = ${fragment}`,
  `title = "${fragment}"`,
  `title${fragment}`,
  `${fragment}title`,
  `a${fragment}b`,
]);
const CORPUS = [...FRAGMENTS, ...ATTACKS, ...IN_CONTEXT];
/** Each fragment, in five contexts, is tried in every input except conditions, which get it in one or two contexts. */
const PARTS = 3;
const isTried = (text: string, input: number): boolean => {
  const at = IN_CONTEXT.indexOf(text);
  return at < 0 || (at + input) % PARTS === 0;
};

describe('hostile texts', () => {
  test('a corpus of hundreds of hostile texts in every text input never causes a 500 and reveals no internals', async () => {
    expect(CORPUS.length).toBeGreaterThan(400);
    const before = (await tenant.get(`${path}/${id}`)).text;
    for (const text of CORPUS) {
      const encoded = encodeURIComponent(text.toWellFormed());
      const requests: (() => Promise<Answer>)[] = [
        ...[
          'sort',
          'fields',
          'search',
          'cursor',
          'filter.title',
          'filter.n',
          'filter.link',
          'page',
          'order',
          'resolve',
        ].map((name) => () => tenant.get(`${path}?${name}=${encoded}`)),
        () => tenant.get(`${path}?filter.${encoded}=x&${encoded}=y`),
        () => tenant.get(`${path}?sort=${encoded},-${encoded}&filters=${encoded}`),
        () => tenant.get(`/api/entities/${encoded}/records`),
        () => tenant.get(`/api/entities/${encoded}`),
        () => tenant.get(`${path}/${encoded}`),
        () => tenant.get(`${path}/${id}?fields=${encoded}&resolve_depth=${encoded}`),
        () => tenant.delete(`${path}/${encoded}`),
        () => tenant.patch(`${path}/${id}`, { [text === 'title' ? 'unknown' : text]: text }),
        () =>
          tenant.patch(`${path}/${id}`, {
            n: text,
            amount: text,
            due: text,
            at: text,
            flag: text,
            kind: text,
            tags: [text],
            mail: text,
            link: text,
            links: [text],
          }),
        () =>
          tenant.post('/api/entities', {
            name: text,
            fields: [{ key: text, type: text, pattern: text, entity: text, options: [text] }],
          }),
      ];
      const tried = requests.filter((_, input) => isTried(text, input)).map((send) => send());
      const asCondition = tenant.get(`${path}?filters=${encoded}`);
      for (const answer of await Promise.all([asCondition, ...tried])) expectSane(text, answer);
    }
    expect((await tenant.get(`${path}/${id}`)).text).toBe(before);
    expect((await tenant.get(path)).body.data.total).toBe(1);
  });

  test('storable text is returned unchanged, and filters find it', async () => {
    for (const text of CORPUS) {
      const made = await tenant.post(path, { title: text, blob: { [text]: [text] } });
      const isStorable = text.isWellFormed() && !text.includes('\0') && text !== '__proto__';
      expect([text, made.status]).toEqual([text, isStorable ? 201 : 400]);
      if (!isStorable) continue;
      expect(made.body.data).toMatchObject({ title: text, blob: { [text]: [text] } });
      if (text.length > 2_000) continue;
      const found = await tenant.get(`${path}?filter.title=${encodeURIComponent(text)}`);
      expect([text, found.body.data?.items?.map((item: Json) => item.title)]).toEqual([text, [text]]);
      await tenant.delete(`${path}/${made.body.data.id}`);
    }
  });

  test('hostile header values are refused or ignored', async () => {
    for (const text of CORPUS.filter((candidate) => /^[\x20-\x7e]+$/.test(candidate))) {
      for (const [input, name] of [
        'if-match',
        'if-none-match',
        'idempotency-key',
        'x-request-id',
        'x-tenant-id',
        'x-tenant-slug',
        'accept',
        'cookie',
        'origin',
        'content-type',
      ].entries()) {
        if (!isTried(text, input)) continue;
        const answer =
          name === 'idempotency-key' || name === 'content-type'
            ? await tenant.post(path, { n: 'x' }, { [name]: text })
            : await tenant.get(`${path}/${id}`, { [name]: text });
        expectSane(text, answer);
        if (name.startsWith('x-tenant')) expect([name, text, answer.status >= 400]).toEqual([name, text, true]);
      }
    }
  });
});

describe('bodies', () => {
  const post = (body: unknown, headers?: Record<string, string>) => tenant.post(path, body, headers);

  test('a body that is not a JSON object is a 400', async () => {
    for (const body of [
      '',
      ' ',
      'null',
      '[]',
      '1',
      '"text"',
      'true',
      '{',
      '{}x',
      '{"title":}',
      "{'title':1}",
      '{"title":NaN}',
      '{"n":01}',
      '\ufeff',
      '[{"title":"a"}]',
      'title=a',
      '{"title":"a",}',
      '\u0000',
    ]) {
      const answer = await post(body);
      expect([body, answer.status, answer.body.error?.code]).toEqual([body, 400, 'VALIDATION_ERROR']);
      expect((await tenant.patch(`${path}/${id}`, body)).status).toBe(400);
    }
  });

  test('invalid UTF-8 is a 400', async () => {
    for (const bytes of [[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf8, 0x88], [0xc0, 0x80]]) {
      const body = Buffer.concat([Buffer.from('{"title":"'), Buffer.from(bytes), Buffer.from('"}')]);
      expect((await post(new Uint8Array(body))).status).toBe(400);
    }
  });

  test('NUL and unpaired surrogates are a 400 anywhere', async () => {
    for (const bad of ['\\u0000', '\\ud800', '\\udc00x', 'a\\ud83dz']) {
      for (const body of [
        `{"title":"${bad}"}`,
        `{"blob":{"a":["${bad}"]}}`,
        `{"blob":{"${bad}":1}}`,
        `{"${bad}":1}`,
        `{"tags":["${bad}"]}`,
      ]) {
        expect([body, (await post(body)).status]).toEqual([body, 400]);
      }
    }
    expect((await post('{"title":"\\ud83d\\ude00"}')).body.data.title).toBe('😀');
  });

  test('a path with unstorable text is a 404 on every route', async () => {
    const { paths } = (await service.anonymous.get('/swagger/json')).body;
    const owner = { 'x-api-key': tenant.key };
    const operator = { 'x-admin-secret': ADMIN_SECRET };
    const answers: [string, number][] = [];
    for (const [template, operations] of Object.entries<Json>(paths)) {
      if (!template.includes('{')) continue;
      for (const [method, { security }] of Object.entries<Json>(operations)) {
        if (security.length === 0 || security.some((one: Json) => one.adminKey && one.adminSecret)) continue;
        const isPlatform = security.every((one: Json) => one.adminSecret || one.adminKey);
        const client = service.anonymous.with(isPlatform ? operator : owner);
        const named = template.replaceAll(/\{\w+\}/g, '%00');
        const body = ['post', 'put', 'patch'].includes(method) ? {} : undefined;
        answers.push([`${method} ${template}`, (await client.request(method.toUpperCase(), named, body)).status]);
      }
    }
    expect(answers.length).toBeGreaterThan(40);
    expect(answers.filter(([, status]) => status !== 404)).toEqual([]);
  });

  test('duplicate names and names of the prototype are a 400', async () => {
    for (const body of [
      '{"__proto__":{"title":"x"}}',
      '{"blob":{"__proto__":{"a":1}}}',
      '{"title":"a","title":"b"}',
      '{"blob":{"a":1,"a":2}}',
      '{"title":"a","\\u0074itle":"b"}',
      '{"constructor":{"prototype":{"x":1}}}',
      '{"data":{"__proto__":{"title":"x"}}}',
    ]) {
      expect([body, (await post(body)).status]).toEqual([body, 400]);
    }
    expect(({} as Record<string, unknown>).x).toBeUndefined();
    expect((await post('{"blob":{"a:b":"c:\\"d:","e":[{"f":1},{"f":2}]}}')).status).toBe(201);
  });

  test('numbers out of range are a 400', async () => {
    for (const body of [
      '{"n":1e400}',
      '{"n":-1e400}',
      '{"blob":1e999}',
      '{"blob":[1,{"a":-1e999}]}',
      '{"n":9007199254740993}',
      '{"n":1.0000001}',
      '{"amount":1e400}',
    ]) {
      expect([body, (await post(body)).status]).toEqual([body, 400]);
    }
    const edge = await post('{"blob":[1e308,5e-324,-0,1e-400],"n":-9007199254740991}');
    expect([edge.status, edge.body.data.blob]).toEqual([201, [1e308, 5e-324, 0, 0]]);
    expect((await tenant.get(`${path}/${edge.body.data.id}`)).body.data.blob).toEqual([1e308, 5e-324, 0, 0]);
  });

  test('a body nested deeper than 32 levels is a 400', async () => {
    const nested = (depth: number, open: string, close: string) =>
      `{"blob":${open.repeat(depth)}1${close.repeat(depth)}}`;
    expect((await post(nested(31, '[', ']'))).status).toBe(201);
    expect((await post(nested(32, '[', ']'))).status).toBe(400);
    for (const depth of [1_000, 100_000, 500_000]) expect((await post(nested(depth, '[', ']'))).status).toBe(400);
    expect((await post(nested(100_000, '{"a":', '}'))).status).toBe(400);
  });

  test('a body over MAX_BODY_BYTES is a 413, declared or not', async () => {
    const max = service.app.config.maxBodyBytes;
    const fill = (bytes: number) => `{"blob":"${'x'.repeat(bytes - 11)}"}`;
    expect((await post(fill(max))).status).toBe(201);
    const over = await post(fill(max + 1));
    expect([over.status, over.body.error.code]).toEqual([413, 'PAYLOAD_TOO_LARGE']);
    const chunks = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 40; i++) controller.enqueue(new TextEncoder().encode('x'.repeat(65_536)));
        controller.close();
      },
    });
    expect((await post(chunks)).status).toBe(413);
  });

  test('another content type or an encoding is a 415', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'text/json',
      '',
      'application/json5',
      'image/png',
    ]) {
      const answer = await post('{"title":"a"}', { 'content-type': type });
      expect([type, answer.status, answer.body.error?.code]).toEqual([type, 415, 'UNSUPPORTED_MEDIA_TYPE']);
      expect((await tenant.put(`${path}/${id}`, '{"title":"a"}', { 'content-type': type })).status).toBe(415);
    }
    for (const type of [
      'application/json; charset=utf-8',
      'APPLICATION/JSON',
      'application/merge-patch+json',
      'application/json;charset=UTF-8',
    ]) {
      expect([type, (await post('{"title":"a"}', { 'content-type': type })).status]).toEqual([type, 201]);
    }
    const zipped = await post(new Uint8Array(gzipSync('{"title":"a"}')), { 'content-encoding': 'gzip' });
    expect(zipped.status).toBe(415);
    expect((await post('{"title":"a"}', { 'content-encoding': 'identity' })).status).toBe(201);
  });
});

describe('expensive requests', () => {
  test('filters at and beyond their limits are answered quickly', async () => {
    const bombs = [
      Array.from({ length: 700 }, () => 'n = 1').join(' AND '),
      Array.from({ length: 51 }, () => 'n = 1').join(' OR '),
      `${'('.repeat(11)}n = 1${')'.repeat(11)}`,
      `${'('.repeat(1_900)}n`,
      `${'NOT '.repeat(400)}n = 1`,
      `${'!'.repeat(1_900)}n = 1`,
      `title = "${'x'.repeat(2_000)}"`,
      `title = "${'\\'.repeat(1_900)}`,
      `title in (${'a,'.repeat(900)}`,
      'x'.repeat(10_000),
    ];
    for (const filters of bombs) {
      const answer = await tenant.get(`${path}?filters=${encodeURIComponent(filters)}`);
      expect([filters.slice(0, 40), [400, 413, 414, 431].includes(answer.status)]).toEqual([
        filters.slice(0, 40),
        true,
      ]);
    }
    const widest = Array.from({ length: 50 }, (_, i) => `n != ${i}`).join(' AND ');
    expect((await tenant.get(`${path}?filters=${encodeURIComponent(widest)}`)).status).toBe(200);
  });

  test('a filter bomb is refused within 5 ms', async () => {
    const { parseExpression } = await import('../src/expression/parse.ts');
    const { SYSTEM_FIELDS } = await import('../src/expression/ast.ts');
    const names = {
      field: (key: string) => SYSTEM_FIELDS[key as keyof typeof SYSTEM_FIELDS],
      related: () => undefined,
      user: { id: null, email: null, role: null, kind: 'owner_key' },
      now: new Date(),
    };
    const long = '('.repeat(1_000_000);
    const parses = [
      'id is null AND '.repeat(130),
      `${'('.repeat(1_999)}`,
      `${'NOT '.repeat(499)}`,
      `createdBy = "${'\\"'.repeat(990)}`,
      `createdBy in (${'a,'.repeat(990)}`,
      long,
      'é'.repeat(1_000_000),
      `createdBy = ${'a'.repeat(1_980)}`,
    ];
    for (const text of parses) {
      const parse = (): void => {
        try {
          parseExpression(text, names);
        } catch (error) {
          expect((error as { ecode?: string }).ecode).toBe('VALIDATION_ERROR');
        }
      };
      expect(await fastest(5, () => durationOf(parse), 50), text.slice(0, 30)).toBeLessThan(5);
    }
  });
});

/** Sends bytes on a new socket; resolves to everything received until it closes or was silent for `silentMs` (0: no limit). */
function raw(bytes: string | Buffer, silentMs = 0): Promise<string> {
  const { hostname, port } = new URL(service.url);
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    socket.setTimeout(silentMs, () => socket.destroy());
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    // A socket closed while it is still sending reports either error.
    socket.on('error', (error) =>
      'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE') ? resolve(received) : reject(error),
    );
    socket.on('close', () => resolve(received));
  });
}

describe('malformed HTTP', () => {
  test('no sequence of bytes causes a 500 or stops the service', async () => {
    const auth = `X-API-Key: ${tenant.key}\r\n`;
    const head = (line: string, headers = '') => `${line}\r\nHost: x\r\n${auth}${headers}`;
    const post = (headers: string, body: string) =>
      `${head(`POST ${path} HTTP/1.1`, `Content-Type: application/json\r\nConnection: close\r\n${headers}`)}\r\n${body}`;
    const corpus = [
      '\r\n\r\n',
      'GET',
      'GET /',
      'GET / HTTP/9.9\r\n\r\n',
      '\0\0\0\0',
      '\x16\x03\x01\x02\x00\x01\x00',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      `${head(`GET ${path}%zz HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `${head(`GET ${path}/%ff%fe HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `${head(`GET ${path}?filters=%zz HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `${head(`GET ${path}?filters=%ff HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `${head(`GET ${path}?%00=%00 HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `${head(`GET //api//entities HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `${head('GET http://other.example/api/entities HTTP/1.1', 'Connection: close\r\n')}\r\n`,
      `${head('OPTIONS * HTTP/1.1', 'Connection: close\r\n')}\r\n`,
      `${head('CONNECT x:1 HTTP/1.1', 'Connection: close\r\n')}\r\n`,
      `${head(`TRACE ${path} HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `${head(`FOO ${path} HTTP/1.1`, 'Connection: close\r\n')}\r\n`,
      `GET ${path} HTTP/1.1\r\nHost: \r\n${auth}Connection: close\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\n${auth}Connection: close\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\nHost: a\r\nHost: b\r\n${auth}Connection: close\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\nHost: [::\r\n${auth}Connection: close\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\nHost: a b\r\n${auth}Connection: close\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\nHost: \xff\xfe\r\n${auth}Connection: close\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\nHost: a:99999999\r\n${auth}Connection: close\r\n\r\n`,
      post('Content-Length: 5\r\n', '{}'),
      post('Content-Length: -1\r\n', '{}'),
      post('Content-Length: 2\r\nContent-Length: 3\r\n', '{}x'),
      post('Content-Length: 99999999999999999999\r\n', '{}'),
      post('Content-Length: 2x\r\n', '{}'),
      post('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
      post('Transfer-Encoding: chunked\r\n', 'zz\r\n{}\r\n0\r\n\r\n'),
      post('Transfer-Encoding: chunked\r\n', 'ffffffffffffffff\r\n{}'),
      post('Transfer-Encoding: gzip, chunked\r\n', '2\r\n{}\r\n0\r\n\r\n'),
      post('Transfer-Encoding: chunked\r\n', '2\r\n{}\r\n0\r\n\r\n'),
      post('', '{}'),
      post('Content-Length: 2\r\nExpect: 100-continue\r\n', '{}'),
      post('Content-Length: 2\r\nUpgrade: websocket\r\n', '{}'),
      `${head(`GET ${path} HTTP/1.1`, `X-Big: ${'x'.repeat(100_000)}\r\n`)}\r\n`,
      `${head(`GET ${path}?search=${'x'.repeat(100_000)} HTTP/1.1`)}\r\n`,
      `${head(`GET ${path} HTTP/1.1`, 'X-A: 1\r\n'.repeat(3_000))}\r\n`,
      `${head(`GET ${path} HTTP/1.1`, 'Bad Header: 1\r\n')}\r\n`,
      `${head(`GET ${path} HTTP/1.1`, 'X-A\r\n')}\r\n`,
      `${head(`GET ${path} HTTP/1.1`, ' folded: 1\r\n')}\r\n`,
      `${head(`GET ${path} HTTP/1.1`, 'X-A: a\0b\r\nConnection: close\r\n')}\r\n`,
    ];
    for (let i = 0; i < corpus.length; i += 10) {
      const answers = await Promise.all(corpus.slice(i, i + 10).map((bytes) => raw(Buffer.from(bytes, 'latin1'), 700)));
      answers.forEach((answer, j) => {
        expect([
          corpus[i + j]?.slice(0, 60),
          /HTTP\/1\.1 50[0-4]/.test(answer),
          LEAKS.test(withoutCursor(answer)),
        ]).toEqual([corpus[i + j]?.slice(0, 60), false, false]);
      });
    }
    expect((await tenant.get(`${path}/${id}`)).status).toBe(200);
  });

  test('contradictory tenant headers are a 400, and two credentials a 401', async () => {
    const send = (headers: string) => raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\n`);
    const auth = `X-API-Key: ${tenant.key}\r\n`;
    const status = (answer: string) => Number(answer.slice(9, 12));
    expect(status(await send(auth))).toBe(200);
    expect(status(await send(`${auth}X-Tenant-ID: ${tenant.slug}\r\nX-Tenant-ID: other\r\n`))).toBe(400);
    expect(status(await send(`${auth}X-Tenant-Slug: other\r\nX-Tenant-Slug: ${tenant.slug}\r\n`))).toBe(400);
    expect(status(await send(`${auth}X-Tenant-ID: ${tenant.slug}\r\nX-Tenant-ID: ${tenant.slug}\r\n`))).toBe(200);
    expect(status(await send(`${auth}Authorization: Bearer ${tenant.key}\r\n`))).toBe(401);
    expect(status(await send(`${auth}X-Public-Key: svc_pk_x\r\n`))).toBe(401);
    expect(status(await send(`${auth}X-API-Key: ${tenant.key}\r\n`))).toBe(401);
    expect(status(await send(`${auth}X-Admin-Secret: x\r\n`))).toBe(401);
    const bearer = `Authorization: Bearer ${tenant.key}\r\n`;
    expect(status(await send(bearer))).toBe(200);
    expect(status(await send(bearer + bearer))).toBe(401);
  });

  test('another method on a known path is a 405 with the allowed methods', async () => {
    const answer = await tenant.request('DELETE', path);
    expect([answer.status, answer.body.error?.code]).toEqual([405, 'METHOD_NOT_ALLOWED']);
    expect(answer.headers.get('allow')?.split(', ').sort()).toEqual(['GET', 'POST']);
    expect((await tenant.request('POST', `${path}/${id}`, {})).status).toBe(405);
    expect((await tenant.get('/api/nothing')).status).toBe(404);
  });
});
