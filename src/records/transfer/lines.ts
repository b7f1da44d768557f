// Splits a body of any size into records, in constant memory. A record is a line, or in CSV several: a line feed inside quotes
// does not end it. Its number is the number of its first line, from 1. A record that is too long, is not UTF-8 or has an
// unclosed quote is reported, and reading continues with the next.
import { LIMITS } from '../../limits.ts';

/** A record's text without its line end, or its problem; `bytes` is its length in the body, `item` its position in an array. */
export type Line = { line: number; bytes: number; item?: number } & ({ text: string } | { problem: string });

const LINE_FEED = 0x0a;
const QUOTE = 0x22;
const CARRIAGE_RETURN = 0x0d;
const BYTE_ORDER_MARK = '\u{feff}';
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export class LineReader {
  readonly #isCsv: boolean;
  /** The bytes of the current record so far. The buffer is reused; each record copies its text out of it. */
  #held = new Uint8Array(0);
  #bytes = 0;
  #inQuotes = false;
  /** The current line, and the first line of the current record. */
  #at = 1;
  #start = 1;

  constructor(
    isCsv: boolean,
    private readonly lineBytesMax: number = LIMITS.transfer.lineBytesMax,
  ) {
    this.#isCsv = isCsv;
  }

  /** The records that end in this chunk, without empty lines. */
  push(chunk: Uint8Array): Line[] {
    const lines: Line[] = [];
    let from = 0;
    let at = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, at)) {
      this.#countQuotes(chunk.subarray(at, end));
      at = end + 1;
      this.#at += 1;
      if (this.#inQuotes) continue;
      this.#take(chunk.subarray(from, at));
      from = at;
      this.#finish(lines);
    }
    this.#countQuotes(chunk.subarray(at));
    if (from < chunk.length) this.#take(chunk.subarray(from));
    return lines;
  }

  /** The last record, once the body has ended. */
  end(): Line[] {
    const lines: Line[] = [];
    if (this.#inQuotes) lines.push({ line: this.#start, bytes: this.#bytes, problem: 'a quote is not closed' });
    else this.#finish(lines);
    return lines;
  }

  #countQuotes(part: Uint8Array): void {
    if (!this.#isCsv) return;
    for (let at = part.indexOf(QUOTE); at >= 0; at = part.indexOf(QUOTE, at + 1)) this.#inQuotes = !this.#inQuotes;
  }

  #take(part: Uint8Array): void {
    this.#bytes += part.length;
    if (this.#bytes > this.lineBytesMax) return;
    if (this.#bytes > this.#held.length) {
      const larger = new Uint8Array(Math.min(2 * this.#bytes, this.lineBytesMax));
      larger.set(this.#held.subarray(0, this.#bytes - part.length));
      this.#held = larger;
    }
    this.#held.set(part, this.#bytes - part.length);
  }

  #finish(lines: Line[]): void {
    const read = this.#read();
    if (!('text' in read) || read.text !== '') lines.push({ line: this.#start, bytes: this.#bytes, ...read });
    this.#bytes = 0;
    this.#start = this.#at;
  }

  #read(): { text: string } | { problem: string } {
    const { lineBytesMax } = this;
    if (this.#bytes > lineBytesMax) return { problem: `is longer than ${lineBytesMax} bytes` };
    const bytes = this.#held;
    let end = this.#bytes;
    if (bytes[end - 1] === LINE_FEED) end -= 1;
    if (bytes[end - 1] === CARRIAGE_RETURN) end -= 1;
    try {
      const text = utf8.decode(bytes.subarray(0, end));
      return { text: this.#start === 1 && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text };
    } catch {
      return { problem: 'is not valid UTF-8' };
    }
  }
}
