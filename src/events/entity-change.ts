// The kind of a change and its entity: only the parts of the definition that the outputs of a change need, so that they depend
// on nothing else of it.
// Contract: decisions#events.
import type { RecordEventType } from './event.ts';

/** The parts of an entity's definition that outputs need. */
export interface PublishedEntity {
  readonly id: string;
  readonly name: string;
  readonly fields: readonly { readonly key: string; readonly slot: string }[];
  /**
   * The active webhook subscriptions by event type; the entity's own id stands for all subscriptions that judge its changes
   * first.
   */
  readonly subscribed: Readonly<Partial<Record<RecordEventType, readonly string[]>>>;
}

/** Stands for an entity's id in a webhook subscription to all entities. */
export const EVERY_ENTITY = '00000000-0000-0000-0000-000000000000';

export interface EntityChange {
  entity: PublishedEntity;
  type: RecordEventType;
}
