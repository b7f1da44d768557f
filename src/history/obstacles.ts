// The obstacles to restoring a version: values that no longer fit the definition, unique values that another record has by now,
// relations to records that no longer exist. All obstacles are reported at once, except in fields that the caller may not see.
// Failures: 409 with details.
// Contract: history#restore.
import type { AccessScope } from '../entities/access-scope.ts';
import type { Field } from '../entities/field.ts';
import { patternValues, withMatches } from '../entities/patterns.ts';
import { readNew, readPatch, type SlotValues } from '../entities/values.ts';
import { conflict, type Problem } from '../errors.ts';
import { columnOf } from '../expression/to-sql.ts';
import type { Writing } from '../records/write/context.ts';
import { targetsOf } from '../records/write/references.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';

/** The values to write, by field key, including hidden fields; null clears a value. */
interface ValuesToRestore {
  id: string;
  body: JsonObject;
  /** Whether the record does not exist now, so that all its fields are written. */
  isNew: boolean;
}

/** The values by slot. 409 with all obstacles. Before rules may still set required values. */
export async function requireNothingInTheWay(
  writing: Writing,
  scope: AccessScope,
  restored: ValuesToRestore,
): Promise<SlotValues> {
  const { entity } = scope;
  const { body, isNew } = restored;
  const read = () => (isNew ? readNew(entity, body, () => true) : readPatch(entity, body, () => true));
  const { data, problems } = await withMatches(patternValues(entity, body), read);
  const found = [...problems];
  for (const field of entity.fields) {
    const turn = giveWay();
    if (turn !== undefined) await turn;
    const value = data[field.slot];
    if (value == null) continue;
    if (field.unique && (await isTaken(writing, scope, field, restored.id, value))) {
      found.push({ path: field.key, message: 'another record has this value' });
    }
    const missing = await missingTargets(writing, scope, field, value);
    if (missing.length > 0) {
      found.push({ path: field.key, message: `no such record: ${missing.slice(0, 5).join(', ')}` });
    }
  }
  const shown = withoutHidden(scope, found);
  if (shown.length > 0)
    throw conflict(`this version cannot be restored: ${shown[0]?.path} ${shown[0]?.message}`, shown);
  return data;
}

async function isTaken(
  { queries }: Writing,
  { entity }: AccessScope,
  field: Field,
  id: string,
  value: unknown,
): Promise<boolean> {
  const taken = await queries.first(sql`
    select from ${entity.table} as r, (select ${JSON.stringify({ [field.slot]: value })}::text::jsonb as data) as i
    where ${columnOf(field.ref, sql`r`)} = ${columnOf(field.ref, sql`i`)} and r.id <> ${id}::uuid limit 1`);
  return taken !== undefined;
}

/** The records that a relation names but that do not exist, or that the caller may not see. */
async function missingTargets(
  writing: Writing,
  { entity, isVisible }: AccessScope,
  field: Field,
  value: unknown,
): Promise<string[]> {
  const values = { data: { [field.slot]: value }, ...(isVisible(field) ? {} : { setByRule: new Set([field.slot]) }) };
  const [target] = targetsOf(writing, entity, [values]);
  if (target === undefined) return [];
  const { table, ids, rowFilter } = target;
  const found = await writing.queries.rows<{ id: string }>(sql`
    select r.id from ${table} as r where r.id = any(${[...ids]}::uuid[]) and ${rowFilter ?? sql`true`}`);
  const known = new Set(found.map((row) => row.id));
  return ids.filter((one) => !known.has(one));
}

/** Replaces the problems of hidden fields by a neutral one. */
function withoutHidden({ entity, isVisible }: AccessScope, problems: readonly Problem[]): Problem[] {
  const isShown = ({ path }: Problem): boolean => {
    const field = entity.byKey.get(path);
    return field === undefined || isVisible(field);
  };
  const shown = problems.filter(isShown);
  if (shown.length === problems.length) return shown;
  const message = 'something that you may not see is in the way; ask an administrator';
  return [...shown, { path: 'request', message }];
}
