// A load of reads and writes of the same entity, as clients make it: of twenty requests, four are gets, four lists with
// their total, four lists of a filter with its total, four searches, two updates, one creates and one deletes. Deletes
// take the newest records, as many as are created, so that the entity keeps its size.
// Each response is checked by its kind.

import { rareQueries } from './fixture.ts';
import type { Target } from './generator.ts';
import type { Workload } from './measure.ts';

const KINDS = ['get', 'list', 'filter', 'search', 'update', 'create', 'delete'] as const;
const READS = ['get', 'list', 'filter', 'search'] as const;
const PATTERN: ReadonlyArray<(typeof KINDS)[number]> = [
  ...[...READS, 'update', ...READS, 'create'],
  ...[...READS, 'update', ...READS, 'delete'],
] as Array<(typeof KINDS)[number]>;
/** More than any of the servers reaches. */
const REQUESTS_A_SECOND = 1_200;
const WARM_SECONDS = 1.5;
/** The part of the records that a round may delete; a round on a small entity ends early. */
const DELETED_SHARE = 0.25;

/** One side: how each kind is asked there, and what is wrong with a response. */
export interface MixedSide {
  server: Workload['server'];
  records: number;
  /** Of the records: the older half is read and updated. */
  ids: readonly string[];
  /** Resolves to the ids of the newest records of the entity. */
  newest(count: number): Promise<readonly string[]>;
  get(id: string): Target;
  list(): Target;
  filter(): Target;
  search(word: string): Target;
  update(id: string, at: number): Target;
  create(at: number): Target;
  delete(id: string): Target;
  problems: Record<(typeof KINDS)[number], Workload['problem']>;
}

/** The load of a round of `seconds`. */
export function mixedWorkload(side: MixedSide, seconds: number): Workload {
  const kinds = new Map<Target, (typeof KINDS)[number]>();
  return {
    server: side.server,
    once: true,
    kinds: PATTERN.length,
    targets: async () => {
      const wanted = Math.ceil((REQUESTS_A_SECOND * (seconds + WARM_SECONDS)) / PATTERN.length);
      const turns = Math.min(wanted, Math.floor(side.records * DELETED_SHARE));
      kinds.clear();
      return targetsOf(side, await side.newest(turns), turns, kinds);
    },
    problem: (data, target) => side.problems[kinds.get(target) ?? 'get'](data, target),
  };
}

function targetsOf(
  side: MixedSide,
  newest: readonly string[],
  turns: number,
  kinds: Map<Target, (typeof KINDS)[number]>,
): Target[] {
  // The older half, by their ids, which are in the order of creation: deletes do not get that far.
  const kept = side.ids.toSorted().slice(0, Math.ceil(side.ids.length / 2));
  const words = rareQueries(side.records);
  const of = <T>(values: readonly T[], at: number) => values[at % values.length] as T;
  const make: Record<(typeof KINDS)[number], (at: number) => Target> = {
    get: (at) => side.get(of(kept, at)),
    list: () => side.list(),
    filter: () => side.filter(),
    search: (at) => side.search(of(words, at)),
    update: (at) => side.update(of(kept, at), at),
    create: (at) => side.create(at),
    delete: (at) => side.delete(newest[Math.floor(at / PATTERN.length)] as string),
  };
  return Array.from({ length: Math.min(turns, newest.length) * PATTERN.length }, (_, at) => {
    const kind = of(PATTERN, at);
    const target = make[kind](at);
    kinds.set(target, kind);
    return target;
  });
}
