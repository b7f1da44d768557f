// How much time owners have used lately, compared with sums over all their use. Contract: neighbours#fair-shares.
import { describe, expect, test } from 'bun:test';
import { UsedTime } from '../src/runtime/used-time.ts';
import { seededRandom } from './support/random.ts';

const HALVED_BY_MS = 1_000;

describe('the time that owners have used', () => {
  test('counts for less with all that is used later, and compares each owner with the others', () => {
    const random = seededRandom(5);
    const used = new UsedTime(HALVED_BY_MS);
    const model = new Map<string, number>();
    for (let step = 0; step < 20_000; step++) {
      const owner = `owner ${Math.floor(4 * random() ** 2)}`;
      const ms = 50 * random();
      used.add(owner, ms);
      for (const [name, before] of model) model.set(name, before * 2 ** (-ms / HALVED_BY_MS));
      model.set(owner, (model.get(owner) ?? 0) + ms);
      if (step % 100 > 0) continue;
      const all = [...model.values()];
      const total = all.reduce((sum, ms) => sum + ms, 0);
      const squares = all.reduce((sum, ms) => sum + ms ** 2, 0);
      for (const [name, ms] of model) {
        expect(used.partOf(name)).toBeCloseTo(ms / total, 6);
        expect(used.weightOf(name)).toBeCloseTo((ms * total) / squares, 6);
      }
    }
  });

  test('is 1 in comparison for owners that have used the same, however many have used next to nothing', () => {
    const used = new UsedTime(1e9);
    for (let i = 0; i < 1_000; i++) used.add(`idle ${i}`, 0.001);
    for (const owner of ['a', 'b', 'c']) used.add(owner, 1_000);
    for (const owner of ['a', 'b', 'c']) expect(used.weightOf(owner)).toBeCloseTo(1, 2);
    used.add('a', 1_000);
    expect(used.weightOf('a')).toBeGreaterThan(1.3);
    expect(used.weightOf('b')).toBeLessThan(0.7);
    expect(used.weightOf('idle 7')).toBeLessThan(0.01);
    expect(used.weightOf('a stranger')).toBe(0);
  });

  test('is forgotten with its owner, and by a very long call at once', () => {
    const used = new UsedTime(HALVED_BY_MS);
    for (let i = 0; i < 100_000; i++) used.add(`once ${i}`, 5);
    expect(used.size).toBeLessThan(10_000);
    used.add('export', 600_000);
    expect([used.partOf('export'), used.weightOf('export'), used.size]).toEqual([1, 1, 1]);
  });

  test('is nothing before anybody has used any', () => {
    const used = new UsedTime(HALVED_BY_MS);
    expect([used.partOf('a'), used.weightOf('a')]).toEqual([0, 0]);
  });
});
