// Large bodies, handed to the server in pieces as their reader takes them. Bytes that have been taken are released; bytes that
// have not count for their tenant (src/runtime/unread-responses.ts).
// Contract: neighbours#byte-budgets.
import { LIMITS } from '../limits.ts';
import { slices } from '../runtime/slices.ts';
import { type Unread, unreadResponses } from '../runtime/unread-responses.ts';
import { bodyOf, withStream } from './reply.ts';

/** How much the runtime buffers of a body whose client reads nothing. */
const PIECE_BYTES = 65_536;

/** The response. A large one is counted for this share until its reader has taken it; `onCut` is called if it is aborted. */
export function asRead(response: Response, share: string, onCut: () => void): Response {
  const body = bodyOf(response);
  if (body === undefined || body.bytes < LIMITS.response.unreadFrom) return response;
  return withStream(
    response,
    streamOf(body.chunks, async () => undefined, { share, onCut }),
  );
}

/**
 * A stream in which `expand` replaces each event. A large result is counted until the reader has taken it, and the next one is
 * made only then.
 */
export function expandedAsRead(
  events: ReadableStream<Uint8Array>,
  expand: (event: Uint8Array) => readonly Uint8Array[],
  share: string,
  onCut: () => void,
): ReadableStream<Uint8Array> {
  const reader = events.getReader();
  const ended = (): void => void reader.cancel().catch(() => undefined);
  const next = async (): Promise<readonly Uint8Array[] | undefined> => {
    const { done, value } = await reader.read();
    return done ? undefined : expand(value);
  };
  return streamOf([], next, { share, onCut, ended });
}

interface Reading {
  share: string;
  /** Called when the response is aborted. */
  onCut: () => void;
  /** Also called when the reader has gone. */
  ended?: () => void;
}

/**
 * A stream of these chunks, then of the chunks that `next` makes, until it makes none. It holds nothing else ahead of its
 * reader.
 */
function streamOf(
  first: readonly Uint8Array[],
  next: () => Promise<readonly Uint8Array[] | undefined>,
  { share, onCut, ended = () => {} }: Reading,
): ReadableStream<Uint8Array> {
  let left: Uint8Array[] = [];
  let unread: Unread | undefined;
  const end = (): void => {
    left = [];
    if (unread !== undefined) unreadResponses.taken(share, unread);
    ended();
  };
  const load = (chunks: readonly Uint8Array[], controller: ReadableStreamDefaultController<Uint8Array>): void => {
    left = chunks.flatMap((chunk) => [...slices(chunk, PIECE_BYTES)]);
    const bytes = left.reduce((sum, { length }) => sum + length, 0);
    const cut = (): void => {
      end();
      onCut();
      controller.error(new Error('the reader took too little'));
    };
    unread = bytes < LIMITS.response.unreadFrom ? undefined : unreadResponses.add(share, bytes, cut);
  };
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => load(first, controller),
      async pull(controller) {
        while (left.length === 0) {
          const chunks = await next();
          if (chunks === undefined) return controller.close();
          load(chunks, controller);
        }
        const piece = left.shift() as Uint8Array;
        if (unread !== undefined) unreadResponses.taken(share, unread, piece.length);
        controller.enqueue(piece);
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
