// The size of a record: its values after defaults, rules and templates. A record stored before the limit applied can
// still be changed as long as it does not grow.
// Failures: 400 with the field to shorten. Contract: neighbours#byte-budgets.
import type { TenantCaller } from '../../access/caller.ts';
import { accessScopeOf } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { invalidField } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { isJsonLarger, jsonBytes } from '../../runtime/text.ts';
import type { RecordRow } from '../row.ts';

/**
 * 400 when the after image is over the limit and larger than the before image, which is null for a new record. The message does
 * not state the size, since hidden values may be part of it.
 */
export function requireRecordFits(
  { catalog, caller }: { catalog: Catalog; caller: TenantCaller },
  entity: Entity,
  before: Pick<RecordRow, 'data'> | null,
  after: Pick<RecordRow, 'data'>,
): void {
  if (!isJsonLarger(after.data, LIMITS.recordBytesMax)) return;
  if (before !== null && jsonBytes(after.data) <= jsonBytes(before.data)) return;
  throw invalidField(
    largestField(catalog, caller, entity, after),
    `the record's values take too many bytes as JSON, and at most ${LIMITS.recordBytesMax} are stored; ` +
      'shorten this one, or store parts of it in records of their own',
  );
}

/** The key of the largest value that the caller may see; `body` if there is none. */
function largestField(
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  { data }: Pick<RecordRow, 'data'>,
): string {
  let largest = { key: 'body', bytes: 0 };
  for (const { key, slot } of accessScopeOf(catalog, caller, entity).fields) {
    const bytes = data[slot] === undefined ? 0 : jsonBytes(data[slot]);
    if (bytes > largest.bytes) largest = { key, bytes };
  }
  return largest.key;
}
