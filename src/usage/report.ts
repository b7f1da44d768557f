// The use of a tenant on each UTC day, and its current use. Days without use are zeros. Counts of other processes from the last
// seconds are not included yet. Hours are fractions; bytes are bytes of JSON text.
// Contract: neighbours#usage-and-quotas.
import type { App } from '../app.ts';
import { identifier, join, sql } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { flushUsage } from './usage-writer.ts';

export interface UsageDay {
  day: string;
  requests: number;
  reads: number;
  writes: number;
  events: number;
  deliveries: number;
  streamHours: number;
  socketHours: number;
  sentBytes: number;
}

export interface CurrentUsage {
  /** The number of records by entity. */
  records: Record<string, number>;
  storageBytes: number;
  users: number;
}

export interface UsageReport {
  /** The tenant's slug. */
  tenant: string;
  days: UsageDay[];
  now: CurrentUsage;
}

/** A range of days as YYYY-MM-DD; both ends are included. */
export interface DayRange {
  from: string;
  to: string;
}

type ReportedTenant = Pick<Tenant, 'id' | 'slug' | 'schema'>;

/** The usage of each tenant, in the order given. */
export async function reportUsage(
  app: App,
  tenants: readonly ReportedTenant[],
  range: DayRange,
): Promise<UsageReport[]> {
  if (tenants.length === 0) return [];
  await flushUsage(app);
  const [days, now] = [await daysOf(app, tenants, range), await currentUsage(app, tenants)];
  return tenants.map(({ id, slug }) => ({
    tenant: slug,
    days: (days.get(id) ?? []).map(({ tenantId: _, ...day }) => day),
    now: now.get(id) ?? { records: {}, storageBytes: 0, users: 0 },
  }));
}

type DayRow = UsageDay & { tenantId: string };

async function daysOf(app: App, tenants: readonly ReportedTenant[], { from, to }: DayRange) {
  const rows = await app.db.rows<DayRow>(sql`
    select t.id as "tenantId", to_char(d.day, 'YYYY-MM-DD') as day, coalesce(u.requests, 0) as requests,
      coalesce(u.reads, 0) as reads, coalesce(u.writes, 0) as writes, coalesce(u.events, 0) as events,
      coalesce(u.deliveries, 0) as deliveries, (coalesce(u.stream_ms, 0) / 3600000.0)::float8 as "streamHours",
      (coalesce(u.socket_ms, 0) / 3600000.0)::float8 as "socketHours", coalesce(u.sent_bytes, 0) as "sentBytes"
    from unnest(${tenants.map(({ id }) => id)}::uuid[]) as t (id)
    cross join generate_series(${from}::date, ${to}::date, interval '1 day') as d (day)
    left join platform.usage_days as u on u.tenant_id = t.id and u.day = d.day::date
    order by d.day`);
  return Map.groupBy(rows, ({ tenantId }) => tenantId);
}

async function currentUsage(app: App, tenants: readonly ReportedTenant[]): Promise<Map<string, CurrentUsage>> {
  const parts = tenants.map(
    ({ id, schema }) => sql`
      select ${id} as id, (
          select coalesce(json_object_agg(e.name, e.n), '{}')
          from (
            select d.name, coalesce(sum(c.n), 0)::bigint as n
            from ${identifier(schema, 'entity_definitions')} as d
            left join platform.entity_counts as c on c.tenant_id = ${id}::uuid and c.entity_id = d.id
            group by d.name order by d.name collate "C"
          ) as e
        ) as records,
        (select coalesce(sum(bytes), 0)::bigint from platform.entity_counts where tenant_id = ${id}::uuid) as "storageBytes",
        (select count(*) from ${identifier(schema, 'users')}) as users`,
  );
  const rows = await app.db.slow.rows<CurrentUsage & { id: string }>(join(parts, ' union all '));
  return new Map(rows.map(({ id, ...usage }) => [id, usage]));
}
