// The selected rows: those that were chosen, or all that match the list but those that were taken out.
import type { Rows } from './rows.ts';

export interface Selection {
  isAll: boolean;
  /** The chosen ones; with `isAll` the ones taken out. */
  ids: ReadonlySet<string>;
}

export const NONE: Selection = { isAll: false, ids: new Set() };
export const ALL: Selection = { isAll: true, ids: new Set() };

export function isSelected({ isAll, ids }: Selection, id: string | undefined): boolean {
  return id !== undefined && ids.has(id) !== isAll;
}

/** Null while "all" is not counted. */
export function countOf({ isAll, ids }: Selection, total: number | null): number | null {
  if (!isAll) return ids.size;
  return total === null ? null : Math.max(0, total - ids.size);
}

/** With the loaded rows between two places turned on or off. */
export function withRange(selection: Selection, rows: Rows, from: number, to: number, isOn: boolean): Selection {
  const ids = new Set(selection.ids);
  for (let at = Math.min(from, to); at <= Math.max(from, to); at += 1) {
    const id = rows.at(at)?.id;
    if (id === undefined) continue;
    if (isOn === selection.isAll) ids.delete(id);
    else ids.add(id);
  }
  return { ...selection, ids };
}
