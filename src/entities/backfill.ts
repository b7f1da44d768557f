// Scans stored values, and rewrites them in small batches, bounded by rows and bytes, while records are being written. A batch
// skips locked rows, and replaces rows only if neither they nor the entity's definition have changed since it read them: no
// write is lost, and no writer waits longer than one batch. Readers see the same records afterwards, so a backfill emits no
// events and keeps `updatedAt`. A backfill that sets values changes ETags, and runs before the change of the field is
// announced; a backfill that only removes the values of retired slots keeps the ETags.
// Contract: decisions#field-changes, neighbours#byte-budgets.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../app.ts';
import { conflict } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { keepGarbageSmall } from '../runtime/garbage.ts';
import { identifier, type Queries, type Sql, sql } from '../runtime/sql.ts';
import type { Entity, Field } from './field.ts';
import { searchVector } from './search-vector.ts';
import type { SlotValues } from './values.ts';

const BATCH_ROWS = 200;
const PAGE_ROWS = 1_000;
/**
 * Bytes of the values read at once; a single record may have more. Reading and writing 2 MB took the event loop 100 to 200 ms.
 */
const PAGE_BYTES = 262_144;
const MEASURED_ROWS = 1_000;
const PAUSE_MS = 50;
const WAIT_MS = 10_000;
const POLL_MS = 20;

/** A record as it is stored. */
export interface StoredRow {
  id: string;
  version: number;
  data: SlotValues;
}

/**
 * Resolves when all writes that began before this call have ended; 409 after ten seconds. A write locks its table before it
 * reads the definition and holds the lock until its transaction ends, so later writes use the current definition. Does nothing
 * in a dry run, whose definition no other write can use.
 */
export async function waitForOlderWrites(app: App, entity: Entity): Promise<void> {
  if (app.db.dryRun !== undefined) return;
  const deadline = performance.now() + WAIT_MS;
  const writers = sql`
    select virtualtransaction as id from pg_locks
    where locktype = 'relation' and granted and mode = 'RowExclusiveLock'
      and relation = ${`"${entity.schema}"."${entity.tableName}"`}::regclass
      and database = (select oid from pg_database where datname = current_database())`;
  const older = (await app.db.rows<{ id: string }>(writers)).map(({ id }) => id);
  for (let left = older; left.length > 0; ) {
    if (performance.now() > deadline) throw conflict('a long transaction is writing records; try again');
    await delay(POLL_MS);
    const current = (await app.db.rows<{ id: string }>(writers)).map(({ id }) => id);
    left = older.filter((id) => current.includes(id));
  }
}

/**
 * Resolves when no process uses a copy of definitions or roles from before this call. Does nothing in a dry run, which nobody
 * copies.
 */
export async function waitForStaleCopies({ db }: App): Promise<void> {
  if (db.dryRun === undefined) await delay(LIMITS.cacheStaleMs);
}

interface Backfill {
  /** The condition on the rows `r`. */
  where: Sql;
  change: (data: SlotValues) => SlotValues | Promise<SlotValues>;
  /**
   * Whether rows keep their versions, so that concurrent writes do not notice. Only for values that writes drop anyway, in
   * retired slots.
   */
  keepsVersions?: boolean;
}

/**
 * Rewrites all rows that match `where`, until none is left; 409 when some stay locked. Does nothing in a dry run: the values
 * were verified before, and writers would have to wait for each row.
 */
export async function backfill(app: App, entity: Entity, rewriting: Backfill): Promise<void> {
  if (app.db.dryRun !== undefined) return;
  let deadline = performance.now() + WAIT_MS;
  for (;;) {
    const pass = await backfillPass(app, entity, rewriting);
    if (pass.read === 0) return;
    if (pass.written > 0) deadline = performance.now() + WAIT_MS;
    else if (performance.now() > deadline) throw conflict('records stay locked by other transactions; try again');
    else await delay(PAUSE_MS);
  }
}

async function backfillPass(
  app: App,
  entity: Entity,
  { where, change, keepsVersions = false }: Backfill,
): Promise<{ read: number; written: number }> {
  const done = { read: 0, written: 0 };
  for await (const rows of pagesOf<StoredRow>(app, entity, where, sql`r.version, r.data`, sql`r.data`, BATCH_ROWS)) {
    done.read += rows.length;
    const changed: ChangedRow[] = [];
    for (const row of rows) {
      await giveWay();
      changed.push(await changedRow(entity, row, await change(row.data)));
    }
    done.written += await replaceBatch(app, entity, changed, keepsVersions);
  }
  return done;
}

/**
 * The rows `r` that match `where`, by id, in pages of at most `rowsMax` rows and, unless it is one row, `PAGE_BYTES` bytes
 * of `measured`.
 */
export async function* pagesOf<T>(
  app: App,
  entity: Entity,
  where: Sql,
  columns: Sql,
  measured: Sql,
  rowsMax: number,
): AsyncGenerator<T[]> {
  const collected = keepGarbageSmall();
  try {
    for await (const ids of idsOf(app, entity, where, measured, rowsMax)) {
      const page = await app.db.slow.rows<T>(sql`
        select r.id, ${columns} from ${entity.table} as r
        where r.id = any(${ids}::uuid[]) and (${where})
        order by r.id`);
      if (page.length > 0) yield page;
    }
  } finally {
    collected();
  }
}

/** The ids of the pages of `pagesOf`. Each scan measures many rows, since it may visit all rows after the last one. */
async function* idsOf(app: App, entity: Entity, where: Sql, measured: Sql, rowsMax: number): AsyncGenerator<string[]> {
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const rows = await app.db.slow.rows<{ id: string; bytes: number }>(sql`
      with page as materialized (
        select r.id from ${entity.table} as r
        where r.id > ${after}::uuid and (${where})
        order by r.id
        limit ${MEASURED_ROWS}::int
      )
      select r.id, octet_length((${measured})::text) as bytes
      from page as p
      join ${entity.table} as r on r.id = p.id
      order by r.id`);
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.id;
    let ids: string[] = [];
    let bytes = 0;
    for (const row of rows) {
      if (ids.length > 0 && (ids.length >= rowsMax || bytes + row.bytes > PAGE_BYTES)) {
        yield ids;
        ids = [];
        bytes = 0;
      }
      ids.push(row.id);
      bytes += row.bytes;
    }
    yield ids;
  }
}

/** The changes of a stored record: the values that are set, as JSON, and the slots whose values are removed. */
interface ChangedRow extends Pick<StoredRow, 'id' | 'version'> {
  set: string;
  removed: string;
  vector: string | null;
}

/** Sends only the changed values: the values of a record have up to 1 MiB, and twice that during a conversion. */
async function changedRow(entity: Entity, { id, version, data }: StoredRow, next: SlotValues): Promise<ChangedRow> {
  const set = Object.fromEntries(Object.entries(next).filter(([slot, value]) => value !== data[slot]));
  const removed = Object.keys(data).filter((slot) => !Object.hasOwn(next, slot));
  const vector = await searchVector(entity, next);
  return { id, version, set: JSON.stringify(set), removed: JSON.stringify(removed), vector };
}

async function replaceBatch(
  app: App,
  entity: Entity,
  rows: readonly ChangedRow[],
  keepsVersions: boolean,
): Promise<number> {
  const replaced = await app.db.slow.rows(sql`
    with input as (
      select * from unnest(
        ${rows.map(({ id }) => id)}::uuid[],
        ${rows.map(({ version }) => version)}::bigint[],
        ${rows.map(({ set }) => set)}::text[],
        ${rows.map(({ removed }) => removed)}::text[],
        ${rows.map(({ vector }) => vector)}::text[]
      ) as i (id, version, set, removed, search_vector)
    ),
    free as materialized (
      select r.id, i.set::jsonb as set, array(select jsonb_array_elements_text(i.removed::jsonb)) as removed,
        i.search_vector, octet_length(r.data::text) as bytes
      from ${entity.table} as r join input as i on r.id = i.id and r.version = i.version
      where exists (
        select from ${identifier(entity.schema, 'entity_definitions')} as d
        where d.id = ${entity.id}::uuid and d.version = ${entity.version}::bigint)
      for update of r skip locked
    ),
    changed as (
      update ${entity.table} as r
      set data = (r.data - f.removed) || f.set, search_vector = f.search_vector::tsvector, version = r.version + ${keepsVersions ? 0 : 1}::int
      from free as f
      where r.id = f.id
      returning r.id, octet_length(r.data::text) - f.bytes as bytes
    ),
    counted as (
      update platform.entity_counts as n
      set v = n.v + 1, bytes = n.bytes + (select coalesce(sum(c.bytes), 0)::bigint from changed as c)
      where n.tenant_id = ${entity.tenantId}::uuid and n.entity_id = ${entity.id}::uuid
        and n.slot = pg_backend_pid() % ${LIMITS.counterSlots}::int and exists (select from changed)
    )
    select id from changed`);
  return replaced.length;
}

/** The stored values of a field that have more bytes than `bytesOver` as JSON, in pages bounded by rows and bytes. */
export async function* valuesOf(
  app: App,
  entity: Entity,
  { slot }: Field,
  bytesOver: number,
): AsyncGenerator<unknown[]> {
  const value = sql`r.data -> ${slot}::text`;
  const where = bytesOver === 0 ? sql`r.data ? ${slot}::text` : sql`octet_length((${value})::text) > ${bytesOver}::int`;
  for await (const rows of pagesOf<{ id: string; value: unknown }>(
    app,
    entity,
    where,
    sql`${value} as value`,
    value,
    PAGE_ROWS,
  )) {
    yield rows.map((row) => row.value);
  }
}

export async function countRecords(queries: Queries, { table }: Entity): Promise<number> {
  return (await queries.first<{ n: number }>(sql`select count(*) as n from ${table}`))?.n ?? 0;
}

/** The number of records with, or without, a value of the field. */
export async function countValues(app: App, entity: Entity, field: Pick<Field, 'slot'>, isPresent: boolean) {
  const row = await app.db.slow.first<{ n: number }>(sql`
    select count(*) as n from ${entity.table} as r where (r.data ? ${field.slot}::text) = ${isPresent}::boolean`);
  return row?.n ?? 0;
}
