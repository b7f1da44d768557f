// The database indexes of a field: unique, by value, by member of a list. They use the same SQL expressions as
// conditions, so that Postgres matches them.
// Contract: decisions#field-changes.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../app.ts';
import { conflict } from '../errors.ts';
import { columnOf } from '../expression/to-sql.ts';
import { LIMITS } from '../limits.ts';
import { buildIndexBeside, cancelWaitingBuilds } from '../runtime/index-builds.ts';
import { identifier, literal, raw, type Sql, sql } from '../runtime/sql.ts';
import type { Entity, Field } from './field.ts';
import { specOf } from './field-types.ts';
import { countDuplicates, storedConflict } from './stored-validation.ts';

const { smallRecords, smallBytes, lockWaitMs, lockAttempts } = LIMITS.indexBuild;
const LOCK_NOT_AVAILABLE = '55P03';

type IndexKind = 'unique' | 'value' | 'members';

/** At most 63 bytes: the partition's name, the slot, the kind. */
export function indexName(entity: Pick<Entity, 'tableName'>, field: Pick<Field, 'slot'>, kind: IndexKind): string {
  return `${entity.tableName}_${field.slot}_${kind}`;
}

/** The indexes that a field's definition requires. */
export function indexKinds(field: Pick<Field, 'type' | 'unique' | 'indexed'>): IndexKind[] {
  const { index, isAlwaysIndexed } = specOf(field);
  const own = index !== null && (field.indexed || isAlwaysIndexed) ? [index] : [];
  return field.unique ? ['unique', ...own] : own;
}

/** The statement that builds the index; `concurrently` for a table that is being written to. */
export function createIndex(entity: Entity, field: Field, kind: IndexKind, concurrently = false): Sql {
  const name = identifier(indexName(entity, field, kind));
  const kindOfIndex = raw(`${kind === 'unique' ? 'unique ' : ''}index${concurrently ? ' concurrently' : ''}`);
  if (kind === 'members') {
    return sql`create ${kindOfIndex} ${name} on ${entity.table} using gin ((data -> ${literal(field.slot)}))`;
  }
  const column = columnOf(field.ref, identifier(entity.tableName));
  const columns = kind === 'unique' ? sql`(${column})` : sql`(${column}), id`;
  return sql`create ${kindOfIndex} ${name} on ${entity.table} (${columns})`;
}

/**
 * Builds indexes while records are being written. 409 with the count when values are not unique. Queries may use the index of
 * a large entity only later, when the older statements of all tenants have ended. A dry run has verified the values, and builds
 * none.
 */
export async function buildIndexes(app: App, entity: Entity, field: Field, kinds: readonly IndexKind[]): Promise<void> {
  if (app.db.dryRun !== undefined) return;
  for (const kind of kinds) {
    await cancelWaitingBuilds(app.db, entity.schema, entity.tableName);
    try {
      await buildIndex(app, entity, field, kind);
    } catch (error) {
      const { code } = (error ?? {}) as { code?: string };
      if (code === '54000') throw conflict('stored values are too large for an index');
      if (code !== '23505') throw error;
      const count = Math.max(2, await countDuplicates(app, entity, field));
      throw storedConflict([{ path: 'unique', message: `${count} record(s) share a value with another` }]);
    }
  }
}

/**
 * The index of a small entity is built while its writes wait, and can be used at once; a lock that is not free at once is
 * tried again, so that they wait no longer.
 */
async function buildIndex(app: App, entity: Entity, field: Field, kind: IndexKind): Promise<void> {
  for (let attempt = 0; attempt < lockAttempts && (await isSmall(app, entity)); attempt++) {
    try {
      await app.db.slow.begin(async (tx) => {
        await tx.rows(sql`select set_config('lock_timeout', ${`${lockWaitMs}ms`}, true)`);
        await tx.rows(createIndex(entity, field, kind));
      });
      return;
    } catch (error) {
      if ((error as { code?: string } | null)?.code !== LOCK_NOT_AVAILABLE) throw error;
      await delay(lockWaitMs);
    }
  }
  await buildIndexBeside(app.db, createIndex(entity, field, kind, true));
}

async function isSmall(app: App, entity: Entity): Promise<boolean> {
  const size = await app.db.first<{ records: number; bytes: number }>(sql`
    select coalesce(sum(n), 0)::bigint as records, coalesce(sum(bytes), 0)::bigint as bytes
    from platform.entity_counts
    where tenant_id = ${entity.tenantId}::uuid and entity_id = ${entity.id}::uuid`);
  return size !== undefined && size.records <= smallRecords && size.bytes <= smallBytes;
}

/** Drops indexes that no field requires, also those that a failed build left behind. */
export async function dropUnusedIndexes(app: App, entity: Entity): Promise<void> {
  const required = new Set(
    entity.fields.flatMap((field) => indexKinds(field).map((kind) => indexName(entity, field, kind))),
  );
  const found = await app.db.slow.rows<{ name: string }>(sql`
    select c.relname as name
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    where i.indrelid = to_regclass(${`"${entity.schema}"."${entity.tableName}"`})
      and c.relname ~ '_f[0-9]+_(unique|value|members)(_cc(new|old)[0-9]*)?$'`);
  const unused = found.filter(({ name }) => !required.has(name));
  if (unused.length > 0) await cancelWaitingBuilds(app.db, entity.schema, entity.tableName);
  for (const { name } of unused) {
    await app.db.slow.rows(sql`drop index concurrently if exists ${identifier(entity.schema, name)}`);
  }
}
