// Builds and drops the indexes of an entity's records while they are being written.
// Failures: 409 when values are not unique, or are too large for an index.
// Contract: decisions#field-changes, decisions#indexes.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../app.ts';
import { conflict } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { buildIndexBeside, cancelWaitingBuilds } from '../runtime/index-builds.ts';
import { limitLockWaits } from '../runtime/locks.ts';
import { isLockTimeout } from '../runtime/postgres/failures.ts';
import { identifier, sql } from '../runtime/sql.ts';
import type { Entity } from './field.ts';
import { createIndex, INDEX_NAMES, type RecordIndex, requiredIndexes } from './indexes.ts';
import { countDuplicates, storedConflict } from './stored-validation.ts';

const { smallRecords, smallBytes, lockWaitMs, lockAttempts } = LIMITS.indexBuild;

/**
 * Builds indexes while records are being written. 409 with the count when values are not unique. Queries may use the index of a
 * large entity only once the older statements of all tenants have ended. A dry run only verifies the values, and builds no
 * index.
 */
export async function buildIndexes(app: App, entity: Entity, indexes: readonly RecordIndex[]): Promise<void> {
  if (app.db.dryRun !== undefined) return;
  for (const index of indexes) {
    await cancelWaitingBuilds(app.db, entity.schema, entity.tableName);
    try {
      await buildIndex(app, entity, index);
    } catch (error) {
      const { code } = (error ?? {}) as { code?: string };
      if (code === '54000') throw conflict('stored values are too large for an index');
      if (code !== '23505' || index.unique === null) throw error;
      const count = Math.max(2, await countDuplicates(app, entity, index.unique));
      throw storedConflict([{ path: 'unique', message: `${count} record(s) share a value with another` }]);
    }
  }
}

/**
 * Builds one index. For a small entity, writes wait during the build, and queries can use the index at once. A lock that is not
 * free at once is tried again later, so that writes wait no longer than the build.
 */
async function buildIndex(app: App, entity: Entity, index: RecordIndex): Promise<void> {
  for (let attempt = 0; attempt < lockAttempts && (await isSmall(app, entity)); attempt++) {
    try {
      await app.db.slow.begin(async (tx) => {
        await limitLockWaits(tx, lockWaitMs);
        await tx.rows(createIndex(entity, index));
      });
      return;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      await delay(lockWaitMs);
    }
  }
  await buildIndexBeside(app.db, createIndex(entity, index, true));
}

async function isSmall(app: App, entity: Entity): Promise<boolean> {
  const size = await app.db.first<{ records: number; bytes: number }>(sql`
    select coalesce(sum(n), 0)::bigint as records, coalesce(sum(bytes), 0)::bigint as bytes
    from platform.entity_counts
    where tenant_id = ${entity.tenantId}::uuid and entity_id = ${entity.id}::uuid`);
  return size !== undefined && size.records <= smallRecords && size.bytes <= smallBytes;
}

/**
 * Drops the indexes that the definition does not require, including the rest of a failed build, and builds those that an
 * interrupted change or an upgrade has left out. It leaves unique indexes to the change of the field.
 */
export async function settleIndexes(app: App, entity: Entity): Promise<void> {
  const required = requiredIndexes(entity);
  const found = await app.db.slow.rows<{ name: string }>(sql`
    select c.relname as name
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    where i.indrelid = to_regclass(${`"${entity.schema}"."${entity.tableName}"`})
      and c.relname ~ ${INDEX_NAMES}`);
  const unused = found.filter(({ name }) => !required.some((index) => index.name === name));
  if (unused.length > 0) await cancelWaitingBuilds(app.db, entity.schema, entity.tableName);
  for (const { name } of unused) {
    await app.db.slow.rows(sql`drop index concurrently if exists ${identifier(entity.schema, name)}`);
  }
  const missing = required.filter(({ name, unique }) => unique === null && !found.some((index) => index.name === name));
  await buildIndexes(app, entity, missing);
}
