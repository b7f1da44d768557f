// The pace of attempts at receivers that fail, while other tenants are active.
// Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { FailingReceivers } from '../src/webhooks/dispatch/failing-receivers.ts';

const RECEIVERS = Array.from({ length: 100 }, (_, at) => ({ subscriptionId: `failing ${at}`, tenantId: 'a' }));
const NOW = 1_000_000;

/** How many attempts fail in ten seconds when each receiver is tried again as soon as possible. */
function failedIn10Seconds(receivers: FailingReceivers): number {
  let failed = 0;
  for (let now = NOW; now < NOW + 10_000; now += 5) {
    for (const receiver of RECEIVERS) {
      if (receivers.nextClaimAt(receiver.subscriptionId, now) > now) continue;
      receivers.answered(receiver, false, now);
      failed++;
    }
  }
  return failed;
}

test('a tenant’s attempts at failing receivers are at most 500 at once and 100 a second while others are active', () => {
  const failed = failedIn10Seconds(new FailingReceivers(() => true));
  expect(failed).toBeGreaterThan(1_400);
  // Attempts that are due at the same time run together.
  expect(failed).toBeLessThanOrEqual(500 + 10 * 100 + RECEIVERS.length);
});

test('while no other tenant is active, failing receivers are tried at full speed', () => {
  expect(failedIn10Seconds(new FailingReceivers(() => false))).toBe(2_000 * RECEIVERS.length);
});

test('neither a working receiver nor another tenant’s failing one has to wait', () => {
  const receivers = new FailingReceivers(() => true);
  const failing = { subscriptionId: 'failing', tenantId: 'a' };
  for (let failed = 0; failed <= 500; failed++) receivers.answered(failing, false, NOW);
  expect(receivers.nextClaimAt('failing', NOW)).toBeGreaterThan(NOW);
  expect(receivers.nextClaimAt('working', NOW)).toBe(NOW);
  receivers.answered({ subscriptionId: 'of another', tenantId: 'b' }, false, NOW);
  expect(receivers.nextClaimAt('of another', NOW)).toBe(NOW);
  receivers.answered(failing, true, NOW);
  expect(receivers.nextClaimAt('failing', NOW)).toBe(NOW);
});
