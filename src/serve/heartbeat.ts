// Notices a worker process that does not answer, because its event loop is stuck for ever or the process is stopped. It asks the
// worker every few seconds. It counts the silence in the supervisor's own ticks, not by the clock, so time in which the machine was
// suspended, or the supervisor stopped, does not count. A worker that answers within the limit is only slow.
// Times are milliseconds. Contract: decisions#configuration.

const TICK_MS = 1_000;
/** Longer than any pause of a healthy process, such as a long garbage collection or a machine that is out of memory. */
const SILENT_MS = 30_000;

export class Heartbeat {
  #silentMs = 0;
  #isWaiting = false;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** `ask` sends a heartbeat; `onSilent` is called once. */
  constructor(
    private readonly ask: () => void,
    private readonly onSilent: (silentMs: number) => void,
  ) {}

  /** Starts to ask. A worker that does not listen yet, because it waits for its database, answers too. */
  start(): void {
    this.#timer ??= setInterval(() => this.tick(), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** The worker has answered. */
  answered(): void {
    this.#silentMs = 0;
    this.#isWaiting = false;
  }

  /** One tick. A late tick, after the supervisor itself was stopped, counts like any other. Asks again only after an answer. */
  tick(): void {
    if (!this.#isWaiting) {
      this.#isWaiting = true;
      this.ask();
      return;
    }
    this.#silentMs += TICK_MS;
    if (this.#silentMs < SILENT_MS) return;
    this.stop();
    this.onSilent(this.#silentMs);
  }
}
