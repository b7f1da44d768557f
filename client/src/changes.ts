// The feed of changes as a sequence without an end: read by long polls, resumed after every failure that can pass, nothing
// missed and nothing twice. What cannot pass (a lost right, a cursor that is too old) ends it with an `ApiError`.
// Contract: feed#the-feed, feed#guarantee, feed#long-polls.
import type { NameOf, Stored } from './schema.ts';
import type { CallOptions, Transport } from './transport.ts';

export type RecordEventType = 'record.created' | 'record.updated' | 'record.deleted' | 'record.entered' | 'record.left';

export interface ChangeOptionsOf<Name extends string> extends CallOptions {
  /** A cursor: of a page of records, of a change, or as `onCursor` gave it; missing: from now; `earliest`: all that is kept. */
  since?: string;
  /** Missing: all. */
  entities?: readonly Name[];
  events?: readonly RecordEventType[];
  /** A condition on the fields of one entity. */
  filters?: string;
  /** The slug of a view, whose entity and conditions apply. */
  view?: string;
  /** Shows updates that move a record in or out of what is followed as `record.entered` and `record.left`. */
  transitions?: boolean;
}

export interface FollowOptions<Name extends string> extends ChangeOptionsOf<Name> {
  /** Changes of one request, 1 to 1,000; default 100. */
  limit?: number;
  /** Seconds that a request waits for a change, 0 to 30; default 20. */
  wait?: number;
  /** Where to go on, whenever everything before it has been taken: also when there was no change. First of all the beginning. */
  onCursor?: (cursor: string) => void;
}

interface About {
  /** Where to go on after this change. */
  cursor: string;
  id: string;
  /** ISO 8601. */
  at: string;
  triggered_by: string;
  /** The id of who made it; null for the service itself. */
  actor: string | null;
}

type RecordChange<Schema> = {
  [Name in NameOf<Schema>]: About & { entity: Name; record_id: string; version: number } & (
      | { event: 'record.created' | 'record.updated' | 'record.entered'; data: Stored<Schema, Name> }
      | { event: 'record.deleted' | 'record.left'; data: { id: string } }
    ) & { erased?: { at: string; by: string | null } };
}[NameOf<Schema>];

/** What was read before may no longer hold: read again. */
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
/** How long after the wait an answer may take. */
const SPARE_MS = 30_000;

/** A cursor from which nothing is missed that happens from now on. */
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
