// Garbage collection while calls move large records: it does not keep stopping the event loop for long.
// Contract: neighbours#fair-shares.
import { beforeAll, expect, test } from 'bun:test';
import { SmallGarbage } from '../src/runtime/garbage.ts';
import { areOthersActive, currentWork, forTenant } from '../src/runtime/work.ts';
import { asTenant } from './support/work.ts';

const MIB = 1_048_576;
const LONG_MS = 60;

/** Uses the CPU for this long. */
function work(ms: number): void {
  const startedAt = process.threadCpuUsage().user;
  while (process.threadCpuUsage().user - startedAt < ms * 1_000);
}

// Tenants of tests before, in the same process.
beforeAll(async () => {
  while (areOthersActive(currentWork().share)) await Bun.sleep(20);
});

test('a collection that only waited for a core is no reason to collect beside the event loop', async () => {
  const collections: string[] = [];
  const garbage = new SmallGarbage((which) => {
    if (which !== 'new') collections.push(which);
    if (which === 'all') Bun.sleepSync(LONG_MS);
  });
  const end = garbage.keep();
  const held: Buffer[] = [];
  while (collections.length < 2) {
    held.push(Buffer.alloc(4 * MIB, 1));
    await Bun.sleep(10);
  }
  end();
  expect(collections).toEqual(['all', 'all']);
});

test('once two collections in a row have stopped the event loop for long, garbage is collected beside it', async () => {
  const collections: string[] = [];
  const garbage = new SmallGarbage((which) => {
    if (which !== 'new') collections.push(which);
    if (which === 'all') work(LONG_MS);
  });
  const end = garbage.keep();
  const held: Buffer[] = [];
  while (collections.length < 4) {
    held.push(Buffer.alloc(4 * MIB, 1));
    await Bun.sleep(10);
  }
  end();
  expect(collections).toEqual(['all', 'all', 'all-beside', 'all-beside']);
});

test('while another tenant is active, nothing is collected that would stop the event loop', async () => {
  const collections: string[] = [];
  const garbage = new SmallGarbage((which) => collections.push(which));
  const anotherCalls = () => asTenant('another', async () => undefined);
  await anotherCalls();
  const end = forTenant('large', () => garbage.keep());
  const held: Buffer[] = [];
  while (collections.length < 1) {
    await anotherCalls();
    held.push(Buffer.alloc(4 * MIB, 1));
    await Bun.sleep(10);
  }
  end();
  expect(collections).toEqual(['all-beside']);
  expect(held.length * 4).toBeGreaterThan(100);
});
