// A short run of the fuzzer: random requests over every route, in each kind of credential.
// `./scripts/fuzz` runs longer ones. The bound of a stall is far above 50 ms, because other tests run at the same time.
// Contract: neighbours#strict-requests, neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { fuzz } from '../scripts/fuzzing/run.ts';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 800);

test('random requests get no 5xx, no undocumented response, no secret of another tenant, and stall nothing', async () => {
  const { requests, operations, statuses, findings } = await fuzz({ seed: 1, requests: REQUESTS, stallMs: 2_000 });
  expect(findings).toEqual([]);
  expect(requests).toBe(REQUESTS);
  expect(operations).toBeGreaterThan(90);
  expect(statuses[200] ?? 0).toBeGreaterThan(REQUESTS / 20);
});
