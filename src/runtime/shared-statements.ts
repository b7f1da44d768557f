// Concurrent work of one kind shares statements. Two statements of a group run at once. Items that arrive meanwhile wait until one of
// the two has ended, and then share the next statement. An item that arrives alone does not wait. When the shared statement fails, or does
// nothing for an item, that item is tried alone, so it fails for its own reasons only. With 16 connections this halves the CPU of a write
// and of a read by id, in the service and in Postgres.
// Failures: those of each item alone; 503 for all while the database is unavailable. Times are milliseconds.
import { ServiceError } from '../errors.ts';
import { currentWork, forAll, type Work } from './work.ts';

/** Statements of a group that run at once: with more, fewer items share one. */
const RUNNING_MAX = 2;
/** How many items of a group may wait, by default. */
const WAITING_MAX = 64;
/** Bytes of a statement's items, not counting the first item. */
const BYTES_MAX = 262_144;
/** An item that has waited this long gets a statement of its own: the running ones may be waiting for a lock. */
const WAIT_MS = 25;

/** Runs one statement for the items. Resolves to the result of each, undefined where nothing was done. */
type Run<Item, Result> = (items: readonly Item[]) => Promise<readonly (Result | undefined)[]>;

/** What happens to a waiting item: its statement is next, it was done with another item's statement, or it must be tried alone. */
type Turn<Result> = 'next' | 'alone' | { result: Result };

interface Waiting<Item, Result> {
  item: Item;
  work: Work;
  since: number;
  turn: PromiseWithResolvers<Turn<Result>>;
}

interface Group<Item, Result> {
  running: number;
  waiting: Waiting<Item, Result>[];
  /** Set while something waits. */
  clock: ReturnType<typeof setTimeout> | undefined;
}

export interface SharedStatementsOptions<Item> {
  /** Most items of one statement. */
  itemsMax: number;
  /** Items of a group that wait; further ones are tried alone. */
  waitingMax?: number;
  /** Bytes of an item; none by default. */
  bytesOf?: (item: Item) => number;
  /** The object of an item, if a statement may have only one item for each object. */
  idOf?: (item: Item) => string;
}

export class SharedStatements<Item, Result> {
  /** By owner, then by key. Groups go with their owner. */
  readonly #groups = new WeakMap<object, Map<string, Group<Item, Result>>>();

  constructor(private readonly options: SharedStatementsOptions<Item>) {}

  /**
   * Runs a statement for the item, together with waiting items of the same owner (such as an entity's definition) and key. Resolves
   * to undefined when nothing was done.
   */
  async run(owner: object, key: string, item: Item, run: Run<Item, Result>): Promise<Result | undefined> {
    const byKey = this.#groups.get(owner) ?? new Map<string, Group<Item, Result>>();
    this.#groups.set(owner, byKey);
    const group = byKey.get(key) ?? { running: 0, waiting: [], clock: undefined };
    byKey.set(key, group);
    if (group.waiting.length >= (this.options.waitingMax ?? WAITING_MAX)) return runAlone(item, run);
    if (group.running < RUNNING_MAX) group.running++;
    else {
      const turn = Promise.withResolvers<Turn<Result>>();
      group.waiting.push({ item, turn, work: currentWork(), since: performance.now() });
      startClock(group);
      const outcome = await turn.promise;
      if (outcome === 'alone') return runAlone(item, run);
      if (outcome !== 'next') return outcome.result;
    }
    try {
      return await runWith(item, this.#takeOthers(group, item), run);
    } finally {
      const next = group.waiting.shift();
      if (next !== undefined) next.turn.resolve('next');
      else if (--group.running === 0) byKey.delete(key);
    }
  }

  /** Takes as many waiting items as fit one statement. */
  #takeOthers(group: Group<Item, Result>, own: Item): readonly Waiting<Item, Result>[] {
    if (group.waiting.length === 0) return [];
    const { itemsMax, bytesOf = () => 0, idOf } = this.options;
    const ids = new Set([idOf?.(own)]);
    const taken: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    let bytes = 0;
    for (const waiting of group.waiting) {
      const id = idOf?.(waiting.item);
      bytes += bytesOf(waiting.item);
      const isOther = idOf === undefined || !ids.has(id);
      (isOther && taken.length + 1 < itemsMax && bytes <= BYTES_MAX ? taken : left).push(waiting);
      ids.add(id);
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

async function runAlone<Item, Result>(item: Item, run: Run<Item, Result>): Promise<Result | undefined> {
  return (await run([item]))[0];
}

async function runWith<Item, Result>(
  own: Item,
  others: readonly Waiting<Item, Result>[],
  run: Run<Item, Result>,
): Promise<Result | undefined> {
  if (others.length === 0) return runAlone(own, run);
  try {
    const works = [currentWork(), ...others.map(({ work }) => work)];
    const [result, ...results] = await forAll(works, () => run([own, ...others.map(({ item }) => item)]));
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
  return runAlone(own, run);
}
