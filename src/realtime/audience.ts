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
import type { Subscriber } from '../events/hub.ts';
import type { RelayedEvent } from '../events/relay.ts';
import { ALL_ENTITIES } from '../events/stream-subscriptions.ts';
import { Group, type Ticket } from './group.ts';
import { Rendering, type View } from './view.ts';

/** Why connections are ended: rights are gone, or events may have been missed. */
export type EndReason = 'refused' | 'lost' | 'stopping';

/** One connection. It is told which of its seats it is called for: with a new token it takes a new one. */
export interface Listener {
  /** `view` is the listener's view of the event's entity; null where it gets nothing of it. */
  deliver(seat: Seat, event: RelayedEvent, rendering: Rendering, view: View | null): void;
  end(seat: Seat, reason: EndReason): void;
}

/** A listener's place in the audience, for one credential. */
export class Seat {
  constructor(
    readonly audience: Audience,
    readonly group: Group<Seat>,
    readonly listener: Listener,
    /** The entities it listens to; see EVERYTHING. */
    public entities: readonly string[],
  ) {}

  get caller(): TenantCaller {
    return this.group.caller;
  }
}

/** Events waiting while rights or definitions are being looked up; past that, connections are ended. */
const WAITING_MAX = 5_000;
/** Events handed on in one turn, so that connections can write in between. */
const PER_TURN = 50;
/**
 * The time between two turns, for each listener of the last and in all: about what writing to all of them takes. Events
 * that come meanwhile go out together, which costs little more than one of them alone.
 */
const SPACING_MS = 0.02;
const SPACING_MAX_MS = 20;
const NOBODY: ReadonlySet<Seat> = new Set();

export class Audience implements Subscriber {
  readonly #groups = new Map<string, Group<Seat>>();
  /** Who listens to each entity, and to everything. */
  readonly #seats = new Map<string, Set<Seat>>();
  /** Groups whose rights are to be looked up. */
  readonly #inDoubt = new Set<Group<Seat>>();
  #waiting: RelayedEvent[] = [];
  #isPumping = false;
  #nextTurnAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly app: App,
    readonly tenantId: string,
  ) {}

  get isEmpty(): boolean {
    return this.#groups.size === 0;
  }

  /** Seats a listener, which listens to these entities from now on. */
  add(ticket: Ticket, caller: TenantCaller, listener: Listener, entities: readonly string[]): Seat {
    const group = this.#groups.get(ticket.key) ?? new Group<Seat>(ticket, caller);
    this.#groups.set(ticket.key, group);
    const seat = new Seat(this, group, listener, entities);
    group.seats.add(seat);
    this.#enter(seat);
    return seat;
  }

  /** The rights of those who are seated with this key; null when nobody is. */
  async callerOf(key: string): Promise<TenantCaller | null> {
    const group = this.#groups.get(key);
    if (group !== undefined && this.#inDoubt.has(group)) await this.#settle(group);
    return this.#groups.get(key)?.caller ?? null;
  }

  /** What a seat listens to from now on, instead of what it did; false when it is not there any more. */
  listen(seat: Seat, entities: readonly string[]): boolean {
    if (!this.#isThere(seat)) return false;
    this.#withdraw(seat);
    seat.entities = entities;
    this.#enter(seat);
    return true;
  }

  /** False when it was not there any more. */
  remove(seat: Seat): boolean {
    const { group } = seat;
    if (!group.seats.delete(seat)) return false;
    this.#withdraw(seat);
    if (group.seats.size === 0) this.#forget(group);
    return true;
  }

  event(event: RelayedEvent): void {
    if (!this.#isHeard(event)) return;
    if (this.#waiting.push(event) > WAITING_MAX) this.gap();
    else if (!this.#isPumping) void this.#pump();
  }

  gap(): void {
    this.endAll('lost');
  }

  endAll(reason: EndReason): void {
    this.#waiting = [];
    for (const group of [...this.#groups.values()]) this.#end(group, reason);
  }

  /** Something that rights rest on has changed: they are looked up before the next event is handed on. */
  doubt(): void {
    for (const group of this.#groups.values()) group.doubts++;
    this.check();
  }

  /** Rights may have changed unheard: the same, but for those that are being looked up anyway. */
  check(): void {
    for (const group of this.#groups.values()) this.#inDoubt.add(group);
    this.#settleDoubts().catch((cause: unknown) => {
      this.app.log.error('rights of streams could not be looked up', { cause });
      this.gap();
    });
  }

  /** A seat whose group was ended is still to be removed, but hears no more. */
  #isThere(seat: Seat): boolean {
    const { group } = seat;
    return group.seats.has(seat) && this.#groups.get(group.ticket.key) === group;
  }

  #enter(seat: Seat): void {
    for (const entity of seat.entities) this.#seats.set(entity, (this.#seats.get(entity) ?? new Set()).add(seat));
  }

  #withdraw(seat: Seat): void {
    for (const entity of seat.entities) {
      const seats = this.#seats.get(entity);
      seats?.delete(seat);
      if (seats?.size === 0) this.#seats.delete(entity);
    }
  }

  /** Those who may have to be told: of an event of no entity, all. */
  *#hearersOf({ entity }: RelayedEvent): Iterable<ReadonlySet<Seat>> {
    if (entity === null) for (const { seats } of this.#groups.values()) yield seats;
    else {
      yield this.#seats.get(entity) ?? NOBODY;
      yield this.#seats.get(ALL_ENTITIES) ?? NOBODY;
    }
  }

  #isHeard(event: RelayedEvent): boolean {
    for (const seats of this.#hearersOf(event)) if (seats.size > 0) return true;
    return false;
  }

  async #pump(): Promise<void> {
    this.#isPumping = true;
    try {
      while (this.#waiting.length > 0) {
        const isBehind = this.#waiting.length >= PER_TURN;
        const pauseMs = isBehind ? 0 : this.#nextTurnAt - performance.now();
        if (isBehind || pauseMs > 1) await new Promise((resolve) => setTimeout(resolve, pauseMs));
        const begunAt = performance.now();
        const listeners = await this.#handOn(this.#waiting.splice(0, PER_TURN));
        this.#nextTurnAt = begunAt + Math.min(listeners * SPACING_MS, SPACING_MAX_MS);
      }
    } catch (cause) {
      this.app.log.error('events could not be handed on', { cause });
      this.gap();
    } finally {
      this.#isPumping = false;
    }
  }

  /**
   * Without a pause in between, unless something has to be found out: so connections get all at once. Resolves to how
   * many listeners one of the events had at most.
   */
  async #handOn(events: readonly RelayedEvent[]): Promise<number> {
    let catalog: Catalog | undefined;
    let listeners = 0;
    for (const event of events) {
      if (this.#inDoubt.size > 0) {
        await this.#settleDoubts();
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

  #deliver(event: RelayedEvent, catalog: Catalog, slug: string): number {
    const entity = entityIn(catalog, event);
    const rendering = new Rendering(event, slug);
    let listeners = 0;
    for (const seats of this.#hearersOf(event)) {
      listeners += seats.size;
      for (const seat of seats) {
        const view = entity === undefined ? null : seat.group.viewOf(catalog, entity);
        seat.listener.deliver(seat, event, rendering, view);
      }
    }
    return listeners;
  }

  async #settleDoubts(): Promise<void> {
    await Promise.all([...this.#inDoubt].map((group) => this.#settle(group)));
  }

  #settle(group: Group<Seat>): Promise<void> {
    group.settling ??= this.#lookUp(group).finally(() => {
      group.settling = undefined;
    });
    return group.settling;
  }

  /** Once more where something has changed while the rights were looked up. */
  async #lookUp(group: Group<Seat>): Promise<void> {
    while (this.#inDoubt.has(group)) {
      // A change is told to all in one turn, and what was kept of it may be dropped after this is told.
      await Promise.resolve();
      const { doubts } = group;
      try {
        const caller = requireTenant(await group.ticket.load());
        if (group.doubts !== doubts) continue;
        group.become(caller);
        this.#inDoubt.delete(group);
      } catch (cause) {
        if (!(cause instanceof ServiceError)) this.app.log.error('rights of a stream are not known', { cause });
        const isRefused = cause instanceof ServiceError && (cause.status === 401 || cause.status === 403);
        return this.#end(group, isRefused ? 'refused' : 'lost');
      }
    }
  }

  #end(group: Group<Seat>, reason: EndReason): void {
    this.#forget(group);
    for (const seat of [...group.seats]) {
      this.#withdraw(seat);
      seat.listener.end(seat, reason);
    }
  }

  #forget(group: Group<Seat>): void {
    this.#inDoubt.delete(group);
    if (this.#groups.get(group.ticket.key) === group) this.#groups.delete(group.ticket.key);
  }
}

function entityIn(catalog: Catalog, { entityId, entity }: RelayedEvent): Entity | undefined {
  return entityId === null ? catalog.byName.get(entity ?? '') : catalog.byId.get(entityId);
}
