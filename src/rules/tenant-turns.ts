// Decides whose run a worker loop executes next: of the tenants with due runs, the one whose runs have taken the least time in this
// process. A tenant holds at most half of the loops, since a run cannot be interrupted for the run of another tenant. Each tenant that
// may have due runs has one ticket in the fair queue, and gets a new ticket when that one starts.
// Contract: neighbours#fair-shares.
import { FairQueue } from '../runtime/fair-queue.ts';
import type { Ticket } from '../runtime/fair-share.ts';

/** The turn of a tenant; `end` must be called once. */
export interface Turn {
  tenantId: string;
  end(): void;
}

export class TenantTurns {
  readonly #queue: FairQueue<string>;
  readonly #waiting = new Map<string, Ticket<string>>();

  /** `loops` is the number of runs at once. */
  constructor(loops: number) {
    this.#queue = new FairQueue({ slots: loops, operatorSlots: 0, shareWaitingMax: 1 });
  }

  /** Adds a tenant that may have due runs. */
  add(tenantId: string): void {
    if (this.#waiting.has(tenantId)) return;
    const ticket = this.#queue.enter(tenantId, false, tenantId);
    if (ticket !== null) this.#waiting.set(tenantId, ticket);
  }

  /** Removes a tenant that has no run to claim now. */
  remove(tenantId: string): void {
    const ticket = this.#waiting.get(tenantId);
    if (ticket === undefined) return;
    this.#waiting.delete(tenantId);
    this.#queue.end(ticket, 0);
  }

  /** Begins the next turn; undefined when no tenant may have a turn now. */
  begin(): Turn | undefined {
    const ticket = this.#queue.start();
    if (ticket === undefined) return undefined;
    const tenantId = ticket.item;
    this.#waiting.delete(tenantId);
    this.add(tenantId);
    const startedAt = performance.now();
    return { tenantId, end: () => this.#queue.end(ticket, performance.now() - startedAt) };
  }
}
