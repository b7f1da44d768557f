// Telling of a change at once: the statement that changes a single record brings its event back where somebody waits
// for it (`Cause.tell`), so that nobody has to look for it in the outbox. To be used outside of a transaction: what
// the statement has answered is committed. Contract: decisions#events.
import type { Entity } from '../../entities/field.ts';
import type { RecordEventType } from '../../events/event.ts';
import type { Cause } from '../../events/outbox.ts';
import { type Queries, type Sql, sql } from '../../runtime/sql.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';

/** A changed row with what tells its event; `evented` must return these. */
export interface EventedRow extends RecordRow {
  event_id: string;
  event_seq: number;
  event_at: string;
  event_xid: string;
}

/** The columns of an EventedRow, of the changed row `r` and its event `e`. */
export const EVENTED_COLUMNS = sql`${RECORD_COLUMNS}, e.id as event_id, e.seq as event_seq, e.at as event_at,
  e.xid::text as event_xid`;

/** A change to be made: of so many rows, in whose cause. */
export interface Change {
  entity: Entity;
  type: RecordEventType;
  rows: number;
  cause: Cause;
}

/**
 * Runs the statement of a change, of which `ctes` is all but the end. Resolves to the rows that it changed: by their ids
 * alone, unless more is asked for or told.
 */
export async function runChange(
  queries: Queries,
  ctes: Sql,
  change: Change,
  columns = sql`r.id`,
): Promise<RecordRow[]> {
  if (change.cause.tell === undefined || change.rows !== 1) {
    return queries.rows<RecordRow>(sql`${ctes} select ${columns} from changed as r`);
  }
  const changed = await queries.rows<EventedRow>(
    sql`${ctes} select ${EVENTED_COLUMNS} from changed as r, evented as e`,
  );
  for (const row of changed) tellOf(row, change);
  return changed;
}

/** Tells whoever waits for it of the row's event. */
export function tellOf(evented: EventedRow, { entity, type, cause }: Omit<Change, 'rows'>): void {
  const { event_id: id, event_seq: seq, event_at: at, event_xid: xid, ...row } = evented;
  const { tenantId, actor, triggeredBy, depth } = cause;
  const of = { tenantId, type, entityId: entity.id, entity: entity.name, recordId: row.id };
  cause.tell?.({ id, seq, at, ...of, row, payload: null, actor, triggeredBy, depth, xid });
}
