// Decides which writes of single records may share a statement (`SharedStatements`), and with which others: only with writes of
// the same caller, made under the same version of the entity's definition.
// Contract: interface#records, decisions#guarantees.
import type { Entity } from '../../entities/field.ts';
import type { RecordEventType } from '../../events/event.ts';
import { type Cause, currentTrace } from '../../events/outbox.ts';
import { ROWS_OF_KEPT_PLAN, rowsPerStatement } from '../../events/publication.ts';
import { areWritesLimited } from '../../usage/write-quotas.ts';
import type { OpenWrite } from './context.ts';

/** The most writes of one statement. */
export const WRITES_MAX = ROWS_OF_KEPT_PLAN;

/**
 * Whether a write may share a statement. It may not when an output takes its outcome from the statement, when each write
 * creates many webhook deliveries, close to a quota, or when it is traced.
 */
export function canShare({ tx, publication, caller }: OpenWrite, entity: Entity, type: RecordEventType): boolean {
  return (
    tx === null &&
    publication.isUnobserved &&
    rowsPerStatement({ entity, type }) >= WRITES_MAX &&
    !areWritesLimited(caller) &&
    currentTrace() === null
  );
}

/** Writes with the same key have the same cause. */
export function keyOfCause({ actor, triggeredBy, depth, rootEventId, importId }: Cause): string {
  return JSON.stringify([actor, triggeredBy, depth, rootEventId, importId]);
}
