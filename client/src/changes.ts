// The feed of changes as an endless sequence, read by long polls. It resumes after every temporary failure, and misses or
// repeats nothing. A permanent failure (a lost right, a cursor that is too old) ends it with an `ApiError`.
// Contract: feed#the-feed, feed#guarantee, feed#long-polls.
import type { NameOf, Stored } from './schema.ts';
import type { CallOptions, Transport } from './transport.ts';

export type RecordEventType = 'record.created' | 'record.updated' | 'record.deleted' | 'record.entered' | 'record.left';

export interface ChangeOptionsOf<Name extends string> extends CallOptions {
  /**
   * A cursor, from a page of records, from a change, or from `onCursor`. Default: from now on. `earliest`: everything that is
   * kept.
   */
  since?: string;
  /** Default: all entities. */
  entities?: readonly Name[];
  events?: readonly RecordEventType[];
  /** A condition on the fields of one entity. */
  filters?: string;
  /** The slug of a view, whose entity and conditions apply. */
  view?: string;
  /** Shows updates that move a record in or out of the selection as `record.entered` and `record.left`. */
  transitions?: boolean;
}

export interface FollowOptions<Name extends string> extends ChangeOptionsOf<Name> {
  /** The most changes of one request, 1 to 1,000; default 100. */
  limit?: number;
  /** Seconds that a request waits for a change, 0 to 30; default 20. */
  wait?: number;
  /**
   * Called with the cursor to continue from, whenever everything before it has been taken, even if there was no change. The
   * first call has the cursor of the beginning.
   */
  onCursor?: (cursor: string) => void;
}

interface About {
  /** The cursor to continue from after this change. */
  cursor: string;
  id: string;
  /** The time of the change, in ISO 8601. */
  at: string;
  triggered_by: string;
  /** The id of the user or credential that made the change; null for the service itself. */
  actor: string | null;
}

type RecordChange<Schema> = {
  [Name in NameOf<Schema>]: About & { entity: Name; record_id: string; version: number } & (
      | { event: 'record.created' | 'record.updated' | 'record.entered'; data: Stored<Schema, Name> }
      | { event: 'record.deleted' | 'record.left'; data: { id: string } }
    ) & { erased?: { at: string; by: string | null } };
}[NameOf<Schema>];

/** Earlier reads may be outdated: read again. */
type Invalidation = About & { record_id: null; version: null } & (
    | { event: 'definition.changed'; entity: string; data: { entity: string } }
    | { event: 'rights.changed'; entity: null; data: object }
  );

export type Change<Schema> = RecordChange<Schema> | Invalidation;

interface ChangesPage<Schema> {
  items: Change<Schema>[];
  nextCursor: string;
  hasMore: boolean;
}

const FEED = '/api/changes';
const WAIT_S = 20;
/** How long a response may take after the end of the wait. */
const SPARE_MS = 30_000;

/** A cursor that misses nothing from now on. */
export async function cursorNow(transport: Transport, signal: AbortSignal | undefined): Promise<string> {
  const answer = await transport.request<{ nextCursor: string }>('GET', FEED, {
    signal,
    retries: Number.POSITIVE_INFINITY,
  });
  return answer.data.nextCursor;
}

export async function* followChanges<Schema>(
  transport: Transport,
  { since, signal, timeoutMs, wait = WAIT_S, onCursor, ...selection }: FollowOptions<NameOf<Schema>>,
): AsyncGenerator<Change<Schema>, void, undefined> {
  let cursor = since || (await cursorNow(transport, signal));
  if (!since) onCursor?.(cursor);
  for (;;) {
    const { data } = await transport.request<ChangesPage<Schema>>('GET', FEED, {
      query: { ...selection, since: cursor, wait },
      signal,
      timeoutMs: timeoutMs ?? wait * 1_000 + SPARE_MS,
      retries: Number.POSITIVE_INFINITY,
    });
    for (const item of data.items) {
      signal?.throwIfAborted();
      yield item;
    }
    cursor = data.nextCursor;
    onCursor?.(cursor);
  }
}
