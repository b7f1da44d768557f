// Which subscriptions are due for a claim, and when the others will be. The cost of a call does not grow with the number of
// subscriptions: a thousand tenants may have a million. Uses no clock of its own.
// Times are milliseconds since the epoch. Contract: neighbours#fair-shares.
import { TimeHeap } from '../../runtime/time-heap.ts';

const TIMES_PER_SUBSCRIPTION = 32;

export class DueSubscriptions {
  /** Future times by subscription, ascending: an early claim does not replace a later one. */
  readonly #times = new Map<string, readonly number[]>();
  /** Each subscription of `#times`, by its first time. */
  readonly #next = new TimeHeap();
  /** Due subscriptions by tenant: first the tenant whose turn it is, and within a tenant first the one that has waited longest. */
  readonly #ready = new Map<string, Set<string>>();
  /** The tenant under which each subscription in `#ready` is listed. */
  readonly #listed = new Map<string, string>();

  /** If `tenantOf` does not know a subscription yet, the subscription has turns of its own. */
  constructor(private readonly tenantOf: (subscriptionId: string) => string | undefined) {}

  add(subscriptionId: string, atMs: number): void {
    const known = this.#times.get(subscriptionId) ?? [];
    if (known.includes(atMs)) return;
    this.#setTimes(subscriptionId, [...known, atMs].sort((a, b) => a - b).slice(0, TIMES_PER_SUBSCRIPTION));
  }

  isDue(subscriptionId: string, nowMs: number): boolean {
    if (this.#listed.has(subscriptionId)) return true;
    return (this.#times.get(subscriptionId)?.[0] ?? Number.POSITIVE_INFINITY) <= nowMs;
  }

  /** When the next subscription is due: 0 if one is due already, infinite if there is none. */
  get nextAt(): number {
    return this.#ready.size > 0 ? 0 : this.#next.firstAt;
  }

  /** Takes at most `limit` due subscriptions, from the tenants in turn. */
  take(limit: number, nowMs: number): string[] {
    while (this.#next.firstAt <= nowMs) this.#list(this.#next.first as string, nowMs);
    const taken: string[] = [];
    while (taken.length < limit && this.#ready.size > 0) {
      const [tenant, ids] = first(this.#ready);
      const id = first(ids);
      taken.push(id);
      ids.delete(id);
      this.#listed.delete(id);
      this.#ready.delete(tenant);
      if (ids.size > 0) this.#ready.set(tenant, ids);
    }
    return taken;
  }

  /** Lists the subscription among the due ones, and drops its times up to now. */
  #list(subscriptionId: string, nowMs: number): void {
    const times = this.#times.get(subscriptionId) ?? [];
    this.#setTimes(
      subscriptionId,
      times.filter((atMs) => atMs > nowMs),
    );
    if (this.#listed.has(subscriptionId)) return;
    const tenant = this.tenantOf(subscriptionId) ?? subscriptionId;
    this.#listed.set(subscriptionId, tenant);
    const listed = this.#ready.get(tenant);
    if (listed === undefined) this.#ready.set(tenant, new Set([subscriptionId]));
    else listed.add(subscriptionId);
  }

  #setTimes(subscriptionId: string, times: readonly number[]): void {
    const [earliest] = times;
    if (earliest === undefined) {
      this.#times.delete(subscriptionId);
      this.#next.delete(subscriptionId);
    } else {
      this.#times.set(subscriptionId, times);
      this.#next.set(subscriptionId, earliest);
    }
  }
}

/** The first item; there must be one. */
function first<T>(items: Iterable<T>): T {
  for (const item of items) return item;
  throw new RangeError('there is none');
}
