// The subscriptions of one WebSocket, by entity. A plain subscription gets the live events after its snapshot. A subscription with a
// cursor, a condition or transitions follows the feed: live events only wake it. It ends with the token, since its selection may no
// longer be allowed: the client subscribes again, from its last cursor.
// Failures: those of a selection of changes, which the socket answers as `invalid_message`.
// Contract: interface#websocket, feed#resume, feed#filtered-subscriptions.
import { setTimeout as delay } from 'node:timers/promises';
import type { TenantCaller } from '../access/caller.ts';
import { admits, type Narrowing } from '../access/opener.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { type Following, LiveFollower } from '../changes/live-follower.ts';
import type { Entry } from '../changes/page.ts';
import { catalogOf } from '../entities/catalog.ts';
import { RECORD_EVENTS } from '../events/event.ts';
import { precedes, type StreamStart } from '../events/snapshot.ts';
import { findView } from '../views/views.ts';
import { cursorFromNow, type Followed, followOf, readFollowing } from './followed-stream.ts';
import type { Membership } from './membership.ts';
import { flat } from './projection.ts';
import { realtimeOf } from './realtime.ts';
import type { SubscribeOptions } from './websocket-protocol.ts';

/** Events of a page. */
const PAGE = 50;
/** A socket with more unsent bytes gets no further page. */
const ROOM_BYTES = 262_144;
const ROOM_CHECK_MS = 25;

interface Subscription {
  /** The snapshot: events in it preceded the subscription and are not sent. */
  since: StreamStart;
  follower?: LiveFollower;
}

/** What the subscriptions need of their socket. */
export interface SubscribedSocket {
  membership(): Membership | undefined;
  /** Answers a `subscribe`; a visible entity is then subscribed. */
  lookedUp(entity: string, isVisible: boolean): void;
  /** Bytes that are not sent yet. */
  buffered(): number;
  sendText(text: string): void;
  /** Disconnects a client that does not read. */
  cut(): void;
  /** Called when the subscription cannot continue. */
  failed(entity: string, cause: unknown): void;
}

export class SocketSubscriptions {
  #byEntity = new Map<string, Subscription>();
  /** When the client was last seen to read something. */
  #takenAt = performance.now();

  constructor(
    private readonly app: App,
    private readonly socket: SubscribedSocket,
  ) {}

  get entities(): string[] {
    return [...this.#byEntity.keys()];
  }

  get followed(): string[] {
    return [...this.#byEntity].filter(([, { follower }]) => follower !== undefined).map(([entity]) => entity);
  }

  /** Sets the subscriptions of a new membership: existing ones stay as they are; the others begin with the snapshot. */
  keep(entities: readonly string[], since: StreamStart): void {
    for (const entity of this.entities) if (!entities.includes(entity)) this.#remove(entity);
    for (const entity of entities) if (!this.#byEntity.has(entity)) this.#byEntity.set(entity, { since });
    for (const { follower } of this.#byEntity.values()) follower?.wake();
  }

  /** Ends the subscriptions of all other entities. */
  retain(entities: readonly string[]): void {
    const membership = this.socket.membership();
    for (const entity of this.entities) {
      if (entities.includes(entity)) continue;
      this.#remove(entity);
      if (membership !== undefined) realtimeOf(this.app).removeEntity(membership, entity);
    }
  }

  clear(): void {
    for (const entity of this.entities) this.#remove(entity);
  }

  accessLoaded(): void {
    for (const { follower } of this.#byEntity.values()) follower?.accessLoaded();
  }

  /** Whether to send a live event of the entity. If the subscription follows the feed, the event only wakes it. */
  admits(entity: string, event: { seq: number; xid: bigint }): boolean {
    const subscription = this.#byEntity.get(entity);
    subscription?.follower?.wake();
    return subscription !== undefined && subscription.follower === undefined && !precedes(subscription.since, event);
  }

  /** Called when live events of these entities are dropped. True when all of them follow the feed, and so read the events there. */
  catchUp(entities: readonly string[]): boolean {
    const followers = entities.map((entity) => this.#byEntity.get(entity)?.follower);
    for (const follower of followers) follower?.wake();
    return !followers.includes(undefined);
  }

  /** Answers a `subscribe`, and begins the subscription if the caller may have it. Rejects with the problems of the options. */
  async subscribe(entity: string, options: SubscribeOptions, narrowing: Narrowing): Promise<void> {
    const membership = this.socket.membership();
    const caller = await membership?.callerNow();
    // Without a caller, the socket has already been disconnected.
    if (membership === undefined || caller == null) return;
    const view = options.view ?? narrowing.follow?.view ?? null;
    const isAdmitted = admits(narrowing.entities, entity) && (await isShownTo(this.app, caller, entity, view));
    if (!isAdmitted) return this.socket.lookedUp(entity, false);
    const followed = await followedBy(this.app, caller, entity, options, narrowing);
    const isNew = !this.#byEntity.has(entity);
    const since = isNew ? await realtimeOf(this.app).addEntity(membership, entity) : null;
    const following = followed === null ? null : await this.#fromNow(membership, followed);
    // The token, or the subscription that this one should replace, has ended meanwhile.
    if (this.socket.membership() !== membership || (since === null && !this.#byEntity.has(entity))) return;
    // From here on without `await`: an event between the answer and the first read would be sent unfiltered, or missed.
    if (since !== null) this.#byEntity.set(entity, { since });
    this.socket.lookedUp(entity, true);
    if (following !== null) this.#follow(entity, membership, following, options.fields ?? null);
  }

  /** Call this once live events wake the subscription: changes that commit before its first read are then read. */
  async #fromNow({ caller }: Membership, { following }: Followed): Promise<Omit<Following, 'limit'>> {
    return { ...following, cursor: following.cursor ?? (await cursorFromNow(this.app, caller)) };
  }

  #follow(
    entity: string,
    membership: Membership,
    following: Omit<Following, 'limit'>,
    fields: ReadonlySet<string> | null,
  ): void {
    const subscription = this.#byEntity.get(entity);
    if (subscription === undefined) return;
    const current = (): Membership => this.socket.membership() ?? membership;
    subscription.follower?.stop();
    const follower = new LiveFollower(
      this.app,
      {
        caller: () => current().caller,
        callerNow: () => current().callerNow(),
        others: () => null,
        takenAt: () => this.#takenAt,
        cut: () => this.socket.cut(),
        room: () => this.#room(entity, follower),
        send: (entry, cursor) => this.socket.sendText(followedText(entry, fields, cursor)),
        failed: (cause) => this.socket.failed(entity, cause),
      },
      { ...following, limit: PAGE },
    );
    subscription.follower = follower;
    follower.wake();
  }

  #remove(entity: string): void {
    this.#byEntity.get(entity)?.follower?.stop();
    this.#byEntity.delete(entity);
  }

  async #room(entity: string, follower: LiveFollower): Promise<void> {
    let unsent = this.socket.buffered();
    while (unsent > ROOM_BYTES && this.#byEntity.get(entity)?.follower === follower) {
      await delay(ROOM_CHECK_MS);
      const before = unsent;
      unsent = this.socket.buffered();
      if (unsent < before) this.#takenAt = performance.now();
    }
  }
}

/**
 * Whether the caller may subscribe to the entity: it may read the entity, or the view that the subscription names shows it. If not, the
 * answer is the same as for an unknown entity: another one would reveal that the entity exists.
 */
async function isShownTo(app: App, caller: TenantCaller, name: string, view: string | null): Promise<boolean> {
  const entity = (await catalogOf(app, caller.tenant)).byName.get(name);
  if (entity === undefined || allows(caller.rights, 'read', name)) return entity !== undefined;
  if (view === null || !allows(caller.rights, 'read', `view:${view}`)) return false;
  return (await findView(app, caller, view))?.entity.id === entity.id;
}

/** What a `subscribe` follows; null for a plain subscription. Rejects with its problems. */
async function followedBy(
  app: App,
  caller: TenantCaller,
  entity: string,
  options: SubscribeOptions,
  { events, follow: given }: Narrowing,
): Promise<Followed | null> {
  const { follow, problems } = followOf(options, given);
  if (follow === null && options.fields === undefined) return null;
  const wanted = { entities: new Set([entity]), events: events && new Set(events), stream: { types: RECORD_EVENTS } };
  return readFollowing(app, caller, follow ?? NOTHING_MORE, wanted, problems);
}

const NOTHING_MORE = { since: null, from: null, filters: [], view: null, transitions: false };

/** The message of an event. `fields` selects, in addition to the id. */
function followedText({ event, seen }: Entry, fields: ReadonlySet<string> | null, cursor: string | null): string {
  const { type, entity, record } = seen;
  const isGone = type === 'record.left' || type === 'record.deleted' || event.erased !== undefined;
  const isWhole = record !== undefined && event.row !== null && !isGone;
  const selected = isWhole && fields !== null ? record.fields.filter(({ key }) => fields.has(key)) : record?.fields;
  const data = isWhole
    ? flat(event.row as NonNullable<typeof event.row>, { ...record, fields: selected ?? [] })
    : seen.data;
  return JSON.stringify({ type, entity, data, ...(cursor === null ? {} : { cursor }) });
}
