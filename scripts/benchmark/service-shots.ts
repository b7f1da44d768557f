// The requests of every operation as the service takes them, with one credential, on one entity to read and one to
// write (the same one where reading comes first).

import { Api } from './api.ts';
import type { Target } from './generator.ts';
import {
  change,
  doomed,
  expectations,
  farPage,
  freshCommonQueries,
  freshRanges,
  newItems,
  rareQueries,
  type ServiceWorld,
  type Shots,
  VARIANTS,
} from './world.ts';

/** `seconds` of a round decide how many records a round of deletes needs. */
export function serviceShots(world: ServiceWorld, seconds: number, read = 'items', written = 'items_w'): Shots {
  return { ...reads(world, read), ...writes(world, written, seconds) };
}

function reads({ server, records, ids, key }: ServiceWorld, entity: string) {
  const wrong = expectations(records);
  const ranges = freshRanges(records);
  const queries = freshCommonQueries();
  const ask = (rest: string): Target => ({ method: 'GET', path: `/api/entities/${entity}/records${rest}`, key });
  const filter = (text: string) => ask(`?filters=${encodeURIComponent(text)}`);
  const range = () => ranges().map(({ from, below }) => filter(`amount >= ${from} AND amount < ${below}`));
  const search = (words: string[]) => words.map((word) => ask(`?search=${word}`));
  return {
    get: { server, targets: () => ids.items.map((id) => ask(`/${id}`)), wrong: wrong.get },
    list: { server, targets: () => [ask('')], wrong: wrong.list },
    filter: { server, targets: () => [filter('status = open')], wrong: wrong.filter },
    filterCold: { server, targets: range, once: true, wrong: wrong.filterCold },
    page: { server, targets: () => [ask(`?page=${farPage(records)}`)], wrong: wrong.page },
    searchRare: { server, targets: () => search(rareQueries(records)), wrong: wrong.searchRare },
    searchCommon: { server, targets: () => search(queries()), once: true, wrong: wrong.searchCommon },
    related: { server, targets: () => [ask('?resolve=true')], wrong: wrong.related },
  };
}

function writes(world: ServiceWorld, entity: string, seconds: number) {
  const { server, key, ids } = world;
  const wrong = expectations(world.records);
  const base = `/api/entities/${entity}/records`;
  const api = new Api(server.port, { key });
  const create = (body: unknown): Target => ({ method: 'POST', path: base, body: JSON.stringify(body), key });
  const update = (id: string, at: number): Target => {
    return { method: 'PATCH', path: `${base}/${id}`, body: JSON.stringify(change(at)), key };
  };
  const remove = (id: string): Target => ({ method: 'DELETE', path: `${base}/${id}`, key });
  const added = (count: number) => api.createMany(entity, newItems(world, count));
  return {
    create: { server, targets: () => newItems(world, VARIANTS).map(create), wrong: wrong.create },
    update: { server, targets: () => ids.items_w.map(update), wrong: wrong.update },
    delete: { server, targets: doomed(seconds, added, remove), once: true, wrong: wrong.delete },
  };
}
