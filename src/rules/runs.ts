// The queue of rule runs in the database. A run is claimed before it executes. The claim counts the attempt, sets the time of the next
// one, and is committed: a run that breaks its connection or kills its process therefore ends after its last attempt. The transaction
// of the run's effect takes the run: it deletes the row, unless a later claim has been made. Until that transaction commits, the
// deleted row is locked, so no other process claims the run, however long it takes.
// Contract: decisions#rules, neighbours#byte-budgets.
import { LIMITS } from '../limits.ts';
import { estimatedEntries } from '../runtime/background-read.ts';
import { inParts, PART_ROWS } from '../runtime/parts.ts';
import { ASYNC_COMMIT, plannedOnce, type Queries, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { TENANT_COLUMNS, type Tenant, type TenantRow, toTenant } from '../tenants/tenants.ts';
import type { RuleRun } from './actions.ts';

const { retryAfterMs } = LIMITS.rules;

/** Whether runs of the tenant wait until the tenant is active again. Runs of a deleted tenant end. */
function isSuspended(tenantId: Sql): Sql {
  return sql`exists (select from platform.tenants as s where s.id = ${tenantId} and s.status = 'suspended')`;
}

/** Times are rounded to milliseconds: without the extra millisecond, a run that has just been queued might not be due yet. */
function isDue(run: Sql): Sql {
  return sql`${run}.next_at <= now() + interval '1 ms'`;
}

/** The tenants that have due runs, without suspended ones. */
export async function tenantsWithDueRuns(queries: Queries): Promise<string[]> {
  // One index step for each tenant, however many runs the tenant has.
  const rows = await queries.rows<{ id: string }>(sql`
    with recursive tenant as (
      (select tenant_id as id from platform.rule_runs order by tenant_id limit 1)
      union all
      select (select r.tenant_id from platform.rule_runs as r where r.tenant_id > t.id order by r.tenant_id limit 1)
      from tenant as t
      where t.id is not null
    )
    select t.id from tenant as t
    where exists (
      select from platform.rule_runs as r where r.tenant_id = t.id and not r.is_blocked and ${isDue(sql`r`)})
      and not ${isSuspended(sql`t.id`)}`);
  return rows.map(({ id }) => id);
}

/** The number of runs that wait for their turn or for a retry. Beyond `countedMax` it is an estimate, so that no more are read. */
export async function countRuns(queries: Queries, countedMax: number = LIMITS.metrics.countedMax): Promise<number> {
  const row = await queries.first<{ n: number }>(sql`
    select case
      when c.n <= ${countedMax}::int then c.n
      else greatest(c.n, ${estimatedEntries('platform.rule_runs_pkey')})
    end::float8 as n
    from (select count(*) as n from (select from platform.rule_runs limit ${countedMax + 1}::int) as r) as c`);
  return row?.n ?? 0;
}

/** Due runs that a claim examines; due runs that a marking statement examines; how many marking statements may follow. */
const LOOKED_AT = 10;
const LOOKED_AT_TO_MARK = 500;
const MARKING_STATEMENTS = 20;

/** Claims the tenant's first due run that no earlier run of the same record blocks. */
export async function claimRun(queries: Queries, tenantId: string): Promise<RuleRun | undefined> {
  for (let i = 0; i <= MARKING_STATEMENTS; i++) {
    const found = await queries.first<RuleRun>(claim(tenantId));
    if (found !== undefined || i === MARKING_STATEMENTS) return found;
    // Other processes are claiming or ending the runs that cannot be marked now.
    const marked = await queries.first(markBlocked(tenantId));
    if (marked === undefined) return undefined;
  }
  return undefined;
}

/** Claims one of the first due runs that is the first of its record. A server crash may undo the claim, and the attempt with it. */
function claim(tenantId: string): Sql {
  return plannedOnce(sql`
    update platform.rule_runs as r
    set attempts = r.attempts + 1,
      next_at = now() + (${[...retryAfterMs]}::int[])[least(r.attempts, ${retryAfterMs.length - 1}::int) + 1] * interval '1 ms'
    from (
      select f.position, ${ASYNC_COMMIT} as setting
      from (
        select d.position, d.next_at, d.record_id from platform.rule_runs as d
        where d.tenant_id = ${tenantId}::uuid and not d.is_blocked and ${isDue(sql`d`)}
        order by d.next_at, d.position
        limit ${LOOKED_AT}::int
      ) as l
      join platform.rule_runs as f on f.position = l.position and ${isDue(sql`f`)}
      where not exists (
        select from platform.rule_runs as e where e.record_id = l.record_id and e.tenant_id = ${tenantId}::uuid and e.position < l.position)
        and not ${isSuspended(sql`${tenantId}::uuid`)}
      order by l.next_at, l.position
      limit 1
      for update of f skip locked
    ) as due
    where r.position = due.position
    returning r.position, r.event_id, r.rule_id, r.tenant_id, r.entity_id, r.record_id as id, r.version,
      coalesce(r.data, (select i.data from platform.rule_images as i where i.event_id = r.event_id)) as data,
      r.created_at, r.updated_at, r.created_by, r.updated_by, r.depth, r.root_event_id, r.runs, r.attempts, due.setting`);
}

/**
 * Marks the blocked runs among the first due runs. For each record, the first run whose lock it gets stays unmarked: that lock keeps the
 * earlier run from ending before the marks are visible. Waits for no lock. Returns a row if it has marked any.
 */
function markBlocked(tenantId: string): Sql {
  return plannedOnce(sql`
    with looked_at as materialized (
      select d.position, d.record_id
      from platform.rule_runs as d
      where d.tenant_id = ${tenantId}::uuid and not d.is_blocked and ${isDue(sql`d`)}
      order by d.next_at, d.position
      limit ${LOOKED_AT_TO_MARK}::int
    ), behind as materialized (
      select l.position, h.position as head
      from looked_at as l
      join (
        select s.record_id,
          (select e.position from platform.rule_runs as e
            where e.record_id = s.record_id and e.tenant_id = ${tenantId}::uuid
            order by e.position limit 1) as position
        from (select distinct record_id from looked_at) as s
      ) as h on h.record_id = l.record_id and h.position < l.position
    ), locked as materialized (
      select r.position, r.record_id
      from platform.rule_runs as r
      where r.position = any(array(select position from behind union select head from behind))
      for update skip locked
    ), marked as (
      update platform.rule_runs as r
      set is_blocked = true
      from (select position, row_number() over (partition by record_id order by position) as n from locked) as l
      where r.position = l.position and l.n > 1
      returning 1
    )
    select count(*) as n, ${ASYNC_COMMIT} as setting from marked having count(*) > 0`);
}

/**
 * Deletes a claimed run, whose effect must be part of the same transaction; a trigger unblocks the next run of its record. Resolves to
 * its tenant; undefined when the run has been claimed again or its tenant is gone.
 */
export async function takeRun(tx: Tx, { position, attempts }: RuleRun): Promise<Tenant | undefined> {
  const row = await tx.first<TenantRow>(sql`
    with taken as (
      delete from platform.rule_runs where position = ${position}::bigint and attempts = ${attempts}::int
      returning tenant_id, event_id
    ), image as (
      delete from platform.rule_images as i
      using taken as t
      where i.event_id = t.event_id and not exists (
        select from platform.rule_runs as r where r.event_id = i.event_id and r.position <> ${position}::bigint)
    )
    select ${TENANT_COLUMNS} from platform.tenants where id in (select tenant_id from taken)`);
  return row && toTenant(row);
}

/** Sets the time of the next attempt after a failed one. */
export async function retryLater(queries: Queries, { position, attempts }: RuleRun): Promise<void> {
  await queries.rows(sql`
    update platform.rule_runs
    set next_at = now() + ${retryAfterMs[attempts - 1] ?? 0}::int * interval '1 ms'
    where position = ${position}::bigint and attempts = ${attempts}::int`);
}

/** Undoes the claims of runs that did not begin, so that an outage of the database does not count as an attempt. */
export async function giveBack(queries: Queries, runs: readonly RuleRun[]): Promise<void> {
  if (runs.length === 0) return;
  const [positions, attempts] = [runs.map(({ position }) => position), runs.map((run) => run.attempts)];
  await queries.rows(sql`
    update platform.rule_runs as r
    set attempts = r.attempts - 1, next_at = now()
    from unnest(${positions}::bigint[], ${attempts}::int[]) as c (position, attempts)
    where r.position = c.position and r.attempts = c.attempts`);
}

/**
 * Deletes the runs of a deleted tenant, the last run of each record first: the trigger of a deletion looks for the first run of the
 * record, and has to pass the runs that its statement has deleted. A run that is executing ends by itself.
 */
export async function deleteRunsOf(queries: Queries, tenantId: string): Promise<void> {
  const isOwn = sql`tenant_id = ${tenantId}::uuid`;
  const runs = sql`
    delete from platform.rule_runs where position = any(array(
      select position from platform.rule_runs where ${isOwn}
      order by is_blocked desc, next_at desc, position desc limit ${PART_ROWS}::int
      for update skip locked))`;
  const images = sql`
    delete from platform.rule_images where event_id = any(array(
      select event_id from platform.rule_images where ${isOwn} limit ${PART_ROWS}::int))`;
  for (const part of [runs, images]) {
    await inParts(
      queries,
      () => sql`
      with deleted as (${part} returning 1)
      select count(*)::int as count, null as last from deleted`,
    );
  }
}
