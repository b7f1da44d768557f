// The start of a receiver's response as text, for the log of attempts: whole characters that take at most
// LIMITS.webhook.responseTextBytes in UTF-8, and that Postgres can store. Bytes beyond that are never kept.
// Contract: decisions#webhook-requests.
import { LIMITS } from '../../limits.ts';

const { responseTextBytes } = LIMITS.webhook;
const encoder = new TextEncoder();

export class ResponseStart {
  readonly #chunks: Uint8Array[] = [];
  #size = 0;

  add(chunk: Uint8Array): void {
    const room = responseTextBytes - this.#size;
    if (room <= 0) return;
    // A copy: the chunk's memory may be much larger, or be used again.
    const kept = Uint8Array.from(chunk.subarray(0, room));
    this.#chunks.push(kept);
    this.#size += kept.byteLength;
  }

  /** Null when there were no bytes. */
  text(): string | null {
    if (this.#size === 0) return null;
    // `stream` leaves out a character that is cut off.
    const decoded = new TextDecoder().decode(Buffer.concat(this.#chunks), { stream: true }).replaceAll('\0', '\ufffd');
    // Bytes that are not valid UTF-8 have become longer.
    const { read } = encoder.encodeInto(decoded, new Uint8Array(responseTextBytes));
    return decoded.slice(0, read);
  }
}
