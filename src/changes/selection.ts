// What a follower selects: entities, events, a condition. Names of entities are not looked up, as in the parameters of a
// stream: an entity that is dropped later must not end the following, and one that the caller may not read yields nothing.
// Failures: 400 with every problem; for a view 403 without its permission, 404, 409 when it no longer fits its entity.
// Contract: feed#parameters.
import { type Static, Type } from '@sinclair/typebox';
import { requireRight, type TenantCaller } from '../access/caller.ts';
import { allows } from '../access/rights.ts';
import type { App } from '../app.ts';
import { accessScopeOf } from '../entities/access-scope.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import { invalid, type Problem, ServiceError } from '../errors.ts';
import { DEFINITION_CHANGED, RECORD_EVENTS } from '../events/event.ts';
import { relationKeys } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import { flagParameter, integerParameter, parameters } from '../http/parameters.ts';
import { LIMITS } from '../limits.ts';
import { giveWay, giveWayToRead } from '../runtime/event-loop.ts';
import { conditionFor } from '../views/dsl.ts';
import type { FilterDsl } from '../views/view.ts';
import { viewFor } from '../views/views.ts';

const { limitDefault, limitMax, waitMaxS } = LIMITS.changes;

export const RIGHTS_CHANGED = 'rights.changed';
/** Updates that move a record in or out of what the caller sees. */
const TRANSITIONS = ['record.entered', 'record.left'] as const;
/** The types that can be selected. A follower gets the last two types whatever it selects. */
export const ITEM_TYPES = [...RECORD_EVENTS, ...TRANSITIONS, DEFINITION_CHANGED, RIGHTS_CHANGED] as const;

export const ChangesQuery = parameters({
  since: Type.Optional(
    Type.String({ description: 'a cursor; empty: from now; `earliest`: from the oldest change that is kept' }),
  ),
  entities: Type.Optional(Type.String({ description: 'entities, separated by commas; default: all' })),
  events: Type.Optional(
    Type.String({ description: `types of changes, separated by commas (${RECORD_EVENTS.join(', ')}); default: all` }),
  ),
  filters: Type.Optional(Type.String({ description: 'a condition on the changed records of the one entity named' })),
  view: Type.Optional(Type.String({ description: 'the slug of a view, whose entity and conditions apply' })),
  transitions: Type.Optional(
    flagParameter({ description: 'show updates that move a record in or out of what one sees as such' }),
  ),
  limit: Type.Optional(integerParameter(1, limitMax, { default: limitDefault, description: 'items per page' })),
  wait: Type.Optional(
    integerParameter(0, waitMaxS, { default: 0, description: 'seconds to wait for a change when there is none' }),
  ),
});
export type ChangesQuery = Static<typeof ChangesQuery>;

/** What a request selects; null selects everything. */
export interface Wanted {
  entities: ReadonlySet<string> | null;
  events: ReadonlySet<string> | null;
  /** Conditions that must all hold. Each is parsed by itself, so that its text cannot close a parenthesis of another. */
  filters: readonly string[];
  /** A view's slug. */
  view: string | null;
  transitions: boolean;
  /** For streams: they have their own event types and, except for transitions, show nothing of an entity with a row filter. */
  stream?: { types: readonly string[] };
}

export interface Selection extends Omit<Wanted, 'view'> {
  view: FollowedView | null;
}

export interface FollowedView {
  slug: string;
  entityId: string;
  dsl: FilterDsl;
}

export function wantedOf({ entities, events, filters, view, transitions }: ChangesQuery): Wanted {
  return {
    entities: namesIn(entities),
    events: namesIn(events),
    filters: conditionsIn(filters),
    view: view?.trim() || null,
    transitions: transitions === true,
  };
}

export async function readSelection(
  app: App,
  caller: TenantCaller,
  wanted: Wanted,
  others: readonly Problem[] = [],
): Promise<Selection> {
  const catalog = await catalogOf(app, caller.tenant);
  // Hundreds of requests, or followers of one change, may parse their filters at once.
  const way = giveWayToRead(wanted.filters.reduce((sum, { length }) => sum + length, 0));
  if (way !== undefined) await way;
  const view = wanted.view === null ? null : await viewOf(app, caller, wanted.view);
  const selection: Selection = {
    ...wanted,
    entities: view === null ? wanted.entities : new Set([view.entity.name]),
    view: view && { slug: view.slug, entityId: view.entity.id, dsl: view.dsl },
  };
  const problems = [
    ...others,
    ...namesProblems(wanted, view?.entity.name ?? null),
    ...eventProblems(wanted),
    ...filterProblems(catalog, caller, selection),
  ];
  if (problems.length > 0) throw invalid(problems);
  return selection;
}

async function viewOf(
  app: App,
  caller: TenantCaller,
  slug: string,
): Promise<{ slug: string; entity: Entity; dsl: FilterDsl }> {
  requireRight(caller, 'read', `view:${slug}`);
  const { view, entity, catalog } = await viewFor(app, caller, slug);
  const way = giveWay();
  if (way !== undefined) await way;
  // Fails with 409 now rather than at the first change.
  conditionFor(view.filterDsl, catalog, caller, entity);
  return { slug, entity, dsl: view.filterDsl };
}

/** The condition of a parameter, if it has one. */
export function conditionsIn(text: string | null | undefined): string[] {
  const condition = text?.trim() ?? '';
  return condition === '' ? [] : [condition];
}

export function namesIn(text: string | undefined): ReadonlySet<string> | null {
  const names = (text ?? '').split(',').map((name) => name.trim());
  const set = new Set(names.filter((name) => name !== ''));
  return set.size === 0 ? null : set;
}

function namesProblems({ entities: names }: Wanted, viewed: string | null): Problem[] {
  const max = LIMITS.entity.perTenantMax;
  if (names === null) return [];
  if (names.size > max) {
    return [{ path: 'entities', message: `names more than ${max}, which is all that a tenant can have` }];
  }
  const isOther = viewed !== null && (names.size > 1 || !names.has(viewed));
  return isOther ? [{ path: 'entities', message: `the view shows records of ${viewed}; leave entities out` }] : [];
}

function eventProblems({ events, transitions, stream }: Wanted): Problem[] {
  const known: readonly string[] = [...(stream?.types ?? []), ...ITEM_TYPES];
  return [...(events ?? [])].flatMap((type) => {
    if (!known.includes(type)) {
      return [{ path: 'events', message: `has an unknown type: ${type}; known are ${known.join(', ')}` }];
    }
    const isTransition = (TRANSITIONS as readonly string[]).includes(type);
    return isTransition && !transitions ? [{ path: 'events', message: `${type} needs transitions=true` }] : [];
  });
}

/** Filters on an entity that the caller may not read are not checked: the message would tell which fields it has. */
function filterProblems(catalog: Catalog, caller: TenantCaller, { filters, entities, view }: Selection): Problem[] {
  if (filters.length === 0) return [];
  const [name = ''] = entities ?? [];
  if (entities?.size !== 1) return [{ path: 'filters', message: 'needs exactly one entity in entities, or a view' }];
  const entity = catalog.byName.get(name);
  if (entity === undefined || (view === null && !allows(caller.rights, 'read', name))) return [];
  try {
    const { names } = accessScopeOf(catalog, caller, entity);
    const [relation] = filters.flatMap((text) => relationKeys(parseExpression(text, names)));
    if (relation === undefined) return [];
    const message = `follows the relation ${relation}: a change of the related record would be no change of this one; compare fields of ${name} itself`;
    return [{ path: 'filters', message }];
  } catch (error) {
    if (error instanceof ServiceError && error.details !== undefined) return [...error.details];
    throw error;
  }
}
