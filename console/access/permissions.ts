// What a role, a platform API or a bot may do: operations by resource (an entity, `*`, `view:<slug>`, `agent:<name>`),
// and the fields and rows of an entity that a role is limited to.
export const OPERATIONS = ['read', 'create', 'update', 'delete'] as const;
export type Operation = (typeof OPERATIONS)[number];

export type Permissions = Readonly<Record<string, readonly Operation[]>>;

export interface Restriction {
  /** The only fields that are visible. */
  fields?: readonly string[];
  /** The fields that are not. */
  excludeFields?: readonly string[];
  /** A condition; rows that do not meet it do not exist for the role. */
  rowFilter?: string;
}

export interface Role {
  id: string;
  name: string;
  description: string | null;
  isSystem: boolean;
  permissions: Permissions;
  entities: Readonly<Record<string, Restriction>>;
}

/** Granted by itself, by `*` (or `view:*`), or not. */
export type Grant = 'own' | 'all' | 'none';

export function grantOf(permissions: Permissions, resource: string, operation: Operation): Grant {
  if (permissions[resource]?.includes(operation)) return 'own';
  return permissions[wildcardOf(resource)]?.includes(operation) ? 'all' : 'none';
}

function wildcardOf(resource: string): string {
  if (resource.startsWith('view:')) return 'view:*';
  return resource.startsWith('agent:') ? 'agent:*' : '*';
}

/** With the operation granted or taken; a resource without operations is left out. */
export function toggled(permissions: Permissions, resource: string, operation: Operation): Permissions {
  const own = permissions[resource] ?? [];
  const has = own.includes(operation);
  const next = OPERATIONS.filter((one) => (one === operation ? !has : own.includes(one)));
  const { [resource]: _, ...others } = permissions;
  return next.length === 0 ? others : { ...others, [resource]: next };
}

/** Views are read; nothing else can be done with them. */
export function isPossible(resource: string, operation: Operation): boolean {
  return !resource.startsWith('view:') || operation === 'read';
}

/** A resource in words. */
export function nameOf(resource: string): string {
  if (resource === '*') return 'all entities';
  if (resource === 'view:*') return 'all views';
  if (resource === 'agent:*') return 'all agents';
  if (resource.startsWith('view:')) return `the view ${resource.slice('view:'.length)}`;
  return resource.startsWith('agent:') ? `the agent ${resource.slice('agent:'.length)}` : resource;
}
