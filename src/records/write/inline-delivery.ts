// Webhook deliveries that need no claim: those of a new record, which nothing of its own can be before. Who creates
// one takes places for them first; they are born claimed, and leave as soon as the change is committed. What there
// is no place for waits to be claimed, like the deliveries of any other change.
// Contract: decisions#events.
import { type App, perApp } from '../../app.ts';
import type { Entity } from '../../entities/field.ts';
import type { EventRow, RecordEventType } from '../../events/event.ts';
import type { Share } from '../../events/outbox.ts';

/** A delivery as it was born; `url` and `secret` are the subscription's for those in the share, else null. */
export interface Born {
  id: string;
  subscriptionId: string;
  isClaimed: boolean;
  url: string | null;
  secret: string | null;
}

/** A new record, as its event has it. */
export interface Occurrence {
  eventId: string;
  /** ISO 8601. */
  at: string;
  type: RecordEventType;
  entity: Entity;
  row: EventRow;
}

/** Places taken for one change: settled once it is committed, or else given back. */
export interface Places {
  readonly share: Share;
  /** Sees to all the deliveries: those in the share leave, the others are looked at soon. */
  settle(occurrence: Occurrence, born: readonly Born[]): void;
  /** To be called in any case; does nothing after `settle`. */
  giveBack(): void;
}

/** Takes what places there are for an event of this type; undefined when there are none. */
export type Taker = (tenantId: string, entityId: string, type: RecordEventType) => Places | undefined;

const takerOf = perApp((): Taker => () => undefined);

/** Says who has places to give in this process. */
export function usePlaces(app: App, taker: Taker): void {
  takerOf.set(app, taker);
}

export function takePlaces(app: App, tenantId: string, entity: Entity, type: RecordEventType): Places | undefined {
  return entity.subscribed[type] !== undefined ? takerOf(app)(tenantId, entity.id, type) : undefined;
}
