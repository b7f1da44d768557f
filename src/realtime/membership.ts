// A live connection, and its membership in the group of its credential. These types connect the channels (SSE, WebSocket) with the
// connections of a tenant.
// Contract: decisions#changes-of-rights.
import type { TenantCaller } from '../access/caller.ts';
import type { AccessGroup } from './access-group.ts';
import type { EventSerializer, Projection } from './projection.ts';

/** `gap`: events may have been missed. */
export type CloseReason = 'revoked' | 'gap' | 'stopping';

/** Called with the membership concerned: a connection gets a new membership with each new token. */
export interface LiveConnection {
  /** `projection` is null when the connection may see nothing of the event's entity. */
  deliver(membership: Membership, serializer: EventSerializer, projection: Projection | null): void;
  /** Sends the events that `deliver` has held, so that events that arrive together go out in one write. */
  flush?(): void;
  disconnect(membership: Membership, reason: CloseReason): void;
  accessLoaded?(): void;
  /** Called when events are dropped. Returns true when the connection reads them from the feed instead. */
  catchUp?(membership: Membership): boolean;
}

/** The live connections of a tenant, as their memberships know them. */
interface Members {
  readonly tenantId: string;
  /** Null when the group has ended. */
  currentCaller(key: string): Promise<TenantCaller | null>;
  /** Replaces the subscribed entities; false when the membership has ended. */
  setEntities(membership: Membership, entities: readonly string[]): boolean;
  /** False when it was already removed. */
  remove(membership: Membership): boolean;
}

/** A connection in the group of its credential. */
export class Membership {
  constructor(
    readonly tenant: Members,
    readonly group: AccessGroup<Membership>,
    readonly connection: LiveConnection,
    /** The subscribed entities, or ALL_ENTITIES. */
    public entities: readonly string[],
  ) {}

  get caller(): TenantCaller {
    return this.group.caller;
  }

  /** The caller with its current access; null when the membership has ended. */
  callerNow(): Promise<TenantCaller | null> {
    return this.tenant.currentCaller(this.group.source.key);
  }
}
