// Background work of many tenants in rounds: in each, every tenant has a slice of time, in which what it has to do takes turns, so
// that a tenant with a thousand things to do, or one without end, delays no other. What a slice leaves is for the next round.
// Times are milliseconds. Contract: neighbours#fair-shares.
import { forEachConcurrently } from './concurrency.ts';
import { forTenant } from './work.ts';

const SLICE_MS = 50;
/** Of how many tenants the slices overlap. */
const TENANTS_AT_ONCE = 4;

export interface SlicedWork<T> {
  tenantOf(item: T): string;
  /** Items are given in the order of their keys. */
  keyOf(item: T): string;
  /** Does a part of it; it may go on until `until`, by `performance.now()`. A rejection ends the round. */
  serve(item: T, until: number): Promise<void>;
}

export class TenantSlices<T> {
  /** By tenant, the key of the item that had the last turn. */
  #latest = new Map<string, string>();

  constructor(private readonly work: SlicedWork<T>) {}

  /** One round of all that is to be done. */
  async serve(items: readonly T[]): Promise<void> {
    const before = this.#latest;
    this.#latest = new Map();
    await forEachConcurrently([...Map.groupBy(items, this.work.tenantOf)], TENANTS_AT_ONCE, ([tenantId, own]) =>
      forTenant(tenantId, () => this.#serveTenant(tenantId, inTurn(own, this.work.keyOf, before.get(tenantId)))),
    );
  }

  async #serveTenant(tenantId: string, items: readonly T[]): Promise<void> {
    const until = performance.now() + SLICE_MS;
    for (const item of items) {
      this.#latest.set(tenantId, this.work.keyOf(item));
      await this.work.serve(item, until);
      if (performance.now() > until) return;
    }
  }
}

/** Those after the one that had the last turn first, and then the others. */
export function inTurn<T>(items: readonly T[], keyOf: (item: T) => string, latest = ''): T[] {
  const isAfter = (item: T): boolean => keyOf(item) > latest;
  return [...items.filter(isAfter), ...items.filter((item) => !isAfter(item))];
}
