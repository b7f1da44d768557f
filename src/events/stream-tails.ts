// The relay's knowledge of the tenants' live streams: the last entry of each, which the next entry names, and the bytes of the
// kept entries, so that neither one tenant's stream nor all streams together fill the broker. Readers that have not read an
// entry when it is dropped see a gap, and close. The entries of an earlier leader have unknown sizes: only as many are kept as
// surely fit.
// Contract: neighbours#fair-shares, decisions#events.
import { LIMITS } from '../limits.ts';
import { STREAM_TTL_MS } from '../runtime/broker/broker.ts';

/** How long the last entry is remembered: the broker keeps idle streams for longer. */
const LAST_ENTRY_MS = STREAM_TTL_MS / 2;
const { streamEntries, streamBytes, streamsBytes } = LIMITS.events;
/** An upper bound of an entry's bytes: two of the largest events in an entry, at three bytes a character. */
const UNKNOWN_BYTES = 6 * LIMITS.events.inlineBytes;

interface Tail {
  /** Empty until an entry has been appended. */
  id: string;
  /** The time of that entry, in ms since the epoch. */
  at: number;
  /** Bytes of the known entries, the oldest first, and of all of them. */
  sizes: number[];
  bytes: number;
  /** Whether an earlier leader may have appended entries before. */
  hasUnknown: boolean;
}

export class StreamTails {
  readonly #tails = new Map<string, Tail>();
  #bytes = 0;

  /** The bytes of all streams. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The id of the stream's last entry; undefined when it is not known. */
  lastOf(stream: string): string | undefined {
    const tail = this.#tails.get(stream);
    if (tail === undefined || tail.id === '' || Date.now() - tail.at >= LAST_ENTRY_MS) return undefined;
    return tail.id;
  }

  /** An entry of `bytes` is to be appended. Returns how many entries to keep with it. `isNew`: there are none yet. */
  add(stream: string, bytes: number, isNew: boolean): number {
    const tail = this.#tails.get(stream) ?? { id: '', at: Date.now(), sizes: [], bytes: 0, hasUnknown: !isNew };
    this.#tails.set(stream, tail);
    const { sizes } = tail;
    sizes.push(bytes);
    this.#count(tail, bytes);
    while (sizes.length > 1 && (sizes.length > streamEntries || tail.bytes > streamBytes)) {
      this.#count(tail, -(sizes.shift() ?? 0));
    }
    const unknown = tail.hasUnknown ? Math.floor(Math.max(0, streamBytes - tail.bytes) / UNKNOWN_BYTES) : 0;
    return Math.min(streamEntries, sizes.length + unknown);
  }

  /** The entry has been appended. */
  appended(stream: string, id: string): void {
    const tail = this.#tails.get(stream);
    if (tail !== undefined) Object.assign(tail, { id, at: Date.now() });
  }

  /** While all streams together are too large: the largest stream, and how many of its entries to keep. */
  *dropExcess(): Generator<{ stream: string; kept: number }> {
    while (this.#bytes > streamsBytes) {
      const now = Date.now();
      let largest: [string, Tail] | undefined;
      for (const [stream, tail] of this.#tails) {
        if (now - tail.at > STREAM_TTL_MS) this.forget(stream);
        else if (tail.bytes > (largest?.[1].bytes ?? 0)) largest = [stream, tail];
      }
      if (largest === undefined || largest[1].sizes.length < 2) return;
      const [stream, tail] = largest;
      const kept = tail.sizes.length >> 1;
      for (const size of tail.sizes.splice(0, tail.sizes.length - kept)) this.#count(tail, -size);
      tail.hasUnknown = false;
      yield { stream, kept };
    }
  }

  forget(stream: string): void {
    this.#bytes -= this.#tails.get(stream)?.bytes ?? 0;
    this.#tails.delete(stream);
  }

  clear(): void {
    this.#tails.clear();
    this.#bytes = 0;
  }

  #count(tail: Tail, bytes: number): void {
    tail.bytes += bytes;
    this.#bytes += bytes;
  }
}
