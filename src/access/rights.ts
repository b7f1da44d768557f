// What a role allows: operations by entity, and for each entity the fields and rows it is confined
// to. Pure: rights in, answers out. What is not granted is refused.
// Contract: interface#role, decisions#roles.

export type Operation = 'read' | 'create' | 'update' | 'delete';
export const OPERATIONS: readonly Operation[] = ['read', 'create', 'update', 'delete'];

/** What confines a role within one entity. */
export interface EntityRestriction {
  fields?: readonly string[];
  excludeFields?: readonly string[];
  rowFilter?: string;
}

/** Everything a caller may do in its tenant. `*` means all entities, not views and agents. */
export interface Rights {
  /** Owners, admins and their like: nothing is hidden or refused. */
  readonly isUnlimited: boolean;
  readonly permissions: Readonly<Record<string, readonly Operation[]>>;
  readonly restrictions: Readonly<Record<string, EntityRestriction>>;
}

export const FULL_RIGHTS: Rights = { isUnlimited: true, permissions: { '*': OPERATIONS }, restrictions: {} };
export const NO_RIGHTS: Rights = { isUnlimited: false, permissions: {}, restrictions: {} };

/** Whether the rights hold `operation` on an entity, or on `view:<slug>` or `agent:<name>`. */
export function allows(rights: Rights, operation: Operation, resource: string): boolean {
  if (rights.isUnlimited) return true;
  const colon = resource.indexOf(':');
  const wildcard = colon < 0 ? '*' : `${resource.slice(0, colon)}:*`;
  return isGranted(rights, resource, operation) || isGranted(rights, wildcard, operation);
}

function isGranted(rights: Rights, resource: string, operation: Operation): boolean {
  return Object.hasOwn(rights.permissions, resource) && rights.permissions[resource]?.includes(operation) === true;
}

/** The rule for an entity, or undefined where nothing confines the caller. */
export function restrictionOn(rights: Rights, entityName: string): EntityRestriction | undefined {
  if (rights.isUnlimited || !Object.hasOwn(rights.restrictions, entityName)) return undefined;
  return rights.restrictions[entityName];
}

/** Whether a rule lets a field be seen; it may be written only if so. */
export function isFieldVisible(rule: EntityRestriction | undefined, key: string): boolean {
  if (rule === undefined) return true;
  if (rule.fields !== undefined && !rule.fields.includes(key)) return false;
  return rule.excludeFields?.includes(key) !== true;
}
