// Large bodies, handed to the server in pieces as their reader takes them. What has been taken is released, and what has
// not is counted for its tenant (src/runtime/unread-responses.ts).
// Contract: neighbours#byte-budgets.
import { LIMITS } from '../limits.ts';
import { type Unread, unreadResponses } from '../runtime/unread-responses.ts';
import { bodyOf, withStream } from './reply.ts';

/** The response; a large one is counted for this share until its reader has taken it. `onCut` is called if it is given up. */
export function asRead(response: Response, share: string, onCut: () => void): Response {
  const body = bodyOf(response);
  if (body === undefined || body.bytes < LIMITS.response.unreadFrom) return response;
  return withStream(response, streamOf(body.chunks, body.bytes, share, onCut));
}

/** Holds nothing ahead of its reader. */
function streamOf(
  chunks: readonly Uint8Array[],
  bytes: number,
  share: string,
  onCut: () => void,
): ReadableStream<Uint8Array> {
  const left = [...chunks];
  let unread: Unread;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        unread = unreadResponses.add(share, bytes, () => {
          left.length = 0;
          onCut();
          controller.error(new Error('the reader took too little'));
        });
      },
      pull(controller) {
        const chunk = left.shift();
        if (chunk === undefined) return controller.close();
        unreadResponses.taken(share, unread, chunk.length);
        controller.enqueue(chunk);
        if (left.length === 0) controller.close();
      },
      cancel() {
        left.length = 0;
        unreadResponses.taken(share, unread);
      },
    },
    { highWaterMark: 0 },
  );
}
