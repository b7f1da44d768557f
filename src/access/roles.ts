// What a role allows: operations by entity, and for each entity the fields and rows it is confined
// to. Pure: rights in, answers out. What is not granted is refused.
// Contract: "Role", sections 6 and 12 of the decisions.

export type Operation = 'read' | 'create' | 'update' | 'delete';
export const OPERATIONS: readonly Operation[] = ['read', 'create', 'update', 'delete'];

/** What confines a role within one entity. */
export interface EntityRule {
  fields?: readonly string[];
  excludeFields?: readonly string[];
  rowFilter?: string;
}

/** Everything a caller may do in its tenant. `*` means all entities, not views and agents. */
export interface Rights {
  /** Owners, admins and their like: nothing is hidden or refused. */
  readonly isUnlimited: boolean;
  readonly permissions: Readonly<Record<string, readonly Operation[]>>;
  readonly entities: Readonly<Record<string, EntityRule>>;
}

export const UNLIMITED: Rights = { isUnlimited: true, permissions: { '*': OPERATIONS }, entities: {} };
export const NOTHING: Rights = { isUnlimited: false, permissions: {}, entities: {} };

/** Whether the rights hold `operation` on an entity, or on `view:<slug>` or `agent:<name>`. */
export function allows(rights: Rights, operation: Operation, resource: string): boolean {
  if (rights.isUnlimited) return true;
  const colon = resource.indexOf(':');
  const wildcard = colon < 0 ? '*' : `${resource.slice(0, colon)}:*`;
  return holds(rights, resource, operation) || holds(rights, wildcard, operation);
}

function holds(rights: Rights, resource: string, operation: Operation): boolean {
  return Object.hasOwn(rights.permissions, resource) && rights.permissions[resource]?.includes(operation) === true;
}

/** The rule for an entity, or undefined where nothing confines the caller. */
export function ruleFor(rights: Rights, entityName: string): EntityRule | undefined {
  if (rights.isUnlimited || !Object.hasOwn(rights.entities, entityName)) return undefined;
  return rights.entities[entityName];
}

/** Whether a rule lets a field be seen; it may be written only if so. */
export function showsField(rule: EntityRule | undefined, key: string): boolean {
  if (rule === undefined) return true;
  if (rule.fields !== undefined && !rule.fields.includes(key)) return false;
  return rule.excludeFields?.includes(key) !== true;
}
