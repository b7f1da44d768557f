// The live connections of one tenant in this process. They are indexed by entity, so an event costs nothing for connections that do not
// subscribe to its entity. They are grouped by credential, so access is loaded, and an event projected, once per group. Before an event is
// delivered, access that may have changed is loaded again.
// Failures: a group whose access is revoked, or cannot be loaded for some seconds, is disconnected.
// Contract: decisions#changes-of-rights, decisions#sse, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { type Catalog, catalogOf, forgetCatalog, isOlderThan } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { ServiceError } from '../errors.ts';
import type { CommittedEvent } from '../events/event.ts';
import { ALL_ENTITIES } from '../events/stream-subscriptions.ts';
import type { Subscriber } from '../events/tenant-stream.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { keepGarbageSmall } from '../runtime/garbage.ts';
import { forTenant } from '../runtime/work.ts';
import { isDeleted } from '../tenants/tenants.ts';
import { AccessGroup, type AccessSource } from './access-group.ts';
import { type CloseReason, type LiveConnection, Membership } from './membership.ts';
import { EventSerializer } from './projection.ts';
import { byProjection, inAnyOrder, MembersByEntity } from './recipients.ts';
import { WaitingBytes } from './waiting-bytes.ts';

/** How many events may wait for access or a catalog; if there are more, they are dropped. */
const QUEUE_MAX = 5_000;
/** Events with longer JSON are serialized for one projection, and given to all who see that, before the next projection. */
const LARGE = 16_384;
/** After this many bytes, connections must have room for more: a large event takes its bytes again for each projection. */
const BETWEEN_CHECKS = 262_144;
/** Events delivered without yielding to the connections' writes. */
const BATCH_SIZE = 50;
/** The pause after a batch, per recipient, and its maximum: as long as writing takes. Events that arrive meanwhile go out together. */
const PAUSE_PER_RECIPIENT_MS = 0.02;
const PAUSE_MAX_MS = 20;

export class TenantConnections implements Subscriber {
  readonly #groups = new Map<string, AccessGroup<Membership>>();
  readonly #byEntity = new MembersByEntity();
  readonly #stale = new Set<AccessGroup<Membership>>();
  /** Waiting events, with the approximate length of their JSON. */
  #queue: { event: CommittedEvent; length: number }[] = [];
  /** The length of the queued events' JSON. */
  #queuedLength = 0;
  #draining: Promise<void> | undefined;
  /** The connections that may hold events to send. */
  readonly #delivered = new Set<LiveConnection>();
  #refreshing: Promise<void> | undefined;
  #nextBatchAt = Number.NEGATIVE_INFINITY;
  /** Bytes handed to connections since they were last seen to have room. */
  #unchecked = 0;

  constructor(
    private readonly app: App,
    readonly tenantId: string,
    private readonly waiting = new WaitingBytes(),
  ) {}

  get isEmpty(): boolean {
    return this.#groups.size === 0;
  }

  add(source: AccessSource, caller: TenantCaller, connection: LiveConnection, entities: readonly string[]): Membership {
    const group = this.#groups.get(source.key) ?? new AccessGroup<Membership>(source, caller);
    this.#groups.set(source.key, group);
    const membership = new Membership(this, group, connection, entities);
    group.members.add(membership);
    this.#byEntity.add(membership);
    return membership;
  }

  /** The current access of the group with this key; null without such a group. */
  async currentCaller(key: string): Promise<TenantCaller | null> {
    const group = this.#groups.get(key);
    if (group !== undefined && this.#stale.has(group)) await this.#refresh(group);
    return this.#groups.get(key)?.caller ?? null;
  }

  /** Replaces the subscribed entities; false when the membership has ended. */
  setEntities(membership: Membership, entities: readonly string[]): boolean {
    const { group } = membership;
    if (!group.members.has(membership) || !this.#isOpen(group)) return false;
    this.#byEntity.remove(membership);
    membership.entities = entities;
    this.#byEntity.add(membership);
    return true;
  }

  /** False when it was already removed. */
  remove(membership: Membership): boolean {
    const { group } = membership;
    if (!group.members.delete(membership)) return false;
    this.#byEntity.remove(membership);
    if (group.members.size === 0) this.#removeGroup(group);
    return true;
  }

  event(event: CommittedEvent, length: number): void {
    if (!this.#hasRecipients(event)) return;
    this.#queuedLength += length;
    const isTooMuch = this.#queuedLength > LIMITS.events.waitingBytes && length < this.#queuedLength;
    if (this.#queue.push({ event, length }) > QUEUE_MAX || isTooMuch) this.#drop();
    else this.#draining ??= forTenant(this.tenantId, () => this.#drain());
  }

  /** Resolves when all events have been handed to the connections. */
  async drained(): Promise<void> {
    await this.#draining;
  }

  gap(): void {
    this.closeAll('gap');
  }

  /** Drops the waiting events. Connections that read the feed continue with it; the others are closed. */
  #drop(): void {
    this.#queue = [];
    this.#queuedLength = 0;
    for (const member of [...this.#groups.values()].flatMap(({ members }) => [...members])) {
      if (member.connection.catchUp?.(member) === true) continue;
      this.#byEntity.remove(member);
      member.connection.disconnect(member, 'gap');
    }
  }

  closeAll(reason: CloseReason): void {
    this.#queue = [];
    this.#queuedLength = 0;
    for (const group of [...this.#groups.values()]) this.#close(group, reason);
  }

  /** Notes that access may have changed, to load it again before the next event. See `AccessGroup.invalidate`. */
  invalidateAccess(isAnnounced: boolean): void {
    for (const group of this.#groups.values()) {
      group.invalidate(isAnnounced);
      if (group.isStale) this.#stale.add(group);
    }
    // Many changes may be announced at once, such as those of all keys of an API.
    if (this.#stale.size > 0) this.#refreshing ??= this.#refreshAll();
  }

  /** Events without an entity go to all connections. */
  *#recipientsOf({ entity }: CommittedEvent): Iterable<ReadonlySet<Membership>> {
    if (entity === null) for (const { members } of this.#groups.values()) yield members;
    else {
      yield this.#byEntity.of(entity);
      yield this.#byEntity.of(ALL_ENTITIES);
    }
  }

  #hasRecipients(event: CommittedEvent): boolean {
    return [...this.#recipientsOf(event)].some(({ size }) => size > 0);
  }

  async #drain(): Promise<void> {
    try {
      // Events of the same turn are delivered together.
      await Promise.resolve();
      while (this.#queue.length > 0) {
        const isBehind = this.#queue.length >= BATCH_SIZE;
        const pauseMs = isBehind ? 0 : this.#nextBatchAt - performance.now();
        if (isBehind || pauseMs > 1) await new Promise((resolve) => setTimeout(resolve, pauseMs));
        const startedAt = performance.now();
        const recipients = await this.#deliverBatch();
        this.#nextBatchAt = startedAt + Math.min(recipients * PAUSE_PER_RECIPIENT_MS, PAUSE_MAX_MS);
      }
    } catch (cause) {
      void this.#report('events could not be delivered to streams', cause);
      this.gap();
    } finally {
      this.#draining = undefined;
    }
  }

  /** Delivers a batch. Resolves to the largest number of recipients of an event. */
  async #deliverBatch(): Promise<number> {
    let recipients = 0;
    for (let i = 0; i < BATCH_SIZE; i++) {
      const next = this.#queue.shift();
      if (next === undefined) break;
      this.#queuedLength -= next.length;
      const isLarge = next.length >= LARGE;
      const collected = isLarge ? keepGarbageSmall() : undefined;
      recipients = Math.max(recipients, await this.#deliver(next.event, isLarge).finally(collected));
      if (isLarge) await this.#flush();
    }
    await this.#flush();
    return recipients;
  }

  async #flush(): Promise<void> {
    for (const connection of this.#delivered) {
      const turn = giveWay();
      if (turn !== undefined) await turn;
      connection.flush?.();
    }
    this.#delivered.clear();
  }

  async #makeRoom(): Promise<void> {
    this.#unchecked = 0;
    await this.#flush();
    await this.waiting.makeRoom();
    await giveWay();
  }

  /** Delivers an event, yields to the event loop between connections, and reloads changed access. Resolves to the number of recipients. */
  async #deliver(event: CommittedEvent, isLarge: boolean): Promise<number> {
    let current = await this.#current(event);
    if (current === null) return 0;
    const serializer = new EventSerializer(event, current.catalog, current.slug, isLarge);
    const all = (): Iterable<ReadonlySet<Membership>> => this.#recipientsOf(event);
    let recipients = 0;
    for (const member of isLarge ? byProjection(all, current.entity) : inAnyOrder(all())) {
      recipients += 1;
      const turn = this.#unchecked >= BETWEEN_CHECKS ? this.#makeRoom() : giveWay();
      if (turn !== undefined) {
        await turn;
        if (this.#stale.size > 0) current = await this.#current(event);
        if (current === null) return recipients;
      }
      if (!member.group.members.has(member) || !this.#isOpen(member.group)) continue;
      const { entity } = current;
      const projection = entity === undefined ? null : member.group.projectionOf(entity);
      member.connection.deliver(member, serializer, projection);
      this.#unchecked += serializer.takeMade();
      if (member.connection.flush !== undefined) this.#delivered.add(member.connection);
    }
    return recipients;
  }

  /** The event's entity and the tenant's slug, with all access loaded; null without connections. */
  async #current(
    event: CommittedEvent,
  ): Promise<{ catalog: Catalog; entity: Entity | undefined; slug: string } | null> {
    if (this.#stale.size > 0) await this.#refreshStale();
    const [first] = this.#groups.values();
    if (first === undefined) return null;
    const { tenant } = first.caller;
    let catalog = await catalogOf(this.app, tenant);
    if (event.entityId !== null && isOlderThan(catalog, event.entityId, event.row ?? { data: {} })) {
      // Another process has just created or deleted the entity, or added a field.
      forgetCatalog(this.app, tenant);
      catalog = await catalogOf(this.app, tenant);
    }
    return { catalog, entity: entityIn(catalog, event), slug: tenant.slug };
  }

  async #refreshAll(): Promise<void> {
    try {
      while (this.#stale.size > 0) await this.#refreshStale();
    } catch (cause) {
      void this.#report('cannot refresh the access of streams', cause);
      this.gap();
    }
    this.#refreshing = undefined;
  }

  async #refreshStale(): Promise<void> {
    await Promise.all([...this.#stale].map((group) => this.#refresh(group)));
  }

  async #refresh(group: AccessGroup<Membership>): Promise<void> {
    try {
      while (group.isStale) await group.refresh();
      this.#stale.delete(group);
    } catch (cause) {
      if (!(cause instanceof ServiceError)) void this.#report('cannot load the access of a stream', cause);
      const isRevoked = cause instanceof ServiceError && (cause.status === 401 || cause.status === 403);
      this.#close(group, isRevoked ? 'revoked' : 'gap');
    }
  }

  readonly #report = async (failure: string, cause: unknown): Promise<void> =>
    (await isDeleted(this.app, this.tenantId)) ? undefined : this.app.log.error(failure, { cause });

  #isOpen(group: AccessGroup<Membership>): boolean {
    return this.#groups.get(group.source.key) === group;
  }

  /** The connections still remove their memberships themselves. */
  #close(group: AccessGroup<Membership>, reason: CloseReason): void {
    if (!this.#isOpen(group)) return;
    this.#removeGroup(group);
    for (const member of [...group.members]) {
      this.#byEntity.remove(member);
      member.connection.disconnect(member, reason);
    }
  }

  #removeGroup(group: AccessGroup<Membership>): void {
    this.#stale.delete(group);
    if (this.#isOpen(group)) this.#groups.delete(group.source.key);
  }
}

function entityIn({ byId }: Catalog, { entityId }: CommittedEvent): Entity | undefined {
  return byId.get(entityId ?? '');
}
