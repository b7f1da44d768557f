// A caller's access scope of an entity: the visible fields and rows, and the names allowed in conditions. It applies
// the restriction in the caller's rights (access/rights.ts). Reads, writes, totals, search, relations and events all
// use it.
// Contract: interface#role, decisions#roles, decisions#expressions.
import type { TenantCaller } from '../access/caller.ts';
import { allows, isFieldVisible, restrictionOn } from '../access/rights.ts';
import type { App } from '../app.ts';
import { forbidden, ServiceError } from '../errors.ts';
import { type Expression, type Names, type Related, SYSTEM_FIELDS } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { type Catalog, catalogOf, entityFor } from './catalog.ts';
import type { Entity, Field } from './field.ts';
import { noteLocks } from './locks.ts';

export interface AccessScope {
  readonly entity: Entity;
  /** The visible fields, in their order. */
  readonly fields: readonly Field[];
  /** The condition that a row must match to be visible; null when all rows are. */
  readonly rowFilter: Expression | null;
  /** The names that the caller may use in filters and sort keys. */
  readonly names: Names;
  isVisible(field: Field): boolean;
  /** Whether the caller may read records of the entity; false for a caller that may only write. */
  readonly isReadable: boolean;
  /** True for tenant admins: nothing is hidden, and no change of roles will hide anything. */
  isUnlimited: boolean;
}

/** The caller's scope of an entity; `now` fixes `$now` for the request. 403 when its row filter no longer fits the entity. */
export function accessScopeOf(catalog: Catalog, caller: TenantCaller, entity: Entity, now = new Date()): AccessScope {
  const filter = restrictionOn(caller.rights, entity.name)?.rowFilter;
  const isVisible = visibility(caller, entity);
  const readable = (target: Entity): Omit<Related, 'table'> | undefined => {
    if (!allows(caller.rights, 'read', target.name)) return undefined;
    const { names, rowFilter } = accessScopeOf(catalog, caller, target, now);
    return { names, rowFilter };
  };
  return {
    entity,
    fields: visibleFields(caller, entity),
    rowFilter: filter === undefined ? null : parseRowFilter(catalog, caller, entity, filter, now),
    names: namesOf(catalog, caller, entity, now, isVisible, readable),
    isVisible,
    isReadable: allows(caller.rights, 'read', entity.name),
    isUnlimited: caller.rights.isUnlimited,
  };
}

/** The scope of an entity that the caller may read; undefined without the right, or when its row filter no longer fits the entity. */
export function readableScopeOf(catalog: Catalog, caller: TenantCaller, entity: Entity): AccessScope | undefined {
  if (!allows(caller.rights, 'read', entity.name)) return undefined;
  try {
    return accessScopeOf(catalog, caller, entity);
  } catch (error) {
    if (error instanceof ServiceError && error.ecode === 'FORBIDDEN') return undefined;
    throw error;
  }
}

/** The names that the caller may use, for a condition that is checked and not evaluated: no row filter is parsed. */
export function visibleNames(catalog: Catalog, caller: TenantCaller, entity: Entity): Names {
  const reach = (target: Entity) =>
    allows(caller.rights, 'read', target.name)
      ? { names: visibleNames(catalog, caller, target), rowFilter: null }
      : undefined;
  return namesOf(catalog, caller, entity, new Date(), visibility(caller, entity), reach);
}

/** The caller's scope of an entity by name. 404 when there is none. The operation checks the caller's rights. */
export async function accessScopeFor(app: App, caller: TenantCaller, entityName: string): Promise<AccessScope> {
  const entity = await entityFor(app, caller, entityName);
  const catalog = await catalogOf(app, caller.tenant);
  noteLocks(catalog, entity);
  // Long row filters take time to parse: yield first, as lists do (records/read/list.ts).
  const way = hasRowFilter(caller, entity) ? giveWay() : undefined;
  if (way !== undefined) await way;
  return accessScopeOf(catalog, caller, entity);
}

/** The fields that a caller who may use the entity may see, in order. */
export function visibleFields(caller: TenantCaller, entity: Entity): readonly Field[] {
  const isRestricted = restrictionOn(caller.rights, entity.name) !== undefined;
  return isRestricted ? entity.fields.filter(visibility(caller, entity)) : entity.fields;
}

/** Whether the caller is restricted to some rows of the entity. */
export function hasRowFilter({ rights }: TenantCaller, { name }: Entity): boolean {
  return restrictionOn(rights, name)?.rowFilter !== undefined;
}

/** Whether the caller may read every row of the entity. */
export function readsEveryRow(caller: TenantCaller, entity: Entity): boolean {
  return allows(caller.rights, 'read', entity.name) && !hasRowFilter(caller, entity);
}

function visibility({ rights }: TenantCaller, { name }: Entity): (field: Field) => boolean {
  const restriction = restrictionOn(rights, name);
  return ({ key }) => isFieldVisible(restriction, key);
}

/** A row filter may use hidden fields, and follows relations whatever the caller may read. The 403 does not reveal its text. */
function parseRowFilter(catalog: Catalog, caller: TenantCaller, entity: Entity, text: string, now: Date): Expression {
  try {
    return parseExpression(text, allNames(catalog, caller, entity, now), 'rowFilter');
  } catch (error) {
    if (error instanceof ServiceError) throw forbidden(`the role's row filter no longer fits ${entity.name}`);
    throw error;
  }
}

/** The names of all fields, for the conditions of roles, views and rules. */
export function allNames(catalog: Catalog, caller: TenantCaller, entity: Entity, now: Date): Names {
  const unrestricted = (target: Entity) => ({ names: allNames(catalog, caller, target, now), rowFilter: null });
  return namesOf(catalog, caller, entity, now, () => true, unrestricted);
}

const ANY_USER: Names['user'] = {
  id: '00000000-0000-7000-8000-000000000000',
  email: 'someone@example.com',
  role: 'member',
  kind: 'user',
};

/** For an admin who reads as a role: no user of that role. */
const NO_USER: Names['user'] = { id: null, email: null, role: null, kind: null };

/** The names for validating a condition that other users evaluate: `$currentUser` has every attribute. */
export function validationNames(catalog: Catalog, caller: TenantCaller, entity: Entity): Names {
  return { ...allNames(catalog, caller, entity, new Date()), user: ANY_USER };
}

/**
 * The names of visible fields. `reach` returns the names and rows of a relation's target, or undefined when the caller may not
 * read it. It is called once per target: a long condition may name a target in every term, and parsing a row filter takes as
 * long.
 */
function namesOf(
  catalog: Catalog,
  { id, email, role, kind, asRole }: TenantCaller,
  entity: Entity,
  now: Date,
  isVisible: (field: Field) => boolean,
  reach: (target: Entity) => Omit<Related, 'table'> | undefined,
): Names {
  const reached = new Map<string, Related | undefined>();
  return {
    field: (key) => {
      const field = entity.byKey.get(key);
      return field !== undefined && isVisible(field) ? field.ref : systemField(key);
    },
    related: (key) => {
      const targetId = entity.byKey.get(key)?.targetId ?? '';
      if (reached.has(targetId)) return reached.get(targetId);
      const target = catalog.byId.get(targetId);
      const found = target && reach(target);
      const related = target && found && { table: target.table, ...found };
      reached.set(targetId, related);
      return related;
    },
    user: asRole === undefined ? { id, email, role, kind } : NO_USER,
    now,
  };
}

function systemField(key: string) {
  return Object.hasOwn(SYSTEM_FIELDS, key) ? SYSTEM_FIELDS[key as keyof typeof SYSTEM_FIELDS] : undefined;
}
