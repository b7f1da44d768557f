// The turns of the streams and subscriptions that read pages of the feed. Hundreds may replay from far back at once, so a
// process reads few pages at a time, and a tenant's replays use at most a quarter of the connections, so that its calls find
// others. Pages that have been read count against a budget of bytes, shared by all tenants, until the client has taken them. A
// waiting reader holds only its cursor. A client that takes nothing of its page while others of its tenant wait for the bytes
// is disconnected: it can resume from its cursor.
// Contract: neighbours#fair-shares, decisions#sse.
import { perApp } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { FairQueue } from '../runtime/fair-queue.ts';
import { isGarbageBehind, keepGarbageSmall } from '../runtime/garbage.ts';
import { SharedBudget } from '../runtime/shared-budget.ts';
import { currentWork } from '../runtime/work.ts';

const { running: slots, bytesMax: pageBytes, heldBytes, stalledMs } = LIMITS.replay;
const WATCH_MS = 500;
/** The rate at which pages are read while the garbage collector is behind. */
const BEHIND_BYTES_PER_SECOND = 16_777_216;
const IDLE_CHECKS = 4;

/** The client that a page is read for. */
export interface PageReceiver {
  /** When it last took something, by `performance.now()`. */
  takenAt(): number;
  /** Disconnects the client as too slow. */
  cut(): void;
}

/** A page that is being read, and then waits to be taken. */
export interface PageTurn {
  /** The page has been read and handed over: `scanned` bytes were received for it, and it holds `kept` bytes. */
  read(scanned: number, kept: number): void;
  /** The page is no longer held. */
  end(): void;
}

interface Waiting {
  share: string;
  start(): void;
}

interface HeldPage {
  share: string;
  bytes: number;
  since: number;
  receiver: PageReceiver;
}

export class PageTurns {
  readonly #queue = new FairQueue<Waiting>({ slots, operatorSlots: 0, shareWaitingMax: Number.POSITIVE_INFINITY });
  readonly #bytes = new SharedBudget(heldBytes);
  /** Pages that have been read. */
  readonly #held = new Set<HeldPage>();
  /** By replaying tenant: the function that ends the frequent garbage collection for it. */
  readonly #collecting = new Map<string, () => void>();
  #restsUntil = 0;
  #resting: ReturnType<typeof setTimeout> | undefined;
  #hasStarted = false;
  #idleChecks = 0;
  #watching: ReturnType<typeof setInterval> | undefined;

  /** Bytes of pages that are being read or wait to be taken. */
  get taken(): number {
    return this.#bytes.taken;
  }

  /** Resolves when the current work may read a page. In a replay the page is known not to be empty. */
  async next(receiver: PageReceiver, isReplay: boolean): Promise<PageTurn> {
    const { share } = currentWork();
    if (isReplay && !this.#collecting.has(share)) this.#collecting.set(share, keepGarbageSmall());
    const { promise, resolve } = Promise.withResolvers<void>();
    const ticket = this.#queue.enter(share, false, { share, start: resolve });
    if (ticket === null) throw new Error('the queue of pages is unlimited');
    this.#start();
    this.#watching ??= setInterval(() => this.#watch(), WATCH_MS);
    await promise;
    const startedAt = performance.now();
    const held: HeldPage = { share, bytes: pageBytes, since: startedAt, receiver };
    const leave = (bytes: number): void => {
      this.#queue.end(ticket, performance.now() - startedAt);
      this.#bytes.give(share, held.bytes - bytes);
      held.bytes = bytes;
      this.#start();
    };
    return {
      read: (scanned, kept) => {
        held.since = performance.now();
        if (isGarbageBehind()) this.#rest(scanned);
        if (kept > 0) this.#held.add(held);
        leave(Math.min(kept, pageBytes));
      },
      end: () => {
        this.#held.delete(held);
        leave(0);
      },
    };
  }

  /** Reads no faster than garbage is collected. */
  #rest(received: number): void {
    const now = performance.now();
    this.#restsUntil = Math.max(now, this.#restsUntil) + (received / BEHIND_BYTES_PER_SECOND) * 1_000;
    clearTimeout(this.#resting);
    // A timer may fire a little early, so the time is reset rather than compared.
    this.#resting = setTimeout(() => {
      this.#restsUntil = 0;
      this.#start();
    }, this.#restsUntil - now);
  }

  #start(): void {
    if (this.#restsUntil > 0) return;
    const whenAdmitted = ({ share }: Waiting): number =>
      this.#bytes.admits(share, pageBytes) ? 0 : Number.POSITIVE_INFINITY;
    for (let next = this.#queue.start(whenAdmitted); next !== undefined; next = this.#queue.start(whenAdmitted)) {
      this.#bytes.take(next.item.share, pageBytes);
      this.#hasStarted = true;
      next.item.start();
    }
  }

  /** Disconnects clients that keep others of their tenant waiting. */
  #watch(): void {
    const blocked = new Set<string>();
    for (const { item } of this.#queue.waiting()) {
      if (!this.#bytes.admits(item.share, pageBytes)) blocked.add(item.share);
    }
    const before = performance.now() - stalledMs;
    for (const { share, since, receiver } of [...this.#held]) {
      if (blocked.has(share) && since < before && receiver.takenAt() < before) receiver.cut();
    }
    const isBusy = this.#queue.length + this.#queue.running > 0;
    // The queue of a replay may be empty for a moment; the watching must not end then.
    this.#idleChecks = isBusy || this.#hasStarted ? 0 : this.#idleChecks + 1;
    this.#hasStarted = false;
    if (this.#idleChecks < IDLE_CHECKS) return;
    for (const end of this.#collecting.values()) end();
    this.#collecting.clear();
    clearInterval(this.#watching);
    this.#watching = undefined;
  }
}

export const pageTurnsOf = perApp(() => new PageTurns());
