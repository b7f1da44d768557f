// The log: one JSON line per entry, levels, bound fields, errors with cause and stack, and no secrets.
import { expect, test } from 'bun:test';

import type { LogLevel } from '../src/config.ts';
import { createLog } from '../src/runtime/log.ts';

function capture(level: LogLevel = 'debug', readable = false) {
  const lines: string[] = [];
  const log = createLog({ level, readable, write: (line) => lines.push(line) });
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? '{}') };
}

test('an entry is one line of JSON with time, level, message and fields', () => {
  const { log, lines, last } = capture();
  log.child({ requestId: 'r-1' }).info('request\nanswered', { status: 200, durationMs: 1.5, key: null });
  expect(lines).toHaveLength(1);
  expect(lines[0]).toEndWith('}\n');
  expect(lines[0]?.trimEnd()).not.toContain('\n');
  expect(last()).toEqual({
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    level: 'info',
    msg: 'request\nanswered',
    requestId: 'r-1',
    status: 200,
    durationMs: 1.5,
    key: null,
  });
});

test('entries below the level are not written', () => {
  const { log, lines } = capture('warn');
  log.debug('a');
  log.info('b');
  log.warn('c');
  log.error('d');
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['c', 'd']);
});

test('on a terminal an entry is a readable line', () => {
  const { log, lines } = capture('debug', true);
  log.warn('the database does not answer', { pool: 'requests', note: 'two words' });
  expect(lines[0]).toMatch(
    /^\d\d:\d\d:\d\d\.\d{3} warn {2}the database does not answer pool=requests note="two words"\n$/,
  );
});

test('on a terminal no value can break the line or control the terminal', () => {
  const { log, lines } = capture('debug', true);
  log.warn('request', { address: '1.1.1.1\n12:00 warn forged', path: '/\x1b[2J', note: '\x9b2J\u2028' });
  expect(lines.join('').trimEnd()).toMatch(/^[\x20-\x7e]+$/);
});

test('which credential was used is shown, its value is not', () => {
  const { log, last } = capture();
  log.info('m', { credential: { kind: 'owner_key', id: 'k-1' }, credentials: ['x'] });
  expect(last()).toMatchObject({ credential: { kind: 'owner_key', id: 'k-1' }, credentials: '[redacted]' });
  log.info('m', { credential: { kind: 'owner_key', id: 'k-1', key: 'x' } });
  expect(last().credential).toBe('[redacted]');
  log.info('m', { credential: 'x' });
  expect(last().credential).toBe('[redacted]');
});

const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl';

test.each([
  ['an owner key', 'svc_ak_0123456789abcdef'],
  ['a public key', 'svc_pk_0123456789abcdef'],
  ['a webhook secret', 'whsec_0123456789abcdef'],
  ['a token', JWT],
  ['an authorization header', 'Bearer 0123456789abcdef'],
  ['the password of an address', 'postgres://user:0123456789abcdef@host/db'],
])('%s is redacted in messages, fields, nested values, errors and their causes', (_, secret) => {
  const { log, lines } = capture();
  const cause = new Error(`refused ${secret}`);
  log.error(`sent ${secret}`, {
    url: `https://host/?x=${secret}`,
    nested: { list: [secret, { deep: secret }] },
    error: Object.assign(new Error(`bad ${secret}`, { cause }), { hint: secret }),
  });
  const hidden = secret.includes('0123456789abcdef') ? '0123456789abcdef' : secret;
  expect(lines.join('')).not.toContain(hidden);
  expect(lines.join('')).toContain('[redacted]');
});

test('fields named like secrets are redacted regardless of their value', () => {
  const { log, last } = capture();
  log.info('m', {
    authorization: 'x',
    password: 'y',
    headers: { 'X-Admin-Secret': 'z', 'x-api-key': 'k' },
    hasPassword: true,
  });
  expect(last()).toMatchObject({
    authorization: '[redacted]',
    password: '[redacted]',
    headers: { 'X-Admin-Secret': '[redacted]', 'x-api-key': '[redacted]' },
    hasPassword: true,
  });
});

test('errors are written with stack, cause and code', () => {
  const { log, last } = capture();
  const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  log.error('failed', { error: new Error('no database', { cause }) });
  expect(last().error).toMatchObject({
    name: 'Error',
    message: 'no database',
    cause: { message: 'refused', code: 'ECONNREFUSED' },
  });
  expect(last().error.stack).toContain('log.test.ts');
});

test('values that JSON cannot represent do not break an entry', () => {
  const { log, last } = capture();
  const loop: Record<string, unknown> = { big: 10n, bytes: new Uint8Array(3), at: new Date(Number.NaN), call: () => 1 };
  loop.self = loop;
  log.info('odd', { loop, missing: undefined });
  expect(last().loop).toEqual({ big: '10', bytes: '[3 bytes]', at: 'invalid date', self: '[circular]' });
});
