// The listeners of one tenant in this process, grouped by credential: rights are looked up, views made
// and events written down once for each group. Rights are looked up again whenever something they rest on
// changes, before the next event is handed on, and once a second besides; who has lost them is cut off.
// Failures: when a group's rights cannot be told, its connections are ended. Contract: sections 6 and 9 of the decisions.
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { type Catalog, catalogOf, forgetCatalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { ServiceError } from '../errors.ts';
import type { Watcher } from '../events/hub.ts';
import type { RelayedEvent } from '../events/relay.ts';
import { Rendering, type View, viewOf } from './view.ts';

/** Why connections are ended: rights are gone, or events may have been missed. */
export type EndReason = 'refused' | 'lost' | 'stopping';

/** One connection. */
export interface Listener {
  /** `view` is the listener's view of the event's entity; null where it gets nothing of it. */
  deliver(event: RelayedEvent, rendering: Rendering, view: View | null, caller: TenantCaller): void;
  end(reason: EndReason): void;
}

/** Who listens, and how its rights are looked up: 401 or 403 when it has none any more. */
export interface Ticket {
  /** Equal for connections with the same credential and the same rights. */
  key: string;
  load(): Promise<TenantCaller>;
}

interface Group {
  ticket: Ticket;
  caller: TenantCaller;
  listeners: Set<Listener>;
  /** By entity id, each for the definition it was made from. */
  views: Map<string, { entity: Entity; view: View | null }>;
  isStale: boolean;
}

/** Events waiting while rights or definitions are being looked up; past that, connections are ended. */
const WAITING_MAX = 5_000;
/** Events handed on in one turn, so that connections can write in between. */
const PER_TURN = 50;
/**
 * The time between two turns, for each listener and in all: about what writing to all of them takes. Events that come
 * meanwhile go out together, which costs little more than one of them alone.
 */
const SPACING_MS = 0.02;
const SPACING_MAX_MS = 20;

export class Audience implements Watcher {
  readonly #groups = new Map<string, Group>();
  #waiting: RelayedEvent[] = [];
  #isPumping = false;
  #turnAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly app: App,
    readonly tenantId: string,
  ) {}

  get isEmpty(): boolean {
    return this.#groups.size === 0;
  }

  /** Adds a listener; returns the function that takes it away. */
  add(ticket: Ticket, caller: TenantCaller, listener: Listener): () => void {
    const known = this.#groups.get(ticket.key);
    const group = known ?? { ticket, caller, listeners: new Set(), views: new Map(), isStale: false };
    this.#groups.set(ticket.key, group);
    group.listeners.add(listener);
    return () => {
      group.listeners.delete(listener);
      if (group.listeners.size === 0 && this.#groups.get(ticket.key) === group) this.#groups.delete(ticket.key);
    };
  }

  event(event: RelayedEvent): void {
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
    for (const group of this.#groups.values()) group.isStale = true;
    this.#settleDoubts().catch((cause: unknown) => {
      this.app.log.error('rights of streams could not be looked up', { cause });
      this.gap();
    });
  }

  async #pump(): Promise<void> {
    this.#isPumping = true;
    try {
      while (this.#waiting.length > 0) {
        const isBehind = this.#waiting.length >= PER_TURN;
        const pauseMs = isBehind ? 0 : this.#turnAt + this.#spacingMs() - performance.now();
        if (isBehind || pauseMs > 1) await new Promise((resolve) => setTimeout(resolve, pauseMs));
        this.#turnAt = performance.now();
        await this.#handOn(this.#waiting.splice(0, PER_TURN));
      }
    } catch (cause) {
      this.app.log.error('events could not be handed on', { cause });
      this.gap();
    } finally {
      this.#isPumping = false;
    }
  }

  #spacingMs(): number {
    let listeners = 0;
    for (const group of this.#groups.values()) listeners += group.listeners.size;
    return Math.min(listeners * SPACING_MS, SPACING_MAX_MS);
  }

  /** Without a pause in between, unless something has to be found out: so connections get all at once. */
  async #handOn(events: readonly RelayedEvent[]): Promise<void> {
    let catalog: Catalog | undefined;
    for (const event of events) {
      if (this.#isInDoubt()) {
        await this.#settleDoubts();
        catalog = undefined;
      }
      const [first] = this.#groups.values();
      if (first === undefined) return;
      const { tenant } = first.caller;
      catalog ??= await catalogOf(this.app, tenant);
      if (entityIn(catalog, event) === undefined && event.entity !== null) {
        // Defined by another process a moment ago, or gone.
        forgetCatalog(this.app, tenant);
        catalog = await catalogOf(this.app, tenant);
      }
      this.#deliver(event, catalog, tenant.slug);
    }
  }

  #deliver(event: RelayedEvent, catalog: Catalog, slug: string): void {
    const entity = entityIn(catalog, event);
    const rendering = new Rendering(event, slug);
    for (const group of this.#groups.values()) {
      const view = entity === undefined ? null : viewIn(group, catalog, entity);
      for (const listener of group.listeners) listener.deliver(event, rendering, view, group.caller);
    }
  }

  #isInDoubt(): boolean {
    for (const { isStale } of this.#groups.values()) if (isStale) return true;
    return false;
  }

  async #settleDoubts(): Promise<void> {
    await Promise.all([...this.#groups.values()].map((group) => this.#settle(group)));
  }

  async #settle(group: Group): Promise<void> {
    while (group.isStale) {
      try {
        const caller = await settled(group);
        group.caller = caller;
        group.views.clear();
      } catch (cause) {
        if (!(cause instanceof ServiceError)) this.app.log.error('rights of a stream are not known', { cause });
        const isRefused = cause instanceof ServiceError && (cause.status === 401 || cause.status === 403);
        return this.#end(group, isRefused ? 'refused' : 'lost');
      }
    }
  }

  #end(group: Group, reason: EndReason): void {
    group.isStale = false;
    this.#groups.delete(group.ticket.key);
    for (const listener of [...group.listeners]) listener.end(reason);
  }
}

/** The rights as they are now. Said to be settled before they are looked up, so that a change meanwhile is seen. */
async function settled(group: Group): Promise<TenantCaller> {
  group.isStale = false;
  try {
    return requireTenant(await group.ticket.load());
  } catch (cause) {
    group.isStale = true;
    throw cause;
  }
}

function entityIn(catalog: Catalog, { entityId, entity }: RelayedEvent): Entity | undefined {
  return entityId === null ? catalog.byName.get(entity ?? '') : catalog.byId.get(entityId);
}

function viewIn(group: Group, catalog: Catalog, entity: Entity): View | null {
  const known = group.views.get(entity.id);
  if (known?.entity === entity) return known.view;
  const view = viewOf(catalog, group.caller, entity);
  group.views.set(entity.id, { entity, view });
  return view;
}
