// What a request may say about a role, checked against the tenant's entities: operations by entity,
// view or agent, and for each entity the fields and rows the role is confined to. Every problem is
// named at once: 400. Contract: interface#role, decisions#roles.
import type { TenantCaller } from '../access/caller.ts';
import type { EntityRestriction, Operation } from '../access/rights.ts';
import { isEntityName, isOperationList, isResource, isWildcard, OPERATIONS_RULE } from '../access/rights.ts';
import { allNames } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { invalid, type Problem, ServiceError } from '../errors.ts';
import { SYSTEM_FIELDS } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import { strangers } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';

/** Members that were left out are undefined; a description of null takes it away. */
export interface RoleInput {
  name?: string;
  description?: string | null;
  permissions?: Record<string, Operation[]>;
  entities?: Record<string, EntityRestriction>;
}

const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,49}$/;
const ROLE_MEMBERS = ['name', 'description', 'permissions', 'entities'];
const RULE_MEMBERS = ['fields', 'excludeFields', 'rowFilter'];

/** Reads a role. `isNew` asks for a name and permissions. 400 with every problem. */
export function readRole(body: JsonObject, catalog: Catalog, caller: TenantCaller, isNew: boolean): RoleInput {
  const problems: Problem[] = [];
  const { name, description, permissions, entities } = body;
  if (isNew ? !isRoleName(name) : name !== undefined && !isRoleName(name)) {
    problems.push({ path: 'name', message: `must match ${NAME.source}` });
  }
  if (description != null && !isDescription(description)) {
    problems.push({
      path: 'description',
      message: `must be a text of at most ${LIMITS.entity.descriptionMax} characters`,
    });
  }
  if (isNew || permissions !== undefined) problems.push(...permissionProblems(permissions, catalog));
  if (entities !== undefined) problems.push(...rulesProblems(entities, catalog, caller));
  problems.push(...strangers(body, ROLE_MEMBERS, notAmong(ROLE_MEMBERS)));
  if (problems.length > 0) throw invalid(problems);
  return { name, description, permissions, entities } as RoleInput;
}

function isRoleName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

function isDescription(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LIMITS.entity.descriptionMax;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function permissionProblems(permissions: unknown, { byName }: Catalog): Problem[] {
  if (!isObject(permissions)) return [{ path: 'permissions', message: 'must be an object of operations by entity' }];
  const problems: Problem[] = [];
  for (const [resource, operations] of Object.entries(permissions)) {
    const path = `permissions.${resource}`;
    const isKnown = isEntityName(resource) ? byName.has(resource) : isResource(resource) || isWildcard(resource);
    if (!isKnown) {
      problems.push({ path, message: 'is no entity, *, view:<slug>, view:* or agent:<name>' });
    } else if (!isOperationList(operations)) problems.push({ path, message: OPERATIONS_RULE });
  }
  return problems;
}

function rulesProblems(entities: unknown, catalog: Catalog, caller: TenantCaller): Problem[] {
  if (!isObject(entities)) return [{ path: 'entities', message: 'must be an object of rules by entity' }];
  return Object.entries(entities).flatMap(([name, rule]) => {
    const path = `entities.${name}`;
    const entity = catalog.byName.get(name);
    if (entity === undefined) return [{ path, message: 'is no entity' }];
    if (!isObject(rule)) return [{ path, message: 'must be an object' }];
    return ruleProblems(rule, path, entity, catalog, caller);
  });
}

function ruleProblems(
  rule: JsonObject,
  path: string,
  entity: Entity,
  catalog: Catalog,
  caller: TenantCaller,
): Problem[] {
  const { fields, excludeFields, rowFilter } = rule;
  return [
    ...strangers(rule, RULE_MEMBERS, notAmong(RULE_MEMBERS), `${path}.`),
    ...fieldProblems(fields, `${path}.fields`, entity, true),
    ...fieldProblems(excludeFields, `${path}.excludeFields`, entity, false),
    ...(rowFilter === undefined ? [] : filterProblems(rowFilter, `${path}.rowFilter`, entity, catalog, caller)),
  ];
}

function notAmong(members: readonly string[]): string {
  return `is not one of ${members.join(', ')}`;
}

/** System fields may be named among those shown: they always are. They cannot be hidden. */
function fieldProblems(keys: unknown, path: string, entity: Entity, mayBeSystem: boolean): Problem[] {
  if (keys === undefined) return [];
  if (!Array.isArray(keys)) return [{ path, message: 'must be a list of field keys' }];
  return keys
    .map((key, i) => ({ key, path: `${path}.${i}` }))
    .filter(({ key }) => !(entity.byKey.has(key) || (mayBeSystem && Object.hasOwn(SYSTEM_FIELDS, key))))
    .map(({ key, path: at }) => ({ path: at, message: `${JSON.stringify(key)} is no field of ${entity.name}` }));
}

function filterProblems(
  text: unknown,
  path: string,
  entity: Entity,
  catalog: Catalog,
  caller: TenantCaller,
): Problem[] {
  if (typeof text !== 'string') return [{ path, message: 'must be a condition' }];
  try {
    parseExpression(text, allNames(catalog, caller, entity, new Date()), path);
    return [];
  } catch (error) {
    if (error instanceof ServiceError && error.details !== undefined) return [...error.details];
    throw error;
  }
}
