// How owners that have used more than others are throttled while not all slots are admitted. Contract: neighbours#fair-shares.
import { describe, expect, test } from 'bun:test';
import { SERVICE_SHARE } from '../src/runtime/fair-share.ts';
import { createLog } from '../src/runtime/log.ts';
import { LongWork } from '../src/runtime/long-work.ts';
import { LockRoom } from '../src/runtime/postgres/lock-room.ts';
import { Pool } from '../src/runtime/postgres/pool.ts';
import { Throttle } from '../src/runtime/throttle.ts';
import { anyPostgres } from './support/any-postgres.ts';
import { asTenant } from './support/work.ts';

describe('owners that have used more than the others, while slots are admitted in part', () => {
  test('hold fewer slots, and one at least', () => {
    let admitted = 1;
    const throttle = new Throttle(() => admitted);
    throttle.add('heavy', 900, false);
    throttle.add('light', 100, false);
    const slots = (): number[] => [
      throttle.slotsOf('heavy', 4),
      throttle.slotsOf('light', 4),
      throttle.slotsOf('new', 4),
    ];
    expect(slots()).toEqual([4, 4, 4]);
    admitted = 0.5;
    expect(slots()).toEqual([2, 4, 4]);
    admitted = 0;
    expect(slots()).toEqual([1, 4, 4]);
  });

  test('keep the slots of their short work while they run something long, such as an index', () => {
    const throttle = new Throttle(() => 0);
    throttle.add('building', 900, true);
    throttle.add('building', 50, false);
    throttle.add('other', 100, false);
    expect([throttle.slotsOf('building', 4), throttle.slotsOf('other', 4)]).toEqual([4, 1]);
  });

  test('rest after each ticket if they have used most of the time, the longer the more that is and the fewer slots are admitted', () => {
    let admitted = 1;
    const throttle = new Throttle(() => admitted);
    throttle.add('heavy', 7.5, false);
    throttle.add('light', 2.5, false);
    const restOf = (share: string, from: number): number => {
      let ms = 0;
      while (throttle.isResting(share, from + ms)) ms++;
      return ms;
    };
    throttle.ran('heavy', 'heavy', 10, 0);
    expect(restOf('heavy', 0)).toBe(0);
    admitted = 0.5;
    throttle.ran('heavy', 'heavy', 10, 1_000);
    throttle.ran('light', 'light', 10, 1_000);
    expect([restOf('heavy', 1_000), restOf('light', 1_000)]).toEqual([10, 0]);
    admitted = 0;
    throttle.ran('heavy', 'heavy', 10, 2_000);
    expect(restOf('heavy', 2_000)).toBe(20);
    // The pauses for statements that ran at the same time follow one after the other.
    throttle.ran('heavy', 'heavy', 10, 2_000);
    expect(restOf('heavy', 2_000)).toBe(40);
    // An owner's long and short work pause separately.
    expect(restOf('long heavy', 2_000)).toBe(0);
    throttle.add('light', 5, false);
    throttle.ran('heavy', 'heavy', 10, 3_000);
    expect(restOf('heavy', 3_000)).toBe(0);
  });

  test('neither rest nor lose slots while they use less than one connection all the time, however little the others use', () => {
    const throttle = new Throttle(() => 0);
    const use = (ms: number, from: number): (boolean | number)[] => {
      for (let now = from; now < from + 10_000; now += 100) {
        throttle.passed(now);
        throttle.add('only', ms, false);
        throttle.ran('only', 'only', ms, now);
      }
      return [throttle.isResting('only', from + 10_000), throttle.slotsOf('only', 4)];
    };
    expect(use(50, 0)).toEqual([false, 4]);
    expect(use(400, 20_000)).toEqual([true, 1]);
  });

  test('pause for half a second at most, however long they ran', () => {
    const throttle = new Throttle(() => 0);
    throttle.add('heavy', 900, false);
    throttle.add('light', 100, false);
    for (let i = 0; i < 3; i++) throttle.ran('heavy', 'heavy', 4_000, 100);
    expect([throttle.isResting('heavy', 599), throttle.isResting('heavy', 600)]).toEqual([true, false]);
  });

  test('do not include the service, which all tenants wait for', () => {
    const throttle = new Throttle(() => 0);
    throttle.add(SERVICE_SHARE, 900, false);
    throttle.add('light', 100, false);
    throttle.ran(SERVICE_SHARE, SERVICE_SHARE, 10, 0);
    expect([throttle.slotsOf(SERVICE_SHARE, 4), throttle.isResting(SERVICE_SHARE, 1)]).toEqual([4, false]);
  });

  test('leave an idle connection to others while they rest', async () => {
    const log = createLog({ level: 'error' });
    const database = await anyPostgres(log);
    const throttle = new Throttle(() => 0);
    throttle.add('heavy', 10_000, false);
    throttle.add('light', 1, false);
    const pool = new Pool({
      name: 'test',
      url: database.url,
      max: 2,
      timeoutMs: 10_000,
      connectTimeoutMs: 3_000,
      shareWaitingMax: 10,
      hasProcess: false,
      session: {},
      limitTemporary: async () => {},
      cancel: async () => {},
      onStatements() {},
      locks: new LockRoom(1),
      log,
      long: { admitted: () => 0, delayMs: () => 0, throttle, work: new LongWork(1, 1) },
    });
    const order: string[] = [];
    const run = (tenantId: string, text: string): Promise<unknown> =>
      asTenant(tenantId, async () => {
        await pool.lease((lease) => lease.run(text, []));
        order.push(tenantId);
      });
    try {
      await run('light', 'select 1');
      await run('heavy', 'select pg_sleep(0.2)');
      const last = run('heavy', 'select 1');
      for (let i = 0; i < 3; i++) await run('light', 'select 1');
      await last;
      expect(order.slice(2)).toEqual(['light', 'light', 'light', 'heavy']);
    } finally {
      await pool.close(1_000);
      await database.remove();
    }
  });
});
