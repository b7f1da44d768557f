// A view's `filterDsl`: a list of conditions joined with `and`. All of them are validated when the view is written, and
// compiled for each reader, because they may contain `$currentUser`.
// Failures: 400 that names each condition; 409 when a condition is no longer valid after a change of the entity.
// Contract: interface#view, decisions#expressions.
import type { TenantCaller } from '../access/caller.ts';
import { allNames, validationNames, visibleNames } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { conflict, type Problem } from '../errors.ts';
import { and, type Expression } from '../expression/ast.ts';
import { expressionProblems, parseExpression } from '../expression/parse.ts';
import type { Valid } from '../http/check.ts';
import type { FilterDsl } from './view.ts';

const PATH = 'filterDsl';

/** The problems of each condition of a request, with its path. */
export function dslProblems(
  dsl: Valid<FilterDsl> | null | undefined,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
): Problem[] {
  const names = validationNames(catalog, caller, entity);
  return (dsl?.validate ?? []).flatMap((item, i) =>
    item?.condition === undefined ? [] : expressionProblems(item.condition, names, `${pathOf(i)}.condition`),
  );
}

/**
 * The view's conditions as one expression for this reader; null without conditions.
 * @throws ServiceError 409 when a condition is no longer valid: a view is never read without its conditions
 */
export function conditionFor(
  dsl: FilterDsl,
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  now = new Date(),
): Expression | null {
  const names = allNames(catalog, caller, entity, now);
  const problems = dsl.validate.flatMap(({ condition }, i) =>
    expressionProblems(condition, names, `${pathOf(i)}.condition`),
  );
  if (problems.length > 0) {
    // The problems name fields that the reader may not be allowed to see.
    throw conflict('the view no longer fits its entity', caller.isTenantAdmin ? problems : undefined);
  }
  return and(...dsl.validate.map(({ condition }) => parseExpression(condition, names, PATH)));
}

/** The conditions of which the reader may see every field. */
export function visibleDsl(dsl: FilterDsl, catalog: Catalog, caller: TenantCaller, entity: Entity): FilterDsl {
  if (caller.isTenantAdmin) return dsl;
  const names = visibleNames(catalog, caller, entity);
  return { validate: dsl.validate.filter(({ condition }) => expressionProblems(condition, names, PATH).length === 0) };
}

function pathOf(i: number): string {
  return `${PATH}.validate.${i}`;
}
