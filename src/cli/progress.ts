// Progress on standard error while a person watches: a bar if the total is known, else a count. Nothing is drawn for programs,
// in a pipe, or in a log.
// Sizes are bytes.
import type { SingleBar } from 'cli-progress';
import type { Output } from './output.ts';

const MIB = 1_048_576;

export interface Progress {
  add(bytes: number): void;
  stop(): void;
}

/** Starts to show progress; `total` is null if it is unknown, as for standard input. */
export async function startProgress(output: Output, total: number | null): Promise<Progress> {
  if (!output.isWatched) return { add: () => undefined, stop: () => undefined };
  const { default: cliProgress } = await import('cli-progress');
  const bar: SingleBar = new cliProgress.SingleBar({
    format:
      total === null ? '{done} MiB  {duration_formatted}' : '{bar} {percentage}%  {done} of {all} MiB  {eta_formatted}',
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 30,
    hideCursor: true,
    etaBuffer: 100,
    stream: process.stderr,
  });
  let done = 0;
  const shown = (): object => ({ done: (done / MIB).toFixed(1), all: ((total ?? 0) / MIB).toFixed(1) });
  bar.start(total ?? Number.MAX_SAFE_INTEGER, 0, shown());
  return {
    add: (bytes) => {
      done += bytes;
      bar.update(done, shown());
    },
    stop: () => bar.stop(),
  };
}

/** Passes the bytes on, and counts them as they are consumed. */
export async function* counted(
  bytes: AsyncIterable<Uint8Array>,
  count: (length: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    yield chunk;
    count(chunk.byteLength);
  }
}
