// Inserts one record. Concurrent creations of one caller share a statement.
// Failures: the failures of each record by itself; 503 for all of them while the database is unavailable.
// Contract: interface#records, decisions#guarantees.
import type { Entity } from '../../entities/field.ts';
import { SharedStatements } from '../../runtime/shared-statements.ts';
import { jsonBytes } from '../../runtime/text.ts';
import type { Writing } from './context.ts';
import { canShare, keyOfCause, WRITES_MAX } from './sharing.ts';
import { insertRows, type RelationTarget } from './statements.ts';
import type { PreparedRow } from './triggers.ts';

/** A row to insert, and the records that it points at. */
interface Insertion {
  row: PreparedRow;
  targets: readonly RelationTarget[];
}

const shared = new SharedStatements<Insertion, true>({
  itemsMax: WRITES_MAX,
  bytesOf: ({ row }) => jsonBytes(row.data),
});

/** Inserts a row. Resolves to false when the definition has changed or a target is missing. */
export async function insertTogether(writing: Writing, entity: Entity, own: Insertion): Promise<boolean> {
  const { publication } = writing;
  const insert = async (insertions: readonly Insertion[]): Promise<(true | undefined)[]> => {
    const rows = insertions.map(({ row }) => row);
    const inserted = await insertRows(publication, entity, rows, merged(insertions));
    return rows.map(() => inserted.length === rows.length || undefined);
  };
  if (!canJoin(writing, entity, own)) return (await insert([own]))[0] === true;
  return (await shared.run(entity, keyOfCause(publication.cause), own, insert)) === true;
}

/**
 * Rows with unique values are inserted alone, since two statements of several rows could wait for each other. Rows that start
 * rules are inserted alone too.
 */
function canJoin(writing: Writing, entity: Entity, { row, targets }: Insertion): boolean {
  return (
    canShare(writing, entity, 'record.created') &&
    row.starts.length === 0 &&
    targets.every(({ rowFilter }) => rowFilter === null) &&
    !entity.fields.some(({ unique, next }) => unique || next !== undefined)
  );
}

/** Merges the targets of each table. */
function merged(insertions: readonly Insertion[]): readonly RelationTarget[] {
  const [only] = insertions;
  if (insertions.length === 1 && only !== undefined) return only.targets;
  const byTable = Map.groupBy(
    insertions.flatMap(({ targets }) => targets),
    ({ table }) => table,
  );
  return [...byTable].map(([table, targets]) => ({
    table,
    ids: [...new Set(targets.flatMap(({ ids }) => ids))],
    rowFilter: null,
  }));
}
