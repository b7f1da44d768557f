// The indexes by which the events of one record, and the deletions of one entity, are found: each partition has its own. A
// B-tree by record would cost every change of a record (measured: 13 % of the statement), so a day that is written to has a
// BRIN index of Bloom filters, which costs none: it names the few blocks that may hold the record. When the day is over, the
// retention worker builds the B-tree beside the writers and drops the other one. Deletions and
// records that come back have partial indexes: only they pay.
// Failures: the database's own; a build that failed is made again. Contract: history#cost.
import type { App } from '../app.ts';
import { buildIndexBeside, isNotBeingBuilt } from '../runtime/index-builds.ts';
import { identifier, raw, type Sql, sql } from '../runtime/sql.ts';

type IndexKind = 'blocks' | 'record' | 'deleted' | 'restored';
/** Those that every partition has. */
const ALWAYS = ['deleted', 'restored'] as const;

/** About as many different records as the blocks of one filter hold. */
const BLOCKS = raw(`using brin (record_id uuid_bloom_ops(n_distinct_per_range = 1000, false_positive_rate = 0.01))
  with (pages_per_range = 64, autosummarize = on)`);
const DEFINITIONS: Readonly<Record<IndexKind, Sql>> = {
  blocks: BLOCKS,
  record: sql`(record_id, version) where version is not null`,
  deleted: sql`(entity_id, at desc nulls last, record_id) where type = 'record.deleted'`,
  restored: sql`(record_id, version) where type = 'record.created' and version > 1`,
};

/** The statements that index a new partition. */
export function newPartitionIndexes(partition: string): Sql[] {
  return (['blocks', ...ALWAYS] as const).map((kind) => createIndex(partition, kind, ''));
}

function createIndex(partition: string, kind: IndexKind, how: '' | 'concurrently if not exists'): Sql {
  const table = identifier('platform', partition);
  return sql`create index ${raw(how)} ${identifier(nameOf(partition, kind))} on ${table} ${DEFINITIONS[kind]}`;
}

function nameOf(partition: string, kind: IndexKind): string {
  return `${partition}_${kind}_idx`;
}

/**
 * Builds what the partitions lack, and drops what they no longer need; `isClosed` says whether a day is over. Resolves to the
 * number of indexes built and dropped.
 */
export async function maintainRecordIndexes(
  app: App,
  signal: AbortSignal,
  isClosed: (partition: string) => boolean,
): Promise<number> {
  const found = await app.db.slow.rows<{
    partition: string;
    name: string | null;
    is_valid: boolean;
    is_left: boolean;
  }>(sql`
    select t.relname::text as partition, c.relname::text as name, coalesce(x.indisvalid, false) as is_valid,
      c.oid is not null and ${isNotBeingBuilt(sql`c.oid`)} as is_left
    from pg_inherits as i
    join pg_class as t on t.oid = i.inhrelid
    left join pg_index as x on x.indrelid = t.oid
    left join pg_class as c on c.oid = x.indexrelid
    where i.inhparent = 'platform.events'::regclass
    order by t.relname desc`);
  let done = 0;
  for (const [partition, indexes] of Map.groupBy(found, ({ partition }) => partition)) {
    const kept: IndexKind = isClosed(partition) ? 'record' : 'blocks';
    for (const kind of [kept, ...ALWAYS]) {
      if (signal.aborted) return done;
      const known = indexes.find(({ name }) => name === nameOf(partition, kind));
      if (known?.is_valid === true || known?.is_left === false) continue;
      if (known !== undefined) await dropIndex(app, partition, kind);
      await buildIndexBeside(app.db, createIndex(partition, kind, 'concurrently if not exists'));
      done++;
    }
    const isReady = indexes.some(({ name, is_valid }) => name === nameOf(partition, 'record') && is_valid);
    const hasBlocks = indexes.some(({ name }) => name === nameOf(partition, 'blocks'));
    if (kept === 'record' && isReady && hasBlocks) {
      await dropIndex(app, partition, 'blocks');
      done++;
    }
    if (kept === 'blocks' && hasBlocks) await summarize(app, partition);
  }
  return done;
}

/** Postgres makes the filters of new blocks by itself within minutes; the embedded database does not. */
async function summarize(app: App, partition: string): Promise<void> {
  const index = `platform.${nameOf(partition, 'blocks')}`;
  await app.db.slow.rows(sql`select brin_summarize_new_values(${index}::regclass)`);
}

async function dropIndex(app: App, partition: string, kind: IndexKind): Promise<void> {
  await app.db.slow.rows(sql`drop index concurrently if exists ${identifier('platform', nameOf(partition, kind))}`);
}
