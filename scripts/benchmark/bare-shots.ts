// The requests of every operation as the bare handler takes them, and some other ways of the same question.

import { addBare } from './bare-store.ts';
import type { Target } from './generator.ts';
import type { Shot } from './measure.ts';
import {
  type BareWorld,
  change,
  doomed,
  expectations,
  farPage,
  freshCommonQueries,
  freshRanges,
  newItems,
  rareQueries,
  type Shots,
  VARIANTS,
} from './world.ts';

/** `seconds` of a round decide how many records a round of deletes needs. */
export function bareShots(world: BareWorld, seconds: number): Shots {
  return { ...reads(world), ...writes(world, seconds) };
}

/** Ways of listing that no row compares with; for orientation. */
export function otherBareShots({ server, records }: BareWorld): Array<{ label: string; shot: Shot }> {
  const { list, untotalled } = expectations(records);
  const naive = () => [get(`/page-naive/${farPage(records)}`)];
  return [
    { label: 'list page 1, total by count(*)', shot: { server, targets: () => [get('/list-count')], wrong: list } },
    { label: 'list page 1, no total', shot: { server, targets: () => [get('/list-no-total')], wrong: untotalled } },
    {
      label: `page ${farPage(records)}, total, data in the select list`,
      shot: { server, targets: naive, wrong: list },
    },
  ];
}

function reads({ server, records, ids }: BareWorld) {
  const { untotalled, ...wrong } = expectations(records);
  const ranges = freshRanges(records);
  const queries = freshCommonQueries();
  const range = () => ranges().map(({ from, below }) => get(`/filter-count?from=${from}&below=${below}`));
  const search = (words: string[]) => words.map((word) => get(`/search?search=${word}`));
  return {
    get: { server, targets: () => ids.items.map((id) => get(`/get/${id}`)), wrong: wrong.get },
    list: { server, targets: () => [get('/list-counter')], wrong: wrong.list },
    filter: { server, targets: () => [get('/filter/open')], wrong: untotalled },
    filterCold: { server, targets: range, once: true, wrong: wrong.filterCold },
    page: { server, targets: () => [get(`/page-by-id/${farPage(records)}`)], wrong: wrong.page },
    searchRare: { server, targets: () => search(rareQueries(records)), wrong: wrong.searchRare },
    searchCommon: { server, targets: () => search(queries()), once: true, wrong: wrong.searchCommon },
    related: { server, targets: () => [get('/related')], wrong: wrong.related },
  };
}

function writes(world: BareWorld, seconds: number) {
  const { server, url, people, ids } = world;
  const wrong = expectations(world.records);
  const create = (body: unknown): Target => ({ method: 'POST', path: '/create', body: JSON.stringify(body) });
  const update = (id: string, at: number): Target => {
    return { method: 'PATCH', path: `/update/${id}`, body: JSON.stringify(change(at)) };
  };
  const remove = (id: string): Target => ({ method: 'DELETE', path: `/delete/${id}` });
  const added = (count: number) => addBare(url, count, people);
  return {
    create: { server, targets: () => newItems(world, VARIANTS).map(create), wrong: wrong.create },
    update: { server, targets: () => ids.items_w.map(update), wrong: wrong.update },
    delete: { server, targets: doomed(seconds, added, remove), once: true, wrong: wrong.delete },
  };
}

function get(path: string): Target {
  return { method: 'GET', path };
}
