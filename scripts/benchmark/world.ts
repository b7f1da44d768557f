// One side of the comparison with its records in place, and what both sides' requests and answers have in common:
// fresh questions where an answer must not have been remembered, and what a right answer holds.

import { type ListPage, wrongPage } from './api.ts';
import { spread } from './bare-store.ts';
import { commonAmong, commonQuery, type Item, item, openAmong, PAGE, rareWord } from './dataset.ts';
import type { Target } from './generator.ts';
import type { Shot } from './measure.ts';

export const VARIANTS = 2_000;
const FRESH_RANGES = 15_000;
const FRESH_QUERIES = 350;
const DELETES_A_SECOND = 4_000;
const FAR_PAGE = 2_000;

export interface World {
  server: Shot['server'];
  records: number;
  people: readonly string[];
  ids: Record<'items' | 'items_w', readonly string[]>;
}

export interface BareWorld extends World {
  url: string;
}

export interface ServiceWorld extends World {
  key: string;
  /** A field that the key may not see, and so may not write. */
  hidden?: keyof Item;
}

/** The operations that exist on both sides. */
export const OPERATIONS = [
  'get',
  'list',
  'filter',
  'filterCold',
  'page',
  'searchRare',
  'searchCommon',
  'related',
  'create',
  'update',
  'delete',
] as const;
export type Shots = Record<(typeof OPERATIONS)[number], Shot>;

/** Page 2000, or the middle one where there are not as many. */
export function farPage(records: number): number {
  return Math.min(FAR_PAGE, Math.max(1, Math.floor(records / PAGE / 2)));
}

/** Ranges of amounts that 12 % of the records lie in, fresh ones at each call as long as there are enough. */
export function freshRanges(records: number): () => Array<{ from: number; below: number }> {
  const width = rangeWidth(records);
  let at = 0;
  return () =>
    Array.from({ length: FRESH_RANGES }, () => {
      const from = (at++ * 7919) % (records - width);
      return { from, below: from + width };
    });
}

/** Searches that every record with the common words matches, fresh ones at each call. */
export function freshCommonQueries(): () => string[] {
  let at = 0;
  return () => Array.from({ length: FRESH_QUERIES }, () => encodeURIComponent(commonQuery(at++)));
}

/** Words that ten records hold. */
export function rareQueries(records: number): string[] {
  const words = Math.max(1, Math.floor(records / 10));
  return spread(
    Array.from({ length: words }, (_, at) => rareWord(at)),
    VARIANTS,
  );
}

/** Bodies of records to create, as JSON values. */
export function newItems(world: World & { hidden?: keyof Item }, count: number): Array<Partial<Item>> {
  return Array.from({ length: count }, (_, at) => {
    const whole: Partial<Item> = item(at, count, world.people);
    if (world.hidden) delete whole[world.hidden];
    return whole;
  });
}

/** The two fields that an update writes. */
export function change(at: number): Partial<Item> {
  return { price: (at % 500) / 4, status: at % 2 === 0 ? 'paid' : 'open' };
}

/** Targets of a round of deletes: records made for it just before. The first call, for the check, makes one. */
export function doomed(
  seconds: number,
  add: (count: number) => Promise<string[]>,
  target: (id: string) => Target,
): () => Promise<Target[]> {
  let calls = 0;
  return async () => (await add(calls++ === 0 ? 1 : Math.ceil(DELETES_A_SECOND * (seconds + 1)))).map(target);
}

/** What is wrong with an answer, for each operation, on an entity of so many records. */
export function expectations(records: number): Record<keyof Shots | 'untotalled', Shot['wrong']> {
  const page =
    (total: number | null, items = PAGE): Shot['wrong'] =>
    (data) =>
      wrongPage(data, total, Math.min(items, total ?? items));
  return {
    get: (data, { path }) => (path.endsWith(field(data, 'id') ?? '?') ? null : 'another record than the one asked for'),
    list: page(records),
    untotalled: page(null),
    filter: page(openAmong(records)),
    filterCold: page(rangeWidth(records)),
    page: page(records),
    searchRare: page(10),
    searchCommon: page(commonAmong(records)),
    related: (data) => wrongPage(data, records) ?? (relatedName(data) ? null : 'the relation is not expanded'),
    create: (data) => (field(data, 'title') ? null : 'not the record created'),
    update: (data) => (field(data, 'status') === change(0).status ? null : 'not updated'),
    delete: (data) => (field<boolean>(data, 'deleted') ? null : 'not deleted'),
  };
}

function rangeWidth(records: number): number {
  return Math.floor(records * 0.12);
}

function field<T = string>(data: unknown, name: string): T | undefined {
  return (data as Record<string, T> | undefined)?.[name];
}

function relatedName(data: unknown): string | undefined {
  return field((data as ListPage).items[0]?.owner, 'fullName');
}
