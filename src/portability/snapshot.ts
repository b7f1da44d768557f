// All data of a tenant at one moment: one statement reads it, in one database snapshot. The statement names the tables of the
// entities, so the definitions are read before it and again by it; if they differ, it starts over.
// Rows have the columns of an export (stored-row.ts) and a third one with the type of the row: 'header', 'end', a kind of the
// document, or, for a record, the id of its entity.
// Failures: 404, 409 if the definitions keep changing.
// Contract: portability#snapshot.
import type { App } from '../app.ts';
import { type Catalog, loadCatalog } from '../entities/catalog.ts';
import { conflict, notFound } from '../errors.ts';
import { EVERY_ENTITY } from '../events/entity-change.ts';
import { LIMITS } from '../limits.ts';
import { EXPORT_COLUMNS } from '../records/transfer/stored-row.ts';
import type { RawRow } from '../runtime/postgres.ts';
import { identifier, join, literal, notKept, type Sql, sql } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';

/** The content of the first row. */
export interface SnapshotHead {
  /** The database snapshot as Postgres prints it, the highest event number visible in it, and its time in milliseconds. */
  snapshot: string;
  last: number;
  at: number;
  tenant: Pick<Tenant, 'slug' | 'name' | 'settings'>;
}

export interface TenantSnapshot {
  /** The definitions in the snapshot. */
  catalog: Catalog;
  head: SnapshotHead;
  /** All rows, in batches. */
  rows: AsyncIterable<RawRow[]>;
}

/** The column with the type of a row. */
export const KIND = 2;
const TRIES = 5;
const UNDEFINED_TABLE = '42P01';
const UNDEFINED_SCHEMA = '3F000';

/** `withHashes` includes users' password hashes. The caller must read the rows to the end, or end the iteration. */
export async function takeTenantSnapshot(app: App, tenant: Tenant, withHashes: boolean): Promise<TenantSnapshot> {
  for (let tries = 0; tries < TRIES; tries++) {
    const catalog = await loadCatalog(app.db, tenant);
    const rows = app.db.stream(statementOf(tenant, catalog, withHashes), LIMITS.transfer.exportBatchRows);
    const batches = rows[Symbol.asyncIterator]();
    const first = await batches.next().catch((error: { code?: string }) => {
      // A table has been dropped meanwhile.
      if (error.code === UNDEFINED_TABLE || error.code === UNDEFINED_SCHEMA) return null;
      throw error;
    });
    if (first === null) continue;
    const [row] = first.value ?? [];
    const head = row === undefined ? null : (JSON.parse(String(row[0])) as SnapshotHead & { definitions: string });
    if (head?.definitions === versionsOf(catalog)) return { catalog, head, rows: from(first.value, batches) };
    await batches.return?.();
    if (head === null) throw notFound('tenant');
  }
  throw conflict('the definitions of this tenant are being changed; try again');
}

async function* from(first: RawRow[], batches: AsyncIterator<RawRow[]>): AsyncGenerator<RawRow[]> {
  try {
    yield first;
    for (let next = await batches.next(); next.done !== true; next = await batches.next()) yield next.value;
  } finally {
    await batches.return?.();
  }
}

/** The versions of the definitions, in the form of the statement's `definitions`. */
function versionsOf({ byId }: Catalog): string {
  return [...byId.values()]
    .map(({ id, version, updatedAt }) => `${id} ${version} ${Date.parse(updatedAt)}`)
    .sort()
    .join();
}

/** `union all` keeps the order of its parts, because the sessions do not run parts of a statement in parallel. */
function statementOf(tenant: Tenant, catalog: Catalog, withHashes: boolean): Sql {
  const definitions = definitionParts(tenant, withHashes).map(
    ([kind, rows]) => sql`(select row_to_json(x)::text, null::text, ${literal(kind)} from (${rows}) as x)`,
  );
  const records = [...catalog.byName.values()].map(
    ({ id, table }) => sql`(select data::text, system, ${literal(id)} from (
      select ${EXPORT_COLUMNS} as system from ${table} as r order by r.id) as x)`,
  );
  const end = sql`select null, null, 'end'`;
  return notKept(join([headPart(tenant), ...definitions, ...records, end], ' union all '));
}

function headPart({ id, schema }: Tenant): Sql {
  return sql`
    (select json_build_object(
      'snapshot', pg_current_snapshot()::text, 'last', platform.last_event(),
      'at', floor(extract(epoch from statement_timestamp()) * 1000),
      'tenant', json_build_object('slug', slug, 'name', name, 'settings', settings),
      'definitions', (
        select coalesce(string_agg(d.key, ',' order by d.key collate "C"), '') from (
          select concat(id, ' ', version, ' ', floor(extract(epoch from updated_at) * 1000)) as key
          from ${identifier(schema, 'entity_definitions')}
        ) as d
      )
    )::text, null::text, 'header'
    from platform.tenants where id = ${id}::uuid)`;
}

/** A time as the API shows it. */
function iso(column: 'created_at' | 'updated_at'): Sql {
  return sql`to_char(${identifier(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

const CREATED = sql`${iso('created_at')} as "createdAt", ${iso('updated_at')} as "updatedAt"`;

function definitionParts({ id, schema }: Tenant, withHashes: boolean): [kind: string, rows: Sql][] {
  const own = (table: string): Sql => identifier(schema, table);
  const nameOf = sql`(select d.name from ${own('entity_definitions')} as d where d.id = t.entity_id)`;
  const ofTenant = sql`tenant_id = ${id}::uuid`;
  return [
    [
      'role',
      sql`select id, name, description, is_system as "isSystem", permissions, entities, ${CREATED}
        from ${own('roles')} order by is_system desc, name collate "C"`,
    ],
    [
      'user',
      sql`select id, email, name, role, is_active as "isActive", ${CREATED}
        ${withHashes ? sql`, password_hash as "passwordHash"` : sql``}
        from ${own('users')} order by id`,
    ],
    [
      'view',
      sql`select id, ${nameOf} as "entitySlug", slug, name, description, filter_dsl as "filterDsl", ${CREATED}
        from platform.views as t where ${ofTenant} order by slug collate "C"`,
    ],
    [
      'rule',
      sql`select id, name, ${nameOf} as entity, trigger, condition, action, priority, is_active as "isActive", ${CREATED}
        from ${own('business_rules')} as t order by priority, id`,
    ],
    [
      'api',
      sql`select id, name, slug, roles, permissions, ${CREATED} from platform.apis where ${ofTenant} order by id`,
    ],
    [
      'subscription',
      sql`select id, case when entity_id = ${EVERY_ENTITY}::uuid then '*' else ${nameOf} end as entity_name, event_types, url,
          description, is_active, role, filters, (
            select json_agg(f.key order by f.position, f.id) from ${own('field_definitions')} as f
            where f.entity_id = t.entity_id and f.id = any(t.field_ids)
          ) as fields, include, ${iso('created_at')} as created_at, ${iso('updated_at')} as updated_at
        from platform.webhook_subscriptions as t where ${ofTenant} order by id`,
    ],
  ];
}
