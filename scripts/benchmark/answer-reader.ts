// Finds the end of HTTP/1.1 answers in what a socket delivers, one answer at a time (nothing is pipelined), and
// their status. Knows Content-Length and chunked bodies; anything else is an error.

const HEAD_END = Buffer.from('\r\n\r\n');
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

/** Feed it what arrives; it answers the status of the answer that is now complete, else 0. */
export class AnswerReader {
  #held: Buffer | null = null;
  #status = 0;
  /** Bytes of the body still to come; -1 while it is chunked; only of use while `#status` is set. */
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

  /** The last bytes are held back, since the end mark may arrive in two pieces. */
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
