// The client of the Tenant Data Service: records and views typed by an entity map, changes and live events that resume
// automatically, verification of webhooks, and any other route by `request` and `fetch`. Runs in browsers, Bun, Deno and
// Node.js.
// Failures: `ApiError`, `ConnectionError`, or the reason of the given AbortSignal.
import { type Change, type FollowOptions, followChanges } from './changes.ts';
import { type LiveEvent, type LiveOptions, liveEvents } from './live.ts';
import { type AllCalls, type Reads, type Records, readsOf, recordsOf } from './records.ts';
import type { AnySchema, EntityMap, NameOf } from './schema.ts';
import { type Answer, type CallOptions, type ClientOptions, type RequestOptions, Transport } from './transport.ts';

export type { Change, FollowOptions, RecordEventType } from './changes.ts';
export type { Credential, CredentialSource } from './credential.ts';
export { ApiError, ConnectionError, type ErrorCode, type Problem } from './errors.ts';
export type { LiveEvent, LiveOptions } from './live.ts';
export { etagOf } from './reading.ts';
export type {
  AggregateOptions,
  AggregateRow,
  BulkAnswer,
  BulkOperation,
  BulkOptions,
  BulkResult,
  ChangeOptions,
  CreateOptions,
  DryOptions,
  ExportOptions,
  ImportOptions,
  ImportReport,
  ImportSource,
  ListOptions,
  MetricOf,
  Page,
  ReadOptions,
  Selection,
  SortKey,
  Tried,
  Upserted,
  WalkOptions,
} from './record-types.ts';
export type { AllCalls, Deleted, Reads, Records } from './records.ts';
export type { AnySchema, EntityMap, EntityTypes, Operation, Resolved, SystemFields, SystemKey } from './schema.ts';
export type {
  Answer,
  CallOptions,
  ClientOptions,
  DryRun,
  QueryValue,
  RequestOptions,
  Retry,
  WebSocketLike,
} from './transport.ts';
export { verifyWebhook, type WebhookEvent, type WebhookHeaders } from './webhook.ts';

/** A view's definition, as GET /api/views returns it; all conditions apply. */
export interface View {
  id: string;
  entitySlug: string;
  slug: string;
  name: string;
  description: string | null;
  filterDsl: { validate: { condition: string }[] };
  createdAt: string;
  updatedAt: string;
}

export interface Client<Schema> {
  /** The records of an entity. */
  records<Name extends NameOf<Schema>>(entity: Name): Records<Schema, Name>;
  /** The views that the credential may read. */
  views(options?: CallOptions): Promise<View[]>;
  /** The records of a view; name its entity to get their types: `client.view<"deals">("won-deals")`. */
  view<Name extends NameOf<Schema>>(slug: string): Reads<Schema, Name>;
  /** The committed changes, as an endless sequence that resumes automatically. Leaving the loop, or the signal, ends it. */
  changes(options?: FollowOptions<NameOf<Schema>>): AsyncGenerator<Change<Schema>, void, undefined>;
  /** Live events over an event stream or a WebSocket, as an endless sequence that resumes automatically. */
  live(options?: LiveOptions<NameOf<Schema>>): AsyncGenerator<LiveEvent<Schema>, void, undefined>;
  /** Calls any route that returns JSON. */
  request<T = unknown>(method: string, path: string, options?: RequestOptions): Promise<Answer<T>>;
  /** Calls any route, and returns a response whose body is not read yet. Throws unless the status is a success or 304. */
  fetch(method: string, path: string, options?: RequestOptions): Promise<Response>;
}

/** A client for the entities in `Schema`. It connects only when it is used. */
export function createClient<Schema extends EntityMap<Schema> = AnySchema>(options: ClientOptions): Client<Schema> {
  const transport = new Transport(options);
  return {
    records: <Name extends NameOf<Schema>>(name: Name): AllCalls<Schema, Name> => recordsOf(transport, name),
    views: async ({ signal, ...further } = {}) =>
      (await transport.request<View[]>('GET', '/api/views', { signal, ...further })).data,
    view: (slug) => readsOf(transport, `/api/views/${encodeURIComponent(slug)}/records`),
    changes: (given = {}) => followChanges(transport, given),
    live: (given = {}) => liveEvents(transport, given),
    request: (method, path, given) => transport.request(method, path, given),
    fetch: (method, path, given) => transport.fetch(method, path, given),
  };
}
