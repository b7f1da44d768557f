// The indexes by which the events of one record, and the deletions of one entity, are found: each partition has its own. While a
// day is written to, that by record holds nothing else: Postgres then keeps each record once in a page, however many events it
// has, and changes pay less than can be measured reliably. When the day is over it is replaced by one with the version beside it,
// which spares reading all of a record's events, is five times as large, and made the statement of a change up to 13 % slower.
// The others are partial: only deletions and records that come back pay. All but those of new partitions are built beside writers.
// Failures: the database's own; a build that failed is made again. Contract: history#cost.
import type { App } from '../app.ts';
import { buildIndexBeside, isNotBeingBuilt } from '../runtime/index-builds.ts';
import { identifier, raw, type Sql, sql } from '../runtime/sql.ts';

const DEFINITIONS = {
  record: sql`(record_id)`,
  versions: sql`(record_id, version) where version is not null`,
  deleted: sql`(entity_id, at desc nulls last, record_id) where type = 'record.deleted'`,
  restored: sql`(record_id, version) where type = 'record.created' and version > 1`,
} as const;
type IndexKind = keyof typeof DEFINITIONS;
/** Of a partition that is written to, and of a day that is over. */
const OPEN: readonly IndexKind[] = ['record', 'deleted', 'restored'];
const CLOSED: readonly IndexKind[] = ['versions', 'deleted', 'restored'];

/** The statements that index a new partition. */
export function newPartitionIndexes(partition: string): Sql[] {
  return OPEN.map((kind) => createIndex(partition, kind, ''));
}

function createIndex(partition: string, kind: IndexKind, how: '' | 'concurrently if not exists'): Sql {
  const table = identifier('platform', partition);
  return sql`create index ${raw(how)} ${identifier(nameOf(partition, kind))} on ${table} ${DEFINITIONS[kind]}`;
}

function nameOf(partition: string, kind: IndexKind): string {
  return `${partition}_${kind}_idx`;
}

/**
 * Builds what partitions lack, the newest first, and drops what one of a day that is over no longer needs. Resolves to the
 * number of indexes built and dropped.
 */
export async function keepRecordIndexes(
  app: App,
  signal: AbortSignal,
  isClosed: (partition: string) => boolean,
): Promise<number> {
  const found = await app.db.slow.rows<{ partition: string; name: string | null; is_valid: boolean; is_left: boolean }>(
    sql`
    select t.relname::text as partition, c.relname::text as name, coalesce(x.indisvalid, false) as is_valid,
      c.oid is not null and ${isNotBeingBuilt(sql`c.oid`)} as is_left
    from pg_inherits as i
    join pg_class as t on t.oid = i.inhrelid
    left join pg_index as x on x.indrelid = t.oid
    left join pg_class as c on c.oid = x.indexrelid
    where i.inhparent = 'platform.events'::regclass
    order by t.relname desc`,
  );
  let done = 0;
  for (const [partition, indexes] of Map.groupBy(found, (row) => row.partition)) {
    const indexOf = (kind: IndexKind) => indexes.find(({ name }) => name === nameOf(partition, kind));
    for (const kind of isClosed(partition) ? CLOSED : OPEN) {
      if (signal.aborted) return done;
      const known = indexOf(kind);
      if (known?.is_valid === true || known?.is_left === false) continue;
      if (known !== undefined) await dropIndex(app, partition, kind);
      await buildIndexBeside(app.db, createIndex(partition, kind, 'concurrently if not exists'));
      done++;
    }
    if (isClosed(partition) && indexOf('versions')?.is_valid === true && indexOf('record') !== undefined) {
      await dropIndex(app, partition, 'record');
      done++;
    }
  }
  return done;
}

async function dropIndex(app: App, partition: string, kind: IndexKind): Promise<void> {
  await app.db.slow.rows(sql`drop index concurrently if exists ${identifier('platform', nameOf(partition, kind))}`);
}
