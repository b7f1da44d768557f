// A view's `filterDsl`: conditions that all hold for its records. It is checked whole when written,
// so that nothing in it is ever ignored, and compiled anew for each reader, whom `$currentUser` names.
// Failures: 400 that names each condition; 409 once a definition has moved from under a view.
// Contract: interface#view, decisions#expressions.
import type { TenantCaller } from '../access/caller.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { conflict, type Problem, ServiceError } from '../errors.ts';
import { and, type Expression, type Names } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import { LIMITS } from '../limits.ts';
import { accessScopeOf, allNames } from '../records/access-scope.ts';
import type { JsonObject } from '../runtime/text.ts';

/** `{ validate: [{ condition }] }`, every condition ANDed. */
export interface FilterDsl {
  validate: { condition: string }[];
}

const PATH = 'filterDsl';

/** A reader who has everything that `$currentUser` may name: what fits him fits whoever has it. */
const ANY_READER: Names['user'] = {
  id: '00000000-0000-7000-8000-000000000000',
  email: 'reader@example.com',
  role: 'member',
  kind: 'user',
};

/** Reads a `filterDsl` from a request. Adds to `problems`, with a path to each condition that is none. */
export function readDsl(
  input: unknown,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  problems: Problem[],
): FilterDsl {
  if (input === undefined || input === null) return { validate: [] };
  if (!isObject(input)) return invalidDsl(problems, PATH, 'must be an object');
  for (const name of Object.keys(input)) {
    if (name !== 'validate') problems.push({ path: `${PATH}.${name}`, message: 'is not a part of filterDsl' });
  }
  const { validate = [] } = input;
  if (!Array.isArray(validate) || validate.length > LIMITS.view.conditionsMax) {
    return invalidDsl(
      problems,
      `${PATH}.validate`,
      `must be a list of at most ${LIMITS.view.conditionsMax} conditions`,
    );
  }
  const names: Names = { ...allNames(catalog, caller, entity, new Date()), user: ANY_READER };
  return { validate: validate.flatMap((item, i) => readCondition(item, pathOf(i), names, problems)) };
}

function readCondition(item: unknown, path: string, names: Names, problems: Problem[]): { condition: string }[] {
  const isFit = isObject(item) && typeof item.condition === 'string' && Object.keys(item).length === 1;
  if (!isFit) {
    problems.push({ path, message: 'must be an object with a text "condition" and nothing else' });
    return [];
  }
  const condition = item.condition as string;
  const failed = problemOf(condition, names, `${path}.condition`);
  if (failed !== null) problems.push(...failed);
  return [{ condition }];
}

/** What is wrong with a condition; null when it can be parsed. */
function problemOf(condition: string, names: Names, path: string): readonly Problem[] | null {
  try {
    parseExpression(condition, names, path);
    return null;
  } catch (error) {
    if (error instanceof ServiceError && error.details !== undefined) return error.details;
    throw error;
  }
}

/**
 * The view's condition for this reader; null for a view without one.
 * @throws ServiceError 409 when a field it names is gone: a view never answers without its condition
 */
export function conditionFor(
  dsl: FilterDsl,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
): Expression | null {
  const names = allNames(catalog, caller, entity, new Date());
  const problems = dsl.validate.flatMap(
    ({ condition }, i) => problemOf(condition, names, `${pathOf(i)}.condition`) ?? [],
  );
  if (problems.length > 0) {
    // The problems name fields, which not every reader may know of.
    throw conflict('the view does not fit its entity any more', caller.isTenantAdmin ? problems : undefined);
  }
  return and(...dsl.validate.map(({ condition }) => parseExpression(condition, names, PATH)));
}

/** The conditions that the reader could have written, which are those that tell nothing hidden. */
export function visibleDsl(dsl: FilterDsl, catalog: Catalog, caller: TenantCaller, entity: Entity): FilterDsl {
  if (caller.isTenantAdmin) return dsl;
  const { names } = accessScopeOf(catalog, caller, entity);
  return { validate: dsl.validate.filter(({ condition }) => problemOf(condition, names, PATH) === null) };
}

function pathOf(i: number): string {
  return `${PATH}.validate.${i}`;
}

function invalidDsl(problems: Problem[], path: string, message: string): FilterDsl {
  problems.push({ path, message });
  return { validate: [] };
}

function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
