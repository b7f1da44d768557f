// What one caller sees of one entity: its fields, its rows, the names it may use in conditions.
// This is the access predicate: reads, writes, totals, search, relations and events all ask it.
// Contract: interface#role, decisions#roles, decisions#expressions.
import type { TenantCaller } from '../access/caller.ts';
import { allows, isFieldVisible, restrictionOn } from '../access/rights.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity, Field } from '../entities/field.ts';
import { specOf } from '../entities/field-types.ts';
import { forbidden, ServiceError } from '../errors.ts';
import { type Expression, type Names, type Related, SYSTEM_FIELDS } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';

export interface AccessScope {
  readonly entity: Entity;
  /** The fields the caller sees, in their order. */
  readonly fields: readonly Field[];
  /** The condition that rows must meet to exist for the caller; null when all do. */
  readonly rowFilter: Expression | null;
  /** What the caller may name in filters and sort keys. */
  readonly names: Names;
  sees(field: Field): boolean;
}

/** The caller's scope of an entity. Pure; `now` fixes `$now` for the request. */
export function accessScopeOf(catalog: Catalog, caller: TenantCaller, entity: Entity, now = new Date()): AccessScope {
  const rule = restrictionOn(caller.rights, entity.name);
  const sees = (field: Field): boolean => isFieldVisible(rule, field.key);
  return {
    entity,
    fields: rule === undefined ? entity.fields : entity.fields.filter(sees),
    rowFilter: rule?.rowFilter === undefined ? null : rowFilter(catalog, caller, entity, rule.rowFilter, now),
    names: visibleNames(catalog, caller, entity, sees, now),
    sees,
  };
}

/**
 * A role's row filter may use what its reader cannot see, and is not itself confined at a relation. One that the entity
 * has moved away from lets nobody in, and does not tell its reader what it names: 403.
 */
function rowFilter(catalog: Catalog, caller: TenantCaller, entity: Entity, text: string, now: Date): Expression {
  try {
    return parseExpression(text, allNames(catalog, caller, entity, now), 'rowFilter');
  } catch (error) {
    if (error instanceof ServiceError) throw forbidden(`the role's row filter does not fit ${entity.name} any more`);
    throw error;
  }
}

/** A names in which every field has its name: for the conditions of roles, views and rules. */
export function allNames(catalog: Catalog, caller: TenantCaller, entity: Entity, now: Date): Names {
  return {
    field: (key) => entity.byKey.get(key)?.ref ?? systemField(key),
    related: (key): Related | undefined => {
      const target = targetOf(catalog, entity, key);
      return target && { table: target.table, names: allNames(catalog, caller, target, now), rows: null };
    },
    user: { id: caller.id, email: caller.email, role: caller.role, kind: caller.kind },
    now,
  };
}

/** A names without the fields hidden from the caller; a relation leads only to rows the caller may read. */
function visibleNames(
  catalog: Catalog,
  caller: TenantCaller,
  entity: Entity,
  sees: (field: Field) => boolean,
  now: Date,
): Names {
  return {
    field: (key) => {
      const field = entity.byKey.get(key);
      return field !== undefined && sees(field) ? field.ref : systemField(key);
    },
    related: (key): Related | undefined => {
      const target = targetOf(catalog, entity, key);
      if (target === undefined || !allows(caller.rights, 'read', target.name)) return undefined;
      const { names, rowFilter } = accessScopeOf(catalog, caller, target, now);
      return { table: target.table, names, rows: rowFilter };
    },
    user: { id: caller.id, email: caller.email, role: caller.role, kind: caller.kind },
    now,
  };
}

function systemField(key: string) {
  return Object.hasOwn(SYSTEM_FIELDS, key) ? SYSTEM_FIELDS[key as keyof typeof SYSTEM_FIELDS] : undefined;
}

function targetOf(catalog: Catalog, entity: Entity, key: string): Entity | undefined {
  const targetId = entity.byKey.get(key)?.targetId;
  return targetId == null ? undefined : catalog.byId.get(targetId);
}

/** Slots of the text fields that `search` may look at, and whether that is all of those ever indexed. */
export function searchedSlots({ entity, fields }: AccessScope): { slots: number[]; isAll: boolean } {
  const slots = fields.filter((field) => specOf(field).isSearchable).map(({ slot }) => Number(slot.slice(1)));
  const all = entity.fields.filter((field) => specOf(field).isSearchable).length;
  return { slots, isAll: slots.length === all && entity.retiredSlots.length === 0 };
}
