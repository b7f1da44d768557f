// The six checks of the tenants' schemas, for all tenants in a few statements: what is missing is
// found in Postgres's own catalogues; only flags and partitions are asked of the tenants, many at a
// time. A table that is missing stands for all that would be in it.
// Contract: interface#schema-health, decisions#operations.
import type { App } from '../app.ts';
import { identifier, join, type Queries, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { schemaOf } from '../tenants/tenants.ts';
import { type Check, type Finding, FLAG_COLUMNS, HNSW_COLUMN, TRIGGER } from './issues.ts';

/** A tenant and what is wrong with its schema. */
export interface CheckedTenant {
  id: string;
  slug: string;
  findings: Finding[];
}

/** Tenants asked in one statement: each costs three locks while it runs. */
const TENANTS_AT_ONCE = 200;
const ATTEMPTS = 3;

/** Checks all tenants, in the order of their slugs. One that is dropped meanwhile is checked again without it. */
export async function checkSchemas(app: App): Promise<CheckedTenant[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await check(app, app.db.slow);
    } catch (error) {
      if (attempt === ATTEMPTS || !isGone(error)) throw error;
    }
  }
}

/** What is wrong with one tenant's schema. */
export async function checkTenant(app: App, tx: Tx, tenantId: string): Promise<Finding[]> {
  return (await check(app, tx, tenantId))[0]?.findings ?? [];
}

function isGone(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === '42P01' || code === '3F000';
}

async function check(app: App, queries: Queries, only?: string): Promise<CheckedTenant[]> {
  const tenants = await readTenants(queries, only);
  const findings = new Findings(tenants);
  const hasVector = await queries.first(sql`select from pg_extension where extname = 'vector'`);
  if (hasVector === undefined) for (const { id } of tenants) findings.add(id, 'extension_exists', null, null);
  await findMissingColumns(app, queries, findings, only);
  await findMissingTriggerAndIndex(queries, findings, only);
  for (let i = 0; i < tenants.length; i += TENANTS_AT_ONCE) {
    const readable = tenants.slice(i, i + TENANTS_AT_ONCE).filter(({ id }) => findings.canReadDefinitions(id));
    await findInThoseThere(queries, findings, readable, only);
  }
  return tenants;
}

/** Asks again without those that have been dropped meanwhile, however many and one after the other they are. */
async function findInThoseThere(queries: Queries, findings: Findings, tenants: CheckedTenant[], only?: string) {
  let asked = tenants;
  while (asked.length > 0) {
    try {
      return await findInDefinitions(queries, findings, asked);
    } catch (error) {
      // Within a transaction nothing can be asked after a failure; its tenant is held and cannot go.
      if (!isGone(error) || only !== undefined) throw error;
      const there = new Set((await readTenants(queries)).map(({ id }) => id));
      const left = asked.filter(({ id }) => there.has(id));
      if (left.length === asked.length) throw error;
      asked = left;
    }
  }
}

async function readTenants(queries: Queries, only?: string): Promise<CheckedTenant[]> {
  const rows = await queries.rows<{ id: string; slug: string }>(sql`
    select id, slug from platform.tenants where ${onlyOne(only)} order by slug collate "C"`);
  return rows.map(({ id, slug }) => ({ id, slug, findings: [] }));
}

function onlyOne(only?: string): Sql {
  return only === undefined ? sql`true` : sql`id = ${only}::uuid`;
}

/** What has been found, by tenant. A tenant made since the check began is left for the next one. */
class Findings {
  readonly #byId: Map<string, Finding[]>;

  constructor(tenants: readonly CheckedTenant[]) {
    this.#byId = new Map(tenants.map(({ id, findings }) => [id, findings]));
  }

  add(id: string, check: Check, table: string | null, column: string | null, name?: string): void {
    this.#byId.get(id)?.push({ check, table, column, ...(name === undefined ? {} : { name }) });
  }

  lacks(id: string, table: string, column: string): boolean {
    const found = this.#byId.get(id) ?? [];
    return found.some((it) => it.table === table && (it.check === 'table_exists' || it.column === column));
  }

  canReadDefinitions(id: string): boolean {
    return !FLAG_COLUMNS.some((column) => this.lacks(id, 'entity_definitions', column));
  }
}

/** The tenants' schemas, and the tables that are there of those that are required. */
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

/** One row for a table that is missing, and one for each column that a table lacks. */
async function findMissingColumns(app: App, queries: Queries, findings: Findings, only?: string): Promise<void> {
  const required = [...app.tenantSchema.columns].flatMap(([table, columns]) => columns.map((name) => [table, name]));
  const tables = required.map(([table]) => table as string);
  const columns = required.map(([, name]) => name as string);
  const missing = await queries.rows<{ id: string; table: string; column: string | null }>(sql`
    with ${withTables(only, [...app.tenantSchema.columns.keys()])},
    required as (
      select * from unnest(${tables}::text[], ${columns}::text[]) with ordinality as r (name, attribute, place)
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
    order by min(r.place)`);
  for (const { id, table, column } of missing) if (column === null) findings.add(id, 'table_exists', table, null);
  for (const { id, table, column } of missing) if (column !== null) findings.add(id, 'column_exists', table, column);
}

async function findMissingTriggerAndIndex(queries: Queries, findings: Findings, only?: string): Promise<void> {
  const rows = await queries.rows<{ id: string; name: string; has_trigger: boolean; has_index: boolean }>(sql`
    with ${withTables(only, ['entity_definitions', 'chunks'])}
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
    if (name === 'chunks' && !hasIndex) findings.add(id, 'hnsw_index_exists', name, HNSW_COLUMN);
  }
}

/** System entities without their flag, and entities whose table of records is gone. */
async function findInDefinitions(queries: Queries, findings: Findings, tenants: readonly CheckedTenant[]) {
  const definitions = tenants.map(
    ({ id }) => sql`
      select ${id} as id, ${schemaOf(id)} as schema, 'r_' || replace(id::text, '-', '') as relation, name,
        name ^@ '_svc_' and not is_system as unflagged
      from ${identifier(schemaOf(id), 'entity_definitions')}`,
  );
  // Postgres's catalogue is read once for all of them: its own guess would be once for each.
  const rows = await queries.rows<{ id: string; name: string; unflagged: boolean; tableless: boolean }>(sql`
    with definition as materialized (${join(definitions, ' union all ')}),
    relation as materialized (
      select n.nspname::text as schema, c.relname::text as name
      from pg_class as c
      join pg_namespace as n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and c.relname::text ^@ 'r_'
    )
    select d.id, d.name, d.unflagged, r.name is null as tableless
    from definition as d
    left join relation as r on r.schema = d.schema and r.name = d.relation
    where d.unflagged or r.name is null
    order by d.id, d.name`);
  for (const { id, name, unflagged, tableless } of rows) {
    if (unflagged) findings.add(id, 'system_entity_flag', 'entity_definitions', 'is_system', name);
    // What was put in by hand, past trigger and service, is one finding: its repair makes the table too.
    else if (tableless) findings.add(id, 'table_exists', 'entity_records', null, name);
  }
}
