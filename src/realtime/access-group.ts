// The connections with one credential, whose access is loaded once for all of them: the caller, and its projection of
// each entity. `refresh` reloads the access after a change, and rejects when it is revoked or cannot be loaded for longer.
// Contract: decisions#changes-of-rights.
import { setTimeout as delay } from 'node:timers/promises';
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import type { Entity } from '../entities/field.ts';
import { pauseAfter } from '../runtime/unavailability.ts';
import { withoutSignal } from '../runtime/work.ts';
import { type Projection, projectionOf } from './projection.ts';

export interface AccessSource {
  /** Equal for connections with the same credential and access. */
  key: string;
  /** Rejects with 401 or 403 when access is revoked. */
  load(): Promise<TenantCaller>;
  /** Whether the credential is known to be good now, without loading it. What its rights depend on is announced. */
  isKnownGood(): boolean;
}

export class AccessGroup<Member extends { connection: { accessLoaded?(): void } }> {
  readonly members = new Set<Member>();
  #isStale = false;
  #invalidations = 0;
  #refreshing: Promise<void> | undefined;
  /** By entity id, each for the definition it was derived from. */
  readonly #projections = new Map<string, { entity: Entity; projection: Projection | null }>();

  constructor(
    readonly source: AccessSource,
    public caller: TenantCaller,
  ) {}

  get isStale(): boolean {
    return this.#isStale;
  }

  /**
   * Access may have changed. `isAnnounced`: something did change, so a load in progress is repeated. Otherwise nothing is
   * loaded for a credential that is known to be good: the loads of many idle streams would take the time of all tenants.
   */
  invalidate(isAnnounced: boolean): void {
    if (isAnnounced) this.#invalidations++;
    else if (this.source.isKnownGood()) return;
    this.#isStale = true;
  }

  /** Resolves at once when the access is not stale. */
  refresh(): Promise<void> {
    this.#refreshing ??= withoutSignal(() => this.#reload()).finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  projectionOf(entity: Entity): Projection | null {
    const known = this.#projections.get(entity.id);
    if (known?.entity === entity) return known.projection;
    const projection = projectionOf(this.caller, entity);
    this.#projections.set(entity.id, { entity, projection });
    return projection;
  }

  async #reload(): Promise<void> {
    while (this.#isStale) {
      // Caches that listen to the same invalidation may be cleared later in this turn of the event loop.
      await Promise.resolve();
      const invalidations = this.#invalidations;
      const caller = await this.#load();
      if (this.#invalidations !== invalidations) continue;
      this.caller = caller;
      this.#projections.clear();
      this.#isStale = false;
      for (const { connection } of this.members) connection.accessLoaded?.();
    }
  }

  /** Again while the database is unavailable for a moment: meanwhile nothing is sent. */
  async #load(): Promise<TenantCaller> {
    for (let failures = 0; ; failures++) {
      try {
        return requireTenant(await this.source.load());
      } catch (cause) {
        const pauseMs = pauseAfter(cause, failures);
        if (pauseMs === undefined || this.members.size === 0) throw cause;
        await delay(pauseMs, undefined, { ref: false });
      }
    }
  }
}
