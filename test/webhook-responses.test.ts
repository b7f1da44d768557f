// How the response to a webhook is read from the bytes of its connection: which responses are read, and which are invalid.
// Contract: decisions#webhook-requests.
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { LIMITS } from '../src/limits.ts';
import { InvalidResponse, ResponseReader } from '../src/webhooks/transport/response-reader.ts';
import { threadTimes } from './support/stalls.ts';
import { fastest } from './support/timing.ts';

const { responseBytes, responseHeaderBytes, responseHeadersMax, responseLinesMax, informationalMax } = LIMITS.webhook;
const OK = 'HTTP/1.1 200 OK\r\n';

interface Read {
  status: number | null;
  text: string | null;
  isReusable: boolean;
  isComplete: boolean;
}

/** Reads pieces of a response, and then the end of the connection. */
function read(...pieces: string[]): Read | 'invalid' {
  const reader = new ResponseReader();
  try {
    const isRead = pieces.some((piece) => reader.read(Buffer.from(piece, 'latin1')));
    const { status, said, isReusable } = reader;
    return { status, text: said.text(), isReusable, isComplete: isRead || reader.end() };
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidResponse);
    return 'invalid';
  }
}

const complete = { isComplete: true, isReusable: true };
const RESPONSES: [string, string, Partial<Read>][] = [
  ['with a length', `${OK}Content-Length: 5\r\n\r\nhello`, { status: 200, text: 'hello', ...complete }],
  ['in chunks', `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`, { text: 'hello', ...complete }],
  [
    'in chunks with extensions and trailers',
    `${OK}Transfer-Encoding: Chunked\r\n\r\n3;a=b\r\nhel\r\n02\r\nlo\r\n0\r\nX-Sum: 1\r\n\r\n`,
    { text: 'hello', ...complete },
  ],
  ['that ends with the connection', `${OK}\r\nhello`, { text: 'hello', isComplete: true, isReusable: false }],
  ['without a body, by its status', 'HTTP/1.1 204 No Content\r\n\r\n', { status: 204, text: null, ...complete }],
  [
    '304 with the length of another response',
    'HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n',
    { status: 304, ...complete },
  ],
  ['with no reason', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', { status: 200, ...complete }],
  [
    'after 103 and 100',
    `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${OK}Content-Length: 2\r\n\r\nok`,
    { status: 200, text: 'ok', ...complete },
  ],
  ['that closes the connection', `${OK}Connection: Close\r\nContent-Length: 0\r\n\r\n`, { isReusable: false }],
  ['of HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', { isComplete: true, isReusable: false }],
  ['with the same length twice', `${OK}Content-Length: 1\r\ncontent-length: 1\r\n\r\nx`, { text: 'x', ...complete }],
  [
    'redirect, as it stands',
    'HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n',
    { status: 302, ...complete },
  ],
];

describe('a response is read', () => {
  test.each(RESPONSES)('%s', (_, response, expected) => {
    expect(read(response)).toMatchObject(expected);
  });

  test('alike however its bytes arrive', () => {
    const whole = fc.constantFrom(...RESPONSES.map(([, response]) => response));
    fc.assert(
      fc.property(whole, fc.array(fc.nat({ max: 200 }), { maxLength: 8 }), (response, cuts) => {
        const at = [0, ...cuts.map((cut) => cut % response.length).sort((a, b) => a - b), response.length];
        const pieces = at.slice(1).map((end, i) => response.slice(at[i], end));
        expect(read(...pieces)).toEqual(read(response));
      }),
    );
  });

  test('up to 64 KiB, and its status counts', () => {
    const reader = new ResponseReader();
    const piece = Buffer.alloc(responseBytes / 4, 'x');
    expect(reader.read(Buffer.from(`${OK}Content-Length: 9999999\r\n\r\n`))).toBe(false);
    for (let i = 0; i < 4; i++) expect(reader.read(piece)).toBe(false);
    expect(reader.read(Buffer.from('x'))).toBe(true);
    expect(reader).toMatchObject({ status: 200, isReusable: false });
  });

  test('up to 64 KiB of chunks', () => {
    const reader = new ResponseReader();
    reader.read(Buffer.from(`${OK}Transfer-Encoding: chunked\r\n\r\n`));
    const chunks = Buffer.from(`1f4\r\n${'x'.repeat(500)}\r\n`.repeat(10));
    let pieces = 1;
    while (!reader.read(chunks)) pieces++;
    expect(pieces).toBe(Math.ceil(responseBytes / chunks.length));
    expect(reader.isReusable).toBe(false);
  });

  test.each([
    ['chunks of one byte', '1\r\nx\r\n', 2],
    ['trailers', '0\r\nX: y\r\n', 1],
  ])('up to 250 lines of %s, and its status counts', (_, first, lines) => {
    const reader = new ResponseReader();
    reader.read(Buffer.from(`${OK}Transfer-Encoding: chunked\r\n\r\n${first}`));
    let read = 2;
    for (const next = Buffer.from(first.replace(/^0\r\n/, '')); read < 2 * responseLinesMax; read += lines)
      if (reader.read(next)) break;
    expect(read + lines).toBe(responseLinesMax);
    expect(reader).toMatchObject({ status: 200, isReusable: false });
  });

  // A tenant may have 200 attempts in flight, and the responses may all arrive in the same turn of the event loop.
  test.each([
    ['preliminary responses', `HTTP/1.1 103 Early Hints\r\n${'a:\r\n'.repeat(4_000)}\r\n`.repeat(20)],
    ['headers', `${OK}${'a:\r\n'.repeat(4_000)}\r\n`],
    ['chunks', `${OK}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(10_000)}`],
    ['trailers', `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n${'a\r\n'.repeat(20_000)}`],
  ])(
    'in the time of its bytes: 200 responses with as many %s as they may have take less than 50 ms',
    async (_, response) => {
      const bytes = Buffer.from(response);
      const readOne = (reader = new ResponseReader()): void => {
        for (let at = 0; at < bytes.length; at += responseBytes)
          if (reader.read(bytes.subarray(at, at + responseBytes))) return;
      };
      const readAll = (): number => {
        const { cpuMs } = threadTimes();
        for (let i = 0; i < 200; i++) {
          try {
            readOne();
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidResponse);
          }
        }
        return threadTimes().cpuMs - cpuMs;
      };
      expect(await fastest(50, readAll)).toBeLessThan(50);
    },
  );
});

describe('a response is incomplete when the connection ends', () => {
  test.each([
    ['before it begins', ''],
    ['within its head', OK],
    ['before its length', `${OK}Content-Length: 5\r\n\r\nhell`],
    ['within a chunk', `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhel`],
    ['before the last chunk', `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`],
    ['within the trailers', `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n`],
  ])('%s', (_, response) => {
    expect(read(response)).toMatchObject({ isComplete: false });
  });
});

describe('a response is invalid', () => {
  test.each([
    ['of another protocol', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['from its first byte', 'x'],
    ['of another version', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['without a status', 'HTTP/1.1 OK\r\n\r\n'],
    ['with a status out of range', 'HTTP/1.1 099 No\r\n\r\n'],
    ['with a length and chunks', `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['with two lengths', `${OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\n`],
    ['with a list of lengths', `${OK}Content-Length: 5, 5\r\n\r\nhello`],
    ['with a negative length', `${OK}Content-Length: -1\r\n\r\n`],
    ['with a length in other digits', `${OK}Content-Length: 0x5\r\n\r\n`],
    ['with an endless length', `${OK}Content-Length: ${'9'.repeat(30)}\r\n\r\n`],
    ['with chunks within another coding', `${OK}Transfer-Encoding: chunked, gzip\r\n\r\n`],
    ['with chunks twice', `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`],
    ['with a space before the colon', `${OK}Content-Length : 5\r\n\r\nhello`],
    ['with a folded header', `${OK}X: a\r\n b\r\n\r\n`],
    ['with a header without a name', `${OK}: x\r\n\r\n`],
    ['with a line feed alone in a header', `${OK}X: a\nContent-Length: 0\r\n\r\n`],
    ['with a carriage return alone', `${OK}X: a\rb\r\n\r\n`],
    ['with a NUL in a header', `${OK}X: a\0b\r\n\r\n`],
    ['with a long header', `${OK}X: ${'x'.repeat(responseHeaderBytes)}`],
    ['with many headers', `${OK}${'X: y\r\n'.repeat(responseHeaderBytes / 6)}\r\n`],
    ['with more than 100 headers', `${OK}${'X: y\r\n'.repeat(responseHeadersMax + 1)}\r\n`],
    [
      'with long headers in several heads together',
      `HTTP/1.1 103 Early Hints\r\nX: ${'x'.repeat(responseHeaderBytes / 2)}\r\n\r\n`.repeat(2),
    ],
    [
      'with more than 100 headers in several heads together',
      `HTTP/1.1 103 Early Hints\r\n${'X: y\r\n'.repeat(responseHeadersMax / 2 + 1)}\r\n`.repeat(2),
    ],
    ['that upgrades the connection', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n'],
    ['after too many others', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(informationalMax + 1)],
    ['with a chunk without a size', `${OK}Transfer-Encoding: chunked\r\n\r\nxyz\r\n`],
    ['with a chunk longer than its size', `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n`],
    ['with a chunk of an endless size', `${OK}Transfer-Encoding: chunked\r\n\r\n${'f'.repeat(9)}\r\n`],
    ['with a line feed alone after a size', `${OK}Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n`],
    ['with an endless size of a chunk', `${OK}Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(5_000)}`],
  ])('%s', (_, response) => {
    expect(read(response)).toBe('invalid');
  });

  test('at once, however long its spaces are', () => {
    const begun = performance.now();
    expect(read(`${OK}X:${' '.repeat(16_000)}\0\r\n\r\n`)).toBe('invalid');
    expect(read(`${OK}Transfer-Encoding: chunked\r\n\r\n5${' '.repeat(4_000)}\0\r\n`)).toBe('invalid');
    expect(performance.now() - begun).toBeLessThan(50);
  });
});
