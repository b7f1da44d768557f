// Concurrent writes of one kind, caller and entity share a statement: two statements of such a group run at once, and what
// arrives meanwhile waits until one of them has ended and is then written together. A write that arrives alone does not
// wait. When the shared statement fails, or does nothing for a write, that write is tried alone, so that it fails for its own
// reasons. With 16 connections this halves the CPU of a write, in the service and in Postgres, and that of its webhook deliveries.
// Failures: those of each write alone; 503 for all while the database is unavailable. Units: writes, bytes of JSON.
import type { Entity } from '../../entities/field.ts';
import { ServiceError } from '../../errors.ts';
import type { RecordEventType } from '../../events/event.ts';
import { type Cause, currentTrace } from '../../events/outbox.ts';
import { ROWS_OF_KEPT_PLAN, rowsPerStatement } from '../../events/publication.ts';
import { withoutSignal } from '../../runtime/work.ts';
import { areWritesLimited } from '../../usage/write-quotas.ts';
import type { OpenWrite } from './context.ts';

/** Statements of a group that run at once: with more, fewer writes share one. */
const RUNNING_MAX = 2;
/** What waits in a group; further ones are tried alone. */
const WAITING_MAX = 64;
/** Writes of a statement, and the bytes of all but the first. */
const WRITES_MAX = ROWS_OF_KEPT_PLAN;
const BYTES_MAX = 262_144;
/** What has waited so long, in milliseconds, has a statement of its own: those that run may be waiting for a lock. */
const WAIT_MS = 25;

/** Writes the items with one statement. Resolves to the result of each, undefined where nothing was done. */
type Write<Item, Result> = (items: readonly Item[]) => Promise<readonly (Result | undefined)[]>;

/** What happens to a write that waits: its statement is next, it was done with another, or it has to be tried alone. */
type Turn<Result> = 'next' | 'alone' | { result: Result };

interface Waiting<Item, Result> {
  item: Item;
  since: number;
  turn: PromiseWithResolvers<Turn<Result>>;
}

/** The writes of one caller, made for one version of an entity's definition. */
interface Group<Item, Result> {
  running: number;
  waiting: Waiting<Item, Result>[];
  /** Runs while something waits. */
  clock: ReturnType<typeof setTimeout> | undefined;
}

export class SharedStatements<Item, Result> {
  /** By definition, then by key. Groups go with the definition when it leaves the cache. */
  readonly #groups = new WeakMap<Entity, Map<string, Group<Item, Result>>>();

  /** `idOf` is the record that an item writes: a statement has one write of it. */
  constructor(
    private readonly bytesOf: (item: Item) => number,
    private readonly idOf: (item: Item) => string,
  ) {}

  /** Writes the item, together with others of the same key if they wait. Resolves to undefined when nothing was done. */
  async write(entity: Entity, key: string, item: Item, write: Write<Item, Result>): Promise<Result | undefined> {
    const byKey = this.#groups.get(entity) ?? new Map<string, Group<Item, Result>>();
    this.#groups.set(entity, byKey);
    const group = byKey.get(key) ?? { running: 0, waiting: [], clock: undefined };
    byKey.set(key, group);
    if (group.waiting.length >= WAITING_MAX) return writeAlone(item, write);
    if (group.running < RUNNING_MAX) group.running++;
    else {
      const turn = Promise.withResolvers<Turn<Result>>();
      group.waiting.push({ item, turn, since: performance.now() });
      startClock(group);
      const outcome = await turn.promise;
      if (outcome === 'alone') return writeAlone(item, write);
      if (outcome !== 'next') return outcome.result;
    }
    try {
      return await writeWith(item, this.#takeOthers(group, item), write);
    } finally {
      const next = group.waiting.shift();
      if (next !== undefined) next.turn.resolve('next');
      else if (--group.running === 0) byKey.delete(key);
    }
  }

  /** Takes from those that wait as many as fit one statement. */
  #takeOthers(group: Group<Item, Result>, own: Item): Waiting<Item, Result>[] {
    const ids = new Set([this.idOf(own)]);
    const taken: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    let bytes = 0;
    for (const waiting of group.waiting) {
      const id = this.idOf(waiting.item);
      bytes += this.bytesOf(waiting.item);
      const fits = taken.length + 1 < WRITES_MAX && bytes <= BYTES_MAX && !ids.has(id);
      ids.add(id);
      (fits ? taken : left).push(waiting);
    }
    group.waiting = left;
    return taken;
  }
}

function startClock<Item, Result>(group: Group<Item, Result>): void {
  group.clock ??= setTimeout(() => {
    group.clock = undefined;
    const [first] = group.waiting;
    if (first === undefined) return;
    if (performance.now() - first.since >= WAIT_MS) {
      group.waiting.shift();
      group.running++;
      first.turn.resolve('next');
    }
    startClock(group);
  }, WAIT_MS);
}

async function writeAlone<Item, Result>(item: Item, write: Write<Item, Result>): Promise<Result | undefined> {
  return (await write([item]))[0];
}

async function writeWith<Item, Result>(
  own: Item,
  others: readonly Waiting<Item, Result>[],
  write: Write<Item, Result>,
): Promise<Result | undefined> {
  if (others.length === 0) return writeAlone(own, write);
  try {
    // The others wait for it too, whether or not the client of this one has gone.
    const [result, ...results] = await withoutSignal(() => write([own, ...others.map(({ item }) => item)]));
    for (const [i, { turn }] of others.entries()) {
      const of = results[i];
      turn.resolve(of === undefined ? 'alone' : { result: of });
    }
    if (result !== undefined) return result;
  } catch (error) {
    if (error instanceof ServiceError) {
      for (const { turn } of others) turn.reject(error);
      throw error;
    }
    for (const { turn } of others) turn.resolve('alone');
  }
  return writeAlone(own, write);
}

/**
 * Whether a write may share a statement: not when an output takes its outcome from the statement, when each write creates many
 * webhook deliveries, close to a quota, or when it is traced.
 */
export function canShare({ tx, publication, caller }: OpenWrite, entity: Entity, type: RecordEventType): boolean {
  return (
    tx === null &&
    publication.isUnobserved &&
    rowsPerStatement({ entity, type }) >= WRITES_MAX &&
    !areWritesLimited(caller) &&
    currentTrace() === null
  );
}

/** Writes with the same key have the same cause. */
export function keyOfCause({ actor, triggeredBy, depth, rootEventId, importId }: Cause): string {
  return JSON.stringify([actor, triggeredBy, depth, rootEventId, importId]);
}
