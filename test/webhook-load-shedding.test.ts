// Deliveries step back while requests wait for the database, and only then: a round is put off for a bounded time
// and takes a part of what is due; in a process that is not busy nothing is held back.
// Contract: decisions#deliveries.
import { expect, test } from 'bun:test';
import { LoadShedding } from '../src/webhooks/dispatch/load-shedding.ts';

/** What is seen at commits, one each millisecond, when so many calls wait at each; the times at which rounds began. */
function roundsWhile(waiting: readonly number[]): number[] {
  const stats = { size: 8, inUse: 8, waiting: 0 };
  const shedding = new LoadShedding({ stats: () => stats });
  return waiting.flatMap((count, atMs) => {
    stats.waiting = count;
    shedding.sample(1_000 + atMs);
    return shedding.tryBeginRound(1_000 + atMs) ? [atMs] : [];
  });
}

test('with no call waiting a round begins whenever there is one', () => {
  expect(roundsWhile(Array(50).fill(0))).toHaveLength(50);
});

test('once calls wait at most commits one begins every 250 ms', () => {
  const rounds = roundsWhile(Array(1_200).fill(3)).filter((atMs) => atMs >= 100);
  expect(rounds.slice(1).map((atMs, i) => atMs - (rounds[i] as number))).toEqual([250, 250, 250]);
});

test('calls that wait now and then hold nothing back', () => {
  const now = Array.from({ length: 500 }, (_, i) => (i % 3 === 0 ? 1 : 0));
  expect(roundsWhile(now)).toHaveLength(500);
});

test('a round that was put off begins soon after calls have ceased to wait, or to be made', () => {
  const ceased = roundsWhile([...Array(100).fill(1), ...Array(80).fill(0)]).filter((atMs) => atMs >= 100);
  expect(ceased[0]).toBeLessThan(130);
  const stats = { size: 8, inUse: 8, waiting: 5 };
  const shedding = new LoadShedding({ stats: () => stats });
  for (let atMs = 1_000; atMs < 1_100; atMs++) shedding.sample(atMs);
  expect([shedding.tryBeginRound(1_100), shedding.tryBeginRound(1_101), shedding.tryBeginRound(1_125)]).toEqual([
    true,
    false,
    true,
  ]);
});

test('in a busy process a round takes a few of each subscription, otherwise all that there is room for', () => {
  const stats = { size: 8, inUse: 8, waiting: 1 };
  const shedding = new LoadShedding({ stats: () => stats });
  for (let atMs = 0; atMs < 50; atMs++) shedding.sample(atMs);
  expect([1, 10, 64].map((count) => shedding.claimLimit(count, 60))).toEqual([32, 4, 1]);
  expect(shedding.claimLimit(64, 1_000)).toBe(32);
});
