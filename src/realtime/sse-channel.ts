// One SSE connection: a bounded queue that the client's socket empties by pulling, one chunk at a time. The events in the queue are shared
// with the tenant's other connections, so only the chunk in transit is memory of this connection. A client that reads may fall behind in a
// burst, up to a limit. A client that does not read gets an error and is disconnected: BACKPRESSURE when too many events are queued,
// IDLE_TIMEOUT when it has not read for too long.
// Times are milliseconds. Nothing here throws. Contract: interface#sse, decisions#sse.
import { giveWay } from '../runtime/event-loop.ts';
import type { Reader, SharedBytes, WaitingBytes } from './waiting-bytes.ts';

/** An event as bytes; its number on the connection goes between head and tail. */
export interface SseFrame extends SharedBytes {
  head: Uint8Array;
  tail: Uint8Array;
}

interface SseChannelOptions {
  /** The bytes that wait for the tenant's connections. */
  waiting: WaitingBytes;
  maxQueued: number;
  idleTimeoutMs: number;
  /** Called with the number of bytes that the client takes. */
  onSent(bytes: number): void;
  /** Called when a client that does not read is disconnected. */
  onSlowReader?(): void;
  /** Called exactly once, when the connection has ended or failed. */
  onEnd(): void;
}

/** Bytes handed to the socket at once: the runtime buffers them for a client that does not read. */
const CHUNK_BYTES = 65_536;
/** A client over the limit is checked at this interval, and fails after this many checks in a row without a read. */
const CHECK_MS = 50;
const CHECKS = 5;
/** A client that reads may queue this many times the limit. */
const BURST_FACTOR = 50;
/** How long a client may take to read the last bytes: at a normal end, and after an error. */
const END_GRACE_MS = 4_000;
const FAIL_GRACE_MS = 15_000;
const RETRY_MS = 3_000;

const encoder = new TextEncoder();
const MESSAGES = {
  BACKPRESSURE: 'too many events are waiting to be read',
  IDLE_TIMEOUT: 'nothing was read for too long',
};

export function sseFrame(type: string, data: unknown): SseFrame {
  const head = encoder.encode(`event: ${type}\nid: `);
  const tail = encoder.encode(`\ndata: ${JSON.stringify(data)}\n\n`);
  return { head, tail, size: head.length + tail.length, holders: 0 };
}

export class SseChannel implements Reader {
  readonly ownBytes = 0;
  readonly stream: ReadableStream<Uint8Array>;
  readonly #options: SseChannelOptions;
  #queue: SseFrame[] = [];
  #waitingBytes = 0;
  /** The rest of a partly sent event. */
  #rest: Uint8Array | undefined;
  #number = 0;
  #state: 'open' | 'closing' | 'ended' = 'open';
  #resume: (() => void) | undefined;
  #makeRoom: (() => void) | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #pulledAt = performance.now();
  /** Distinguishes a slow reader from a client that does not read. */
  #pulls = 0;
  /** 0 while the queue is within its limit. */
  #checksLeft = 0;
  #isReleased = false;
  #idle: ReturnType<typeof setTimeout>;
  #grace: ReturnType<typeof setTimeout> | undefined;

  constructor(options: SseChannelOptions) {
    this.#options = options;
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: (controller) => this.#pull(controller),
        cancel: () => this.#finish(),
      },
      { highWaterMark: 0 },
    );
    this.#idle = setTimeout(() => this.#checkIdle(), options.idleTimeoutMs);
    options.waiting.readers.add(this);
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  send(frame: SseFrame): void {
    if (this.#state !== 'open') return;
    this.#push(frame);
    this.#resume?.();
    const { maxQueued } = this.#options;
    if (this.#queue.length > maxQueued * BURST_FACTOR) this.fail('BACKPRESSURE');
    else if (this.#queue.length > maxQueued) this.#watchSlowReader();
  }

  /** When the client last read something, by `performance.now()`. */
  get takenAt(): number {
    return this.#pulledAt;
  }

  /** Resolves when at most this many events and bytes wait, or when the connection has ended. */
  async room(events: number, bytes: number): Promise<void> {
    while (this.#state === 'open' && (this.#queue.length > events || this.#waitingBytes > bytes)) {
      await new Promise<void>((resolve) => {
        this.#makeRoom = resolve;
      });
    }
  }

  /**
   * Disconnects a client that holds memory for which others wait. In the middle of a large event, the error could only come after the rest
   * of the event, which would be kept until the client reads it. So the connection ends at once, and the client drops the incomplete event.
   */
  cut(): void {
    if (this.#state !== 'open') return;
    if (this.#rest === undefined) this.fail('BACKPRESSURE');
    else {
      this.#options.onSlowReader?.();
      this.#abort();
    }
  }

  /** Drops the queue, sends the error, and ends the connection. */
  fail(code: keyof typeof MESSAGES): void {
    if (this.#state !== 'open') return;
    this.#options.onSlowReader?.();
    // A partly sent event is sent to its end.
    this.#drop({ keptEvents: this.#rest === undefined ? 0 : 1 });
    this.#push(sseFrame('error', { type: 'error', code, message: MESSAGES[code] }));
    this.#close(FAIL_GRACE_MS);
    this.#release();
  }

  /** Ends the connection once the queue is sent. */
  end(): void {
    if (this.#state === 'open') this.#close(END_GRACE_MS);
  }

  #close(graceMs: number): void {
    this.#state = 'closing';
    this.#makeRoom?.();
    clearTimeout(this.#idle);
    this.#grace = setTimeout(() => this.#abort(), graceMs);
    this.#resume?.();
  }

  #abort(): void {
    this.#controller?.error(new Error('the client does not read'));
    this.#finish();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#pulledAt = performance.now();
    this.#pulls++;
    while (this.#queue.length === 0 && this.#state === 'open') {
      await new Promise<void>((resolve) => {
        this.#resume = resolve;
      });
      this.#resume = undefined;
    }
    // The reads of many connections follow each other without a turn of the event loop.
    await giveWay();
    if (this.#isEnded) return;
    if (this.#queue.length > 0) {
      const chunk = this.#chunk();
      this.#options.onSent(chunk.byteLength);
      controller.enqueue(chunk);
      this.#pulledAt = performance.now();
      return;
    }
    controller.close();
    this.#finish();
  }

  get #isEnded(): boolean {
    return this.#state === 'ended';
  }

  #push(frame: SseFrame): void {
    this.#queue.push(frame);
    this.#waitingBytes += frame.size;
    this.#options.waiting.hold(frame);
  }

  #shift(): void {
    const frame = this.#queue.shift();
    if (frame === undefined) return;
    this.#waitingBytes -= frame.size;
    this.#options.waiting.release(frame);
    this.#makeRoom?.();
  }

  /** Drops the whole queue in one step: thousands of events of hundreds of connections may be dropped in the same turn. */
  #drop({ keptEvents }: { keptEvents: number }): void {
    for (const frame of this.#queue.splice(keptEvents)) {
      this.#waitingBytes -= frame.size;
      this.#options.waiting.release(frame);
    }
    this.#makeRoom?.();
  }

  /** The next numbered events of the queue, or a part of a large one. */
  #chunk(): Uint8Array {
    const parts: Uint8Array[] = [];
    if (this.#number === 0) parts.push(encoder.encode(`retry: ${RETRY_MS}\n\n`));
    let room = CHUNK_BYTES;
    for (let frame = this.#queue[0]; frame !== undefined && room > 0; frame = this.#queue[0]) {
      if (this.#rest === undefined) parts.push(frame.head, encoder.encode(String(++this.#number)));
      const bytes = this.#rest ?? frame.tail;
      parts.push(bytes.subarray(0, room));
      this.#rest = bytes.length > room ? bytes.subarray(room) : undefined;
      room -= bytes.length + frame.head.length;
      if (this.#rest === undefined) this.#shift();
    }
    return joined(parts);
  }

  /** Checks repeatedly: one check may fail because this process was too busy to serve a read. */
  #watchSlowReader(): void {
    if (this.#checksLeft > 0) return;
    this.#checksLeft = CHECKS;
    this.#checkReader(this.#pulls);
  }

  #checkReader(before: number): void {
    setTimeout(() => {
      const hasRead = this.#pulls !== before;
      this.#checksLeft = hasRead ? CHECKS : this.#checksLeft - 1;
      if (this.#state !== 'open' || this.#queue.length <= this.#options.maxQueued) this.#checksLeft = 0;
      else if (this.#checksLeft === 0) this.fail('BACKPRESSURE');
      else this.#checkReader(this.#pulls);
    }, CHECK_MS);
  }

  #checkIdle(): void {
    // While the queue is empty, only the next heartbeat resets the time.
    const remainingMs = this.#pulledAt + this.#options.idleTimeoutMs - performance.now();
    if (remainingMs <= 0) this.fail('IDLE_TIMEOUT');
    else this.#idle = setTimeout(() => this.#checkIdle(), remainingMs);
  }

  #finish(): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#drop({ keptEvents: 0 });
    this.#rest = undefined;
    clearTimeout(this.#idle);
    clearTimeout(this.#grace);
    this.#resume?.();
    this.#release();
  }

  #release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#options.waiting.readers.delete(this);
    this.#options.onEnd();
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
