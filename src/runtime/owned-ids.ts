// Ids that end with the id of the process that made them, which its database connections also carry. When a process has died, its
// claims and locks are therefore free as soon as it has no connection any more, and not only when their leases end.
// Contract: decisions#deliveries, decisions#field-changes.
import { newId } from './ids.ts';
import { type Sql, sql } from './sql.ts';

/** The part of a process's id that is used: its last two groups, 62 random bits. */
const OWNER_LENGTH = 17;
/** The place of a UUID's version; 8 marks the ids that name their process. */
const VERSION_AT = 14;

/** A new id that names this process. */
export function newOwnedId(processId: string): string {
  const id = newId();
  return `${id.slice(0, VERSION_AT)}8${id.slice(VERSION_AT + 1, -OWNER_LENGTH)}${ownerOf(processId)}`;
}

/** Whether the id in this column names a process that is not among these. */
export function isOfNone(column: Sql, processIds: readonly string[]): Sql {
  return sql`(substr(${column}::text, ${VERSION_AT + 1}::int, 1) = '8'
    and right(${column}::text, ${OWNER_LENGTH}::int) <> all(${processIds.map(ownerOf)}::text[]))`;
}

function ownerOf(processId: string): string {
  return processId.slice(-OWNER_LENGTH);
}
