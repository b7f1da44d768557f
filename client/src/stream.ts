// One connection to the event stream, read from the body of a fetch: `EventSource` cannot send headers and does not report
// refusals. The reader sets the pace: the service waits for a slow reader.
// Contract: interface#sse, feed#resume.
import { type ConnectOptions, type RawEvent, tenantOf, ticketFor } from './connection.ts';
import { opensStreams } from './credential.ts';
import { ConnectionError } from './errors.ts';
import type { Transport } from './transport.ts';
import { Deadline } from './waiting.ts';

/** The members of a message; an event that is not of a record has its members beside `type`. */
interface StreamMessage {
  id: string;
  type: string;
  timestamp: string;
  tenant: string;
  cursor: string;
  entity?: string | null;
  record_id?: string | null;
  data?: { fields?: object; id?: string };
  message?: string;
}

/** The most characters of a message; a record has at most about a million. */
const MESSAGE_MAX = 8_000_000;

export async function* streamEvents(
  transport: Transport,
  wanted: ConnectOptions,
): AsyncGenerator<RawEvent, void, undefined> {
  const { signal, cursors, silenceMs, onOpen, timeoutMs: _, ...selection } = wanted;
  const silence = new Deadline(signal);
  const isDirect = opensStreams(await transport.credential());
  const slug = encodeURIComponent(await tenantOf(transport, signal));
  const ticket = isDirect ? undefined : await ticketFor(transport, wanted);
  const response = await transport.fetch('GET', `/api/v1/tenants/${slug}/events/stream`, {
    query: { ...selection, since: cursors.get(''), ticket },
    headers: { Accept: 'text/event-stream' },
    signal: silence.signal,
    isOpen: !isDirect,
    // Not repeated here, because the next try needs another ticket.
    retries: 0,
  });
  if (response.body === null) throw new ConnectionError('the event stream has no body');
  for await (const { event, data } of messagesIn(response.body, silence, silenceMs)) {
    if (event === 'connected') onOpen();
    else if (event === 'error') throw new ConnectionError(`the service ended the stream: ${data.message}`);
    else if (event !== 'heartbeat') yield streamEvent(data);
  }
}

function streamEvent({ type, entity = null, record_id: id = null, data, cursor, ...message }: StreamMessage): RawEvent {
  if (id === null || !type.startsWith('record.')) {
    const { id: _, timestamp: __, tenant: ___, ...further } = message;
    const about = entity === null ? further : { ...further, entity };
    return { event: type, entity, record_id: null, data: about, cursor };
  }
  const isGone = type === 'record.deleted' || type === 'record.left';
  return { event: type, entity, record_id: id, data: isGone ? { id } : { id, ...data?.fields }, cursor };
}

/** The messages of a stream; fails when nothing has come for `silenceMs` while the caller waits for one. */
async function* messagesIn(
  body: ReadableStream<Uint8Array>,
  silence: Deadline,
  silenceMs: number,
): AsyncGenerator<{ event: string; data: StreamMessage }, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      silence.set(silenceMs);
      const { done, value } = await reader.read();
      silence.clear();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
      rest = blocks.pop() ?? '';
      if (rest.length > MESSAGE_MAX) throw new Error('a message without an end');
      for (const block of blocks) {
        const message = messageIn(block);
        if (message !== null) yield message;
      }
    }
  } catch (error) {
    const reason = silence.isOver ? `silent for ${silenceMs} ms` : String(error);
    throw new ConnectionError(`the event stream was lost: ${reason}`, { cause: error });
  } finally {
    silence.abort();
  }
}

function messageIn(block: string): { event: string; data: StreamMessage } | null {
  const members = new Map(
    block.split(/\r?\n/).map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1).trimStart()] as const;
    }),
  );
  const [event, data] = [members.get('event'), members.get('data')];
  if (event === undefined || data === undefined) return null;
  const message: unknown = JSON.parse(data);
  if (typeof message !== 'object' || message === null) throw new Error('a message that is no object');
  return { event, data: message as StreamMessage };
}
