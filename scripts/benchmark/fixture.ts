// One side of the comparison with its records in place, and what both sides send: queries are new each time where a cached
// response would falsify the figure.
// Counts are of records.

import { rangeWidth } from './answer-checks.ts';
import { spread } from './bare-store.ts';
import { commonQuery, type Item, item, PAGE, rareWord } from './dataset.ts';
import type { Target } from './generator.ts';
import type { Workload } from './measure.ts';
import type { OPERATIONS } from './options.ts';

export const VARIANTS = 2_000;
const FRESH_RANGES = 15_000;
/** What the rows `sort...` sort by, in the service's syntax. */
export const SORTS = {
  sortCreated: 'createdAt',
  sortUpdated: 'updatedAt',
  sortIndexed: 'amount',
  sortTwo: 'status,amount',
  sortUnindexed: 'price',
} as const;
const FRESH_QUERIES = 350;
const DELETES_A_SECOND = 4_000;
const FAR_PAGE = 2_000;

interface Fixture {
  server: Workload['server'];
  records: number;
  people: readonly string[];
  ids: Record<'items' | 'items_w', readonly string[]>;
}

export interface BareFixture extends Fixture {
  url: string;
}

export interface ServiceFixture extends Fixture {
  key: string;
  /** A field that the key may neither read nor write. */
  hidden?: keyof Item;
}

export type Workloads = Record<(typeof OPERATIONS)[number], Workload>;

/** Page 2000, or the middle page of fewer records. */
export function farPage(records: number): number {
  return Math.min(FAR_PAGE, Math.max(1, Math.floor(records / PAGE / 2)));
}

/** Ranges of amounts that match 12 % of the records: new ones at each call until they repeat. */
export function freshRanges(records: number): () => Array<{ from: number; below: number }> {
  const width = rangeWidth(records);
  let at = 0;
  return () =>
    Array.from({ length: FRESH_RANGES }, () => {
      const from = (at++ * 7919) % (records - width);
      return { from, below: from + width };
    });
}

/** Lower limits of amounts that at least half of the records meet: new ones at each call until they repeat. */
export function freshLimits(records: number): () => number[] {
  let at = 0;
  return () => Array.from({ length: FRESH_RANGES }, () => (at++ * 7919) % Math.ceil(records / 2));
}

/** Searches that every record with the common words matches: new ones at each call. */
export function freshCommonQueries(): () => string[] {
  let at = 0;
  return () => Array.from({ length: FRESH_QUERIES }, () => encodeURIComponent(commonQuery(at++)));
}

/** Words that occur in ten records each. */
export function rareQueries(records: number): string[] {
  const words = Math.max(1, Math.floor(records / 10));
  return spread(
    Array.from({ length: words }, (_, at) => rareWord(at)),
    VARIANTS,
  );
}

/** Bodies of records to create, as JSON values. */
export function newItems(fixture: Fixture & { hidden?: keyof Item }, count: number): Array<Partial<Item>> {
  return Array.from({ length: count }, (_, at) => {
    const whole: Partial<Item> = item(at, count, fixture.people);
    if (fixture.hidden) delete whole[fixture.hidden];
    return whole;
  });
}

/** The two fields that an update writes. */
export function updateBody(at: number): Partial<Item> {
  return { price: (at % 500) / 4, status: at % 2 === 0 ? 'paid' : 'open' };
}

/** Targets of a round of deletes: records created just before it. The first call, for the check, creates one. */
export function deleteTargets(
  seconds: number,
  add: (count: number) => Promise<string[]>,
  target: (id: string) => Target,
): () => Promise<Target[]> {
  let calls = 0;
  return async () => (await add(calls++ === 0 ? 1 : Math.ceil(DELETES_A_SECOND * (seconds + 1)))).map(target);
}
