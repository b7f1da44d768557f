// Whether any active tenant or public key lists an origin, for requests that name neither: preflights, and errors before the
// caller is known. Each process caches the answer together with one tenant that lists the origin, until that tenant's lists
// change anywhere or its key expires. The answer that nobody lists an origin is cached until a tenant does. So a tenant that
// keeps changing its lists costs others nothing. Origins that were listed stay valid while the database is unavailable.
// Failures: 503 for other origins meanwhile. Contract: browsers#origins.
import { type App, perApp } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { Cache } from '../runtime/cache.ts';
import { SharedStatements } from '../runtime/shared-statements.ts';
import { sql } from '../runtime/sql.ts';

const { remembered } = LIMITS.origins;

interface Listing {
  /** How long the origin is listed, in ms since the epoch; 0 when it is not. */
  until: number;
  /** The tenant that lists it, and the number of changes that had been announced before its list was read. */
  by: string | null;
  asOf: number;
}

class ListedOrigins {
  readonly #cache: Cache<Listing>;
  /** How many changes of lists have been announced, and the number of the last change of each tenant. */
  #changes = 0;
  readonly #lastOf = new Map<string, number>();
  /** Origins that were listed, in the order of their last use. */
  readonly #lastKnown = new Set<string>();

  constructor(private readonly app: App) {
    this.#cache = new Cache(remembered, () => app.broker.connected());
    app.invalidations.on('origin', (keys) => this.#changed(keys));
  }

  async has(origin: string): Promise<boolean> {
    try {
      let listing = await this.#listing(origin);
      if (this.#isPast(listing)) {
        this.#cache.drop(origin);
        listing = await this.#listing(origin);
      }
      const isListed = listing.until > Date.now();
      this.remember(origin, isListed);
      return isListed;
    } catch (cause) {
      if (this.#lastKnown.has(origin)) return true;
      throw cause;
    }
  }

  wasListed(origin: string): boolean {
    return this.#lastKnown.has(origin);
  }

  /** Remembers an origin that has just been used as the last one to be forgotten. */
  remember(origin: string, isListed: boolean): void {
    this.#lastKnown.delete(origin);
    if (isListed) this.#lastKnown.add(origin);
    const [oldest] = this.#lastKnown;
    if (this.#lastKnown.size > remembered && oldest !== undefined) this.#lastKnown.delete(oldest);
  }

  /** The keys are a tenant and the origins that it has begun to list. */
  #changed(keys: readonly string[] | null): void {
    if (keys === null || this.#lastOf.size >= TENANTS_MAX) {
      this.#lastOf.clear();
      this.#cache.clear();
    }
    this.#changes++;
    for (const key of keys ?? []) {
      if (!key.includes('/')) this.#lastOf.set(key, this.#changes);
      // An origin that another tenant lists stays as it is.
      else if (this.#cache.peek(key)?.by == null) this.#cache.drop(key);
    }
  }

  #isPast({ until, by, asOf }: Listing): boolean {
    return by !== null && (until <= Date.now() || (this.#lastOf.get(by) ?? 0) > asOf);
  }

  #listing(origin: string): Listing | Promise<Listing> {
    return this.#cache.get(origin, async () => {
      const asOf = this.#changes;
      const row = await lookups.run(this.app, '', origin, (origins) => readListings(this.app, origins));
      if (row?.by == null) return { until: 0, by: null, asOf };
      return { until: row.until === null ? Number.POSITIVE_INFINITY : Date.parse(row.until), by: row.by, asOf };
    });
  }
}

interface ListingRow {
  origin: string;
  /** A tenant that lists the origin; null when none does. */
  by: string | null;
  /** The expiry of the public key that lists the origin; null for a tenant's own list. */
  until: string | null;
}

/** The most origins that one statement looks up. */
const LOOKUPS_MAX = 64;
/** Concurrent lookups share a statement, so that preflights of many new origins need few statements. */
const lookups = new SharedStatements<string, ListingRow>({ itemsMax: LOOKUPS_MAX });

async function readListings(app: App, origins: readonly string[]): Promise<(ListingRow | undefined)[]> {
  const rows = await app.db.rows<ListingRow>(sql`
    select o.origin, l.by, l.until from unnest(${[...origins]}::text[]) as o (origin)
    left join lateral (
      select * from (
        (
          select id as by, null::timestamptz as until from platform.tenants
          where settings -> 'allowedOrigins' @> jsonb_build_array(o.origin) and status = 'active'
          limit 1
        ) union all (
          select k.tenant_id, k.expires_at from platform.public_keys as k
          join platform.tenants as t on t.id = k.tenant_id and t.status = 'active'
          where k.allowed_origins @> jsonb_build_array(o.origin) and k.revoked_at is null and k.expires_at > now()
          order by k.expires_at desc
          limit 1
        )
      ) as listed
      order by until desc nulls first
      limit 1
    ) as l on true`);
  const byOrigin = new Map(rows.map((row) => [row.origin, row]));
  return origins.map((origin) => byOrigin.get(origin));
}

/** The most tenants whose changes are tracked; beyond that, all origins are read again. */
const TENANTS_MAX = 10_000;

const listedOf = perApp((app) => new ListedOrigins(app));

/** Whether an active tenant or an active public key lists the origin. */
export async function isListedAnywhere(app: App, origin: string): Promise<boolean> {
  return listedOf(app).has(origin);
}

/** Whether the origin was listed at the last lookup; does not look it up again. */
export function wasListedAnywhere(app: App, origin: string): boolean {
  return listedOf(app).wasListed(origin);
}

/** Remembers that a tenant lists the origin, for times when the lists cannot be read. */
export function rememberListed(app: App, origin: string): void {
  listedOf(app).remember(origin, true);
}

/** Announces to every process that lists of the tenant have changed, and which origins are on them now. */
export async function publishOrigins(app: App, tenantId: string, listed: readonly string[]): Promise<void> {
  await app.invalidations.publish('origin', [tenantId, ...listed]);
}

/** All origins on the tenant's lists, while it is active. */
export async function listedBy(app: App, tenantId: string): Promise<string[]> {
  const row = await app.db.first<{ listed: string[] }>(sql`
    select coalesce(jsonb_agg(distinct o.origin), '[]') as listed
    from platform.tenants as t
    cross join lateral (
      select jsonb_array_elements_text(coalesce(t.settings -> 'allowedOrigins', '[]')) as origin
      union all
      select jsonb_array_elements_text(k.allowed_origins) from platform.public_keys as k
      where k.tenant_id = t.id and k.revoked_at is null
    ) as o
    where t.id = ${tenantId}::uuid and t.status = 'active'`);
  return row?.listed ?? [];
}
