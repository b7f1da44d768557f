// The events that the relay has seen in the outbox but not relayed yet, as their numbers by tenant. Tenants take turns, so that
// a tenant's single change does not wait behind another's import. Also the relay's position, which says exactly what has been
// relayed: a new leader relays the rest of each tenant, and nothing twice.
// Contract: neighbours#fair-shares, decisions#events.
import { includes, type NumberRanges } from './number-ranges.ts';

/** The events that a leader has relayed: everything up to `readTo`, except the missing numbers and the numbers in `pending`. */
export interface RelayPosition {
  watermark: number;
  readTo: number;
  missing: NumberRanges;
  /** By tenant: its events up to `relayedTo` have been relayed, except the `late` numbers. */
  pending: Record<string, { relayedTo: number; late: number[] }>;
}

interface TenantBacklog {
  /** Ascending numbers; the numbers before index `at` have been relayed. */
  numbers: number[];
  at: number;
  relayedTo: number;
}

/** Relayed numbers are removed from the array once there are this many. */
const COMPACT_AT = 10_000;

export class Backlog {
  /** The backlogs, in the order in which the tenants are served. */
  readonly #tenants = new Map<string, TenantBacklog>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The lowest waiting number; null when none waits. */
  oldest(): number | null {
    let oldest = Number.POSITIVE_INFINITY;
    for (const { numbers, at } of this.#tenants.values()) oldest = Math.min(oldest, numbers[at] ?? oldest);
    return oldest === Number.POSITIVE_INFINITY ? null : oldest;
  }

  has(tenantId: string): boolean {
    return this.#tenants.has(tenantId);
  }

  /** Adds ascending numbers of a tenant. A tenant without waiting numbers starts as relayed up to `relayedTo`. */
  add(tenantId: string, added: readonly number[], relayedTo: number): void {
    const [first] = added;
    if (first === undefined) return;
    const tenant = this.#tenants.get(tenantId) ?? { numbers: [], at: 0, relayedTo };
    this.#tenants.set(tenantId, tenant);
    this.#size += added.length;
    const { numbers, at } = tenant;
    // Transactions that committed late have lower numbers than some that already wait.
    let end = numbers.length;
    while (end > at && (numbers[end - 1] as number) > first) end--;
    const later = numbers.splice(end);
    const merged = later.length === 0 ? added : [...added, ...later].sort((a, b) => a - b);
    for (const seq of merged) numbers.push(seq);
  }

  /** The numbers to relay next: up to `perTurn` of each tenant in turn, until there are `max`. */
  next(max: number, perTurn: number, turns: number): Map<string, number[]> {
    const taken = new Map<string, number[]>();
    let left = max;
    for (let turn = 0; turn < turns && left > 0; turn++) {
      const before = left;
      for (const [tenantId, { numbers, at }] of this.#tenants) {
        const from = at + turn * perTurn;
        const part = numbers.slice(from, from + Math.min(perTurn, left));
        if (part.length === 0) continue;
        left -= part.length;
        const known = taken.get(tenantId);
        if (known === undefined) taken.set(tenantId, part);
        else known.push(...part);
        if (left === 0) break;
      }
      if (left === before) break;
    }
    return taken;
  }

  /** The tenant's next numbers, which `next` returned, have been relayed. The tenant goes behind the others. */
  relayed(tenantId: string, count: number): void {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) return;
    this.#size -= count;
    tenant.at += count;
    tenant.relayedTo = Math.max(tenant.relayedTo, tenant.numbers[tenant.at - 1] ?? 0);
    this.#tenants.delete(tenantId);
    if (tenant.at === tenant.numbers.length) return;
    if (tenant.at > COMPACT_AT) {
      tenant.numbers.splice(0, tenant.at);
      tenant.at = 0;
    }
    this.#tenants.set(tenantId, tenant);
  }

  /** Forgets the tenant with the most events. Returns its id. */
  dropLargest(): string | undefined {
    let largest: string | undefined;
    let most = 0;
    for (const [tenantId, { numbers, at }] of this.#tenants) {
      if (numbers.length - at <= most) continue;
      most = numbers.length - at;
      largest = tenantId;
    }
    if (largest !== undefined) this.#tenants.delete(largest);
    this.#size -= most;
    return largest;
  }

  clear(): void {
    this.#tenants.clear();
    this.#size = 0;
  }

  /** The position of a leader that has read up to `readTo`, where the `missing` numbers were uncommitted. */
  position(readTo: number, missing: NumberRanges): RelayPosition {
    const pending: RelayPosition['pending'] = {};
    let watermark = readTo;
    for (const [tenantId, { numbers, at, relayedTo }] of this.#tenants) {
      const late: number[] = [];
      for (let i = at; i < numbers.length && (numbers[i] as number) <= relayedTo; i++) late.push(numbers[i] as number);
      pending[tenantId] = { relayedTo, late };
      watermark = Math.min(watermark, (numbers[at] as number) - 1);
    }
    return { watermark: Math.min(watermark, (missing[0]?.[0] ?? readTo + 1) - 1), readTo, missing, pending };
  }
}

/** Whether a leader with this position has relayed the tenant's number. */
export function isRelayed({ readTo, missing, pending }: RelayPosition, tenantId: string, seq: number): boolean {
  if (seq > readTo || includes(missing, seq)) return false;
  const tenant = pending[tenantId];
  return tenant === undefined || (seq <= tenant.relayedTo && !tenant.late.includes(seq));
}
