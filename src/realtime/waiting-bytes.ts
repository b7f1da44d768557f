// The bytes of a tenant's events that wait in this process for the tenant's connections to read them. An event is serialized once and
// shared by the streams that queue it, so it counts once; bytes that a socket buffers count for each socket. When too many bytes wait,
// delivery to the tenant pauses (backpressure), and then the connections that hold the most are disconnected.
// Contract: neighbours#fair-shares, decisions#sse.
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';

/** A piece of an event that several queues may hold. */
export interface SharedBytes {
  readonly size: number;
  /** How many queues hold it. */
  holders: number;
}

/** A connection that events wait for. */
export interface Reader {
  /** Bytes in its queue. */
  readonly waitingBytes: number;
  /** Bytes that only this connection holds. */
  readonly ownBytes: number;
  /** Disconnects it as too slow. */
  cut(): void;
}

const CHECK_MS = 50;
const CHECKS = 5;
const { waitingBytes: MAX } = LIMITS.events;

export class WaitingBytes {
  readonly readers = new Set<Reader>();
  #shared = 0;

  added(reader: Reader): this {
    this.readers.add(reader);
    return this;
  }

  hold(bytes: SharedBytes): void {
    if (bytes.holders++ === 0) this.#shared += bytes.size;
  }

  release(bytes: SharedBytes): void {
    if (--bytes.holders === 0) this.#shared -= bytes.size;
  }

  get total(): number {
    let total = this.#shared;
    for (const { ownBytes } of this.readers) total += ownBytes;
    return total;
  }

  /** Resolves when there is room for another event; disconnects readers if necessary. */
  async makeRoom(): Promise<void> {
    for (let i = 0; i < CHECKS && this.total > MAX; i++) await delay(CHECK_MS);
    if (this.total <= MAX) return;
    for (const reader of [...this.readers].sort((a, b) => b.waitingBytes - a.waitingBytes)) {
      await giveWay();
      if (this.total <= MAX) return;
      reader.cut();
    }
  }
}
