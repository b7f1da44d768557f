// The connections that use one credential. Their access is loaded once for all of them: the caller, and its projection of each entity.
// `refresh` reloads the access after a change. It rejects when the access is revoked, or cannot be loaded after several attempts.
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
  /** Whether the credential is known to be valid now, without loading it. Changes of its rights are announced. */
  isKnownGood(): boolean;
}

export class AccessGroup<Member extends { connection: { accessLoaded?(): void } }> {
  readonly members = new Set<Member>();
  #isStale = false;
  #invalidations = 0;
  #refreshing: Promise<void> | undefined;
  /** By entity id; each projection is stored with the definition that it was derived from. */
  readonly #projections = new Map<string, { entity: Entity; projection: Projection | null }>();

  constructor(
    readonly source: AccessSource,
    public caller: TenantCaller,
  ) {}

  get isStale(): boolean {
    return this.#isStale;
  }

  /**
   * Notes that access may have changed. `isAnnounced`: something did change, so a load in progress is repeated. Otherwise nothing is loaded
   * for a credential that is known to be valid: loading for many idle streams would take time from all tenants.
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

  /** Repeats the load while the database is briefly unavailable. Nothing is sent meanwhile. */
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
