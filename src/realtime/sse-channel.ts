// One Server-Sent Events connection: a queue that the client's socket empties by pulling. All that waits
// goes out as one chunk. A client that takes nothing is told so and disconnected: BACKPRESSURE with too
// many events waiting, IDLE_TIMEOUT after too long. One that reads may fall behind in a burst, up to a bound.
// Times are milliseconds. Nothing here throws. Contract: interface#sse, decisions#sse.

/** An event as bytes, but for its number on the connection, which stands between the two. */
export interface SseFrame {
  head: Uint8Array;
  tail: Uint8Array;
}

export interface SseChannelOptions {
  maxQueued: number;
  idleTimeoutMs: number;
  /** Called exactly once, when the connection is over or given up, whoever ended it. */
  onEnd(): void;
}

/**
 * How often is looked at a client with too much waiting, and how many looks in a row it may take nothing before it is
 * given up.
 */
const CHECK_MS = 50;
const CHECKS = 5;
/** How many times the limit a client may fall behind while it reads. */
const BURST_FACTOR = 50;
/** How long a client has to take the last bytes; longer for one that has fallen behind and is to be told so. */
const GRACE_MS = 4_000;
const LINGER_MS = 15_000;
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
  /** Chunks handed over: what tells a slow reader from one that does not read. */
  #pulls = 0;
  /** Looks left before it is given up; 0 while there is nothing to judge. */
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

  /** Drops what waits, says why, and ends the connection. */
  fail(code: keyof typeof MESSAGES): void {
    if (this.#state !== 'open') return;
    this.#queue = [sseFrame('error', { type: 'error', code, message: MESSAGES[code] })];
    this.#close(LINGER_MS);
    this.#release();
  }

  /** Ends the connection after what waits. */
  end(): void {
    if (this.#state === 'open') this.#close(GRACE_MS);
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

  /** Everything that waits, numbered. */
  #chunk(): Uint8Array {
    const frames = this.#queue;
    this.#queue = [];
    const parts: Uint8Array[] = [];
    if (this.#number === 0) parts.push(encoder.encode(`retry: ${RETRY_MS}\n\n`));
    for (const { head, tail } of frames) parts.push(head, encoder.encode(String(++this.#number)), tail);
    return joined(parts);
  }

  /** Looks several times: where this process itself was too busy to hand anything over, that is one look only. */
  #watchSlowReader(): void {
    if (this.#checksLeft > 0) return;
    this.#checksLeft = CHECKS;
    this.#checkReader(this.#pulls);
  }

  #checkReader(before: number): void {
    setTimeout(() => {
      const hasTaken = this.#pulls !== before;
      this.#checksLeft = hasTaken ? CHECKS : this.#checksLeft - 1;
      if (this.#state !== 'open' || this.#queue.length <= this.#options.maxQueued) this.#checksLeft = 0;
      else if (this.#checksLeft === 0) this.fail('BACKPRESSURE');
      else this.#checkReader(this.#pulls);
    }, CHECK_MS);
  }

  #checkIdle(): void {
    // A pull that waits for something to hand over means that all was taken; only a heartbeat resets the clock then.
    const left = this.#pulledAt + this.#options.idleTimeoutMs - performance.now();
    if (left <= 0) this.fail('IDLE_TIMEOUT');
    else this.#idle = setTimeout(() => this.#checkIdle(), left);
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
