// Disables subscriptions whose receivers are gone, or have failed for days. This takes a transaction and mails for each, so the results of
// deliveries, which are stored for all tenants together, do not wait for it; tenants with many such subscriptions take turns.
// What a stopping process leaves is disabled after the subscription's next failure.
// Failures are logged. Contract: decisions#health-of-subscriptions, neighbours#fair-shares.
import type { App } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { Semaphore } from '../../runtime/concurrency.ts';
import { detached, forTenant } from '../../runtime/work.ts';
import { disableSubscription } from '../subscriptions/disable.ts';

/** Why a subscription is disabled: its last failure, or failures for this many milliseconds. */
export interface Cause {
  reason: string;
  failedForMs: number;
}

export class Disabling {
  /** How many subscriptions were disabled. */
  count = 0;
  readonly #semaphore = new Semaphore({
    slots: 2,
    operatorSlots: 0,
    shareWaitingMax: LIMITS.webhook.subscriptionsMax,
  });
  readonly #pending = new Map<string, Promise<void>>();
  #isStopping = false;

  constructor(private readonly app: App) {}

  /** Disables the subscription soon, unless that is pending already. */
  add(tenantId: string, id: string, cause: Cause): void {
    if (this.#pending.has(id) || this.#isStopping) return;
    const disabling = forTenant(tenantId, () => this.#semaphore.run(() => detached(() => this.#disable(id, cause))))
      .catch((error) => this.app.log.error('a webhook subscription was not disabled', { subscription: id, error }))
      .finally(() => this.#pending.delete(id));
    this.#pending.set(id, disabling);
  }

  /** Resolves when what has begun has ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#pending.values());
  }

  async #disable(id: string, { reason, failedForMs }: Cause): Promise<void> {
    if (!this.#isStopping && (await disableSubscription(this.app, id, reason, failedForMs))) this.count++;
  }
}
