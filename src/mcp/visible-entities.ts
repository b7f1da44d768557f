// The entities of a tenant as one caller sees them: permitted operations, visible fields, and a unique type name.
// Generated clients and the caller's API document are built from them. Pure.
// Contract: decisions#mcp, decisions#roles.
import type { TenantCaller } from '../access/caller.ts';
import { allows, OPERATIONS, type Operation } from '../access/rights.ts';
import { visibleFields } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Field } from '../entities/field.ts';

export interface VisibleEntity {
  name: string;
  description: string | null;
  /** The name of its type: PascalCase, unique. */
  typeName: string;
  operations: ReadonlySet<Operation>;
  fields: readonly Field[];
}

/** The entities on which the caller may use at least one operation. */
export function visibleEntities(catalog: Catalog, caller: TenantCaller): VisibleEntity[] {
  const taken = new Set<string>();
  const visible: VisibleEntity[] = [];
  for (const entity of catalog.byName.values()) {
    const { name, label, description } = entity;
    const operations = new Set(OPERATIONS.filter((operation) => allows(caller.rights, operation, name)));
    if (operations.size === 0) continue;
    visible.push({
      name,
      description: description ?? label,
      typeName: uniqueTypeName(name, taken),
      operations,
      fields: visibleFields(caller, entity),
    });
  }
  return visible;
}

function uniqueTypeName(name: string, taken: Set<string>): string {
  const pascal = name.replaceAll(/(?:^|_+)([a-z0-9]?)/g, (_, letter: string) => letter.toUpperCase());
  let typeName = /^[A-Z]/.test(pascal) ? pascal : `Entity${pascal}`;
  while (taken.has(typeName)) typeName += '_';
  taken.add(typeName);
  return typeName;
}
