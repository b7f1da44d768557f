// The selected records as they are now, with their ETags: read page by page in the order of their ids, so that a record
// that is changed on the way neither moves past the reading nor comes twice.

import type { Entity, Page, Row } from '../../api/answers.ts';
import { call } from '../../api/call.ts';
import type { Rows } from '../../grid/rows.ts';
import type { Selection } from '../../grid/selection.ts';
import { IDS_PER_CALL } from '../../grid/write-cells.ts';
import { titleKeyOf, titleOf } from '../../parts/value.ts';

export interface SelectedRecord {
  id: string;
  title: string;
  value: unknown;
  etag: string | null;
}

/** Records that are changed in one go: as many as a page remembers for their undo. */
export const MOST_AT_ONCE = 100_000;
const PER_PAGE = 100;

/** `key` is the field whose value is wanted, '' for none. `onCount` hears how many have been read. */
export async function readSelected(
  entity: Entity,
  rows: Rows,
  { isAll, ids }: Selection,
  key: string,
  signal: AbortSignal,
  onCount: (count: number) => void,
): Promise<SelectedRecord[]> {
  const titleKey = titleKeyOf(entity.fields);
  const fields = [...new Set([titleKey, key])].filter(Boolean).join(',');
  const { tenant, path, filters, search } = rows.query;
  const found: SelectedRecord[] = [];
  const read = async (query: Record<string, string | number>): Promise<string | null> => {
    const all = { limit: PER_PAGE, count: 'none', with: 'etags', sort: 'id', fields: fields || 'id', ...query };
    const { data } = await call<Page<Row>>('GET', path, { tenant, signal, query: all, keepEmpty: ['cursor'] });
    data.items.forEach((row, at) => {
      if (isAll && ids.has(row.id)) return;
      found.push({ id: row.id, title: titleOf(row, entity.fields), value: row[key], etag: data.etags?.[at] ?? null });
    });
    onCount(found.length);
    return data.nextCursor ?? null;
  };
  if (isAll) {
    let cursor: string | null = '';
    while (cursor !== null && found.length < MOST_AT_ONCE) cursor = await read({ cursor, filters, search });
  } else {
    const list = [...ids];
    for (let at = 0; at < list.length; at += IDS_PER_CALL) {
      await read({ filters: `id in (${list.slice(at, at + IDS_PER_CALL).join(', ')})` });
    }
  }
  return found;
}
