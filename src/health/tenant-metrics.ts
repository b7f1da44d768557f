// Metrics by tenant. The METRICS_TENANTS busiest tenants have their own series; all others share the label `other`. At each
// scrape, a tenant's new use is added to the series that it has at that time, so every series only grows, and all series
// together show the total use. A series ends when its place goes to a busier tenant, and continues where it stopped if the
// tenant gets a place again. Busy means statement time, at least a millisecond per request; the past counts half every ten
// minutes. Memory: about 0.3 KiB for each tenant that the process has served.
// Contract: neighbours#who-does-what, decisions#metrics.
import { Counter } from 'prom-client';
import type { App } from '../app.ts';
import { sql } from '../runtime/sql.ts';
import type { TenantCounts } from '../runtime/tenant-counters.ts';
import { within } from '../runtime/within.ts';
import { detached } from '../runtime/work.ts';

const FAMILIES: readonly [name: string, help: string, read: (counts: Readonly<TenantCounts>) => number][] = [
  ['svc_tenant_requests_total', 'Requests, by tenant.', ({ requests }) => requests],
  ['svc_tenant_statement_seconds_total', 'Time in the database, by tenant.', ({ statementMs }) => statementMs / 1_000],
  ['svc_tenant_sent_bytes_total', 'Bytes sent in responses, streams and sockets, by tenant.', (c) => c.sentBytes],
  ['svc_tenant_events_total', 'Events committed, by tenant.', ({ events }) => events],
  ['svc_tenant_deliveries_failed_total', 'Webhook deliveries failed for good, by tenant.', (c) => c.failedDeliveries],
];

const HALF_LIFE_MS = 600_000;
/** A tenant takes another's place when it is this much busier, so that places do not change at every scrape. */
const BUSIER_FACTOR = 2;
const SLUGS_WITHIN_MS = 1_000;
const OTHER = 'other';

/** The amounts of a tenant that have been shown. Each array has a number per family. */
interface Tracked {
  counts: Readonly<TenantCounts>;
  /** Busy time seen so far, and as it counts now. */
  busyMs: number;
  activity: number;
  seen: number[];
  /** The amounts shown under the tenant's own label; null until it has had a place. */
  own: number[] | null;
  hasPlace: boolean;
  slug: string | null;
}

class TenantMetrics {
  readonly #tracked = new Map<string, Tracked>();
  readonly #other = zeros();
  #rankedAt = performance.now();
  #refreshing: Promise<void> | null = null;

  constructor(private readonly app: App) {
    const { registry } = app.metrics;
    const refresh = (): Promise<void> => this.#refresh();
    const show = (counter: Counter<'tenant'>, family: number): void => this.#show(counter, family);
    for (const [family, [name, help]] of FAMILIES.entries()) {
      const collect = async function (this: Counter<'tenant'>): Promise<void> {
        await refresh();
        show(this, family);
      };
      new Counter({ name, help, labelNames: ['tenant'], collect, registers: [registry] });
    }
    // A deleted tenant loses its place: its slug is read again, and not found.
    app.invalidations.on('tenant', (ids) => {
      for (const id of ids ?? this.#tracked.keys()) {
        const tracked = this.#tracked.get(id);
        if (tracked !== undefined) tracked.slug = null;
      }
    });
  }

  /** All families of a scrape share one refresh. */
  #refresh(): Promise<void> {
    this.#refreshing ??= this.#update().finally(() => {
      this.#refreshing = null;
    });
    return this.#refreshing;
  }

  async #update(): Promise<void> {
    this.#track();
    const chosen = this.#choose();
    await this.#readSlugs(chosen);
    for (const [id, tracked] of this.#tracked) {
      tracked.hasPlace = tracked.slug !== null && chosen.has(id);
      this.#allocate(tracked);
    }
  }

  /** Follows the tenants that the process knows, and ages their activity. */
  #track(): void {
    const now = performance.now();
    const aged = 0.5 ** ((now - this.#rankedAt) / HALF_LIFE_MS);
    this.#rankedAt = now;
    const known = new Set<string>();
    for (const [id, counts] of this.app.counters.entries()) {
      known.add(id);
      let tracked = this.#tracked.get(id);
      if (tracked?.counts !== counts) tracked = { ...(tracked ?? UNTRACKED), counts, busyMs: 0, seen: zeros() };
      this.#tracked.set(id, tracked);
      const busyMs = counts.statementMs + counts.requests;
      tracked.activity = tracked.activity * aged + busyMs - tracked.busyMs;
      tracked.busyMs = busyMs;
    }
    for (const id of this.#tracked.keys()) if (!known.has(id)) this.#tracked.delete(id);
  }

  /** The tenants that should have a place: the current ones, unless another tenant is much busier. */
  #choose(): Set<string> {
    const places = this.app.config.metricsTenants;
    const byActivity = [...this.#tracked].sort(([, a], [, b]) => b.activity - a.activity);
    const inside = byActivity.filter(([, { hasPlace }]) => hasPlace);
    const outside = byActivity.filter(([, { hasPlace, activity }]) => !hasPlace && activity > 0);
    const chosen = [...inside, ...outside].slice(0, places);
    for (const candidate of outside.slice(Math.max(0, places - inside.length))) {
      const least = inside.pop();
      if (least === undefined || candidate[1].activity <= BUSIER_FACTOR * least[1].activity) break;
      chosen[chosen.indexOf(least)] = candidate;
    }
    return new Set(chosen.map(([id]) => id));
  }

  /** One statement for all slugs that are missing. Without the database the tenants wait for the next scrape. */
  async #readSlugs(ids: ReadonlySet<string>): Promise<void> {
    const missing = [...ids].filter((id) => this.#tracked.get(id)?.slug === null);
    if (missing.length === 0) return;
    try {
      const query = sql`select id, slug from platform.tenants where id = any(${missing}::uuid[])`;
      const rows = await within(
        SLUGS_WITHIN_MS,
        detached(() => this.app.db.rows<{ id: string; slug: string }>(query)),
      );
      const slugs = new Map(rows.map(({ id, slug }) => [id, slug]));
      for (const id of missing) {
        const slug = slugs.get(id);
        const tracked = this.#tracked.get(id);
        if (slug === undefined) this.app.counters.delete(id);
        else if (tracked !== undefined) tracked.slug = slug;
      }
    } catch (error) {
      this.app.log.debug('metrics: cannot read the names of tenants', { error });
    }
  }

  /** Adds what is new to the tenant's own series or to `other`. */
  #allocate(tracked: Tracked): void {
    if (tracked.hasPlace) tracked.own ??= zeros();
    const series = tracked.hasPlace ? (tracked.own as number[]) : this.#other;
    for (const [family, [, , read]] of FAMILIES.entries()) {
      const total = read(tracked.counts);
      series[family] = (series[family] ?? 0) + total - (tracked.seen[family] ?? 0);
      tracked.seen[family] = total;
    }
  }

  #show(counter: Counter<'tenant'>, family: number): void {
    counter.reset();
    counter.inc({ tenant: OTHER }, this.#other[family] ?? 0);
    for (const { hasPlace, own, slug } of this.#tracked.values()) {
      if (hasPlace && own !== null && slug !== null) counter.inc({ tenant: labelOf(slug) }, own[family] ?? 0);
    }
  }
}

const UNTRACKED = { activity: 0, own: null, hasPlace: false, slug: null };

function zeros(): number[] {
  return FAMILIES.map(() => 0);
}

/** A slug has no colon, so a tenant called `other` keeps a separate series. */
function labelOf(slug: string): string {
  return slug === OTHER ? `slug:${slug}` : slug;
}

/** The registries that have these metrics. */
const registered = new WeakSet<App['metrics']>();

/** Registers the metrics, once for each registry: several APIs may be created for one App. */
export function registerTenantMetrics(app: App): void {
  if (registered.has(app.metrics)) return;
  registered.add(app.metrics);
  new TenantMetrics(app);
}
