// Ids that a file brings for new records. An id that the tenant has used before is accepted only if its record was deleted and
// belonged to the same entity. The new record then continues the version numbers of the deleted one, so that no version is used
// twice, neither as an ETag nor in the history. An erased record does not come back.
// Failures: 409.
// Contract: decisions#import.
import { readsEveryRow } from '../../entities/access-scope.ts';
import type { Entity } from '../../entities/field.ts';
import type { ServiceError } from '../../errors.ts';
import { NO_TABLE_SCANS, sql } from '../../runtime/sql.ts';
import { hasBeenErased, lockDeleted } from '../erase/erase.ts';
import { idTaken } from '../write/constraints.ts';
import type { WritingInTransaction } from '../write/context.ts';

interface Past {
  /** The last version of the record that had the id. */
  version: number;
  refusal?: ServiceError;
}

/** The past of each id that was used before. */
export async function pastOfIds(
  writing: WritingInTransaction,
  entity: Entity,
  ids: readonly string[],
): Promise<Map<string, Past>> {
  const past = await readPast(writing, entity, ids);
  if (past.size === 0) return past;
  // From here on, nobody else brings these records back or erases them.
  for (const id of [...past.keys()].sort()) await lockDeleted(writing.tx, entity.tenantId, id);
  return readPast(writing, entity, ids);
}

async function readPast(
  { tx, caller }: WritingInTransaction,
  entity: Entity,
  ids: readonly string[],
): Promise<Map<string, Past>> {
  await tx.rows(sql`select ${NO_TABLE_SCANS}`);
  const rows = await tx.rows<{ id: string; version: number; is_other: boolean; is_erased: boolean }>(sql`
    select e.record_id as id, max(e.version) as version, bool_or(e.entity_id <> ${entity.id}::uuid) as is_other,
      bool_or(e.erased_at is not null) or exists (
        select from platform.erasures as x
        where x.tenant_id = ${entity.tenantId}::uuid and x.record_id = e.record_id
      ) as is_erased
    from platform.events as e
    where e.record_id = any(${[...ids]}::uuid[]) and e.tenant_id::text = ${entity.tenantId} and e.version is not null
    group by e.record_id`);
  // An erased record has no values left that show whether it was among the caller's rows.
  const isErasureTold = readsEveryRow(caller, entity);
  return new Map(
    rows.map(({ id, version, is_other: isOther, is_erased: isErased }) => {
      const isTaken = isOther || (isErased && !isErasureTold);
      const refusal = isTaken ? idTaken() : isErased ? hasBeenErased() : undefined;
      return [id, { version, ...(refusal === undefined ? {} : { refusal }) }];
    }),
  );
}
