// A view's `filterDsl`: conditions that all hold for its records. It is checked whole when written,
// so that nothing in it is ever ignored, and compiled anew for each reader, whom `$currentUser` names.
// Failures: 400 that names each condition; 409 once a definition has moved from under a view.
// Contract: interface#view, decisions#expressions.
import type { TenantCaller } from '../access/caller.ts';
import { accessScopeOf, allNames } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { conflict, type Problem, ServiceError } from '../errors.ts';
import { and, type Expression, type Names } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import type { Sound } from '../http/check.ts';
import type { FilterDsl } from './view.ts';

const PATH = 'filterDsl';

/** A reader who has everything that `$currentUser` may name: what fits him fits whoever has it. */
const ANY_READER: Names['user'] = {
  id: '00000000-0000-7000-8000-000000000000',
  email: 'reader@example.com',
  role: 'member',
  kind: 'user',
};

/** What is wrong with the conditions of a request, each named by its path. */
export function dslProblems(
  dsl: Sound<FilterDsl> | null | undefined,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
): Problem[] {
  const names: Names = { ...allNames(catalog, caller, entity, new Date()), user: ANY_READER };
  return (dsl?.validate ?? []).flatMap((item, i) =>
    item?.condition === undefined ? [] : (problemOf(item.condition, names, `${pathOf(i)}.condition`) ?? []),
  );
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
