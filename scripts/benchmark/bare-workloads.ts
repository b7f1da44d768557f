// The requests that each benchmark operation sends to the bare handler, and those of the alternative ways to list.
// The answers have the service's shapes, so the same checks apply.
// Deletes remove records that are created before each round.

import { answerChecks } from './answer-checks.ts';
import { addBare, newestBare } from './bare-store.ts';
import {
  type BareFixture,
  deleteTargets,
  farPage,
  freshCommonQueries,
  freshLimits,
  freshRanges,
  newItems,
  rareQueries,
  SORTS,
  updateBody,
  VARIANTS,
  type Workloads,
} from './fixture.ts';
import type { Target } from './generator.ts';
import type { Workload } from './measure.ts';
import { mixedWorkload } from './mixed-workload.ts';

/** `seconds` is the length of a round; it determines how many records a round of deletes needs. */
export function bareWorkloads(fixture: BareFixture, seconds: number): Workloads {
  return { ...reads(fixture), ...writes(fixture, seconds), mixed: mixed(fixture, seconds) };
}

/** Alternative ways to list, measured on their own as reference points, not compared with the service. */
export function otherBareWorkloads({ server, records }: BareFixture): Array<{ label: string; workload: Workload }> {
  const { list, untotalled } = answerChecks(records);
  const naive = () => [get(`/page-naive/${farPage(records)}`)];
  return [
    {
      label: 'list page 1, total by count(*)',
      workload: { server, targets: () => [get('/list-count')], problem: list },
    },
    {
      label: 'list page 1, no total',
      workload: { server, targets: () => [get('/list-no-total')], problem: untotalled },
    },
    {
      label: `page ${farPage(records)}, total, data in the select list`,
      workload: { server, targets: naive, problem: list },
    },
  ];
}

function reads({ server, records, ids }: BareFixture) {
  const { untotalled, ...problems } = answerChecks(records);
  const ranges = freshRanges(records);
  const limits = freshLimits(records);
  const queries = freshCommonQueries();
  const sorted = (row: keyof typeof SORTS): Workload => {
    return { server, targets: () => [get(`/sorted/${SORTS[row]}`)], problem: problems[row] };
  };
  const range = () => ranges().map(({ from, below }) => get(`/filter-count?from=${from}&below=${below}`));
  const search = (words: string[]) => words.map((word) => get(`/search?search=${word}`));
  return {
    get: { server, targets: () => ids.items.map((id) => get(`/get/${id}`)), problem: problems.get },
    list: { server, targets: () => [get('/list-counter')], problem: problems.list },
    sortCreated: sorted('sortCreated'),
    sortUpdated: sorted('sortUpdated'),
    sortIndexed: sorted('sortIndexed'),
    sortTwo: sorted('sortTwo'),
    sortUnindexed: sorted('sortUnindexed'),
    filter: { server, targets: () => [get('/filter/open')], problem: untotalled },
    filterCold: { server, targets: range, once: true, problem: problems.filterCold },
    filterSorted: {
      server,
      targets: () => limits().map((from) => get(`/filter-sorted/${from}`)),
      once: true,
      problem: problems.filterSorted,
    },
    page: { server, targets: () => [get(`/page-by-id/${farPage(records)}`)], problem: problems.page },
    searchRare: { server, targets: () => search(rareQueries(records)), problem: problems.searchRare },
    searchCommon: { server, targets: () => search(queries()), once: true, problem: problems.searchCommon },
    related: { server, targets: () => [get('/related')], problem: problems.related },
  };
}

function writes(fixture: BareFixture, seconds: number) {
  const { server, url, people, ids } = fixture;
  const problems = answerChecks(fixture.records);
  const create = (body: unknown): Target => ({ method: 'POST', path: '/create', body: JSON.stringify(body) });
  const remove = (id: string): Target => ({ method: 'DELETE', path: `/delete/${id}` });
  const added = (count: number) => addBare(url, count, people);
  return {
    create: { server, targets: () => newItems(fixture, VARIANTS).map(create), problem: problems.create },
    update: { server, targets: () => ids.items_w.map(updateTarget), problem: problems.update },
    delete: { server, targets: deleteTargets(seconds, added, remove), once: true, problem: problems.delete },
  };
}

function mixed({ server, url, people, ids, records }: BareFixture, seconds: number): Workload {
  const { totalled, get: gotten, create, update, delete: deleted } = answerChecks(records);
  const bodies = newItems({ server, people, ids, records }, VARIANTS).map((item) => JSON.stringify(item));
  const side = {
    ...{ server, records, ids: ids.items_w },
    newest: (count: number) => newestBare(url, count),
    get: (id: string) => get(`/mixed-get/${id}`),
    list: () => get('/mixed-list'),
    filter: () => get('/mixed-filter'),
    search: (word: string) => get(`/mixed-search/${word}`),
    update: updateTarget,
    create: (at: number): Target => ({ method: 'POST', path: '/mixed-create', body: bodies[at % VARIANTS] as string }),
    delete: (id: string): Target => ({ method: 'DELETE', path: `/mixed-delete/${id}` }),
    problems: { get: gotten, list: totalled, filter: totalled, search: totalled, create, update, delete: deleted },
  };
  return mixedWorkload(side, seconds);
}

function updateTarget(id: string, at: number): Target {
  return { method: 'PATCH', path: `/update/${id}`, body: JSON.stringify(updateBody(at)) };
}

function get(path: string): Target {
  return { method: 'GET', path };
}
