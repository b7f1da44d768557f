// Deliveries that leave without being claimed: this process takes places for them before a record is
// created, and sends them once it is. A subscription has one for them only while nothing else of it is on
// its way or waits, a tenant and the process half of what they may have on their way.
// Contract: decisions#deliveries.
import type { App } from '../app.ts';
import type { RecordEventType } from '../events/event.ts';
import { LIMITS } from '../limits.ts';
import type { Born, Occurrence, Places } from '../records/write/inline-delivery.ts';
import { newId } from '../runtime/ids.ts';
import { type ClaimedDelivery, leaseMsOf } from './dispatch/claim.ts';
import type { Schedule } from './dispatch/schedule.ts';
import type { InFlightWindows } from './dispatch/window.ts';
import { payloadOf } from './transport/payload.ts';

const half = (limit: number): number => Math.floor(limit / 2);

export class Direct {
  /** Places taken, by tenant. */
  readonly #taken = new Map<string, number>();
  #count = 0;

  constructor(
    private readonly app: App,
    private readonly schedule: Schedule,
    private readonly pace: InFlightWindows,
    private readonly send: (delivery: ClaimedDelivery) => void,
  ) {}

  /** Takes places for the subscriptions that are known to ask for the event, as far as there are any. */
  take(tenantId: string, entityId: string, type: RecordEventType): Places | undefined {
    const now = Date.now();
    const room = half(LIMITS.webhook.perProcess) - this.#count;
    const left = Math.min(room, half(LIMITS.webhook.perTenant) - (this.#taken.get(tenantId) ?? 0));
    const held: string[] = [];
    for (const id of this.schedule.idleFor(tenantId, entityId, type, now)) {
      if (held.length < left && this.pace.reserve(id, now)) held.push(id);
    }
    if (held.length === 0) return undefined;
    this.#add(tenantId, held.length);
    return this.#places(tenantId, held);
  }

  /** One that was sent has ended. */
  ended({ tenantId, isDirect }: ClaimedDelivery): void {
    if (isDirect) this.#add(tenantId, -1);
  }

  #places(tenantId: string, held: readonly string[]): Places {
    const share = { claimId: newId(), leaseMs: leaseMsOf(this.app), subscriptionIds: held };
    const unused = new Set(held);
    const giveBack = (): void => {
      this.#add(tenantId, -unused.size);
      for (const id of unused) if (this.pace.finished(id, false)) this.schedule.add(id, Date.now());
      unused.clear();
    };
    const settle = (occurrence: Occurrence, born: readonly Born[]): void => {
      const body = payloadOf({ ...occurrence, tenantId }, occurrence.entity);
      for (const each of born) {
        if (!each.isClaimed) {
          this.schedule.add(each.subscriptionId, Date.now());
          continue;
        }
        unused.delete(each.subscriptionId);
        this.send(claimedFrom(each, share.claimId, tenantId, occurrence, body));
      }
      giveBack();
    };
    return { share, settle, giveBack };
  }

  #add(tenantId: string, count: number): void {
    this.#count += count;
    const taken = (this.#taken.get(tenantId) ?? 0) + count;
    if (taken === 0) this.#taken.delete(tenantId);
    else this.#taken.set(tenantId, taken);
  }
}

function claimedFrom(
  { id, subscriptionId, url, secret }: Born,
  claimId: string,
  tenantId: string,
  { eventId, type }: Occurrence,
  body: string,
): ClaimedDelivery {
  const attempts = { attempts: 0, attemptsSinceReset: 0 };
  return {
    id,
    claimId,
    subscriptionId,
    tenantId,
    eventId,
    type,
    ...attempts,
    body,
    url: url ?? '',
    secret,
    isBodyStored: false,
    isDirect: true,
  };
}
