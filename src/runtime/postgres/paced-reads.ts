// Hands the data that a socket receives to the driver in parts. The driver parses all rows of one chunk in one go; a socket may
// receive half a megabyte at once, and parsing that takes up to 100 ms. Between two parts the event loop serves others, and the socket
// is not read (backpressure). Small chunks are handed on as they arrive. With TLS the driver reads the encrypted socket itself, in
// parts of 16 KiB at most.
// Contract: neighbours#fair-shares.
import type { Socket } from 'node:net';
import { giveWay } from '../event-loop.ts';

/** Bytes of a part. Parsing one takes up to 9 ms where the values are short. A smaller chunk does not wait for a turn. */
const PART_BYTES = 16_384;

type Listener = (part: Uint8Array) => void;

export class PacedReads {
  /** The share whose turns the parts take. */
  share = 'service';
  readonly #chunks: Uint8Array[] = [];
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

  #receive(chunk: Uint8Array): void {
    if (chunk.length <= PART_BYTES && this.#chunks.length === 0 && !this.#isPaused) this.#hand(chunk);
    else {
      this.#chunks.push(chunk);
      void this.#handOut();
    }
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
      if (chunk.length <= PART_BYTES) this.#chunks.shift();
      else this.#chunks[0] = chunk.subarray(PART_BYTES);
      this.#hand(chunk.subarray(0, PART_BYTES));
    }
    this.#isHandingOut = false;
    if (!this.#isPaused) this.socket.resume();
  }

  #hand(part: Uint8Array): void {
    this.onPart(part.length);
    this.#listener(part);
  }
}
