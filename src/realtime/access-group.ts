// Listeners with the same credential and the same rights: what they may see is found out once for all of them.
// When it is looked up again, and what follows when it cannot be told, is the audience's matter.
// Contract: decisions#changes-of-rights, decisions#sse, decisions#websocket.
import type { TenantCaller } from '../access/caller.ts';
import type { Entity } from '../entities/field.ts';
import { type Projection, projectionOf } from './projection.ts';

/** Who listens, and how its rights are looked up: 401 or 403 when it has none any more. */
export interface AccessSource {
  /** Equal for connections with the same credential and the same rights. */
  key: string;
  load(): Promise<TenantCaller>;
}

/** Those with one ticket: their rights, and what they see. */
export class AccessGroup<Seat> {
  readonly members = new Set<Seat>();
  /** Grows with whatever makes the rights doubtful. */
  invalidations = 0;
  /** Under way while the rights are being looked up. */
  refreshing: Promise<void> | undefined;
  /** By entity id, each for the definition it was made from. */
  readonly #projections = new Map<string, { entity: Entity; view: Projection | null }>();

  constructor(
    readonly source: AccessSource,
    public caller: TenantCaller,
  ) {}

  update(caller: TenantCaller): void {
    this.caller = caller;
    this.#projections.clear();
  }

  projectionOf(entity: Entity): Projection | null {
    const known = this.#projections.get(entity.id);
    if (known?.entity === entity) return known.view;
    const view = projectionOf(this.caller, entity);
    this.#projections.set(entity.id, { entity, view });
    return view;
  }
}
