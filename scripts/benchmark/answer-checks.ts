// What is wrong with a response to each operation, the same on both sides: a wrong answer must not look fast.
// A check is made of one response of each workload before it is measured.
// Counts are of records.

import { type ListPage, wrongPage } from './api.ts';
import { commonAmong, openAmong, PAGE } from './dataset.ts';
import type { Workload } from './measure.ts';
import type { OPERATIONS } from './options.ts';

type Problem = Workload['problem'];
/** `untotalled` needs no total, `totalled` any total. */
type Checks = Record<Exclude<(typeof OPERATIONS)[number], 'mixed'> | 'untotalled' | 'totalled', Problem>;

/** How many records a range of amounts matches. */
export function rangeWidth(records: number): number {
  return Math.floor(records * 0.12);
}

/** What is wrong with a response about an entity of `records` records, or null. */
export function answerChecks(records: number): Checks {
  const page =
    (total: number | null, items = PAGE): Problem =>
    (data) =>
      wrongPage(data, total, Math.min(items, total ?? items));
  const sorted =
    (...keys: string[]): Problem =>
    (data) =>
      wrongPage(data, records) ?? outOfOrder(data, keys);
  return {
    get: (data, { path }) => (path.endsWith(field(data, 'id') ?? '?') ? null : 'another record than the one asked for'),
    list: page(records),
    sortCreated: sorted('createdAt'),
    sortUpdated: sorted('updatedAt'),
    sortIndexed: sorted('amount'),
    sortTwo: sorted('status', 'amount'),
    sortUnindexed: sorted('price'),
    untotalled: page(null),
    totalled: withoutTotal,
    filter: page(openAmong(records)),
    filterCold: page(rangeWidth(records)),
    filterSorted: (data) => wrongPage(data, null) ?? withoutTotal(data) ?? outOfOrder(data, ['due']),
    page: page(records),
    searchRare: page(10),
    searchCommon: page(commonAmong(records)),
    related: (data) => wrongPage(data, records) ?? (relatedName(data) ? null : 'the relation is not expanded'),
    create: (data) => (field(data, 'title') ? null : 'not the record created'),
    update: (data) => (['open', 'paid'].includes(field(data, 'status') ?? '') ? null : 'not updated'),
    delete: (data) => (field<boolean>(data, 'deleted') ? null : 'not deleted'),
  };
}

function withoutTotal(data: unknown): string | null {
  const { items, total } = data as ListPage;
  return total >= items.length && items.length > 0 ? null : `${items.length} items and a total of ${total}`;
}

function outOfOrder(data: unknown, keys: readonly string[]): string | null {
  const { items } = data as ListPage;
  const isAscending = (left: ListPage['items'][number], right: ListPage['items'][number]): boolean => {
    const key = keys.find((name) => left[name] !== right[name]);
    return key === undefined || (left[key] as string | number) < (right[key] as string | number);
  };
  const at = items.findIndex((item, index) => index > 0 && !isAscending(items[index - 1] as typeof item, item));
  return at < 0 ? null : `item ${at} is out of order by ${keys.join(', ')}`;
}

function field<T = string>(data: unknown, name: string): T | undefined {
  return (data as Record<string, T> | undefined)?.[name];
}

function relatedName(data: unknown): string | undefined {
  return field((data as ListPage).items[0]?.owner, 'fullName');
}
