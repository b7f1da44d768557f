// The indexes by which the events of one record, and the deletions of one entity, are found; each partition has its own. The
// index by record holds the record and its version without the last bits. Postgres then stores a record once per page, however
// many events it has: that takes a fifth of the space of an index by record and version, and costs changes half as much. A page
// of a history reads few events more than it shows. The other indexes are partial: only deletions and records that come back
// pay for them. New partitions have the indexes from the start; in older ones they are built while events are being written.
// Failures: the database's own; a build that failed is repeated. Contract: history#cost.
import type { App } from '../app.ts';
import { buildIndexBeside, isNotBeingBuilt } from '../runtime/index-builds.ts';
import { identifier, raw, type Sql, sql } from '../runtime/sql.ts';

/** How many consecutive versions share a value in the index by record; queries must use the same expression. */
export const VERSIONS_ALIKE = 64;

const DEFINITIONS = {
  history: sql`(record_id, (version / ${raw(String(VERSIONS_ALIKE))}))`,
  deleted: sql`(entity_id, at desc nulls last, record_id) where type = 'record.deleted'`,
  restored: sql`(record_id, version) where type = 'record.created' and version > 1`,
} as const;
type IndexKind = keyof typeof DEFINITIONS;
const KINDS = Object.keys(DEFINITIONS) as IndexKind[];

/** The statements that index a new partition. */
export function newPartitionIndexes(partition: string): Sql[] {
  return KINDS.map((kind) => createIndex(partition, kind, ''));
}

function createIndex(partition: string, kind: IndexKind, how: '' | 'concurrently if not exists'): Sql {
  const table = identifier('platform', partition);
  return sql`create index ${raw(how)} ${identifier(nameOf(partition, kind))} on ${table} ${DEFINITIONS[kind]}`;
}

function nameOf(partition: string, kind: IndexKind): string {
  return `${partition}_${kind}_idx`;
}

/** Builds the indexes that partitions lack, the newest partition first. Resolves to the number of indexes built. */
export async function buildRecordIndexes(app: App, signal: AbortSignal): Promise<number> {
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
    for (const kind of KINDS) {
      if (signal.aborted) return done;
      const known = indexes.find(({ name }) => name === nameOf(partition, kind));
      if (known?.is_valid === true || known?.is_left === false) continue;
      if (known !== undefined) await dropIndex(app, partition, kind);
      await buildIndexBeside(app.db, createIndex(partition, kind, 'concurrently if not exists'));
      done++;
    }
  }
  return done;
}

async function dropIndex(app: App, partition: string, kind: IndexKind): Promise<void> {
  await app.db.slow.rows(sql`drop index concurrently if exists ${identifier('platform', nameOf(partition, kind))}`);
}
