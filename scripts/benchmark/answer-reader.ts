// Finds the end and the status of each HTTP/1.1 response in the bytes of a socket. Requests are never pipelined.
// Supports Content-Length and chunked bodies; anything else is an error.
// This is the load generator's hot path, where a full parser would distort the figures.

const HEAD_END = Buffer.from('\r\n\r\n');
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

/** `push` takes received bytes and returns the status of the response that they complete, or 0. */
export class AnswerReader {
  #held: Buffer | null = null;
  #status = 0;
  /** Bytes of the body still to come; -1 when it is chunked. Valid while `#status` is set. */
  #missing = 0;

  push(data: Buffer): number {
    if (this.#status !== 0) return this.#body(data);
    const bytes = this.#held ? Buffer.concat([this.#held, data]) : data;
    const end = bytes.indexOf(HEAD_END);
    if (end < 0) {
      this.#held = Buffer.from(bytes);
      return 0;
    }
    this.#held = null;
    this.#head(bytes.toString('latin1', 0, end).toLowerCase());
    return this.#body(bytes.subarray(end + HEAD_END.length));
  }

  #head(head: string): void {
    this.#status = Number(head.slice(9, 12));
    const at = head.indexOf('\r\ncontent-length:');
    if (at >= 0) this.#missing = Number.parseInt(head.slice(at + 17), 10);
    else if (head.includes('\r\ntransfer-encoding: chunked')) this.#missing = -1;
    else throw new Error(`an answer without a length: ${head}`);
  }

  #body(data: Buffer): number {
    if (this.#missing < 0) return this.#chunks(data);
    this.#missing -= data.length;
    return this.#missing <= 0 ? this.#complete() : 0;
  }

  /** Keeps the last bytes, because the terminating chunk may be split across two reads. */
  #chunks(data: Buffer): number {
    const bytes = this.#held ? Buffer.concat([this.#held, data]) : data;
    if (bytes.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) return this.#complete();
    this.#held = Buffer.from(bytes.subarray(-LAST_CHUNK.length));
    return 0;
  }

  #complete(): number {
    const status = this.#status;
    this.#status = 0;
    this.#held = null;
    return status;
  }
}
