// The six checks of all tenants' schemas, in a few statements. Missing objects are found by comparing Postgres's catalog with
// the reference schema; only flags and record tables are read from the tenants, many at a time. A missing table is one finding,
// not one for each of its columns. A table of definitions that another session locks is reported, and delays no other tenant.
// Contract: interface#schema-health, decisions#operations.
import type { App } from '../app.ts';
import { limitLockWaits } from '../runtime/locks.ts';
import { isLockTimeout } from '../runtime/postgres/failures.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { identifier, join, type Queries, type Sql, sql } from '../runtime/sql.ts';
import { referenceSchema } from '../tenants/reference.ts';
import { schemaOf } from '../tenants/tenants.ts';
import { type Check, type Finding, FLAG_COLUMNS, HNSW_COLUMN, HNSW_TABLE, TRIGGER } from './issues.ts';

/** A tenant and the faults of its schema. */
export interface CheckedTenant {
  id: string;
  slug: string;
  findings: Finding[];
}

/** How many tenants one statement reads; it holds three locks for each. */
const TENANTS_PER_STATEMENT = 200;
const ATTEMPTS = 3;
/** How long a check waits for locks of other sessions, in milliseconds. Meanwhile, it delays changes of the definitions that it reads. */
const LOCK_WAIT_MS = 1_000;

/** Checks all tenants, ordered by slug. A tenant dropped meanwhile makes the check start over without it. */
export async function checkSchemas(app: App): Promise<CheckedTenant[]> {
  const required = await app.db.slow.begin((tx) => requiredColumns(app, tx));
  for (let attempt = 1; ; attempt++) {
    try {
      return await check(app, app.db.slow, required);
    } catch (error) {
      if (attempt === ATTEMPTS || !isGone(error)) throw error;
    }
  }
}

/** The faults of one tenant's schema. The transaction must hold the tenant's lock. */
export async function checkTenant(app: App, tx: Transaction, tenantId: string): Promise<Finding[]> {
  return (await check(app, tx, await requiredColumns(app, tx), tenantId))[0]?.findings ?? [];
}

interface RequiredColumn {
  table: string;
  name: string;
}

/** Every column of the tenant schema. The embedding is required even if the reference, built without pgvector, lacks it. */
export async function requiredColumns(app: App, tx: Transaction): Promise<RequiredColumn[]> {
  const reference = await referenceSchema(app, tx, app.tenantSchema.migrations.length);
  const columns = reference.flatMap(({ kind, table, name }) =>
    kind === 'column' && table !== null ? [{ table, name }] : [],
  );
  const hasEmbedding = columns.some(({ table, name }) => table === HNSW_TABLE && name === HNSW_COLUMN);
  return hasEmbedding ? columns : [...columns, { table: HNSW_TABLE, name: HNSW_COLUMN }];
}

function isGone(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === '42P01' || code === '3F000';
}

async function check(
  app: App,
  queries: Queries,
  required: readonly RequiredColumn[],
  only?: string,
): Promise<CheckedTenant[]> {
  const tenants = await readTenants(queries, only);
  const findings = new Findings(tenants);
  const hasVector = await queries.first(sql`select from pg_extension where extname = 'vector'`);
  if (hasVector === undefined) for (const { id } of tenants) findings.add(id, 'extension_exists', null, null);
  await findMissingColumns(queries, required, findings, only);
  await findMissingTriggerAndIndex(queries, findings, only);
  for (let i = 0; i < tenants.length; i += TENANTS_PER_STATEMENT) {
    const readable = tenants.slice(i, i + TENANTS_PER_STATEMENT).filter(({ id }) => findings.canReadDefinitions(id));
    // A failed transaction accepts no further query; its tenant is locked and cannot be dropped.
    if (only === undefined) await findInRemaining(app, findings, readable);
    else if (readable.length > 0) await findInDefinitions(queries, findings, readable);
  }
  return tenants;
}

/** Runs the checks; when tenants were dropped meanwhile, or their definitions are locked, repeats the query without them. */
async function findInRemaining(app: App, findings: Findings, tenants: CheckedTenant[]): Promise<void> {
  const { slow } = app.db;
  let remaining = tenants;
  for (let attempt = 1; remaining.length > 0; ) {
    const reading = remaining;
    try {
      return await slow.begin(async (tx) => {
        await limitLockWaits(tx, LOCK_WAIT_MS);
        await findInDefinitions(tx, findings, reading);
      });
    } catch (error) {
      if (!isGone(error) && !isLockTimeout(error)) throw error;
      const present = new Set((await readTenants(slow)).map(({ id }) => id));
      const locked = isLockTimeout(error) ? await lockedSchemas(slow) : new Set<string>();
      for (const { id } of reading) if (locked.has(schemaOf(id))) findings.addLocked(id);
      remaining = reading.filter(({ id }) => present.has(id) && !locked.has(schemaOf(id)));
      // The lock may have been released since.
      if (remaining.length === reading.length && (isGone(error) || attempt++ === ATTEMPTS)) throw error;
    }
  }
}

/** The schemas in which a session locks the definitions, or one of their indexes, against readers, or waits to do so. */
async function lockedSchemas(queries: Queries): Promise<Set<string>> {
  const rows = await queries.rows<{ schema: string }>(sql`
    select distinct n.nspname::text as schema
    from pg_locks as l
    left join pg_index as i on i.indexrelid = l.relation
    join pg_class as c on c.oid = coalesce(i.indrelid, l.relation)
    join pg_namespace as n on n.oid = c.relnamespace
    where l.database = (select oid from pg_database where datname = current_database())
      and l.mode = 'AccessExclusiveLock' and c.relname = 'entity_definitions'`);
  return new Set(rows.map(({ schema }) => schema));
}

async function readTenants(queries: Queries, only?: string): Promise<CheckedTenant[]> {
  const rows = await queries.rows<{ id: string; slug: string }>(sql`
    select id, slug from platform.tenants where ${onlyOne(only)} order by slug collate "C"`);
  return rows.map(({ id, slug }) => ({ id, slug, findings: [] }));
}

function onlyOne(only?: string): Sql {
  return only === undefined ? sql`true` : sql`id = ${only}::uuid`;
}

/** Findings by tenant. A tenant created since the check began is ignored. */
class Findings {
  readonly #byId: Map<string, Finding[]>;

  constructor(tenants: readonly CheckedTenant[]) {
    this.#byId = new Map(tenants.map(({ id, findings }) => [id, findings]));
  }

  add(id: string, check: Check, table: string | null, column: string | null, name?: string): void {
    this.#byId.get(id)?.push({ check, table, column, ...(name === undefined ? {} : { name }) });
  }

  addLocked(id: string): void {
    this.#byId.get(id)?.push({ check: 'table_exists', table: 'entity_definitions', column: null, isLocked: true });
  }

  lacks(id: string, table: string, column: string): boolean {
    const found = this.#byId.get(id) ?? [];
    return found.some((it) => it.table === table && (it.check === 'table_exists' || it.column === column));
  }

  canReadDefinitions(id: string): boolean {
    return !FLAG_COLUMNS.some((column) => this.lacks(id, 'entity_definitions', column));
  }
}

/** CTEs: the tenants' schemas, and the given tables that exist in them. */
function withTables(only: string | undefined, tables: readonly string[]): Sql {
  return sql`
    tenant as materialized (
      select id, 't_' || replace(id::text, '-', '') as schema from platform.tenants where ${onlyOne(only)}
    ),
    found as materialized (
      select t.id, c.relname::text as name, c.oid
      from tenant as t
      join pg_namespace as n on n.nspname = t.schema::name
      join pg_class as c on c.relnamespace = n.oid
      where c.relkind in ('r', 'p') and c.relname = any (${tables}::text[]::name[])
    )`;
}

/** Finds missing tables, and missing columns of existing tables. */
async function findMissingColumns(
  queries: Queries,
  required: readonly RequiredColumn[],
  findings: Findings,
  only?: string,
): Promise<void> {
  const tables = required.map(({ table }) => table);
  const columns = required.map(({ name }) => name);
  const missing = await queries.rows<{ id: string; table: string; column: string | null }>(sql`
    with ${withTables(only, [...new Set(tables)])},
    required as (
      select * from unnest(${tables}::text[], ${columns}::text[]) with ordinality as r (name, attribute, position)
    ),
    present as (
      select f.id, f.name, a.attname::text as attribute
      from found as f
      join pg_attribute as a on a.attrelid = f.oid and a.attnum > 0 and not a.attisdropped
    )
    select t.id, r.name as table, case when f.oid is null then null else r.attribute end as column
    from tenant as t
    cross join required as r
    left join found as f on f.id = t.id and f.name = r.name
    left join present as p on p.id = t.id and p.name = r.name and p.attribute = r.attribute
    where p.attribute is null
    group by 1, 2, 3
    order by min(r.position)`);
  for (const { id, table, column } of missing) if (column === null) findings.add(id, 'table_exists', table, null);
  for (const { id, table, column } of missing) if (column !== null) findings.add(id, 'column_exists', table, column);
}

async function findMissingTriggerAndIndex(queries: Queries, findings: Findings, only?: string): Promise<void> {
  const rows = await queries.rows<{ id: string; name: string; has_trigger: boolean; has_index: boolean }>(sql`
    with ${withTables(only, ['entity_definitions', HNSW_TABLE])}
    select f.id, f.name,
      exists (
        select from pg_trigger as g where g.tgrelid = f.oid and g.tgname = ${TRIGGER} and g.tgenabled <> 'D'
      ) as has_trigger,
      exists (
        select
        from pg_index as i
        join pg_class as c on c.oid = i.indexrelid
        join pg_am as m on m.oid = c.relam
        join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
        where i.indrelid = f.oid and i.indisvalid and m.amname = 'hnsw' and a.attname = ${HNSW_COLUMN}
      ) as has_index
    from found as f`);
  for (const { id, name, has_trigger: hasTrigger, has_index: hasIndex } of rows) {
    if (name === 'entity_definitions' && !hasTrigger) findings.add(id, 'trigger_exists', name, null, TRIGGER);
    if (name === HNSW_TABLE && !hasIndex) findings.add(id, 'hnsw_index_exists', name, HNSW_COLUMN);
  }
}

/** Finds system entities without their flag, and entities whose record table is missing. */
async function findInDefinitions(queries: Queries, findings: Findings, tenants: readonly CheckedTenant[]) {
  const definitions = tenants.map(
    ({ id }) => sql`
      select ${id} as id, ${schemaOf(id)} as schema, 'r_' || replace(id::text, '-', '') as relation, name,
        name ^@ '_svc_' and not is_system as unflagged
      from ${identifier(schemaOf(id), 'entity_definitions')}`,
  );
  // `materialized` makes Postgres read its catalog once, not once per tenant.
  const rows = await queries.rows<{ id: string; name: string; unflagged: boolean; has_no_table: boolean }>(sql`
    with definition as materialized (${join(definitions, ' union all ')}),
    relation as materialized (
      select n.nspname::text as schema, c.relname::text as name
      from pg_class as c
      join pg_namespace as n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and c.relname::text ^@ 'r_'
    )
    select d.id, d.name, d.unflagged, r.name is null as has_no_table
    from definition as d
    left join relation as r on r.schema = d.schema and r.name = d.relation
    where d.unflagged or r.name is null
    order by d.id, d.name`);
  for (const { id, name, unflagged, has_no_table: hasNoTable } of rows) {
    if (unflagged) findings.add(id, 'system_entity_flag', 'entity_definitions', 'is_system', name);
    // An entity inserted by hand lacks both: one finding, since the repair of the flag also creates the table.
    else if (hasNoTable) findings.add(id, 'table_exists', 'entity_records', null, name);
  }
}
