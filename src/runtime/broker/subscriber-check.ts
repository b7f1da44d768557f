// Checks whether published messages reach this process. It asks Redis a few times a second, on the connection that brings the
// messages, since a connection that was lost without a FIN brings nothing and reports nothing. An answer comes after all messages that
// were published before the question. It counts questions, not milliseconds: while the event loop is stalled, none is asked or
// answered.
// Contract: decisions#changes-of-rights.

const EVERY_MS = 200;
/** When a question stays unanswered for this many rounds, messages may have been published without reaching this process. */
const UNANSWERED_MAX = 2;

export class SubscriberCheck {
  #isOpen = false;
  #isAsking = false;
  #unanswered = 0;
  #isStopped = false;
  readonly #timer: ReturnType<typeof setInterval>;

  /** `ping` is null while there is no connection; `onLost` is called when it was not answered. */
  constructor(
    private readonly ping: () => Promise<unknown> | null,
    private readonly onLost: (error: unknown) => void,
  ) {
    this.#timer = setInterval(() => void this.#ask(), EVERY_MS);
    this.#timer.unref?.();
  }

  isReceiving(): boolean {
    return this.#isOpen && this.#unanswered < UNANSWERED_MAX;
  }

  /** The connection is open and subscribed, and the reset handlers have run. */
  begin(): void {
    this.#isOpen = true;
  }

  /** The connection is down. */
  end(): void {
    this.#isOpen = false;
  }

  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#timer);
  }

  async #ask(): Promise<void> {
    if (this.#isAsking) {
      this.#unanswered++;
      return;
    }
    const asked = this.ping();
    if (asked === null) return;
    this.#isAsking = true;
    try {
      await asked;
    } catch (error) {
      this.end();
      if (!this.#isStopped) this.onLost(error);
    } finally {
      this.#isAsking = false;
      this.#unanswered = 0;
    }
  }
}
