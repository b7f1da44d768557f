// The start of a receiver's response as text, for the log of attempts: whole characters that take at most
// LIMITS.webhook.responseTextBytes in UTF-8, and that Postgres can store. Bytes beyond that are never kept.
// Contract: decisions#webhook-requests.
import { LIMITS } from '../../limits.ts';

const { responseTextBytes } = LIMITS.webhook;
const encoder = new TextEncoder();

export class ResponseStart {
  /** Memory of its own: that of a chunk may be much larger, or be used again. */
  #kept: Uint8Array | null = null;
  #size = 0;

  /** Adds the bytes from `start` to `end`. */
  add(bytes: Uint8Array, start = 0, end = bytes.length): void {
    const size = Math.min(end - start, responseTextBytes - this.#size);
    if (size <= 0) return;
    this.#kept ??= new Uint8Array(responseTextBytes);
    this.#kept.set(bytes.subarray(start, start + size), this.#size);
    this.#size += size;
  }

  /** Null when there were no bytes. */
  text(): string | null {
    if (this.#kept === null || this.#size === 0) return null;
    // `stream` leaves out a character that is cut off.
    const decoder = new TextDecoder();
    const decoded = decoder.decode(this.#kept.subarray(0, this.#size), { stream: true }).replaceAll('\0', '\ufffd');
    // Bytes that are not valid UTF-8 have become longer.
    const { read } = encoder.encodeInto(decoded, new Uint8Array(responseTextBytes));
    return decoded.slice(0, read);
  }
}
