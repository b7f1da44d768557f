// Reads the body of a response, which ends after a declared length, after its last chunk, or with the connection. The bytes are
// counted as on the wire, including the sizes and trailers of chunks. A line takes much longer to read than its bytes, so a body has
// a limited number of them.
// Failures: an invalid chunk throws the given error. Contract: decisions#webhook-requests.
import type { Buffer } from 'node:buffer';
import { LIMITS } from '../../limits.ts';
import type { ResponseStart } from './response-start.ts';

export interface Body {
  /** How many bytes come after the body; null while it is incomplete. */
  read(bytes: Buffer, said: ResponseStart): number | null;
  /** Whether the body has more lines than are read: it stays incomplete. */
  readonly isCut: boolean;
}

export class LengthBody implements Body {
  readonly isCut = false;

  constructor(private missing: number) {}

  read(bytes: Buffer, said: ResponseStart): number | null {
    const here = Math.min(bytes.length, this.missing);
    if (here > 0) said.add(bytes, 0, here);
    this.missing -= here;
    return this.missing > 0 ? null : bytes.length - here;
  }
}

export const bodyUntilClose: Body = {
  isCut: false,
  read(bytes, said) {
    said.add(bytes);
    return null;
  },
};

/** The longest line: a chunk size with its extensions, or a trailer. */
const LINE_MAX = 4_096;
const CHUNK_SIZE = /^([0-9a-f]{1,8})[\t ]?(?:;[\t\x20-\x7e\x80-\xff]*)?\r$/i;

export class ChunkedBody implements Body {
  #state: 'size' | 'data' | 'end of data' | 'trailers' = 'size';
  /** The part of a line that has arrived. */
  #line = '';
  #missing = 0;
  #linesLeft: number = LIMITS.webhook.responseLinesMax;

  constructor(private readonly invalid: () => Error) {}

  get isCut(): boolean {
    return this.#linesLeft === 0;
  }

  read(bytes: Buffer, said: ResponseStart): number | null {
    // Decoding all bytes takes 5 us, and each line by itself 1 us. What comes after the limit is not read.
    const text = bytes.toString('latin1', 0, LIMITS.webhook.responseBytes + 1);
    for (let at = 0; at < text.length && !this.isCut; ) {
      if (this.#state === 'data') {
        const end = Math.min(text.length, at + this.#missing);
        said.add(bytes, at, end);
        this.#missing -= end - at;
        if (this.#missing === 0) this.#state = 'end of data';
        at = end;
        continue;
      }
      const feed = text.indexOf('\n', at);
      const end = feed < 0 ? text.length : feed;
      if (this.#line.length + end - at > LINE_MAX) throw this.invalid();
      this.#line += text.slice(at, end);
      if (feed < 0) return null;
      at = feed + 1;
      const line = this.#line;
      this.#line = '';
      if (this.#endsWith(line)) return bytes.length - at;
      this.#linesLeft -= 1;
    }
    return null;
  }

  /** Whether the line, without its line feed, is the last. */
  #endsWith(line: string): boolean {
    if (this.#state === 'size') {
      const [, digits] = CHUNK_SIZE.exec(line) ?? [];
      if (digits === undefined) throw this.invalid();
      this.#missing = Number.parseInt(digits, 16);
      this.#state = this.#missing === 0 ? 'trailers' : 'data';
      return false;
    }
    if (this.#state === 'trailers') {
      if (!line.endsWith('\r')) throw this.invalid();
      return line === '\r';
    }
    if (line !== '\r') throw this.invalid();
    this.#state = 'size';
    return false;
  }
}
