// The options and results of calls about records. The limits are those of the service: 20 records a page by default, at most
// 100; 1,000 operations in a bulk call. Names are those of the parameters and members in the contract.
// Contract: interface#records, decisions#lists, decisions#bulk, decisions#import.
import type { Problem } from './errors.ts';
import type { CallOptions, DryRun } from './transport.ts';

export type SortKey<Key extends string> = Key | `-${Key}`;

/** The selection of records, in lists, views, exports and aggregates. */
export interface Selection {
  /** A condition, such as: status = "open" AND amount > 10 */
  filters?: string;
  /** Words that must all occur. */
  search?: string;
}

export interface ReadOptions<Key extends string = string, IsResolved extends boolean = boolean> extends CallOptions {
  /** Only these fields; the system fields always come too. */
  fields?: readonly Key[];
  /** Whether relations are records in place of ids. */
  resolve?: IsResolved;
  /** Levels of relations to resolve, with `resolve`; default 1. */
  resolveDepth?: 1 | 2;
}

export interface ListOptions<
  Sort extends string = string,
  Key extends string = string,
  IsResolved extends boolean = boolean,
> extends ReadOptions<Key, IsResolved>,
    Selection {
  /** The number of the page, from 1. */
  page?: number;
  /** Records per page, 1 to 100. */
  limit?: number;
  /** One key or several; `-` sorts descending. */
  sort?: SortKey<Sort> | readonly SortKey<Sort>[];
  /** The direction of keys without a sign. */
  order?: 'asc' | 'desc';
  /** Empty for the first page, then the `nextCursor` of the previous page. */
  cursor?: string;
  /** `none` omits the total. */
  count?: 'exact' | 'none';
  /** Additional members of the page; `etags` makes the ETags of its records available to `etagOf`. */
  with?: readonly ('etags' | 'nextCursor')[];
}

/** The options of a walk through all pages. */
export type WalkOptions<Sort extends string, Key extends string, IsResolved extends boolean> = Omit<
  ListOptions<Sort, Key, IsResolved>,
  'page' | 'cursor'
>;

export interface Page<Item> {
  items: Item[];
  /** Null with `count: "none"`. */
  total: number | null;
  page: number;
  limit: number;
  totalPages: number | null;
  /** Null on the last page; missing on numbered pages, unless `with` names it. */
  nextCursor?: string | null;
  etags?: string[];
  /** The cursor from which `changes` and `live` miss nothing; null if the credential may not follow changes. */
  changesCursor: string | null;
}

/** Reports the effects of a write without making it. */
export interface DryOptions {
  dryRun: true;
}

/** The result of a dry run: the response that the write would have, and its effects. */
export interface Tried<T> {
  result: T;
  dryRun: DryRun;
}

export interface CreateOptions extends CallOptions {
  /** Replaces the key that the client makes. Null: no key, and the request is never sent again. */
  idempotencyKey?: string | null;
}

export interface ChangeOptions extends CallOptions {
  /** Writes only if the record still has this ETag (see `etagOf`); otherwise the error is PRECONDITION_FAILED. */
  etag?: string;
}

export type BulkOperation<Create, Update> =
  | { op: 'create'; data: Create }
  | { op: 'update'; id: string; data: Update; etag?: string }
  | { op: 'delete'; id: string; etag?: string }
  /** Updates the record whose unique field `by` has the value of `data`, or creates one. */
  | { op: 'upsert'; by: string; data: Create };

export interface BulkOptions extends CreateOptions {
  /** True (the default): all or nothing. False: each operation has its own result, and the request is never sent again. */
  atomic?: boolean;
}

export interface BulkResult<Item> {
  /** The position of the operation in the request. */
  index: number;
  op: 'create' | 'update' | 'delete' | 'upsert';
  id: string | null;
  success: boolean;
  outcome?: 'created' | 'updated';
  data?: Item;
  etag?: string;
  error?: { code: string; message: string; details?: Problem[] };
}

export interface BulkAnswer<Item> {
  results: BulkResult<Item>[];
  succeeded: number;
  failed: number;
}

export interface Upserted<Item> {
  record: Item;
  outcome: 'created' | 'updated';
}

export type MetricOf<Key extends string> = 'count' | `${'sum' | 'avg' | 'min' | 'max'}:${Key}`;

export interface AggregateOptions<Key extends string, Group extends Key> extends CallOptions, Selection {
  metrics: MetricOf<Key> | readonly MetricOf<Key>[];
  /** Up to three fields. */
  groupBy?: Group | readonly Group[];
}

/** The values that the records are grouped by, then the metrics: `count`, `sum_amount`. Exact sums of decimals are texts. */
export type AggregateRow<Group extends string> = { [Key in Group]: unknown } & {
  [metric: string]: unknown;
};

export interface ExportOptions<Key extends string> extends CallOptions, Selection {
  format?: 'csv' | 'ndjson';
  fields?: readonly Key[];
  sort?: SortKey<Key> | readonly SortKey<Key>[];
  order?: 'asc' | 'desc';
}

/** A file, or values of records. A page can send a stream over HTTP/2 only: it sends a `Blob`, such as a `File`. */
export type ImportSource<Create> =
  | string
  | Blob
  | Uint8Array<ArrayBuffer>
  | ReadableStream<Uint8Array>
  | readonly Create[];

export interface ImportOptions<Key extends string> extends CallOptions {
  /** The format of a file; default: `ndjson`. Values of records are sent as NDJSON. */
  format?: 'csv' | 'ndjson';
  /** A unique field: a line whose value of it a record already has changes that record. */
  upsert?: Key;
  /** `keep`: records get the ids of the file. */
  ids?: 'keep';
  /** The delimiter of CSV; a comma, a semicolon or a tab is detected. */
  delimiter?: string;
}

export interface ImportReport {
  created: number;
  /** The number of updated records, with `upsert`. */
  updated?: number;
  refused: number;
  /** The first 1,000 refused lines; line 1 is the first of the file. */
  errors: { line: number; message: string }[];
  /** The id for POST /api/changes/revert. */
  importId: string;
}
