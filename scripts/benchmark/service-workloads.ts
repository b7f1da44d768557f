// The requests of every operation to the service, with one credential. Reads and writes use two entities, so that writes
// do not change what the reads measure; a row that measures reads only may pass the same entity twice.
// Deletes remove records that are created before each round.

import { answerChecks } from './answer-checks.ts';
import { Api } from './api.ts';
import {
  deleteTargets,
  farPage,
  freshCommonQueries,
  freshLimits,
  freshRanges,
  newItems,
  rareQueries,
  type ServiceFixture,
  SORTS,
  updateBody,
  VARIANTS,
  type Workloads,
} from './fixture.ts';
import type { Target } from './generator.ts';
import type { Workload } from './measure.ts';
import { mixedWorkload } from './mixed-workload.ts';

/** The length of a round (`seconds`) determines how many records a round of deletes needs. */
export function serviceWorkloads(
  fixture: ServiceFixture,
  seconds: number,
  read = 'items',
  written = 'items_w',
): Workloads {
  return {
    ...reads(fixture, read),
    ...writes(fixture, written, seconds),
    mixed: mixed(fixture, written, seconds),
  };
}

function reads({ server, records, ids, key }: ServiceFixture, entity: string) {
  const problems = answerChecks(records);
  const ranges = freshRanges(records);
  const limits = freshLimits(records);
  const queries = freshCommonQueries();
  const ask = (rest: string): Target => ({ method: 'GET', path: `/api/entities/${entity}/records${rest}`, key });
  const filter = (text: string, more = '') => ask(`?filters=${encodeURIComponent(text)}${more}`);
  const sorted = (row: keyof typeof SORTS): Workload => {
    return { server, targets: () => [ask(`?sort=${SORTS[row]}`)], problem: problems[row] };
  };
  const narrowed = () => limits().map((from) => filter(`status = open AND amount >= ${from}`, '&sort=due'));
  const range = () => ranges().map(({ from, below }) => filter(`amount >= ${from} AND amount < ${below}`));
  const search = (words: string[]) => words.map((word) => ask(`?search=${word}`));
  return {
    get: { server, targets: () => ids.items.map((id) => ask(`/${id}`)), problem: problems.get },
    list: { server, targets: () => [ask('')], problem: problems.list },
    sortCreated: sorted('sortCreated'),
    sortUpdated: sorted('sortUpdated'),
    sortIndexed: sorted('sortIndexed'),
    sortTwo: sorted('sortTwo'),
    sortUnindexed: sorted('sortUnindexed'),
    filter: { server, targets: () => [filter('status = open')], problem: problems.filter },
    filterCold: { server, targets: range, once: true, problem: problems.filterCold },
    filterSorted: { server, targets: narrowed, once: true, problem: problems.filterSorted },
    page: { server, targets: () => [ask(`?page=${farPage(records)}`)], problem: problems.page },
    searchRare: { server, targets: () => search(rareQueries(records)), problem: problems.searchRare },
    searchCommon: { server, targets: () => search(queries()), once: true, problem: problems.searchCommon },
    related: { server, targets: () => [ask('?resolve=true')], problem: problems.related },
  };
}

function writes(fixture: ServiceFixture, entity: string, seconds: number) {
  const { server, key, ids } = fixture;
  const problems = answerChecks(fixture.records);
  const base = `/api/entities/${entity}/records`;
  const api = new Api(server.port, { key });
  const create = (body: unknown): Target => ({ method: 'POST', path: base, body: JSON.stringify(body), key });
  const update = (id: string, at: number): Target => {
    return { method: 'PATCH', path: `${base}/${id}`, body: JSON.stringify(updateBody(at)), key };
  };
  const remove = (id: string): Target => ({ method: 'DELETE', path: `${base}/${id}`, key });
  const added = (count: number) => api.createMany(entity, newItems(fixture, count));
  return {
    create: { server, targets: () => newItems(fixture, VARIANTS).map(create), problem: problems.create },
    update: { server, targets: () => ids.items_w.map(update), problem: problems.update },
    delete: { server, targets: deleteTargets(seconds, added, remove), once: true, problem: problems.delete },
  };
}

function mixed(fixture: ServiceFixture, entity: string, seconds: number): Workload {
  const { server, key, ids, records } = fixture;
  const { totalled, get, create, update, delete: deleted } = answerChecks(records);
  const base = `/api/entities/${entity}/records`;
  const api = new Api(server.port, { key });
  const bodies = newItems(fixture, VARIANTS).map((item) => JSON.stringify(item));
  const ask = (method: string, rest: string, body?: string): Target => {
    return { method, path: `${base}${rest}`, key, ...(body === undefined ? {} : { body }) };
  };
  const side = {
    ...{ server, records, ids: ids.items_w },
    newest: (count: number) => api.newestIds(entity, count),
    get: (id: string) => ask('GET', `/${id}`),
    list: () => ask('GET', ''),
    filter: () => ask('GET', `?filters=${encodeURIComponent('status = open')}`),
    search: (word: string) => ask('GET', `?search=${word}`),
    update: (id: string, at: number) => ask('PATCH', `/${id}`, JSON.stringify(updateBody(at))),
    create: (at: number) => ask('POST', '', bodies[at % VARIANTS] as string),
    delete: (id: string) => ask('DELETE', `/${id}`),
    problems: { get, list: totalled, filter: totalled, search: totalled, create, update, delete: deleted },
  };
  return mixedWorkload(side, seconds);
}
