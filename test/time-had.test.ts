// What owners have had lately, against sums over all that was had. Contract: neighbours#fair-shares.
import { describe, expect, test } from 'bun:test';
import { TimeHad } from '../src/runtime/time-had.ts';
import { seededRandom } from './support/random.ts';

const HALVED_BY_MS = 1_000;

describe('the time that owners have had', () => {
  test('counts for less with all that is had later, and compares each owner with the others', () => {
    const random = seededRandom(5);
    const had = new TimeHad(HALVED_BY_MS);
    const model = new Map<string, number>();
    for (let step = 0; step < 20_000; step++) {
      const owner = `owner ${Math.floor(4 * random() ** 2)}`;
      const ms = 50 * random();
      had.add(owner, ms);
      for (const [name, before] of model) model.set(name, before * 2 ** (-ms / HALVED_BY_MS));
      model.set(owner, (model.get(owner) ?? 0) + ms);
      if (step % 100 > 0) continue;
      const all = [...model.values()];
      const total = all.reduce((sum, ms) => sum + ms, 0);
      const squares = all.reduce((sum, ms) => sum + ms ** 2, 0);
      for (const [name, ms] of model) {
        expect(had.partOf(name)).toBeCloseTo(ms / total, 6);
        expect(had.weightOf(name)).toBeCloseTo((ms * total) / squares, 6);
      }
    }
  });

  test('is 1 in comparison for each of those that have had the same, however many have had next to nothing', () => {
    const had = new TimeHad(1e9);
    for (let i = 0; i < 1_000; i++) had.add(`idle ${i}`, 0.001);
    for (const owner of ['a', 'b', 'c']) had.add(owner, 1_000);
    for (const owner of ['a', 'b', 'c']) expect(had.weightOf(owner)).toBeCloseTo(1, 2);
    had.add('a', 1_000);
    expect(had.weightOf('a')).toBeGreaterThan(1.3);
    expect(had.weightOf('b')).toBeLessThan(0.7);
    expect(had.weightOf('idle 7')).toBeLessThan(0.01);
    expect(had.weightOf('a stranger')).toBe(0);
  });

  test('is forgotten with its owner, and by a very long call at once', () => {
    const had = new TimeHad(HALVED_BY_MS);
    for (let i = 0; i < 100_000; i++) had.add(`once ${i}`, 5);
    expect(had.size).toBeLessThan(10_000);
    had.add('export', 600_000);
    expect([had.partOf('export'), had.weightOf('export'), had.size]).toEqual([1, 1, 1]);
  });

  test('is nothing before anybody has had any', () => {
    const had = new TimeHad(HALVED_BY_MS);
    expect([had.partOf('a'), had.weightOf('a')]).toEqual([0, 0]);
  });
});
