// Which subscriptions are due for a claim, against a model that checks all of them, and the turns that tenants take.
import { describe, expect, test } from 'bun:test';

import { DueSubscriptions } from '../src/webhooks/dispatch/due-subscriptions.ts';
import { seededRandom } from './support/random.ts';

const TENANTS = 5;
const STEPS = 4_000;

/** The tenant of `3/17` is `3`. */
const tenantOf = (id: string): string => id.slice(0, id.indexOf('/'));

describe('subscriptions that are due for a claim', () => {
  test('are taken once their time has come and not before, each once, and later times stay', () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const random = seededRandom(seed);
    const below = (limit: number): number => Math.floor(random() * limit);
    const due = new DueSubscriptions(tenantOf);
    const model = new Map<string, Set<number>>();
    for (let now = 0; now < STEPS; now += below(3)) {
      const id = `${below(TENANTS)}/${below(10)}`;
      const at = now + below(20) - 5;
      due.add(id, at);
      model.set(id, (model.get(id) ?? new Set()).add(at));
      const dueNow = [...model].filter(([, times]) => Math.min(...times) <= now).map(([key]) => key);
      expect(
        dueNow.every((key) => due.isDue(key, now)),
        `seed ${seed}`,
      ).toBe(true);
      if (below(4) > 0) continue;
      const taken = due.take(1 + below(6), now);
      expect(new Set(taken).size, `seed ${seed}`).toBe(taken.length);
      for (const key of taken) {
        expect(dueNow, `seed ${seed}`).toContain(key);
        const later = [...(model.get(key) ?? [])].filter((time) => time > now);
        if (later.length > 0) model.set(key, new Set(later));
        else model.delete(key);
      }
    }
    const left = due.take(Number.MAX_SAFE_INTEGER, STEPS + 100);
    expect(left.toSorted(), `seed ${seed}`).toEqual([...model.keys()].toSorted());
    expect(due.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test('are taken of each tenant in turn, also over several rounds, and the longest waiting first', () => {
    const due = new DueSubscriptions(tenantOf);
    for (const [at, id] of ['a/1', 'a/2', 'a/3', 'a/4', 'b/1', 'c/1'].entries()) due.add(id, at);
    expect(due.take(2, 10)).toEqual(['a/1', 'b/1']);
    due.add('b/2', 9);
    expect(due.take(2, 10)).toEqual(['c/1', 'a/2']);
    expect(due.take(9, 10)).toEqual(['b/2', 'a/3', 'a/4']);
  });

  test('tell when the next one is due, also after an earlier time has been added', () => {
    const due = new DueSubscriptions(tenantOf);
    expect(due.nextAt).toBe(Number.POSITIVE_INFINITY);
    due.add('a/1', 50);
    due.add('b/1', 30);
    due.add('a/1', 20);
    expect(due.nextAt).toBe(20);
    expect(due.take(5, 30)).toEqual(['a/1', 'b/1']);
    expect(due.nextAt).toBe(50);
    expect(due.isDue('a/1', 49)).toBe(false);
    expect(due.isDue('a/1', 50)).toBe(true);
  });
});
