// Totals of lists. Without a condition the total is the entity's counter. With one it is counted and cached with the
// entity's number of writes, which every write increments in its own transaction: while that number stays the same,
// the cached total is exact, in every process.
import { type App, perApp } from '../../app.ts';
import type { Entity } from '../../entities/field.ts';
import { type Sql, sql } from '../../runtime/sql.ts';
import { sha256 } from '../../runtime/tokens.ts';
import { readShared } from './shared-read.ts';

/** The counters: records (n) and writes so far (v). */
export interface Counters {
  n: number;
  v: number;
}

export interface CachedTotal {
  total: number;
  /** The entity's counters at the time of counting. */
  writes: number;
  records: number;
}

const CACHED_TOTALS_MAX = 20_000;
const TENANT_TOTALS_MAX = 1_000;
const KEY_MAX = 4_000;
/** Longer names are kept as their hashes. */
const NAME_MAX = 100;
/**
 * By tenant, so that a tenant with many conditions evicts only its own totals. In both maps, the totals cached last come last.
 */
const totalsOf = perApp(() => ({ size: 0, byTenant: new Map<string, Map<string, CachedTotal>>() }));

/** A one-row query of an entity's counters. */
export function countersOf(entity: Entity): Sql {
  return sql`
    select coalesce(sum(n), 0)::bigint as n, coalesce(sum(v), 0)::bigint as v
    from platform.entity_counts
    where tenant_id = ${entity.tenantId}::uuid and entity_id = ${entity.id}::uuid`;
}

/** The cached total of a condition, current or not. */
export function cachedTotal(app: App, entity: Entity, key: string | null): CachedTotal | undefined {
  const name = cacheKey(entity, key);
  return name === null ? undefined : totalsOf(app).byTenant.get(entity.schema)?.get(name);
}

/** Caches a total counted in the same snapshot as the counters. */
export function cacheTotal(app: App, entity: Entity, key: string | null, total: number, { n, v }: Counters): void {
  const name = cacheKey(entity, key);
  if (name === null) return;
  const totals = totalsOf(app);
  const own = totals.byTenant.get(entity.schema) ?? new Map<string, CachedTotal>();
  totals.size -= own.size;
  own.delete(name);
  own.set(name, { total, writes: v, records: n });
  if (own.size > TENANT_TOTALS_MAX) deleteFirst(own);
  totals.size += own.size;
  totals.byTenant.delete(entity.schema);
  totals.byTenant.set(entity.schema, own);
  while (totals.size > CACHED_TOTALS_MAX) totals.size -= deleteFirst(totals.byTenant)?.size ?? totals.size;
}

/** Deletes the first entry of a map, and returns its value. */
function deleteFirst<V>(map: Map<string, V>): V | undefined {
  for (const [key, value] of map) {
    map.delete(key);
    return value;
  }
  return undefined;
}

/**
 * The number of rows that match `where`, cached or counted. `key` identifies the condition with all its values; null for a
 * condition that depends on other entities too, which is counted each time.
 */
export async function filteredTotal(
  app: App,
  entity: Entity,
  where: Sql,
  key: string | null,
  counters: Counters,
): Promise<number> {
  const known = cachedTotal(app, entity, key);
  if (known !== undefined && known.writes === counters.v) return known.total;
  const counting = sql`
    select (select count(*) from ${entity.table} as r where ${where}) as total, c.n, c.v
    from (${countersOf(entity)}) as c`;
  const [row] = await readShared<Counters & { total: number }>(app.db, entity, counting);
  const { total = 0, n = 0, v = -1 } = row ?? {};
  cacheTotal(app, entity, key, total, { n, v });
  return total;
}

function cacheKey(entity: Entity, key: string | null): string | null {
  if (key === null || key.length > KEY_MAX) return null;
  const name = `${entity.id} ${entity.version} ${key}`;
  return name.length > NAME_MAX ? sha256(name).toString('base64') : name;
}
