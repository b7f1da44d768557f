// Taking back an import: deleting what it created, when that can be told apart exactly. The API does not list the records
// of an import, so they are found by creator and time, and counted: only when there are exactly as many as came in are they
// the import's. A record that somebody has changed since stays.

import type { Page, Row } from '../../api/answers.ts';
import { get, post } from '../../api/call.ts';

/** The records of an import, as a condition. */
export interface Span {
  filters: string;
  count: number;
}

export interface Undone {
  deleted: number;
  /** Changed since, or held by others. */
  left: number;
}

interface BulkAnswer {
  results: { success: boolean }[];
}

const PER_CALL = 100;

/** When the newest record was created; null without records. */
export async function newestRecord(tenant: string, entity: string): Promise<string | null> {
  const { items } = await list(tenant, entity, { sort: '-createdAt', limit: 1, count: 'none' });
  return items[0]?.createdAt ?? null;
}

/** The records that `actor` has created since `after`, when they are `created` many; else null. */
export async function importedSince(of: {
  tenant: string;
  entity: string;
  actor: string | null;
  after: string | null;
  created: number;
}): Promise<Span | null> {
  const until = await newestRecord(of.tenant, of.entity);
  const since = of.after === null ? '' : `createdAt > "${of.after}" AND `;
  const by = of.actor === null ? 'createdBy is null' : `createdBy = "${of.actor}"`;
  const filters = `${since}createdAt <= "${until}" AND ${by}`;
  const { total } = await list(of.tenant, of.entity, { filters, limit: 1 });
  return total === of.created ? { filters, count: total } : null;
}

export async function undoImport(
  tenant: string,
  entity: string,
  { filters, count }: Span,
  onProgress: (done: number) => void,
): Promise<Undone> {
  const undone: Undone = { deleted: 0, left: 0 };
  let cursor = '';
  // More than were counted are not the import's.
  while (undone.deleted + undone.left < count) {
    const query = { filters, sort: 'createdAt', limit: PER_CALL, count: 'none', with: 'etags,nextCursor', cursor };
    const page = await list(tenant, entity, query);
    const unchanged = page.items.flatMap(({ id, createdAt, updatedAt }, at) =>
      createdAt === updatedAt ? [{ op: 'delete', id, etag: page.etags?.[at] }] : [],
    );
    undone.left += page.items.length - unchanged.length;
    if (unchanged.length > 0) {
      const body = { atomic: false, operations: unchanged };
      const { results } = await post<BulkAnswer>(`/api/entities/${entity}/records/bulk`, body, { tenant });
      const deleted = results.filter(({ success }) => success).length;
      undone.deleted += deleted;
      undone.left += results.length - deleted;
    }
    onProgress(undone.deleted + undone.left);
    cursor = page.nextCursor ?? '';
    if (cursor === '') break;
  }
  return undone;
}

function list(
  tenant: string,
  entity: string,
  query: Record<string, string | number>,
): Promise<Page<Row> & { etags?: string[] }> {
  return get(`/api/entities/${entity}/records`, {
    tenant,
    isOwn: true,
    query: { fields: 'createdAt', ...query },
    ...('cursor' in query ? { keepEmpty: ['cursor'] } : {}),
  });
}
