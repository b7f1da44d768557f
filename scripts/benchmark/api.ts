// A client of the service's REST API: JSON calls that must succeed, imports, samples of ids.
// A call without a 2xx response throws an ApiError with the status and the beginning of the response. Older services
// without import or bulk calls get the records one by one.

import { PAGE } from './dataset.ts';

const LARGEST_PAGE = 100;
const LARGEST_BULK = 1_000;
const IMPORT_RECORDS = 10_000;
const CALLS_AT_ONCE = 8;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export interface ListPage {
  items: Array<{ id: string; [field: string]: unknown }>;
  total: number;
}

/** A client of one server with one credential: an API key, the super-admin secret, or headers as they are. */
export class Api {
  constructor(
    readonly port: number,
    readonly credential: { key: string } | { adminSecret: string } | { headers: Record<string, string> },
  ) {}

  /** Resolves to the answer's `data`. */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    return this.#send<T>(method, path, 'application/json', body === undefined ? undefined : JSON.stringify(body));
  }

  /** Imports NDJSON in pieces; resolves to the seconds spent waiting for the service, or to null when it has no import. A
   *  refused line is an error. */
  async importRecords(entity: string, count: number, value: (index: number) => unknown): Promise<number | null> {
    let seconds = 0;
    for (let from = 0; from < count; from += IMPORT_RECORDS) {
      const piece = Array.from({ length: Math.min(IMPORT_RECORDS, count - from) }, (_, at) => value(from + at));
      const begun = performance.now();
      const isImported = await this.#importPiece(entity, piece).catch(unlessMissing(false));
      if (!isImported) {
        await this.#createOneByOne(entity, piece);
        seconds = Number.NaN;
      }
      seconds += (performance.now() - begun) / 1_000;
    }
    return Number.isNaN(seconds) ? null : seconds;
  }

  /** Creates records, in bulk where the service can; resolves to their ids, in the order given. */
  async createMany(entity: string, values: readonly unknown[]): Promise<string[]> {
    const ids: string[] = [];
    for (let from = 0; from < values.length; from += LARGEST_BULK) {
      const piece = values.slice(from, from + LARGEST_BULK);
      const made = await this.#createBulk(entity, piece).catch(unlessMissing(null));
      ids.push(...(made ?? (await this.#createOneByOne(entity, piece))));
    }
    return ids;
  }

  async #importPiece(entity: string, values: readonly unknown[]): Promise<true> {
    const lines = values.map((value) => JSON.stringify(value)).join('\n');
    const path = `/api/entities/${entity}/records/import?format=ndjson`;
    const report = await this.#send<{ created: number }>('POST', path, 'application/x-ndjson', lines);
    if (report.created !== values.length) throw new Error(`import: ${JSON.stringify(report).slice(0, 300)}`);
    return true;
  }

  async #createBulk(entity: string, values: readonly unknown[]): Promise<string[]> {
    const operations = values.map((data) => ({ op: 'create', data }));
    const path = `/api/entities/${entity}/records/bulk`;
    const answer = await this.call<{ results: Array<{ id: string }> }>('POST', path, { operations });
    return answer.results.map(({ id }) => id);
  }

  async #createOneByOne(entity: string, values: readonly unknown[]): Promise<string[]> {
    const ids: string[] = [];
    let next = 0;
    const worker = async () => {
      for (let at = next++; at < values.length; at = next++) {
        ids[at] = (await this.call<{ id: string }>('POST', `/api/entities/${entity}/records`, values[at])).id;
      }
    };
    await Promise.all(Array.from({ length: CALLS_AT_ONCE }, worker));
    return ids;
  }

  /** About `size` ids of an entity of `count` records: whole pages, spread evenly. */
  async sampleIds(entity: string, count: number, size: number): Promise<string[]> {
    const pages = Math.ceil(count / LARGEST_PAGE);
    const wanted = Math.min(pages, Math.ceil(size / LARGEST_PAGE));
    const ids: string[] = [];
    for (let at = 0; at < wanted; at++) {
      const page = 1 + Math.floor((at * pages) / wanted);
      const list = await this.call<ListPage>(
        'GET',
        `/api/entities/${entity}/records?limit=${LARGEST_PAGE}&page=${page}`,
      );
      ids.push(...list.items.map(({ id }) => id));
    }
    return ids;
  }

  /** The ids of the newest `count` records of an entity, or of all. */
  async newestIds(entity: string, count: number): Promise<string[]> {
    const ids: string[] = [];
    for (let page = 1; ids.length < count; page++) {
      const path = `/api/entities/${entity}/records?limit=${LARGEST_PAGE}&page=${page}`;
      const { items } = await this.call<ListPage>('GET', path);
      ids.push(...items.map(({ id }) => id));
      if (items.length < LARGEST_PAGE) break;
    }
    return ids.slice(0, count);
  }

  async #send<T>(method: string, path: string, type: string, body: string | undefined): Promise<T> {
    const headers = new Headers('headers' in this.credential ? this.credential.headers : {});
    if (body !== undefined) headers.set('content-type', type);
    if ('key' in this.credential) headers.set('authorization', `Bearer ${this.credential.key}`);
    else if ('adminSecret' in this.credential) headers.set('x-admin-secret', this.credential.adminSecret);
    const answer = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
    });
    const text = await answer.text();
    if (!answer.ok)
      throw new ApiError(answer.status, `${method} ${path} answers ${answer.status}: ${text.slice(0, 300)}`);
    return (JSON.parse(text) as { data: T }).data;
  }
}

/** Whether the service lacks this path or method. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 405);
}

/** For `catch`: returns `instead` when the service has no such endpoint; rethrows any other failure. */
function unlessMissing<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (!isMissing(error)) throw error;
    return instead;
  };
}

/** What is wrong with a page that must have `expected` items and `total` (null: any total), or null. */
export function wrongPage(data: unknown, total: number | null, expected = PAGE): string | null {
  const page = data as ListPage;
  if (page?.items?.length !== expected) return `${page?.items?.length} items instead of ${expected}`;
  if (total !== null && page.total !== total) return `a total of ${page.total} instead of ${total}`;
  return null;
}
