// Saves a download as a file. The file appears under its name only when it is complete: an aborted download leaves nothing that
// looks complete. Links are followed; anything but a regular file, such as a device or a pipe, is written to directly. The new
// file has no permission that the file it replaces did not have. Sizes are bytes.
// Failures: those of the disk and of the connection; what was written so far is removed.
import { createWriteStream } from 'node:fs';
import { realpath, rename, rm, stat } from 'node:fs/promises';
import process from 'node:process';
import { pipeline } from 'node:stream/promises';
import type { Call } from './call.ts';
import { UsageError } from './failures.ts';
import { counted, startProgress } from './progress.ts';

/** Writes a file that appears under its name only when it is complete; resolves to its size. */
export async function saveTo(
  { output }: Call,
  path: string,
  body: AsyncIterable<Uint8Array>,
  mode = 0o666,
): Promise<number> {
  const target = await targetOf(path);
  const part = target === null ? path : `${target.file}.${process.pid}.part`;
  const progress = await startProgress(output, null);
  let bytes = 0;
  const count = (length: number): void => {
    bytes += length;
    progress.add(length);
  };
  // Always creates a new file: an existing one may be a link planted by someone else, or readable by others.
  const file = createWriteStream(part, { mode: mode & (target?.mode ?? mode), flags: target === null ? 'w' : 'wx' });
  try {
    await pipeline(counted(body, count), file);
    if (target !== null) await rename(part, target.file);
    return bytes;
  } catch (error) {
    const isOwn = target !== null && (error as NodeJS.ErrnoException).code !== 'EEXIST';
    if (isOwn) await rm(part, { force: true });
    throw error;
  } finally {
    progress.stop();
  }
}

/** The regular file that exists or will be created, and the most that its mode may allow; null for anything else. */
async function targetOf(path: string): Promise<{ file: string; mode: number } | null> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (found === null) return { file: path, mode: 0o666 };
  if (found.isDirectory()) throw new UsageError(`${path} is a directory`);
  return found.isFile() ? { file: await realpath(path), mode: found.mode } : null;
}
