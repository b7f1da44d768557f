// Decides what a change is for a caller who sees only some records of an entity: the ones that the role's row filter, and the
// view or the filters, admit. Every output that shows changes uses this decision. It depends on the kind of change, and on
// whether the record is seen before and after it; in any case that is not listed, the caller is shown nothing:
//   created, -   yes: created     updated, yes yes: updated     deleted, yes  -: deleted
//   updated, no  yes: updated without transitions, entered with them
//   updated, yes  no: nothing without transitions, left with them
// Contract: feed#what-a-follower-sees.
import type { RecordEventType } from '../events/event.ts';
import type { RecordRow } from '../records/row.ts';

export type Outcome = 'record.created' | 'record.updated' | 'record.deleted' | 'record.entered' | 'record.left';

/** The record before and after a change; null where there is none. */
export interface Images {
  before: RecordRow | null;
  after: RecordRow | null;
}

/**
 * Judges a change. `isSeen` tells whether the caller sees a record with this image. Null: the change does not concern the
 * caller.
 */
export async function judge(
  type: RecordEventType,
  { before, after }: Images,
  isSeen: (image: RecordRow) => boolean | Promise<boolean>,
  withTransitions: boolean,
): Promise<Outcome | null> {
  const is = async (image: RecordRow | null): Promise<boolean> => image !== null && (await isSeen(image));
  if (type === 'record.deleted') return (await is(before)) ? 'record.deleted' : null;
  const isAfter = await is(after);
  if (type === 'record.created') return isAfter ? 'record.created' : null;
  if (!withTransitions) return isAfter ? 'record.updated' : null;
  const isBefore = await is(before);
  if (isAfter) return isBefore ? 'record.updated' : 'record.entered';
  return isBefore ? 'record.left' : null;
}
