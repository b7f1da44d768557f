// The body of an export: reads rows at the pace at which the client reads lines, and keeps few of either. A failure after the
// first byte aborts the connection, so that a truncated file never looks complete. So does a reader that takes nothing for
// long, because it holds a database connection that others may be waiting for.
// Contract: decisions#export, neighbours#byte-budgets.
import { giveWay } from '../../runtime/event-loop.ts';
import { slices } from '../../runtime/slices.ts';

export interface LineWriter<Row> {
  /** The text before the first record. */
  head: string;
  /** The record, in pieces of text or of UTF-8. */
  line(row: Row): Iterable<string | Uint8Array>;
}

export interface ReaderLimits {
  /** How long a reader may take nothing, and how long it may while others wait for its connection, in milliseconds. */
  stalledMs: number;
  stalledWaitedForMs: number;
  /** Whether others wait for a connection such as this export's. */
  isWaitedFor(): boolean;
  /** Called once when the export fails. */
  onAborted(cause: unknown): void;
}

/** The reader has taken nothing for too long. */
export class ReaderStalled extends Error {}

/** Characters, or bytes, that are handed over at once. */
const CHUNK = 131_072;
const CHECK_MS = 1_000;

/** A stream that fetches batches on demand, `first` being the first one, and ends them when the client disconnects. */
export function exportStream<Row>(
  writer: LineWriter<Row>,
  batches: AsyncIterator<Row[]>,
  first: IteratorResult<Row[]>,
  limits: ReaderLimits,
): ReadableStream<Uint8Array> {
  const chunks = chunksOf(writer, batches, first);
  let waitsSince = Date.now();
  let hasEnded = false;
  let timer: ReturnType<typeof setInterval>;
  const end = async (): Promise<void> => {
    hasEnded = true;
    clearInterval(timer);
    await chunks.return(undefined);
    await batches.return?.();
  };
  const abort = async (controller: ReadableStreamDefaultController, cause: unknown): Promise<void> => {
    limits.onAborted(cause);
    controller.error(cause);
    await end();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const { stalledMs, stalledWaitedForMs } = limits;
        const check = (): void => {
          const idleMs = Date.now() - waitsSince;
          if (idleMs < stalledWaitedForMs || (idleMs < stalledMs && !limits.isWaitedFor())) return;
          void abort(controller, new ReaderStalled(`the reader took nothing for ${Math.round(idleMs / 1_000)} s`));
        };
        timer = setInterval(check, Math.min(CHECK_MS, stalledWaitedForMs));
        timer.unref?.();
      },
      async pull(controller) {
        waitsSince = Number.POSITIVE_INFINITY;
        try {
          const { done, value } = await chunks.next();
          // The client disconnected meanwhile.
          if (hasEnded) return;
          if (done === true) {
            clearInterval(timer);
            controller.close();
          } else controller.enqueue(value);
        } catch (cause) {
          await abort(controller, cause);
        }
        waitsSince = Date.now();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

async function* chunksOf<Row>(
  writer: LineWriter<Row>,
  batches: AsyncIterator<Row[]>,
  first: IteratorResult<Row[]>,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  let text = writer.head;
  for (let batch = first; batch.done !== true; batch = await batches.next()) {
    for (const row of batch.value) {
      for (const piece of writer.line(row)) {
        if (typeof piece === 'string') text += piece;
        if (typeof piece === 'string' && text.length < CHUNK) continue;
        if (text !== '') yield encoder.encode(text);
        text = '';
        if (typeof piece !== 'string') yield* slices(piece, CHUNK);
        await giveWay();
      }
    }
  }
  if (text !== '') yield encoder.encode(text);
}
