// Counts slow lists that no index serves, by combination of filters and sort keys. Each process adds its counts to
// platform.slow_lists every FLUSH_MS; a row there is the count of one hour. A tenant with too many combinations loses only its
// own: a process drops new ones until the next flush, and the table drops the ones with the least total time. A process that is
// killed, or cannot reach the database, loses its counts since the last flush. Times are milliseconds.
// Contract: decisions#advice.
import { type App, perApp } from '../../app.ts';
import type { Entity } from '../../entities/field.ts';
import type { Expression } from '../../expression/ast.ts';
import { LIMITS } from '../../limits.ts';
import { SerialQueue } from '../../runtime/concurrency.ts';
import { sql, type Tx } from '../../runtime/sql.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { combinationOf } from './combination.ts';
import type { ListPlan } from './list-plan.ts';

const FLUSH_MS = 2_000;
const { perEntity, perTenant, waiting, characters, keptHours } = LIMITS.advice;

/** The count of one combination. */
interface SlowList {
  tenant_id: string;
  entity_id: string;
  combination: string;
  seen: number;
  total_ms: number;
  /** The number of lists per step of duration: see `stepOf`. */
  durations: number[];
}

/** The counts of a process since its last flush. */
class SlowLists {
  readonly #queue = new SerialQueue();
  #size = 0;
  /** The counts by tenant, then by entity and combination. */
  #byTenant = new Map<string, Map<string, SlowList>>();
  /** Flushes that have begun, and that have ended. */
  #begun = 0;
  #ended = 0;

  constructor(private readonly app: App) {}

  add({ id, tenantId }: Entity, combination: string, ms: number): void {
    const own = this.#byTenant.get(tenantId) ?? new Map<string, SlowList>();
    const key = `${id} ${combination}`;
    const known = own.get(key);
    if (known === undefined && (own.size >= perTenant || this.#size >= waiting)) return;
    const list = known ?? newList(tenantId, id, combination);
    list.seen += 1;
    list.total_ms += Math.round(ms);
    const step = stepOf(ms);
    list.durations[step] = (list.durations[step] ?? 0) + 1;
    if (known !== undefined) return;
    own.set(key, list);
    this.#size += 1;
    this.#byTenant.set(tenantId, own);
  }

  /** Resolves when everything that was counted before is stored, or dropped if that fails. */
  flush(): Promise<void> {
    return this.#queue.run(async () => {
      const lists = [...this.#byTenant.values()].flatMap((own) => [...own.values()]);
      if (lists.length === 0) return;
      this.#byTenant = new Map();
      this.#size = 0;
      this.#begun += 1;
      try {
        await this.app.db.begin((tx) => store(tx, lists));
      } finally {
        this.#ended += 1;
      }
    });
  }

  /**
   * Reads the stored lists with `read`, and adds the entity's lists that are not stored yet. A call waits only for a running
   * flush and starts none: a flush stores the counts of all tenants, and the calls of one tenant would make it run all the
   * time.
   */
  async withUnstored<T>(
    { id, tenantId }: Entity,
    read: () => Promise<T>,
  ): Promise<{ stored: T; unstored: SlowList[] }> {
    for (;;) {
      if (this.#begun > this.#ended) await this.#queue.run(async () => undefined);
      const before = this.#begun;
      const stored = await read();
      // Lists stored meanwhile may be in both results, or in neither.
      if (this.#begun > before) continue;
      const own = [...(this.#byTenant.get(tenantId)?.values() ?? [])];
      return { stored, unstored: own.filter((list) => list.entity_id === id) };
    }
  }
}

function newList(tenantId: string, entityId: string, combination: string): SlowList {
  const durations = new Array<number>(STEPS).fill(0);
  return { tenant_id: tenantId, entity_id: entityId, combination, seen: 0, total_ms: 0, durations };
}

const slowListsOf = perApp((app) => new SlowLists(app));

/** Counts a list whose statements took `ms`. */
export function countSlowList(
  app: App,
  entity: Entity,
  condition: Expression | null,
  plan: ListPlan,
  ms: number,
): void {
  const combination = combinationOf(condition, plan);
  if (combination.length <= characters) slowListsOf(app).add(entity, combination, ms);
}

/** Stores what this process has counted so far. */
export function flushSlowLists(app: App): Promise<void> {
  return slowListsOf(app).flush();
}

/** Flushes every FLUSH_MS; stopping it flushes for the last time. */
export function startSlowLists(app: App): Worker {
  const once = async (): Promise<number> => {
    await flushSlowLists(app);
    return 0;
  };
  const worker = startWorker({ name: 'slow lists', once, pollMs: FLUSH_MS, log: app.log });
  return {
    nudge: () => worker.nudge(),
    stop: async () => {
      await worker.stop();
      await flushSlowLists(app);
    },
  };
}

/**
 * Only one process stores at a time, since two would lock rows in different orders. The tenants are locked against deletion; a
 * tenant that is being deleted is skipped. A dropped entity, which has no counters any more, is skipped too.
 */
async function store(tx: Tx, lists: readonly SlowList[]): Promise<void> {
  await tx.rows(sql`select pg_advisory_xact_lock(hashtext('platform.slow_lists'))`);
  await tx.rows(sql`
    insert into platform.slow_lists as s (tenant_id, hour, entity_id, combination, seen, total_ms, durations)
    select i.tenant_id, date_trunc('hour', now()), i.entity_id, i.combination, i.seen, i.total_ms, i.durations
    from jsonb_to_recordset(${JSON.stringify(lists)}::text::jsonb)
      as i (tenant_id uuid, entity_id uuid, combination text, seen bigint, total_ms bigint, durations int[])
    join platform.tenants as t on t.id = i.tenant_id
    join platform.entity_counts as c on c.tenant_id = i.tenant_id and c.entity_id = i.entity_id and c.slot = 0
    for key share of t skip locked
    on conflict (tenant_id, hour, entity_id, combination) do update set
      seen = s.seen + excluded.seen, total_ms = s.total_ms + excluded.total_ms,
      durations = array(
        select coalesce(a, 0) + coalesce(b, 0) from unnest(s.durations, excluded.durations) with ordinality as d (a, b, step)
        order by step)`);
  await tx.rows(sql`
    delete from platform.slow_lists as s
    using (
      select tenant_id, hour, entity_id, combination,
        row_number() over (partition by tenant_id, entity_id order by total_ms desc, combination) as of_entity,
        row_number() over (partition by tenant_id order by total_ms desc, combination) as of_tenant
      from platform.slow_lists
      where tenant_id = any(${[...new Set(lists.map((list) => list.tenant_id))]}::uuid[])
        and hour = date_trunc('hour', now())
    ) as r
    where (s.tenant_id, s.hour, s.entity_id, s.combination) = (r.tenant_id, r.hour, r.entity_id, r.combination)
      and (r.of_entity > ${perEntity}::int or r.of_tenant > ${perTenant}::int)`);
}

/** A combination that was counted lately. */
export interface SeenCombination {
  combination: string;
  seen: number;
  p50Ms: number;
}

/** The combinations that have taken the most time come first. Other processes add their counts within FLUSH_MS. */
export async function seenCombinations(app: App, entity: Entity): Promise<SeenCombination[]> {
  const { id, tenantId } = entity;
  const read = () =>
    app.db.rows<Omit<SlowList, 'tenant_id' | 'entity_id'>>(sql`
      select combination, seen, total_ms, to_json(durations) as durations
      from platform.slow_lists
      where tenant_id = ${tenantId}::uuid and entity_id = ${id}::uuid
        and hour > now() - ${keptHours}::int * interval '1 hour'`);
  const { stored, unstored } = await slowListsOf(app).withUnstored(entity, read);
  const lists = Map.groupBy([...stored, ...unstored], ({ combination }) => combination);
  return [...lists]
    .map(([combination, own]) => ({
      combination,
      totalMs: own.reduce((sum, { total_ms }) => sum + total_ms, 0),
      seen: own.reduce((sum, { seen }) => sum + seen, 0),
      p50Ms: medianOf(own.map(({ durations }) => durations)),
    }))
    .sort((a, b) => b.totalMs - a.totalMs || (a.combination < b.combination ? -1 : 1))
    .slice(0, perEntity * 4);
}

/**
 * Durations are counted in steps of a quarter of a power of two, up to a minute, so that the counts of all processes and hours
 * add up.
 */
const STEPS = 64;
const STEPS_PER_DOUBLING = 4;

function stepOf(ms: number): number {
  return Math.min(STEPS - 1, Math.max(0, Math.floor(Math.log2(ms) * STEPS_PER_DOUBLING)));
}

/** The middle of the step in which the median is. */
function medianOf(all: readonly (readonly number[])[]): number {
  const sums = Array.from({ length: STEPS }, (_, step) => all.reduce((sum, one) => sum + (one[step] ?? 0), 0));
  let left = sums.reduce((sum, n) => sum + n, 0) / 2;
  const step = sums.findIndex((n) => {
    left -= n;
    return left <= 0;
  });
  return Math.round(2 ** ((step + 0.5) / STEPS_PER_DOUBLING));
}
