// How many locks of Postgres a call on an entity takes: a statement locks every table that it names, with all of its indexes, until
// its transaction ends. A write locks the records that its relations point at, a condition follows them, and a deletion looks
// for what refers to the record. The pools let few calls with many locks run at once (runtime/postgres/lock-room.ts).
// Contract: neighbours#the-database.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { willLock } from '../runtime/work.ts';
import { type Catalog, catalogOf } from './catalog.ts';
import type { Entity } from './field.ts';
import { indexCount } from './indexes.ts';

/** The table, its primary key, and the index of its search. */
const OF_TABLE = 3;

interface Locks {
  /** Of a read or a write. */
  using: number;
  /** Of a deletion, with all that cascades lead to; computed when it is first needed. */
  deleting: number | undefined;
}
/** Entities live as long as their catalog. */
const known = new WeakMap<Entity, Locks>();

/** What follows in the current work uses records of the entity, or deletes some. */
export function noteLocks(catalog: Catalog, entity: Entity, isDeletion = false): void {
  let locks = known.get(entity);
  if (locks === undefined) {
    locks = { using: sum(withTargets(catalog, entity)), deleting: undefined };
    known.set(entity, locks);
  }
  if (isDeletion) locks.deleting ??= sum(withReferring(catalog, entity));
  willLock(Math.max(locks.using, (isDeletion && locks.deleting) || 0));
}

/** The same for the entity of a path, before a transaction is opened, in which it would be known too late. */
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

/** What refers to the entity, and so on for what is deleted with its records. */
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
