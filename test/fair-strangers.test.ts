// How much anonymous clients from many networks can use together: connections to the database, and refusals; and how fast a
// tenant can open streams and sockets. strangers.test.ts tests how much a single client can use.
// Contract: neighbours#fair-shares, neighbours#connections.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { SharePaces } from '../src/runtime/pace.ts';
import { sql } from '../src/runtime/sql.ts';
import { countFor, currentWork, forClient, isStrangers } from '../src/runtime/work.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { asOperator, asTenant } from './support/work.ts';

let service: TestService;
let other: TestTenant;
beforeAll(async () => {
  service = await startService();
  other = await service.tenant();
});
afterAll(() => service?.stop());

describe('strangers of many networks', () => {
  test('have one tenant’s share of the connections together: a tenant’s call does not wait for theirs', async () => {
    const ended: string[] = [];
    const call = (from: string, tenantId: string | null = null): Promise<void> =>
      forClient(
        from,
        () => new AbortController().signal,
        null,
        async () => {
          countFor(tenantId, false);
          await service.app.db.first(sql`select 1 as one`);
          ended.push(tenantId ?? from);
        },
      );
    const strangers = Array.from({ length: 200 }, (_, i) => call(`192.0.2.${i}`));
    await Promise.all([...strangers, call('198.51.100.1', other.id)]);
    expect(ended).toHaveLength(201);
    expect(ended.indexOf(other.id)).toBeLessThan(50);
  });

  test('do not count as operators: an operator’s call does not wait behind theirs for their common share', async () => {
    const shares = [asOperator, <T>(run: () => Promise<T>) => asTenant(other.id, run)].map((as) =>
      as(async () => isStrangers(currentWork().share)),
    );
    expect(await Promise.all(shares)).toEqual([false, false]);
  });

  test('take turns by network: one with many calls does not keep another’s waiting', async () => {
    // Measured by the database's clock: on a busy machine this process may learn of a statement's end late.
    const call = (from: string): Promise<number> =>
      forClient(
        from,
        () => new AbortController().signal,
        null,
        async () => {
          const row = await service.app.db.first<{ at: number }>(
            sql`select extract(epoch from clock_timestamp())::float8 as at`,
          );
          return row?.at ?? 0;
        },
      );
    const many = Array.from({ length: 200 }, () => call('192.0.2.1'));
    const one = call('198.51.100.1');
    const [at, others] = await Promise.all([one, Promise.all(many)]);
    // Without turns, it would run after all of them.
    expect(others.filter((other) => other < at).length).toBeLessThan(100);
  });

  test('get 100 refusals that close the connection at once, then 50 a second, each within 10 s; each network has its own', () => {
    const { refusals } = LIMITS.connection;
    const paces = new SharePaces(refusals);
    const waits = Array.from({ length: 1_000 }, () => paces.take('one', 1, 0));
    expect(waits.slice(0, 100)).toEqual(Array.from({ length: 100 }, () => 0));
    expect(waits[149]).toBe(1_000);
    expect(Math.max(...waits)).toBe(10_000);
    expect(paces.take('another', 1, 0)).toBe(0);
    expect(paces.take('one', 1, 12_100)).toBeLessThan(25);
  });
});

test('a tenant opens 1,000 streams and sockets at once, and 100 a second; others do not wait for it', () => {
  const paces = new SharePaces(LIMITS.connection.openings);
  const waits = Array.from({ length: 2_000 }, () => paces.take('one', 1, 0));
  expect(waits.slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, () => 0));
  expect([waits[1_099], Math.max(...waits)]).toEqual([1_000, 5_000]);
  expect(paces.take('another', 1, 0)).toBe(0);
});
