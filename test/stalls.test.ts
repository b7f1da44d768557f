// What the limits admit does not hold the event loop: each value, definition and request below is the worst of its kind.
// Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { measureStall } from './support/stalls.ts';

test('a stall of the event loop is measured, and an idle wait is none', async () => {
  const busy = await measureStall(() => {
    const end = performance.now() + 400;
    while (performance.now() < end);
  });
  const idle = await measureStall(() => new Promise((resolve) => setTimeout(resolve, 400)));
  // On a busy machine the loop gets part of the time.
  expect(busy.stallMs).toBeGreaterThan(100);
  expect(idle.stallMs).toBeLessThan(100);
});
