// Follows the feed for a command, through lost connections, until Ctrl-C. A wrong credential, entity or cursor is reported before
// the first change.
// Failures: those of the client.
import { type AnySchema, ApiError, type Change as ClientChange, type FollowOptions } from '../../client/src/client.ts';
import { entityPath } from './entity.ts';
import type { Service } from './service.ts';

export type Change = ClientChange<AnySchema>;
export type Selection = Pick<FollowOptions<string>, 'entities' | 'events' | 'filters' | 'view' | 'transitions'>;

/** The values of options as texts; a missing option selects everything. */
export interface GivenSelection {
  entities?: string | undefined;
  events?: string | undefined;
  filters?: string | undefined;
  view?: string | undefined;
  transitions?: boolean | undefined;
}

/** Follows changes from a cursor on, or from now if it is empty. */
export async function* follow(service: Service, since: string, given: GivenSelection): AsyncGenerator<Change> {
  const { signal, client } = service;
  for (const name of listed({ entities: given.entities }).entities ?? []) await requireEntity(service, name);
  const first = await service.get<{ nextCursor: string }>('/api/changes', { ...given, since, limit: 1 });
  const { entities, events, ...rest } = given;
  const selection = { ...rest, ...listed({ entities, events }) } as Selection;
  try {
    yield* client.changes({ ...selection, since: since === '' ? first.nextCursor : since, signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The feed shows nothing of an entity that does not exist: with a misspelt name, a follower would wait for ever. */
async function requireEntity(service: Service, name: string): Promise<void> {
  try {
    await service.get(entityPath(name));
  } catch (error) {
    // Some callers that may follow changes may not read definitions.
    if (!(error instanceof ApiError && error.status === 403)) throw error;
  }
}

function listed(texts: Record<string, string | undefined>): Record<string, string[]> {
  const given = Object.entries(texts).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given.map(([name, text]) => [name, text.split(',').map((one) => one.trim())]));
}
