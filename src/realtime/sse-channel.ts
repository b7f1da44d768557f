// One SSE connection: a bounded queue that the client's socket empties by pulling; the whole queue is sent as one
// chunk. A client that reads may fall behind in a burst, up to a limit. One that does not read gets an error and is
// disconnected: BACKPRESSURE when too many events are queued, IDLE_TIMEOUT when it has not read for too long.
// Times are milliseconds. Nothing here throws. Contract: interface#sse, decisions#sse.

/** An event as bytes; its number on the connection goes between head and tail. */
export interface SseFrame {
  head: Uint8Array;
  tail: Uint8Array;
}

interface SseChannelOptions {
  maxQueued: number;
  idleTimeoutMs: number;
  /** Called exactly once, when the connection has ended or failed. */
  onEnd(): void;
}

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
  return {
    head: encoder.encode(`event: ${type}\nid: `),
    tail: encoder.encode(`\ndata: ${JSON.stringify(data)}\n\n`),
  };
}

export class SseChannel {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #options: SseChannelOptions;
  #queue: SseFrame[] = [];
  #number = 0;
  #state: 'open' | 'closing' | 'ended' = 'open';
  #resume: (() => void) | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #pulledAt = performance.now();
  /** Tells a slow reader from one that does not read. */
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
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  send(frame: SseFrame): void {
    if (this.#state !== 'open') return;
    this.#queue.push(frame);
    this.#resume?.();
    const { maxQueued } = this.#options;
    if (this.#queue.length > maxQueued * BURST_FACTOR) this.fail('BACKPRESSURE');
    else if (this.#queue.length > maxQueued) this.#watchSlowReader();
  }

  /** Drops the queue, sends the error, and ends the connection. */
  fail(code: keyof typeof MESSAGES): void {
    if (this.#state !== 'open') return;
    this.#queue = [sseFrame('error', { type: 'error', code, message: MESSAGES[code] })];
    this.#close(FAIL_GRACE_MS);
    this.#release();
  }

  /** Ends the connection once the queue is sent. */
  end(): void {
    if (this.#state === 'open') this.#close(END_GRACE_MS);
  }

  #close(graceMs: number): void {
    this.#state = 'closing';
    clearTimeout(this.#idle);
    this.#grace = setTimeout(() => {
      this.#controller?.error(new Error('the client does not read'));
      this.#finish();
    }, graceMs);
    this.#resume?.();
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
    if (this.#state === 'ended') return;
    if (this.#queue.length > 0) {
      controller.enqueue(this.#chunk());
      this.#pulledAt = performance.now();
      return;
    }
    controller.close();
    this.#finish();
  }

  /** The whole queue, numbered. */
  #chunk(): Uint8Array {
    const frames = this.#queue;
    this.#queue = [];
    const parts: Uint8Array[] = [];
    if (this.#number === 0) parts.push(encoder.encode(`retry: ${RETRY_MS}\n\n`));
    for (const { head, tail } of frames) parts.push(head, encoder.encode(String(++this.#number)), tail);
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
    this.#queue = [];
    clearTimeout(this.#idle);
    clearTimeout(this.#grace);
    this.#resume?.();
    this.#release();
  }

  #release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
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
