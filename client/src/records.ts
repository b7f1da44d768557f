// The records of an entity, as calls. Calls that are safe to repeat are repeated: reads, and creations and atomic bulk calls,
// which carry an Idempotency-Key. Changes and deletions of one record are not, since somebody else may have written meanwhile.
// Failures: those of the transport.
import { listQuery, type PageBody, pageFrom, recordFrom } from './reading.ts';
import type {
  AggregateOptions,
  AggregateRow,
  BulkAnswer,
  BulkOperation,
  BulkOptions,
  ChangeOptions,
  CreateOptions,
  DryOptions,
  ExportOptions,
  ImportOptions,
  ImportReport,
  ImportSource,
  ListOptions,
  Page,
  ReadOptions,
  Tried,
  Upserted,
  WalkOptions,
} from './record-types.ts';
import type { FieldOf, Member, NameOf, Operation, OperationsOf, Shown, Stored, SystemKey } from './schema.ts';
import type { Answer, RequestOptions, Transport } from './transport.ts';

/** The calls that read records, of an entity or of a view. */
export interface Reads<Schema, Name extends keyof Schema> {
  /** One page. */
  list<Key extends FieldOf<Schema, Name> = FieldOf<Schema, Name>, IsResolved extends boolean = false>(
    options?: ListOptions<FieldOf<Schema, Name> | SystemKey, Key, IsResolved>,
  ): Promise<Page<Shown<Schema, Name, Key, IsResolved>>>;
  /** All pages, each read when it is needed: no record is repeated or left out while others change. */
  pages<Key extends FieldOf<Schema, Name> = FieldOf<Schema, Name>, IsResolved extends boolean = false>(
    options?: WalkOptions<FieldOf<Schema, Name> | SystemKey, Key, IsResolved>,
  ): AsyncGenerator<Page<Shown<Schema, Name, Key, IsResolved>>, void, undefined>;
  /** The records of all pages. */
  all<Key extends FieldOf<Schema, Name> = FieldOf<Schema, Name>, IsResolved extends boolean = false>(
    options?: WalkOptions<FieldOf<Schema, Name> | SystemKey, Key, IsResolved>,
  ): AsyncGenerator<Shown<Schema, Name, Key, IsResolved>, void, undefined>;
  /** One record; NOT_FOUND when there is none with this id that the credential may see. */
  get<Key extends FieldOf<Schema, Name> = FieldOf<Schema, Name>, IsResolved extends boolean = false>(
    id: string,
    options?: ReadOptions<Key, IsResolved>,
  ): Promise<Shown<Schema, Name, Key, IsResolved>>;
}

/** A call that also supports `dryRun: true`. */
interface CreateCall<Values, Item> {
  (values: Values, options: CreateOptions & DryOptions): Promise<Tried<Item>>;
  (values: Values, options?: CreateOptions): Promise<Item>;
}
interface UpdateCall<Values, Item> {
  (id: string, values: Values, options: ChangeOptions & DryOptions): Promise<Tried<Item>>;
  (id: string, values: Values, options?: ChangeOptions): Promise<Item>;
}
interface DeleteCall {
  (id: string, options: ChangeOptions & DryOptions): Promise<Tried<Deleted>>;
  (id: string, options?: ChangeOptions): Promise<Deleted>;
}
interface UpsertCall<Values, Item, Key> {
  (by: Key, values: Values, options: CreateOptions & DryOptions): Promise<Tried<Upserted<Item>>>;
  (by: Key, values: Values, options?: CreateOptions): Promise<Upserted<Item>>;
}
interface BulkCall<Operations, Item> {
  (operations: readonly Operations[], options: BulkOptions & DryOptions): Promise<Tried<BulkAnswer<Item>>>;
  (operations: readonly Operations[], options?: BulkOptions): Promise<BulkAnswer<Item>>;
}
interface ImportCall<Values, Key extends string> {
  (source: ImportSource<Values>, options: ImportOptions<Key> & DryOptions): Promise<Tried<ImportReport>>;
  (source: ImportSource<Values>, options?: ImportOptions<Key>): Promise<ImportReport>;
}

export interface Deleted {
  id: string;
  deleted: true;
}

/** Every call about the records of an entity. */
export interface AllCalls<Schema, Name extends keyof Schema> extends Reads<Schema, Name> {
  /** `aggregate({ metrics: ["count", "sum:amount"], groupBy: "stage" })` */
  aggregate<Group extends FieldOf<Schema, Name> = never>(
    options: AggregateOptions<FieldOf<Schema, Name>, Group>,
  ): Promise<AggregateRow<Group>[]>;
  /** A file of any size, as a response whose body the caller reads. */
  export(options?: ExportOptions<FieldOf<Schema, Name>>): Promise<Response>;
  create: CreateCall<Member<Schema[Name], 'create'>, Stored<Schema, Name>>;
  /** Changes the given fields. */
  update: UpdateCall<Member<Schema[Name], 'update'>, Stored<Schema, Name>>;
  delete: DeleteCall;
  /** Updates the record whose unique field has the value in `values`, or creates one. */
  upsert: UpsertCall<Member<Schema[Name], 'create'>, Stored<Schema, Name>, FieldOf<Schema, Name>>;
  /** Up to 1,000 operations in one request. */
  bulk: BulkCall<BulkOperation<Member<Schema[Name], 'create'>, Member<Schema[Name], 'update'>>, Stored<Schema, Name>>;
  /** Creates records from a file. It is not atomic: an interrupted upload keeps what was written. */
  import: ImportCall<Member<Schema[Name], 'create'>, FieldOf<Schema, Name>>;
}

/** The operations of which each call needs one. */
interface Needs {
  list: 'read';
  pages: 'read';
  all: 'read';
  get: 'read';
  aggregate: 'read';
  export: 'read';
  create: 'create';
  update: 'update';
  delete: 'delete';
  upsert: 'create' | 'update';
  bulk: 'create' | 'update' | 'delete';
  import: 'create';
}
type CallsFor<Permitted extends Operation> = {
  [Call in keyof Needs]: [Needs[Call] & Permitted] extends [never] ? never : Call;
}[keyof Needs];

/** The calls that the entity map permits. */
export type Records<Schema, Name extends keyof Schema> = Pick<
  AllCalls<Schema, Name>,
  CallsFor<OperationsOf<Schema[Name]>>
>;

export function recordsOf<Schema, Name extends NameOf<Schema>>(
  transport: Transport,
  name: Name,
): AllCalls<Schema, Name> {
  const path = `/api/entities/${encodeURIComponent(name)}/records`;
  return {
    ...readsOf<Schema, Name>(transport, path),
    async aggregate(options: AggregateOptions<string, string>) {
      const { signal: _, timeoutMs: __, ...query } = options;
      const request = { query, ...callOptions(options) };
      return (await transport.request<{ items: object[] }>('GET', `${path}/aggregate`, request)).data.items;
    },
    export(options: ExportOptions<string> = {}) {
      return transport.fetch('GET', `${path}/export`, { query: listQuery(options), ...callOptions(options) });
    },
    ...writesOf(transport, path),
  } as unknown as AllCalls<Schema, Name>;
}

/** The reading calls of an entity or of a view, by the path of its records. */
export function readsOf<Schema, Name extends NameOf<Schema>>(transport: Transport, path: string): Reads<Schema, Name> {
  const list = async (options: ListOptions = {}): Promise<Page<object>> =>
    pageFrom(await transport.request<PageBody>('GET', path, { query: listQuery(options), ...callOptions(options) }));
  async function* pages(options: WalkOptions<string, string, boolean> = {}): AsyncGenerator<Page<object>, void> {
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: Page<object> = await list({ limit: PAGE_MAX, ...options, cursor });
      yield page;
      cursor = page.nextCursor ?? null;
    }
  }
  return {
    list,
    pages,
    async *all(options: WalkOptions<string, string, boolean> = {}) {
      for await (const { items } of pages({ count: 'none', ...options })) yield* items;
    },
    async get(id: string, options: ReadOptions = {}) {
      const query = listQuery(options);
      return recordFrom(
        await transport.request('GET', `${path}/${encodeURIComponent(id)}`, { query, ...callOptions(options) }),
      );
    },
  } as unknown as Reads<Schema, Name>;
}

const PAGE_MAX = 100;

type WriteOptions = BulkOptions & ChangeOptions & Partial<DryOptions>;

function writesOf(transport: Transport, path: string) {
  const at = (id: string): string => `${path}/${encodeURIComponent(id)}`;
  return {
    async create(values: object, options: WriteOptions = {}) {
      const answer = await transport.request<object>('POST', path, { body: values, ...repeatable(options) });
      return tried(answer, recordFrom(answer), options);
    },
    async update(id: string, values: object, options: WriteOptions = {}) {
      const answer = await transport.request<object>('PATCH', at(id), { body: values, ...conditional(options) });
      return tried(answer, recordFrom(answer), options);
    },
    async delete(id: string, options: WriteOptions = {}) {
      const answer = await transport.request<Deleted>('DELETE', at(id), conditional(options));
      return tried(answer, answer.data, options);
    },
    async upsert(by: string, values: object, options: WriteOptions = {}) {
      const { query, ...further } = repeatable(options);
      const request = { body: values, query: { ...query, upsert: by }, ...further };
      const answer = await transport.request<object>('POST', path, request);
      const outcome = answer.status === 201 ? 'created' : 'updated';
      return tried(answer, { record: recordFrom(answer), outcome }, options);
    },
    async bulk(operations: readonly object[], options: WriteOptions = {}) {
      const { atomic } = options;
      const request = repeatable(atomic === false ? { ...options, idempotencyKey: null } : options);
      const body = { operations, ...(atomic === undefined ? {} : { atomic }) };
      const answer = await transport.request<BulkAnswer<object>>('POST', `${path}/bulk`, { body, ...request });
      return tried(answer, answer.data, options);
    },
    async import(source: ImportSource<object>, options: ImportOptions<string> & Partial<DryOptions> = {}) {
      const { format = 'ndjson', signal, timeoutMs = 0, ...query } = options;
      const answer = await transport.request<ImportReport>('POST', `${path}/import`, {
        query,
        body: Array.isArray(source) ? source.map((values) => JSON.stringify(values)).join('\n') : source,
        headers: { 'Content-Type': format === 'csv' ? 'text/csv' : 'application/x-ndjson' },
        signal,
        timeoutMs,
      });
      return tried(answer, answer.data, options);
    },
  };
}

/** A creation can be repeated under its key, and a dry run always. */
function repeatable({ idempotencyKey = crypto.randomUUID(), dryRun, ...options }: WriteOptions): RequestOptions {
  if (dryRun === true) return { ...callOptions(options), query: { dryRun }, isRepeatable: true };
  const headers: Record<string, string> = idempotencyKey === null ? {} : { 'Idempotency-Key': idempotencyKey };
  return { ...callOptions(options), headers };
}

function conditional({ etag, dryRun, ...options }: WriteOptions): RequestOptions {
  return {
    ...callOptions(options),
    ...(dryRun === true ? { query: { dryRun }, isRepeatable: true } : {}),
    ...(etag === undefined ? {} : { headers: { 'If-Match': etag } }),
  };
}

function callOptions({ signal, timeoutMs }: RequestOptions): RequestOptions {
  return { signal, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}

function tried<T>({ dryRun }: Answer<unknown>, result: T, options: Partial<DryOptions>): T | Partial<Tried<T>> {
  if (options.dryRun !== true) return result;
  return dryRun === undefined ? { result } : { result, dryRun };
}
