// What the bare handler answers: records and pages in the service's shapes, so that both sides pass the same checks.
// A request for one record that does not exist fails, which fails its row.
// A file of its own, because the handlers of the mixed load use it too.

import type postgres from 'postgres';
import { PAGE } from './dataset.ts';

export type Row = Record<string, unknown>;
export type Handler = (argument: string, request: Request, url: URL) => Promise<unknown>;

export async function one(query: postgres.PendingQuery<Row[]>): Promise<Row> {
  const [row] = await query;
  if (!row) throw new Error('no such row');
  return row;
}

export function flat(row: Row): Row {
  return { id: row.id, ...(row.data as Row), createdAt: row.created_at, updatedAt: row.updated_at };
}

export function page(rows: readonly Row[]) {
  const total = (rows[0]?.total ?? null) as number | null;
  return { items: rows.map(flat), total, page: 1, limit: PAGE, totalPages: total && Math.ceil(total / PAGE) };
}
