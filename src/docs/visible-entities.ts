// The entities of a tenant as one caller sees them: permitted operations, visible fields, and a unique type name.
// The caller's API document and generated clients are built from them. Pure.
// Contract: decisions#api-document, decisions#roles.
import { typeNamesOf } from '../../client/src/schema-types.ts';
import type { TenantCaller } from '../access/caller.ts';
import { allows, OPERATIONS, type Operation } from '../access/rights.ts';
import { visibleFields } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Field } from '../entities/field.ts';
import { notFound } from '../errors.ts';

export interface VisibleEntity {
  id: string;
  name: string;
  description: string | null;
  /** The name of the entity's type: PascalCase, unique. */
  typeName: string;
  operations: ReadonlySet<Operation>;
  fields: readonly Field[];
}

/** The entities on which the caller may use at least one operation. */
export function visibleEntities(catalog: Catalog, caller: TenantCaller): VisibleEntity[] {
  const visible = [...catalog.byName.values()].flatMap((entity) => {
    const operations = new Set(OPERATIONS.filter((operation) => allows(caller.rights, operation, entity.name)));
    return operations.size === 0 ? [] : [{ entity, operations }];
  });
  const typeNames = typeNamesOf(visible.map(({ entity }) => entity.name));
  return visible.map(({ entity, operations }) => ({
    id: entity.id,
    name: entity.name,
    description: entity.description ?? entity.label,
    typeName: typeNames.get(entity.name) as string,
    operations,
    fields: visibleFields(caller, entity),
  }));
}

/** The entities with these names, or all when no names are given. 404 for a name that is not among them. */
export function entitiesNamed(
  visible: readonly VisibleEntity[],
  names: readonly string[] | null,
): readonly VisibleEntity[] {
  if (names === null) return visible;
  const byName = new Map(visible.map((entity) => [entity.name, entity]));
  return [...new Set(names)].map((name) => {
    const entity = byName.get(name);
    if (entity === undefined) throw notFound('entity');
    return entity;
  });
}
