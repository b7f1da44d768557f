// A short run of the fuzzer: random requests over every route, in each kind of credential.
// `./scripts/fuzz` runs longer ones. The bound of a stall is far above 50 ms, because other tests run at the same time.
// Contract: neighbours#strict-requests, neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { fuzz } from '../scripts/fuzzing/run.ts';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 300);

test('random requests get no 5xx, no undocumented response, no secret that the caller may not see, and stall nothing', async () => {
  const { requests, coverage, statuses, findings } = await fuzz({ seed: 1, requests: REQUESTS, stallMs: 2_000 });
  expect(findings).toEqual([]);
  expect(requests).toBe(REQUESTS);
  // Of the pairs of an operation and a kind of credential that may call it; it grows with the number of requests.
  expect(coverage.allowed).toBeGreaterThan(900);
  expect(coverage.reached).toBeGreaterThan(REQUESTS / 8);
  expect(statuses[200] ?? 0).toBeGreaterThan(REQUESTS / 5);
});
