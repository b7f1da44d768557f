// A pool of connections. Calls borrow them in the order of a fair queue, with a deadline. Broken connections are replaced on demand.
// While the database is down, one connection attempt is made every 250 ms; calls wait through the first two seconds of an outage and
// are then rejected at once until an attempt succeeds. connection.ts says why the driver's own pool is not used. All times are
// milliseconds. Contract: neighbours#fair-shares.
import { setTimeout as delay } from 'node:timers/promises';
import { clientGone, unavailable } from '../../errors.ts';
import { expireWaiting, Semaphore, WATCH_MS } from '../concurrency.ts';
import { FairQueue } from '../fair-queue.ts';
import type { Share, Ticket } from '../fair-share.ts';
import { areOthersActive, currentWork, isStrangers, STRANGERS, type Work } from '../work.ts';
import { Connection } from './connection.ts';
import { Connections, NO_HOME, type Wish } from './connections.ts';
import { connectionLost } from './failures.ts';
import { Lease } from './lease.ts';
import { LongStatements, YIELDED } from './long-statements.ts';
import { Outage } from './outage.ts';
import type { PoolOptions, PoolStats, PoolWaiter, Statement } from './pool-options.ts';
import { newWaiter, turnOf } from './pool-options.ts';
import { tooMany } from './turns.ts';

const OPERATOR_CONNECTIONS = 1;
const TICK_MS = WATCH_MS;
const MIN_RUN_MS = 900;
/** How often a call that waits for a suitable connection looks again. */
const RECHECK_MS = 10;
/** On an idle connection, a call that it does not suit is put back behind the calls that it suits, by this much used time. */
const UNSUITED_MS = 50;

export class Pool {
  readonly #options: PoolOptions;
  readonly #connections: Connections;
  readonly #queue: FairQueue<PoolWaiter>;
  /** Strangers wait here first, in turn by network or by the tenant that they name, before all of them wait as one share. */
  readonly #strangers: Semaphore;
  readonly #leases = new Map<Lease, Ticket<PoolWaiter>>();
  readonly #long = new LongStatements();
  #opening = 0;
  readonly #outage: Outage;
  #closed = false;
  #lastTickAt = 0;
  #clock: ReturnType<typeof setInterval> | undefined;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#outage = new Outage(options.name, options.log);
    this.#queue = new FairQueue({
      slots: options.max,
      operatorSlots: OPERATOR_CONNECTIONS,
      shareWaitingMax: options.shareWaitingMax,
      long: { ...options.long, areOthersActive, wake: () => this.#dispatch() },
    });
    this.#strangers = new Semaphore({
      slots: Math.max(1, options.max >> 1),
      operatorSlots: 0,
      shareWaitingMax: options.shareWaitingMax,
      waitMs: options.timeoutMs,
    });
    this.#connections = new Connections(options.hasProcess ? options.max : 0, options.max + OPERATOR_CONNECTIONS);
  }

  /**
   * Lends a connection to `call`, which runs `statement`, or several statements. Rejects with 503 when no connection becomes free in
   * time, and with `TurnYielded` when a statement that may yield has given up its turn.
   */
  async lease<T>(call: (lease: Lease) => Promise<T>, statement?: Statement): Promise<T> {
    const work = currentWork();
    const wish = this.#connections.wishOf(work, statement?.text);
    if (!isStrangers(work.share)) return this.#lease(work, wish, call, statement);
    const leave = await this.#strangers.enter(work);
    try {
      return await this.#lease(work, wish, call, statement);
    } finally {
      leave();
    }
  }

  /** Lends this same connection again, to a call of a tenant or of the service; rejects with 503 once it is broken. */
  async leaseAgain<T>(only: Connection, call: (lease: Lease) => Promise<T>): Promise<T> {
    const work = currentWork();
    return this.#lease(work, { ...this.#connections.wishOf(work), home: NO_HOME, only }, call);
  }

  async #lease<T>(work: Work, wish: Wish, call: (lease: Lease) => Promise<T>, statement?: Statement): Promise<T> {
    if (work.isGone) throw clientGone();
    if (wish.only?.broken === true) throw connectionLost();
    const waiter = newWaiter(work, wish, statement, this.#options.timeoutMs);
    const ticket = this.#enter(waiter);
    const connection = waiter.connection ?? (await turnOf(waiter));
    const lease = new Lease(connection, work, this.#options.timeoutMs);
    this.#leases.set(lease, ticket);
    connection.deadlineAt = Math.max(waiter.expiresAt, Date.now() + MIN_RUN_MS);
    try {
      return await call(lease);
    } catch (error) {
      throw lease.errorFor(error);
    } finally {
      const settled = lease.settled();
      if (settled !== undefined) await settled;
      this.#end(lease, ticket);
    }
  }

  /** The waiting calls, the longest wait first: how long each has waited, and the only connection that it can use, if any. */
  waiting(): { ms: number; only: Connection | undefined }[] {
    const now = Date.now();
    const waiting = [...this.#queue.waiting()].map(({ item }) => ({ ms: now - item.enteredAt, only: item.wish.only }));
    return waiting.sort((a, b) => b.ms - a.ms);
  }

  /** Long calls that hold a connection. */
  get longRunning(): number {
    return this.#queue.longRunning;
  }

  stats(): PoolStats {
    const { size, idle } = this.#connections;
    return { size, inUse: size - idle, waiting: this.#queue.length + this.#strangers.waiting };
  }

  /** Rejects new calls, waits up to `graceMs` for those in flight, then closes every connection. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    this.#rejectWaiting(unavailable('the service is stopping'));
    const until = Date.now() + graceMs;
    while (this.#connections.size > this.#connections.idle && Date.now() < until) await delay(10);
    clearInterval(this.#clock);
    clearTimeout(this.#later);
    for (const connection of [...this.#connections]) connection.fail(unavailable('the service is stopping'));
  }

  /** Queues a call, and starts the calls that may start. */
  #enter(waiter: PoolWaiter): Ticket<PoolWaiter> {
    const now = waiter.enteredAt;
    if (this.#closed) throw unavailable('the service is stopping');
    const { share, isOperator } = waiter.work;
    const isLong = this.#long.isLong(share, waiter.statement?.text);
    const ticket = this.#queue.enter(isStrangers(share) ? STRANGERS : share, isOperator, waiter, isLong);
    if (ticket === null) throw unavailable('too many of your calls are waiting for the database; send fewer at once');
    this.#dispatch();
    if (this.#connections.lacks(waiter.wish.home) && !this.#outage.isOn) void this.#open(now, waiter.wish.home);
    if (ticket.state !== 'waiting') return ticket;
    if (this.#outage.isRejecting(now)) {
      this.#queue.end(ticket, 0);
      throw this.#outage.error();
    }
    if (!this.#queue.isAtLimit(ticket)) this.#grow(now);
    return ticket;
  }

  /** Gives idle connections to the calls whose turn it is. A call waits a little for a connection that suits it. */
  #dispatch(): void {
    const connections = this.#connections;
    if (connections.idle === 0 || this.#queue.length === 0) return;
    const now = performance.now();
    const { locks, long: { throttle } = {} } = this.#options;
    let isPatient = false;
    const postponement = (waiter: PoolWaiter, { name, running }: Share<PoolWaiter>): number => {
      const { wish, enteredAt } = waiter;
      if (throttle?.isResting(name, now) !== true && locks.admits(waiter, now)) {
        if (connections.suited(wish, running, now) !== undefined) return 0;
        if (wish.only !== undefined) return Number.POSITIVE_INFINITY;
        if (Date.now() - enteredAt >= connections.patienceMs) return UNSUITED_MS;
      }
      isPatient = true;
      return Number.POSITIVE_INFINITY;
    };
    while (connections.idle > 0 && this.#queue.length > 0) {
      const ticket = this.#queue.start(postponement);
      if (ticket === undefined) break;
      const waiter = ticket.item;
      locks.take(waiter);
      waiter.connection = connections.take(waiter.wish, ticket.share.running - 1, now);
      waiter.connection.serverCache.addTenant(waiter.work.tenantId);
      waiter.resolve(waiter.connection);
    }
    if (isPatient) this.#dispatchLater();
  }

  #dispatchLater(): void {
    this.#later ??= setTimeout(() => {
      this.#later = undefined;
      this.#dispatch();
    }, RECHECK_MS);
  }

  #end(lease: Lease, ticket: Ticket<PoolWaiter>): void {
    const { connection, statementMs } = lease;
    const { work, statement } = ticket.item;
    const { owner, name } = ticket.share;
    this.#leases.delete(lease);
    this.#options.locks.give(ticket.item);
    const now = performance.now();
    const heldMs = now - lease.startedAt;
    const ownMs = lease.hasYielded ? YIELDED : heldMs - (this.#options.long?.delayMs() ?? 0);
    if (work.tenantId !== null) this.#long.ended(work.share, statement?.text, ownMs);
    this.#queue.end(ticket, heldMs);
    this.#options.long?.throttle.passed(now);
    if (areOthersActive(owner)) this.#options.long?.throttle.ran(owner, name, heldMs, now);
    work.statementMs += statementMs;
    if (work.tenantId !== null) this.#options.onStatements(work.tenantId, statementMs);
    connection.deadlineAt = 0;
    this.#release(connection);
  }

  #release(connection: Connection): void {
    const isUsedUp = connection.serverCache.isFull && connection.cursors === 0;
    if (connection.broken || isUsedUp) this.#retire(connection);
    else {
      this.#connections.release(connection, performance.now());
      this.#dispatch();
    }
  }

  #retire(connection: Connection): void {
    this.#connections.remove(connection);
    if (!connection.broken) connection.end();
    this.#grow(Date.now());
  }

  /** Opens a connection for each call that could start; one at a time while the database is down. */
  #grow(now: number): void {
    while (!this.#closed && !this.#connections.isFull && this.#queue.startable > this.#opening) {
      if (this.#outage.isTooEarly(now) || (this.#outage.isOn && this.#opening > 0)) return;
      void this.#open(now);
    }
  }

  async #open(now: number, home?: number): Promise<void> {
    const connection = new Connection(this.#options, (broken) => this.#remove(broken));
    connection.deadlineAt = now + this.#options.connectTimeoutMs;
    this.#connections.add(connection, performance.now(), home);
    this.#opening++;
    this.#startClock(now);
    try {
      await connection.open();
      this.#opening--;
      this.#onOpened(connection);
    } catch (error) {
      this.#opening--;
      connection.fail(error);
      if (this.#outage.failed(error)) this.#rejectWaiting(this.#outage.error());
    }
  }

  #onOpened(connection: Connection): void {
    this.#outage.ended();
    connection.deadlineAt = 0;
    this.#release(connection);
    this.#grow(Date.now());
  }

  #remove(connection: Connection): void {
    this.#connections.remove(connection);
    this.#rejectWaiting(connectionLost(), connection);
    this.#grow(Date.now());
  }

  /** Rejects the calls that wait, or those that wait for this connection. */
  #rejectWaiting(error: unknown, only?: Connection): void {
    for (const ticket of this.#queue.waiting()) {
      if (only !== undefined && ticket.item.wish.only !== only) continue;
      this.#queue.end(ticket, 0);
      ticket.item.reject(error);
    }
  }

  #startClock(now: number): void {
    if (this.#clock) return;
    this.#lastTickAt = now;
    this.#clock = setInterval(() => this.#tick(Date.now()), TICK_MS);
    this.#clock.unref?.();
  }

  /** Enforces deadlines. After a stall of the event loop, replies may be waiting unread: that tick is skipped. */
  #tick(now: number): void {
    const stalled = now - this.#lastTickAt > 10 * TICK_MS;
    this.#lastTickAt = now;
    if (stalled) return;
    for (const connection of [...this.#connections]) {
      if (connection.deadlineAt === 0 || connection.deadlineAt > now) continue;
      this.#options.log.warn('the database missed a deadline', { pool: this.#options.name });
      connection.fail(unavailable('the database took too long to answer'));
    }
    const watchedAt = performance.now();
    for (const [lease, ticket] of this.#leases) {
      const heldMs = watchedAt - lease.startedAt;
      if (heldMs < WATCH_MS) continue;
      this.#queue.charge(ticket, heldMs);
      lease.watch(now, this.#options.cancel);
    }
    // Connections without a server process of their own have nothing that could be cancelled.
    const yielding = this.#options.hasProcess ? tooMany(this.#leases, this.#queue, watchedAt) : [];
    for (const lease of yielding) lease.yieldTurn(this.#options.cancel);
    expireWaiting(this.#queue, now, 'no database connection became free in time');
    this.#dispatch();
    this.#grow(now);
  }
}
