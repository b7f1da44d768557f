// Hands the data that a socket receives to the driver in parts. The driver parses all rows of one chunk in one go; a socket may
// receive half a megabyte at once, and parsing that takes up to 100 ms. Between two parts the event loop serves others, and the socket
// is not read (backpressure). Small chunks are handed on as they arrive. With TLS the driver reads the encrypted socket itself, in
// parts of 16 KiB at most.
// Contract: neighbours#fair-shares.
import type { Socket } from 'node:net';
import { giveWay } from '../event-loop.ts';
import { MessageCounter } from './message-counter.ts';

/**
 * A part ends after this many bytes, or after this many messages of the server: parsing takes as long for a row of short values as
 * for one of long values. A chunk that is one part does not wait for a turn.
 */
const PART = { bytes: 65_536, messages: 100 };

type Listener = (part: Uint8Array) => void;

export class PacedReads {
  /** The share whose turns the parts take. */
  share = 'service';
  readonly #chunks: Uint8Array[] = [];
  readonly #counter = new MessageCounter();
  #listener: Listener = () => undefined;
  #isHandingOut = false;
  #isPaused = false;
  #isClosed = false;

  /** `onPart` is called with the length of each part, before the driver gets it. */
  constructor(
    private readonly socket: Socket,
    private readonly onPart: (bytes: number) => void,
  ) {
    socket.on('data', (chunk: Uint8Array) => this.#receive(chunk));
    socket.on('close', () => {
      this.#isClosed = true;
    });
    const on = socket.on.bind(socket) as (name: string, listener: Listener) => Socket;
    const intercepted = (name: string, listener: Listener): Socket => {
      if (name !== 'data') return on(name, listener);
      this.#listener = listener;
      return socket;
    };
    socket.on = intercepted as Socket['on'];
  }

  /** Hands out nothing more until `resume`. */
  pause(): void {
    this.#isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#chunks.length > 0) void this.#handOut();
    else this.socket.resume();
  }

  /** The first part of a chunk that finds no others waiting is handed on at once. */
  #receive(chunk: Uint8Array): void {
    const isFree = this.#chunks.length === 0 && !this.#isPaused;
    const left = isFree ? this.#handPart(chunk) : chunk;
    if (left.length === 0) return;
    this.#chunks.push(left);
    void this.#handOut();
  }

  async #handOut(): Promise<void> {
    if (this.#isHandingOut) return;
    this.#isHandingOut = true;
    this.socket.pause();
    for (;;) {
      const turn = giveWay(this.share);
      if (turn !== undefined) await turn;
      if (this.#isPaused || this.#isClosed) break;
      const [chunk] = this.#chunks;
      if (chunk === undefined) break;
      const left = this.#handPart(chunk);
      if (left.length === 0) this.#chunks.shift();
      else this.#chunks[0] = left;
    }
    this.#isHandingOut = false;
    if (!this.#isPaused) this.socket.resume();
  }

  /** Hands out the first part of the chunk; returns the rest. */
  #handPart(chunk: Uint8Array): Uint8Array {
    const end = this.#counter.endOf(chunk.subarray(0, PART.bytes), PART.messages);
    this.onPart(end);
    this.#listener(chunk.subarray(0, end));
    return chunk.subarray(end);
  }
}
