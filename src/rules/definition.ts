// The schemas of a rule, and its validation against the catalog. Validation covers the condition, fields, constants and `{{...}}`
// placeholders, so that every stored rule can run.
// Failures: 400 with every problem. Contract: decisions#rules.
import { type Static, type TString, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { validationNames } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import { type Action, type Entity, PRIORITIES, TRIGGERS, type Trigger } from '../entities/field.ts';
import { type PatternValue, patternValues, withMatches } from '../entities/patterns.ts';
import { readNew, readPatch } from '../entities/values.ts';
import type { Problem } from '../errors.ts';
import { SYSTEM_FIELDS } from '../expression/ast.ts';
import { expressionProblems } from '../expression/parse.ts';
import { check, requireFits, type Valid } from '../http/check.ts';
import { closed, nullable, oneOf, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { placeholdersIn } from '../records/write/template.ts';

const { nameMax, messageMax, priorityMax, conditionMax } = LIMITS.rules;
const { subjectMax, bodyMax } = LIMITS.message;

const Values = Type.Unsafe<Record<string, unknown>>(
  Type.Object(
    {},
    {
      additionalProperties: true,
      description: 'values by field key; strings may contain `{{field}}`',
      examples: [{ status: 'open' }],
    },
  ),
);

function actionSchema(sized: (max: number, options?: Record<string, unknown>) => TString) {
  return Type.Union(
    [
      closed({ type: Type.Literal('reject'), message: sized(messageMax) }),
      closed({ type: Type.Literal('set'), values: Values }),
      closed({ type: Type.Literal('create_record'), entity: sized(nameMax), values: Values }),
      closed({ type: Type.Literal('update_record'), values: Values }),
      closed({
        type: Type.Literal('send_message'),
        to_agent: sized(messageMax, { description: 'a bot, by name or id' }),
        subject: sized(subjectMax),
        body: sized(bodyMax),
        priority: optional(oneOf(PRIORITIES)),
      }),
    ],
    {
      description: '`reject` and `set` for `before` triggers, the others for `after` triggers',
      examples: [{ type: 'reject', message: 'a closed task stays closed' }],
    },
  );
}
const ActionInput = actionSchema(text);
/** An action as returned: with its placeholders filled in, a text may exceed the limits of a request. */
const ActionSchema = Type.Unsafe<Action>(actionSchema((_, options) => Type.String(options)));

const Name = text(nameMax, { examples: ['closed is closed'] });
const EntityName = text(nameMax, { examples: ['task'] });
const TriggerName = oneOf(TRIGGERS, { examples: ['before_update'] });
const Condition = text(2 * conditionMax, {
  description: '`$old.field` is the value before the change, `$changed.field` whether it changes',
  examples: ['$old.status = closed AND $changed.status'],
});
const Priority = Type.Integer({
  minimum: -priorityMax,
  maximum: priorityMax,
  description: 'lower ones run first',
  examples: [0],
});
const IsActive = Type.Boolean({ examples: [true] });

export const RuleSchema = Type.Object(
  {
    id: Uuid,
    name: Name,
    entity: Type.String({ examples: ['task'] }),
    trigger: TriggerName,
    condition: nullable(Condition),
    action: ActionSchema,
    priority: Priority,
    isActive: IsActive,
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { $id: 'Rule' },
);
export type RuleDefinition = Static<typeof RuleSchema>;
export const NewRule = closed({
  name: Name,
  entity: EntityName,
  trigger: TriggerName,
  condition: optional(Condition),
  action: ActionInput,
  priority: optional(Priority),
  isActive: optional(IsActive),
});
export type NewRule = Static<typeof NewRule>;
/** Omitted members keep their value; `entity` cannot change. */
export const RuleChange = Type.Partial(NewRule);
export type RuleChange = Static<typeof RuleChange>;
export const DryRunRequest = Type.Object({ record: Values, old: optional(Values) });
export type DryRunRequest = Static<typeof DryRunRequest>;
export const DryRunSchema = Type.Object({
  matches: Type.Boolean({ examples: [true] }),
  action: nullable(ActionSchema, { description: 'null when the condition does not match' }),
});
export type DryRun = Static<typeof DryRunSchema>;

/** The rule with its defaults. 400 with every problem. */
export async function readRule(catalog: Catalog, caller: TenantCaller, body: NewRule) {
  requireFits(body, 'a rule', LIMITS.definitionBytesMax);
  const rule = await withMatches(constantsOf(catalog, body), () =>
    check(NewRule, body, (valid) => ruleProblems(catalog, caller, valid)),
  );
  const { name, trigger, condition = null, action, priority, isActive } = rule;
  return {
    name,
    entity: catalog.byName.get(rule.entity) as Entity,
    trigger,
    condition,
    action: action.type === 'send_message' ? { ...action, priority: action.priority ?? 'normal' } : action,
    priority: priority ?? 0,
    isActive: isActive ?? true,
  };
}

/** The values of an unchecked action; parsing matches them against patterns. */
function constantsOf(catalog: Catalog, { entity, action }: NewRule): PatternValue[] {
  if (!(action instanceof Object) || !('values' in action) || !(action.values instanceof Object)) return [];
  const target = catalog.byName.get(action.type === 'create_record' ? action.entity : entity);
  return target === undefined ? [] : patternValues(target, action.values);
}

function ruleProblems(
  catalog: Catalog,
  caller: TenantCaller,
  { entity: name, trigger, condition, action }: Valid<NewRule>,
): Problem[] {
  const entity = name === undefined ? undefined : catalog.byName.get(name);
  if (entity === undefined) return name === undefined ? [] : [{ path: 'entity', message: 'is not an entity' }];
  const names = { ...validationNames(catalog, caller, entity), allowOld: true };
  return [
    ...(condition == null ? [] : expressionProblems(condition, names, 'condition')),
    ...(trigger === undefined || action === undefined ? [] : actionProblems(catalog, entity, trigger, action)),
  ];
}

/** The actions that a trigger allows. */
function actionsOf(trigger: Trigger): Action['type'][] {
  if (trigger.startsWith('before')) return trigger === 'before_delete' ? ['reject'] : ['reject', 'set'];
  return ['create_record', 'send_message', ...(trigger === 'after_delete' ? [] : ['update_record' as const])];
}

function actionProblems(
  catalog: Catalog,
  entity: Entity,
  trigger: Trigger,
  action: Valid<NewRule['action']>,
): Problem[] {
  const { type } = action;
  if (type === undefined) return [];
  const allowed = actionsOf(trigger);
  if (!allowed.includes(type)) {
    return [{ path: 'action.type', message: `must be one of ${allowed.join(', ')} for ${trigger}` }];
  }
  const unknown = (type === 'reject' ? [] : placeholdersIn(action)).filter(
    (key) => !entity.byKey.has(key) && !Object.hasOwn(SYSTEM_FIELDS, key),
  );
  return [
    ...valuesProblems(catalog, entity, action),
    ...unknown.map((key) => ({ path: 'action', message: `{{${key}}} is not a field of ${entity.name}` })),
  ];
}

function valuesProblems(catalog: Catalog, entity: Entity, action: Valid<NewRule['action']>): Problem[] {
  if (!('values' in action) || action.values === undefined) return [];
  if (action.type !== 'create_record') return constantProblems(entity, action.values, false);
  if (action.entity === undefined) return [];
  const target = catalog.byName.get(action.entity);
  if (target === undefined) return [{ path: 'action.entity', message: 'is not an entity' }];
  return constantProblems(target, action.values, true);
}

/** Constants must be valid for their fields; values with placeholders are validated when the rule runs. */
function constantProblems(entity: Entity, values: Record<string, unknown>, isNew: boolean): Problem[] {
  const hasPlaceholder = (key: string): boolean => entity.byKey.has(key) && placeholdersIn(values[key]).length > 0;
  const constants = Object.fromEntries(Object.entries(values).filter(([key]) => !hasPlaceholder(key)));
  const { problems } = (isNew ? readNew : readPatch)(entity, constants, () => true);
  const invalid = problems
    .filter(({ path }) => !Object.hasOwn(values, path) || !hasPlaceholder(path))
    .map(({ path, message }) => ({ path: `action.values.${path}`, message }));
  const isEmpty = Object.keys(values).length === 0 && !isNew;
  return isEmpty ? [...invalid, { path: 'action.values', message: 'must not be empty' }] : invalid;
}
