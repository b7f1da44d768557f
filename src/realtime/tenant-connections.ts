// The listeners of one tenant in this process: by entity, so that an event costs nothing for those who do not
// listen to it, and grouped by credential, so that rights are looked up and views made once for each group. Rights
// are looked up again whenever something they rest on changes, before the next event is handed on, and once a
// second besides; who has lost them is cut off.
// Failures: when a group's rights cannot be told, its connections are ended. Contract: decisions#changes-of-rights,
// decisions#sse, decisions#websocket.
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { type Catalog, catalogOf, forgetCatalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { ServiceError } from '../errors.ts';
import type { CommittedEvent } from '../events/event.ts';
import type { Subscriber } from '../events/hub.ts';
import { ALL_ENTITIES } from '../events/stream-subscriptions.ts';
import { AccessGroup, type AccessSource } from './access-group.ts';
import { EventSerializer, type Projection } from './projection.ts';

/** Why connections are ended: rights are gone, or events may have been missed. */
export type CloseReason = 'refused' | 'lost' | 'stopping';

/** One connection. It is told which of its seats it is called for: with a new token it takes a new one. */
export interface LiveConnection {
  /** `view` is the listener's view of the event's entity; null where it gets nothing of it. */
  deliver(seat: Membership, event: CommittedEvent, rendering: EventSerializer, view: Projection | null): void;
  disconnect(seat: Membership, reason: CloseReason): void;
}

/** A listener's place in the audience, for one credential. */
export class Membership {
  constructor(
    readonly tenant: TenantConnections,
    readonly group: AccessGroup<Membership>,
    readonly connection: LiveConnection,
    /** The entities it listens to; see EVERYTHING. */
    public entities: readonly string[],
  ) {}

  get caller(): TenantCaller {
    return this.group.caller;
  }
}

/** Events waiting while rights or definitions are being looked up; past that, connections are ended. */
const QUEUE_MAX = 5_000;
/** Events handed on in one turn, so that connections can write in between. */
const BATCH_SIZE = 50;
/**
 * The time between two turns, for each listener of the last and in all: about what writing to all of them takes. Events
 * that come meanwhile go out together, which costs little more than one of them alone.
 */
const BATCH_INTERVAL_MS = 0.02;
const BATCH_INTERVAL_MAX_MS = 20;
const NO_MEMBERS: ReadonlySet<Membership> = new Set();

export class TenantConnections implements Subscriber {
  readonly #groups = new Map<string, AccessGroup<Membership>>();
  /** Who listens to each entity, and to everything. */
  readonly #byEntity = new Map<string, Set<Membership>>();
  /** Groups whose rights are to be looked up. */
  readonly #stale = new Set<AccessGroup<Membership>>();
  #queue: CommittedEvent[] = [];
  #isDraining = false;
  #nextBatchAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly app: App,
    readonly tenantId: string,
  ) {}

  get isEmpty(): boolean {
    return this.#groups.size === 0;
  }

  /** Seats a listener, which listens to these entities from now on. */
  add(ticket: AccessSource, caller: TenantCaller, listener: LiveConnection, entities: readonly string[]): Membership {
    const group = this.#groups.get(ticket.key) ?? new AccessGroup<Membership>(ticket, caller);
    this.#groups.set(ticket.key, group);
    const seat = new Membership(this, group, listener, entities);
    group.members.add(seat);
    this.#index(seat);
    return seat;
  }

  /** The rights of those who are seated with this key; null when nobody is. */
  async currentCaller(key: string): Promise<TenantCaller | null> {
    const group = this.#groups.get(key);
    if (group !== undefined && this.#stale.has(group)) await this.#refresh(group);
    return this.#groups.get(key)?.caller ?? null;
  }

  /** What a seat listens to from now on, instead of what it did; false when it is not there any more. */
  setEntities(seat: Membership, entities: readonly string[]): boolean {
    if (!this.#isMember(seat)) return false;
    this.#unindex(seat);
    seat.entities = entities;
    this.#index(seat);
    return true;
  }

  /** False when it was not there any more. */
  remove(seat: Membership): boolean {
    const { group } = seat;
    if (!group.members.delete(seat)) return false;
    this.#unindex(seat);
    if (group.members.size === 0) this.#removeGroup(group);
    return true;
  }

  event(event: CommittedEvent): void {
    if (!this.#hasRecipients(event)) return;
    if (this.#queue.push(event) > QUEUE_MAX) this.gap();
    else if (!this.#isDraining) void this.#drain();
  }

  gap(): void {
    this.closeAll('lost');
  }

  closeAll(reason: CloseReason): void {
    this.#queue = [];
    for (const group of [...this.#groups.values()]) this.#close(group, reason);
  }

  /** Something that rights rest on has changed: they are looked up before the next event is handed on. */
  invalidateAccess(): void {
    for (const group of this.#groups.values()) group.invalidations++;
    this.refreshAccess();
  }

  /** Rights may have changed unheard: the same, but for those that are being looked up anyway. */
  refreshAccess(): void {
    for (const group of this.#groups.values()) this.#stale.add(group);
    this.#refreshStale().catch((cause: unknown) => {
      this.app.log.error('rights of streams could not be looked up', { cause });
      this.gap();
    });
  }

  /** A seat whose group was ended is still to be removed, but hears no more. */
  #isMember(seat: Membership): boolean {
    const { group } = seat;
    return group.members.has(seat) && this.#groups.get(group.source.key) === group;
  }

  #index(seat: Membership): void {
    for (const entity of seat.entities) this.#byEntity.set(entity, (this.#byEntity.get(entity) ?? new Set()).add(seat));
  }

  #unindex(seat: Membership): void {
    for (const entity of seat.entities) {
      const seats = this.#byEntity.get(entity);
      seats?.delete(seat);
      if (seats?.size === 0) this.#byEntity.delete(entity);
    }
  }

  /** Those who may have to be told: of an event of no entity, all. */
  *#recipientsOf({ entity }: CommittedEvent): Iterable<ReadonlySet<Membership>> {
    if (entity === null) for (const { members } of this.#groups.values()) yield members;
    else {
      yield this.#byEntity.get(entity) ?? NO_MEMBERS;
      yield this.#byEntity.get(ALL_ENTITIES) ?? NO_MEMBERS;
    }
  }

  #hasRecipients(event: CommittedEvent): boolean {
    for (const seats of this.#recipientsOf(event)) if (seats.size > 0) return true;
    return false;
  }

  async #drain(): Promise<void> {
    this.#isDraining = true;
    try {
      while (this.#queue.length > 0) {
        const isBehind = this.#queue.length >= BATCH_SIZE;
        const pauseMs = isBehind ? 0 : this.#nextBatchAt - performance.now();
        if (isBehind || pauseMs > 1) await new Promise((resolve) => setTimeout(resolve, pauseMs));
        const begunAt = performance.now();
        const listeners = await this.#fanOut(this.#queue.splice(0, BATCH_SIZE));
        this.#nextBatchAt = begunAt + Math.min(listeners * BATCH_INTERVAL_MS, BATCH_INTERVAL_MAX_MS);
      }
    } catch (cause) {
      this.app.log.error('events could not be handed on', { cause });
      this.gap();
    } finally {
      this.#isDraining = false;
    }
  }

  /**
   * Without a pause in between, unless something has to be found out: so connections get all at once. Resolves to how
   * many listeners one of the events had at most.
   */
  async #fanOut(events: readonly CommittedEvent[]): Promise<number> {
    let catalog: Catalog | undefined;
    let listeners = 0;
    for (const event of events) {
      if (this.#stale.size > 0) {
        await this.#refreshStale();
        catalog = undefined;
      }
      const [first] = this.#groups.values();
      if (first === undefined) break;
      const { tenant } = first.caller;
      catalog ??= await catalogOf(this.app, tenant);
      if (entityIn(catalog, event) === undefined && event.entity !== null) {
        // Defined by another process a moment ago, or gone.
        forgetCatalog(this.app, tenant);
        catalog = await catalogOf(this.app, tenant);
      }
      listeners = Math.max(listeners, this.#deliver(event, catalog, tenant.slug));
    }
    return listeners;
  }

  #deliver(event: CommittedEvent, catalog: Catalog, slug: string): number {
    const entity = entityIn(catalog, event);
    const rendering = new EventSerializer(event, slug);
    let listeners = 0;
    for (const seats of this.#recipientsOf(event)) {
      listeners += seats.size;
      for (const seat of seats) {
        const view = entity === undefined ? null : seat.group.projectionOf(entity);
        seat.connection.deliver(seat, event, rendering, view);
      }
    }
    return listeners;
  }

  async #refreshStale(): Promise<void> {
    await Promise.all([...this.#stale].map((group) => this.#refresh(group)));
  }

  #refresh(group: AccessGroup<Membership>): Promise<void> {
    group.refreshing ??= this.#reload(group).finally(() => {
      group.refreshing = undefined;
    });
    return group.refreshing;
  }

  /** Once more where something has changed while the rights were looked up. */
  async #reload(group: AccessGroup<Membership>): Promise<void> {
    while (this.#stale.has(group)) {
      // A change is told to all in one turn, and what was kept of it may be dropped after this is told.
      await Promise.resolve();
      const { invalidations } = group;
      try {
        const caller = requireTenant(await group.source.load());
        if (group.invalidations !== invalidations) continue;
        group.update(caller);
        this.#stale.delete(group);
      } catch (cause) {
        if (!(cause instanceof ServiceError)) this.app.log.error('rights of a stream are not known', { cause });
        const isRefused = cause instanceof ServiceError && (cause.status === 401 || cause.status === 403);
        return this.#close(group, isRefused ? 'refused' : 'lost');
      }
    }
  }

  #close(group: AccessGroup<Membership>, reason: CloseReason): void {
    this.#removeGroup(group);
    for (const seat of [...group.members]) {
      this.#unindex(seat);
      seat.connection.disconnect(seat, reason);
    }
  }

  #removeGroup(group: AccessGroup<Membership>): void {
    this.#stale.delete(group);
    if (this.#groups.get(group.source.key) === group) this.#groups.delete(group.source.key);
  }
}

function entityIn(catalog: Catalog, { entityId, entity }: CommittedEvent): Entity | undefined {
  return entityId === null ? catalog.byName.get(entity ?? '') : catalog.byId.get(entityId);
}
