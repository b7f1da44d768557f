// What permissions are written about: entities by name, and `view:<slug>` and `agent:<bot name>` as
// entries of their own. Pure: texts in, judgement out.
// Contract: interface#platform-key, interface#bot, decisions#roles.
import { OPERATIONS, type Operation } from './rights.ts';

const ENTITY = /^[a-z_][a-z0-9_]{0,62}$/;
const VIEW_OR_AGENT = /^(view|agent):[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
const WILDCARDS: readonly string[] = ['*', 'view:*'];

export function isEntityName(resource: string): boolean {
  return ENTITY.test(resource);
}

/** Whether a text can be the subject of a permission. Wildcards are left to the caller. */
export function isResource(resource: string): boolean {
  return ENTITY.test(resource) || VIEW_OR_AGENT.test(resource);
}

export function isWildcard(resource: string): boolean {
  return WILDCARDS.includes(resource);
}

export const OPERATIONS_RULE = `must be a list of different operations out of ${OPERATIONS.join(', ')}`;

/** Whether a value is a list of operations, none twice. */
export function areOperations(value: unknown): value is Operation[] {
  return (
    Array.isArray(value) &&
    value.every((operation) => OPERATIONS.includes(operation)) &&
    new Set(value).size === value.length
  );
}
