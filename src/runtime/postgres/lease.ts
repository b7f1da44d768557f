// A connection lent to a call. Each statement has its own deadline, and a transaction has one for all its statements. A call is
// stopped when its client has disconnected, when its transaction is past its deadline, or when it gives up its turn, to be run again
// later: its running statement is cancelled on the server, and no further one starts. The connection is not used again before a
// cancellation has settled, so that it cannot hit a later statement. Times are milliseconds.
// Contract: neighbours#fair-shares.
import { clientGone, ServiceError, unavailable } from '../../errors.ts';
import { isGone, type Work } from '../work.ts';
import type { Batch, Connection, RunOptions } from './connection.ts';

/** Rows as the driver returns them. */
type Rows = Awaited<ReturnType<Connection['run']>>;

/** The call has given up its turn to others and has changed nothing: it must be run again. */
export class TurnYielded extends ServiceError {
  constructor() {
    super('SERVICE_UNAVAILABLE', 'the call has to wait for others');
  }
}

export class Lease {
  readonly startedAt = performance.now();
  readonly #busyMsBefore: number;
  #endsAt = Number.POSITIVE_INFINITY;
  #isInTransaction = false;
  #isCommitting = false;
  /** The reader stopped before the end of the rows. */
  #isLeft = false;
  #stopped: 'gone' | 'late' | 'yielded' | undefined;
  #cancelling: Promise<void> | undefined;

  constructor(
    readonly connection: Connection,
    readonly work: Work,
    private readonly timeoutMs: number,
  ) {
    this.#busyMsBefore = connection.busyMs;
  }

  /** Time that the lease's statements have taken. */
  get statementMs(): number {
    return this.connection.busyMs - this.#busyMsBefore;
  }

  /** Runs one statement with bound values; see `Connection.run`. */
  async run(text: string, parameters: unknown[], options: RunOptions = {}): Promise<Rows> {
    if (this.#mustStop()) await this.#stop();
    if (!this.#isInTransaction) this.connection.setPlans(options.plans ?? 'by values');
    return this.connection.run(text, parameters, options);
  }

  /** Begins a transaction. */
  async begin(): Promise<void> {
    if (this.#mustStop()) await this.#stop();
    this.connection.setPlans('by values');
    this.#isInTransaction = true;
    return this.connection.exec('begin');
  }

  /**
   * The rows of a statement without values, in batches of about this many bytes; see `Connection.batches`. Has no deadline while
   * a batch is being read. When the reader ends early, the statement is cancelled. The lease may end while the last batch is
   * being read.
   */
  async *batches(text: string, batchBytes: number): AsyncGenerator<Batch> {
    if (this.#mustStop()) await this.#stop();
    const { connection } = this;
    const batches = connection.batches(text, batchBytes);
    let last: Batch | undefined;
    try {
      while (last === undefined) {
        this.extendDeadline();
        const { value, done } = await batches.next();
        if (done === true) return;
        connection.deadlineAt = 0;
        if (!connection.isBusy) last = value;
        else yield value;
      }
    } finally {
      this.#isLeft = connection.isBusy;
      if (this.#isLeft) this.extendDeadline();
      await batches.return(undefined);
      // The next statement of the lease is another one.
      this.#isLeft = false;
    }
    yield last;
  }

  /** Runs several statements without values in one round trip. */
  async exec(text: string): Promise<void> {
    if (this.#mustStop()) await this.#stop();
    return this.connection.exec(text);
  }

  /** Restarts the deadline of a statement. */
  extendDeadline(): void {
    this.connection.deadlineAt = Date.now() + this.timeoutMs;
  }

  /** Sets the time within which the whole transaction must end. */
  limitTransaction(ms: number): void {
    this.#endsAt = Date.now() + ms;
  }

  /** Commits; from here on, nothing stops the call. */
  async commit(): Promise<void> {
    if (this.#mustStop()) await this.#stop();
    this.#isCommitting = true;
    this.extendDeadline();
    await this.connection.exec('commit');
  }

  /** Rolls back, or closes the connection if that fails, which makes the server roll back. */
  async rollback(): Promise<void> {
    await this.settled();
    if (this.connection.broken) return;
    this.extendDeadline();
    try {
      await this.connection.exec('rollback');
    } catch (error) {
      this.connection.fail(unavailable('a transaction could not be rolled back', error));
    }
  }

  /** Resolves when no cancellation is on its way to the server; undefined if none was sent. */
  settled(): Promise<void> | undefined {
    return this.#cancelling;
  }

  /** Stops the call when its client has disconnected or its transaction is late. `cancel` cancels the running statement. */
  watch(now: number, cancel: (pid: number) => Promise<void>): void {
    if (this.#stopped !== undefined || this.#isCommitting) return;
    if (this.#isLeft || isGone(this.work)) this.#stopped = 'gone';
    else if (now >= this.#endsAt) this.#stopped = 'late';
    else return;
    if (this.connection.isBusy) this.#cancelling = cancel(this.connection.pid);
  }

  /** Cancels the call's only statement, so that the call gives up its turn. */
  yieldTurn(cancel: (pid: number) => Promise<void>): void {
    if (this.#stopped !== undefined || !this.connection.isBusy) return;
    this.#stopped = 'yielded';
    this.#cancelling = cancel(this.connection.pid);
  }

  get hasYielded(): boolean {
    return this.#stopped === 'yielded';
  }

  /** The error of a stopped call, else the error itself. */
  errorFor(error: unknown): unknown {
    return this.#stopped === undefined ? error : this.#stopError();
  }

  #stopError(): unknown {
    if (this.#stopped === 'gone') return clientGone();
    if (this.#stopped === 'yielded') return new TurnYielded();
    return unavailable('the call took too long in one transaction and was undone; split it into smaller calls');
  }

  #mustStop(): boolean {
    if (this.#endsAt !== Number.POSITIVE_INFINITY && Date.now() >= this.#endsAt) this.#stopped ??= 'late';
    return this.#stopped !== undefined;
  }

  async #stop(): Promise<never> {
    await this.settled();
    throw this.#stopError();
  }
}
