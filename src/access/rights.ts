// The access rule, first half: which operations a caller may use on which resource, and how it is restricted
// within an entity. The second half, entities/access-scope.ts, turns the restriction into fields and rows. Reads,
// writes, streams, webhooks and MCP use only these two. Pure; what is not granted is denied.
// Contract: interface#role, decisions#roles, interface#platform-key.

export type Operation = 'read' | 'create' | 'update' | 'delete';
export const OPERATIONS: readonly Operation[] = ['read', 'create', 'update', 'delete'];

/** The rights of a caller in its tenant. */
export interface Rights {
  /** Tenant admins: everything is granted and nothing is hidden. */
  readonly isUnlimited: boolean;
  /** Operations by resource. `*` means every entity, `view:*` every view. */
  readonly permissions: Readonly<Record<string, readonly Operation[]>>;
  /** The restrictions by entity. */
  readonly restrictions: Readonly<Record<string, EntityRestriction>>;
}

/** The fields and rows of one entity that a role is restricted to. */
export interface EntityRestriction {
  fields?: readonly string[];
  excludeFields?: readonly string[];
  rowFilter?: string;
}

export const FULL_RIGHTS: Rights = { isUnlimited: true, permissions: { '*': OPERATIONS }, restrictions: {} };
export const NO_RIGHTS: Rights = { isUnlimited: false, permissions: {}, restrictions: {} };

/** Whether an operation is granted on a resource, by its name or by a wildcard. */
export function allows(rights: Rights, operation: Operation, resource: string): boolean {
  if (rights.isUnlimited) return true;
  const colon = resource.indexOf(':');
  const wildcard = colon < 0 ? '*' : `${resource.slice(0, colon)}:*`;
  return isGranted(rights, resource, operation) || isGranted(rights, wildcard, operation);
}

function isGranted({ permissions }: Rights, resource: string, operation: Operation): boolean {
  return Object.hasOwn(permissions, resource) && permissions[resource]?.includes(operation) === true;
}

/** The restriction within an entity; undefined when there is none. */
export function restrictionOn(rights: Rights, entityName: string): EntityRestriction | undefined {
  if (rights.isUnlimited || !Object.hasOwn(rights.restrictions, entityName)) return undefined;
  return rights.restrictions[entityName];
}

/** Whether every field of every row of every entity may be read. */
export function readsEverything(rights: Rights): boolean {
  return allows(rights, 'read', '*') && (rights.isUnlimited || Object.keys(rights.restrictions).length === 0);
}

/** Whether a field may be read; only then may it be written. */
export function isFieldVisible(restriction: EntityRestriction | undefined, key: string): boolean {
  if (restriction === undefined) return true;
  if (restriction.fields !== undefined && !restriction.fields.includes(key)) return false;
  return restriction.excludeFields?.includes(key) !== true;
}

/** Only the read permissions. Full rights become `*`: every entity, but no view. */
export function readRightsOf({ permissions, restrictions }: Rights): Rights {
  const readable = Object.entries(permissions).filter(([, operations]) => operations.includes('read'));
  return {
    isUnlimited: false,
    restrictions,
    permissions: Object.fromEntries(readable.map(([resource]) => [resource, ['read'] as const])),
  };
}

const ENTITY = /^[a-z_][a-z0-9_]{0,62}$/;
const VIEW_OR_AGENT = /^(view|agent):[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
/** The name of one resource: an entity, `view:<slug>` or `agent:<bot name>`. */
export const RESOURCE = new RegExp(`${ENTITY.source}|${VIEW_OR_AGENT.source}`);
export const RESOURCE_OR_WILDCARD = new RegExp(`${RESOURCE.source}|^\\*$|^view:\\*$`);

export function isEntityName(resource: string): boolean {
  return ENTITY.test(resource);
}
