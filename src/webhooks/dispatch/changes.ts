// Changes that are judged for subscriptions, as statements return them: the event of a delivery's row, and the columns by which a
// subscription is judged. The values of an event that is no longer kept are null.
// Contract: decisions#webhooks-for-others.
import type { RecordEventType } from '../../events/event.ts';
import { type Sql, sql } from '../../runtime/sql.ts';
import type { Audience, JudgedChange } from '../audience.ts';

/** `version` and `data` are null when the event is no longer kept. */
export interface Change {
  entity_id: string;
  record_id: string;
  event_at: string;
  version: number | null;
  data: Record<string, unknown> | null;
  erased_at: string | null;
  created_at: string;
  updated_at: string;
  created_by: string | null;
  updated_by: string | null;
}

/** The columns of a Change, except its entity, from a delivery `d` and its event `e`. */
export const CHANGE_COLUMNS: Sql = sql`d.record_id, d.event_at, e.version, e.data, e.erased_at, e.created_at, e.updated_at, e.created_by,
  e.updated_by`;

/** Joins the event `e` of each delivery `d`. Of an erased record only the deletion is left. */
export const EVENT_OF_DELIVERY: Sql = sql`
  left join lateral (
    select * from platform.events as e
    where e.seq = d.event_seq and e.at = d.event_at and (e.erased_at is null or d.type = 'record.deleted')
    limit 1
  ) as e on true`;

/** A subscription that judges changes. */
export interface Judging extends Audience {
  id: string;
  entity_id: string;
  event_types: RecordEventType[];
  is_active: boolean;
  updated_at: string;
}

/** The columns of a Judging, from a subscription `s`. */
export const JUDGING_COLUMNS: Sql = sql`s.id, s.entity_id, s.event_types, s.role, s.filters, s.field_ids, s.is_active,
  s.updated_at`;

/** Null when the event is no longer kept. */
export function changeOf(row: Change): JudgedChange | null {
  const { record_id: id, version, data, event_at: at, erased_at } = row;
  if (version === null || data === null) return null;
  return { row: { ...row, id, version, data }, at, isErased: erased_at !== null };
}
