// Events of the tenant as they are committed, as a sequence without an end, over an event stream or a WebSocket. After every
// end of the connection it goes on from the last event that was taken: nothing missed and nothing twice. Records come as the
// channel sends them; for whole records and a longer memory use the feed.
// Failures: what cannot pass ends it with an `ApiError`.
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
  /** A connection that says nothing for so long is given up, in milliseconds; default 60,000. */
  silenceMs?: number;
  /** Every later event is delivered: also called after each new connection. */
  onOpen?: () => void;
  /** The connection is lost, and the next is tried after a pause. */
  onRetry?: (retry: Retry) => void;
}

/** An event of a record; `data` has the own fields of the record that the credential may see. */
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
  // From a cursor in any case: what happens while a connection is made anew is in between.
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
