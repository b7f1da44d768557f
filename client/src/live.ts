// Events of the tenant as they are committed, as an endless sequence over an event stream or a WebSocket. When the connection
// ends, a new one continues after the last event that was taken, and misses or repeats nothing. Records come as the channel
// sends them; for whole records and older changes use the feed.
// Failures: a permanent failure ends it with an `ApiError`.
import { type ChangeOptionsOf, cursorNow, type RecordEventType } from './changes.ts';
import type { Connect } from './connection.ts';
import { ApiError, ConnectionError } from './errors.ts';
import type { NameOf, Stored, SystemKey } from './schema.ts';
import { socketEvents } from './socket.ts';
import { streamEvents } from './stream.ts';
import { isPassing, type Retry, type Transport } from './transport.ts';
import { backOffMs, pause } from './waiting.ts';

export interface LiveOptions<Name extends string> extends ChangeOptionsOf<Name> {
  /** Default: `sse`, an event stream. A WebSocket needs the names of 1 to 10 entities. */
  transport?: 'sse' | 'websocket';
  /** A connection that is silent for this long is given up, in milliseconds; default 60,000. */
  silenceMs?: number;
  /** Called when every later event will be delivered, after each new connection too. */
  onOpen?: () => void;
  /** Called when the connection is lost; the next one is tried after a pause. */
  onRetry?: (retry: Retry) => void;
}

/** An event of a record; `data` has the record's own fields that the credential may see. */
type RecordEvent<Schema> = {
  [Name in NameOf<Schema>]: { cursor: string; entity: Name; record_id: string } & (
    | {
        event: 'record.created' | 'record.updated' | 'record.entered';
        data: { id: string } & Partial<Omit<Stored<Schema, Name>, SystemKey>>;
      }
    | { event: 'record.deleted' | 'record.left'; data: { id: string } }
  );
}[NameOf<Schema>];

/** Another event, such as `rights.changed` (read again), `rule.failed` or `quota.warning`. */
interface OtherEvent {
  cursor: string;
  event: Exclude<`${'rights' | 'definition' | 'rule' | 'message' | 'quota' | 'webhook'}.${string}`, RecordEventType>;
  entity: string | null;
  record_id: null;
  data: { [member: string]: unknown };
}

export type LiveEvent<Schema> = RecordEvent<Schema> | OtherEvent;

const SILENCE_MS = 60_000;

export async function* liveEvents<Schema>(
  transport: Transport,
  {
    transport: channel = 'sse',
    since,
    silenceMs = SILENCE_MS,
    onOpen,
    onRetry,
    ...selection
  }: LiveOptions<NameOf<Schema>>,
): AsyncGenerator<LiveEvent<Schema>, void, undefined> {
  const { signal, entities = [] } = selection;
  const isSocket = channel === 'websocket';
  if (isSocket && entities.length === 0) throw new TypeError('a WebSocket needs `entities`');
  // Always starts from a cursor, so that events during a reconnection are not missed.
  const start = since || (await cursorNow(transport, signal));
  const cursors = new Map(isSocket ? entities.map((name) => [name, start]) : [['', start]]);
  const connect: Connect = isSocket ? socketEvents : streamEvents;
  let failures = 0;
  const opened = (): void => {
    failures = 0;
    onOpen?.();
  };
  for (;;) {
    let error: Error = new ConnectionError('the connection has ended');
    try {
      for await (const event of connect(transport, { ...selection, cursors, silenceMs, onOpen: opened })) {
        if (event.cursor) cursors.set(isSocket ? (event.entity ?? '') : '', event.cursor);
        yield event as LiveEvent<Schema>;
      }
    } catch (cause) {
      signal?.throwIfAborted();
      if (!isPassing(cause)) throw cause;
      error = cause;
    }
    signal?.throwIfAborted();
    const waitMs = backOffMs(failures++, error instanceof ApiError ? error.retryAfterMs : null);
    (onRetry ?? transport.options.onRetry)?.({ error, waitMs, attempt: failures });
    await pause(waitMs, signal);
  }
}
