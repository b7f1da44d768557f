// The cache of totals: counting by one tenant does not evict the totals of another.
// Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import type { App } from '../src/app.ts';
import type { Entity } from '../src/entities/field.ts';
import { cachedTotal, cacheTotal } from '../src/records/read/total.ts';

const entityOf = (schema: string) => ({ id: `entity-of-${schema}`, version: 1, schema }) as Entity;

test('a tenant with 20,000 different conditions evicts its own totals, not those of another tenant', () => {
  const app = {} as App;
  const [quiet, busy] = [entityOf('quiet'), entityOf('busy')];
  const counters = { n: 7, v: 3 };
  cacheTotal(app, quiet, 'a condition', 5, counters);
  cacheTotal(app, quiet, 'long'.repeat(500), 6, counters);
  for (let i = 0; i < 20_000; i++) cacheTotal(app, busy, `${i}`, i, counters);
  expect(cachedTotal(app, quiet, 'a condition')).toEqual({ total: 5, writes: 3, records: 7 });
  expect(cachedTotal(app, quiet, 'long'.repeat(500))?.total).toBe(6);
  expect(cachedTotal(app, busy, '0')).toBeUndefined();
  expect(cachedTotal(app, busy, '19999')?.total).toBe(19_999);
});

test('totals of many tenants are bounded', () => {
  const app = {} as App;
  const counters = { n: 1, v: 1 };
  for (let t = 0; t < 25; t++) {
    for (let i = 0; i < 1_000; i++) cacheTotal(app, entityOf(`t${t}`), `${i}`, i, counters);
  }
  expect(cachedTotal(app, entityOf('t0'), '999')).toBeUndefined();
  expect(cachedTotal(app, entityOf('t24'), '999')?.total).toBe(999);
});
