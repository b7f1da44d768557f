// A rolling restart under write load, as in a deployment: see test/support/rolling.ts.
// Contract: decisions#shutdown, decisions#events.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { type SharedStores, sharedStores } from './support/processes.ts';
import { rollingRestart } from './support/rolling.ts';
import { endAll } from './support/started.ts';

let stores: SharedStores;
beforeAll(async () => {
  stores = await sharedStores();
});
afterAll(async () => {
  await endAll();
  await stores.remove();
});

test('a rolling restart under write load fails no request of a client that reconnects, and loses no event', async () => {
  const { environment, redisUrl } = stores;
  // Without Redis there is one process, so its streams end during the restart.
  const processes = redisUrl === undefined ? 1 : 2;
  const ledger = await rollingRestart({ environment, processes, rounds: 1, writers: 3, steadyMs: 250 });
  expect(ledger.acknowledged).toBeGreaterThan(0);
  expect(ledger).toMatchObject({ restarts: processes, failed: [], lost: 0, streamedTwice: 0 });
  expect(ledger.exitCodes).toEqual(Array(2 * processes).fill(0));
  if (processes === 2) expect(ledger.unstreamed).toBe(0);
});
