// What a bot is given to do: operations by entity, view or agent, each named outright, no wildcards.
// Entities must exist, so that a misspelt one is noticed by whoever registers the bot.
// Contract: interface#bot, decisions#roles.
import { isEntityName, isOperationList, isResource, OPERATIONS_RULE, type Operation } from '../access/rights.ts';
import type { App } from '../app.ts';
import { catalogOf } from '../entities/catalog.ts';
import { type Input, OBJECT, strangers } from '../http/input.ts';
import type { Tenant } from '../tenants/tenants.ts';

export interface BotPermissions {
  entities: Record<string, Operation[]>;
}

/** The member `permissions` of a body, `{ entities: { <name>: operations } }`; nothing where it is left out. */
export async function readPermissions(app: App, tenant: Tenant, input: Input): Promise<BotPermissions> {
  const given = input.optional('permissions', OBJECT);
  if (!OBJECT.accepts(given)) return { entities: {} };
  for (const { path, message } of strangers(given, ['entities'], undefined, 'permissions.'))
    input.problem(path, message);
  const { entities = {} } = given;
  if (!OBJECT.accepts(entities)) {
    input.problem('permissions.entities', OBJECT.words);
    return { entities: {} };
  }
  const { byName } = await catalogOf(app, tenant);
  for (const [resource, operations] of Object.entries(entities)) {
    const path = `permissions.entities.${resource}`;
    if (!isResource(resource)) input.problem(path, 'is no entity, view or agent (wildcards are not accepted)');
    else if (isEntityName(resource) && !byName.has(resource)) input.problem(path, 'is not an entity of this tenant');
    if (!isOperationList(operations)) input.problem(path, OPERATIONS_RULE);
  }
  return { entities: entities as BotPermissions['entities'] };
}
