// Counts the bytes of response bodies for their tenant. A body of known length costs one addition; a streamed one is
// read through, chunk by chunk. Event streams count what they send themselves.
// Contract: neighbours#who-does-what, neighbours#usage-and-quotas.
import { bodyBytesOf } from '../http/reply.ts';
import type { TenantCounts } from '../runtime/tenant-counters.ts';

/** The response, counted in `sentBytes`: at once, or as its body is read. */
export function countSentBytes(response: Response, counts: TenantCounts): Response {
  const bytes = bodyBytesOf(response);
  if (bytes !== undefined) {
    counts.sentBytes += bytes;
    return response;
  }
  const isEventStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (isEventStream || response.body === null) return response;
  return new Response(counted(response.body, counts), response);
}

/** Counts the chunks of a body as they pass. It reads nothing ahead of the client. */
function counted(body: ReadableStream<Uint8Array>, counts: TenantCounts): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        counts.sentBytes += value.byteLength;
        controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
