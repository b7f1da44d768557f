// Reads a list from the service, a page at a time. Records that are too long for a hundred in one response come ten at a
// time; of long values only the beginning is kept, so that a list of them fits into memory.

import type { Page, Row } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { ApiError } from '../api/errors.ts';

/** Rows of a block: the API's largest page. */
export const BLOCK = 100;
/** Rows that are asked for at once when a hundred would be more than one response carries. */
const FEWER = 10;
/** A list keeps the beginning of longer values; the record's own page has all of them. */
const MOST_CHARACTERS = 10_000;

/** What is listed; `path` is that of an entity's or a view's records. */
export interface ListQuery {
  tenant: string;
  path: string;
  /** Of the entity's records, where they are written. */
  entityPath: string;
  filters: string;
  search: string;
  sort: string;
  /** The visible fields, comma-separated; '' for all. */
  fields: string;
  /** The role that is seen; what one role was shown is never shown to another. */
  role: string | null;
  /** Differs between readings of the same list. */
  edition: number;
}

export class ListReader {
  /** Values of which only the beginning is kept, by record and key. */
  readonly #cut = new Set<string>();

  constructor(private readonly query: ListQuery) {}

  isCut(id: string, key: string): boolean {
    return this.#cut.has(`${id} ${key}`);
  }

  /** A block in one page, or in several when its records are too long for one response. */
  async block(block: number, cursor: string | undefined, signal: AbortSignal): Promise<Page<Row>> {
    try {
      return await this.page(cursor === undefined ? { page: block + 1 } : { cursor }, signal);
    } catch (cause) {
      if (!isTooLarge(cause)) throw cause;
    }
    const whole: Page<Row> & { etags: string[] } = {
      items: [],
      etags: [],
      total: null,
      page: 1,
      limit: BLOCK,
      totalPages: null,
    };
    let next: string | null | undefined = cursor;
    do {
      const place: { page: number } | { cursor: string } =
        next === undefined ? { page: (block * BLOCK) / FEWER + 1 } : { cursor: next ?? '' };
      const page = await this.page({ ...place, limit: FEWER, with: 'etags,nextCursor' }, signal);
      whole.items.push(...page.items);
      whole.etags.push(...(page.etags ?? []));
      next = page.nextCursor ?? null;
    } while (next !== null && whole.items.length < BLOCK);
    return { ...whole, nextCursor: next };
  }

  /** A page of the list, with the parameters of `more`. */
  async page(more: Record<string, string | number | undefined>, signal: AbortSignal): Promise<Page<Row>> {
    const { tenant, path, filters, search, sort, fields } = this.query;
    const query = { limit: BLOCK, count: 'none', filters, search, sort, fields, with: 'etags', ...more };
    const page = await get<Page<Row>>(path, { tenant, signal, query, keepEmpty: ['cursor'] });
    return { ...page, items: page.items.map((row) => this.shortened(row)) };
  }

  /** With the beginnings of long values. */
  shortened(row: Row): Row {
    const short = { ...row };
    for (const [key, value] of Object.entries(row)) {
      const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
      const name = `${row.id} ${key}`;
      if (typeof text !== 'string' || text.length <= MOST_CHARACTERS) this.#cut.delete(name);
      else {
        this.#cut.add(name);
        short[key] = `${text.slice(0, MOST_CHARACTERS)}…`;
      }
    }
    return short;
  }
}

/** Whether two queries differ only in what is shown of each record, or in when it was read. */
export function isSameList(one: ListQuery, other: ListQuery): boolean {
  const ofList = (list: ListQuery): string => JSON.stringify({ ...list, fields: '', edition: 0 });
  return ofList(one) === ofList(other);
}

function isTooLarge(cause: unknown): boolean {
  return cause instanceof ApiError && cause.details.some(({ path }) => path === 'response');
}
