// Listeners with the same credential and the same rights: what they may see is found out once for all of them.
// When it is looked up again, and what follows when it cannot be told, is the audience's matter.
// Contract: decisions#changes-of-rights, decisions#sse, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { type View, viewOf } from './view.ts';

/** Who listens, and how its rights are looked up: 401 or 403 when it has none any more. */
export interface Ticket {
  /** Equal for connections with the same credential and the same rights. */
  key: string;
  load(): Promise<TenantCaller>;
}

/** Those with one ticket: their rights, and what they see. */
export class Group<Seat> {
  readonly seats = new Set<Seat>();
  /** Grows with whatever makes the rights doubtful. */
  doubts = 0;
  /** Under way while the rights are being looked up. */
  settling: Promise<void> | undefined;
  /** By entity id, each for the definition it was made from. */
  readonly #views = new Map<string, { entity: Entity; view: View | null }>();

  constructor(
    readonly ticket: Ticket,
    public caller: TenantCaller,
  ) {}

  become(caller: TenantCaller): void {
    this.caller = caller;
    this.#views.clear();
  }

  viewOf(catalog: Catalog, entity: Entity): View | null {
    const known = this.#views.get(entity.id);
    if (known?.entity === entity) return known.view;
    const view = viewOf(catalog, this.caller, entity);
    this.#views.set(entity.id, { entity, view });
    return view;
  }
}
