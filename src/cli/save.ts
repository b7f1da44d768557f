// Bytes that arrive, as a file. It appears under its name only when it is complete: a cut download leaves nothing that looks whole.
// Sizes are bytes.
// Failures: those of the disk and of the connection; what was written so far is removed.
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import type { Call } from './call.ts';
import { counted, startProgress } from './progress.ts';

/** Writes a file that appears under its name only when it is complete; resolves to its size. */
export async function saveTo(
  { output }: Call,
  path: string,
  body: AsyncIterable<Uint8Array>,
  mode = 0o666,
): Promise<number> {
  const part = `${path}.part`;
  const progress = await startProgress(output, null);
  let bytes = 0;
  const file = createWriteStream(part, { mode });
  try {
    const count = (length: number): void => {
      bytes += length;
      progress.add(length);
    };
    for await (const chunk of counted(body, count)) {
      if (!file.write(chunk)) await once(file, 'drain');
    }
    file.end();
    await finished(file);
    await rename(part, path);
    return bytes;
  } catch (error) {
    file.destroy();
    await rm(part, { force: true });
    throw error;
  } finally {
    progress.stop();
  }
}
