// How owners that have had more than others give way while not all slots are admitted. Contract: neighbours#fair-shares.
import { describe, expect, test } from 'bun:test';
import { SERVICE_SHARE } from '../src/runtime/fair-share.ts';
import { GivingWay } from '../src/runtime/giving-way.ts';
import { createLog } from '../src/runtime/log.ts';
import { LongWork } from '../src/runtime/long-work.ts';
import { Pool } from '../src/runtime/postgres/pool.ts';
import { anyPostgres } from './support/any-postgres.ts';
import { asTenant } from './support/work.ts';

describe('owners that have had more than the others, while slots are admitted in part', () => {
  test('hold fewer slots, and one at least', () => {
    let admitted = 1;
    const giving = new GivingWay(() => admitted);
    giving.add('heavy', 900, false);
    giving.add('light', 100, false);
    const slots = (): number[] => [giving.slotsOf('heavy', 4), giving.slotsOf('light', 4), giving.slotsOf('new', 4)];
    expect(slots()).toEqual([4, 4, 4]);
    admitted = 0.5;
    expect(slots()).toEqual([2, 4, 4]);
    admitted = 0;
    expect(slots()).toEqual([1, 4, 4]);
  });

  test('keep the slots of their short work while they run something long, such as an index', () => {
    const giving = new GivingWay(() => 0);
    giving.add('building', 900, true);
    giving.add('building', 50, false);
    giving.add('other', 100, false);
    expect([giving.slotsOf('building', 4), giving.slotsOf('other', 4)]).toEqual([4, 1]);
  });

  test('rest after what they ran if they have had most, the longer the more that is and the fewer slots are admitted', () => {
    let admitted = 1;
    const giving = new GivingWay(() => admitted);
    giving.add('heavy', 7.5, false);
    giving.add('light', 2.5, false);
    const restOf = (share: string, from: number): number => {
      let ms = 0;
      while (giving.isResting(share, from + ms)) ms++;
      return ms;
    };
    giving.ran('heavy', 'heavy', 10, 0);
    expect(restOf('heavy', 0)).toBe(0);
    admitted = 0.5;
    giving.ran('heavy', 'heavy', 10, 1_000);
    giving.ran('light', 'light', 10, 1_000);
    expect([restOf('heavy', 1_000), restOf('light', 1_000)]).toEqual([10, 0]);
    admitted = 0;
    giving.ran('heavy', 'heavy', 10, 2_000);
    expect(restOf('heavy', 2_000)).toBe(20);
    // The rests of what ran at the same time come one after the other.
    giving.ran('heavy', 'heavy', 10, 2_000);
    expect(restOf('heavy', 2_000)).toBe(40);
    // An owner's long and short work rest apart.
    expect(restOf('long heavy', 2_000)).toBe(0);
    giving.add('light', 5, false);
    giving.ran('heavy', 'heavy', 10, 3_000);
    expect(restOf('heavy', 3_000)).toBe(0);
  });

  test('rest for half a second at most, however long they ran', () => {
    const giving = new GivingWay(() => 0);
    giving.add('heavy', 900, false);
    giving.add('light', 100, false);
    for (let i = 0; i < 3; i++) giving.ran('heavy', 'heavy', 4_000, 100);
    expect([giving.isResting('heavy', 599), giving.isResting('heavy', 600)]).toEqual([true, false]);
  });

  test('do not include the service, which all tenants wait for', () => {
    const giving = new GivingWay(() => 0);
    giving.add(SERVICE_SHARE, 900, false);
    giving.add('light', 100, false);
    giving.ran(SERVICE_SHARE, SERVICE_SHARE, 10, 0);
    expect([giving.slotsOf(SERVICE_SHARE, 4), giving.isResting(SERVICE_SHARE, 1)]).toEqual([4, false]);
  });

  test('leave an idle connection to others while they rest', async () => {
    const log = createLog({ level: 'error' });
    const database = await anyPostgres(log);
    const givingWay = new GivingWay(() => 0);
    givingWay.add('heavy', 10_000, false);
    givingWay.add('light', 1, false);
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
      log,
      long: { admitted: () => 0, delayMs: () => 0, givingWay, work: new LongWork(1, 1) },
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
