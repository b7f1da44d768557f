// Background work of many tenants, in rounds. In each round, every tenant has a slice of time in which its items take turns. So a
// tenant with a thousand items, or with an item that never ends, delays no other tenant. Items that a slice does not reach wait for
// the next round.
// Times are milliseconds. Contract: neighbours#fair-shares.
import { forEachConcurrently } from './concurrency.ts';
import { forTenant } from './work.ts';

const SLICE_MS = 50;
/** How many tenants are served at the same time. */
const TENANTS_AT_ONCE = 4;

export interface SlicedWork<T> {
  tenantOf(item: T): string;
  /** Items are given in the order of their keys. */
  keyOf(item: T): string;
  /** Does a part of the item until `until`, by `performance.now()`, at the latest. A rejection ends the round. */
  serve(item: T, until: number): Promise<void>;
}

export class TenantSlices<T> {
  /** By tenant, the key of the item that had the last turn. */
  #latest = new Map<string, string>();

  constructor(private readonly work: SlicedWork<T>) {}

  /** Runs one round over all items. */
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

/** The items in turn: first those after the item that had the last turn, then the others. */
export function inTurn<T>(items: readonly T[], keyOf: (item: T) => string, latest = ''): T[] {
  const isAfter = (item: T): boolean => keyOf(item) > latest;
  return [...items.filter(isAfter), ...items.filter((item) => !isAfter(item))];
}
