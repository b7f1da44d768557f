// Validates a rule's definition, `{ name, entity, trigger, condition?, action, priority?, isActive? }`, against the
// catalog, so that every stored rule can run: its condition, fields, constants and `{{...}}` placeholders.
// Failures: 400 with every problem. Contract: decisions#rules.
import type { TenantCaller } from '../access/caller.ts';
import { allNames } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { type Action, PRIORITIES, TRIGGERS, type Trigger } from '../entities/rule.ts';
import { readNew, readPatch } from '../entities/values.ts';
import { invalid, type Problem, ServiceError } from '../errors.ts';
import { type Names, SYSTEM_FIELDS } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import { Input, OBJECT, oneOf, strangers, text, wholeNumber } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { placeholdersIn } from '../records/write/template.ts';
import type { JsonObject } from '../runtime/text.ts';

/** A valid definition. */
export interface RuleDraft {
  name: string;
  entity: Entity;
  trigger: Trigger;
  condition: string | null;
  action: Action;
  priority: number;
  isActive: boolean;
}

const MEMBERS = ['name', 'entity', 'trigger', 'condition', 'action', 'priority', 'isActive'];
const { nameMax, messageMax, priorityMax } = LIMITS.rules;

/** Has every attribute that `$currentUser` may name. */
const ANYONE: Names['user'] = {
  id: '00000000-0000-7000-8000-000000000000',
  email: 'someone@example.com',
  role: 'member',
  kind: 'user',
};

export function readRule(catalog: Catalog, caller: TenantCaller, body: JsonObject): RuleDraft {
  const input = new Input(body);
  for (const { path, message } of strangers(body, MEMBERS)) input.problem(path, message);
  const name = input.required('name', text(nameMax));
  const entityName = input.required('entity', text(nameMax));
  const trigger = input.required('trigger', oneOf(TRIGGERS));
  const condition = input.optional('condition', text(2 * LIMITS.rules.conditionMax)) ?? null;
  const priority = input.optional('priority', wholeNumber(-priorityMax, priorityMax)) ?? 0;
  const isActive = input.optional('isActive', oneOfBooleans) ?? true;
  const given = input.required('action', OBJECT);
  const entity = catalog.byName.get(entityName);
  if (typeof entityName === 'string' && entity === undefined) input.problem('entity', 'is not an entity');
  if (entity !== undefined && typeof condition === 'string') {
    const names = { ...allNames(catalog, caller, entity, new Date()), user: ANYONE, allowOld: true };
    for (const { path, message } of conditionProblems(condition, names)) input.problem(path, message);
  }
  input.done();
  const problems: Problem[] = [];
  const action = readAction(catalog, entity as Entity, trigger, given, problems);
  if (problems.length > 0 || action === undefined) throw invalid(problems);
  return { name, entity: entity as Entity, trigger, condition, action, priority, isActive };
}

const oneOfBooleans = {
  accepts: (value: unknown): value is boolean => typeof value === 'boolean',
  words: 'must be true or false',
};

function conditionProblems(condition: string, names: Names): readonly Problem[] {
  try {
    parseExpression(condition, names, 'condition');
    return [];
  } catch (error) {
    if (error instanceof ServiceError && error.details !== undefined) return error.details;
    throw error;
  }
}

/** The members of each action besides `type`. */
const ACTION_MEMBERS: Readonly<Record<Action['type'], readonly string[]>> = {
  reject: ['message'],
  set: ['values'],
  create_record: ['entity', 'values'],
  update_record: ['values'],
  send_message: ['to_agent', 'subject', 'body', 'priority'],
};

/** The actions that a trigger admits. */
function actionsOf(trigger: Trigger): Action['type'][] {
  if (trigger.startsWith('before')) return trigger === 'before_delete' ? ['reject'] : ['reject', 'set'];
  const further: Action['type'][] = ['create_record', 'send_message'];
  return trigger === 'after_delete' ? further : [...further, 'update_record'];
}

function readAction(
  catalog: Catalog,
  entity: Entity,
  trigger: Trigger,
  given: JsonObject,
  problems: Problem[],
): Action | undefined {
  const fit = actionsOf(trigger);
  const type = given.type as Action['type'];
  if (!fit.includes(type)) {
    problems.push({ path: 'action.type', message: `must be one of ${fit.join(', ')} for ${trigger}` });
    return undefined;
  }
  problems.push(...strangers(given, ['type', ...ACTION_MEMBERS[type]], `is not accepted with ${type}`, 'action.'));
  const input = new Input(given);
  const action = readMembers(catalog, entity, type, input, problems);
  try {
    input.done();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    for (const { path, message } of error.details ?? []) problems.push({ path: `action.${path}`, message });
  }
  for (const key of type === 'reject' ? [] : placeholdersIn(given)) {
    if (entity.byKey.has(key) || Object.hasOwn(SYSTEM_FIELDS, key)) continue;
    problems.push({ path: 'action', message: `{{${key}}} is not a field of ${entity.name}` });
  }
  return action;
}

function readMembers(
  catalog: Catalog,
  entity: Entity,
  type: Action['type'],
  input: Input,
  problems: Problem[],
): Action {
  if (type === 'reject') return { type, message: input.required('message', text(messageMax)) };
  if (type === 'send_message') {
    return {
      type,
      to_agent: input.required('to_agent', text(messageMax)),
      subject: input.required('subject', text(LIMITS.message.subjectMax)),
      body: input.required('body', text(LIMITS.message.bodyMax)),
      priority: input.optional('priority', oneOf(PRIORITIES)) ?? 'normal',
    };
  }
  const values = input.required('values', OBJECT);
  if (type !== 'create_record') {
    checkValues(entity, values, false, problems);
    return { type, values };
  }
  const name = input.required('entity', text(nameMax));
  const target = catalog.byName.get(name);
  if (typeof name === 'string' && target === undefined)
    problems.push({ path: 'action.entity', message: 'is not an entity' });
  if (target !== undefined) checkValues(target, values, true, problems);
  return { type, entity: name, values };
}

/** Constants must fit their fields; values with placeholders are validated at execution. */
function checkValues(entity: Entity, values: unknown, isNew: boolean, problems: Problem[]): void {
  if (!OBJECT.accepts(values)) return;
  const hasPlaceholder = (key: string): boolean => entity.byKey.has(key) && placeholdersIn(values[key]).length > 0;
  const constants = Object.fromEntries(Object.entries(values).filter(([key]) => !hasPlaceholder(key)));
  const read = isNew ? readNew : readPatch;
  for (const { path, message } of read(entity, constants, () => true).problems) {
    if (!Object.hasOwn(values, path) || !hasPlaceholder(path))
      problems.push({ path: `action.values.${path}`, message });
  }
  if (Object.keys(values).length === 0 && !isNew) problems.push({ path: 'action.values', message: 'sets nothing' });
}
