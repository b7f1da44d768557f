// Counts the messages in what a Postgres server sends, in chunks that may begin and end anywhere in a message: a byte for the kind, then
// the length with its own four bytes. Source: https://www.postgresql.org/docs/15/protocol-message-formats.html.
// Other bytes, such as those of TLS, count as a few long messages.
// Contract: neighbours#fair-shares.

const HEADER_BYTES = 5;
const LENGTH_BYTES = 4;

export class MessageCounter {
  /** Of the current message: the bytes of its header that were read, its length as far as it was read, and the bytes to come. */
  #headerBytes = 0;
  #length = 0;
  #left = 0;

  /** Where the first `max` messages of the next chunk end; the whole chunk's length if there are fewer. */
  endOf(chunk: Uint8Array, max: number): number {
    let at = 0;
    for (let messages = 0; at < chunk.length && messages < max; ) {
      if (this.#headerBytes < HEADER_BYTES) this.#readHeader(chunk[at++] as number);
      if (this.#headerBytes < HEADER_BYTES) continue;
      const step = Math.min(this.#left, chunk.length - at);
      at += step;
      this.#left -= step;
      if (this.#left > 0) continue;
      this.#headerBytes = 0;
      messages++;
    }
    return at;
  }

  #readHeader(byte: number): void {
    if (this.#headerBytes > 0) this.#length = this.#length * 256 + byte;
    if (++this.#headerBytes < HEADER_BYTES) return;
    this.#left = Math.max(0, this.#length - LENGTH_BYTES);
    this.#length = 0;
  }
}
