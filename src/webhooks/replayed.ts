// Selects the deliveries of a subscription that a replay sends again: deliveries of changes in a span of time, or of changes after a
// position in the feed; only failed ones, or delivered ones too. A delivery has no transaction number, so its event shows whether a
// change comes after a position.
// Contract: decisions#replay.
import { type FeedPosition, floorOf, isAfter } from '../events/feed.ts';
import { lowestIdAt } from '../runtime/ids.ts';
import { EMPTY, type Sql, sql } from '../runtime/sql.ts';

export interface ReplaySpan {
  /** ISO 8601; `to` is not part of it. */
  from: string;
  to: string;
  since: FeedPosition | null;
  isOfFailed: boolean;
}

/** A transaction that commits after a position began at most this long before the position. */
const TRANSACTION_MS = 3_600_000;

/** The earliest time of changes after a position. */
export function startOf({ at }: FeedPosition): string {
  return new Date(Math.max(0, (at ?? 0) - TRANSACTION_MS)).toISOString();
}

/** The lowest id that a delivery of the span may have. */
export const lowestIdOf = ({ from }: ReplaySpan): string => lowestIdAt(from);

/** The condition of the deliveries `d` of the span. */
export function isInSpan({ from, to, since, isOfFailed }: ReplaySpan): Sql {
  // Literals, so that the index of failed deliveries serves one of them.
  const isMeant = isOfFailed ? sql`d.status = 'failed'` : sql`d.status <> 'pending'`;
  return sql`${isMeant} and d.event_at >= ${from}::timestamptz and d.event_at < ${to}::timestamptz
    ${since === null ? EMPTY : sql`and ${isAfterPosition(since)}`}`;
}

function isAfterPosition(since: FeedPosition): Sql {
  return sql`d.event_seq > ${floorOf(since)}::bigint and (
    select ${isAfter(since, sql`e`)} from platform.events as e
    where e.seq = d.event_seq and e.at = d.event_at
    limit 1)`;
}
