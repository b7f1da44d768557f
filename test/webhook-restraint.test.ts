// Deliveries step back while requests wait for the database, and only then: a round is put off for a bounded time
// and takes a part of what is due; in a process that is not busy nothing is held back.
// Contract: section 9 of the decisions.
import { expect, test } from 'bun:test';
import { Restraint } from '../src/webhooks/restraint.ts';

/** What is seen at commits, one each millisecond, when so many calls wait at each; the times at which rounds began. */
function roundsWhile(waiting: readonly number[]): number[] {
  const stats = { size: 8, inUse: 8, waiting: 0 };
  const restraint = new Restraint({ stats: () => stats });
  return waiting.flatMap((count, atMs) => {
    stats.waiting = count;
    restraint.look(1_000 + atMs);
    return restraint.begins(1_000 + atMs) ? [atMs] : [];
  });
}

test('with no call waiting a round begins whenever there is one', () => {
  expect(roundsWhile(Array(50).fill(0))).toHaveLength(50);
});

test('while calls wait one begins every 125 ms', () => {
  expect(roundsWhile(Array(500).fill(3))).toEqual([0, 125, 250, 375]);
});

test('calls that wait now and then are enough', () => {
  const now = Array.from({ length: 500 }, (_, i) => (i % 10 === 0 ? 1 : 0));
  expect(roundsWhile(now)).toEqual([0, 125, 250, 375]);
});

test('a round that was put off begins soon after the last call had to wait', () => {
  const [first, second, third] = roundsWhile([...Array(20).fill(1), ...Array(80).fill(0)]);
  expect([first, second, third]).toEqual([0, 44, 45]);
});

test('in a busy process a round takes a few of each subscription, otherwise all that there is room for', () => {
  const stats = { size: 8, inUse: 8, waiting: 1 };
  const restraint = new Restraint({ stats: () => stats });
  restraint.look(0);
  expect([1, 10, 64].map((count) => restraint.mostOfEach(count, 10))).toEqual([32, 4, 1]);
  expect(restraint.mostOfEach(64, 1_000)).toBe(32);
});
