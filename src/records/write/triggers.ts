// An entity's rules in the write path: "before" rules change or reject the record to be stored, in the order of
// their priority; "after" rules that match are collected and queued by the statement that makes the change.
// Failures: 400 BUSINESS_RULE_ERROR, 429 while too many runs wait. Contract: decisions#rules, neighbours#byte-budgets.
import type { TenantCaller } from '../../access/caller.ts';
import { allows, OPERATIONS } from '../../access/rights.ts';
import type { App } from '../../app.ts';
import { allNames, visibleFields } from '../../entities/access-scope.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { Action, Entity, Rule, RuleOperation } from '../../entities/field.ts';
import { patternValues, withMatches } from '../../entities/patterns.ts';
import { applyPatch, readPatch } from '../../entities/values.ts';
import { ServiceError } from '../../errors.ts';
import type { Expression } from '../../expression/ast.ts';
import { parseExpression } from '../../expression/parse.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import type { Queries } from '../../runtime/sql.ts';
import { type JsonObject, jsonBytes } from '../../runtime/text.ts';
import type { Evaluator } from '../read/evaluator.ts';
import { type RecordRow, storedRow } from '../row.ts';
import { requireRoomForRuns } from './pending-runs.ts';
import { requireRecordFits } from './record-size.ts';
import { render } from './template.ts';

/** A row, and the slots that "before" rules have set. */
type RowAfterRules = RecordRow & { setByRule?: ReadonlySet<string> };

/** A row to write, and the ids of the after rules that the change starts, in their order. */
export type PreparedRow = RowAfterRules & { starts: readonly string[] };

interface RuleContext {
  app: App;
  queries: Queries;
  evaluator: Evaluator;
  caller: TenantCaller;
  catalog: Catalog;
}

/** `before` is null for a new record; for a deletion, `after` is the same row as `before`. */
interface RowChange {
  operation: RuleOperation;
  before: RecordRow | null;
  after: RecordRow;
}

/** Whether any rule acts before or after changes of this kind. */
export function hasRules(entity: Entity, operation: RuleOperation): boolean {
  return entity.rules.some(({ trigger }) => trigger === `before_${operation}` || trigger === `after_${operation}`);
}

/** Applies the before rules and collects the after rules that the change starts. 400 when a rule rejects it. */
export async function applyRules(context: RuleContext, entity: Entity, change: RowChange): Promise<PreparedRow> {
  const { operation } = change;
  let row: RowAfterRules = change.after;
  if (hasRules(entity, operation)) await includeConditions(context, entity, operation);
  for (const rule of entity.rules) {
    if (rule.trigger !== `before_${operation}`) continue;
    await giveWay();
    if (!(await doesAct(context, entity, rule, { ...change, after: row }))) continue;
    row = await applyAction(context, entity, rule, row);
    context.queries.dryRun?.noteRule(rule.name);
  }
  const starts: string[] = [];
  for (const rule of entity.rules) {
    if (rule.trigger !== `after_${operation}`) continue;
    await giveWay();
    if (!(await doesAct(context, entity, rule, { ...change, after: row }))) continue;
    starts.push(rule.id);
    context.queries.dryRun?.noteRule(rule.name);
  }
  if (operation !== 'delete') requireRecordFits(context, entity, change.before, row);
  if (starts.length > 0) {
    const added = { runs: starts.length, bytes: jsonBytes(row.data) };
    await requireRoomForRuns(context.app, context.queries, context.caller.tenant.id, added);
    if (context.queries.dryRun === undefined) lastStartAt = performance.now();
  }
  return { ...row, starts };
}

/** When a write of this process last started an after rule; the worker, which also polls, uses it as a hint. */
let lastStartAt = Number.NEGATIVE_INFINITY;

/** Whether a write of this process has started any "after" rules in the last `withinMs`. */
export function hasStartedRulesWithin(withinMs: number): boolean {
  return performance.now() - lastStartAt < withinMs;
}

/**
 * The failure names the field only if the caller may see it. It hides everything about an entity on which the caller has no
 * right: a deletion reaches such entities through their references.
 */
async function applyAction(
  { caller }: RuleContext,
  entity: Entity,
  { name, action }: Rule,
  row: RowAfterRules,
): Promise<RowAfterRules> {
  if (action.type === 'reject') throw failureIn(entity, caller, action.message);
  if (action.type !== 'set') return row;
  const values = render(action.values, entity, row, name) as JsonObject;
  const { data, problems } = await withMatches(patternValues(entity, values), () =>
    readPatch(entity, values, () => true),
  );
  const [problem] = problems;
  if (problem !== undefined) {
    const isSeen = visibleFields(caller, entity).some(({ key }) => key === problem.path);
    const told = isSeen ? `the rule "${name}" cannot set ${problem.path}: ${problem.message}` : NEUTRAL_FAILURE;
    throw failureIn(entity, caller, told);
  }
  return {
    ...row,
    data: applyPatch(row.data, data),
    setByRule: new Set([...(row.setByRule ?? []), ...Object.keys(data)]),
  };
}

/**
 * Whether the rule acts on the change. When its condition no longer parses, a before rule rejects every change, and an
 * after rule is started, so that its run fails visibly.
 */
async function doesAct(context: RuleContext, entity: Entity, rule: Rule, change: RowChange): Promise<boolean> {
  try {
    return await conditionHolds(context, entity, rule, change);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.ecode !== 'VALIDATION_ERROR') throw error;
    if (rule.trigger.startsWith('after_')) return true;
    throw failureIn(entity, context.caller, `the rule "${rule.name}" no longer fits its entity`);
  }
}

/** Whether the rule's condition holds for the change. 400 when it does not parse for this entity. */
export async function conditionHolds(
  context: RuleContext,
  entity: Entity,
  rule: Rule,
  { operation, before, after }: RowChange,
): Promise<boolean> {
  const condition = conditionIn(context, entity, rule);
  if (condition === null) return true;
  const changed = (key: string): boolean => {
    const slot = entity.byKey.get(key)?.slot;
    if (slot === undefined || operation === 'delete') return false;
    const [now, old] = [after.data[slot], before?.data[slot]];
    if (now === old || typeof now !== 'object' || typeof old !== 'object') return now !== old;
    return JSON.stringify(now) !== JSON.stringify(old);
  };
  return context.evaluator.meets(entity, condition, after, { old: before && storedRow(before, entity.id), changed });
}

/** The conditions of a write, by rule; what failed to parse is thrown again. */
const conditionsOfWrite = new WeakMap<Evaluator, Map<Rule, Expression | null | ServiceError>>();

/** Announces the conditions of all rules of the operation, so that the related rows that they need are read at once. */
async function includeConditions(context: RuleContext, entity: Entity, operation: RuleOperation): Promise<void> {
  const { evaluator, catalog, caller } = context;
  const conditions = conditionsOfWrite.get(evaluator) ?? new Map<Rule, Expression | null | ServiceError>();
  conditionsOfWrite.set(evaluator, conditions);
  for (const rule of entity.rules) {
    if (!rule.trigger.endsWith(`_${operation}`) || conditions.has(rule)) continue;
    await giveWay();
    try {
      const condition = conditionOf(catalog, caller, entity, rule);
      conditions.set(rule, condition);
      if (condition !== null) evaluator.include(entity, condition);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      conditions.set(rule, error);
    }
  }
}

function conditionIn({ evaluator, catalog, caller }: RuleContext, entity: Entity, rule: Rule): Expression | null {
  const known = conditionsOfWrite.get(evaluator)?.get(rule);
  if (known instanceof ServiceError) throw known;
  return known === undefined ? conditionOf(catalog, caller, entity, rule) : known;
}

const conditions = new WeakMap<Rule, Expression>();

/** The parsed condition; null for none. Parsed once per definition, unless it depends on the time or the caller. */
export function conditionOf(catalog: Catalog, caller: TenantCaller, entity: Entity, rule: Rule): Expression | null {
  if (rule.condition === null) return null;
  const known = conditions.get(rule);
  if (known !== undefined) return known;
  const names = { ...allNames(catalog, caller, entity, new Date()), allowOld: true };
  const condition = parseExpression(rule.condition, names, 'condition');
  if (!/\$(now|currentUser)/.test(rule.condition)) conditions.set(rule, condition);
  return condition;
}

/** The message for callers that may not see the entity to which a rule writes. */
export const NEUTRAL_FAILURE = 'a rule of this entity failed; ask an administrator';

/** The failure of a rule, in its own words only for those who have a right on its entity. */
function failureIn({ name }: Entity, { rights }: TenantCaller, message: string): ServiceError {
  const isKnown = OPERATIONS.some((operation) => allows(rights, operation, name));
  return businessRuleError(isKnown ? message : NEUTRAL_FAILURE);
}

export function businessRuleError(message: string): ServiceError {
  return new ServiceError('BUSINESS_RULE_ERROR', message);
}

/** The action with the placeholders in its texts replaced by the record's values. 400 beyond the limit. */
export function renderAction(action: Action, entity: Entity, row: RecordRow): Action {
  return render(action, entity, row) as Action;
}
