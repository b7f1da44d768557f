// Titles of the records that relations lead to: asked for by the cells that are shown, fetched 40 at a time, kept for
// the tenant and the role it is seen as. An id without a title (gone, or hidden from the role) stays an id.
import { useEffect, useSyncExternalStore } from 'react';
import type { Page, Row } from '../api/answers.ts';
import { get, seenAs } from '../api/call.ts';
import { entityQuery, queryClient } from '../api/queries.ts';
import { titleOf } from '../parts/value.ts';

/** As many ids as a condition has room for. */
const PER_CALL = 40;
const PAUSE_MS = 30;
const MOST_KEPT = 5_000;

class Titles {
  #titles = new Map<string, string | null>();
  #wanted = new Map<string, Set<string>>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #version = 0;
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly version = (): number => this.#version;

  /** Undefined while it is not known. */
  of(tenant: string, entity: string, id: string): string | null | undefined {
    return this.#titles.get(keyOf(tenant, entity, id));
  }

  need(tenant: string, entity: string, ids: readonly string[]): void {
    const missing = ids.filter((id) => this.of(tenant, entity, id) === undefined);
    if (missing.length === 0) return;
    const place = `${tenant} ${entity}`;
    const wanted = this.#wanted.get(place) ?? new Set();
    for (const id of missing) wanted.add(id);
    this.#wanted.set(place, wanted);
    this.#timer ??= setTimeout(() => this.#fetch(), PAUSE_MS);
  }

  /** After a change of the record. */
  forget(tenant: string, entity: string, id: string): void {
    this.#titles.delete(keyOf(tenant, entity, id));
  }

  #fetch(): void {
    this.#timer = undefined;
    const wanted = this.#wanted;
    this.#wanted = new Map();
    for (const [place, ids] of wanted) {
      const [tenant = '', entity = ''] = place.split(' ');
      const list = [...ids];
      for (let at = 0; at < list.length; at += PER_CALL) void this.#read(tenant, entity, list.slice(at, at + PER_CALL));
    }
  }

  async #read(tenant: string, entity: string, ids: readonly string[]): Promise<void> {
    const keys = ids.map((id) => keyOf(tenant, entity, id));
    try {
      const { fields } = await queryClient.fetchQuery(entityQuery(tenant, entity));
      const query = { filters: `id in (${ids.join(', ')})`, limit: PER_CALL, count: 'none' };
      const { items } = await get<Page<Row>>(`/api/entities/${entity}/records`, { tenant, query });
      for (const key of keys) this.#titles.set(key, null);
      items.forEach((row) => {
        this.#titles.set(keyOf(tenant, entity, row.id), titleOf(row, fields));
      });
    } catch {
      // The ids stay; another look at the cell asks again.
      for (const key of keys) this.#titles.set(key, null);
    }
    for (const key of this.#titles.keys()) {
      if (this.#titles.size <= MOST_KEPT) break;
      this.#titles.delete(key);
    }
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}

function keyOf(tenant: string, entity: string, id: string): string {
  return `${tenant} ${seenAs.get()} ${entity} ${id}`;
}

export const titles = new Titles();

/** The title of each id; the beginning of the id while, or when, there is none. */
export function useTitles(tenant: string, entity: string, ids: readonly string[]): string[] {
  const version = useSyncExternalStore(titles.subscribe, titles.version);
  const list = ids.join(' ');
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was forgotten is asked for again
  useEffect(() => titles.need(tenant, entity, list === '' ? [] : list.split(' ')), [tenant, entity, list, version]);
  return ids.map((id) => titles.of(tenant, entity, id) ?? id.slice(0, 8));
}
