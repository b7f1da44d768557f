// The export of a list as a file: counted record by record while it comes. It goes to disk as it comes where the browser
// lets a page write files; elsewhere the browser keeps it in pieces until it is whole, up to a limit. Either way a part of
// a file never looks like all of it.
import { download } from '../../api/call.ts';
import { OfflineError } from '../../api/errors.ts';
import { saveFile } from '../../parts/save-file.ts';

/** Of a file that the browser keeps until it is whole. */
export const MOST_KEPT_BYTES = 1_073_741_824;
const PIECE_BYTES = 4 * 1_024 * 1_024;
const REPORT_MS = 100;
const LINE_FEED = 10;
const QUOTE = 34;

type Chunk = Uint8Array<ArrayBuffer>;

/** Where an export goes. */
export interface Target {
  write: (chunk: Chunk) => Promise<void>;
  /** The file is whole. */
  close: () => Promise<void>;
  /** Nothing remains. */
  abort: () => Promise<void>;
}

interface Picker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;
}

export const canWriteFiles = (): boolean => (window as Picker).showSaveFilePicker !== undefined;

/** Asks where to save, if the browser can; null when the person takes it back. Must begin with a click. */
export async function chooseTarget(name: string, type: string): Promise<Target | null> {
  const { showSaveFilePicker } = window as Picker;
  if (showSaveFilePicker === undefined) return keptFile(name, type);
  try {
    const handle = await showSaveFilePicker.call(window, { suggestedName: name });
    const file = await handle.createWritable();
    return { write: (chunk) => file.write(chunk), close: () => file.close(), abort: () => file.abort() };
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') return null;
    // A browser that is told not to let pages write files.
    return keptFile(name, type);
  }
}

/** In pieces, which the browser keeps on disk. */
function keptFile(name: string, type: string): Target {
  const pieces: Blob[] = [];
  let waiting: Chunk[] = [];
  let waitingBytes = 0;
  let bytes = 0;
  return {
    write: async (chunk) => {
      bytes += chunk.byteLength;
      waitingBytes += chunk.byteLength;
      if (bytes > MOST_KEPT_BYTES) throw new Error('The file is larger than 1 GiB, which this browser cannot keep.');
      waiting.push(chunk);
      if (waitingBytes < PIECE_BYTES) return;
      pieces.push(new Blob(waiting));
      waiting = [];
      waitingBytes = 0;
    },
    close: async () => saveFile(new Blob([...pieces, ...waiting], { type }), name),
    abort: async () => {
      pieces.length = 0;
      waiting = [];
    },
  };
}

export interface Exported {
  count: number;
  bytes: number;
}

/** `query` as the API takes it. Rejects when the connection ends early, and leaves nothing then. */
export async function exportFile(
  tenant: string,
  entity: string,
  query: Record<string, string>,
  target: Target,
  signal: AbortSignal,
  onProgress: (exported: Exported) => void,
): Promise<Exported> {
  try {
    const response = await download(`/api/entities/${entity}/records/export`, { tenant, signal, query });
    const counter = new Counter(query.format === 'csv');
    const reader = response.body?.getReader();
    let reported = 0;
    for (;;) {
      const { value, done } = (await reader?.read().catch(offline(signal))) ?? { value: undefined, done: true };
      if (done || value === undefined) break;
      counter.take(value);
      await target.write(value as Chunk);
      if (performance.now() - reported < REPORT_MS) continue;
      reported = performance.now();
      onProgress(counter.now());
    }
    signal.throwIfAborted();
    await target.close();
    return counter.now();
  } catch (cause) {
    await target.abort();
    throw cause;
  }
}

/** Counts records: lines, but for those inside the quotes of CSV. */
class Counter {
  #lines = 0;
  #bytes = 0;
  #isQuoted = false;

  constructor(private readonly isCsv: boolean) {}

  take(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength;
    for (const byte of chunk) {
      if (byte === QUOTE && this.isCsv) this.#isQuoted = !this.#isQuoted;
      else if (byte === LINE_FEED && !this.#isQuoted) this.#lines += 1;
    }
  }

  /** Without the header line of CSV. */
  now(): Exported {
    return { count: Math.max(0, this.#lines - (this.isCsv ? 1 : 0)), bytes: this.#bytes };
  }
}

function offline(signal: AbortSignal): (cause: unknown) => never {
  return (cause) => {
    if (signal.aborted) throw cause;
    throw new OfflineError();
  };
}
