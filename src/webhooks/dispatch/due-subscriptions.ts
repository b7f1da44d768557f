// Which subscriptions are due for a claim, and which will be and when. What one call costs does not grow with the number of
// subscriptions, of which a thousand tenants may have a million. Without a clock of its own.
// Times are milliseconds since the epoch. Contract: neighbours#fair-shares.
import { TimeHeap } from '../../runtime/time-heap.ts';

const TIMES_PER_SUBSCRIPTION = 32;

export class DueSubscriptions {
  /** Times to come by subscription, ascending: an early claim does not replace a later one. */
  readonly #times = new Map<string, readonly number[]>();
  /** Each subscription of `#times` by the first of them. */
  readonly #next = new TimeHeap();
  /** Those whose time has come, by tenant: the tenant whose turn it is first, and the longest waiting first. */
  readonly #ready = new Map<string, Set<string>>();
  /** The tenants that those in `#ready` are listed under. */
  readonly #listed = new Map<string, string>();

  /** `tenantOf` may not know a subscription yet; it then has turns of its own. */
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

  /** When the next one is due: 0 when one is already, infinite when there is none. */
  get nextAt(): number {
    return this.#ready.size > 0 ? 0 : this.#next.firstAt;
  }

  /** Takes at most `limit` that are due, of each tenant in turn. */
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

  /** Its times until now become a place among those that are due. */
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

/** The first of some. */
function first<T>(items: Iterable<T>): T {
  for (const item of items) return item;
  throw new RangeError('there is none');
}
