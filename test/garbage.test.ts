// The collection of garbage while calls move large records: it does not go on stopping the event loop for long.
// Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { collectsGarbage, keepGarbageSmall } from '../src/runtime/garbage.ts';

const MIB = 1_048_576;
const LONG_MS = 60;

test('once a collection has stopped the event loop for long, garbage is collected beside it', async () => {
  const collections: string[] = [];
  collectsGarbage((which) => {
    if (which !== 'new') collections.push(which);
    if (which === 'all') Bun.sleepSync(LONG_MS);
  });
  const end = keepGarbageSmall();
  const held: Buffer[] = [];
  while (collections.length < 3) {
    held.push(Buffer.alloc(4 * MIB, 1));
    await Bun.sleep(10);
  }
  end();
  expect(collections).toEqual(['all', 'all-beside', 'all-beside']);
});
