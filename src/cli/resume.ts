// A file from a given line on: skips what was sent before an upload broke off, and keeps the header of a CSV file. Lines are
// counted as in the service's reports, from 1, header included. A line break inside quotes does not end a record, so a CSV file
// is cut only between records.
import { UsageError } from './failures.ts';

const LINE_FEED = 10;
const QUOTE = 34;

/** The bytes of a file without the lines before `first`, but with the header of CSV. */
export async function* fromLine(
  bytes: AsyncIterable<Uint8Array>,
  first: number,
  format: 'csv' | 'ndjson' | 'json',
): AsyncGenerator<Uint8Array> {
  if (first <= (format === 'csv' ? 2 : 1)) {
    yield* bytes;
    return;
  }
  if (format === 'json') throw new UsageError('--from-line needs a file of lines: CSV or NDJSON');
  let line = 1;
  let isQuoted = false;
  for await (const chunk of bytes) {
    if (line >= first && !isQuoted) {
      yield chunk;
      continue;
    }
    let from = line === 1 && format === 'csv' ? 0 : -1;
    let at = 0;
    for (; at < chunk.length && (line < first || isQuoted); at += 1) {
      if (chunk[at] === QUOTE && format === 'csv') isQuoted = !isQuoted;
      if (chunk[at] !== LINE_FEED) continue;
      line += 1;
      if (line === 2 && from >= 0) {
        yield chunk.subarray(from, at + 1);
        from = -1;
      }
    }
    if (from >= 0) yield chunk.subarray(from, at);
    if (at < chunk.length) yield chunk.subarray(at);
  }
}
