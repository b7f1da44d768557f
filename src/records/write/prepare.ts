// Turns a request's body into the row to store: checks the values, applies the before rules, and checks the caller's
// row filter on the after image. Failures: 400 with every problem or a rule's rejection, 403 outside the caller's rows.
// Contract: decisions#records, decisions#writes-within-a-role.
import type { TenantCaller } from '../../access/caller.ts';
import type { AccessScope } from '../../entities/access-scope.ts';
import { patternValues, withMatches } from '../../entities/patterns.ts';
import { applyPatch, IS_REQUIRED, readNew, readPatch, type SlotValues, unwrap } from '../../entities/values.ts';
import { forbidden, invalid, type Problem } from '../../errors.ts';
import { newId, timeOf } from '../../runtime/ids.ts';
import type { JsonObject } from '../../runtime/text.ts';
import type { RecordRow } from '../row.ts';
import type { Writing } from './context.ts';
import type { RelationValues } from './references.ts';
import { applyRules, type PreparedRow } from './triggers.ts';

/** The refusal of a new record, or of a record that comes back. */
export const OUTSIDE = 'a record outside your rows cannot be created';

/** A new record. It gets a new id unless one is given. A before rule may set required fields. */
export async function prepareCreate(
  writing: Writing,
  scope: AccessScope,
  body: JsonObject,
  id?: string,
): Promise<PreparedRow> {
  const { entity } = scope;
  const input = unwrap(scope, body);
  const read = () => readNew(entity, input, scope.isVisible);
  const { data, problems } = await withMatches(patternValues(entity, input), read);
  if (entity.rules.length === 0 || problems.some(({ message }) => message !== IS_REQUIRED)) {
    throwProblems(withoutHidden(scope, problems));
  }
  const change = { operation: 'create', before: null, after: newRow(writing.caller, data, id) } as const;
  const row = await applyRules(writing, entity, change);
  const missing = problems.filter(({ path }) => row.data[entity.byKey.get(path)?.slot ?? ''] === undefined);
  throwProblems(withoutHidden(scope, missing));
  await requireOwnRows(writing, scope, row, OUTSIDE);
  return row;
}

/** The after image of a record, and the values that change. */
export async function prepareUpdate(
  writing: Writing,
  scope: AccessScope,
  before: RecordRow,
  body: JsonObject,
): Promise<{ row: PreparedRow; changed: RelationValues }> {
  const input = unwrap(scope, body);
  const read = () => readPatch(scope.entity, input, scope.isVisible);
  const { data: patch, problems } = await withMatches(patternValues(scope.entity, input), read);
  throwProblems(problems);
  const patched: RecordRow = {
    ...before,
    data: applyPatch(before.data, patch),
    version: before.version + 1,
    updated_at: new Date().toISOString(),
    updated_by: writing.caller.id,
  };
  const row = await applyRules(writing, scope.entity, { operation: 'update', before, after: patched });
  await requireOwnRows(writing, scope, row, 'a record cannot be moved out of your rows');
  return { row, changed: { ...row, data: changedOnly(before.data, row.data) } };
}

/** 403 for a record outside the caller's rows. */
export async function requireOwnRows(
  { evaluator }: Writing,
  { entity, rowFilter }: AccessScope,
  row: RecordRow,
  message: string,
): Promise<void> {
  if (rowFilter !== null && !(await evaluator.meets(entity, rowFilter, row))) throw forbidden(message);
}

/** The row of a new record. If its id is made here, `createdAt` is the time in the id, so that both have the same order. */
export function newRow(caller: TenantCaller, data: SlotValues, givenId?: string): RecordRow {
  const id = givenId ?? newId();
  const at = new Date(givenId === undefined ? timeOf(id) : Date.now()).toISOString();
  return {
    id,
    version: 1,
    data,
    created_at: at,
    updated_at: at,
    created_by: caller.id,
    updated_by: caller.id,
  };
}

/** The values that differ, because an unchanged relation is not checked again. */
function changedOnly(before: SlotValues, after: SlotValues): SlotValues {
  const changed: SlotValues = {};
  for (const [slot, value] of Object.entries(after)) {
    if (value !== before[slot] && JSON.stringify(value) !== JSON.stringify(before[slot])) changed[slot] = value;
  }
  return changed;
}

/** The problems without the names of required fields that the caller may not see. */
function withoutHidden({ entity, isVisible }: AccessScope, problems: readonly Problem[]): readonly Problem[] {
  const shown = problems.filter(({ path, message }) => {
    const field = entity.byKey.get(path);
    return message !== IS_REQUIRED || field === undefined || isVisible(field);
  });
  if (shown.length === problems.length) return problems;
  const message = 'records of this entity cannot be created with these permissions; ask an administrator';
  return [...shown, { path: 'request', message }];
}

function throwProblems(problems: readonly Problem[]): void {
  if (problems.length > 0) throw invalid(problems);
}
