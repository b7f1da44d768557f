// Estimates how many locks of Postgres a call on an entity takes: a statement locks every table that it names, and all its
// indexes, until its transaction ends. A write locks the targets of its relations, a condition follows relations, and a deletion
// looks for referring records. The pools let few calls with many locks run at once (runtime/postgres/lock-room.ts).
// Contract: neighbours#the-database.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { willLock } from '../runtime/work.ts';
import { type Catalog, catalogOf } from './catalog.ts';
import type { Entity } from './field.ts';
import { indexCount } from './indexes.ts';

/** Locks of a table besides its fields' indexes: the table, its primary key, and its search index. */
const OF_TABLE = 3;

interface Locks {
  /** The locks of a read or a write. */
  using: number;
  /** The locks of a deletion, including all entities that cascades reach; computed when first needed. */
  deleting: number | undefined;
}
/** Known numbers; an entry lives as long as the entity's catalog. */
const known = new WeakMap<Entity, Locks>();

/** Announces that the current work will use records of the entity, or delete some. */
export function noteLocks(catalog: Catalog, entity: Entity, isDeletion = false): void {
  let locks = known.get(entity);
  if (locks === undefined) {
    locks = { using: sum(withTargets(catalog, entity)), deleting: undefined };
    known.set(entity, locks);
  }
  if (isDeletion) locks.deleting ??= sum(withReferring(catalog, entity));
  willLock(Math.max(locks.using, (isDeletion && locks.deleting) || 0));
}

/**
 * Like `noteLocks`, by the entity's name. Must be called before a transaction is opened: in the transaction it would be too
 * late.
 */
export async function noteLocksOf(
  app: App,
  { tenant }: TenantCaller,
  entityName: string,
  isDeletion = false,
): Promise<void> {
  const cached = catalogOf(app, tenant);
  const catalog = cached instanceof Promise ? await cached : cached;
  const entity = catalog.byName.get(entityName);
  if (entity !== undefined) noteLocks(catalog, entity, isDeletion);
}

function sum(entities: Iterable<Entity>): number {
  let locks = 0;
  for (const entity of entities) locks += OF_TABLE + indexCount(entity);
  return locks;
}

function withTargets(catalog: Catalog, entity: Entity): Set<Entity> {
  const found = new Set([entity]);
  for (const { targetId } of entity.fields) {
    const target = catalog.byId.get(targetId ?? '');
    if (target !== undefined) found.add(target);
  }
  return found;
}

/** The entity and its referring entities, and those of every entity whose records cascades delete. */
function withReferring(catalog: Catalog, entity: Entity): Set<Entity> {
  const found = new Set([entity]);
  const doomed = new Set([entity]);
  for (const one of doomed) {
    for (const {
      entity: { id },
      field,
    } of one.references) {
      const referring = catalog.byId.get(id);
      if (referring === undefined) continue;
      found.add(referring);
      if (field.onDelete === 'cascade') doomed.add(referring);
    }
  }
  return found;
}
