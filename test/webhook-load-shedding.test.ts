// Load shedding: while requests wait for the database, claim rounds are delayed by a bounded time and take only some
// of the due deliveries; otherwise nothing is held back.
// Contract: decisions#deliveries.
import { expect, test } from 'bun:test';
import { LoadShedding } from '../src/webhooks/dispatch/load-shedding.ts';

/** The times at which rounds begin, given one commit per millisecond and the number of queries waiting at each. */
function roundsWhile(waiting: readonly number[]): number[] {
  const stats = { size: 8, inUse: 8, waiting: 0 };
  const shedding = new LoadShedding({ stats: () => stats });
  return waiting.flatMap((count, atMs) => {
    stats.waiting = count;
    shedding.sample(1_000 + atMs);
    return shedding.tryBeginRound(1_000 + atMs) ? [atMs] : [];
  });
}

test('without waiting queries every round begins at once', () => {
  expect(roundsWhile(Array(50).fill(0))).toHaveLength(50);
});

test('when queries are waiting during most commits, a round begins every 250 ms', () => {
  const rounds = roundsWhile(Array(1_200).fill(3)).filter((atMs) => atMs >= 100);
  expect(rounds.slice(1).map((atMs, i) => atMs - (rounds[i] as number))).toEqual([250, 250, 250]);
});

test('queries waiting during only a third of the commits delay nothing', () => {
  const now = Array.from({ length: 500 }, (_, i) => (i % 3 === 0 ? 1 : 0));
  expect(roundsWhile(now)).toHaveLength(500);
});

test('a delayed round begins soon after queries or commits have ceased', () => {
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

test('under overload a round claims a few deliveries of each subscription, otherwise a full window', () => {
  const stats = { size: 8, inUse: 8, waiting: 1 };
  const shedding = new LoadShedding({ stats: () => stats });
  for (let atMs = 0; atMs < 50; atMs++) shedding.sample(atMs);
  expect([1, 10, 64].map((count) => shedding.claimLimit(count, 60))).toEqual([32, 4, 1]);
  expect(shedding.claimLimit(64, 1_000)).toBe(32);
});
