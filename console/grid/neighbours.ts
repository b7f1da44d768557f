// The list that a record was opened from, so that its page can lead to the previous and the next one. Kept for the tab;
// a record that was opened by its link has none.
import { useEffect, useSyncExternalStore } from 'react';
import type { Rows } from './rows.ts';

const lists = new Map<string, Rows>();

/** Remembers the list that is shown. */
export function rememberList(tenant: string, entity: string, rows: Rows): void {
  lists.set(`${tenant} ${entity}`, rows);
}

export interface Neighbours {
  previous: string | null;
  next: string | null;
  /** From 1; null when the record is not in a list that was looked at. */
  place: number | null;
  total: number | null;
}

const NOWHERE: Neighbours = { previous: null, next: null, place: null, total: null };
const never = (): (() => void) => () => undefined;

export function useNeighbours(tenant: string, entity: string, id: string): Neighbours {
  const rows = lists.get(`${tenant} ${entity}`);
  useSyncExternalStore(rows?.subscribe ?? never, rows?.version ?? (() => 0));
  const at = rows?.indexOf(id) ?? -1;
  useEffect(() => {
    if (at >= 0) rows?.need(Math.max(0, at - 1), at + 1, 1);
  }, [rows, at]);
  if (rows === undefined || at < 0) return NOWHERE;
  return {
    previous: rows.at(at - 1)?.id ?? null,
    next: rows.at(at + 1)?.id ?? null,
    place: at + 1,
    total: rows.total,
  };
}
