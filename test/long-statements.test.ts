// Which statements are known to run long: learned by tenant and text, and forgotten when they have become fast.
// Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { Buffer } from 'node:buffer';
import process from 'node:process';
import { LongStatements, YIELDED } from '../src/runtime/postgres/long-statements.ts';

function ran(statements: LongStatements, share: string, text: string | undefined, ...times: number[]): boolean {
  for (const ms of times) statements.ended(share, text, ms);
  return statements.isLong(share, text);
}

test('a statement that has been slow again is long, for its tenant alone, and its transactions are another matter', () => {
  const statements = new LongStatements();
  expect(ran(statements, 'a', 'list', 1_000)).toBe(false);
  expect(ran(statements, 'a', 'list', 1_000, 1_000)).toBe(true);
  expect(statements.isLong('b', 'list')).toBe(false);
  expect(statements.isLong('a', 'other list')).toBe(false);
  expect(statements.isLong('a')).toBe(false);
  expect(ran(statements, 'a', undefined, 500, 500, 500)).toBe(true);
});

test('one that has given up its turn is long at once, also when it was quick before', () => {
  const statements = new LongStatements();
  expect(ran(statements, 'a', 'list', YIELDED)).toBe(true);
  expect(ran(statements, 'b', 'list', 1_000, 2, YIELDED)).toBe(true);
  expect(ran(statements, 'b', 'list', ...Array(6).fill(2))).toBe(false);
});

test('a fast statement that is slow now and then does not count as long, however slow it is', () => {
  const statements = new LongStatements();
  for (let i = 0; i < 100; i++) expect(ran(statements, 'a', 'list', 60_000, 2, 2, 2)).toBe(false);
});

test('one that has become quick is soon forgotten', () => {
  const statements = new LongStatements();
  expect(ran(statements, 'a', 'list', ...Array(50).fill(60_000))).toBe(true);
  expect(ran(statements, 'a', 'list', ...Array(6).fill(2))).toBe(false);
});

test('long texts are not kept: a thousand of 300 KB take no memory', () => {
  const statements = new LongStatements();
  Bun.gc(true);
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 1_000; i++) ran(statements, 'a', `${i}${Buffer.alloc(300_000, 'x').toString('latin1')}`, 1_000);
  Bun.gc(true);
  expect((process.memoryUsage().heapUsed - before) / 1_048_576).toBeLessThan(30);
  expect(statements.size).toBe(1_000);
});

test('of ever new texts, the latest are remembered', () => {
  const statements = new LongStatements();
  for (let i = 0; i < 5_000; i++) ran(statements, `tenant ${i % 7}`, `list ${i}`, 1_000, 1_000, 1_000);
  expect(statements.size).toBeLessThanOrEqual(1_000);
  expect(statements.isLong(`tenant ${4_999 % 7}`, 'list 4999')).toBe(true);
  expect(statements.isLong('tenant 0', 'list 0')).toBe(false);
});
