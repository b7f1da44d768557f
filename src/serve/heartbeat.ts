// Notices a worker process that does not answer: its event loop is stuck for ever, or it is stopped. It is asked every few
// seconds. How long it has not answered is counted in the supervisor's own ticks, not by the clock, so that the time in which the
// machine was suspended, or the supervisor stopped, does not count. A worker that answers within the limit is only slow.
// Times are milliseconds. Contract: decisions#configuration.

const TICK_MS = 1_000;
/** More than any pause of a process that goes on: long collections of garbage, or a machine without memory. */
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

  /** Begins to ask. A worker that does not listen yet answers too, as long as it may wait for its database. */
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

  /** One tick; a late one, after the supervisor itself was stopped, counts as much as any. Asks again after an answer only. */
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
