// The turns of the streams and subscriptions that read pages of the feed. Hundreds may replay from far back at once: a process
// reads few pages at a time, a tenant's on at most a quarter of the connections, so that its calls find others; and what has been read
// counts, from a budget that all tenants share, until the client has taken it. A reader that has to wait holds nothing but its cursor.
// A client that takes nothing of its page while its tenant's others wait for the bytes is disconnected: it goes on from its cursor.
// Contract: neighbours#fair-shares, decisions#sse.
import { perApp } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { FairQueue } from '../runtime/fair-queue.ts';
import { isGarbageBehind, keepGarbageSmall } from '../runtime/garbage.ts';
import { SharedBudget } from '../runtime/shared-budget.ts';
import { currentWork } from '../runtime/work.ts';

const { running: slots, bytesMax: pageBytes, heldBytes, stalledMs } = LIMITS.replay;
const WATCH_MS = 500;
/** What is received for pages while the collection of garbage does not keep up. */
const BEHIND_BYTES_PER_SECOND = 16_777_216;
const IDLE_CHECKS = 4;

/** The client that a page is read for. */
export interface PageReceiver {
  /** When it last took something, by `performance.now()`. */
  takenAt(): number;
  /** Disconnects it as too slow. */
  cut(): void;
}

/** A page that is being read, and then waits to be taken. */
export interface PageTurn {
  /** The page has been read and handed over: so many bytes were received for it, and it holds so many. */
  read(scanned: number, kept: number): void;
  /** Nothing of it is held any more. */
  end(): void;
}

interface Waiting {
  share: string;
  start(): void;
}

interface Held {
  share: string;
  bytes: number;
  since: number;
  receiver: PageReceiver;
}

export class PageTurns {
  readonly #queue = new FairQueue<Waiting>({ slots, operatorSlots: 0, shareWaitingMax: Number.POSITIVE_INFINITY });
  readonly #bytes = new SharedBudget(heldBytes);
  /** Pages that have been read. */
  readonly #held = new Set<Held>();
  /** By tenant that replays: ends the collection of its garbage. */
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

  /** Resolves when the current work may read a page; in a replay, it is known that the page is not empty. */
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
    const held: Held = { share, bytes: pageBytes, since: startedAt, receiver };
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
    // It may be called a little early.
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
    // The queue of a replay may be empty for a moment: what it has grown by must not be forgotten then.
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
