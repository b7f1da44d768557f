// A role in request bodies, checked against the tenant's entities: operations by resource, and the fields and rows
// that the role is restricted to in each entity. 400 names every problem.
// Contract: interface#role, decisions#roles.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { type EntityRestriction, isEntityName } from '../access/rights.ts';
import { allNames } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import type { Problem } from '../errors.ts';
import { SYSTEM_FIELDS } from '../expression/ast.ts';
import { expressionProblems } from '../expression/parse.ts';
import type { Valid } from '../http/check.ts';
import { byResource, closed, nullable, Operations, Timestamp, textSet, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';

const Name = Type.String({ pattern: '^[A-Za-z][A-Za-z0-9_.-]{0,49}$', examples: ['clerk'] });
const Description = Type.String({ maxLength: LIMITS.entity.descriptionMax });
const Permissions = byResource(Operations, {
  description: 'operations by entity, *, view:<slug>, view:* or agent:<name>',
  examples: [{ '*': ['read'] }],
});
const FieldKeys = textSet(Type.String(), {
  maxItems: LIMITS.entity.fieldsMax + Object.keys(SYSTEM_FIELDS).length,
  error: 'must be a list of different field keys',
});
const Restriction = Type.Unsafe<EntityRestriction>(
  closed({
    fields: Type.Optional(FieldKeys),
    excludeFields: Type.Optional(FieldKeys),
    rowFilter: Type.Optional(Type.String({ examples: ['owner = $currentUser.id'] })),
  }),
);
const Restrictions = Type.Record(Type.String(), Restriction, { examples: [{}] });

export const RoleSchema = Type.Object({
  id: Uuid,
  name: Type.String(),
  description: nullable(Type.String()),
  isSystem: Type.Boolean(),
  permissions: Permissions,
  entities: Restrictions,
  createdAt: Timestamp,
  updatedAt: Timestamp,
});
export const NewRole = closed({
  name: Name,
  description: Type.Optional(nullable(Description)),
  permissions: Permissions,
  entities: Type.Optional(Restrictions),
});
export type NewRole = Static<typeof NewRole>;
/** A change of a role: missing members keep their values; null clears the description. */
export const RoleChange = Type.Partial(NewRole);
export type RoleChange = Static<typeof RoleChange>;

/** A role's restriction within an entity, from a request or as stored. */
interface RestrictionInput {
  fields?: readonly (string | undefined)[] | undefined;
  excludeFields?: readonly (string | undefined)[] | undefined;
  rowFilter?: string | undefined;
}

/** The problems that the schema cannot find: unknown entities and fields, invalid conditions. */
export function roleProblems(
  {
    permissions = {},
    entities = {},
  }: Pick<Valid<RoleChange>, 'permissions'> & { entities?: Readonly<Record<string, RestrictionInput | undefined>> },
  catalog: Catalog,
  caller: TenantCaller,
): Problem[] {
  const unknown = Object.keys(permissions).filter((name) => isEntityName(name) && !catalog.byName.has(name));
  return [
    ...unknown.map((name) => ({ path: `permissions.${name}`, message: 'is not an entity' })),
    ...Object.entries(entities).flatMap(([name, restriction]) => {
      const path = `entities.${name}`;
      const entity = catalog.byName.get(name);
      if (entity === undefined) return [{ path, message: 'is not an entity' }];
      return restrictionProblems(restriction ?? {}, path, entity, catalog, caller);
    }),
  ];
}

function restrictionProblems(
  { fields, excludeFields, rowFilter }: RestrictionInput,
  path: string,
  entity: Entity,
  catalog: Catalog,
  caller: TenantCaller,
): Problem[] {
  return [
    ...fieldProblems(fields, `${path}.fields`, entity, true),
    ...fieldProblems(excludeFields, `${path}.excludeFields`, entity, false),
    ...(rowFilter === undefined
      ? []
      : expressionProblems(rowFilter, allNames(catalog, caller, entity, new Date()), `${path}.rowFilter`)),
  ];
}

/** Problems with unknown fields. System fields are always visible: `fields` may list them, but they cannot be excluded. */
function fieldProblems(
  keys: readonly (string | undefined)[] = [],
  path: string,
  entity: Entity,
  mayBeSystem: boolean,
): Problem[] {
  return keys.flatMap((key, i) => {
    const isKnown = key === undefined || entity.byKey.has(key) || (mayBeSystem && Object.hasOwn(SYSTEM_FIELDS, key));
    return isKnown
      ? []
      : [{ path: `${path}.${i}`, message: `${JSON.stringify(key)} is not a field of ${entity.name}` }];
  });
}
