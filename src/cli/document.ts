// Saves the document of a tenant to a file as it arrives. Its last line, which has the counts of lines, shows that it is
// complete. An incomplete document leaves no file.
// Sizes are bytes.

import type { Call } from './call.ts';
import { Failure } from './failures.ts';
import { saveTo } from './save.ts';

export interface Saved {
  file: string;
  bytes: number;
  counts: Record<string, number>;
}

/** The last line is short; a longer one is not the last line of a document. */
const END_BYTES = 16_384;
const PRIVATE = 0o600;

/** Writes the document to a file that only its owner can read, or to standard output for `-`. */
export async function saveDocument(call: Call, document: AsyncIterable<Uint8Array>, out: string): Promise<Saved> {
  const end = new End();
  const body = end.watch(document);
  if (out === '-') {
    await call.output.copy(body);
    return { file: out, bytes: end.bytes, counts: end.counts() };
  }
  const bytes = await saveTo(call, out, body, PRIVATE);
  return { file: out, bytes, counts: end.counts() };
}

class End {
  bytes = 0;
  #last = new Uint8Array();

  async *watch(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of body) {
      this.bytes += chunk.byteLength;
      this.#last = Buffer.concat([this.#last, chunk]).subarray(-END_BYTES);
      yield chunk;
    }
    // Checks this before the file gets its name.
    this.counts();
  }

  counts(): Record<string, number> {
    const line = new TextDecoder().decode(this.#last).trimEnd().split('\n').at(-1) ?? '';
    try {
      const { type, counts } = JSON.parse(line) as { type?: string; counts?: Record<string, number> };
      if (type === 'end' && counts !== undefined) return counts;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
    throw new Failure('the document has broken off before its end', 'run it again; nothing was kept');
  }
}
